"""TLS contexts of a pod: the files of this moment, and made anew only when these have changed."""

import os
import ssl
import time
from pathlib import Path

import pytest

from federator.runtime.files import switching
from federator.runtime.files.backends import Away
from federator.runtime.identity import authority, certificates
from federator.runtime.identity.authority import Signer
from federator.runtime.secrets.mutual import Mutual
from federator.runtime.web import Answer
from tests.unit.signer import cas


def issue(folder: Path, stamp: str) -> None:
    """A new certificate with its key and roots."""
    ca = cas.authority(stamp, time.time())

    def fill(tree: Path) -> None:
        cas.lay_out(tree, ca, ca)

    switching.switch(folder, fill, stamp)


def test_a_context_is_that_of_the_files_of_this_moment(tmp_path: Path) -> None:
    issue(tmp_path, "1")
    mutual = Mutual(tmp_path, "")
    first = mutual.context()
    assert mutual.context() is first

    issue(tmp_path, "2")
    second = mutual.context()
    assert second is not first
    assert mutual.context() is second


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_are_written_in_place_are_read_again(tmp_path: Path, name: str) -> None:
    """Also where neither length nor time of a file tells."""
    one = cas.authority("one", time.time())
    key = one.key if name != "tls.key" else None
    cas.lay_out(tmp_path, one, one)
    mutual = Mutual(tmp_path, "")
    first, file = mutual.context(), tmp_path / name
    before = file.stat()
    two = cas.authority("one", time.time(), key=key)
    texts = {"tls.key": certificates.key_pem(two.key)}
    file.write_bytes(texts.get(name, two.pem))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    if name == "tls.key":  # of another certificate
        with pytest.raises(Away, match="cannot be used"):
            mutual.context()
    else:
        assert mutual.context() is not first


def test_files_that_are_gone_are_told_and_taken_up_when_they_are_back(tmp_path: Path) -> None:
    ca = cas.authority("one", time.time())
    cas.lay_out(tmp_path, ca, ca)
    mutual = Mutual(tmp_path, "")
    first = mutual.context()
    (tmp_path / "tls.crt").rename(tmp_path / "away")
    with pytest.raises(Away, match="No such file"):
        mutual.context()
    (tmp_path / "away").rename(tmp_path / "tls.crt")
    assert mutual.context() is first


async def test_the_signer_is_asked_with_the_roots_of_this_moment(tmp_path: Path) -> None:
    roots = [cas.authority(name, time.time()).pem.decode() for name in ("one", "two")]
    trusted, told = [roots[0]], list[ssl.SSLContext | None]()

    async def ask(
        method: str, url: str, *, context: ssl.SSLContext | None = None, **_: object
    ) -> Answer:
        told.append(context)
        return Answer(200, {}, b'{"bundle": "-----BEGIN CERTIFICATE-----"}')

    signer = Signer("https://signer", tmp_path / "token", lambda: trusted[0], ask)
    for root in (roots[0], roots[0], roots[1]):
        trusted[0] = root
        await signer.bundle()
    assert told[0] is told[1]
    assert [names(context) for context in told] == [["one"], ["one"], ["two"]]

    trusted[0] = "none"
    with pytest.raises(authority.Away, match="trust bundle"):
        await signer.bundle()


def names(context: ssl.SSLContext | None) -> list[str]:
    """Common names of the roots that a context trusts."""
    assert context is not None
    subjects = [dict(found)["subject"] for found in context.get_ca_certs()]
    return [str(name[0][1]) for subject in subjects for name in subject]
