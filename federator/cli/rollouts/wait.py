"""`federator wait KIND/NAME... --for=GOAL`: waits until workloads reach a goal, or cannot reach
it."""

from typing import TYPE_CHECKING

import click

from federator.cli import common
from federator.cli.rollouts import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from federator.kinds.pods.progress import Progress
    from federator.kube.client import Client

FOR = ("ready", "available", "placed", "rolled-out", "complete", "deleted")


@click.command()
@click.argument("workloads", nargs=-1, required=True, metavar="KIND/NAME...")
@click.option("--for", "goal", required=True, type=click.Choice(FOR), help="What to wait for.")
@click.option(
    "--timeout",
    default="5m",
    type=waiting.Duration(),
    help="How long to wait, such as 30s; 0 looks once. [5m]",
)
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@common.connection_options
def wait(
    workloads: tuple[str, ...],
    goal: str,
    timeout: float,
    namespace: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Wait until workloads (psvc/NAME, pjs/NAME, deploy/NAME) are ready, available, placed,
    rolled-out, complete or deleted. Exit 0: all are. Exit 1: timed out, or waiting cannot help
    (stalled, failed or missing).

    ready: all desired copies are ready with the current template. available: enough copies serve,
    with any template. deleted: no cluster has anything of it left.
    """
    targets = waiting.targets(workloads)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> bool:
        return await reached(client, targets, where, goal, timeout)

    common.finish(kubeconfig, context, work)


async def reached(
    client: "Client", targets: "Sequence[waiting.Target]", namespace: str, goal: str, timeout: float
) -> bool:
    """Waits until all targets have reached the goal, and prints what becomes of each. False: one
    has failed, or the time is over. `timeout` 0 looks once. Raises ApiErrors."""
    left = dict.fromkeys(targets, "")
    refusals, well = waiting.Refusals(once=timeout == 0), True

    async def look() -> bool:
        nonlocal well
        for target in list(left):
            state = await progress_of(client, target, namespace, goal)
            state = refusals.judged(target, state)
            way_on = waiting.way_on(target, namespace, state)
            if state.done:
                common.say(f"{target.text} {_met(goal)}")
            if state.failed:
                common.say(f"error: {_continued(state.failed, way_on)}", err=True)
                well = False
            if state.done or state.failed:
                del left[target]
            else:
                left[target] = _continued(state.waits, way_on)
        return not left

    if not await waiting.until(waiting.Hub(client), timeout, look, once=timeout == 0):
        for target, waits in left.items():
            common.say(f"error: timed out waiting for {target.text}: {waits}", err=True)
        return False
    return well


def _continued(text: str, more: str) -> str:
    """A sentence that goes on with `more`."""
    return f"{text.removesuffix('.')}{more}" if more else text


def _met(goal: str) -> str:
    return {"deleted": "deleted", "rolled-out": "rolled out"}.get(goal, f"{goal} condition met")


async def progress_of(
    client: "Client", target: waiting.Target, namespace: str, goal: str
) -> "Progress":
    """Progress of one workload towards a goal. Raises ApiErrors."""
    from federator.api import raw
    from federator.kinds import registry
    from federator.kinds.pods import progress
    from federator.kube import errors

    try:
        obj = await client.get(target.kind.ref(namespace, target.name))
    except errors.NotFound:
        if goal != "deleted":
            text = f'{target.kind.plural} "{target.name}" not found in namespace {namespace}'
            return progress.Progress(failed=text)
        decision = registry.KINDS["PlacementDecision"]
        listing = await client.list(decision.api_version, decision.plural, namespace)
        left = progress.decisions_left(listing.items, target.kind, target.name)
        if not left:
            return progress.DONE
        waits = raw.mapping(left[0], "spec", "deletion")
        blocked = (
            f" ({', '.join(raw.texts(waits, 'waitingFor'))} unreachable)"
            if waits.get("waitingFor")
            else ""
        )
        return progress.Progress(
            waits=f"it is gone from the host, and its clusters are being emptied{blocked}"
        )
    if goal == "deleted":
        going = "deletionTimestamp" in obj["metadata"]
        return progress.Progress(
            waits="it is being deleted" if going else "it exists and is not being deleted"
        )
    return progress.GOALS[goal](target.kind, obj)
