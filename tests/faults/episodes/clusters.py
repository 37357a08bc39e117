"""Episodes of whole clusters: made anew under the old address, joined twice, gone and back, hosts
that are not the right one."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from federator.api import clustercapacity, membercluster, raw
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef
from tests.faults.episodes import guests
from tests.faults.links import Cut
from tests.faults.rows import Episode, Stage

CLUSTER = "MemberCluster"
BACK_S = 30.0
"""Longer than any cluster stays out of the fleet."""
FORCED = "by force"
"""The finalizer of a MemberCluster is taken off by hand."""
SILENT_S = 60.0
"""After so long a cluster that cannot be reached is called unreachable."""
_HOST_HOLDS = (
    "PlacementDecision",
    "PlacementPolicy",
    "ClusterPlacementPolicy",
    "FederatedQuota",
    CLUSTER,
)


@contextlib.asynccontextmanager
async def made_anew(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A member's address leads to a new, empty cluster of another identity. In the end the old one
    is back, or an operator joins the new one in its place."""
    name = rng.choice(list(stage.members))
    new = stage.fresh(name)
    stay = rng.random() < 0.5
    stage.say(f"{name} is made anew" + (" for good" if stay else ""))
    await stage.put(name, new)
    stage.kill(f"member-{name}")
    try:
        yield
        stage.happened("cluster-made-anew")
    finally:
        if stay:
            await stage.replace(name, new)
            rejoin(stage, name)
        else:
            await stage.put(name, stage.federation.members[name])
            if _recorded(stage, name) == new.uid:
                # the new one was joined meanwhile (F55): to the hub the old one is a stranger
                rejoin(stage, name)
        stage.kill(f"member-{name}")


def _recorded(stage: Stage, name: str) -> str:
    """The identity that the host has of a member; "" for none."""
    live = guests.stored(stage.federation.host, registry.KINDS[CLUSTER].ref("", name)) or {}
    return membercluster.recorded_uid(live)


def rejoin(stage: Stage, name: str) -> None:
    """An operator removes a MemberCluster and joins the cluster of that name anew, as it was asked
    for last."""
    join(stage, leave(stage, name))


def join(stage: Stage, left: Mapping[str, Any]) -> None:
    """An operator joins a cluster again, with the labels and the spec that its MemberCluster
    had."""
    host = stage.federation.host
    kept = {part: left["metadata"][part] for part in ("name", "labels") if part in left["metadata"]}
    meta = {**kept, "finalizers": [names.CLUSTER_FINALIZER]}
    spec = {part: value for part, value in left["spec"].items() if part != "clusterUID"}
    body = {"apiVersion": left["apiVersion"], "kind": CLUSTER, "metadata": meta, "spec": spec}
    host.store.create(_info(host, CLUSTER), body)


def leave(stage: Stage, name: str) -> Mapping[str, Any]:
    """An operator removes a MemberCluster by force: he takes its finalizer off. Returns what it
    was."""
    host = stage.federation.host
    deleted, _ = host.store.delete(_info(host, CLUSTER), "", name, finalizers=())
    return deleted.obj


