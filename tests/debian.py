"""Debian's packages of programs that tests start, where this machine lets us install them: for
`make`, never for a test.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

INSTALL_S = 600


class Unavailable(Exception):
    """A program cannot be had on this machine; the message says why, in a sentence."""


def install(*packages: str) -> None:
    """Installs them, as root only. Raises `Unavailable`."""
    names = " and ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable(f"only root can install Debian's {names}, and only on Debian")
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
        _run(command)


def unpack(target: Path, *packages: str) -> None:
    """Downloads them and unpacks their files below `target`, without what they depend on and
    without their install scripts, which would start services. Raises `Unavailable`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable(f"{' and '.join(packages)} are unpacked from Debian's packages only")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        here = Path(directory)
        if os.geteuid() == 0:
            _run(["apt-get", "update", "-qq"])
        _run(["apt-get", "download", "-qq", *packages], here)
        for package in sorted(here.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(here / "files")])
        if not target.exists():
            (here / "files").replace(target)


def _run(command: Sequence[str], directory: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=INSTALL_S, check=False, cwd=directory
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)} has not ended within {INSTALL_S} s") from None
    if done.returncode:
        raise Unavailable(
            f"{' '.join(command)} failed: {done.stderr.decode(errors='replace').strip()[-300:]}"
        )
