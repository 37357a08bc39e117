"""The victims of a workload that has quota and finds no room, if the account of the preemptor says
so (`spec.preemption.room`): work of tier Preemptible, and for the guarantee of the preemptor work
of tier OnDemand beyond the guarantee of its own account.

How copies lie on nodes is known only to schedulers. A preemptor's copy is reckoned to fit where
what leaves requests as much together; where that lies on several nodes it does not, and more leaves
a while later. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from federator.model.accounts import TakesRoom
from federator.model.ask import Ask, Tier, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import Commitment, FleetSnapshot, copies_of
from federator.model.resources import PODS, Resources
from federator.placement.quota.tree import Tree
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, leaving, neighbours
from federator.scheduling.admission import everywhere
from federator.scheduling.admission.budgets import NO_BUDGETS, Budgets
from federator.scheduling.admission.holders import Why, least
from federator.scheduling.admission.stage import Eviction

_MOST_FIRST = (TakesRoom.BORROWED, TakesRoom.PREEMPTIBLE)


def takes(ask: Ask) -> bool:
    """Whether others may leave for a workload of this kind and tier."""
    return not (ask.tier is Tier.PREEMPTIBLE or ask.shape.every_node or ask.ordinals is not None)


def lacking(ask: Ask, decision: Decision) -> int:
    """Copies that have quota and no room; 0 for a workload that does not take others' room."""
    if not takes(ask) or decision.reason is not Reason.INSUFFICIENT_CAPACITY:
        return 0
    if ask.unit is Unit.REPLICAS:
        return decision.shortfall
    return max(min(ask.slots, ask.count) - sum(share.slots for share in decision.shares), 0)


def stranded(decision: Decision, snapshot: FleetSnapshot) -> int:
    """Copies that stay in clusters that are being emptied, because no other has room for them."""
    if decision.reason is not Reason.INSUFFICIENT_CAPACITY:
        return 0
    views = snapshot.clusters
    there = sum(
        copies_of(share)
        for share in decision.shares
        if (view := views.get(share.cluster)) is not None and view.empties
    )
    return max(there - decision.to_move, 0)


