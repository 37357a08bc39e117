"""`federator probe run` and `status`: a request is an annotation of the MemberCluster, the hub does
the work, and the result is in its status."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.rollouts import waiting

if TYPE_CHECKING:
    from federator.kube.client import Client

Obj = Mapping[str, Any]
HEADERS: Final = ("CLUSTER", "RESULT", "STAGE", "FINISHED", "GATE", "MESSAGE")
TIMEOUT: Final = "20m"
"""A probe may take 13 minutes at most, and waits while others are probed."""

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format.",
)


@click.group()
def probe() -> None:
    """Probe clusters with workloads: place, reach, roll and remove a small service in each."""


@probe.command("run")
@click.argument("names", metavar="[CLUSTER...]", nargs=-1)
@click.option("--wait", is_flag=True, help="Wait for the results. Exit 1: not every probe passed.")
@click.option(
    "--timeout",
    type=waiting.Duration(),
    default=TIMEOUT,
    show_default=True,
    help="With --wait: stop waiting after this time. 0: never.",
)
@output_option
@common.connection_options
def run_probes(
    names: tuple[str, ...], wait: bool, timeout: float, output: str, kubeconfig: str, context: str
) -> None:
    """Probe these clusters now, or all of them.

    Without --wait the command returns when the requests are written. With --wait it prints the
    results, and exits with 1 unless every cluster has passed: a cluster that is Busy has not."""

    async def work(host: "Client") -> bool:
        chosen = await _chosen(host, names)
        asked = await _asked(host, chosen)
        if not wait:
            for name in sorted(asked):
                common.say(f"membercluster.federation.pinterest.com/{name} is to be probed")
            return len(asked) == len(chosen)
        ended: dict[str, Obj] = {}

        async def look() -> bool:
            for obj in await _clusters(host):
                name = name_of(obj)
                if name in asked and probe_of(obj).get("request") == asked[name]:
                    ended.setdefault(name, obj)
            return asked.keys() <= ended.keys()

        complete = await waiting.until(waiting.Hub(host), timeout, look)
        _print([obj for _, obj in sorted(ended.items())], output)
        if not complete:
            late = ", ".join(sorted(asked.keys() - ended.keys()))
            common.say(f"error: no result within {timeout:g} s: {late}", err=True)
        results = [probe_of(obj).get("result") for obj in ended.values()]
        passed = complete and all(result == "Passed" for result in results)
        return passed and len(asked) == len(chosen)

    common.finish(kubeconfig, context, work)


@probe.command()
@click.argument("names", metavar="[CLUSTER...]", nargs=-1)
@output_option
@common.connection_options
def status(names: tuple[str, ...], output: str, kubeconfig: str, context: str) -> None:
    """Show the last probe of these clusters, or of all. Exit 1: the last probe of one failed."""

    async def work(host: "Client") -> bool:
        chosen = await _chosen(host, names)
        _print(chosen, output)
        return all(probe_of(obj).get("result") != "Failed" for obj in chosen)

    common.finish(kubeconfig, context, work)


async def _clusters(host: "Client") -> list[Obj]:
    from federator.kinds import registry

    kind = registry.KINDS["MemberCluster"]
    return sorted((await host.list(kind.api_version, kind.plural)).items, key=name_of)


async def _chosen(host: "Client", names: Sequence[str]) -> list[Obj]:
    """The clusters with these names, or all. Ends the command when there is none of a name: then
    nothing is probed."""
    every = {name_of(obj): obj for obj in await _clusters(host)}
    missing = sorted(set(names) - every.keys())
    if missing:
        known = ", ".join(every) or "none"
        common.fail(f"there is no cluster {', '.join(missing)}; the federation has {known}")
    if not every:
        common.fail("the federation has no clusters")
    return [obj for name, obj in every.items() if name in names or not names]


async def _asked(host: "Client", chosen: Sequence[Obj]) -> dict[str, str]:
    """Asks for a probe of each; name -> its request. Names those that the host refuses."""
    from federator.kube import errors

    asked: dict[str, str] = {}
    for obj in chosen:
        try:
            asked[name_of(obj)] = await _ask(host, obj)
        except errors.ApiError as refused:
            common.say(f"error: {name_of(obj)}: {refused}", err=True)
    return asked


async def _ask(host: "Client", obj: Obj) -> str:
    """Asks for a probe; returns the request."""
    from federator.kinds import registry
    from federator.kube import clock
    from federator.model import names

    request = f"{clock.stamp(time.time())}/{uuid.uuid4().hex[:8]}"
    body = {"metadata": {"annotations": {names.PROBE_ANNOTATION: request}}}
    await host.patch(registry.KINDS["MemberCluster"].ref("", name_of(obj)), body)
    return request


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def probe_of(obj: Obj) -> Obj:
    """Its `status.probe`."""
    last: Obj = (obj.get("status") or {}).get("probe") or {}
    return last


def _print(clusters: Sequence[Obj], output: str) -> None:
    if output != "table":
        shown = [
            {"cluster": name_of(obj), "gate": gate_of(obj), **probe_of(obj)} for obj in clusters
        ]
        common.show(common.dump(shown, output))
        return
    common.show(common.table(HEADERS, [_row(obj) for obj in clusters]))


def _row(obj: Obj) -> list[str]:
    probe = probe_of(obj)
    result = str(probe.get("result", "-"))
    if probe.get("runningSince"):
        result = f"{result} (running)" if probe.get("result") else "(running)"
    finished = probe.get("finishedAt")
    ago = f"{common.age(finished, time.time())} ago" if finished else "-"
    return [
        name_of(obj),
        result,
        str(probe.get("stage") or "-"),
        ago,
        gate_of(obj) or "-",
        str(probe.get("message") or ""),
    ]


def gate_of(obj: Obj) -> str:
    """Open or Closed where a ClusterStandard asks for a passed probe; "" where none does."""
    from federator.api import memberfields

    if not probe_of(obj).get("gateSince"):
        return ""
    ready = [
        condition.get("status")
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "Ready"
    ]
    return "Closed" if ready != ["True"] or memberfields.unproven(obj) else "Open"
