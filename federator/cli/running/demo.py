"""`federator demo`: a whole federation with an example application in one process, to explore with
kubectl and federator.

Shows progress while workloads settle, then the federated tables and commands to try, and runs until
Ctrl-C, even when not everything has settled.
"""

import asyncio
import contextlib
import os
import random
import secrets
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.cli.running.sandbox import Served

KUBECONFIG = "federator-demo.kubeconfig"
DEADLINE_S = 90.0
REFRESH_S = 0.25
LOST_AFTER_S, LOST_S = 30.0, 180.0
LOSS = (
    f"\nOn the dashboard, {{cluster}} is lost in {LOST_AFTER_S:.0f} s. It returns"
    f" {LOST_S / 60:.0f} minutes later."
)
OPERATOR = "demo-operator"
"""The person that signs in with the link."""


@click.command()
@click.option(
    "--once",
    is_flag=True,
    help="Exit 0 once everything has settled; exit 1 with the reason if it does not.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of everything drawn by chance.")
@click.option(
    "--deadline",
    default=DEADLINE_S,
    show_default=True,
    help="Seconds to wait for everything to settle.",
)
@click.option(
    "--clusters",
    default=6,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Number of members, with the machines of the default six.",
)
@click.option(
    "--open",
    "opens",
    is_flag=True,
    help="Serve the dashboard too, print a link that signs in once, and open it in a browser.",
)
def demo(once: bool, seed: int, deadline: float, clusters: int, opens: bool) -> None:
    """Run a federation with an example application. Needs no Docker and no cluster."""
    from federator.cli.running import frontdoor, newcomers, sandbox
    from federator.sandbox import fleetfile
    from federator.sandbox.outages import Outages

    if once and opens:
        common.fail(
            "--once ends the federation when it has settled: it cannot be combined with --open"
        )
    fleet = fleetfile.resized(fleetfile.parse(data("fleet.yaml")), clusters)

    outages = Outages()

    async def work(served: "Served") -> None:
        started = asyncio.get_running_loop().time()
        shown = Path(KUBECONFIG)
        if not once:
            served.write_contexts(shown)
        newcomers.admit(served.federation.host)
        furnish(served.backends)
        async with contextlib.AsyncExitStack() as opened:
            if not once:
                opened.callback(shown.unlink, missing_ok=True)
            page = await opened.enter_async_context(dashboard(served.federation)) if opens else ""
            await submit(served.federation)
            if not once:
                file, workflow = data("gateway.yaml"), data("ranker.yaml").encode()
                await opened.enter_async_context(frontdoor.opened(served, file, workflow))
            late = await settled(served.federation, deadline, must=once)
            took = asyncio.get_running_loop().time() - started
            common.show(await summary(served.federation))
            common.show(f"\n{runtimes(served.backends)}")
            common.show(f"\n{late or await ending(served.federation, took)}")
            if not once:
                served.end_on_signals()
                members = [member.name for member in fleet.members]
                common.show(next_steps(str(shown), members, page))
                if opens:
                    lost = outages.once(members[-1], after_s=LOST_AFTER_S, lasting_s=LOST_S)
                    common.show(LOSS.format(cluster=members[-1]))
                    opened.push_async_callback(_ended, asyncio.create_task(lost))
                await served.until_stopped()

    with tempfile.TemporaryDirectory(prefix="federator-demo-") as directory:
        try:
            common.run(sandbox.serving(fleet, Path(directory), work, seed=seed, wrap=outages.wrap))
        except TimeoutError as late:
            common.fail(str(late))


@contextlib.asynccontextmanager
async def dashboard(federation: Any) -> AsyncIterator[str]:
    """The address of the dashboard of this federation, while it is served. Prints a link that signs
    in once as a person with all rights on the host, and opens it where there is a browser."""
    from federator.dashboard import server
    from federator.dashboard.options import DashboardOptions

    pages = server.Dashboard(
        federation.client("host", "dashboard"),
        options=server.Options(),
        clock=federation.clock,
        rng=random.Random(),
        draw=lambda: secrets.token_urlsafe(24),
        settings=DashboardOptions(act_as=(f"user:{OPERATOR}",)),
    )
    token = await operator(federation)
    async with server.running(pages) as (base, _):
        link = pages.link(base, token)
        common.show(f"The dashboard, with a link that signs in once:\n    {link}\n")
        if has_display():
            webbrowser.open(link)
        yield base


