"""Programs from npm that tests start, pinned by package-lock.json: an OpenID provider, and axe, which
checks pages for people who use a keyboard or a screen reader.

`make npm` runs this file: it installs them once into the cache and prints where they are, or ends
with 1 and a sentence why they cannot be had. Install scripts are not run.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPE = Path(__file__).parent
FILES = ("package.json", "package-lock.json")
INSTALL_S = 600
NODE_AT_LEAST = 20


class Unavailable(Exception):
    """They cannot be had on this machine; the message says why, in a sentence."""


def folder() -> Path:
    """Where they are once they are installed: of these very versions."""
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    digest = hashlib.sha256(b"".join((RECIPE / name).read_bytes() for name in FILES))
    return Path(base).expanduser() / f"npm-{digest.hexdigest()[:16]}" / "node_modules"


def needed() -> Path:
    """The folder; skips the test, and says so, where it is not there. Fails instead with
    FEDERATOR_REQUIRE_NPM=1."""
    import pytest  # `make npm` may run without it

    path = folder()
    if not path.is_dir() or shutil.which("node") is None:
        why = f"There is no node, or nothing in {path}: run `make npm`."
        if os.environ.get("FEDERATOR_REQUIRE_NPM") == "1":
            pytest.fail(why)
        pytest.skip(why)
    return path


def install() -> Path:
    """Installs them unless they are there. Raises `Unavailable`."""
    target = folder()
    if target.is_dir():
        return target
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None or _major(node) < NODE_AT_LEAST:
        raise Unavailable(f"Node {NODE_AT_LEAST} or later with npm is not installed")
    room = target.parent
    room.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".npm-", dir=room.parent) as directory:
        for name in FILES:
            shutil.copy(RECIPE / name, directory)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        _run(command, Path(directory))
        if not room.exists():
            made = Path(directory).rename(room)
            Path(directory).mkdir()  # the context manager removes it
            return made / "node_modules"
    return target


def _major(node: str) -> int:
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = shown.stdout.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _run(command: list[str], within: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=within, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`npm ci` has not ended within {INSTALL_S} s") from None
    if done.returncode:
        raise Unavailable(f"`npm ci` failed: {done.stderr.strip()[-300:]}")


def main() -> int:
    try:
        print(install())
    except (Unavailable, OSError) as why:
        print(f"no modules of npm: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
