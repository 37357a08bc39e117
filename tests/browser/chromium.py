"""A headless Chromium for tests that open pages: found on the machine, or installed once from
Debian.

`make browser` runs this file: it prints where the browser is, or ends with 1 and a sentence why
there is none.
"""

import os
import shutil
import sys
from pathlib import Path

from tests import debian

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> Path | None:
    """$FEDERATOR_CHROMIUM, else the one on PATH; installs nothing."""
    given = os.environ.get("FEDERATOR_CHROMIUM")
    found = next(
        (path for name in ((given,) if given else NAMES) if (path := shutil.which(name))), None
    )
    return Path(found) if found else None


def install() -> Path:
    """The browser that is there, or Debian's package where we may install packages."""
    if (found := find()) is not None:
        return found
    debian.install("chromium")
    if (found := find()) is None:
        raise debian.Unavailable("Debian's package was installed, and brought no browser")
    return found


def main() -> int:
    try:
        print(install())
    except debian.Unavailable as why:
        print(f"no browser: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
