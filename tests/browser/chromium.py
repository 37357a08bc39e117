"""A headless Chromium for tests that open pages: found on the machine, or installed once from Debian.

`make browser` runs this file: it prints where the browser is, or ends with 1 and a sentence why there is none.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL_S = 600


class Unavailable(Exception):
    """No browser can be had on this machine; the message says why, in a sentence."""


def find() -> Path | None:
    """$FEDERATOR_CHROMIUM, else the one on PATH; installs nothing."""
    given = os.environ.get("FEDERATOR_CHROMIUM")
    found = next((path for name in ((given,) if given else NAMES) if (path := shutil.which(name))), None)
    return Path(found) if found else None


def install() -> Path:
    """The browser that is there, or Debian's package where we may install packages."""
    if (found := find()) is not None:
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable("there is no Chromium on PATH, and only root can install Debian's package of it")
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        try:
            done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{' '.join(command)} has not ended within {INSTALL_S} s") from None
        if done.returncode:
            raise Unavailable(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    if (found := find()) is None:
        raise Unavailable("Debian's package was installed, and brought no browser")
    return found


def main() -> int:
    try:
        print(install())
    except Unavailable as why:
        print(f"no browser: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
