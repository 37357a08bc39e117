"""Folds the observations of all members about one workload into one status: figures as an interval,
conditions, and whether it is settled.

Used by the hub's status aggregation for every changed workload. A silent cluster counts as neither
ready nor gone: its copies widen the interval. Pure: equal inputs give equal folds, in any order of
observations.

    share a 3, b 2; a reports 3 ready, b is silent with 2 ready last: ready between 3 and 5, 2
    unknown
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from federator.model import ending, shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import BlockFigures, NodeFigures, SliceObservation
from federator.model.shards import Ranges
from federator.status import verdict
from federator.status.conditions import Condition
from federator.status.facts import DecisionInput, Desired, Facts, Refusal, Row, Tally

__all__ = ["Desired", "Fold", "Refusal", "Row", "fold"]


@dataclass(frozen=True, slots=True)
class Fold:
    """One workload over all members. Between `ready_lo` and `ready_hi` copies are ready; `unknown`
    is the difference."""

    unit: Unit
    generation: int
    observed_generation: int
    desired: int
    placed: int
    """Copies or shards that the decision gives to clusters."""
    shortfall: int
    ready_lo: int
    ready_hi: int
    unknown: int
    idle: int
    """Copies that autoscalers do not ask for now; the other figures contain them."""
    updated: int
    actual: int
    active: int
    clusters: int
    """Clusters with a share."""
    finished: bool
    completed: Ranges
    failed: Ranges
    rows: tuple[Row, ...]
    settled: bool
    waiting_for: str
    """Why it is not settled, as a sentence; "" when it is."""
    summary: str
    """One line for tables: "2990/3000 ready in 4 clusters"."""
    conditions: tuple[Condition, ...]
    start_time: str = ""
    """When its first shard began, where a deadline counts from it."""
    stopped: int = 0
    """Shards that were neither completed nor failed when it ended."""
    timed_out: bool = False
    """A rollout has made no progress within its deadline."""

    @property
    def ready(self) -> int:
        """The number shown as ready: the certain ones."""
        return max(self.ready_lo - self.idle, 0)


def fold(
    wanted: Desired,
    placing: DecisionInput | None,
    observations: Sequence[SliceObservation],
    *,
    refusals: Sequence[Refusal] = (),
    in_flight: Mapping[str, str] | None = None,
    waiting_turns: Collection[str] = (),
) -> Fold:
    """Folds one workload. `placing` is None before the first decision.

    `observations` contains every cluster that has a share or may have a slice; a share without an
    observation counts as unknown. `in_flight`: cluster -> what is being written there or held back.
    `waiting_turns`: clusters that a rollout has not reached yet, on purpose.
    """
    shares = {share.cluster: share for share in placing.shares} if placing else {}
    seen = {observation.cluster: observation for observation in observations}
    for cluster, share in shares.items():
        seen.setdefault(cluster, SliceObservation(cluster, known=False, desired=share.count))
    held = [seen[cluster] for cluster in sorted(seen) if cluster in shares or seen[cluster].exists]
    kept = wanted.suspended or (placing is not None and placing.refused)
    tally = (
        _shards(wanted, shares, held)
        if wanted.unit is Unit.SHARDS
        else _replicas(wanted, shares, held, kept=kept)
    )
    refused = {refusal.cluster: refusal for refusal in reversed(refusals)}
    rows = tuple(
        _row(
            wanted,
            shares.get(o.cluster),
            o,
            tally,
            refused.get(o.cluster),
            waits_its_turn=o.cluster in waiting_turns,
        )
        for o in held
    )
    observed = wanted.generation
    if not _claimed(wanted, placing, [row for row in rows if row.cluster in shares]):
        observed = min(wanted.previous_observed_generation, wanted.generation)
    placed = sum(share.count for share in shares.values())
    return _folded(
        Facts(
            wanted, placing, tally, rows, tuple(refusals), dict(in_flight or {}), observed, placed
        )
    )


def _folded(facts: Facts) -> Fold:
    """The result: sums over the rows, and the verdict's sentences."""
    wanted, placing, tally, rows = facts.wanted, facts.placing, facts.tally, facts.rows
    waiting_for = verdict.waiting_for(facts)
    return Fold(
        unit=wanted.unit,
        generation=wanted.generation,
        observed_generation=facts.observed_generation,
        desired=wanted.count,
        placed=facts.placed,
        shortfall=placing.shortfall if placing else wanted.count,
        ready_lo=tally.ready_lo,
        ready_hi=tally.ready_hi,
        unknown=tally.unknown,
        idle=tally.idle,
        updated=sum(row.updated for row in rows),
        actual=sum(row.actual for row in rows),
        active=sum(row.active for row in rows),
        clusters=sum(1 for share in placing.shares if share.count > 0) if placing else 0,
        finished=tally.finished,
        completed=tally.completed,
        failed=tally.failed,
        rows=rows,
        settled=not waiting_for,
        waiting_for=waiting_for,
        summary=verdict.summary(facts),
        conditions=verdict.conditions_of(facts, waiting_for),
        start_time=_start_time(wanted, tally),
        stopped=tally.stopped,
        timed_out=bool(verdict.timed_out(facts)),
    )


