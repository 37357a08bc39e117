"""The unit tests on every other Python that federator supports: `python -m tests.pythons`, or `make
test-pythons`.

A Python is looked for on PATH and among those of pyenv. Each gets an environment of its own below
build/pythons, with what deploy/locks/dev.txt locks for it; nothing is downloaded but packages.
Versions that are not there are named, and are no failure: the last line says on which versions the
tests passed.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LOCK = ROOT / "deploy" / "locks" / "dev.txt"
ENVIRONMENTS = ROOT / "build" / "pythons"


def find(version: str) -> Path | None:
    """The interpreter of that minor version, or None. A shim that leads nowhere does not count."""
    for candidate in _candidates(version):
        if os.access(candidate, os.X_OK):
            asked = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
            if answer.returncode == 0 and answer.stdout.strip() == version:
                return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    yield from (Path(folder) / f"python{version}" for folder in os.get_exec_path())
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def environment(python: Path, version: str) -> Path:
    """The python of an environment with everything that tests import; made once for each state of
    the lock.
    """
    home = ENVIRONMENTS / version
    inside, stamp = home / "bin" / "python", home / ".installed"
    if not stamp.is_file() or stamp.stat().st_mtime < LOCK.stat().st_mtime:
        subprocess.run([str(python), "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(inside), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True, cwd=ROOT)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], check=True, cwd=ROOT)
        stamp.touch()
    return inside


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    ours = "{}.{}".format(*sys.version_info)
    others = [version for version in VERSIONS if version != ours]
    parser.add_argument(
        "--versions", nargs="+", default=others, choices=VERSIONS, help=f"default: all but {ours}"
    )
    options, arguments = parser.parse_known_args()
    failed: list[str] = []
    missing: list[str] = []
    passed: list[str] = []
    for version in options.versions:
        python = find(version)
        if python is None:
            missing.append(version)
            continue
        print(f"Python {version}: {python}", flush=True)
        chosen = ["tests/unit", "-m", "not e2e and not real and not soak"]
        command = [
            str(environment(python, version)),
            "-m",
            "pytest",
            *chosen,
            "-n",
            "auto",
            *arguments,
        ]
        done = subprocess.run(
            command, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        (failed if done.returncode else passed).append(version)
    for word, versions in (
        ("passed on", passed),
        ("failed on", failed),
        ("not on this machine:", missing),
    ):
        print(f"{word} {', '.join(versions) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
