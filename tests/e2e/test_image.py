"""Both images are built from their Dockerfiles, on a base that debootstrap makes, and run as their
user. It needs root, buildah and debootstrap: `apt-get install buildah debootstrap`.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from federator.runtime.identity import certificates
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer import authorities
from federator.signer.authorities import CertificateContent
from tests.house.sources import ROOT
from tests.running.ports import free_port
from tests.unit.signer import cas

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(3600)]

SUITE, PARTS = "bookworm", "python3,python3-venv,ca-certificates"
BASE, IMAGE = "localhost/federator-base", "localhost/federator"
OF_PODS = "localhost/federator-runtime"
FILES = {IMAGE: "Dockerfile", OF_PODS: "deploy/runtime/Dockerfile"}
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
STEP_S = 1500
"""The large image takes most of it on a busy machine."""
SIZE_MAX_MB = 400
"""Half of it is Debian; with caches, compiled files and tests of libraries it was 536 MB."""
OF_PODS_MAX_MB = 250


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
    """With both images."""
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
    for image, file in FILES.items():
        made(
            *build, "--build-arg", f"PYTHON={BASE}", "-f", str(ROOT / file), "-t", image, str(ROOT)
        )
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
    assert size_mb(top) < SIZE_MAX_MB


def size_mb(top: Path) -> float:
    """What the files of an image take."""
    size = sum(path.lstat().st_size for path in top.rglob("*") if not path.is_symlink()) / 1e6
    print(f"the image holds {size:.0f} MB")
    return size


VOLUMES = ("identity", "secrets", "config", "store", "state", "logs")
USER = "65532:65532"


class Root:
    """The root file system of a container of the image of pods: read-only, with a volume in memory
    for each of `VOLUMES` below /pod. As a container runtime does it, without one."""

    def __init__(self, top: Path, pod: Path) -> None:
        self.top, self.pod = top, pod
        for name in VOLUMES:
            (top / "pod" / name).mkdir(parents=True)
            (pod / name).mkdir(parents=True)

    def command(self, environ: dict[str, str], *arguments: str) -> tuple[str, ...]:
        top = self.top
        mounts = [f"mount --bind {top} {top}", f"mount -o remount,bind,ro {top}"]
        mounts += [f"mount --bind {self.pod / name} {top}/pod/{name}" for name in VOLUMES]
        mounts += [f"mount -t proc proc {top}/proc", f"mount --bind /dev {top}/dev"]
        words = [f"{name}={value}" for name, value in environ.items()]
        enter = f'exec chroot --userspec={USER} {top} env -i PATH=/opt/federator/bin:/usr/bin "$@"'
        return ("unshare", "-m", "sh", "-ec", "; ".join([*mounts, enter]), "sh", *words, *arguments)


@pytest.fixture
def root(buildah: Buildah) -> Iterator[Root]:
    pod = Path("/dev/shm") / f"pod-{os.getpid()}"
    yield Root(Path(buildah("mount", buildah("from", OF_PODS))), pod)
    shutil.rmtree(pod)


def furnish(pod: Path) -> None:
    """A certificate as a kubelet projects it, and a secret."""
    now_s = time.time()
    ca, web = cas.authority("root", now_s), SpiffeId("test.example", "ads", "web")
    key, csr = cas.request(str(web))
    pair = authorities.Pair((ca.certificate,), ca.key, ca.pem)
    chain = authorities.issued(pair, csr, CertificateContent(web, 3600), now_s)
    files = {"tls.crt": chain, "tls.key": certificates.key_pem(key), "ca.crt": ca.pem}
    for name, data in files.items():
        (pod / "identity" / name).write_bytes(data)
    (pod / "store" / "ads" / "db").mkdir(parents=True)
    (pod / "store" / "ads" / "db" / "password").write_text("secret of a test")
    (pod / "store" / "ads" / "db" / "..readers").write_text(str(web))
    (pod / "logs" / "app.log").write_text("one line\n")
    for path in (pod, *pod.rglob("*")):
        os.chown(path, 65532, 65532)


def variables(application: int, metrics: int) -> dict[str, str]:
    return {
        "POD_NAME": "web-0", "POD_NAMESPACE": "ads", "POD_SERVICE_ACCOUNT": "web", "POD_UID": "u",
        "POD_IP": "127.0.0.1", "PINTEREST_WORKLOAD_NAME": "web",
        "FEDERATOR_TRUST_DOMAIN": "test.example", "FEDERATOR_IDENTITY_FROM": "kubelet",
        "FEDERATOR_IDENTITY_DIR": "/pod/identity", "FEDERATOR_SECRETS_DIR": "/pod/secrets",
        "FEDERATOR_SECRETS_FROM": "folder", "FEDERATOR_SECRETS_FOLDER": "/pod/store",
        "FEDERATOR_SECRETS": '[{"name":"ads/db","path":"db"}]', "FEDERATOR_CONFIG_DIR": "/pod/config",
        "FEDERATOR_ZOOKEEPER": "embedded", "FEDERATOR_TRAFFIC_PORT": str(application),
        "FEDERATOR_STATE_DIR": "/pod/state", "PINTEREST_LOG_DIR": "/pod/logs",
        "FEDERATOR_METRICS_PORT": str(metrics), "FEDERATOR_METRICS_APPLICATION": f"{application}/metrics",
    }  # fmt: skip


@contextlib.asynccontextmanager
async def application(port: int) -> AsyncIterator[None]:
    """Accepts connections."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)
    async with server:
        yield


