"""Rollout planner: from a decision and the slices observed in members to the next action in each
member. Pure.

Replicas grow first. A copy that moves leaves when its replacement is ready. `max_unavailable` lets
copies leave earlier only while no cluster has room for the replacements. Shards leave a cluster
only after their state is recorded on the host. A rollout reaches a bounded number of clusters at a
time. An action says what to do; the dispatcher renders and writes objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from federator.model.ask import ANY_NUMBER, Unit
from federator.model.decision import Share

SHRINKS_LATER: Final = "shrinks when the copies elsewhere are ready"
LEAVES_LATER: Final = "leaves when the copies elsewhere are ready"
NO_ROOM: Final = (
    "no cluster has room for the replacements, so copies leave before them as far as maxUnavailable"
    " allows"
)
NOT_REACHED: Final = "the rollout has not reached this cluster yet"


class ActionKind(StrEnum):
    """What to do with one cluster's slice."""

    NOTHING = "Nothing"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    HOLD = "Hold"
    """Something is due but must wait for other clusters; `why` says for what."""


GOING: Final = (
    "its slice is being deleted there; it is made anew once it is gone, which a finalizer may hold"
    " up"
)


@dataclass(frozen=True, slots=True)
class Observed:
    """What is observed of one cluster's slice when actions are planned."""

    cluster: str
    readable: bool
    """False while the cluster is unreachable or does not serve the kind: nothing is written there,
    and it counts as not ready."""
    reported: bool = True
    """False while its probes are not answered, its slices are not watched, or the process that
    reports its copies is silent. `ready` then justifies nothing elsewhere."""
    silence: str = ""
    """Why it is not reported, as a clause; "" while it is."""
    exists: bool = False
    ours: bool = True
    """False for an object of the same name that this fleet did not write."""
    same_workload: bool = True
    going: bool = False
    """It is being deleted, by any client."""
    current: bool = False
    """It has exactly the decided share and content."""
    template_current: bool = False
    """Its content (everything but the share) is the workload's present content."""
    count: int = 0
    ready: int = 0
    """Ready copies as the cluster reports them, at most as many as its slice asks for; all of these
    where the report may be out of date: it is not `reported`, or the slice leaves and its status is
    of an earlier generation. What a deletion would lose."""
    counts: int | None = None
    """Ready copies that may justify a shrink elsewhere: never more than its share, now or while it
    is shrinking, whatever it reports. None: all of `ready`."""
    receives: bool = True
    """Its share grew after copies began to leave other clusters: the missing copies of the share
    are their replacements."""
    unbound: bool = False
    """Its scheduler finds no node for the missing copies, and placing found no other cluster for
    them."""
    healthy: bool = False
    """It has observed its content and all its copies are ready: rollouts may continue."""
    safe: bool = True
    """For shards: its completed shards are recorded on the host, so it may be deleted."""


@dataclass(frozen=True, slots=True)
class Action:
    """What to do in one cluster now. `count`: replicas to write, less than the share while a shrink
    is done in parts."""

    cluster: str
    kind: ActionKind
    count: int = 0
    keep_template: bool = False
    """Write the new share but keep the running template (the rollout has not reached this cluster
    yet)."""
    why: str = ""


def plan(
    unit: Unit,
    shares: Sequence[Share],
    observed: Mapping[str, Observed],
    *,
    max_unavailable: int,
    max_clusters_at_once: int | None,
    missing: int = 0,
    by_number: bool = False,
) -> tuple[Action, ...]:
    """One action per cluster that has a share or a slice, by name.

    `max_unavailable` is in copies. `missing`: copies that were not ready when the present moves
    began. `by_number`: `max_unavailable` is a number, which every cluster applies to its own share.
    `observed` contains every cluster with a share, and every other one with a slice.
    """
    wanted = {share.cluster: share for share in shares if share.count > 0}
    bound = max_unavailable if by_number else None
    rolling = _rolled_out_to(unit, wanted, observed, max_clusters_at_once, bound)
    allowance = _shrink_allowance(unit, wanted, observed, max_unavailable, missing)
    silences = _silences(wanted, observed)
    if not silences and unit is Unit.REPLICAS and not has_room(wanted, observed):
        silences = NO_ROOM
    actions: list[Action] = []
    for cluster in sorted(wanted.keys() | observed.keys()):
        share, now = wanted.get(cluster), observed[cluster]
        action = _next(unit, cluster, share, now, may_roll=cluster in rolling, allowance=allowance)
        if silences and action.why in (SHRINKS_LATER, LEAVES_LATER):
            action = replace(action, why=f"{action.why}; {silences}")
        if action.kind in (ActionKind.UPDATE, ActionKind.DELETE) and unit is Unit.REPLICAS:
            # The actions of one plan are written together, so they share the allowance.
            allowance -= max(0, now.ready - action.count) if now.reported else 0
        actions.append(action)
    return tuple(actions)


