"""Reading one member: which kinds it serves, whether its member process lives, and the reflectors
that keep its `contents`.

Called by its connection, anew for each transport.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from federator.api import membercluster
from federator.hub.members import capacity_report
from federator.hub.members.capacity_report import CapacityReport
from federator.hub.members.connecting.identity import Sameness
from federator.hub.members.member import Member
from federator.hub.members.process_watch import LEASE
from federator.hub.records import slice_rows, slices
from federator.hub.records.slices import SliceSeen, SliceShape
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.store import Store
from federator.kube.watch.read_budget import ReadBudget
from federator.kube.watch.reflector import Reflector
from federator.kube.watchmeter import WatchMeter
from federator.kube.wire.exchange import SMALL_LIMIT
from federator.model.fleet import serves
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef


async def discover(client: clients.Client) -> frozenset[str]:
    """The workload kinds that a member serves in the version we use, and what they can become
    there, as `Kind.group`."""
    served = {(resource.api_version, resource.kind) for resource in await client.discover()}
    return frozenset(name for name, api in registry.APIS.items() if api in served)


async def hear_process(
    member: Member, client: clients.Client, namespace: str, clock: Clock, grace_s: float
) -> None:
    """Checks the member process's lease."""
    ref = ObjectRef("coordination.k8s.io/v1", "leases", namespace, LEASE, "Lease")
    lease: Mapping[str, Any] | None = None
    with contextlib.suppress(errors.NotFound):
        lease = await client.get(ref, timeout_s=5.0, body_limit=SMALL_LIMIT)
    member.process.recorded(membercluster.process_silent_since(member.obj))
    member.process.look(lease, clock.monotonic(), clock.now(), grace_s)


def reflectors(
    member: Member,
    client: clients.Client,
    clock: Clock,
    rng: random.Random,
    *,
    lists: Sequence[asyncio.Semaphore],
    budget: ReadBudget,
    use_of: Callable[[str], asyncio.Event],
    metrics: WatchMeter | None,
) -> list[Reflector[Any]]:
    """Makes the reflectors of a new connection; while they run, they keep slices and the capacity
    report in memory. `lists` bounds concurrent lists, `budget` their work. Kinds without a set
    `use_of` are not watched, because a watch costs a connection."""
    link, contents = member.link, member.contents
    verify = Sameness(client, member.name, link.uid, clock, link.meet_other).check
    common: dict[str, Any] = {"clock": clock, "rng": rng, "verify": verify, "metrics": metrics}
    common |= {"bounds": lists, "budget": budget, "on_rewind": lambda: member.on_rewind(member)}
    made: list[Reflector[Any]] = []
    for kind in registry.WORKLOADS.values():
        if f"{kind.kind}.{kind.group}" not in link.apis:
            continue
        store = contents.stores.setdefault(
            kind.kind, slice_rows.slice_store(f"{member.name}/{kind.plural}", contents.bound)
        )
        made.append(
            Reflector(
                client,
                kind.api_version,
                kind.plural,
                store,
                project=_projection(member, kind.kind, store),
                shape=SliceShape,
                label_selector=""
                if kind.model is not None
                else slices.fleet_selector(member.fleet),
                on_change=lambda _, old, new: _slice_changed(member, old, new),
                wanted=use_of(kind.kind),
                **common,
            )
        )
    capacity = registry.KINDS["ClusterCapacity"]
    made.append(
        Reflector(
            client,
            capacity.api_version,
            capacity.plural,
            contents.reports,
            project=lambda obj: capacity_report.only(obj, member.fleet),
            on_change=lambda _, old, new: _capacity_changed(member, old, new, clock.monotonic()),
            **common,
        )
    )
    contents.reflectors = {reflector.plural: reflector for reflector in made}
    return made


async def wait_synced(member: Member) -> None:
    """Returns when the present connection has listed every kind that the member serves, and read
    its claim. Its reflectors must exist."""
    for kind, store in list(member.contents.stores.items()):
        if serves(member.link.apis, kind):
            await store.wait_synced()
    for reflector in member.contents.reflectors.values():
        await reflector.answered.wait()


def _projection(
    member: Member, kind: str, store: Store[SliceSeen]
) -> Callable[[SliceShape], SliceSeen]:
    contents = member.contents

    def project(shown: SliceShape) -> SliceSeen:
        meta = shown.metadata
        if contents.own_writes:
            own = contents.own_writes.get(WorkloadKey(kind, meta.namespace, meta.name))
            if own is not None and (own.uid, own.resource_version) == (
                meta.uid,
                meta.resourceVersion,
            ):
                return own  # the response to our own write showed this state already
        return slices.summarise(
            kind, member.name, shown.as_object(), store.get((meta.namespace, meta.name))
        )

    return project


def _slice_changed(member: Member, old: SliceSeen | None, new: SliceSeen | None) -> None:
    if member.contents.observe_slice(old, new):
        member.on_count(member)
    seen = new if new is not None else old
    if seen is not None and not member.contents.caught_up(new):
        member.on_slice(member, seen.key)


def _capacity_changed(
    member: Member, old: CapacityReport | None, new: CapacityReport | None, now_s: float
) -> None:
    if old is not None and new is not None and old.status_digest != new.status_digest:
        # Only the member process writes that: it lives, whatever the last probe saw of its lease.
        member.process.report(now_s)
    member.contents.observe_report(new, now_s)
    member.on_capacity(member)