def _start_time(wanted: Desired, tally: Tally) -> str:
    """When the first shard began, as recorded, else now that one runs or is done; "" where no
    deadline counts from it."""
    if wanted.start_time or wanted.end_rules.deadline_s is None:
        return wanted.start_time
    return wanted.now if tally.ready_hi or tally.completed or tally.failed else ""


def _claimed(wanted: Desired, placing: DecisionInput | None, rows: Sequence[Row]) -> bool:
    """Whether this generation may be reported as observed. A suspended or refused workload is left
    unchanged on purpose, so reading it is enough. The same holds for a cluster that waits for its
    turn in a rollout: people learn about an earlier failure from the status of this generation."""
    if wanted.suspended or (placing is not None and placing.refused and placing.current):
        return all(row.known for row in rows)
    seen = all(row.caught_up or (row.known and row.waits_its_turn) for row in rows)
    reached = any(row.caught_up for row in rows) or not rows
    return placing is not None and placing.current and seen and reached


def _replicas(
    wanted: Desired, shares: Mapping[str, Share], held: Sequence[SliceObservation], *, kept: bool
) -> Tally:
    """Interchangeable copies. A cluster that is being left still serves, so it counts until its
    slice is gone. `kept`: running copies are left unchanged."""
    low = high = current = maybe = old = idle = 0
    exact = True
    for seen in held:
        share = shares[seen.cluster].count if seen.cluster in shares else 0
        if not seen.known:
            high += max(seen.ready, share)
            maybe += max(seen.ready, share)
            exact = False
            continue
        low += seen.ready
        high += seen.ready
        idle += seen.idle
        updated = _updated(wanted, seen)
        current += seen.updated_ready if updated else 0
        old += max(seen.actual - max(updated, seen.idle), 0)
        # A workload that is left alone, or has an edit that is held back, keeps what it has. It is
        # complete when all of that runs.
        rolled = (seen.updated if kept or wanted.in_force else updated) >= share
        exact = exact and seen.ready == share and max(seen.actual, seen.ready) == share and rolled
    return Tally(
        ready_lo=low,
        ready_hi=high,
        current_lo=current,
        current_hi=current + maybe,
        old=old,
        unknown=high - low,
        idle=idle,
        need=wanted.count,
        completed=(),
        failed=(),
        finished=False,
        exact=exact,
        unhealthy=_unhealthy(held),
    )


def _updated(wanted: Desired, seen: SliceObservation) -> int:
    """Copies of the present generation's template; 0 when the slice has another content, because
    its updated copies are then of the template before."""
    return 0 if wanted.in_force or _is_other(wanted, seen) else seen.updated


def _is_other(wanted: Desired, seen: SliceObservation) -> bool:
    """Whether the slice has another content than the present generation."""
    return seen.outdated or seen.origin_generation < wanted.generation


def _nodes(wanted: Desired, seen: SliceObservation) -> NodeFigures | None:
    """A daemon's figures, of which `updated` counts as `_updated` does."""
    if seen.nodes is None or wanted.in_force or not _is_other(wanted, seen):
        return seen.nodes
    return replace(seen.nodes, updated=0)


def _blocks(wanted: Desired, seen: SliceObservation) -> tuple[BlockFigures, ...]:
    """The figures of blocks, of which `updated` counts as `_updated` does."""
    if not wanted.in_force and not _is_other(wanted, seen):
        return seen.blocks
    return tuple(replace(block, updated=0) for block in seen.blocks)


