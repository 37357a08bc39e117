"""`federator sandbox`: an embedded host and embedded members, served over HTTPS on loopback, with
kubeconfigs in a directory.

With `--api-only` only the APIs run, to try separate hub and member processes against them.
"""

import asyncio
import contextlib
import dataclasses
import fcntl
import gc
import logging
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.hub.query.serving import QueryServer
    from federator.sandbox.federation import Federation, Wrap
    from federator.sandbox.runtimes import Backends

READY = "ready"
"""File in the directory that exists once every API of the sandbox answers."""
LEADER_READER = "federator-leader-reader"
SETTLE_S = 120.0
FIGURES_S = 2.0


@click.command()
@click.option(
    "--clusters",
    default=3,
    show_default=True,
    type=click.IntRange(1, 500),
    help="Number of members.",
)
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False),
    help="Directory for kubeconfigs.",
)
@click.option("--fleet", "fleet_file", default="", help="Fleet file (YAML) instead of --clusters.")
@click.option(
    "--api-only", is_flag=True, help="Start only the APIs, without hub and member processes."
)
@click.option(
    "--once", is_flag=True, help="Exit once all APIs answer and everything on the host has settled."
)
@click.option("--seed", default=1, show_default=True, help="Seed of everything drawn by chance.")
def sandbox(
    clusters: int, directory: str, fleet_file: str, api_only: bool, once: bool, seed: int
) -> None:
    """Run embedded clusters to try things on. Writes DIR/host.kubeconfig, DIR/<member>.kubeconfig
    and, when ready, DIR/ready."""
    from federator.sandbox import fleetfile

    if fleet_file:
        try:
            fleet = fleetfile.parse(Path(fleet_file).read_text(encoding="utf-8"))
        except OSError as bad:
            common.fail(f"the fleet file cannot be read: {bad}")
        except ValueError as bad:
            common.fail(f"{fleet_file}: {bad}")
    else:
        fleet = fleetfile.generated(clusters)

    async def work(served: "Served") -> None:
        if not once:
            served.end_on_signals()
        served.announce()
        common.say(
            f"{len(fleet.members)} members and a host are up; kubeconfigs are in {directory}",
            err=True,
        )
        common.say(f"    kubectl --kubeconfig {served.kubeconfig('host')} get mc", err=True)
        if api_only:
            common.say(
                f"    federator hub --allow-loopback --kubeconfig {served.kubeconfig('host')}",
                err=True,
            )
            first = fleet.members[0].name if fleet.members else "NAME"
            member = f"federator member --cluster {first} --kubeconfig {served.kubeconfig(first)}"
            common.say(f"    {member}    # the same for every member", err=True)
        if once:
            if not api_only:
                await served.federation.until_settled(SETTLE_S)
            return
        await served.until_stopped()

    common.run(serving(fleet, Path(directory), work, seed=seed, api_only=api_only))


