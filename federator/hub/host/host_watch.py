"""What the hub reads from the host: one reflector per kind. Each updates the shared state and
queues what is due.

A change becomes workload keys; the event itself is dropped. Create, update, delete, restart and
missed events take one path.
"""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from federator.api import clusterstandard, federatedquota, membercluster, raw
from federator.api.clusterstandard import ProbeRule
from federator.api.placement import placementinvariant
from federator.hub.cache import policying, profile_versions, progress
from federator.hub.cache.router import Changed, MemberChanged
from federator.hub.host import host_shape, requeueing
from federator.hub.host.controller import Controller, Tools
from federator.hub.host.crowding import Crowding
from federator.hub.host.requeueing import Requeueing
from federator.hub.host.rereading import Rereading
from federator.hub.records import pauses, workloads
from federator.hub.records.decisions import Record
from federator.hub.records.pauses import Pause
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube import errors
from federator.kube.backoff import Backoff
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Store, Version, own_version
from federator.kube.watch.reflector import Reflector
from federator.model.accounts import QuotaAccount
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Enforced
from federator.model.names import ObjectName, WorkloadKey
from federator.model.table import Table

log = logging.getLogger(__name__)

COMPLAIN_S = 10.0
"""A first list that takes longer, in seconds, is logged."""
_PLACES = {kind: at for at, kind in enumerate(registry.WORKLOADS)}
KEY_S = 5.0
"""Seconds between two reads by a standby that has no key of decisions yet."""


def asking_again(rng: random.Random) -> Backoff:
    """Pauses between attempts to read a host object that the hub needs: short, but more than a
    second on average while the host refuses everybody."""
    return Backoff(rng, base_s=0.5, cap_s=3.0, floor=0.5)


