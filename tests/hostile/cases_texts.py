"""Hostile texts: what is refused before anybody asks what kind of object it is (F58, F59). YAML,
JSON, sizes, nests.
"""

import json

from tests.hostile.table import Case


def alias_bomb() -> str:
    """A billion laughs: a kilobyte that stands for 10^12 values."""
    rows = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *rows])


def merge_bomb() -> str:
    """Merge keys that double what they merge, thirty times."""
    rows = [
        f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], x{i}: {{<<: [*a{i - 1}, *a{i - 1}]}}}}"
        for i in range(1, 30)
    ]
    return "\n".join(["a0: &a0 {k: v}", *rows])


def long_key_paths() -> str:
    """Every level has a long name, so that the path of the innermost field is long too."""
    return "".join(f"{'  ' * depth}{'k' * 1000}:\n" for depth in range(70))


def _long_key() -> str:
    """If every value's path held the whole key, this would copy eighty gigabytes."""
    return "{? " + "k" * 2_000_000 + " : [" + "1," * 40_000 + f"{2**70}]}}"


LONG_KEY = "k" * 320 + "..."

TEXTS: tuple[Case, ...] = (
    Case("yaml alias bomb", "F59", alias_bomb, "a5[7]", "too many values"),
    Case("yaml merge bomb", "F59", merge_bomb, "a9.x9.<<[1]", "too many values"),
    Case("yaml nested flow lists", "F59", lambda: "[" * 900, "[0]" * 64, "deeper than 64"),
    Case(
        "yaml nested flow maps", "F59", lambda: "{a: " * 900, ".".join("a" * 64), "deeper than 64"
    ),
    Case(
        "yaml nested block lists", "F59", lambda: "- " * 20_000 + "x", "[0]" * 64, "deeper than 64"
    ),
    Case(
        "yaml nested by aliases",
        "F59",
        f"a: &a {'[' * 60}{']' * 60}\nb: {'[' * 10}*a{']' * 10}",
        "b" + "[0]" * 10,
        "deeper",
    ),
    Case(
        "yaml long names at every level",
        "F59",
        long_key_paths,
        ".".join(["k" * 320 + "..."] * 4),
        "deeper than 64",
    ),
    Case(
        "yaml a key of two megabytes over many values",
        "F59",
        _long_key,
        LONG_KEY + "[40000]",
        "64 bits",
    ),
    Case(
        "yaml tag that runs a command",
        "F59",
        "a: !!python/object/apply:os.system [touch marker]",
        "a",
        "tag",
    ),
    Case("yaml tag of a name", "F59", "a: !!python/name:os.system", "a", "tag"),
    Case("yaml binary tag", "F59", "a: !!binary aGk=", "a", "tag"),
    Case("yaml set tag", "F59", "a: !!set {x, y}", "a", "tag"),
    Case(
        "yaml duplicate key",
        "F59",
        "spec:\n  replicas: 1\n  replicas: 100",
        "spec.replicas",
        "given twice",
    ),
    Case(
        "yaml key by merge and twice",
        "F59",
        "a: &a {x: 1}\nb: {<<: *a, z: 1, z: 2}",
        "b.z",
        "given twice",
    ),
    Case("yaml key that is a list", "F59", "? [a]\n: 1", "", "key must be a text"),
    Case("yaml alias as a key", "F59", "a: &x k\n*x : 1", "", "key cannot be an alias"),
    Case("yaml alias within its anchor", "F59", "a: &x [*x]", "a[0]", "no anchor"),
    Case("yaml not a number", "F59", "spec: {replicas: .nan}", "spec.replicas", "not a number"),
    Case("yaml infinite", "F59", "spec: {replicas: -.inf}", "spec.replicas", "not a number"),
    Case("yaml 2^63", "F57", "spec: {replicas: 9223372036854775808}", "spec.replicas", "64 bits"),
    Case("yaml 300 digits", "F57", lambda: "a: " + "9" * 300, "a", "64 bits"),
    Case("yaml neither octal nor decimal", "F59", "a: 089", "a", "quotes"),
    Case("yaml NUL", "F59", "a: \x00", "", "not YAML"),
    Case("yaml tabs", "F59", "a:\n\t- b", "", "not YAML"),
    Case("yaml directive of the future", "F59", "%YAML 9.9\n---\na: 1", "", "not YAML"),
    Case("yaml a list where objects are expected", "F59", "- 1\n- 2", "", "an object is expected"),
    Case("yaml only a text", "F59", "hello", "", "an object is expected"),
    Case(
        "json duplicate key",
        "F58",
        '{"spec":{"replicas":1,"replicas":100}}',
        "spec.replicas",
        "given twice",
    ),
    Case(
        "json deep",
        "F58",
        lambda: '{"a":' * 100_000 + "1" + "}" * 100_000,
        ".".join("a" * 64),
        "deeper than 64",
    ),
    Case(
        "json in a List in a List",
        "F58",
        lambda: _lists(70),
        "items[0]." * 31 + "items[0]",
        "deeper than 64",
    ),
    Case(
        "text of 17 million characters",
        "F60",
        lambda: "# " + "x" * 17_000_000,
        "",
        "characters, at most",
    ),
)