class Served:
    """A running sandbox: its federation, and the directory of its kubeconfigs."""

    def __init__(
        self,
        federation: Any,
        directory: Path,
        servers: Mapping[str, Any],
        backends: "Backends",
    ) -> None:
        self.federation = federation
        self.backends = backends
        self.directory = directory
        self._servers = servers
        self._stopped = asyncio.Event()

    def kubeconfig(self, cluster: str) -> Path:
        return self.directory / f"{cluster}.kubeconfig"

    def kubeconfig_of(self, token: str) -> str:
        """A kubeconfig of the host with this token."""
        from federator.embedded import http

        return http.kubeconfig({"host": self._servers["host"]}, "host", token=token)

    def write_contexts(self, path: Path) -> None:
        """Writes a kubeconfig with a context for the host (the current one) and for each member."""
        from federator.embedded import http

        http.write_kubeconfig(path, self._servers, "host")

    def announce(self) -> None:
        """Writes DIR/ready. A program that waits for this file may stop the sandbox at once."""
        (self.directory / READY).touch(mode=0o600)

    def end_on_signals(self) -> None:
        """Makes SIGTERM and Ctrl-C the normal end (exit 0) instead of an interruption (130 or 143).

        To be called before a user is told that Ctrl-C ends it.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)

    async def until_stopped(self) -> None:
        """Waits for a signal of `end_on_signals`. Raises when a part of the sandbox dies."""
        while not self._stopped.is_set():
            self.federation.check()
            try:
                await asyncio.wait_for(self._stopped.wait(), 1.0)
            except TimeoutError:
                continue


async def serving(
    fleet: Any,
    directory: Path,
    work: Callable[[Served], Coroutine[Any, Any, None]],
    *,
    seed: int = 1,
    api_only: bool = False,
    wrap: "Wrap | None" = None,
) -> None:
    """Starts and serves everything, writes the files, runs `work`, and always cleans up. `wrap`: as
    of a Federation."""
    from federator.embedded import http

    port: QueryServer | None = None
    with held(directory), _quiet_pods():
        async with _backends(directory, seed) as backends:
            federation = _federation(fleet, directory, seed, backends)
            if wrap is not None:
                federation.wrap = wrap
            servers = await http.serve_all([federation.host, *federation.members.values()])
            try:
                kubeconfigs = {
                    name: http.kubeconfig({name: server}, name) for name, server in servers.items()
                }
                for name, server in servers.items():
                    http.write_kubeconfig(directory / f"{name}.kubeconfig", {name: server}, name)
                federation.start_clusters()
                await federation.install(kubeconfigs)
                await grant_leader_read(federation.client("host"))
                if not api_only:
                    port = await query_port(federation)
                    federation.start_members()
                    federation.start_hub()
                _collect_rarely()
                await work(Served(federation, directory, servers, backends))
            finally:
                (directory / READY).unlink(missing_ok=True)
                for name in servers:
                    (directory / f"{name}.kubeconfig").unlink(missing_ok=True)
                await federation.stop()
                for listening in (port, *servers.values()):
                    if listening is not None:
                        await listening.close()
                for name in ("history", "gateway"):
                    shutil.rmtree(directory / name, ignore_errors=True)


@contextlib.contextmanager
def _quiet_pods() -> Iterator[None]:
    """Errors alone from the runtimes of the pods, and the former levels afterwards.

    Thousands of pods tell their owners by their status, and not on this terminal.
    """
    loggers = [logging.getLogger(f"federator.{part}") for part in ("runtime", "traffic", "signer")]
    former = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, former, strict=True):
            logger.setLevel(level)


@contextlib.asynccontextmanager
async def _backends(directory: Path, seed: int) -> AsyncIterator["Backends"]:
    """What the runtimes of the pods use, in a folder in memory where the machine has one."""
    from federator.kube.clock import RealClock
    from federator.sandbox import podfolders
    from federator.sandbox.runtimes import Backends

    shared = Path("/dev/shm")
    with podfolders.held(shared if os.access(shared, os.W_OK) else directory) as folder:
        backends = Backends(folder, RealClock(), random.Random(seed))
        try:
            yield backends
        finally:
            await backends.close()


def _federation(fleet: Any, directory: Path, seed: int, backends: "Backends") -> "Federation":
    """The federation of a fleet, with fresh tokens; nothing of it is started."""
    from federator.hub.history.options import HistoryOptions
    from federator.hub.options import HubOptions
    from federator.kube.clock import RealClock
    from federator.kube.metrics import Metrics
    from federator.member.options import MemberOptions
    from federator.sandbox.federation import Federation

    # The seed fixes the fleet's behaviour; tokens are secrets, so they come from the system.
    federation = Federation(
        fleet=fleet,
        clock=RealClock(),
        rng=random.Random(seed),
        # A user watches: members write their figures, and the hub copies them, more often than in
        # production. Small changes too, or figures would change half a minute after the rest.
        #
        # The lease only announces the leader; a pause of this single process must not lose it.
        hub_options=HubOptions(
            capacity_copy_interval_s=FIGURES_S,
            lease_duration_s=60.0,
            lease_renew_deadline_s=45.0,
            lease_retry_s=2.0,
        ),
        election=True,
        metrics=Metrics(),  # or the hub would not drill: the dashboard shows what it finds
        member_options=MemberOptions(capacity_write_s=FIGURES_S, capacity_small_write_s=FIGURES_S),
        support=backends.of,
    )
    federation.history = HistoryOptions(directory=str(directory / "history"))
    for cluster in (federation.host, *federation.members.values()):
        cluster.renew_token(os.urandom(16).hex())
    return federation


def _collect_rarely() -> None:
    """Makes full garbage collections rare: each walks thousands of long-lived objects and stops the
    loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


