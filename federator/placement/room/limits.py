"""What ResourceQuotas of members leave for copies of one namespace, as far as a batch has decided.

A report says what a quota leaves when every slice up to its seq has its pods. Later decisions, and
those of this batch, are charged here, as the ledger charges them for room. What copies leave is
free when a report says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of, remaining
from federator.model.resources import UNLIMITED, ZERO, Resources
from federator.model.rules import namespaces
from federator.model.rules.namespaces import Need, Room
from federator.model.shards import Ranges
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.room.fleetwide import Bounding

Charge: TypeAlias = tuple[Resources, int]
"""Requests of copies, and how many these are."""
NOTHING: Final[Charge] = (ZERO, 0)


class CommittedCharges(Protocol):
    """What is read of the commitments."""

    def commitment(self, uid: str) -> Commitment | None: ...
    def uncovered_in(self, cluster: str, includes_seq: int) -> Mapping[str, Charge]: ...


class Charges:
    """What quotas of clusters are charged beyond their reports. Mutable, for one ledger."""

    def __init__(self, snapshot: FleetSnapshot, bounding: Bounding) -> None:
        self.bounding = bounding
        self._snapshot = snapshot
        self._stale: set[str] = set()
        """Workloads that this batch has given something else since they were counted."""
        self._uncovered: dict[str, Mapping[str, Charge]] = {}
        """Cluster -> namespace -> what its report does not include."""
        self._parts: dict[str, dict[tuple[str, str], Charge]] = {}
        """uid -> (namespace, cluster) -> what the batch gave it more than it had."""
        self._sums: dict[tuple[str, str], Charge] = {}

    def changed(self, uid: str) -> None:
        """The batch gives the workload something else from now on."""
        self._stale.add(uid)

    def room(
        self,
        ask: Ask,
        cluster: str,
        held: Mapping[str, Commitment | None],
        below: CommittedCharges,
        freed: Resources = ZERO,
    ) -> Room | None:
        """How many copies of the workload the quotas of a cluster still have room for, beyond those
        that it has by its last decision; None where none bounds them. `held`: what the batch gives.
        `freed`: what copies of its own give back when they change; their former limits are not
        known, so quotas of limits do not bound a change."""
        if not self.bounding:
            return None
        namespace = ask.key.namespace
        capacity = self._snapshot.clusters[cluster].capacity
        if capacity is None or namespace not in capacity.quotas:
            return None
        self._recount(held, below)
        if cluster not in self._uncovered:
            self._uncovered[cluster] = below.uncovered_in(cluster, capacity.includes_seq)
        place = namespace, cluster
        requests, copies = self._uncovered[cluster].get(namespace, NOTHING)
        for (more, count), sign in (
            (self._sums.get(place, NOTHING), 1),
            (self._parts.get(ask.uid, {}).get(place, NOTHING), -1),
        ):
            requests, copies = requests + more * sign, copies + count * sign
        each = Need(ask.shape.requests, ZERO)
        if ask.stated:
            each = namespaces.need(ask.stated, capacity.rules[namespace])
        if freed:
            each = Need(each.requests, ZERO)
        charged = Need(requests - freed, requests)
        room = namespaces.room(namespace, capacity.quotas[namespace], each, charged, copies)
        return room if room.copies < UNLIMITED else None

    def _recount(self, held: Mapping[str, Commitment | None], below: CommittedCharges) -> None:
        for uid in self._stale:
            for place, part in self._parts.pop(uid, {}).items():
                self._add(place, part, -1)
            after = held.get(uid)
            if after is not None and after.namespace in self.bounding:
                self._parts[uid] = parts = _growth(after, below.commitment(uid))
                for place, part in parts.items():
                    self._add(place, part, +1)
        self._stale.clear()

    def _add(self, place: tuple[str, str], part: Charge, sign: int) -> None:
        requests, copies = self._sums.get(place, NOTHING)
        self._sums[place] = requests + part[0] * sign, copies + part[1] * sign


UNBOUNDED: Final = Charges(FleetSnapshot(0.0, {}), {})
"""Where no cluster has ResourceQuotas: nothing is ever charged here, so all ledgers share it."""


def _growth(after: Commitment, before: Commitment | None) -> dict[tuple[str, str], Charge]:
    """What a workload has more than before, by namespace and cluster."""
    had = {} if before is None else {held.cluster: copies_of(held) for held in before.holdings}
    parts: dict[tuple[str, str], Charge] = {}
    for held in after.holdings:
        copies, former = copies_of(held), had.get(held.cluster, 0)
        requests = after.shape.requests * copies
        if before is not None and former:
            requests = (requests - before.shape.requests * former).at_least_zero()
        if requests:
            parts[after.namespace, held.cluster] = requests, max(copies - former, 0)
    return parts


class LedgerView(Protocol):
    snapshot: FleetSnapshot
    limits: Charges
    ceilings: Mapping[str, Ceiling]

    def quota_left(self, ask: Ask, cluster: str, freed: Resources = ZERO) -> Room | None: ...


@contextmanager
def within(
    ask: Ask, held: Sequence[Holding], finished: Ranges, ledger: LedgerView
) -> Iterator[None]:
    """Meanwhile the ceilings of the ledger keep the workload to the quotas of members."""
    before, ledger.ceilings = ledger.ceilings, ceilings(ask, held, finished, ledger)
    try:
        yield
    finally:
        ledger.ceilings = before


def ceilings(
    ask: Ask, held: Sequence[Holding], finished: Ranges, ledger: LedgerView
) -> Mapping[str, Ceiling]:
    """The ceilings of the ledger, and below them what the quotas of members leave the workload: it
    keeps what it has, and grows as far as there is room."""
    clusters = ledger.limits.bounding.get(ask.key.namespace)
    if not clusters:
        return ledger.ceilings
    has = {each.cluster: copies_of(remaining(each, finished)) for each in held}
    merged = dict(ledger.ceilings)
    for name in clusters:
        room = ledger.quota_left(ask, name)
        if room is None:
            continue
        most, before = has.get(name, 0) + room.copies, merged.get(name)
        if before is None or most < before.copies:
            merged[name] = Ceiling(most, room.why, Reason.NAMESPACE_LIMITS)
    return merged
