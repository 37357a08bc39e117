"""`federator rollout status | history | undo | restart KIND/NAME`: as kubectl's, over all clusters. Reads and writes
the host only, with the caller's own rights."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.rollouts import waiting
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.kinds.pods.revisions import Revision
    from federator.kube.client import Client

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
STATUSES_MAX = 10
"""Statuses written while one reads and writes, at most: the hub writes one a second."""


@click.group()
def rollout() -> None:
    """Follow, look back at, take back and repeat roll-outs of services and Deployments."""


def _options(command: common.F) -> common.F:
    command = click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")(command)
    return common.connection_options(click.argument("workload", nargs=-1, required=True, metavar="KIND/NAME")(command))


def _target(workload: tuple[str, ...]) -> waiting.Target:
    from federator.model.ask import Unit

    found = waiting.targets(workload)
    if len(found) != 1:
        common.fail("name one workload")
    verbs = found[0].kind.verbs
    if verbs is None or verbs.unit is not Unit.REPLICAS:
        common.fail(
            f"a {found[0].kind.kind} does not roll: its shards keep the template that they began with;"
            " see `federator wait --for=complete`"
        )
    return found[0]


async def _read(client: "Client", target: waiting.Target, namespace: str) -> dict[str, Any]:
    from federator.kube import errors

    try:
        return await client.get(target.kind.ref(namespace, target.name))
    except errors.NotFound:
        common.fail(f'{target.kind.plural} "{target.name}" not found in namespace {namespace}')


# -- status ------------------------------------------------------------------------------------------------------------


@rollout.command()
@_options
@click.option("-w", "--watch/--no-watch", default=True, help="Follow until it is over (default), or look once.")
@click.option("--timeout", default="0", type=waiting.Duration(), help="Give up after so long, such as 10m; 0: never.")
def status(
    workload: tuple[str, ...], namespace: str, watch: bool, timeout: float, kubeconfig: str, context: str
) -> None:
    """Follow a roll-out, cluster by cluster. Exit 0: done (or, with --no-watch, told). Exit 1: it failed, with the
    first reason, or the time is over."""
    from federator.cli.rollouts import progress

    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> int:
        said, end = "", 1
        rows: dict[str, str] = {}
        uid = (await _read(client, target, where))["metadata"]["uid"]

        async def look() -> bool:
            nonlocal said, rows, end
            obj = await _read(client, target, where)
            if obj["metadata"]["uid"] != uid:
                common.fail(f"{progress.name_of(target.kind, obj)} was deleted and made anew meanwhile")
            found, now = progress.rolled_out(target.kind, obj), progress.clusters(obj)
            if found.waits and found.waits != said:
                said = found.waits
                common.say(said)
            if not found.done:
                for cluster, text in now.items():
                    if rows.get(cluster) != text:
                        common.say(f"  {cluster}: {text}")
                rows = now
            if found.failed:
                common.say(f"error: {found.failed}", err=True)
            elif found.done:
                common.say(f"{progress.name_of(target.kind, obj)} successfully rolled out")
                end = 0
            return found.done or bool(found.failed)

        over = await waiting.until(waiting.Hub(client), timeout, look, once=not watch)
        if over or not watch:
            return end if over else 0
        common.say(f"error: timed out waiting for the rollout of {target.text}: {said}", err=True)
        return 1

    sys.exit(common.run(common.with_federation(kubeconfig, context, work)))


# -- history -----------------------------------------------------------------------------------------------------------


@rollout.command()
@_options
@click.option("--revision", default=0, type=click.IntRange(min=0), help="Show this one in full.")
def history(workload: tuple[str, ...], namespace: str, revision: int, kubeconfig: str, context: str) -> None:
    """The last ten contents of a workload's pods, what changed from one to the next, and why (the annotation
    kubernetes.io/change-cause)."""
    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> tuple[dict[str, Any], list["Revision"]]:
        obj = await _read(client, target, where)
        return obj, await _revisions(client, target, obj)

    obj, kept = common.run(common.with_federation(kubeconfig, context, work))
    if revision:
        common.show(_in_full(target, kept, revision))
        return
    common.say(target.text)
    common.show(_table(kept))
    if dict(kept[-1].parts) != _parts(target, obj):
        common.say("note: what it says now has not reached any cluster yet", err=True)


async def _revisions(client: "Client", target: waiting.Target, obj: Mapping[str, Any]) -> list["Revision"]:
    """The history, oldest first; of a workload that never rolled, what it is now as number 1."""
    from federator.kinds.pods import revisions
    from federator.model import names

    meta = obj["metadata"]
    selector = f"{names.WORKLOAD_UID_LABEL}={meta['uid']}"
    listing = await client.list(revisions.API_VERSION, revisions.PLURAL, meta["namespace"], label_selector=selector)
    kept = revisions.history(listing.items, meta["uid"])
    if kept:
        return kept
    created = meta.get("creationTimestamp", "")
    return [revisions.Revision("", "", 1, _parts(target, obj), ("", ""), revisions.cause_of(obj), created)]


def _parts(target: waiting.Target, obj: Mapping[str, Any]) -> dict[str, Any]:
    assert target.kind.verbs is not None
    return target.kind.verbs.pods(obj)


def _table(kept: list["Revision"]) -> str:
    from federator.kinds.pods import revisions

    rows = []
    for before, one in zip([None, *kept], kept, strict=False):
        changed = revisions.changes(before, one)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        rows.append([str(one.number), (changed[0] if changed else "") + more or "<first known>", one.cause or "<none>"])
    return common.table(["REVISION", "CHANGED", "CHANGE-CAUSE"], rows)


def _in_full(target: waiting.Target, kept: list["Revision"], number: int) -> str:
    from federator.kinds.pods import revisions

    numbers = [one.number for one in kept]
    if number not in numbers:
        common.fail(f"unable to find revision {number} of {target.text}; there are {', '.join(map(str, numbers))}")
    place = numbers.index(number)
    one, lines = kept[place], []
    lines.append(f"{target.text} with revision #{number}")
    lines += [f"Change-Cause: {one.cause}"] if one.cause else []
    lines += [f"RuntimeProfile: {' '.join(one.profile)}"] if one.profile[0] else []
    if changed := revisions.changes(kept[place - 1] if place else None, one):
        lines += [f"Changed since revision {numbers[place - 1]}:", *(f"  {line}" for line in changed)]
    lines = [plaintext.visible(line) for line in lines]
    lines.append(common.dump(dict(one.parts), "yaml"))
    return "\n".join(lines)


# -- undo and restart --------------------------------------------------------------------------------------------------


@rollout.command()
@_options
@click.option("--to-revision", default=0, type=click.IntRange(min=0), help="Which one; the one before when left out.")
def undo(workload: tuple[str, ...], namespace: str, to_revision: int, kubeconfig: str, context: str) -> None:
    """Write what the pods were made from in an earlier revision back into the workload: your own change, with your own
    rights, on the condition that nobody changes it meanwhile. It is rolled out as any other."""
    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> str:
        obj = await _read(client, target, where)
        now = _parts(target, obj)
        chosen = _chosen(target, await _revisions(client, target, obj), now, to_revision)
        if dict(chosen.parts) == now:
            return f"{target.text} skipped rollback (it already is as in revision {chosen.number})"
        await _warn_of_profile(client, chosen)
        await _write_back(client, target, obj, chosen)
        return f"{target.text} rolled back to revision {chosen.number}"

    common.say(common.run(common.with_federation(kubeconfig, context, work)))


async def _write_back(client: "Client", target: waiting.Target, obj: Mapping[str, Any], chosen: "Revision") -> None:
    """Writes the parts of a revision into the workload as it was read. Ends the command when somebody has changed what
    it asks for; a status that was written meanwhile is no such change."""
    from federator.kinds.pods import podparts
    from federator.kube import errors
    from federator.model.kubernetes import diffs

    fields = ("template",) if target.kind.model is None else podparts.FIELDS
    live = {name: obj["spec"][name] for name in fields if name in obj["spec"]}
    patch: dict[str, Any] = {"spec": diffs.replacement_patch(live, dict(chosen.parts))}
    found, namespace = obj, obj["metadata"]["namespace"]
    for _ in range(STATUSES_MAX):
        patch["metadata"] = _cause(obj, chosen.cause) | {"resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            await client.patch(target.kind.ref(namespace, target.name), patch, strict=True)
            return
        except errors.Conflict:
            found = await _read(client, target, namespace)
        if _asked(found) != _asked(obj):
            break
    common.fail(f"{target.text} was changed meanwhile, and is left as it is; look at it and try again")


def _asked(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which object it is and what people wrote into it."""
    meta = obj["metadata"]
    return meta.get("uid"), obj.get("spec"), meta.get("labels"), meta.get("annotations")