async def query_port(federation: Any) -> "QueryServer":
    """Serves the query port of the federation's current hub, announced in the Lease as in
    production."""
    from federator.advice import facts
    from federator.advice.plans import asked, verdicts
    from federator.hub.query import announcing
    from federator.hub.query.options import QueryOptions
    from federator.hub.query.questions import Sources
    from federator.hub.query.serving import QueryServer
    from federator.hub.snapshot.computing import Snapshots
    from federator.kube.threads import Threads

    options = QueryOptions()
    snapshots = Snapshots(
        lambda: federation.hub.state,
        federation.clock,
        shared=options.computed_at_once,
        timeout_s=options.compute_timeout_s,
    )
    read = Threads(1, options.compute_timeout_s)
    gates: dict[str, asyncio.Semaphore] = {}

    def sources() -> Sources:
        hub = federation.hub
        return Sources(
            hub.state,
            hub.host,
            federation.clock,
            options,
            facts.facts,
            snapshots,
            hub.controllers.placing.as_now,
            hub.journal,
            gates,
            hub.controllers.placing.inadmissible.for_room,
            asked.answer,
            lambda: hub.controllers.drilling.outcomes,
            verdicts.VERDICT,
            read=read,
        )

    server = QueryServer(
        federation.client("host", "query"),
        sources,
        lambda: str(federation.hub.elector.leader()),
        options=options,
        clock=federation.clock,
        closes=snapshots.close,
    )
    announcement = await server.start("")
    federation.announced["hub"] = lambda holder: announcing.notes(
        dataclasses.replace(announcement, holder=holder)
    )
    return server


async def grant_leader_read(host: Any) -> None:
    """Grants every user the right to read the leader's Lease and the pause object, as
    deploy/host/access does, so that users with rights in one namespace see the same as in
    production."""
    from federator.cli.leader import asking
    from federator.hub.records import pauses
    from federator.sandbox.federation import ensure

    group = "rbac.authorization.k8s.io"
    head = {
        "apiVersion": f"{group}/v1",
        "metadata": {"name": LEADER_READER, "namespace": asking.LEASE_NAMESPACE},
    }
    readable = {
        "coordination.k8s.io": ("leases", asking.LEASE_NAME),
        "": ("configmaps", pauses.PAUSE_OBJECT),
    }
    rules = [
        {"apiGroups": [api], "resources": [plural], "resourceNames": [name], "verbs": ["get"]}
        for api, (plural, name) in readable.items()
    ]
    subjects = [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}]
    reference = {"apiGroup": group, "kind": "Role", "name": LEADER_READER}
    await ensure(host, {**head, "kind": "Role", "rules": rules}, "roles")
    bound = {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects}
    await ensure(host, bound, "rolebindings")


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Holds the directory exclusively, with mode 0700, so that the kubeconfigs of another sandbox
    are not overwritten. Removes it at the end if it was created here and is empty."""
    made = not directory.exists()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        # The kernel releases this lock however the process ends, and no lock file is left behind.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        common.fail(f"another sandbox is using {directory}")
    try:
        (directory / READY).unlink(missing_ok=True)
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                directory.rmdir()
        os.close(descriptor)
