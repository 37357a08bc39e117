"""`federator apply`: carries out a saved plan, unless its outcome would be another one by now."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator import __version__
from federator.cli import common

if TYPE_CHECKING:
    from federator.advice.plans.saved import Saved
    from federator.hub.placing.offline import Id
    from federator.kube.client import Client

SHOWN: Final = 20
ORDER: Final = (
    "Namespace",
    "RuntimeProfile",
    "FederatedQuota",
    "PlacementInvariant",
    "ClusterPlacementPolicy",
    "PlacementPolicy",
    "MemberCluster",
)
"""Kinds in the order in which they are written; workloads come last."""


@click.command()
@click.argument("saved", metavar="PLAN", type=click.Path(exists=True, dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Compare only: write nothing.")
@common.leader_option
@common.connection_options
def apply(saved: str, *, dry_run: bool, **given: str) -> None:
    """Apply the objects of a plan that `federator plan --out PLAN` saved. The leading hub plans the
    same edits again first. Where their outcome would no longer be the planned one, or the hub
    refuses one of them, nothing is written, and the command names what changed.

    Exit 0: applied. Exit 1: not applied, or only in part; the message says what.
    """
    made = _read(saved)
    common.run(_applied(made, given, saved, dry_run=dry_run))


def _read(path: str) -> "Saved":
    from federator.advice.plans import saved as saving

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return saving.read(text, __version__)
    except (OSError, UnicodeDecodeError) as trouble:
        common.fail(f"{path}: {trouble}")
    except saving.Unreadable as bad:
        common.fail(f"{path}: {bad}")


async def _applied(made: "Saved", given: Mapping[str, str], path: str, *, dry_run: bool) -> None:
    from federator.advice.plans import saved as saving
    from federator.cli.leader import asking

    async def work(host: "Client") -> None:
        live = await _live(host, made)  # first: what changes after this fails its write
        document = await asking.plan(made.asked, given, host)
        if document["refused"]:
            common.fail(f"{path}: not applied, because the hub refuses it:", *document["refused"])
        differs = saving.differences(made.document, document)
        if differs:
            more = len(differs) - SHOWN
            common.fail(
                f"{path}: not applied, because its outcome would no longer be the planned one:",
                *differs[:SHOWN],
                *([f"and {more} more differences"] if more > 0 else []),
                "plan again, and apply that",
            )
        if dry_run:
            common.say("The outcome is still the planned one. Nothing was written.")
            return
        await _write(host, made, live)

    await common.with_federation(given["kubeconfig"], given["context"], work)


async def _live(host: "Client", made: "Saved") -> dict["Id", dict[str, Any]]:
    """The objects that are edited, as far as they exist."""
    from federator.hub.placing import offline
    from federator.kube import errors

    named = (*map(offline.id_of, made.applied), *made.deleted, *(which for which, _ in made.scaled))
    live: dict[Id, dict[str, Any]] = {}
    for which in dict.fromkeys(named):
        try:
            live[which] = await host.get(_ref(which))
        except errors.NotFound:
            continue
    return live


def _ref(which: "Id") -> Any:
    from federator.kinds import registry
    from federator.model.steps import ObjectRef

    kind, namespace, name = which
    if kind == "Namespace":
        return ObjectRef("v1", "namespaces", "", name, kind)
    return registry.KINDS[kind].ref(namespace, name)


async def _write(host: "Client", made: "Saved", live: Mapping["Id", dict[str, Any]]) -> None:
    """Writes every edit. Ends the command at the first that fails, with what was written before."""
    from federator.hub.placing import offline
    from federator.kube import errors

    ordered = sorted(made.applied, key=_order)
    steps: Sequence[tuple[str, Id, Any]] = [
        *(("applied", offline.id_of(obj), obj) for obj in ordered),
        *(("scaled", which, count) for which, count in made.scaled),
        *(("deleted", which, None) for which in made.deleted),
    ]
    for at, (what, which, value) in enumerate(steps):
        title = f"{which[0]}/{which[2]}"
        try:
            await _step(host, which, what, value, live.get(which))
        except errors.Conflict:
            why = "it was changed by somebody else meanwhile"
            common.fail(f"{title}: not {what}: {why}", *_left(steps[:at]))
        except errors.ApiError as trouble:
            common.fail(f"{title}: not {what}: {trouble}", *_left(steps[:at]))
        common.say(f"{title} {what}")


def _order(obj: Mapping[str, Any]) -> int:
    kind = str(obj["kind"])
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def _left(done: Iterable[tuple[str, "Id", Any]]) -> list[str]:
    names = [f"{which[0]}/{which[2]} {what}" for what, which, _ in done]
    return [f"done before: {', '.join(names)}"] if names else ["nothing was written"]


async def _step(
    host: "Client", which: "Id", what: str, value: Any, live: dict[str, Any] | None
) -> None:
    """One write, of the state of the object that was planned with. Raises ApiError."""
    from federator.advice.plans import edits
    from federator.kinds import registry

    ref = _ref(which)
    if what == "deleted":
        if live is not None:
            meta = live["metadata"]
            await host.delete(ref, uid=meta["uid"], resource_version=meta["resourceVersion"])
        return
    if what == "scaled":
        assert live is not None
        amount = registry.verbs_of(which[0]).amount
        body = {**live, "spec": {**live["spec"], amount: value}}
    else:
        body = edits.written(value, live)
    if live is None:
        await host.create(ref, body, strict=True)
    else:
        await host.replace(ref, body, strict=True)