def _next(
    unit: Unit, cluster: str, share: Share | None, now: Observed, *, may_roll: bool, allowance: int
) -> Action:
    if not now.readable:
        kind = ActionKind.HOLD if share is not None or now.exists else ActionKind.NOTHING
        return Action(cluster, kind, why="the cluster is not heard, or does not serve this kind")
    if not now.exists:
        if share is None:
            return Action(cluster, ActionKind.NOTHING)
        return Action(cluster, ActionKind.CREATE, count=share.count)
    if not now.ours:
        return Action(
            cluster,
            ActionKind.NOTHING,
            why="an object of this name exists that this fleet did not write",
        )
    if not now.same_workload:
        return Action(
            cluster,
            ActionKind.HOLD,
            why="the slice of an earlier workload of this name is still there",
        )
    if now.going:
        return Action(cluster, ActionKind.HOLD, why=GOING)
    if share is None:
        return _leave(unit, cluster, now, allowance)
    if now.current:
        return Action(cluster, ActionKind.NOTHING, count=share.count)
    keep_template = not now.template_current and not may_roll
    if keep_template and now.count == share.count:
        return Action(cluster, ActionKind.HOLD, count=share.count, why=NOT_REACHED)
    count = share.count
    # A shrink that costs more ready copies than may go now is written in parts:
    #     share 2, ready 5, allowance 1 -> writes 4; the rest when copies elsewhere are ready
    if unit is Unit.REPLICAS and count < now.ready:
        count = max(count, now.ready - max(allowance, 0))
        if count >= now.count and now.template_current:
            return Action(
                cluster,
                ActionKind.HOLD,
                count=now.count,
                why=SHRINKS_LATER,
            )
        count = min(count, max(now.count, share.count))
    return Action(cluster, ActionKind.UPDATE, count=count, keep_template=keep_template)


def _leave(unit: Unit, cluster: str, now: Observed, allowance: int) -> Action:
    """Next action for a cluster that lost its whole share."""
    if not now.safe:
        return Action(
            cluster,
            ActionKind.HOLD,
            count=now.count,
            why="what its shards completed is not recorded on the host yet",
        )
    # A shard that moves begins again elsewhere in any case: to wait for readiness would gain
    # nothing.
    if unit is Unit.SHARDS or now.ready <= allowance:
        return Action(cluster, ActionKind.DELETE)
    if allowance <= 0:
        return Action(
            cluster,
            ActionKind.HOLD,
            count=now.count,
            why=LEAVES_LATER,
        )
    # A new template would restart copies that are about to go anyway.
    return Action(cluster, ActionKind.UPDATE, count=now.ready - allowance, keep_template=True)


def _shrink_allowance(
    unit: Unit,
    wanted: Mapping[str, Share],
    observed: Mapping[str, Observed],
    max_unavailable: int,
    missing: int,
) -> int:
    """How many ready copies may be removed now. If no cluster still has to grow, all of them:
    shrinking is what was asked for.

        moving 5 copies from a to b: a 5, b 0 ready -> 5 - 5 = 0 may go; with b 3 -> 3
        the same where b has no room, max_unavailable 1: 5 - (5 - 1) = 1 may go
    """
    if unit is Unit.SHARDS:
        return 0
    growing = any(_waited_for(observed[name], share.count) for name, share in wanted.items())
    # Nothing is awaited elsewhere, so no copy has to stay as a stand-in.
    if not growing or not wanted:
        return sum(now.ready for now in observed.values() if now.readable)
    ready = sum(_counting(now) for now in observed.values() if now.readable and now.reported)
    if max_unavailable < ANY_NUMBER and has_room(wanted, observed):
        # A move with room for its replacements takes no copy away that a roll-out might: those of
        # maxUnavailable are for rolling.
        max_unavailable = min(max_unavailable, max(missing, _missing_anyway(wanted, observed)))
    floor = sum(share.count for share in wanted.values()) - max_unavailable
    return max(0, ready - floor)


