"""What a member process knows of its cluster: one store and one reflector per kind, their indexes,
and the callbacks for changes.

One instance per process. Controllers read synchronously and subscribe with plain callbacks that
take note and return. Until `natives_synced`, an absence means nothing and no native may be written
(invariant 14).
"""

import asyncio
import random
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw, runtimeprofile
from federator.kinds import registry
from federator.kinds.natives import CARRIES, NATIVES, OPTIONAL, RUNS_PODS
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.kube.watchmeter import WatchMeter
from federator.member.cache import jobs, limits, listed, rows
from federator.member.cache.highest import Highest
from federator.member.cache.limits import QuotaRow
from federator.member.cache.listed import Carried, Slices
from federator.member.cache.podbooks import PodBooks
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
from federator.member.options import MemberOptions
from federator.model.names import WorkloadKey
from federator.model.rules.namespaces import LimitRange
from federator.model.steps import ObjectRef
from federator.status import reasons
from federator.status.reasons import Trouble

REFERENCED: Final[Mapping[str, tuple[str, str]]] = {
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
}
"""Further kinds that pod templates refer to by name; only their existence is known."""


CARRIED: Final = tuple(kind for kind in registry.WORKLOADS if kind in NATIVES)
"""Native kinds with objects that are slices themselves."""


def native_ref(key: NativeKey) -> ObjectRef:
    """Names a native object to the client."""
    row = NATIVES[key[0]]
    return ObjectRef(row.api_version, row.plural, key[1], key[2], key[0])


def slice_ref(key: WorkloadKey) -> ObjectRef:
    return registry.KINDS[key.kind].ref(key.namespace, key.name)


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


