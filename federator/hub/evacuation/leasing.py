"""Leasing: one Lease for each cluster that may run guarded shards, renewed by the leader on the
host first and then in the cluster, where the guards of pods read it.

Renewed is while the cluster answers. When it has been silent for longer than its last renewal can
let anything run (`runtime.fencing`), its lease is over: guarded shards may begin elsewhere. A
cluster that is heard again after that is renewed only when nothing is left in it of shards that
another may run.

A new leader knows nothing of renewals of the one before: for it each cluster was renewed when it
began, for as long as the host records. The record is written before the cluster hears of it, and
with its version as a condition, so that a leader of the past stops there. A leader with a shorter
lease keeps what a former one promised: until that has ended, it records what is left of it.
"""

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.hub.cache import progress
from federator.hub.cache.router import Changed
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.records.workloads import Workload
from federator.kube import errors
from federator.kube.clock import stamp_micro
from federator.model import names, shards
from federator.model.shards import Ranges
from federator.model.steps import ObjectRef
from federator.runtime import fencing
from federator.runtime.fencing import Promise

log = logging.getLogger(__name__)

CHUNK: Final = 4096
"""Workloads looked at before other work gets its turn."""
TERM_MAX: Final = 2**31 - 1
LEASE_MAX_S: Final = 86400
"""A recorded lease of a longer time was written by a hand."""


