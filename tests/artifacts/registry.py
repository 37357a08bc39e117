"""Debian's docker-registry, an OCI registry without the referrers API: found on the machine, or once
unpacked from Debian's package into the cache.

`make registry` runs this file: it prints where the program is, or ends with 1 and a sentence why
there is none.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from federator.kube.selfsigned import Identity
from tests import debian
from tests.running.ports import free_port

NAME = "docker-registry"
START_S = 60.0


def cache() -> Path:
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    return Path(base) / "registry"


def find() -> Path | None:
    """The one on PATH, else the one in the cache; installs nothing."""
    path = shutil.which(NAME) or shutil.which(NAME, path=str(cache() / "usr" / "bin"))
    return Path(path) if path else None


@contextlib.asynccontextmanager
async def serving(folder: Path, *more: str, identity: Identity | None = None) -> AsyncIterator[str]:
    """A registry that stores in a folder; gives its host, on this machine. `more` are lines of its
    configuration; with an identity it speaks TLS. Skips the test, and says so, where there is no
    registry."""
    program = find()
    if program is None:
        pytest.skip(f"there is no {NAME}: run `make registry`")
    host = f"127.0.0.1:{free_port()}"
    lines: Sequence[str] = (
        "version: 0.1",
        "log: {level: error, accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}",
        f"http: {{addr: '{host}'{_tls(folder, identity)}}}",
        *more,
    )
    config = folder / "registry.yml"
    config.write_text("\n".join(lines), encoding="utf-8")
    with (folder / "registry.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program, "serve", config, stdout=log, stderr=log
        )
    try:
        await _accepts(host, process, folder / "registry.log")
        yield host
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _tls(folder: Path, identity: Identity | None) -> str:
    if identity is None:
        return ""
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(identity.cert_pem)
    key.write_bytes(identity.key_pem)
    return f", tls: {{certificate: {cert}, key: {key}}}"


async def _accepts(host: str, process: asyncio.subprocess.Process, log: Path) -> None:
    name, _, port = host.partition(":")
    async with asyncio.timeout(START_S):
        while True:
            assert process.returncode is None, f"{NAME} ended: see {log}"
            try:
                _, writer = await asyncio.open_connection(name, int(port))
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return


def main() -> int:
    if find() is None:
        try:
            debian.unpack(cache(), NAME)
        except debian.Unavailable as why:
            print(f"no {NAME}: {why}", file=sys.stderr)
            return 1
    print(find())
    return 0


if __name__ == "__main__":
    sys.exit(main())
