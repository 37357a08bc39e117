"""`federator rollout status | history | undo | restart KIND/NAME`: as in kubectl, across all
clusters. Reads and writes the host only, with the caller's own rights."""

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


@click.group()
def rollout() -> None:
    """Follow, list, undo and restart rollouts of services and Deployments."""


def _options(command: common.F) -> common.F:
    command = click.option(
        "-n", "--namespace", default="", help="Namespace (default: the context's)."
    )(command)
    return common.connection_options(
        click.argument("workload", nargs=-1, required=True, metavar="KIND/NAME")(command)
    )


def _target(workload: tuple[str, ...]) -> waiting.Target:
    from federator.kinds import edits

    targets = waiting.targets(workload)
    if len(targets) != 1:
        common.fail("name one workload")
    if not edits.rolls_out(targets[0].kind):
        common.fail(
            f"a {targets[0].kind.kind} has no rollout: its shards keep the template that they"
            " started with;"
            " see `federator wait --for=complete`"
        )
    return targets[0]


async def _read(client: "Client", target: waiting.Target, namespace: str) -> dict[str, Any]:
    from federator.kube import errors

    try:
        return await client.get(target.kind.ref(namespace, target.name))
    except errors.NotFound:
        common.fail(f'{target.kind.plural} "{target.name}" not found in namespace {namespace}')


# -- status -------------------------------------------------------------------


@rollout.command()
@_options
@click.option(
    "-w", "--watch/--no-watch", default=True, help="Follow until it ends (default), or look once."
)
@click.option(
    "--timeout",
    default="0",
    type=waiting.Duration(),
    help="Give up after this time, such as 10m; 0: never.",
)
def status(
    workload: tuple[str, ...],
    namespace: str,
    watch: bool,
    timeout: float,
    kubeconfig: str,
    context: str,
) -> None:
    """Follow a rollout, cluster by cluster. Exit 0: it is done (or, with --no-watch, was shown).
    Exit 1: it failed, with the first reason, or timed out."""
    from federator.kinds.pods import progress

    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> int:
        last_text, end = "", 1
        rows: dict[str, str] = {}
        refusals = waiting.Refusals(once=not watch)
        uid = (await _read(client, target, where))["metadata"]["uid"]

        async def look() -> bool:
            nonlocal last_text, rows, end
            obj = await _read(client, target, where)
            if obj["metadata"]["uid"] != uid:
                common.fail(
                    f"{progress.name_of(target.kind, obj)} was deleted and created again meanwhile"
                )
            now = progress.clusters(obj)
            state = refusals.judged(target, progress.rolled_out(target.kind, obj))
            if state.waits and state.waits != last_text:
                last_text = state.waits
                common.say(last_text)
            if not state.done:
                for cluster, text in now.items():
                    if rows.get(cluster) != text:
                        common.say(f"  {cluster}: {text}")
                rows = now
            if state.failed:
                common.say(f"error: {state.failed}", err=True)
            elif state.done:
                common.say(f"{progress.name_of(target.kind, obj)} successfully rolled out")
                end = 0
            return state.done or bool(state.failed)

        over = await waiting.until(waiting.Hub(client), timeout, look, once=not watch)
        if over or not watch:
            return end if over else 0
        common.say(
            f"error: timed out waiting for the rollout of {target.text}: {last_text}", err=True
        )
        return 1

    sys.exit(common.run(common.with_federation(kubeconfig, context, work)))


# -- history ------------------------------------------------------------------