def _missing_anyway(wanted: Mapping[str, Share], observed: Mapping[str, Observed]) -> int:
    """Copies that are not ready in clusters that receive none: no move waits for these."""
    return sum(
        max(share.count - now.ready, 0)
        for name, share in wanted.items()
        if (now := observed[name]).readable and now.reported and not now.receives
    )


def has_room(wanted: Mapping[str, Share], observed: Mapping[str, Observed]) -> bool:
    """Whether some of the replacements may still become ready. False when every missing one waits
    for a node and no other cluster has capacity for it."""
    waited_for = [
        now.unbound and now.count >= share.count
        for name, share in wanted.items()
        if (now := observed[name]).receives and _waited_for(now, share.count)
    ]
    return not waited_for or not all(waited_for)


def _silences(wanted: Mapping[str, Share], observed: Mapping[str, Observed]) -> str:
    """Why ready copies of the shares are not known now, as clauses; "" while all are reported."""
    return ", ".join(
        f"{name}: {now.silence}"
        for name in sorted(wanted)
        if (now := observed[name]).readable and not now.reported and now.silence
    )


def _waited_for(now: Observed, wanted: int) -> bool:
    """Whether copies of this cluster's share are not ready yet, or may not be."""
    return not (now.readable and now.reported) or now.count < wanted or now.ready < wanted


def _counting(now: Observed) -> int:
    return now.ready if now.counts is None else min(now.ready, now.counts)


def _rolled_out_to(
    unit: Unit,
    wanted: Mapping[str, Share],
    observed: Mapping[str, Observed],
    at_once: int | None,
    bound: int | None,
) -> frozenset[str]:
    """Clusters that may get the new template now: those that have it, and the next ones by name
    (of ordinals those with the highest) while fewer than `at_once` are busy, and while all together
    may lack at most `bound` copies. With `bound`, clusters that lack copies come first.

        at_once 2; a has it and is ready, b has it and is not, c and d wait -> a, b and now c
        bound 1; two clusters of 3 copies each -> a alone; b when a is ready again
    """
    if at_once is None and not bound:
        return frozenset(wanted)
    reached = {
        name for name in wanted if not observed[name].exists or observed[name].template_current
    }
    busy = {
        name
        for name in reached
        if observed[name].exists and not (observed[name].readable and observed[name].healthy)
    }
    takes = {name: _takes(share, observed[name], bound or 0) for name, share in wanted.items()}
    left = _may_still_lack(wanted, observed, bound or 0) - sum(takes[name] for name in busy)
    turns = sorted(
        wanted.keys() - reached,
        key=lambda name: (bool(bound and takes[name]), *_turn(unit, wanted[name])),
    )
    for name in turns:
        if at_once is not None and len(busy) >= max(1, at_once):
            break
        # Whether it becomes ready would not be seen, and the roll-out would stop there for all.
        if not (observed[name].readable and observed[name].reported):
            continue
        if not bound or not busy or takes[name] <= max(left, 0):
            reached.add(name)
            busy.add(name)
            left -= takes[name]
    return frozenset(reached)


def _turn(unit: Unit, share: Share) -> tuple[int, str]:
    numbered = unit is Unit.REPLICAS and bool(share.ranges)
    # As a StatefulSet rolls out: from the highest ordinal down.
    return (-share.ranges[-1][1] if numbered else 0, share.cluster)


def _takes(share: Share, now: Observed, bound: int) -> int:
    """Ready copies that a roll-out in this cluster may still take down, with `bound` as its
    `maxUnavailable`."""
    return max(min(bound, share.count) - max(share.count - now.ready, 0), 0)


def _may_still_lack(
    wanted: Mapping[str, Share], observed: Mapping[str, Observed], bound: int
) -> int:
    """Copies of `bound` that are not lacking yet, over all clusters."""
    ready = sum(_counting(now) for now in observed.values() if now.readable and now.reported)
    return bound - max(sum(share.count for share in wanted.values()) - ready, 0)
