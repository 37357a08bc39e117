"""promtool and amtool, which test alert rules and routes, and Alertmanager itself: found on the
machine, or once unpacked from Debian's packages into the cache.

`make monitoring` runs this file: it prints where they are, or ends with 1 and a sentence why they
are not to be had.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import debian

PACKAGES = {"promtool": "prometheus", "amtool": "prometheus-alertmanager"}
"""Program -> the package that has it."""
ALERTMANAGER = "prometheus-alertmanager"
RUN_S = 120


def cache() -> Path:
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    return Path(base) / "monitoring"


def find(name: str) -> Path | None:
    """The one on PATH, else the one in the cache; installs nothing."""
    path = shutil.which(name) or shutil.which(name, path=str(cache() / "usr" / "bin"))
    return Path(path) if path else None


def needed(name: str) -> Path:
    """The program; skips the test, and says so, where there is none."""
    path = find(name)
    if path is None:
        pytest.skip(f"there is no {name}: run `make monitoring`")
    return path


def alertmanager() -> list[str]:
    """The beginning of its command. Debian's program reads its templates from /usr/share, so one
    from the cache sees the cache's there, in a mount namespace of its own."""
    program = needed(ALERTMANAGER)
    if not program.is_relative_to(cache()):
        return [str(program)]
    seen = f"mount --bind {shlex.quote(str(cache() / 'usr' / 'share'))} /usr/share"
    return [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        f'{seen} && exec "$0" "$@"',
        str(program),
    ]


def run(name: str, *arguments: str, within: Path | None = None) -> tuple[int, str]:
    """Exit status and output of a program that is there."""
    command: Sequence[str] = [str(needed(name)), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=within
    )
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    if not all(map(find, PACKAGES)):
        try:
            debian.unpack(cache(), *PACKAGES.values())
        except debian.Unavailable as why:
            print(f"no promtool and amtool: {why}", file=sys.stderr)
            return 1
    for name in PACKAGES:
        print(find(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