def of(ask: Ask, tree: Tree) -> TakesRoom:
    """The workloads that it may take room from, by what the accounts of the project say."""
    said = {tree.accounts[name].preemption.room for name in tree.charged(ask.project)}
    return next((take for take in _MOST_FIRST if take in said), TakesRoom.NEVER)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a preemptor lacks in one cluster, for which room elsewhere is of no use; or what of all
    that it lacks could be there."""

    copies: int
    has: int
    """Of them have room there now."""


There = Mapping[str, Missing] | None
"""By cluster; None for a preemptor that has use for any copy that fits, in any cluster."""


def missing(ask: Ask, lacks: int, ledger: Ledger, claimed: Mapping[str, int]) -> There:
    """Of a preemptor that lacks so many copies. What begins as a whole may have room for a part of
    them already. `claimed`: cluster -> copies for which others have left there already."""
    if leaving.everywhere(ask):
        held = ledger.commitment(ask.uid)
        holdings = held.holdings if held is not None else ()
        has = {holding.cluster: copies_of(holding) for holding in holdings}
        each = everywhere.lacking(ask, has, ledger)
        left = {name: copies - claimed.get(name, 0) for name, copies in each.items()}
    elif (ask.whole or ask.policy.require_all) and ask.policy.division.max_clusters != 1:
        judged = candidates.places(ask, ledger.snapshot, ledger)
        left = {name: lacks for name, place in judged.items() if place.refusal is None}
    else:
        return None
    return {
        name: Missing(copies, min(max(ledger.room(name, ask.shape), 0), copies))
        for name, copies in left.items()
        if copies > 0
    }


def freed(
    leavers: Iterable[Eviction], ask: Ask, commitments: Commitments, there: There
) -> dict[str, int]:
    """Cluster -> copies of the preemptor for which these make room there, with what has room
    already (`there`)."""
    trial = _Trial(ask.shape.requests, there)
    for leaves in leavers:
        held = commitments.commitment(leaves.uid)
        if held is not None:
            every = {holding.cluster: copies_of(holding) for holding in held.holdings}
            for cluster, copies in (every if leaves.whole else leaves.clusters).items():
                trial.add(cluster, held.shape.requests * copies)
    return {name: copies for name, copies in trial.by_cluster().items() if copies}


@dataclass(slots=True)
class _Occupied:
    """The copies of one workload in one cluster; of one that leaves as a whole all of it."""

    commitment: Commitment
    clusters: Mapping[str, int]
    """Cluster -> its copies there."""
    most: int
    """Of them may leave: so many, or 1 for all."""

    def frees(self, count: int) -> Iterator[tuple[str, Resources]]:
        for cluster, copies in self.clusters.items():
            # Of a whole workload `count` is 0 or 1: one takes all its copies with it.
            share = copies * count if self.commitment.whole else count
            yield cluster, self.commitment.shape.requests * share


@dataclass(slots=True)
class _Trial:
    """What leaves on trial, and how many of the preemptor's copies that makes room for."""

    requests: Resources
    there: There
    followed: Collection[str] = ()
    """uids of workloads near which alone the preemptor can begin."""
    freed: dict[str, Resources] = field(default_factory=dict)

    def take(self, part: _Occupied, count: int) -> None:
        for cluster, amounts in part.frees(count):
            self.add(cluster, amounts)

    def give_back(self, part: _Occupied, count: int) -> None:
        for cluster, amounts in part.frees(count):
            self.freed[cluster] = self.freed[cluster] - amounts

    def add(self, cluster: str, amounts: Resources) -> None:
        self.freed[cluster] = self.freed.get(cluster, Resources()) + amounts

    def fits(self) -> int:
        return sum(self.by_cluster().values())

    def by_cluster(self) -> dict[str, int]:
        fits = {cluster: self._fit(amounts) for cluster, amounts in self.freed.items()}
        if self.there is None:
            return fits
        return {
            cluster: min(lacks.has + fits.get(cluster, 0), lacks.copies)
            for cluster, lacks in self.there.items()
        }

    def useful(self, cluster: str, held: Commitment, copies: int) -> int:
        """How many of so many copies may be of use there, where others have left by now."""
        if self.there is None:
            return copies
        lacks, requests = self.there[cluster], held.shape.requests
        needs = self.requests * (lacks.copies - lacks.has) - self.freed.get(cluster, Resources())
        useful = (-(-need // requests[name]) for name, need in needs.items() if requests[name])
        return min(max(useful, default=0), copies)

    def _fit(self, amounts: Resources) -> int:
        needs = [(name, need) for name, need in self.requests.items() if need and name != PODS]
        return min((amounts[name] // need for name, need in needs), default=0)

    def with_more(self, part: _Occupied, count: int) -> int:
        self.take(part, count)
        fits = self.fits()
        self.give_back(part, count)
        return fits


def victims(
    ask: Ask,
    lacks: int,
    commitments: Commitments,
    ledger: Ledger,
    spared: Collection[str],
    *,
    there: There = None,
    budgets: Budgets = NO_BUDGETS,
    lent: Collection[str] = (),
) -> list[Eviction]:
    """The least that leaves so that the preemptor has room for what it lacks, or for as much as
    there can be. `spared`: uids of those that cannot leave now. `there`: as `missing` has it.
    `lent`: only what is in these clusters leaves, for the failover buffers there, whatever the
    accounts of the preemptor say. Candidates are taken in this order: tier Preemptible, then the
    lowest priority, then the newest. Of those of tier OnDemand only as much leaves as is guaranteed
    to the preemptor, and as their disruption budgets allow unless it begins as a whole."""
    opened = {
        name
        for name, place in candidates.places(ask, ledger.snapshot, ledger).items()
        if place.refusal is None
        and (not lent or name in lent)
        and (there is None or name in there)
        and ledger.could_hold(name, ask.shape)
    }
    promised = 0
    if not lent and of(ask, ledger.tree) is TakesRoom.BORROWED:
        # What it borrows is no reason for OnDemand work to leave.
        promised = min(_promised(ask, ledger), lacks)
    whole = ask.whole or ask.policy.require_all
    followed = neighbours.followed(ask, ledger)
    trial, taken = _Trial(ask.shape.requests, there, followed), list[tuple[_Occupied, int]]()
    before = trial.fits()
    # Preemptible first: it agreed to leave at any time, and OnDemand work keeps its place then.
    for tier, wanted in ((Tier.PREEMPTIBLE, lacks), (Tier.ON_DEMAND, promised)):
        if trial.fits() >= wanted:
            continue
        spare = budgets if tier is Tier.ON_DEMAND and not whole else NO_BUDGETS
        held = [
            each
            for each in _candidates(commitments, spared, tier, ask)
            if not (each.whole and each.uid in followed)
        ]
        parts = _parts(held, opened, _Guarantees(ledger, tier), spare, trial)
        _take_from(parts, ask, wanted, trial, taken)
    reached = min(trial.fits(), lacks)
    # Copies must not stop for room that a preemptor which starts as a whole cannot use.
    if reached <= before or (whole and reached < lacks):
        return []
    return [
        leaves
        for part, count in _kept(trial, taken, reached)
        for leaves in _leaves(part, count, ask, Why.LENT if lent else Why.ROOM)
    ]


def _take_from(
    parts: Iterable[_Occupied],
    ask: Ask,
    wanted: int,
    trial: _Trial,
    taken: list[tuple[_Occupied, int]],
) -> None:
    """Takes from one after the other until there is room for so many copies."""
    for part in parts:
        before = trial.fits()
        if before >= wanted:
            break
        most = min(trial.with_more(part, part.most), wanted)
        # Small copies make room for one large copy only together, so they stay in the trial.
        if most <= before and not _small(part, ask):
            continue
        enough = least(1, part.most, lambda n, of=part, to=most: trial.with_more(of, n) >= to)  # type: ignore[misc]
        count = part.most if enough is None else enough
        trial.take(part, count)
        taken.append((part, count))


def _promised(ask: Ask, ledger: Ledger) -> int:
    """Copies that the guarantee of its account still covers beside what the account uses: of the
    lowest account above it to which anything is guaranteed that a copy requests."""
    uses = ledger.uses
    covered = list[int]()
    for charged in uses.tree.charged(ask.project):
        path = uses.tree.path(charged)
        balances = uses.balances(path[-1], ask.tier)
        for name in path:
            left = [
                max(balance.guaranteed - balance.used, 0) // need
                for resource, need in ask.shape.requests.items()
                if need and (balance := balances.get(resource, {}).get(name)) is not None
                if balance.guaranteed
            ]
            if left:
                covered.append(min(left))
                break
    return min(covered, default=0)


def _small(part: _Occupied, ask: Ask) -> bool:
    """Whether several of its copies together may make room for one of the preemptor's."""
    return not ask.shape.requests.within(part.commitment.shape.requests)


def _kept(
    trial: _Trial, taken: Sequence[tuple[_Occupied, int]], reached: int
) -> Iterator[tuple[_Occupied, int]]:
    """Without what is not needed in the end, the last taken first."""
    kept: list[tuple[_Occupied, int]] = []
    # The last taken are the ones that the order wants to keep most.
    for part, count in reversed(taken):
        trial.give_back(part, count)
        needed = least(0, count, lambda n, of=part: trial.with_more(of, n) >= reached)  # type: ignore[misc]
        stays = count if needed is None else needed
        trial.take(part, stays)
        if stays:
            kept.append((part, stays))
    return reversed(kept)


def _leaves(part: _Occupied, count: int, by: Ask, right: Why) -> Iterator[Eviction]:
    commitment = part.commitment
    why = right if commitment.tier is Tier.PREEMPTIBLE else Why.BORROWED_ROOM
    if commitment.whole:
        yield Eviction(commitment.uid, commitment.copies, True, by, str(why))
        return
    cluster = next(iter(part.clusters))
    yield Eviction(commitment.uid, count, False, by, str(why), {cluster: count})


def _candidates(
    commitments: Commitments, spared: Collection[str], tier: Tier, preemptor: Ask
) -> list[Commitment]:
    held = (
        commitment
        for commitment in commitments.of_tier(tier)
        if not commitment.shape.every_node
        and commitment.uid not in spared
        and commitment.uid != preemptor.uid
    )
    return sorted(
        held,
        key=lambda commitment: (commitment.priority, -_newest(commitment), commitment.uid),
    )


def _newest(commitment: Commitment) -> int:
    return max((holding.seq for holding in commitment.holdings), default=0)


def _parts(
    held: Iterable[Commitment],
    opened: Collection[str],
    guarantees: "_Guarantees",
    spare: Budgets,
    trial: _Trial,
) -> Iterator[_Occupied]:
    """Where their room helps, as far as their accounts' guarantees let them leave, and their own
    budgets."""
    for commitment in held:
        there = {
            holding.cluster: copies
            for holding in commitment.holdings
            if (copies := copies_of(holding)) and holding.cluster in opened
        }
        if not there:
            continue
        if commitment.whole:
            if guarantees.spare(commitment, commitment.copies) == commitment.copies:
                yield _Occupied(commitment, there, 1)
            continue
        allowed = spare.allowed(commitment)
        for cluster, copies in sorted(there.items()):
            few = copies if allowed is None else min(allowed.get(cluster, 0), copies)
            if commitment.uid in trial.followed:
                few = min(few, copies - 1)  # the preemptor can begin only next to one
            few = trial.useful(cluster, commitment, few)
            if few > 0 and (most := guarantees.spare(commitment, few)):
                yield _Occupied(commitment, {cluster: copies}, most)


class _Guarantees:
    """What accounts use beyond what is guaranteed to them in one tier: only that leaves."""

    def __init__(self, ledger: Ledger, tier: Tier) -> None:
        self._uses, self._tier, self._over = ledger.uses, tier, dict[tuple[str, str], int]()
        self._terminating = ledger.terminating

    def spare(self, commitment: Commitment, copies: int) -> int:
        """How many of so many copies may leave; they count as gone for the next that asks."""
        tree, requests = self._uses.tree, commitment.shape.requests
        limits = [
            (name, resource, requests[resource])
            for name in tree.charged(commitment.project)
            for resource in requests
            if self._beyond(name, resource) is not None and requests[resource]
        ]
        most = min(
            (max(self._over[name, resource], 0) // each for name, resource, each in limits),
            default=copies,
        )
        most = min(most, copies)
        for name, resource, each in limits:
            self._over[name, resource] -= most * each
        return most

    def _beyond(self, name: str, resource: str) -> int | None:
        """None where nothing is guaranteed."""
        if (name, resource) not in self._over:
            root = self._uses.tree.path(name)[-1]
            balance = self._uses.balances(root, self._tier).get(resource, {}).get(name)
            if balance is None or not balance.guaranteed:
                return None
            gone = self._terminating(set(self._uses.tree.under(name)), self._tier)[resource]
            self._over[name, resource] = balance.used - gone - balance.guaranteed
        return self._over[name, resource]