@contextlib.asynccontextmanager
async def joined_twice(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A second MemberCluster names a member that is there already."""
    host, name = stage.federation.host, rng.choice(list(stage.members))
    double = rng.choice(("0-double", "z-double"))
    live = guests.stored(host, registry.KINDS[CLUSTER].ref("", name))
    if live is None:
        yield
        return
    stage.federation.aliases[double] = name
    body = {
        "apiVersion": live["apiVersion"],
        "kind": CLUSTER,
        "metadata": {"name": double},
        "spec": {},
    }
    await asyncio.sleep(1.1)  # stamps of whole seconds say which joined first
    await stage.user("host").create(registry.KINDS[CLUSTER].ref("", double), body)
    stage.happened("joined-twice")
    try:
        yield
    finally:
        await guests.drop(stage, "host", registry.KINDS[CLUSTER].ref("", double))


@contextlib.asynccontextmanager
async def left_and_back(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A cluster leaves the fleet and joins again, while a workload of its own is scaled down and
    up. It is emptied, or left as it is, or its finalizer is taken off by hand."""
    async with guests.guest(stage, "left-and-back", 6) as own:
        await guests.until(own.expanded, guests.PLACED_S)
        name, how = (
            rng.choice(own.holders() or list(stage.members)),
            rng.choice(("", "", "Orphan", FORCED)),
        )
        left = guests.stored(stage.federation.host, registry.KINDS[CLUSTER].ref("", name))
        if left is None:
            yield
            return
        await own.scale(2)
        await asyncio.sleep(rng.uniform(0.0, 0.1))
        await _remove(stage, left, how)
        stage.happened("left-and-back")
        await own.scale(rng.randint(1, 4))
        try:
            yield
        finally:
            await _join_again(stage, left)
            if how:
                await _clear_strangers(stage, name)
    await _clear_after(stage, own, name)


@contextlib.asynccontextmanager
async def lost_and_back(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A cluster that no hub can reach is given up as lost, one of its workloads is deleted
    meanwhile, and then it joins again with everything that it held. Where no hub lives long enough
    to give it up, nothing says that what it holds is stale, and the operator clears it."""
    forced = False
    async with guests.guest(stage, "lost-and-back", 6) as own:
        await guests.until(own.expanded, guests.PLACED_S)
        name, how = (
            rng.choice(own.holders() or list(stage.members)),
            rng.choice((Cut.REFUSED, Cut.SILENT)),
        )
        left = guests.stored(stage.federation.host, registry.KINDS[CLUSTER].ref("", name))
        if left is None:
            yield
            return
        for hub in stage.hubs:
            await stage.links.sever(hub, name, how)
        try:
            await guests.until(lambda: not _is_ready(stage, name), SILENT_S)
            await _remove(stage, left, "Lost")
            stage.happened("lost-and-back")
            if rng.random() < 0.5:
                await own.remove()
            yield
            await guests.until(lambda: _is_gone(stage, left), guests.PLACED_S)
        finally:
            for hub in stage.hubs:
                stage.links.heal(hub, name, how)
            if forced := await _join_again(stage, left):
                await _clear_strangers(stage, name)
    if forced:
        await _clear_after(stage, own, name)


def _is_ready(stage: Stage, name: str) -> bool:
    live = guests.stored(stage.federation.host, registry.KINDS[CLUSTER].ref("", name)) or {}
    return raw.condition(live, "Ready").get("status") == "True"


def _is_gone(stage: Stage, left: Mapping[str, Any]) -> bool:
    """Whether that very MemberCluster has left."""
    live = guests.stored(
        stage.federation.host, registry.KINDS[CLUSTER].ref("", left["metadata"]["name"])
    )
    return live is None or bool(live["metadata"]["uid"] != left["metadata"]["uid"])


async def _remove(stage: Stage, left: Mapping[str, Any], how: str) -> None:
    """An operator removes a cluster; `how` is what he says of it, or that he takes the finalizer
    off."""
    name, uid = left["metadata"]["name"], left["metadata"]["uid"]
    if _is_gone(stage, left):
        return
    if how == FORCED:
        leave(stage, name)
        return
    ref, user = registry.KINDS[CLUSTER].ref("", name), stage.user("host")
    # another episode may have been sooner
    with contextlib.suppress(errors.NotFound, errors.Conflict):
        if how:
            await user.patch(
                ref, {"metadata": {"uid": uid, "annotations": {names.REMOVAL_ANNOTATION: how}}}
            )
        await user.delete(ref, uid=uid)


async def _join_again(stage: Stage, left: Mapping[str, Any]) -> bool:
    """The cluster joins again when it has left. An operator who has waited in vain for it to be
    emptied takes what is there as it is, and at last the finalizer off. Returns whether he did."""
    forced = False
    for how in ("Orphan", FORCED):
        if not await guests.until(lambda: _is_gone(stage, left), guests.PLACED_S):
            await _remove(stage, left, how)
            forced = True
    if (
        guests.stored(
            stage.federation.host, registry.KINDS[CLUSTER].ref("", left["metadata"]["name"])
        )
        is None
    ):
        join(stage, left)
    return forced


async def _clear_after(stage: Stage, own: guests.Guest, name: str) -> None:
    """Clears a cluster that is back of the guest, too, which is deleted now, perhaps before a hub
    heard that the cluster is back. Then the proof is in its memory and on the Lease, and a hub that
    stands for no election forgets it with its life."""
    decisions, namespace = _info(stage.federation.host, "PlacementDecision"), own.ref.namespace
    store = stage.federation.host.store
    await guests.until(
        lambda: all(decision.key[0] != namespace for decision in store.items(decisions)),
        guests.PLACED_S,
    )
    await _clear_strangers(stage, name)


async def _clear_strangers(stage: Stage, name: str) -> None:
    """An operator removes what has no owner any more: work whose workload was deleted while the
    cluster was out of the fleet, or which another host had put there. The hub reports such slices,
    and leaves them alone without proof."""
    host = stage.federation.host
    uids = {
        stored.obj["metadata"]["uid"]
        for kind in registry.WORKLOADS
        for stored in host.store.items(_info(host, kind))
    }
    decided = host.store.items(_info(host, "PlacementDecision"))
    uids |= {decision.obj["metadata"]["labels"][names.WORKLOAD_UID_LABEL] for decision in decided}
    for kind in sorted(registry.WORKLOADS):
        member = stage.federation.members[name]
        for stored in member.store.items(_info(member, kind)):
            mark = registry.verbs_of(kind).read_mark(stored.obj)
            if mark is not None and mark.workload_uid not in uids:
                await guests.drop(stage, name, registry.KINDS[kind].ref(*stored.key))


@contextlib.asynccontextmanager
async def restored(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Every hub finds the host as a backup knew it some time ago, under the same identity; later
    the right one."""
    backup = _copied(stage.federation.host)
    async with guests.guest(stage, "host-restored", 3) as own:
        await guests.until(own.expanded, guests.PLACED_S)
        await asyncio.sleep(rng.uniform(0.5, 5.0))
        old = stage.fresh("host")
        _furnish(old, backup, stage.federation.host.uid)
        async with _instead_of_the_host(stage, old):
            stage.happened("host-restored")
            yield


@contextlib.asynccontextmanager
async def wrong(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Every hub finds another host, to which the same members are joined, and on which there is no
    workload.

    A member that no host had claimed when the wrong one came (the right one had not reached it yet)
    is the wrong one's by right: an operator hands it back in the end, as the hub's message says.
    """
    other = stage.fresh("host")
    members = [
        entry
        for entry in _copied(stage.federation.host)
        if entry[0] in (CLUSTER, "Secret", "Namespace")
    ]
    _furnish(other, members, "")
    unclaimed = [name for name in stage.members if not _claimed(stage, name)]
    try:
        async with _instead_of_the_host(stage, other):
            stage.happened("host-wrong")
            yield
    finally:
        for name in unclaimed:
            await _take_over(stage, name, other.uid)


def _claimed(stage: Stage, name: str) -> bool:
    """Whether the right host is recorded in a member."""
    capacity = guests.stored(
        stage.federation.members[name],
        registry.KINDS["ClusterCapacity"].ref("", clustercapacity.NAME),
    )
    return (
        capacity is not None
        and stage.federation.host.uid in raw.text_map(capacity["metadata"], "annotations").values()
    )


async def _take_over(stage: Stage, name: str, other: str) -> None:
    """`federator cluster take-over`: an operator says that the right host takes a member from
    another one. A cluster that left the fleet meanwhile is waited for."""
    ref = registry.KINDS[CLUSTER].ref("", name)
    if await guests.until(lambda: guests.stored(stage.federation.host, ref), BACK_S):
        await stage.user("host").patch(ref, {"spec": {"takeOverFrom": other}})


@contextlib.asynccontextmanager
async def _instead_of_the_host(stage: Stage, other: EmbeddedCluster) -> AsyncIterator[None]:
    """While this lasts hubs find `other` where the host was; they start anew at both ends, as after
    such a restore."""
    for hub in stage.hubs:
        stage.hold_down(hub)
    await stage.put("host", other)
    for hub in stage.hubs:
        stage.let_up(hub)
    try:
        yield
    finally:
        for hub in stage.hubs:
            stage.hold_down(hub)
        await stage.put("host", stage.federation.host)
        for member in stage.members:
            await _clear_strangers(stage, member)
        for hub in stage.hubs:
            stage.let_up(hub)


Copied = list[tuple[str, ObjectRef, Mapping[str, Any]]]


def _copied(host: EmbeddedCluster) -> Copied:
    """(kind, its reference, object) of what a backup of the host holds: everything that the
    federation reads."""
    copied: Copied = []
    for kind in ("Namespace", "Secret", "Lease", *_HOST_HOLDS, *registry.WORKLOADS):
        info = _info(host, kind)
        for item in host.store.items(info):
            ref = ObjectRef(item.obj["apiVersion"], info.plural, *item.key, kind)
            copied.append((kind, ref, item.obj))
    return copied


def _furnish(
    host: EmbeddedCluster, backup: Iterable[tuple[str, ObjectRef, Mapping[str, Any]]], uid: str
) -> None:
    """Puts a backup into a new host. `uid` becomes its identity; "" leaves it its own, and every
    object a new uid."""
    if uid:
        spaces = _info(host, "Namespace")
        system = host.store.get(spaces, "", "kube-system")
        assert system is not None
        host.store.forget(spaces)
        host.store.create(
            spaces, {**system.obj, "metadata": {**system.obj["metadata"], "uid": uid}}
        )
    for kind, ref, obj in backup:
        info = _info(host, kind)
        if host.store.get(info, ref.namespace, ref.name) is not None:
            continue
        if uid:
            host.store.restore(info, dict(obj))
        else:
            meta = {name: value for name, value in obj["metadata"].items() if name != "uid"}
            host.store.create(info, {**obj, "metadata": meta})


_NATIVE = {
    "Namespace": ("", "namespaces"),
    "Secret": ("", "secrets"),
    "Lease": ("coordination.k8s.io", "leases"),
}


def _info(cluster: EmbeddedCluster, kind: str) -> Any:
    if kind in _NATIVE:
        return cluster.registry.get(*_NATIVE[kind])
    return cluster.registry.get(registry.KINDS[kind].group, registry.KINDS[kind].plural)


ROWS = (
    Episode(
        "cluster-made-anew",
        "F35",
        "one member's address",
        "after 16 to 60 s the old cluster is back, or an operator joins the new one",
        made_anew,
        (16.0, 60.0),
    ),
    Episode(
        "joined-twice",
        "F36",
        "one member",
        "the second MemberCluster is removed after 5 to 40 s",
        joined_twice,
        (5.0, 40.0),
    ),
    Episode(
        "host-restored",
        "F51",
        "the host, as hubs find it",
        "the right host is back after 5 to 40 s",
        restored,
        (5.0, 40.0),
    ),
    Episode(
        "host-wrong",
        "F51",
        "the host, as hubs find it",
        "the right host is back after 5 to 40 s",
        wrong,
        (5.0, 40.0),
    ),
    Episode(
        "left-and-back",
        "F55",
        "one member and a service of its own",
        "it joins again after 0.5 to 20 s",
        left_and_back,
        (0.5, 20.0),
    ),
    Episode(
        "lost-and-back",
        "F55",
        "one member and a service of its own",
        "it is heard and joins again after 10 to 40 s",
        lost_and_back,
        (10.0, 40.0),
    ),
)
