"""`federator demo`: a whole federation with an example application, in one process, to look at with kubectl and with
us.

Shows progress while workloads settle, ends with the federated table and what to type next, and stays up until Ctrl-C.
"""

import asyncio
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.cli.sandbox import Served

KUBECONFIG = "federator-demo.kubeconfig"
DEADLINE_S = 90.0
REFRESH_S = 0.25


@click.command()
@click.option("--once", is_flag=True, help="Exit 0 when everything has settled; 1, with the reason, when it does not.")
@click.option("--seed", default=1, show_default=True, help="Seed of everything drawn by chance.")
@click.option("--deadline", default=DEADLINE_S, show_default=True, help="Seconds until everything must have settled.")
@click.option("--clusters", default=6, show_default=True, type=click.IntRange(1, 100), help="How many members.")
def demo(once: bool, seed: int, deadline: float, clusters: int) -> None:
    """A federation of six clusters with an example application. Needs no Docker and no cluster."""
    from federator.cli import sandbox
    from federator.embedded import fleetfile

    fleet = fleetfile.parse(data("fleet.yaml")) if clusters == 6 else fleetfile.generated(clusters)

    async def work(served: "Served") -> None:
        started = asyncio.get_running_loop().time()
        kubeconfig = served.kubeconfig("host")
        shown = Path(KUBECONFIG)
        if not once:
            shown.unlink(missing_ok=True)
            shown.touch(mode=0o600)
            shown.write_bytes(kubeconfig.read_bytes())
        try:
            await submit(served.federation)
            await progress(served.federation, deadline)
            took = asyncio.get_running_loop().time() - started
            click.echo(await summary(served.federation))
            click.echo(f"\nEverything has settled, {took:.1f} s after the application was submitted.")
            if not once:
                click.echo(next_steps(str(shown)))
                await served.until_stopped()
        finally:
            if not once:
                shown.unlink(missing_ok=True)

    with tempfile.TemporaryDirectory(prefix="federator-demo-") as directory:
        try:
            common.run(sandbox.serving(fleet, Path(directory), work, seed=seed))
        except TimeoutError as late:
            common.fail(str(late))


def data(name: str) -> str:
    """A file of the example application."""
    return resources.files("federator.cli").joinpath("data", "demo", name).read_text(encoding="utf-8")


async def submit(federation: Any) -> None:
    """Creates the application on the host, as a user would."""
    from federator.api import read
    from federator.cli import objects

    client = federation.client("host")
    for obj in [profile(), *read.load_yaml(data("application.yaml"))]:
        await objects.create(client, obj)


def profile() -> Any:
    """The RuntimeProfile that ships with the package."""
    from federator.api import read

    text = resources.files("federator.cli").joinpath("data", "runtimeprofile.yaml").read_text(encoding="utf-8")
    return read.load_yaml(text)[0]


async def progress(federation: Any, deadline_s: float) -> None:
    """One line that moves on a terminal, a line every few seconds elsewhere. Raises TimeoutError at the deadline."""
    loop = asyncio.get_running_loop()
    started, shown_s, live = loop.time(), -10.0, sys.stderr.isatty()
    while True:
        done, waiting = federation.settled()
        now = loop.time() - started
        total = len(federation.hub.state.workloads)
        text = waiting[0] if waiting else ""
        if federation.hub.state.ready:
            left = len(federation.hub.gathering.settled()[1])
            text = f"{total - left} of {total} workloads have settled" + (f" ({text})" if text else "")
        if live:
            click.echo(f"\r\x1b[2K{now:5.1f} s  {text[:110]}", nl=done, err=True)
        elif done or now - shown_s >= 5:
            click.echo(f"{now:5.1f} s  {text}", err=True)
            shown_s = now
        if done and total:
            return
        if now > deadline_s:
            raise TimeoutError(f"not settled within {deadline_s:g} s: " + "; ".join(waiting[:5]))
        await asyncio.sleep(REFRESH_S)


async def summary(federation: Any) -> str:
    """The federated tables."""
    from federator.cli import views

    client = federation.client("host")
    parts = []
    for kind in ("MemberCluster", "PinterestService", "PinterestJobSet", "Deployment"):
        parts.append(await views.table_of(client, kind, all_namespaces=True))
    return "\n\n".join(part for part in parts if part)


def next_steps(kubeconfig: str) -> str:
    """The four commands that show most."""
    return "\n".join(
        (
            "",
            "Try, in another shell:",
            f"    export KUBECONFIG=$PWD/{kubeconfig}",
            "    federator explain psvc/homefeed -n feed          # why here, why not there",
            "    kubectl get psvc,pjs -A -o wide                  # a real kubectl works, on host and members",
            "    kubectl scale -n feed psvc/homefeed --replicas=3600 && federator get psvc -A -w",
            "    federator cluster cordon us-west-2a && federator get clusters",
            "",
            "Ctrl-C ends the federation.",
        )
    )