def _cause(obj: Mapping[str, Any], cause: str) -> dict[str, Any]:
    """The reason of the revision that comes back, instead of that of the change that is undone."""
    from federator.kinds.pods import revisions

    if cause == revisions.cause_of(obj):
        return {}
    return {"annotations": {revisions.CHANGE_CAUSE: cause or None}}


def _chosen(target: waiting.Target, kept: list["Revision"], now: dict[str, Any], number: int) -> "Revision":
    """The revision of that number; for 0 the newest that is not what the workload says now."""
    if number:
        found = next((one for one in kept if one.number == number), None)
        if found is None:
            numbers = ", ".join(str(one.number) for one in kept)
            common.fail(f"unable to find revision {number} of {target.text}; there are {numbers}")
        return found
    earlier = next((one for one in reversed(kept) if dict(one.parts) != now), None)
    if earlier is None:
        common.fail(f"no rollout history found for {target.text}: its pods have been as they are from the beginning")
    return earlier


async def _warn_of_profile(client: "Client", chosen: "Revision") -> None:
    """What an undo cannot bring back: the version of the RuntimeProfile."""
    from federator.api import runtimeprofile
    from federator.kinds import registry
    from federator.kube import errors

    name, pinned = chosen.profile
    if not name:
        return
    try:
        present = runtimeprofile.content_hash(await client.get(registry.KINDS["RuntimeProfile"].ref("", name)))
    except errors.NotFound:
        present = ""
    except errors.ApiError:
        return  # who may not read it is not told
    if present != pinned:
        now = f"is {present} now, which is what pods get" if present else "is there no more"
        common.say(f"note: revision {chosen.number} ran with RuntimeProfile {name} {pinned}; it {now}", err=True)


@rollout.command()
@_options
def restart(workload: tuple[str, ...], namespace: str, kubeconfig: str, context: str) -> None:
    """Replace every pod, cluster by cluster as the policy says: by an annotation of the template, as kubectl does."""
    import time

    from federator.api import raw

    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> None:
        obj = await _read(client, target, where)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if raw.text(obj, "spec", "template", "metadata", "annotations", RESTARTED_AT) == stamp:
            common.fail(f"{target.text} was restarted within this second; try again")
        template = {"metadata": {"annotations": {RESTARTED_AT: stamp}}}
        body = {"metadata": {"uid": obj["metadata"]["uid"]}, "spec": {"template": template}}
        await client.patch(target.kind.ref(where, target.name), body)

    common.run(common.with_federation(kubeconfig, context, work))
    common.say(f"{target.text} restarted")
