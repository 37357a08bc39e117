"""The cache of versions on disk: by content, bounded, whole after a crash."""

import os
from pathlib import Path

import pytest

from federator.gateway.artifacts.cache import Cache, Kept
from federator.gateway.artifacts.ports import Fetched
from federator.gateway.artifacts.registry import digest_of

SOURCE = "oci://registry.example/ads/serving"


def _kept(text: str, *envelopes: bytes) -> Kept:
    file = text.encode()
    return Kept(Fetched(digest_of(b"manifest of " + file), file, {"commit": "abc"}), envelopes)


def test_a_version_is_read_again_after_a_restart(tmp_path: Path) -> None:
    kept = _kept("one", b"statement")
    Cache(tmp_path).keep(SOURCE, ("v1", kept.fetched.digest), kept)

    cache = Cache(tmp_path)

    assert cache.digest(SOURCE, "v1") == kept.fetched.digest
    assert cache.read(SOURCE, kept.fetched.digest) == kept


def test_what_another_source_served_is_not_read(tmp_path: Path) -> None:
    cache, kept = Cache(tmp_path), _kept("one")
    cache.keep(SOURCE, ("v1",), kept)

    assert cache.read("oci://registry.example/feed/other", kept.fetched.digest) is None
    assert not cache.digest("oci://registry.example/feed/other", "v1")


def test_a_file_that_was_changed_is_dropped(tmp_path: Path) -> None:
    cache, kept = Cache(tmp_path), _kept("one")
    cache.keep(SOURCE, ("v1",), kept)
    path = tmp_path / "sha256" / digest_of(b"one").removeprefix("sha256:")
    path.write_bytes(b"two")

    assert cache.read(SOURCE, kept.fetched.digest) is None
    assert not path.exists()


def test_the_least_recently_used_go_first_and_the_bound_holds(tmp_path: Path) -> None:
    cache = Cache(tmp_path, bytes_max=4000)
    many = [_kept(f"{number}" * 1000) for number in range(1, 7)]
    for number, kept in enumerate(many):
        cache.keep(SOURCE, (f"v{number}",), kept)
        cache.read(SOURCE, many[0].fetched.digest)

    assert cache.read(SOURCE, many[0].fetched.digest) == many[0]
    assert cache.read(SOURCE, many[1].fetched.digest) is None
    assert cache.read(SOURCE, many[-1].fetched.digest) == many[-1]
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert on_disk == cache.size <= 4000
    assert Cache(tmp_path, bytes_max=4000).size == cache.size


def test_a_crash_in_the_middle_of_a_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashed(*_: object) -> None:
        raise OSError("no space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "replace", crashed)
    with pytest.raises(OSError, match="no space"):
        cache.keep(SOURCE, ("v1",), _kept("one"))

    assert cache.size == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    (tmp_path / "sha256" / "left.partial").write_bytes(b"half")
    Cache(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_missing_statement_makes_the_version_be_fetched_again(tmp_path: Path) -> None:
    cache, kept = Cache(tmp_path), _kept("one", b"statement")
    cache.keep(SOURCE, ("v1",), kept)
    (tmp_path / "sha256" / digest_of(b"statement").removeprefix("sha256:")).unlink()

    assert cache.read(SOURCE, kept.fetched.digest) is None