def _shards(
    wanted: Desired, shares: Mapping[str, Share], held: Sequence[SliceObservation]
) -> Tally:
    """Numbered shards: a shard once completed stays completed, whatever is reported later."""
    universe: Ranges = ((0, wanted.count - 1),)
    completed = wanted.previous_completed
    failed = wanted.previous_failed
    for seen in held:
        completed = shards.union(completed, seen.completed)
        failed = shards.union(failed, seen.failed)
    completed = shards.intersect(shards.normal(completed), universe)
    failed = shards.minus(shards.intersect(shards.normal(failed), universe), completed)
    done = shards.union(completed, failed)
    before = shards.union(wanted.previous_completed, wanted.previous_failed)
    # When all had been done it had ended by that: a deadline that passes later is no other end.
    was_open = bool(shards.minus(universe, before))
    ended = wanted.previous_ending or ending.judge(
        wanted.end_rules,
        wanted.count,
        completed,
        failed,
        broken=next((seen.broken for seen in held if seen.broken), "") if was_open else "",
        overdue=wanted.overdue and was_open,
    )
    stopped = wanted.count - shards.size(done) if ended else 0
    low = high = need = 0
    exact = True
    for seen in held:
        share = shares.get(seen.cluster)
        left = share is not None and ended is None
        open_shards = shards.size(shards.minus(share.ranges, done)) if share and left else 0
        busy = min(share.slots, open_shards) if share else 0
        need += busy
        counted = min(seen.active, seen.ready) if seen.reason else seen.active
        ready = min(max(counted - seen.unschedulable, 0), _most_running(wanted, share, seen))
        if not seen.known:
            high += max(ready, busy)
            exact = False
            continue
        low += ready
        high += ready
        exact = exact and (ready >= busy if left else seen.active == 0)
    return Tally(
        ready_lo=low,
        ready_hi=high,
        current_lo=low,
        current_hi=high,
        old=0,
        unknown=high - low,
        idle=0,
        need=need,
        completed=completed,
        failed=failed,
        finished=ended is not None,
        exact=exact,
        unhealthy=_unhealthy(held),
        ending=ended,
        stopped=stopped,
    )


def _most_running(wanted: Desired, share: Share | None, seen: SliceObservation) -> int:
    """Shards that can run at once in a cluster: its slots, whatever it tells."""
    if wanted.unit is not Unit.SHARDS or share is None or not share.slots:
        return seen.active
    return share.slots


def _unhealthy(held: Sequence[SliceObservation]) -> tuple[SliceObservation, ...]:
    return tuple(seen for seen in held if seen.known and (seen.healthy is False or seen.reason))


def _row(
    wanted: Desired,
    share: Share | None,
    seen: SliceObservation,
    tally: Tally,
    refusal: Refusal | None = None,
    *,
    waits_its_turn: bool = False,
) -> Row:
    """One cluster's row. A refusal replaces the observed reason: what runs there is not what was
    asked for."""
    ranges = share.ranges if share else ()
    applied = (
        share is not None
        and seen.exists
        and not seen.deleting
        and seen.seq >= share.seq
        and seen.origin_generation >= (wanted.in_force or wanted.generation)
        and not seen.outdated
    )
    reason, message = seen.reason, seen.message
    if not seen.known:
        why = seen.unheard or "The cluster is not heard"
        reason, message = "ClusterUnknown", f"{why}; the figures are the last ones seen."
    elif refusal is not None:
        reason, message = refusal.reason, refusal.message
    return Row(
        cluster=seen.cluster,
        share=share.count if share else 0,
        slots=share.slots if share else 0,
        known=seen.known,
        exists=seen.exists,
        applied=applied,
        caught_up=applied and seen.known and seen.observed_generation >= seen.generation,
        waits_its_turn=waits_its_turn,
        ready=seen.ready,
        updated=_updated(wanted, seen),
        actual=seen.actual,
        active=min(seen.active, _most_running(wanted, share, seen)),
        idle=seen.idle if seen.known else 0,
        completed=shards.size(shards.intersect(ranges, tally.completed)),
        failed=shards.size(shards.intersect(ranges, tally.failed)),
        reason=reason,
        message=message,
        unheard=seen.unheard,
        nodes=_nodes(wanted, seen),
        gang=seen.gang,
        ranges=ranges,
        blocks=_blocks(wanted, seen),
        repeats=seen.repeats,
    )