async def operator(federation: Any) -> str:
    """The token of a person with all rights on the host, by a role as operators have one. The
    dashboard acts as this person, and never as the administrator of the host."""
    from federator.embedded.storage.messages import Caller
    from federator.model.steps import ObjectRef

    group, token = "rbac.authorization.k8s.io", secrets.token_urlsafe(24)
    federation.host.add_token(token, Caller(OPERATOR))
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": OPERATOR}
    subject = {"apiGroup": group, "kind": "User", "name": OPERATOR}
    client = federation.client("host")
    for kind, fields in (
        ("ClusterRole", {"rules": [rule]}),
        ("ClusterRoleBinding", {"roleRef": role, "subjects": [subject]}),
    ):
        obj = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": OPERATOR}, **fields}
        ref = ObjectRef(f"{group}/v1", f"{kind.lower()}s", "", OPERATOR, kind)
        await client.create(ref, obj)
    return token


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def has_display() -> bool:
    """Whether a browser would have a window. A browser in the terminal would hide the output."""
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(named) or sys.platform in ("darwin", "win32")


def data(name: str) -> str:
    """A file of the example application."""
    return (
        resources.files("federator.cli").joinpath("data", "demo", name).read_text(encoding="utf-8")
    )


async def submit(federation: Any) -> None:
    """Creates the example application on the host, as a user would."""
    from federator.cli.files import objects
    from federator.kinds import read

    client = federation.client("host")
    for obj in [profile(), *read.load_yaml(data("application.yaml"))]:
        await objects.create(client, obj)


def furnish(backends: Any) -> None:
    """What the pods of the example application read: a secret that only the service search may
    read, and the artifact of its configuration."""
    import hashlib

    from federator.sandbox.runtimes import Artifact

    secret = backends.folder / "secrets" / "discovery" / "index"
    secret.mkdir(parents=True)
    (secret / "..readers").write_text("spiffe://federator.example/ns/discovery/sa/search\n")
    (secret / "token").write_text(secrets.token_urlsafe(24))
    held = data("ranking.yaml").encode()
    digest = f"sha256:{hashlib.sha256(held).hexdigest()}"
    backends.artifacts["oci://registry.example/discovery/ranking"] = Artifact(digest, held)


def profile() -> Any:
    """The RuntimeProfile that ships with the package."""
    from federator.kinds import read

    text = (
        resources.files("federator.cli")
        .joinpath("data", "runtimeprofile.yaml")
        .read_text(encoding="utf-8")
    )
    return read.load_yaml(text)[0]


async def settled(federation: Any, deadline_s: float, *, must: bool) -> str:
    """Waits until everything has settled. At the deadline, returns a sentence about what has not: a
    user may have changed something meanwhile and keeps the federation. With `must`, raises
    TimeoutError."""
    try:
        await progress(federation, deadline_s)
    except TimeoutError as late:
        if must:
            raise
        return f"It is {late}. The federation keeps running."
    return ""


async def progress(federation: Any, deadline_s: float) -> None:
    """Shows progress until all has settled: one updated line on a terminal, else a line every 5 s.
    Raises TimeoutError at the deadline."""
    loop = asyncio.get_running_loop()
    started, shown_s, live = loop.time(), -10.0, sys.stderr.isatty()
    while True:
        done, waiting = federation.settled()
        now = loop.time() - started
        total = len(federation.hub.state.workloads)
        text = waiting[0] if waiting else ""
        if federation.hub.state.ready:
            left = len(federation.hub.controllers.aggregation.settled()[1])
            text = f"{total - left} of {total} workloads have settled" + (
                f" ({text})" if text else ""
            )
        if live:
            click.echo(f"\r\x1b[2K{now:5.1f} s  {plaintext.visible(text[:110])}", nl=done, err=True)
        elif done or now - shown_s >= 5:
            common.say(f"{now:5.1f} s  {text}", err=True)
            shown_s = now
        if done and total:
            return
        if now > deadline_s:
            raise TimeoutError(f"not settled within {deadline_s:g} s: " + "; ".join(waiting[:5]))
        await asyncio.sleep(REFRESH_S)


