"""How a member process hears of its cluster: one reflector per kind feeds the stores, and callbacks
note what has changed.

One instance per process. Controllers read synchronously and subscribe with plain callbacks that
take note and return. Until `natives_synced`, an absence means nothing and no native may be written
(invariant 14).
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import raw
from federator.kinds import registry
from federator.kinds.natives import NATIVES, OPTIONAL, RUNS_PODS
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.kube.watchmeter import WatchMeter
from federator.member.cache import jobs, limits, rows
from federator.member.cache.highest import Highest
from federator.member.cache.limits import QuotaRow
from federator.member.cache.rows import (
    MountRow,
    NativeKey,
    NativeRow,
    Node,
    OwnerRow,
    PodRow,
    RefusalRow,
    SliceRow,
)
from federator.member.cache.signals import Signals
from federator.member.cache.stores import REFERENCED, Stores, native_ref
from federator.member.options import MemberOptions
from federator.status import reasons


@dataclass(frozen=True, slots=True)
class _Watched:
    """How one collection is kept: what is served where, what is kept of each object, and the
    listeners for changes."""

    name: str
    served: tuple[str, str]
    store: Store[Any]
    project: Callable[[dict[str, Any]], Any]
    on_change: Callable[[Key, Any, Any], None]
    label_selector: str = ""
    field_selector: str = ""
    optional: bool = False


class Caches(Stores):
    """The stores, fed by `reflectors`, which the process runs."""

    def __init__(
        self,
        client: Client,
        *,
        fleet: str,
        options: MemberOptions,
        clock: Clock,
        rng: random.Random,
        metrics: WatchMeter | None = None,
    ) -> None:
        super().__init__()
        self.signals = Signals()
        self.nodes_epoch = 0
        """Rises whenever a node changes in something other than what its pods use."""
        self.went_back = asyncio.Event()
        """The cluster was restored from a backup: nothing that this process remembers of it holds
        any more."""
        self.highest_seq = 0
        """The highest seq of any slice seen in this process's life."""
        self.highest = Highest()
        """The same by workload, also of earlier lives."""
        self.late_slices = 0
        """How often a decision arrived after a later one: slices are written side by side, and
        watched kind by kind."""
        self._client = client
        self._fleet = fleet
        self._options = options
        self._shapes = rows.Shapes()
        self._lists = (asyncio.Semaphore(4),)
        self.reflectors |= {
            watched.name: self._reflector(watched, client, clock, rng, metrics)
            for watched in self._watched(fleet)
        }
        for kind in (kind for kind in OPTIONAL if NATIVES[kind].where_served):
            self.reflectors[kind].on_served = self._on_served

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for one of those above."""
        while not condition():  # noqa: ASYNC110 - nothing signals that a kind turned out not to be served
            await asyncio.sleep(0.05)

    def hurry(self) -> None:
        """The server answers again: no reflector waits any longer."""
        for reflector in self.reflectors.values():
            reflector.hurry()

    async def read_node(self, name: str) -> dict[str, Any] | None:
        """The node as it is now. Raises ApiErrors."""
        chosen = f"metadata.name={name}"
        return next(
            iter((await self._client.list("v1", "nodes", field_selector=chosen)).items), None
        )

    async def read_native(self, key: NativeKey) -> dict[str, Any] | None:
        """The native object as it is now. Raises ApiErrors."""
        ref, chosen = native_ref(key), f"metadata.name={key[2]}"
        listing = await self._client.list(
            ref.api_version, ref.plural, ref.namespace, field_selector=chosen
        )
        return next(iter(listing.items), None)

    async def confirm(self, row: SliceRow) -> bool:
        """Asks the server whether this slice still stands; one that goes does not. Raises
        ApiErrors."""
        listing = await self._client.list(
            *_served(row.key.kind),
            row.key.namespace,
            field_selector=f"metadata.name={row.key.name}",
        )
        return any(
            raw.text(obj, "metadata", "uid") == row.uid
            and raw.at(obj, "metadata", "deletionTimestamp") is None
            for obj in listing.items
        )

    # -- hearing --------------------------------------------------------------

    def _reflector(
        self,
        watched: "_Watched",
        client: Client,
        clock: Clock,
        rng: random.Random,
        metrics: WatchMeter | None,
    ) -> Reflector[Any]:
        return Reflector(
            client,
            *watched.served,
            watched.store,
            project=watched.project,
            on_change=watched.on_change,
            on_rewind=self.went_back.set,
            label_selector=watched.label_selector,
            field_selector=watched.field_selector,
            clock=clock,
            rng=rng,
            bounds=self._lists,
            metrics=metrics,
            optional=watched.optional,
        )

    def _watched(self, fleet: str) -> "Iterator[_Watched]":
        """One row per collection that is kept in memory."""
        shapes = self._shapes
        for kind, slices in self._own_slices.items():
            yield _Watched(
                f"slices of {kind}", _served(kind), slices, rows.slice_of(kind), self._on_slice
            )
        for kind, natives in self.natives.items():
            # One watch serves natives and carried slices of a kind.
            yield _Watched(
                kind,
                (NATIVES[kind].api_version, NATIVES[kind].plural),
                natives,
                rows.native_of(kind, shapes, fleet if kind in self._carried else ""),
                self._on_carrying if kind in self._carried else self._on_native,
                optional=NATIVES[kind].optional,
            )
        for kind, existing in self.referenced.items():
            yield _Watched(
                kind, REFERENCED[kind], existing, lambda _: True, self._on_reference(kind)
            )
        owned = ("apps/v1", "replicasets")
        yield _Watched("ReplicaSet", owned, self.replicasets, rows.owner_row, self._on_replicaset)
        yield _Watched(
            "Pod", ("v1", "pods"), self.pods, lambda obj: rows.pod_row(obj, shapes), self._on_pod
        )
        reason = "FailedMount"
        yield _Watched(
            reason,
            ("v1", "events"),
            self.mounts,
            rows.mount_rows,
            self._on_mount,
            field_selector=f"reason={reason}",
        )
        refused = ("v1", "events"), self.refusals, rows.refusal_rows, self._on_refusal
        yield _Watched(reasons.REFUSED, *refused, field_selector=f"reason={reasons.REFUSED}")
        yield from self._watched_for_all()

    def _watched_for_all(self) -> "Iterator[_Watched]":
        """The same for what concerns many slices at once."""
        yield _Watched(
            "Node", ("v1", "nodes"), self.nodes, rows.node_of(self._options), self._on_node
        )
        profile = "RuntimeProfile"
        yield _Watched(
            profile, _served(profile), self.profiles, lambda obj: obj, self._on_reference(profile)
        )
        yield _Watched(
            "Namespace",
            ("v1", "namespaces"),
            self.spaces,
            rows.account_lists,
            self._on_space,
            optional=True,
        )
        question = "ClusterCapacity"
        yield _Watched(
            question, _served(question), self.questions, lambda obj: obj, self._on_question
        )
        yield _Watched(
            "ResourceQuota",
            ("v1", "resourcequotas"),
            self.quotas,
            limits.quota_row,
            self._on_quota,
            optional=True,
        )
        yield _Watched(
            "LimitRange",
            ("v1", "limitranges"),
            self.limit_ranges,
            limits.limit_ranges,
            self._on_limit,
            optional=True,
        )

    def _on_quota(self, key: Key, old: QuotaRow | None, new: QuotaRow | None) -> None:
        """What slices lack is counted in namespaces with quotas only."""
        if (old is None) != (new is None):
            self._quota_namespaces = None
            self.signals.reference("ResourceQuota", *key)
        self._on_limit(key, old, new)

    def _on_limit(self, _: Key, old: Any, new: Any) -> None:
        if old != new:
            self.signals.survey()

    def _on_served(self) -> None:
        """Slices become something else where a kind is served that they could do without."""
        for row in self.every_slice():
            self.signals.expand(row.key)

    def _on_space(self, key: Key, old: Any, new: Any) -> None:
        if (old or ()) != (new or ()):
            for row in self.every_slice():
                if row.key.namespace == key[1]:
                    self.signals.expand(row.key)

    def _on_question(self, _: Key, __: Any, new: dict[str, Any] | None) -> None:
        if new is not None:
            self.remember(new.get("status") or {})
        self.signals.survey()

    def remember(self, status: Mapping[str, Any]) -> None:
        """Takes from the ClusterCapacity's status what earlier lives have obeyed; the first word
        counts."""
        self.highest.load(status)
        self.highest_seq = max(self.highest_seq, self.highest.top)

    def _on_slice(self, _: Key, old: SliceRow | None, new: SliceRow | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._slice_keys.pop(old.uid, None)
        row = new if new is not None else old
        if row is None or not (_is_slice(old) or _is_slice(new)):
            return
        if new is not None and _is_slice(new):
            self._slice_keys[new.uid] = new.key
            if new.mark is not None:
                same_seq = old is not None and old.mark is not None and old.mark.seq == new.mark.seq
                if not same_seq and new.mark.seq < self.highest_seq:
                    self.late_slices += 1
                self.highest_seq = max(self.highest_seq, new.mark.seq)
                if new.mark.fleet == self._fleet:
                    self.highest.hear(new.mark.workload_uid, new.mark.seq, obeyed=new.observed)
        elif new is not None:
            self._slice_keys.pop(new.uid, None)
        self.signals.roll_up(row.key)
        if old is None or new is None or old.content != new.content or old.deleting != new.deleting:
            self.signals.expand(row.key)
            self.signals.owe(row.key)

    def _on_carrying(self, key: Key, old: NativeRow | None, new: NativeRow | None) -> None:
        """An object of a native kind that may be a slice itself."""
        was, now = (row.carried if row is not None else None for row in (old, new))
        if was is not None or now is not None:
            self._carried[(old or new).key[0]].change(key, now)  # type: ignore[union-attr]
            self._on_slice(key, was, now)
        self._on_native(key, old, new)

    def _on_native(self, _: Key, old: NativeRow | None, new: NativeRow | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._owners.pop(old.uid, None)
        if new is not None and new.owner_uid:
            self._owners[new.uid] = new.owner_uid
        for row in (old, new):
            key = self.slice_of_pod(row.owner_uid) if row is not None and row.owner_uid else None
            if row is not None and key is not None:
                self.signals.roll_up(key)
                if rows.moved(old, new):
                    self.signals.owe(key)
                if row.owner_uid not in self._slice_keys:
                    continue  # made by another controller, which looks after it
                changed = (
                    old is None
                    or new is None
                    or old.live != new.live
                    or old.deleting != new.deleting
                )
                if changed or jobs.has_news(old, new):
                    self.signals.expand(key)
        either = new if new is not None else old
        if either is not None and (old is None or new is None or old.owner_uid != new.owner_uid):
            self.signals.reference(*either.key)
        if either is not None and either.key[0] in RUNS_PODS:
            self._crews_changed(old, new)
        if either is not None and either.key[0] == "DaemonSet":
            self.signals.survey()

    def _on_replicaset(self, _: Key, old: OwnerRow | None, new: OwnerRow | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._owners.pop(old.uid, None)
        if new is not None and new.owner_uid:
            self._owners[new.uid] = new.owner_uid
        self._crews_changed(old, new)

    def _crews_changed(
        self, old: NativeRow | OwnerRow | None, new: NativeRow | OwnerRow | None
    ) -> None:
        """A watch may report pods before their controller: only now the owner is known, or is
        another one."""
        if not rows.moved(old, new):
            return
        for row in (old, new):
            slice_key = (
                self.slice_of_pod(row.owner_uid) if row is not None and row.owner_uid else None
            )
            if slice_key is not None:
                self.signals.roll_up(slice_key)
                self.signals.owe(slice_key)

    def _on_pod(self, key: Key, old: PodRow | None, new: PodRow | None) -> None:
        row = new if new is not None else old
        left = self.commitments.slice_of(row.controller_uid) if row is not None else None
        self.commitments.change(key, old, new)
        if rows.news(old) != rows.news(new) and row is not None:
            slice_key = self.slice_of_pod(row.controller_uid) or left
            if slice_key is not None:
                self.signals.roll_up(slice_key)
        if rows.room(old) != rows.room(new):
            for uid in {pod.controller_uid for pod in (old, new) if pod is not None}:
                slice_key = self.slice_of_pod(uid)
                if slice_key is not None:
                    self.signals.owe(slice_key)
            self.signals.survey()
        if new is not None and new.ready and (old is None or not old.ready):
            self.signals.node(new.node)

    def _on_mount(
        self, _: Key, old: tuple[MountRow, ...] | None, new: tuple[MountRow, ...] | None
    ) -> None:
        for row in new or old or ():
            pod = self.pods.get(row.pod)
            key = self.slice_of_pod(pod.controller_uid) if pod is not None else None
            if key is not None:
                self.signals.roll_up(key)

    def _on_refusal(
        self, _: Key, old: tuple[RefusalRow, ...] | None, new: tuple[RefusalRow, ...] | None
    ) -> None:
        for row in new or old or ():
            key = self.slice_of_pod(row.job_uid)
            if key is not None:
                self.signals.roll_up(key)

    def _on_node(self, key: Key, old: Node | None, new: Node | None) -> None:
        if old != new:
            self.nodes_epoch += 1
            self.signals.survey()
            self.signals.node(key[1])

    def _on_reference(self, kind: str) -> Callable[[Key, Any, Any], None]:
        def changed(key: Key, old: Any, new: Any) -> None:
            if old is None or new is None or old != new:
                self.signals.reference(kind, *key)

        return changed


def _is_slice(row: SliceRow | None) -> bool:
    """Natives of ours carry the fleet's label too: of their kind only what is marked is a slice."""
    return row is not None and (row.mark is not None or not row.verbs.carried)


def _served(kind: str) -> tuple[str, str]:
    info = registry.KINDS[kind]
    return info.api_version, info.plural