def _lists(depth: int) -> str:
    return '{"kind":"List","items":[' * depth + "]}" * depth


JSON: tuple[Case, ...] = (
    Case("json NaN", "F58", '{"a":[{"b":NaN}]}', "a[0].b", "NaN"),
    Case("json Infinity", "F58", '{"a":-Infinity}', "a", "-Infinity"),
    Case("json 1e400", "F58", '{"a":1e400}', "a", "too large"),
    Case("json ten thousand digits", "F57", '{"a":' + "9" * 10_000 + "}", "a", "64 bits"),
    Case("json lone surrogate", "F58", '{"a":"\\ud800"}', "a", "surrogate"),
    Case("json lone surrogate in a key", "F58", '{"\\ud800":1}', "", "surrogate"),
    Case("json nested lists", "F58", lambda: "[" * 100_000, "", "deeper than 64"),
    Case("json cut off", "F58", '{"a":1', "", "not JSON"),
    Case("json with a comment", "F58", '{"a":1} // no', "", "not JSON"),
    Case(
        "json key of two megabytes over many values",
        "F58",
        lambda: json.dumps({"k" * 2_000_000: [*([1] * 40_000), 2**70]}),
        LONG_KEY + "[40000]",
        "64 bits",
    ),
    Case(
        "json a hundred thousand times the same key",
        "F58",
        lambda: "{" + '"a":1,' * 100_000 + '"a":2}',
        "a",
        "given twice",
    ),
)
"""For the reader of JSON alone: YAML takes some of these for texts."""


BYTES: tuple[Case, ...] = (
    Case("bytes that are no UTF-8", "F58", b"a: \xff\xfe"),
    Case("UTF-16 with its mark", "F58", "a: 1".encode("utf-16")),
    Case("a lone surrogate, encoded", "F58", b"a: \xed\xa0\x80"),
)
"""Files that hold no text at all; nothing but the file can be named."""

NOT_WHAT_YAML_1_1_SAYS: dict[str, tuple[str, object]] = {
    "no is false, as to kubectl": ("no", False),
    "off is false, as to kubectl": ("off", False),
    "y is a text": ("y", "y"),
    "1:30 is a text": ("1:30", "1:30"),
    "a date is a text": ("2026-01-02", "2026-01-02"),
    "a moment is a text": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    "1_000 is a number, as to kubectl": ("1_000", 1000),
    "0b11 is a number, as to kubectl": ("0b11", 3),
    "what is no float is a text": ("97000e656493", "97000e656493"),
    "a million digits are a text": ("9" * 1_000_000, "9" * 1_000_000),
    "a million hex digits are a text": ("0x" + "f" * 1_000_000, "0x" + "f" * 1_000_000),
    "Arabic digits are a text": ("١٢", "١٢"),
}
"""Scalars that other readers take for something else (F59): here they are what kubectl reads."""
