"""What a member process knows of its cluster: a store per kind, with indexes; `caches` feeds them.

Until `natives_synced`, an absence means nothing and no native may be written (invariant 14).
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from federator.api import runtimeprofile
from federator.kinds import registry
from federator.kinds.natives import CARRIES, NATIVES, OPTIONAL
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from federator.member.cache import listed
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
from federator.model.names import WorkloadKey
from federator.model.rules.namespaces import LimitRange
from federator.model.steps import ObjectRef
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


class Stores:
    """Read by controllers, synchronously."""

    def __init__(self) -> None:
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
        self._slice_keys: dict[str, WorkloadKey] = {}  # by uid of the slice
        self._owners: dict[str, str] = {}
        """uid of a Deployment, Job or ReplicaSet -> uid of what controls it."""
        self.reflectors: dict[str, Reflector[Any]] = {}
        """What feeds the stores, by the name of the collection."""

    def slice(self, key: WorkloadKey) -> SliceRow | None:
        return self.slices[key.kind].get((key.namespace, key.name))

    def every_slice(self) -> Iterator[SliceRow]:
        """All objects of workload kinds, in order of kind, namespace and name."""
        for kind in sorted(self.slices):
            store = self.slices[kind].items()
            for key in sorted(store):
                yield store[key]

    def lives(self, slice_uid: str) -> bool:
        return slice_uid in self._slice_keys

    def native(self, key: NativeKey) -> NativeRow | None:
        return self.natives[key[0]].get((key[1], key[2]))

    def natives_of(self, owner_uid: str) -> list[NativeRow]:
        """Native objects that this object controls, in order of kind, namespace and name."""
        return [
            row
            for kind, store in self._natives
            if len(store)  # most kinds have no object in most members
            and store.has_under("owner", owner_uid)
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


def _owned(kind: str) -> Store[Any]:
    """A store with an index by owner."""
    store: Store[Any] = Store(kind)
    store.add_index("owner", lambda row: (row.owner_uid,) if row.owner_uid else ())
    return store