async def test_the_image_of_pods_runs_all_roles_without_writing_to_its_root(root: Root) -> None:
    port, metrics, sidecar = free_port(), free_port(), str(free_port())
    furnish(root.pod)
    environ = variables(port, metrics)
    federator = ("federator", "runtime")
    init = (*federator, "--init", "--roles", "identity,secrets,config", "--state", "/pod/state")
    roles = ("--roles", "identity,secrets,config,traffic,logs,metrics", "--port", sidecar)
    beside = root.command(environ, *federator, *roles, "--state", "/pod/state")
    check = root.command(environ, *federator, "check", "--port", sidecar)

    run(*root.command(environ, *init))
    assert (root.pod / "secrets" / "db" / "password").read_text() == "secret of a test"
    async with application(port):
        process = await asyncio.create_subprocess_exec(*beside, stdout=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(60):
                while True:
                    told = await asyncio.create_subprocess_exec(
                        *check, stdout=asyncio.subprocess.PIPE
                    )
                    shown, _ = await told.communicate()
                    if told.returncode == 0:
                        break
        finally:
            process.terminate()
            printed, _ = await process.communicate()
    print(shown.decode())
    assert [line.split()[1] for line in shown.decode().splitlines()[1:]] == ["yes"] * 6
    assert b'"message":"one line"' in printed
    assert process.returncode == 0
    assert run(*root.command(environ, "id", "-u")) == "65532"


def test_the_image_of_pods_is_small_and_has_every_command_of_the_runtime(
    buildah: Buildah, root: Root
) -> None:
    for name in ("check", "guard", "answer", "reach", "registered"):
        assert "Usage" in run(*root.command({}, "federator", "runtime", name, "--help"))
    touched = subprocess.run(
        root.command({}, "touch", "/tmp/x"), check=False, capture_output=True, text=True
    )
    assert "Read-only file system" in touched.stderr
    asked = root.command(
        {},
        "federator",
        "runtime",
        "registered",
        "web",
        "--zookeeper",
        "127.0.0.1:1",
        "--within",
        "1",
    )
    away = subprocess.run(asked, check=False, capture_output=True, text=True)
    assert "has not answered within 1 s" in away.stderr
    assert [path for path in root.top.rglob("*") if path.name in ("pip", "pip3", "ensurepip")] == []
    assert not list(root.top.rglob("numpy"))
    assert size_mb(root.top) < OF_PODS_MAX_MB
