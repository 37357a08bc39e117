"""Debian's packages of programs that tests start, where this machine lets us install them: for
`make`, never for a test.
"""

import os
import shutil
import subprocess

INSTALL_S = 600


class Unavailable(Exception):
    """A program cannot be had on this machine; the message says why, in a sentence."""


def install(*packages: str) -> None:
    """Installs them, as root only. Raises `Unavailable`."""
    names = " and ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable(f"only root can install Debian's {names}, and only on Debian")
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
        try:
            done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{' '.join(command)} has not ended within {INSTALL_S} s") from None
        if done.returncode:
            raise Unavailable(
                f"{' '.join(command)} failed: {done.stderr.decode(errors='replace').strip()[-300:]}"
            )
