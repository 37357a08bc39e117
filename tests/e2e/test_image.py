"""The image is built from the Dockerfile, on a base that debootstrap makes, and run as its user. It
needs root, buildah and debootstrap: `apt-get install buildah debootstrap`.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1800)]

SUITE, PARTS = "bookworm", "python3,python3-venv,ca-certificates"
BASE, IMAGE = "localhost/federator-base", "localhost/federator"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
STEP_S = 900
SIZE_MAX_MB = 400
"""Half of it is Debian; with caches, compiled files and tests of libraries it was 536 MB."""


class Buildah:
    """A store of images of its own, which is gone afterwards."""

    def __init__(self, place: Path) -> None:
        stores = ("--root", str(place / "store"), "--runroot", str(place / "run"))
        self._command = ("buildah", *stores, "--storage-driver", "vfs")

    def __call__(self, *arguments: str) -> str:
        return run(*self._command, *arguments)


def run(*command: str) -> str:
    """What a command prints; fails with what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_S, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command[:8])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """With the image, as `IMAGE`."""
    lacking = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        pytest.skip(f"The image is not built: {', '.join(lacking) or 'root'} is not here.")
    place = tmp_path_factory.mktemp("image")
    made = Buildah(place)
    base = place / "base"
    run("debootstrap", "--variant=minbase", f"--include={PARTS}", SUITE, str(base))
    container = made("from", "scratch")
    made("add", container, str(base), "/")
    made("commit", container, BASE)
    # The index and the authorities of this machine, for the build only: a volume leaves no layer.
    settings = [path for path in ("/etc/pip.conf", AUTHORITIES) if Path(path).exists()]
    volumes = [f"--volume={path}:{path}:ro" for path in settings]
    build = ("bud", "--isolation", "chroot", "--network", "host", *volumes)
    made(*build, "--build-arg", f"PYTHON={BASE}", "-t", IMAGE, str(ROOT))
    yield made
    made("rm", "--all")
    shutil.rmtree(place)


def test_it_answers_as_its_own_user(buildah: Buildah) -> None:
    container = buildah("from", IMAGE)
    asked = ("run", "--isolation", "chroot", container, "--")

    assert buildah(*asked, "id", "-u") == "65532"
    assert "0." in buildah(*asked, "federator", "version")
    assert "Usage" in buildah(*asked, "federator", "hub", "--help")


def test_it_holds_nothing_that_only_installs_compiles_or_tests(buildah: Buildah) -> None:
    top = Path(buildah("mount", buildah("from", IMAGE)))
    paths = [path for part in ("usr", "opt") for path in (top / part).rglob("*")]
    libraries = [path for path in paths if any(part.endswith("-packages") for part in path.parts)]

    assert [path for path in paths if path.name == "__pycache__"] == []
    assert [path for path in libraries if path.name == "tests" and path.is_dir()] == []
    assert [path for path in paths if path.name in ("pip", "pip3", "ensurepip")] == []
    size_mb = sum(path.lstat().st_size for path in top.rglob("*") if not path.is_symlink()) / 1e6
    print(f"the image holds {size_mb:.0f} MB")
    assert size_mb < SIZE_MAX_MB