class Caches:
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
        self.signals = Signals()
        self.natives: dict[str, Store[NativeRow]] = {kind: _owned(kind) for kind in NATIVES}
        self._natives = tuple(sorted(self.natives.items()))
        self._own_slices: dict[str, Store[SliceRow]] = {
            kind: Store(kind) for kind in registry.WORKLOADS if kind not in NATIVES
        }
        self._carried = {kind: Carried(self.natives[kind]) for kind in CARRIED}
        self.slices: Mapping[str, Slices] = {**self._own_slices, **self._carried}
        self.referenced: dict[str, Store[bool]] = {kind: Store(kind) for kind in REFERENCED}
        self.replicasets: Store[OwnerRow] = _owned("ReplicaSet")
        self.pods: Store[PodRow] = Store("Pod")
        self.mounts: Store[tuple[MountRow, ...]] = Store("Event")
        """Volumes that could not be set up, none or one in each row."""
        self.mounts.add_index("namespace", lambda mounts: tuple(row.pod[0] for row in mounts))
        self.refusals: Store[tuple[RefusalRow, ...]] = Store("Event")
        """Pods of Jobs that the API server did not take, none or one in each row."""
        self.refusals.add_index("job", lambda refusals: tuple(row.job_uid for row in refusals))
        self.nodes: Store[Node] = Store("Node")
        self.profiles: Store[dict[str, Any]] = Store("RuntimeProfile")
        self.profiles.add_index("hash", lambda obj: (runtimeprofile.content_hash(obj),))
        self.spaces: Store[tuple[tuple[str, str], ...]] = Store("Namespace")
        """What namespaces say of the service accounts of their projects; most say nothing."""
        self.questions: Store[dict[str, Any]] = Store("ClusterCapacity")
        self.quotas: Store[QuotaRow] = Store("ResourceQuota")
        """What each leaves, of those that bound pods of the federation."""
        self.limit_ranges: Store[tuple[LimitRange, ...]] = Store("LimitRange")
        self._quota_namespaces: frozenset[str] | None = None
        self.commitments = PodBooks()
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
        self._slice_keys: dict[str, WorkloadKey] = {}  # by uid of the slice
        self._owners: dict[str, str] = {}
        """uid of a Deployment, Job or ReplicaSet -> uid of what controls it."""
        self._shapes = rows.Shapes()
        self._lists = (asyncio.Semaphore(4),)
        self.reflectors = {
            watched.name: self._reflector(watched, client, clock, rng, metrics)
            for watched in self._watched(fleet)
        }
        for kind in (kind for kind in OPTIONAL if NATIVES[kind].where_served):
            self.reflectors[kind].on_served = self._on_served

    # -- reading --------------------------------------------------------------

    def slice(self, key: WorkloadKey) -> SliceRow | None:
        return self.slices[key.kind].get((key.namespace, key.name))

    def every_slice(self) -> Iterator[SliceRow]:
        """All objects of workload kinds, in order of kind, namespace and name."""
        for kind in sorted(self.slices):
            store = self.slices[kind].items()
            for key in sorted(store):
                yield store[key]

    def lives(self, slice_uid: str) -> bool:
        """Whether a slice with this uid exists."""
        return slice_uid in self._slice_keys

    def native(self, key: NativeKey) -> NativeRow | None:
        return self.natives[key[0]].get((key[1], key[2]))

    def natives_of(self, owner_uid: str) -> list[NativeRow]:
        """Native objects that this object controls, in order of kind, namespace and name."""
        return [
            row
            for kind, store in self._natives
            if store.has_under("owner", owner_uid)
            and (not NATIVES[kind].where_served or self.offers(kind))
            for _, row in store.by_index("owner", owner_uid)
        ]

    def family_of(self, owner_uid: str) -> list[NativeRow]:
        """Native objects that this object controls, and below those that carry others all that
        their controllers made."""
        family = self.natives_of(owner_uid)
        for native in family:
            if native.key[0] in CARRIES:
                family += self.natives_of(native.uid)
        return family

    def offers(self, kind: str) -> bool:
        """Whether this cluster serves a native kind and shows it to this process."""
        if NATIVES[kind].where_served:  # what its definition took along is gone
            return self.reflectors[kind].served is True
        return self.natives[kind].synced

    def crews_of(self, row: SliceRow, family: list[NativeRow] | None = None) -> list[str]:
        """Uids of the controllers of this slice's copies: ReplicaSets, Jobs, DaemonSets and
        StatefulSets. `family`: its `family_of`, where that is known."""
        uids: list[str] = []
        deployments = [row.uid] if row.verbs.carried else []
        for native in self.family_of(row.uid) if family is None else family:
            if native.key[0] == "Deployment":
                deployments.append(native.uid)
            elif native.key[0] in ("Job", "DaemonSet", "StatefulSet"):
                uids.append(native.uid)
        for uid in deployments:
            uids.extend(owned.uid for _, owned in self.replicasets.by_index("owner", uid))
        return uids

    def slice_of_pod(self, controller_uid: str) -> WorkloadKey | None:
        """The slice that a pod with this controller is a copy of."""
        uid = controller_uid
        for _ in range(3):
            key = self._slice_keys.get(uid)
            if key is not None:
                return key
            uid = self._owners.get(uid, "")
            if not uid:
                return None
        return self._slice_keys.get(uid)

    def profile(self, name: str, content_hash: str) -> dict[str, Any] | None:
        """The RuntimeProfile with this content, whatever its copy is called; the one of that name
        when no hash is pinned."""
        if content_hash:
            return next((obj for _, obj in self.profiles.by_index("hash", content_hash)), None)
        return self.profiles.get(("", name))

    def quota_namespaces(self) -> frozenset[str]:
        """The namespaces with ResourceQuotas that bound pods of the federation."""
        if self._quota_namespaces is None:
            self._quota_namespaces = frozenset(key[0] for key in self.quotas.items())
        return self._quota_namespaces

    def account_lists(self, namespace: str) -> dict[str, str]:
        """What a namespace says of the service accounts of its projects."""
        return dict(self.spaces.get(("", namespace)) or ())

    @property
    def natives_synced(self) -> bool:
        """Everything that expansion compares with has been listed in this process's life."""
        always = [store for kind, store in self.natives.items() if kind not in OPTIONAL]
        stores: list[Store[Any]] = [*always, *self.referenced.values()]
        optional = [(self.natives[kind], self.reflectors[kind]) for kind in OPTIONAL]
        return (
            all(store.synced for store in stores)
            and listed.listed_or_absent(self.profiles, self.reflectors["RuntimeProfile"])
            and listed.listed_or_withheld(self.spaces, self.reflectors["Namespace"])
            and all(listed.listed_or_withheld(store, reflector) for store, reflector in optional)
        )

    @property
    def room_synced(self) -> bool:
        """Everything that free room depends on has been listed; a workload kind that is not served
        has no slices."""
        stores: list[Store[Any]] = [
            self.pods,
            self.nodes,
            self.replicasets,
            self.natives["Job"],
        ]
        slices = [
            listed.listed_or_absent(store, self.reflectors[f"slices of {kind}"])
            for kind, store in self._own_slices.items()
        ]
        return (
            all(store.synced for store in stores)
            and all(slices)
            and self.answered
            and self.limits_known
            and self.natives_synced
        )

    @property
    def limits_known(self) -> bool:
        """Whether what its namespaces allow is listed, or kept from this process: its rights may be
        those of a release that did not read it."""
        every: tuple[Store[Any], ...] = (self.quotas, self.limit_ranges)
        return all(listed.listed_or_withheld(store, self.reflectors[store.name]) for store in every)

    @property
    def answered(self) -> bool:
        """Whether it is known what the ClusterCapacity says, or that there is none."""
        return listed.listed_or_absent(self.questions, self.reflectors["ClusterCapacity"])

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

    def mount_troubles(self, namespace: str, crews: Container[str]) -> Iterator[Trouble]:
        """What keeps pods of these controllers from starting, by what their kubelets told last."""
        latest = {
            row.pod: row
            for _, mounts in self.mounts.by_index("namespace", namespace)
            for row in mounts
        }
        for name, row in sorted(latest.items()):
            pod = self.pods.get(name)
            if (
                pod is not None
                and pod.uid == row.pod_uid
                and pod.starting
                and pod.controller_uid in crews
            ):
                yield row.trouble

    def _on_refusal(
        self, _: Key, old: tuple[RefusalRow, ...] | None, new: tuple[RefusalRow, ...] | None
    ) -> None:
        for row in new or old or ():
            key = self.slice_of_pod(row.job_uid)
            if key is not None:
                self.signals.roll_up(key)

    def refusal(self, job_uid: str, since_s: float) -> str:
        """Why the API server takes no pods of a Job, by the last that was said of it since then; ""
        for no word."""
        recent = [
            row
            for _, refusals in self.refusals.by_index("job", job_uid)
            for row in refusals
            if row.at_s >= since_s
        ]
        return max(recent, key=lambda row: (row.at_s, row.message)).message if recent else ""

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


def _owned(kind: str) -> Store[Any]:
    """A store with an index by owner."""
    store: Store[Any] = Store(kind)
    store.add_index("owner", lambda row: (row.owner_uid,) if row.owner_uid else ())
    return store


def _is_slice(row: SliceRow | None) -> bool:
    """Natives of ours carry the fleet's label too: of their kind only what is marked is a slice."""
    return row is not None and (row.mark is not None or not row.verbs.carried)


def _served(kind: str) -> tuple[str, str]:
    info = registry.KINDS[kind]
    return info.api_version, info.plural
