"""What one member holds: its slices and its capacity report, as its reflectors and the answers to
our own writes showed them.

Written by its reflectors (`reading`) and with the answers to our writes. It lives as long as its
`Member`: closing the connection keeps what was last seen, because silence is not absence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import membercluster, raw
from federator.hub.members.capacity_report import CapacityReport
from federator.hub.records import slices
from federator.hub.records.slices import SliceSeen
from federator.kinds import registry
from federator.kube import errors
from federator.kube.store import Bound, Store, version_number
from federator.kube.watch.reflector import Reflector
from federator.model.fleet import ClusterView, serves
from federator.model.names import WorkloadKey
from federator.model.quickly import likewise
from federator.model.scaleup import NodeClass
from federator.placement.growth.promises import Promises

REPORTS_MAX = 64
"""ClusterCapacity objects kept of one member: there is one, and any others are ignored."""
TOUCHED_MAX: Final = 10_000
"""So many slices are remembered as touched; of more all are looked at."""


VARYING: Final = (
    "scale_up",
    "ready",
    "unready_reason",
    "untrustworthy",
    "skewed",
    "unproven",
    "draining",
    "maintained",
    "drain_waits",
    "dead",
    "fenced",
    "unreachable",
    "lapsed",
    "apis",
    "capacity",
    "capacity_age_s",
    "stale",
    "success_permille",
    "failing",
)
"""Fields of a view that change while its MemberCluster stays as it is."""
_as_now = likewise(ClusterView, *VARYING)


@dataclass(slots=True)
class Contents:
    """What one member holds."""

    bound: Bound | None = None
    """How many objects of each kind are kept in `stores`."""
    stores: dict[str, Store[SliceSeen]] = field(default_factory=dict)
    slices_held: int = 0
    """Objects there with a slice mark; the others with our label are their natives."""
    own_writes: dict[WorkloadKey, SliceSeen] = field(default_factory=dict)
    """Slices as the responses to our writes showed them, until the watch has caught up."""
    touched: set[WorkloadKey] | None = None
    """Slices that have changed, or of which the workload or the decision has, since they were all
    looked at; None for all slices."""
    reports: Store[CapacityReport] = field(
        default_factory=lambda: Store[CapacityReport](
            "capacity", bound=Bound(objects=REPORTS_MAX, bytes=0)
        )
    )
    reflectors: dict[str, Reflector[Any]] = field(default_factory=dict)
    """Plural -> reflector, of the present connection or, while there is none, of the last one."""
    report: CapacityReport | None = None
    report_heard_s: float = 0.0
    promises: Promises = field(default_factory=Promises)
    """The nodes that its autoscaler is trusted to add."""
    _declared: tuple[Mapping[str, Any], ClusterView] | None = None
    """The MemberCluster object that was read last, and what it says at all times."""
    _viewed: tuple[ClusterView, tuple[Any, ...], ClusterView] | None = None
    """The last view: what its object said, what varied, and what was made of both."""

    def declared(self, obj: Mapping[str, Any]) -> ClusterView:
        """What its MemberCluster says at all times. Each object is read once: it is replaced, never
        changed."""
        if self._declared is None or self._declared[0] is not obj:
            self._declared = obj, membercluster.lasting_view(obj)
        return self._declared[1]

    def viewed(self, declared: ClusterView, varying: tuple[Any, ...]) -> ClusterView:
        """What its object says, with these values of `VARYING`. The same object as before while
        nothing has changed: comparisons with an earlier fleet need not look into it."""
        last = self._viewed
        if last is None or last[0] is not declared or last[1] != varying:
            last = self._viewed = declared, varying, _as_now(declared, *varying)
        return last[2]

    def synced(self, apis: frozenset[str]) -> bool:
        """Every kind of those that it serves has been listed since this process started, and its
        claim is known."""
        for kind, store in self.stores.items():
            if not store.synced and serves(apis, kind):
                return False
        return bool(self.stores) and self.claim_known

    @property
    def claim_known(self) -> bool:
        """Whether it is known which host claims it, or that it cannot hold a claim."""
        reflector = self.reflectors.get("clustercapacities")
        return self.reports.synced or (
            reflector is not None and isinstance(reflector.trouble, errors.NotFound)
        )

    def watches(self, kind: str) -> bool:
        """Whether the present connection has read the slices of this kind and watches them. False
        for a kind that discovery leaves out, because no watch of it runs."""
        reflector = self.reflectors.get(registry.KINDS[kind].plural)
        return reflector is not None and reflector.answered.is_set() and not reflector.trouble

    # -- slices ---------------------------------------------------------------

    def slice_keys(self) -> list[WorkloadKey]:
        """All objects of a workload kind that were seen there."""
        stores = sorted(self.stores.items())
        return [WorkloadKey(kind, *key) for kind, store in stores for key in store]

    def slice_of(self, key: WorkloadKey) -> SliceSeen | None:
        """The slice as last seen: by the watch, or earlier in the response to our own write."""
        # as `row`, without its call: each turn asks several times
        store = self.stores.get(key.kind)
        row = store.get(key[1:]) if store is not None else None
        own = self.own_writes.get(key) if self.own_writes else None
        if own is None:
            return row
        seen = row.resource_version if row is not None and row.uid == own.uid else ""
        heard = seen or (store.resource_version if store is not None else "")
        if version_number(heard) >= version_number(own.resource_version):
            del self.own_writes[key]
            return row
        return own

    def row(self, key: WorkloadKey) -> SliceSeen | None:
        """The slice as its watch shows it."""
        store = self.stores.get(key.kind)
        return store.get((key.namespace, key.name)) if store is not None else None

    def made(self, cluster: str, kind: str, obj: Mapping[str, Any]) -> SliceSeen:
        """The row of an object that our own write has just created; that of the watch if it was
        earlier."""
        meta = obj["metadata"]
        row = self.row(WorkloadKey(kind, raw.text(meta, "namespace"), raw.text(meta, "name")))
        if row is not None and (row.uid, row.resource_version) == (
            meta.get("uid"),
            meta.get("resourceVersion"),
        ):
            return row
        return slices.summarise(kind, cluster, obj)

    def observe_answer(self, seen: SliceSeen) -> bool:
        """Stores the response to our own write, so that nothing waits for the watch. Returns False
        if the watch was faster and has signalled it."""
        if self.row(seen.key) == seen:
            return False
        self.own_writes[seen.key] = seen
        return True

    def observe_slice(self, old: SliceSeen | None, new: SliceSeen | None) -> int:
        """A watch shows a slice otherwise. Returns by how much the number of slices changed."""
        seen = new if new is not None else old
        if self.touched is not None and seen is not None:
            self.touch(seen.key)
        change = _marked(new) - _marked(old)
        self.slices_held += change
        return change

    def touch(self, key: WorkloadKey) -> None:
        """A slice has changed, or what accounts for it has."""
        if self.touched is None:
            return
        if len(self.touched) >= TOUCHED_MAX:
            self.touched = None
        else:
            self.touched.add(key)

    def take_touched(self) -> set[WorkloadKey] | None:
        """What has been touched since the last call; None for everything."""
        taken, self.touched = self.touched, set()
        return taken

    def caught_up(self, new: SliceSeen | None) -> bool:
        """Whether the watch now shows our own write, which was signalled with its response."""
        if new is None or self.own_writes.get(new.key) != new:
            return False
        del self.own_writes[new.key]
        return True

    # -- its capacity report --------------------------------------------------

    def observe_report(self, report: CapacityReport | None, now_s: float) -> None:
        """The watch shows its ClusterCapacity."""
        self.report, self.report_heard_s = report, now_s

    @property
    def machines(self) -> Mapping[str, int]:
        """Its nodes by instance type, as it last reported them."""
        return self.report.capacity.machines if self.report is not None else {}

    def can_add(self, stated: Sequence[NodeClass], now_s: float) -> tuple[NodeClass, ...]:
        """The stated classes of nodes, as far as they deliver. `now_s` is a monotonic time."""
        return self.promises.in_force(stated, self.machines, now_s) if stated else ()

    def observe_late(self, node_class: NodeClass, now_s: float) -> str | None:
        """Nodes of this class did not come in time. Returns a sentence on what follows; None when
        that is known."""
        return self.promises.note_late(node_class, self.machines, now_s)

    def observe_answered_report(self, report: CapacityReport) -> None:
        """Stores the response to our own write of its ClusterCapacity, mainly for the claim in
        it."""
        if self.report is None or version_number(report.resource_version) >= version_number(
            self.report.resource_version
        ):
            self.report = report


def _marked(seen: SliceSeen | None) -> int:
    return 1 if seen is not None and seen.mark is not None else 0
