"""References to artifact stores and patterns: one reading, or a refusal."""

import pytest

from federator.model import sources
from federator.model.errors import FieldError

HOSTILE = [
    "",
    "registry.example/ads",
    "ftp://registry.example/ads",
    "OCI://registry.example/ads",
    "oci:///ads",
    "oci://registry.example",
    "oci://registry.example/",
    "oci://registry.example/ads/",
    "oci://registry.example//ads",
    "oci://registry.example/ads/../feed",
    "oci://registry.example/./ads",
    "oci://registry.example/Ads",
    "oci://registry.example/ads:v1",
    "oci://registry.example/ads@sha256:00",
    "oci://registry.example/ads?x=1",
    "oci://registry.example/ads#x",
    "oci://registry.example/ads%2f..",
    "oci://user@registry.example/ads",
    "oci://user:pass@registry.example/ads",
    "oci://registry.example:0/ads",
    "oci://registry.example:65536/ads",
    "oci://registry.example:x/ads",
    "oci://Registry.example/ads",
    "oci://registry_x.example/ads",
    "oci://registry.example./ads",
    "oci://reg\u0456stry.example/ads",
    "oci://registry.example\\@evil.example/ads",
    "oci://0x7f.1/ads",
    "oci://0x7f000001/ads",
    "oci://2130706433/ads",
    "oci://127.1/ads",
    "oci://0177.0.0.1/ads",
    "oci://127.0.0.1.2/ads",
    "oci://[::1/ads",
    "oci://[fe80::1%25eth0]/ads",
    "oci://[1.2.3.4]/ads",
    "oci://::1/ads",
    "http://registry.example/ads",
    "https://artifacts.example/../ads",
    "https://artifacts.example/.hidden/ads",
    "https://artifacts.example/a b",
    "https://artifacts.example/a;b",
    "https://artifacts.example/a\n",
    "oci://registry.example/" + "a" * 512,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_with_a_second_reading_are_no_references_and_no_patterns(text: str) -> None:
    with pytest.raises(FieldError) as refusal:
        sources.reference(text, "artifact")

    assert refusal.value.path == "artifact"
    assert sources.pattern_problem(text)
    assert sources.pattern_problem(f"{text}/*") or text == "oci://registry.example"


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path"),
    [
        ("oci://registry.example/ads/serving", "oci", "registry.example", "ads/serving"),
        ("oci://10.0.0.5:5000/a", "oci", "10.0.0.5:5000", "a"),
        ("oci://[fd00::5]:5000/a__b-c.d", "oci", "[fd00::5]:5000", "a__b-c.d"),
        ("https://artifacts.example/A/b~1", "https", "artifacts.example", "A/b~1"),
        ("http://127.0.0.1:8081/a", "http", "127.0.0.1:8081", "a"),
        ("http://localhost/a", "http", "localhost", "a"),
    ],
)
def test_references_are_read_as_they_are_written(
    text: str, scheme: str, host: str, path: str
) -> None:
    ref = sources.reference(text)

    assert (ref.scheme, ref.host, ref.path, str(ref)) == (scheme, host, path, text)


@pytest.mark.parametrize(
    ("pattern", "text", "allowed"),
    [
        ("oci://registry.example/ads/*", "oci://registry.example/ads/serving", True),
        ("oci://registry.example/ads/*", "oci://registry.example/ads/a/b", True),
        ("oci://registry.example/ads/*", "oci://registry.example/ads", False),
        ("oci://registry.example/ads/*", "oci://registry.example/adsx/serving", False),
        ("oci://registry.example/ads/*", "oci://registry.example:443/ads/serving", False),
        ("oci://registry.example/ads/*", "https://registry.example/ads/serving", False),
        ("oci://registry.example/*", "oci://registry.example/x", True),
        ("oci://registry.example/*", "oci://registry.example.evil.example/x", False),
        ("oci://registry.example/ads", "oci://registry.example/ads", True),
        ("oci://registry.example/ads", "oci://registry.example/ads/serving", False),
        ("oci://*/ads", "oci://registry.example/ads", False),
        ("oci://registry.example/a*", "oci://registry.example/ads", False),
    ],
)
def test_a_pattern_allows_its_own_host_and_what_lies_below(
    pattern: str, text: str, *, allowed: bool
) -> None:
    assert sources.matches(pattern, sources.reference(text)) is allowed