class Leasing(Controller):
    """Renews, and says which leases are over. What it knows of each cluster lies in its
    `Member.vitals`."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.times = self.state.options.fence()
        self._versions: dict[str, str] = {}
        """Of the copies in clusters, as the last answer showed them."""
        self._records: dict[str, Mapping[str, Any]] = {}
        """The Leases on the host, as the last answer showed them."""
        self._not_before_s: dict[str, float] = {}
        """Clusters with an expired lease -> the time before which it is not renewed (monotonic)."""
        self._promised: dict[str, Promise] = {}
        """Clusters with a record that is taken over again -> the promise before that."""
        self._logged: dict[str, str] = {}
        """Why each is not renewed, as last logged."""

    async def run(self) -> None:
        """Renews until cancelled, while this hub leads."""
        self._versions.clear()
        self._records.clear()
        self._not_before_s.clear()
        self._promised.clear()
        for member in self.state.members.values():
            member.vitals.observe_promise(None)
            member.vitals.observe_lapse(lapsed=False)
        while True:
            await self.sweep()
            await asyncio.sleep(self.times.renew_s * self.rng.uniform(0.8, 1.0))

    def forget(self, name: str) -> None:
        """A member has left, or is met anew."""
        own = (self._versions, self._records, self._not_before_s, self._promised, self._logged)
        for kept in own:
            kept.pop(name, None)

    async def sweep(self) -> None:
        """Every cluster that may run guarded shards is renewed, or judged."""
        holders = await self._holders()
        async with asyncio.TaskGroup() as group:
            for name, why in holders.items():
                member = self.state.members.get(name)
                if member is not None:
                    group.create_task(self._serve(member, why), name=f"lease of {name}")

    async def _holders(self) -> dict[str, str]:
        """Cluster -> why it must not be renewed, "" for no reason: all that may run guarded shards,
        by decisions or by what they hold."""
        holders: dict[str, str] = {}
        for number, workload in enumerate(list(self.state.workloads.values()), 1):
            if number % CHUNK == 0:
                await asyncio.sleep(0)
            # Not of `ask`, which is made anew for each: with 100,000 workloads that takes a second.
            if workload.wants is not None and workload.wants.guarded:
                self._note_holders(workload, holders)
        return holders

    def _note_holders(self, workload: Workload, holders: dict[str, str]) -> None:
        """What a cluster holds beyond its share, and another may run too, must have gone from it
        before it is renewed: after a silence both may hold a shard, and the decision may by then
        give it to neither."""
        record = self.state.record_of(workload)
        given: dict[str, Ranges] = {}
        if record is not None:
            given = {share.cluster: shards.normal(share.ranges) for share in record.shares}
        may_run = dict(record.facts.may_run) if record is not None else {}
        for seen in self.state.slices_with_uid(workload.key, workload.uid):
            ranges = shards.normal(seen.mark.ranges) if seen.mark is not None else ()
            may_run[seen.cluster] = shards.union(may_run.get(seen.cluster, ()), ranges)
        done = progress.done(self.state, workload, record)
        for name in {**given, **may_run}:
            holders.setdefault(name, "")
            others = shards.normal(
                piece
                for pieces in (given, may_run)
                for other, ranges in pieces.items()
                if other != name
                for piece in ranges
            )
            beyond = shards.minus(may_run.get(name, ()), given.get(name, ()))
            if twice := shards.minus(shards.intersect(beyond, others), done):
                holders[name] = (
                    f"shards {shards.text(twice)} of {workload.key} may run elsewhere, and its"
                    " slice there is not gone yet"
                )

    async def _serve(self, member: Member, why: str) -> None:
        """Renews one cluster, or judges whether its lease is over."""
        name, vitals = member.name, member.vitals
        try:
            if vitals.promise is None:
                await self._take_over(member)
            why = why or self._unfit(member)
            if not why:
                await self._renew(member)
        except errors.NotLeading:
            return
        except (errors.ApiError, TimeoutError) as trouble:
            why = str(trouble) or f"no answer within {self.times.write_s:g} s"
        if why != self._logged.get(name, ""):
            log.log(
                logging.WARNING if why else logging.INFO,
                "the lease of %s %s",
                name,
                f"is not renewed: {why}" if why else "is renewed again",
            )
            self._logged[name] = why
        self._judge(member)

    def _unfit(self, member: Member) -> str:
        """Why it cannot be renewed; "" when it can."""
        if member.link.reachability.state is not Reachability.LIVE or not member.heard:
            return "it is not heard"
        if member.link.client is None or not member.claimed or member.cleaning:
            return "nothing is written there now"
        if member.vitals.lapsed:
            # What was decided because it was over may still be on its way to the host.
            member.vitals.observe_lapse(lapsed=False)
            self._wait(member.name)
        if self.clock.monotonic() < self._not_before_s.get(member.name, 0.0):
            return "its lease was over, and what was decided for that is being waited for"
        return ""

    def _wait(self, name: str) -> None:
        self._not_before_s[name] = self.clock.monotonic() + fencing.LATE_WRITE_S

    def _judge(self, member: Member) -> None:
        """Whether its lease is over. Never so for a cluster with a clock that was known to be off
        at its last answer: the arithmetic does not hold for it."""
        vitals = member.vitals
        over = (
            vitals.promise is not None
            and member.link.reachability.state is Reachability.UNREACHABLE
            and not vitals.clock.skewed
            and vitals.promise.left_s(self.times, self.clock.elapsed(), self.clock.now()) <= 0
        )
        if not over or vitals.lapsed:
            return
        vitals.observe_lapse(lapsed=True)
        log.warning(
            "the lease of %s is over: guarded shards that it had run there no more", member.name
        )
        for record in list(self.state.records.values()):
            if member.name in record.clusters or member.name in record.facts.may_run:
                self.state.changed(Changed.OTHERWISE, record.key)

    # -- what is written ------------------------------------------------------

    def _record_ref(self, name: str) -> ObjectRef:
        record = fencing.HOST_LEASE.format(cluster=name)
        space = self.state.options.system_namespace
        return ObjectRef("coordination.k8s.io/v1", "leases", space, record, "Lease")

    async def _take_over(self, member: Member) -> None:
        """Takes the record of the leader before over: from now on it cannot renew any more. Raises
        ApiErrors."""
        name, lease_s = member.name, self.times.lease_s
        try:
            record: Mapping[str, Any] | None = await self.host.get(self._record_ref(name))
        except errors.NotFound:
            record = None
        if record is not None:
            recorded_s = raw.integer(record, "spec", "leaseDurationSeconds")
            lease_s = max(lease_s, float(min(max(recorded_s, 0), LEASE_MAX_S)))
            renewed_s = raw.epoch_s(raw.text(record, "spec", "renewTime"))
            spec = {**raw.mapping(record, "spec"), **self._holder()}
            self._records[name] = await self.host.replace(
                self._record_ref(name), {**record, "spec": spec}
            )
            if not 0 <= self.clock.now() - renewed_s < recorded_s:
                self._wait(name)  # the leader before may have held it to be over
        promise = Promise(self.clock.elapsed(), self.clock.now(), lease_s)
        member.vitals.observe_promise(promise.outlasting(self._promised.pop(name, None)))

    def _holder(self) -> dict[str, Any]:
        options = self.state.options
        holder = f"{options.identity or options.fleet} {self.state.term}"
        return {
            "holderIdentity": holder,
            "leaseTransitions": min(self.state.term, TERM_MAX),
        }

    async def _renew(self, member: Member) -> None:
        """Host first, then the cluster. Raises ApiErrors and TimeoutError."""
        name, times = member.name, self.times
        wall_s, began_s = self.clock.now(), self.clock.elapsed()
        spec = {"leaseDurationSeconds": int(times.lease_s), "renewTime": stamp_micro(wall_s)}
        promise, former = Promise(began_s, wall_s, float(int(times.lease_s))), member.vitals.promise
        longest = promise.outlasting(former)
        member.vitals.observe_promise(longest)
        recorded = dict(spec)
        if longest is former:
            recorded["leaseDurationSeconds"] = math.ceil(longest.ends_s - began_s)
        async with asyncio.timeout(times.write_s):
            await self._write_record(member, {**recorded, **self._holder()})
        sent_s = self.clock.elapsed()
        if sent_s - began_s > times.write_s:
            raise TimeoutError("this process stood still between host and cluster")
        sent = Promise(sent_s, wall_s, promise.lease_s)
        member.vitals.observe_promise(sent.outlasting(former))
        async with asyncio.timeout(times.write_s):
            await self._write_copy(member, spec)
        self._measure(name, wall_s)

    async def _write_record(self, member: Member, spec: Mapping[str, Any]) -> None:
        name, ref = member.name, self._record_ref(member.name)
        before = self._records.get(name)
        try:
            if before is None:
                self._records[name] = await self.host.create(ref, self._new_record(member, spec))
            else:
                self._records[name] = await self.host.replace(ref, {**before, "spec": dict(spec)})
        except (errors.NotFound, errors.AlreadyExists, errors.Conflict):
            # Another writer made, changed or deleted it. This hub takes it over again in any case.
            self._records.pop(name, None)
            if member.vitals.promise is not None:
                self._promised[name] = member.vitals.promise
            member.vitals.observe_promise(None)
            raise

    def _new_record(self, member: Member, spec: Mapping[str, Any]) -> dict[str, Any]:
        ref, meta = self._record_ref(member.name), member.obj["metadata"]
        owner = {
            "apiVersion": member.obj["apiVersion"],
            "kind": member.obj["kind"],
            "name": member.name,
            "uid": meta["uid"],
        }
        return {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "metadata": {
                "name": ref.name,
                "namespace": ref.namespace,
                "labels": {names.FLEET_LABEL: self.state.options.fleet},
                "ownerReferences": [owner],
            },
            "spec": dict(spec),
        }

    async def _write_copy(self, member: Member, spec: Mapping[str, Any]) -> None:
        """The cluster's own copy. Its member process has made it; a version as the condition keeps
        a renewal that was long on its way from replacing a later one."""
        assert member.link.client is not None
        space = self.state.options.system_namespace
        ref = ObjectRef("coordination.k8s.io/v1", "leases", space, fencing.LEASE, "Lease")
        version = self._versions.pop(member.name, "")
        if not version:
            version = (await member.link.client.get(ref))["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": dict(spec)}
        answer = await member.link.client.patch(ref, body)
        self._versions[member.name] = answer["metadata"]["resourceVersion"]

    def _measure(self, name: str, wall_s: float) -> None:
        if self.state.metrics is not None:
            self.state.metrics.child("federator_fence_renewed_timestamp_seconds", name).set(wall_s)
