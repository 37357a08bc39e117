"""The identity of a pod: ids, when it is renewed, what a certificate must say, files that change
together. Pure, or on a folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.runtime.files import switching
from federator.runtime.identity import certificates, spiffe
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.renewal import Lifetime
from federator.runtime.identity.spiffe import NoId, SpiffeId
from federator.signer import authorities
from federator.signer.authorities import CertificateContent
from tests.unit.signer import cas

WEB = SpiffeId("prod.example", "ads", "web")
NOW_S = 1_800_000_000.0


# -- ids ----------------------------------------------------------------------


def test_an_id_is_read_as_it_is_written() -> None:
    assert spiffe.parse("spiffe://prod.example/ns/ads/sa/web") == WEB
    assert str(WEB) == "spiffe://prod.example/ns/ads/sa/web"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with spiffe://"),
        ("SPIFFE://prod.example/ns/ads/sa/web", "does not begin with spiffe://"),
        ("spiffe://prod.example/ns/ads/sa/web/", "is not of the form"),
        ("spiffe://prod.example/sa/ads/ns/web", "is not of the form"),
        ("spiffe://prod.example/ns/ads/sa/web?x", "is no name of a service account"),
        ("spiffe://prod.example:443/ns/ads/sa/web", "is no trust domain"),
        ("spiffe://Prod.example/ns/ads/sa/web", "is no trust domain"),
        ("spiffe:///ns/ads/sa/web", "is no trust domain"),
        ("spiffe://prod.example/ns/../sa/web", "is no name of a namespace"),
        ("spiffe://prod.example/ns/ads/sa/a..b", "is no name of a service account"),
        ("spiffe://prod.example/ns/ads/sa/%77eb", "is no name of a service account"),
        ("spiffe://prod.example/ns/ads/sa/" + "a" * 3000, "does not begin with spiffe://"),
    ],
)
def test_what_is_no_id_of_a_workload_is_refused(text: str, why: str) -> None:
    with pytest.raises(NoId, match=why):
        spiffe.parse(text)


# -- renewal ------------------------------------------------------------------


def test_a_certificate_is_renewed_after_two_thirds_of_its_lifetime_or_a_little_sooner() -> None:
    lifetime = Lifetime(NOW_S, NOW_S + 3000.0)

    assert lifetime.due_s(0.0) == pytest.approx(NOW_S + 2000.0)
    assert lifetime.due_s(1.0) == pytest.approx(NOW_S + 1700.0)


@given(st.floats(60, 1e7), st.floats(0, 1))
def test_a_renewal_leaves_a_third_of_the_lifetime(length_s: float, chance: float) -> None:
    lifetime = Lifetime(NOW_S, NOW_S + length_s)
    due_s = lifetime.due_s(chance)

    assert lifetime.begin_s < due_s
    assert lifetime.end_s - due_s >= length_s / 3 - 1e-3


# -- what a certificate must say ----------------------------------------------


class Made:
    """A root with an intermediate, and certificates of theirs."""

    def __init__(self, begins_s: float = -3600.0, lasts_s: float = 1e7) -> None:
        self.root = cas.authority("root", NOW_S, begins_s=-1e6, lasts_s=1e8)
        self.signing = cas.authority(
            "signing", NOW_S, above=self.root, begins_s=begins_s, lasts_s=lasts_s
        )
        self.key, self.csr = cas.request(str(WEB))

    def chain(self, identity: SpiffeId = WEB, at_s: float = NOW_S) -> bytes:
        pair = authorities.Pair((self.signing.certificate,), self.signing.key, self.root.pem)
        return authorities.issued(pair, self.csr, CertificateContent(identity, 3600), at_s)

    def checked(self, chain: bytes, now_s: float = NOW_S) -> certificates.Facts:
        return certificates.checked(chain, self.root.pem, WEB, self.key.public_key(), now_s)


def refused(made: Made, chain: bytes, now_s: float = NOW_S) -> tuple[str, str]:
    with pytest.raises(CertificateRefused) as bad:
        made.checked(chain, now_s)
    return bad.value.reason, bad.value.message


def test_a_certificate_tells_until_when_it_is_valid() -> None:
    made = Made()

    assert made.checked(made.chain()).end_s == NOW_S - 30 + 3600


def test_a_certificate_of_another_account_is_refused() -> None:
    made = Made()
    other = SpiffeId("prod.example", "ads", "admin")

    assert refused(made, made.chain(other)) == (
        "ForeignName",
        f"the certificate is that of {other}, not of {WEB}",
    )


def test_a_certificate_for_another_key_is_refused() -> None:
    made, other = Made(), Made()
    made.csr = other.csr

    assert refused(made, made.chain())[0] == "ForeignKey"


def test_an_authority_that_is_not_in_the_trust_bundle_is_refused() -> None:
    made, other = Made(), Made()
    other.key, other.csr = made.key, made.csr

    assert refused(made, other.chain())[0] == "UnknownAuthority"


def test_an_intermediate_with_the_name_of_the_right_one_is_refused() -> None:
    made, other = Made(), Made()
    other.key, other.csr = made.key, made.csr
    leaf = other.chain().partition(b"-----END")[0] + b"-----END CERTIFICATE-----\n"

    assert refused(made, leaf + made.signing.pem)[0] == "BadChain"


def test_an_expired_intermediate_is_refused_with_both_times() -> None:
    made = Made()
    old = cas.authority("signing", NOW_S, above=made.root, lasts_s=4000.0, key=made.signing.key)
    leaf = made.chain().partition(b"-----END CERTIFICATE-----\n")
    reason, message = refused(made, b"".join(leaf[:2]) + old.pem, NOW_S + 500.0)

    assert reason == "Expired"
    assert message.startswith("the intermediate certificate (CN=signing) expired at 2027-01-15T")


@pytest.mark.parametrize(
    ("off_s", "reason"), [(-3600.0, "ClockOff"), (7200.0, "Expired"), (-20.0, "")]
)
def test_a_clock_that_is_off_is_told(off_s: float, reason: str) -> None:
    made = Made(begins_s=-90_000.0, lasts_s=1e7)
    chain = made.chain()
    if not reason:
        made.checked(chain, NOW_S + off_s)
        return
    found, message = refused(made, chain, NOW_S + off_s)

    assert found == reason
    assert "clock" in message


@pytest.mark.parametrize("text", [b"", b"soon", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END"])
def test_an_answer_that_is_no_certificate_is_refused(text: bytes) -> None:
    assert refused(Made(), text)[0] == "NotReadable"


def test_one_bundle_has_each_root_once_in_a_stable_order() -> None:
    one, two = cas.authority("one", NOW_S).pem, cas.authority("two", NOW_S).pem

    assert certificates.joined(one, two + one) == certificates.joined(two, one)


# -- files --------------------------------------------------------------------


def pair(text: str) -> Callable[[Path], None]:
    def fill(tree: Path) -> None:
        switching.place(tree / "tls.crt", text.encode(), 0o644)
        switching.place(tree / "tls.key", text.encode(), 0o600)

    return fill


def test_files_change_together_and_the_former_set_goes(tmp_path: Path) -> None:
    switching.switch(tmp_path, pair("one"), "1")
    held = switching.present(tmp_path)
    switching.switch(tmp_path, pair("two"), "2")

    assert held is not None
    assert not held.exists()
    assert [(tmp_path / name).read_text() for name in ("tls.crt", "tls.key")] == ["two", "two"]
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "..2",
        "..data",
        "..refreshed",
        "tls.crt",
        "tls.key",
    ]


def test_files_that_cannot_be_written_leave_the_former_ones(tmp_path: Path) -> None:
    switching.switch(tmp_path, pair("one"), "1")

    def fill(tree: Path) -> None:
        pair("two")(tree)
        switching.keep(tmp_path, "missing", tree)

    with pytest.raises(OSError, match="No such file"):
        switching.switch(tmp_path, fill, "2")

    assert (tmp_path / "tls.crt").read_text() == "one"
    assert not (tmp_path / "..2").exists()


def test_a_key_that_is_kept_is_linked_and_not_read(tmp_path: Path) -> None:
    switching.switch(tmp_path, pair("one"), "1")
    before = (tmp_path / "tls.key").stat()

    def fill(tree: Path) -> None:
        switching.place(tree / "tls.crt", b"two", 0o644)
        switching.keep(tmp_path, "tls.key", tree)

    switching.switch(tmp_path, fill, "2")
    after = (tmp_path / "tls.key").stat()

    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "tls.crt").read_text() == "two"


def test_a_reader_never_finds_a_certificate_without_its_key(tmp_path: Path) -> None:
    """A reader that resolves `..data` once, while the set is switched under it."""
    switching.switch(tmp_path, pair("0"), "0")
    for number in range(1, 200):
        seen = switching.present(tmp_path)
        assert seen is not None
        crt = (seen / "tls.crt").read_text()
        assert crt == (seen / "tls.key").read_text()
        switching.switch(tmp_path, pair(str(number)), str(number))
