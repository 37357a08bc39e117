"""Whole federations of real processes for the end-to-end tests, and the shells that drive them.

Three ways to get one (`sandbox`, `processes`, `on_real_servers`); all give a `Fleet`, so that the
same story is told on each. Everything blocks: what is tested runs in other processes. Nothing
outlives the `with` block.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from federator.kinds import crds
from tests.controlplane import build, nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Family
from tests.e2e import looking
from tests.forkserver import starting

FEDERATOR = starting.FEDERATOR
COMMAND_S = 90.0
START_S = 60.0
POLICIES_MAX = 5
"""PlacementPolicies of a namespace that are in force."""
SETTINGS = {
    "hub": {
        "probe_interval_s": 1.0,
        "capacity_copy_interval_s": 1.0,
        "policies_per_namespace": POLICIES_MAX,
    },
    "member": {"heartbeat_s": 2.0, "capacity_write_s": 1.0, "capacity_small_write_s": 1.0},
}
"""A fleet of tests is watched by impatient people."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Standard output as words per line."""
        return [line.split() for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Shell:
    """A person's shell at one cluster: `program` is kubectl or federator."""

    program: tuple[str, ...]
    home: Path
    kubeconfig: Path

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        known = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
        }
        return {**known, **more}

    def run(self, *arguments: str, input: str = "", **environment: str) -> Ran:
        """Runs a command to its end, whatever it is."""
        if self.program == FEDERATOR:
            return Ran(
                *starting.run(
                    [*self.program, *arguments],
                    input=input,
                    environment=self._environment(environment),
                    directory=self.home,
                    timeout_s=COMMAND_S,
                )
            )
        done = subprocess.run(
            [*self.program, *arguments],
            input=input,
            env=self._environment(environment),
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, input: str = "", **environment: str) -> str:
        """Runs a command that must succeed; returns its output."""
        ran = self.run(*arguments, input=input, **environment)
        assert ran.code == 0, f"{' '.join(arguments)} ended with {ran.code}: {ran.err}{ran.out}"
        return ran.out

    def json(self, *arguments: str) -> Any:
        """What `get` shows, as data. Of kubectl, a plain one is asked without it (looking.py)."""
        wanted = looking.understood(arguments) if self.program != FEDERATOR else None
        if wanted is not None:
            return looking.server(self.kubeconfig).look(wanted)
        return json.loads(self(*arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("get", *arguments)["items"]
        return found

    @contextlib.contextmanager
    def following(self, *arguments: str) -> Iterator[Callable[[Callable[[str], bool]], str]]:
        """Runs a command that goes on; gives a function that waits until its output satisfies a
        condition.
        """
        path = self.home / f"following-{time.monotonic_ns()}.out"
        with path.open("wb") as output:
            child = subprocess.Popen(
                [*self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment({}),
                cwd=self.home,
            )

        def wait(condition: Callable[[str], bool]) -> str:
            until(
                lambda: condition(path.read_text()),
                lambda: f"{' '.join(arguments)} printed {path.read_text()!r}",
            )
            return path.read_text()

        try:
            yield wait
        finally:
            child.terminate()
            child.wait(10)


def until(
    condition: Callable[[], bool], describe: Callable[[], str], within_s: float = COMMAND_S
) -> None:
    """Polls until the condition holds. Raises AssertionError with the description at the
    deadline.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {describe()}"
        time.sleep(0.2)


@dataclass(slots=True)
class Fleet:
    """A running federation. `many` is what `kubectl scale` asks for: a real API server on two cores
    is slower.
    """

    kind: str
    home: Path
    host: Shell
    members: Mapping[str, Shell]
    many: int = 900
    programs: Family | None = None

    @property
    def federator(self) -> Shell:
        """A person's `federator` at the host."""
        return Shell(FEDERATOR, self.home, self.host.kubeconfig)

    def restart(self, name: str) -> None:
        """Ends one of our processes as an operator would, and starts it again."""
        assert self.programs is not None
        child = next(child for child in self.programs.children if child.name == name)
        self.programs.drop(child)
        assert child.process.returncode == 0, child.last_lines()
        self.programs.start(name, [str(argument) for argument in child.process.args])  # type: ignore[union-attr]

    def manifest(self, *objs: Mapping[str, Any]) -> str:
        """Writes objects to a file and returns its path."""
        path = self.home / f"manifest-{time.monotonic_ns()}.yaml"
        path.write_text(yaml.safe_dump_all(objs))
        return str(path)

    def ready(self, namespace: str, what: str, within_s: int = 60) -> None:
        """What a person waits with."""
        wait = ("wait", "-n", namespace, "--for=condition=Ready", what, f"--timeout={within_s}s")
        ran = self.host.run(*wait)
        assert ran.code == 0, (
            f"{what} is not ready: {ran.err}{self.host.run('describe', '-n', namespace, what).out}"
        )

    def spread(self, kind: str, namespace: str, name: str) -> dict[str, dict[str, Any]]:
        """The objects of that name in the members that have one."""
        found = {}
        for member, shell in self.members.items():
            for obj in shell.items(kind, "-n", namespace):
                if obj["metadata"]["name"] == name:
                    found[member] = obj
        return found

    def replicas(self, kind: str, namespace: str, name: str) -> int:
        """The sum over the members."""
        return sum(
            int(obj["spec"]["replicas"]) for obj in self.spread(kind, namespace, name).values()
        )

    def versions(self) -> dict[tuple[str, str, str, str], str]:
        """The version of everything that a settled federation may not write, leases and Events
        apart.
        """
        ours = "psvc,pjs,pd,pp,cpp,fq,mc,runtimeprofiles"
        native = "deployments,services,configmaps,serviceaccounts,ingresses,jobs,namespaces"
        found = {}
        for cluster, shell in {"host": self.host, **self.members}.items():
            kinds = f"{ours if cluster == 'host' else 'psvc,pjs,clustercapacities,runtimeprofiles'},{native}"
            for obj in shell.items(kinds, "-A"):
                meta = obj["metadata"]
                found[(cluster, obj["kind"], meta.get("namespace", ""), meta["name"])] = meta[
                    "resourceVersion"
                ]
        return found


def kubectl(home: Path, kubeconfig: Path) -> Shell:
    """The built kubectl, else the one on PATH."""
    program = build.kubectl()
    assert program is not None
    return Shell((str(program),), home, kubeconfig)


@contextlib.contextmanager
def family(home: Path) -> Iterator[Family]:
    """Processes that end together; afterwards none of them is left."""
    found = Family()
    try:
        yield found
    finally:
        children = list(found.children)
        found.stop()
        assert [child.name for child in children if child.process.poll() is None] == []


def _settings(home: Path, hub: Mapping[str, Any]) -> str:
    path = home / "settings.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "hub": {**SETTINGS["hub"], **hub}}))
    return str(path)


def fleet_of(
    kind: str, home: Path, kubeconfigs: Mapping[str, Path], programs: Family, many: int = 900
) -> Fleet:
    shells = {name: kubectl(home, path) for name, path in kubeconfigs.items()}
    host = shells.pop("host")
    return Fleet(kind, home, host, shells, many=many, programs=programs)


def controllers(programs: Family, home: Path, kubeconfigs: Mapping[str, Path], **hub: Any) -> None:
    """The hub, with these settings beside the usual ones, and one member process for each
    member.
    """
    settings = _settings(home, hub)
    for name, path in kubeconfigs.items():
        where = ["--kubeconfig", str(path), "--config", settings]
        if name == "host":
            programs.start("hub", [*FEDERATOR, "hub", "--allow-loopback", *where])
        else:
            programs.start(f"member-{name}", [*FEDERATOR, "member", "--cluster", name, *where])


def until_joined(programs: Family, fleet: Fleet) -> None:
    def joined() -> bool:
        return all(_summary(obj) == "Ready" for obj in fleet.host.items("mc"))

    programs.wait_until(joined, "The federation", START_S)


def _summary(obj: Mapping[str, Any]) -> str:
    return str((obj.get("status") or {}).get("summary", ""))


@contextlib.contextmanager
def sandbox(
    home: Path, *, clusters: int = 3, fleet: str = "", separate: bool = False, **hub: Any
) -> Iterator[Fleet]:
    """`federator sandbox`, of so many clusters or of a fleet file; `separate` runs hub, with these
    settings beside the usual ones, and members as processes of their own.
    """
    directory = home / "sandbox"
    with family(home) as programs:
        made_of = ["--fleet", fleet] if fleet else ["--clusters", str(clusters)]
        command = [*FEDERATOR, "sandbox", *made_of, "--dir", str(directory)]
        programs.start("sandbox", [*command, "--api-only"] if separate else command)
        programs.wait_until((directory / "ready").exists, "The sandbox", START_S)
        kubeconfigs = {
            path.name.removesuffix(".kubeconfig"): path
            for path in sorted(directory.glob("*.kubeconfig"))
        }
        if separate:
            controllers(programs, home, kubeconfigs, **hub)
        found = fleet_of("processes" if separate else "sandbox", home, kubeconfigs, programs)
        until_joined(programs, found)
        yield found
        programs.check()


@contextlib.contextmanager
def on_real_servers(home: Path, plane: ControlPlane) -> Iterator[Fleet]:
    """A dedicated host and two members of real servers, joined by `federator cluster add`."""
    # Names of its own: what a cluster held stays in etcd.
    host = plane.cluster(f"{home.name}-host", kinds=crds.all_crds())
    members = {
        name: plane.cluster(
            f"{home.name}-{name}", controllers=True, scheduler=True, kinds=crds.member_crds()
        )
        for name in ("us-east-1a", "us-west-2a")
    }
    with contextlib.ExitStack() as stack:
        for cluster in (host, *members.values()):
            stack.callback(plane.end, cluster.name)
        kubeconfigs = {"host": home / "host.kubeconfig"}
        kubeconfigs["host"].write_bytes(host.kubeconfig().read_bytes())
        for name, cluster in members.items():
            machines = nodes.many(f"{name}-n", 3, cpu="32", memory="128Gi")
            stack.enter_context(nodes.running(cluster, machines))
            kubeconfigs[name] = cluster.kubeconfig()
        programs = stack.enter_context(family(home))
        fleet = fleet_of("real", home, kubeconfigs, programs, 60)
        for name, path in kubeconfigs.items():
            if name != "host":
                add(fleet, name, path)
        controllers(programs, home, kubeconfigs)
        until_joined(programs, fleet)
        yield fleet
        programs.check()


def add(fleet: Fleet, name: str, path: Path) -> None:
    context = yaml.safe_load(path.read_text())["current-context"]
    region = f"region={name[:-1]}"
    done = fleet.federator.run(
        "cluster", "add", name, "-C", context, "--member-kubeconfig", str(path), "--label", region
    )
    if "has joined already" not in done.err and f"error: {name}" not in done.err:
        assert done.code == 0, done.err + done.out
        assert done.out.endswith(f"membercluster.federation.pinterest.com/{name} joined\n")