@rollout.command()
@_options
@click.option(
    "--revision", default=0, type=click.IntRange(min=0), help="Show this revision in full."
)
def history(
    workload: tuple[str, ...], namespace: str, revision: int, kubeconfig: str, context: str
) -> None:
    """List the last ten revisions of a workload: what changed in its pods, and why (annotation
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
        common.say("note: the current template has not reached any cluster yet", err=True)


async def _revisions(
    client: "Client", target: waiting.Target, obj: Mapping[str, Any]
) -> list["Revision"]:
    """The revisions, oldest first. A workload that never rolled out has its current state as number
    1."""
    from federator.kinds import edits
    from federator.kinds.pods import revisions
    from federator.model import names

    meta = obj["metadata"]
    selector = f"{names.WORKLOAD_UID_LABEL}={meta['uid']}"
    listing = await client.list(
        revisions.API_VERSION, revisions.PLURAL, meta["namespace"], label_selector=selector
    )
    return revisions.history(listing.items, meta["uid"]) or [edits.present(target.kind, obj)]


def _parts(target: waiting.Target, obj: Mapping[str, Any]) -> dict[str, Any]:
    assert target.kind.verbs is not None
    return target.kind.verbs.pods(obj)


def _table(kept: list["Revision"]) -> str:
    from federator.kinds.pods import revisions

    rows = []
    for before, revision in zip([None, *kept], kept, strict=False):
        changed = revisions.changes(before, revision)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        shown = (changed[0] if changed else "") + more or "<first known>"
        rows.append([str(revision.number), shown, revision.cause or "<none>"])
    return common.table(["REVISION", "CHANGED", "CHANGE-CAUSE"], rows)


def _in_full(target: waiting.Target, kept: list["Revision"], number: int) -> str:
    from federator.kinds.pods import revisions

    numbers = [each.number for each in kept]
    if number not in numbers:
        common.fail(
            f"unable to find revision {number} of {target.text}; there are"
            f" {', '.join(map(str, numbers))}"
        )
    place = numbers.index(number)
    revision, lines = kept[place], []
    lines.append(f"{target.text} with revision #{number}")
    lines += [f"Change-Cause: {revision.cause}"] if revision.cause else []
    lines += [f"RuntimeProfile: {' '.join(revision.profile)}"] if revision.profile[0] else []
    if changed := revisions.changes(kept[place - 1] if place else None, revision):
        lines += [
            f"Changed since revision {numbers[place - 1]}:",
            *(f"  {line}" for line in changed),
        ]
    lines = [plaintext.visible(line) for line in lines]
    lines.append(common.dump(dict(revision.parts), "yaml"))
    return "\n".join(lines)


# -- undo and restart ---------------------------------------------------------


@rollout.command()
@_options
@click.option(
    "--to-revision",
    default=0,
    type=click.IntRange(min=0),
    help="Revision to restore (default: the previous one).",
)
def undo(
    workload: tuple[str, ...], namespace: str, to_revision: int, kubeconfig: str, context: str
) -> None:
    """Write the pod template of an earlier revision back into the workload: a change of your own,
    with your rights, refused if the workload changes meanwhile. It rolls out like any other change.
    """
    from federator.kinds import edits
    from federator.model.errors import FieldError

    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> str:
        obj = await _read(client, target, where)
        now = _parts(target, obj)
        try:
            chosen = edits.earlier(await _revisions(client, target, obj), now, to_revision)
        except FieldError as none:
            common.fail(f"{target.text}: {none}")
        if dict(chosen.parts) == now:
            return f"{target.text} skipped rollback (it already is as in revision {chosen.number})"
        await _warn_of_profile(client, chosen)
        await _write_back(client, target, obj, chosen)
        return f"{target.text} rolled back to revision {chosen.number}"

    common.say(common.run(common.with_federation(kubeconfig, context, work)))


async def _write_back(
    client: "Client", target: waiting.Target, obj: Mapping[str, Any], chosen: "Revision"
) -> None:
    """Writes the parts of a revision into the workload as it was read. Exits with an error when its
    spec, labels or annotations changed meanwhile; a status update is no such change."""
    from federator.kinds import edits
    from federator.kube import errors
    from federator.kube.control import optimistic

    ref = target.kind.ref(obj["metadata"]["namespace"], target.name)
    try:
        await optimistic.patch(
            client, ref, optimistic.mark(obj), edits.undone(target.kind, obj, chosen)
        )
    except errors.Conflict:
        common.fail(
            f"{target.text} was changed meanwhile, so it was not written; check it and try again"
        )


async def _warn_of_profile(client: "Client", chosen: "Revision") -> None:
    """Warns of what an undo cannot restore: the version of the RuntimeProfile."""
    from federator.api import runtimeprofile
    from federator.kinds import registry
    from federator.kube import errors

    name, pinned = chosen.profile
    if not name:
        return
    try:
        present = runtimeprofile.content_hash(
            await client.get(registry.KINDS["RuntimeProfile"].ref("", name))
        )
    except errors.NotFound:
        present = ""
    except errors.ApiError:
        return  # the caller may not read profiles
    if present != pinned:
        now = f"is {present} now, which is what pods get" if present else "no longer exists"
        common.say(
            f"note: revision {chosen.number} ran with RuntimeProfile {name} {pinned}; it {now}",
            err=True,
        )


@rollout.command()
@_options
def restart(workload: tuple[str, ...], namespace: str, kubeconfig: str, context: str) -> None:
    """Replace every pod, in the cluster order of the policy, by annotating the template as kubectl
    does."""
    import time

    from federator.kinds import edits
    from federator.model.errors import FieldError

    target = _target(workload)
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> None:
        obj = await _read(client, target, where)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            edit = edits.restarted(obj, stamp)
        except FieldError as again:
            common.fail(f"{target.text}: {again}")
        body = {"metadata": {"uid": obj["metadata"]["uid"]}, **edit}
        await client.patch(target.kind.ref(where, target.name), body)

    common.run(common.with_federation(kubeconfig, context, work))
    common.say(f"{target.text} restarted")