async def ending(federation: Any, took_s: float) -> str:
    """The outcome in one sentence, and a line for each workload that is not fully placed."""
    from federator.api import raw
    from federator.kinds import registry

    client = federation.client("host")
    total, short = 0, []
    for kind in registry.WORKLOADS.values():
        for obj in (await client.list(kind.api_version, kind.plural)).items:
            total += 1
            placed = raw.condition(obj, "Placed")
            if raw.text(placed, "status") == "False":
                name = (
                    f"{kind.short_names[0]}/{obj['metadata']['name']} -n"
                    f" {obj['metadata']['namespace']}"
                )
                short.append(f"  {name}: {raw.text(placed, 'message')}")
    after = f"{took_s:.1f} s after the application was submitted"
    if not short:
        return f"Everything has settled, {after}: all {total} workloads have what they asked for."
    lacking = "one is" if len(short) == 1 else f"{len(short)} are"
    return "\n".join(
        (
            f"Everything has settled, {after}. Of {total} workloads, {lacking} not fully placed:",
            *short,
        )
    )


async def summary(federation: Any) -> str:
    """The federated tables."""
    from federator.cli import views
    from federator.kinds import registry

    client = federation.client("host")
    parts = []
    for kind in ("MemberCluster", *registry.WORKLOADS):
        parts.append(await views.table_of(client, kind, all_namespaces=True))
    return "\n\n".join(part for part in parts if part)


def runtimes(backends: Any) -> str:
    """The identity of each service, and how many of its pods the registry has in each cluster."""
    from federator.runtime.identity.renewal import rfc3339
    from federator.runtime.traffic import members

    identities: dict[str, tuple[str, float]] = {}
    for cluster in backends.clusters.values():
        for (_, workload), facts in cluster.identities():
            _, end_s = identities.get(workload, ("", facts["end_s"]))
            identities[workload] = (facts["id"], min(end_s, facts["end_s"]))
    shown = {}
    for folder, entries in sorted(backends.directory.folders.items()):
        read = (members.read(folder, node, entry.data) for node, entry in entries.items())
        counts = members.by_cluster(entry for entry in read if entry is not None)
        shown[folder] = {cluster: str(count) for cluster, (count, _) in counts.items()}
    clusters = sorted({cluster for each in shown.values() for cluster in each})
    rows = []
    for folder, registered in shown.items():
        name, end_s = identities.get(folder.split("/")[2], ("-", 0.0))
        until = rfc3339(end_s)[11:16] if end_s else "-"
        rows.append([folder, name, until, *(registered.get(each, "-") for each in clusters)])
    if not rows:
        return ""
    head = ["REGISTERED UNDER", "IDENTITY", "UNTIL", *clusters]
    note = (
        "Registered pods by cluster. The runtime runs in the first"
        f" {backends.run_max} pods of a workload in each cluster; the others are ready without it."
    )
    return f"{common.table(head, rows)}\n{note}"


def next_steps(kubeconfig: str, members: Sequence[str], page: str = "") -> str:
    """Commands to try, and how to put `federator` on PATH. `page`: the address of the dashboard, ""
    where there is none."""
    first = members[0]
    return "\n".join(
        (
            "",
            "Try, in another shell:",
            *(f"    {line}" for line in way_to_program()),
            f"    export KUBECONFIG=$PWD/{kubeconfig}          # a context for the host, and one"
            " for each member",
            "    federator explain psvc/homefeed -n feed          # why here, why not there",
            "    federator pods psvc/homefeed -n feed             # in every cluster; logs, tree,"
            " history too",
            "    kubectl get psvc,pjs -A -o wide                  # a real kubectl works, on host"
            " and members",
            f"    kubectl --context {first} get pods -n feed",
            "    kubectl scale -n feed psvc/homefeed --replicas=3600 && federator get psvc -A -w",
            f"    federator cluster cordon {first} && federator get clusters",
            "    . ./federator-demo.env                           # the submission gateway:"
            " docs/tour.md",
            "    federator submit $WORKFLOWS/ranker@v1 --param replicas=6",
            "",
            "Your own YAML, in three clusters: docs/using/first-service.md",
            *((f"The dashboard: {page}",) if page else ()),
            "",
            "Ctrl-C ends the federation.",
        )
    )


def way_to_program() -> list[str]:
    """A shell line that puts `federator` on PATH; [] when it is there already."""
    folder = Path(sys.executable).parent
    if shutil.which("federator") is not None or not (folder / "federator").exists():
        return []
    shown = (
        f"$PWD/{folder.relative_to(Path.cwd())}"
        if folder.is_relative_to(Path.cwd())
        else str(folder)
    )
    return [f"export PATH={shown}:$PATH"]
