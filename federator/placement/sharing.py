"""The shares that a division gives, numbered, and what they charge. An unchanged share keeps its
number."""

from collections.abc import Callable, Mapping, Sequence

from federator.model import shards
from federator.model.ask import Ask, Unit
from federator.model.decision import Reason, Share
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of
from federator.model.kubernetes import taints
from federator.model.shards import Ranges
from federator.placement.division import shards as assignment
from federator.placement.room.ledger import Ledger
from federator.placement.selection import filters
from federator.placement.selection.candidates import Candidate


def shares_of(
    ask: Ask,
    got: Mapping[str, int],
    held: Mapping[str, Holding],
    pool: Sequence[Candidate],
    *,
    finished: Ranges,
    seq: Callable[[str], int],
) -> tuple[Share, ...]:
    if ask.unit is Unit.REPLICAS:
        wanted = [Share(name, count, count) for name, count in sorted(got.items()) if count > 0]
    else:
        wanted = _shard_shares(ask, got, held, pool, finished)
    return tuple(_numbered(share, held.get(share.cluster), seq) for share in wanted)


def _numbered(share: Share, held: Holding | None, seq: Callable[[str], int]) -> Share:
    number = held.seq if held is not None and _is_as_held(share, held) else seq(share.cluster)
    return Share(share.cluster, share.count, share.slots, number, share.ranges)


def _shard_shares(
    ask: Ask,
    got: Mapping[str, int],
    held: Mapping[str, Holding],
    pool: Sequence[Candidate],
    finished: Ranges,
) -> list[Share]:
    if ask.suspended:
        return []
    staying = {
        candidate.name: held[candidate.name].ranges for candidate in pool if candidate.name in held
    }
    order = {candidate.name: candidate.order for candidate in pool}
    openness = {
        candidate.name: filters.openness(ask, candidate.place.view, candidate.place.refusal)
        for candidate in pool
    }
    ranges = assignment.assign(ask.count, finished, staying, got, order=order, openness=openness)
    shares: list[Share] = []
    for name, mine in ranges.items():
        slots = got.get(name, 0)
        former = held.get(name)
        left = shards.size(shards.minus(mine, finished))
        # Near its end a job set has fewer shards than slots. Each smaller number would be a write.
        if former is not None and slots == copies_of(former) and left <= former.count:
            # more slots than shards are left: writing the smaller number would change nothing
            slots = former.slots
        shares.append(Share(name, shards.size(mine), slots, ranges=mine))
    return shares


def not_begun(
    ask: Ask, shares: Sequence[Share], pool: Sequence[Candidate], waiting: int
) -> tuple[Reason, str]:
    """Why `waiting` shards that nobody has may not begin where the slots are: reason and sentence,
    after the first cluster with slots in which none may."""
    working = {share.cluster for share in shares if share.slots > 0}
    subject = "1 shard waits" if waiting == 1 else f"{waiting} shards wait"
    for candidate in pool:
        refused = candidate.place.refusal
        if refused and candidate.name in working:
            why = filters.barring(ask, candidate.place.view)
            if why:
                return refused.reason, f"{subject} for slots where shards may begin: {why}"
    return Reason.CHOSEN, ""


def all_as_held(shares: Sequence[Share], held: Mapping[str, Holding]) -> bool:
    """Whether nothing changes: same clusters, same shares."""
    return {share.cluster for share in shares} == set(held) and all(
        _is_as_held(share, held[share.cluster]) for share in shares
    )


def _is_as_held(share: Share, held: Holding) -> bool:
    if held.slots != share.slots:
        return False
    return shards.normal(held.ranges) == share.ranges if share.ranges else held.count == share.count


def all_shards(ask: Ask) -> Ranges:
    return ((0, ask.count - 1),) if ask.unit is Unit.SHARDS and ask.count > 0 else ()


def beyond(ask: Ask, held: Sequence[Holding]) -> Ranges:
    """Shards in holdings that the workload no longer has: nothing runs for them and they hold no
    slot."""
    return shards.minus(
        shards.normal(index_range for holding in held for index_range in holding.ranges),
        all_shards(ask),
    )


def tolerated(shares: Sequence[Share], snapshot: FleetSnapshot) -> dict[str, tuple[str, ...]]:
    """cluster -> the NoExecute taints under which copies stay there."""
    tainted = {
        share.cluster: present
        for share in shares
        if (present := snapshot.clusters[share.cluster].taints)
    }
    evicting = {cluster: taints.evicting(taints_there) for cluster, taints_there in tainted.items()}
    return {
        cluster: tuple(sorted(map(str, taints_there)))
        for cluster, taints_there in evicting.items()
        if taints_there
    }


def charge(
    ask: Ask, shares: tuple[Share, ...], pool: Sequence[Candidate], finished: Ranges, ledger: Ledger
) -> None:
    before = {candidate.name: candidate.held for candidate in pool}
    made = Commitment.of(ask, shares, finished)
    grown = {
        holding.cluster: copies_of(holding) - before.get(holding.cluster, 0)
        for holding in made.holdings
    }
    ledger.commit(made, {cluster: copies for cluster, copies in grown.items() if copies > 0})