class Hosting(Controller):
    """Owns the host's reflectors. `looked` returns once the Lease of the hubs was looked at:
    decisions are listed after that."""

    def __init__(
        self,
        tools: Tools,
        *,
        on_member: Callable[[str, Mapping[str, Any] | None], None],
        looked: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(tools)
        self.on_member = on_member
        self._looked = looked
        self.refreshing: WorkQueue[WorkloadKey] = self.new_queue("refreshing")
        """Workloads with a summary made from a RuntimeProfile that has changed since."""
        self.requeueing = Requeueing(self.state)
        self.crowding = Crowding(self.tools)
        self._profiles = self._reflector("RuntimeProfile", _identity, self._profile_changed)
        self._workloads = [
            self._reflector(
                kind.kind, self._projection(kind.kind), self._workload_changed, own_version
            )
            for kind in registry.WORKLOADS.values()
        ]
        self._invariants = self._reflector(
            placementinvariant.KIND, placementinvariant.to_invariant, self._invariant_changed
        )
        self._standards = self._reflector(
            clusterstandard.KIND, clusterstandard.to_probe_rule, self._standard_changed
        )
        decided = self._reflector(
            "PlacementDecision", self.state.read_record, self._record_changed, own_version
        )
        self.rereading = Rereading(self.tools, decided, self._record_changed)
        self._others = [
            self._invariants,
            self._standards,
            decided,
            *self._reflectors_of_policies(),
            self._reflector("FederatedQuota", federatedquota.to_account, self._quota_changed),
            self._reflector("MemberCluster", _unmanaged, self._member_changed),
            self._reflector_of_namespaces(),
        ]
        self._pause_reflector = self._reflector_of_pause()

    @property
    def reflectors(self) -> list[Reflector[Any]]:
        """In the order in which they start, without that of the pause object."""
        return [self._profiles, *self._workloads, *self._others]

    @property
    def stores(self) -> list[Store[Any]]:
        return [reflector.store for reflector in self.reflectors]

    async def run(self) -> None:
        """Runs all reflectors until cancelled. Profiles come first: asks are computed with them."""
        async with asyncio.TaskGroup() as group:
            _begin(group, self._profiles)
            await self._profiles.store.wait_synced()
            for reflector in self._workloads:
                _begin(group, reflector)
            await self._take_key()
            if self._looked is not None:
                await self._looked()
            self.rereading.begin()
            for reflector in self._others:
                _begin(group, reflector)
            group.create_task(self._pause_reflector.run(), name="host pause")
            group.create_task(self._await_key(), name="host key")
            group.create_task(self.requeueing.run(), name="host requeueing")
            group.create_task(self.refreshing.run(self._refresh, workers=8), name="host refreshing")

    async def wait_synced(self) -> None:
        """Returns when every list of the host is in and it is known whether there is a pause. A
        pause from before this process started holds from the first write on."""
        first = (self._profiles, *self._others, self._pause_reflector)
        for reflector in (*first, *self._workloads):
            while not (reflector.store.synced or self._came_later(reflector)):
                try:
                    async with asyncio.timeout(COMPLAIN_S):
                        await reflector.answered.wait()
                        if not self._came_later(reflector):
                            await reflector.store.wait_synced()
                except TimeoutError:
                    log.warning(
                        "%s has not been listed yet; where the host does not serve it, run"
                        " `federator crd install`",
                        reflector.store.name,
                    )

    def _came_later(self, reflector: Reflector[Any]) -> bool:
        """Whether the host does not serve a workload kind, invariants or standards, because its
        definition came with this version and is still to be installed. Not where it serves none of
        our kinds, or has had this one: a decision names it then."""
        if reflector is self._standards and isinstance(reflector.trouble, errors.Denied):
            return True  # the hub's roles are of an earlier release: it knows of no gate
        if not isinstance(reflector.trouble, errors.NotFound):
            return False
        if reflector in (self._invariants, self._standards):
            return True
        if reflector not in self._workloads:
            return False
        kinds = {registry.KINDS[record.key.kind].plural for record in self.state.records.values()}
        served = any(
            other.store.synced
            for other in self._workloads
            if other.api_version == reflector.api_version
        )
        return served and reflector.plural not in kinds

    async def _take_key(self) -> None:
        """Reads the key by which our decisions are recognised, before the first decision. There is
        none before the first leader."""
        waits = asking_again(self.rng)
        while True:
            try:
                await self.state.seals.load(
                    self.host, self.state.options.system_namespace, make=False
                )
            except errors.ApiError as trouble:
                log.warning("the key of decisions could not be read: %s", trouble)
                await asyncio.sleep(waits.next())
            else:
                return

    async def _await_key(self) -> None:
        """A standby that started before the first leader made a key waits for it, and then checks
        its decisions again, so that a new leader need not."""
        seals = self.state.seals
        while not (seals.usable or seals.off):
            await asyncio.sleep(KEY_S * self.rng.uniform(0.8, 1.2))
            if self.state.ready or seals.usable:
                return
            await self._take_key()
            if seals.usable:
                try:
                    await self.rereading.run()
                except errors.ApiError as trouble:
                    log.info("the next leader looks at the decisions again: %s", trouble)

    async def catch_up(self, vacant_s: float) -> None:
        """Before this hub leads, where no other has led since `vacant_s`: reads all decisions that
        the former leader may have written. Watches that wait to be reopened are opened now."""
        due = self.rereading.is_due(vacant_s)
        for reflector in self.reflectors:
            reflector.hurry()
        if due:
            await self.rereading.run()

    def _reflector(
        self,
        kind_name: str,
        project: Callable[[dict[str, Any]], Any],
        on_change: Callable[[Any, Any, Any], None],
        version_of: Callable[[Any], Version] | None = None,
    ) -> Reflector[Any]:
        kind = registry.KINDS[kind_name]
        return self.reflector(
            kind.api_version,
            kind.plural,
            Store(f"host/{kind.plural}", version_of=version_of, rows=Table),
            **host_shape.reading(kind, project),
            on_change=on_change,
        )

    def _reflectors_of_policies(self) -> list[Reflector[Any]]:
        listed = [
            self._reflector(kind, _identity, self._policy_listener(kind))
            for kind in ("PlacementPolicy", "ClusterPlacementPolicy")
        ]
        self.crowding.policies = listed[0].store
        return listed

    def _reflector_of_namespaces(self) -> Reflector[Enforced]:
        return self.reflector(
            "v1",
            "namespaces",
            Store("host/namespaces"),
            project=_space,
            on_change=self._space_changed,
        )

    def _space_changed(self, key: ObjectName, old: Enforced | None, new: Enforced | None) -> None:
        """A namespace came or went, or its Pod Security level changed."""
        name = key[1]
        self.state.observe_namespace(name, new)
        if new == old:
            return
        self.state.signals.space(name)
        for workload in sorted(key for key in self.state.workloads if key.namespace == name):
            self.state.changed(Changed.NAMESPACE, workload)

    async def _refresh(self, key: WorkloadKey) -> None:
        """Makes a workload's summary again from the present object and its present
        RuntimeProfile."""
        old = self.state.workloads.get(key)
        if old is None:
            return
        obj = await self.documents.fetch(old)
        if obj is None:
            return
        if self.state.workloads.get(key) is not old:
            # the answer to a status write came meanwhile, perhaps: it says nothing of asks
            self.refreshing.add(key)
            return
        new = self._summarised(key.kind, dict(obj))
        # Of status and version the watch knows more than what was kept of the object.
        same = dataclasses.replace(new, status=old.status, version=old.version)
        self._workload_changed(None, old, same)
        # Whatever it asks for now: its slices pin the version they were made with, which no Ask
        # shows.
        self.state.changed(Changed.PROFILE, key)

    def _projection(self, kind: str) -> Callable[[dict[str, Any]], Workload]:
        def project(obj: dict[str, Any]) -> Workload:
            cached = self._cached(kind, obj)
            return cached if cached is not None else self._summarised(kind, obj)

        return project

    def _summarised(self, kind: str, obj: dict[str, Any]) -> Workload:
        entry = self.state.profiles.get(registry.verbs_of(kind).profile(obj))
        profile, former = (entry["object"], entry["priced"]) if entry is not None else (None, ())
        summary = workloads.summarise(kind, obj, profile, former)
        if not self.documents.full or self._workloads[_PLACES[kind]].store.synced:
            self.documents.offer(summary.key, obj, summary)
        return summary

    def _cached(self, kind: str, obj: Mapping[str, Any]) -> Workload | None:
        """What is already known of this version of the object: all of it from the response to our
        own status write, or all but its status."""
        meta = obj["metadata"]
        key = WorkloadKey(kind, raw.text(meta, "namespace"), raw.text(meta, "name"))
        cached = self.state.workloads.get(key)
        if cached is not None and (cached.uid, cached.resource_version) == (
            meta.get("uid"),
            meta.get("resourceVersion"),
        ):
            return cached
        return self.documents.renewed(key, obj)

    def _workload_changed(self, _: Any, old: Workload | None, new: Workload | None) -> None:
        workload = new if new is not None else old
        assert workload is not None
        key = workload.key
        if new is not None and old is not None and self.state.workloads.get(key) is new:
            return  # our own status write, which was answered already
        if new is None:
            self.documents.drop(key)
            self.state.forget_workload(key)
        else:
            self.state.observe_workload(new)
            self.state.observe_kind(key.kind)
            if old is not None and old.content != new.content:
                self.state.observe_edit(key, old.content)
            if old is not None and new.asks_like(old):
                # With open shards the host records less than it did: it was restored, or edited.
                opened = progress.open_shards(self.state, new)
                self.state.changed(Changed.UNRECORDED if opened else Changed.STATUS, key)
                return
            self.state.unjudge(key)
        self.state.changed(Changed.GONE if new is None else Changed.ASKED, key)

    def _record_changed(self, key: ObjectName, old: Record | None, new: Record | None) -> None:
        namespace, name = key
        if new is None:
            assert old is not None
            self.state.drop_refused(namespace, name, old.uid)
            if self.state.lose_record(namespace, name, old.uid):
                return
            if self.state.forget_decision(namespace, name, old.uid) is not None:
                self.state.changed(Changed.ENDED, old.key)
                self.state.signals.freed()
            return
        if not self.state.observe_decision(namespace, new):
            return
        # Our own decisions are filed and booked when they are written: what is news here was
        # written before our time.
        workload = self.state.workloads.get(new.key)
        ask = workload.ask if workload is not None else None
        if (commitment := new.commitment(ask)) is not None:
            self.state.commitments.record(commitment)
        self.state.changed(Changed.DECISION, new.key)
        # The watch may deliver a decision of ours late, after its answer was lost: it was made for
        # inputs that have changed again since.
        made_for = new.facts.inputs_hash
        asked = old is not None and old.rebalance != new.rebalance
        if (
            asked
            or (old is not None and old.shares != new.shares)
            or self.state.evaluated.get(new.key, made_for) != made_for
        ):
            self.state.changed(Changed.OTHERWISE, new.key)

    def _policy_listener(self, kind: str) -> Callable[[Any, Any, Any], None]:
        def changed(key: ObjectName, old: Any, new: Any) -> None:
            follow(key, old, new)
            if key[0]:
                self.crowding.heard(key, new)

        def follow(key: ObjectName, old: Any, new: Any) -> None:
            if new is None:
                rules = self.state.forget_rule(key)
            elif (
                old is not None and _generation(old) == _generation(new) and _uid(old) == _uid(new)
            ):
                return
            else:
                rules = self.state.observe_rule(policying.rule_of(kind, new))
            self.requeueing.policies_changed(rules)
            self.state.signals.policy()

        return changed

    def _quota_changed(
        self, key: ObjectName, old: QuotaAccount | None, new: QuotaAccount | None
    ) -> None:
        if old == new:
            return
        quotas = self.state.quotas
        before = requeueing.top(key[1], quotas)
        self.state.observe_quota(key[1], new)
        self.state.signals.booked()
        if _accounts(old) != _accounts(new):
            self.state.signals.accounts()
        trees = (before, requeueing.top(key[1], quotas))
        self.requeueing.quota_changed(trees, old, new, tell=_binds(old) != _binds(new))

    def _invariant_changed(self, key: ObjectName, old: Any, new: Any) -> None:
        if old == new:
            return
        self.state.observe_invariant(key[1], new)
        self.state.signals.invariant()
        self.state.signals.freed()  # it may refuse less now

    def _standard_changed(self, key: ObjectName, old: Any, new: ProbeRule | None) -> None:
        if old == new:
            return
        self.state.observe_probe_rule(key[1], new)
        for _, member in sorted(self.state.members.items()):
            self.state.signals.member_changed(MemberChanged.EDITED, member)

    def _profile_changed(self, key: ObjectName, old: Any, new: Any) -> None:
        """Brings all workloads that use the profile up to date, also when it was deleted."""
        name = key[1]
        if new is None:
            self.state.observe_profile(name, None)
        else:
            if not profile_versions.observe(self.state, name, new):
                return
            self.state.held_profiles.changed(name)
        for workload in list(self.state.workloads.values()):
            served = self.state.served.get(workload.key)
            if name in (
                workload.profile,
                served.profile if served is not None else workload.profile,
            ):
                self.refreshing.add(workload.key)

    def _member_changed(self, key: ObjectName, old: Any, new: Any) -> None:
        self.on_member(key[1], new)
        if old is None or new is None or _placed_by(old) != _placed_by(new):
            self.requeueing.everything()

    def _reflector_of_pause(self) -> Reflector[Pause]:
        return self.reflector(
            "v1",
            "configmaps",
            Store("host/configmaps"),
            namespace=self.state.options.system_namespace,
            field_selector=f"metadata.name={pauses.PAUSE_OBJECT}",
            project=pauses.read,
            on_change=lambda _key, _old, new: self._pause(new),
        )

    def _pause(self, now: Pause | None) -> None:
        """A pause began or ended, or something else is said of it. Every workload says so."""
        before = self.state.pause
        if now == before:
            return
        self.state.observe_pause(now)
        for key in sorted(self.state.workloads):
            self.state.changed(Changed.PAUSED, key)
        if now is not None:
            if before is None:
                log.info("paused%s", now.facts)
            return
        log.info("resumed")
        self.requeueing.everything()
        for key in sorted({*self.state.workloads, *self.state.by_workload}):
            self.state.changed(Changed.RESUMED, key)
        self.state.signals.resumed()


def _space(obj: dict[str, Any]) -> Enforced:
    level = pod_security.enforced(raw.mapping(obj, "metadata", "labels"))
    ending = "deletionTimestamp" in obj["metadata"]
    return dataclasses.replace(level, ending=True) if ending else level


def _begin(group: asyncio.TaskGroup, reflector: Reflector[Any]) -> None:
    group.create_task(reflector.run(), name=f"host {reflector.plural}")


def _unmanaged(obj: dict[str, Any]) -> dict[str, Any]:
    """Without `managedFields`, more than half of a MemberCluster in memory."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _identity(obj: dict[str, Any]) -> dict[str, Any]:
    return obj


def _generation(obj: Mapping[str, Any]) -> int:
    generation: int = obj["metadata"].get("generation", 0)
    return generation


def _binds(account: QuotaAccount | None) -> tuple[Any, ...]:
    """The part of an account that says which namespaces may use which project."""
    if account is None:
        return ()
    return account.projects, account.namespaces, account.unknown_projects, account.parent


def _accounts(account: QuotaAccount | None) -> tuple[Any, ...]:
    """The part of an account that says which service accounts projects may use in namespaces."""
    return () if account is None else (*_binds(account), account.service_accounts)


def _uid(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("uid", ""))


def _placed_by(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    """The part of a MemberCluster that decisions depend on, without its state and its reports."""
    return (
        _generation(cluster),
        raw.text(cluster, "status", "version"),
        cluster["metadata"].get("labels") or {},
        membercluster.removal(cluster),
    )
