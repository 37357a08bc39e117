"""`decide`: the placement decision of one workload. Synchronous and deterministic; never raises for
any policy. It charges the ledger with what it gives.

Steps: filter, admit by quota, choose clusters, divide within spread bounds, explain. Held copies
stay while their cluster is allowed, and afterwards until they have another place (`leaving`). Only
growth needs free room.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from federator.model import seq as seqs
from federator.model import shards
from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Reason, Share, Verdict, quick_decision
from federator.model.fleet import FleetSnapshot, Holding, copies_of, remaining
from federator.model.shards import Ranges
from federator.placement import (
    everynode,
    exclusive,
    gangs,
    inputs,
    ordinals,
    placing,
    scaling,
    sharing,
    verdicts,
)
from federator.placement.columnwise import deciding
from federator.placement.contradictions import contradiction
from federator.placement.policy import enforcing, percluster
from federator.placement.request import (
    NO_BLOCKS,
    NOWHERE,
    Blocks,
    Divide,
    MayRun,
    Request,
    quick_request,
)
from federator.placement.room import limits
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, crowd, leaving
from federator.placement.selection.candidates import Candidate
from federator.placement.selection.crowd import Drawing, Gathered


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of workload that is decided in a way of its own, around `divide` or in place of
    it."""

    applies: Callable[[Ask], object]
    decide: Callable[[Ask, Request, Divide], Decision]


KINDS: Final[Mapping[str, Kind]] = {
    "a pod on every node": Kind(attrgetter("shape.every_node"), everynode.decide),
    "copies with ordinals": Kind(attrgetter("ordinals"), ordinals.decide),
    "shards that run once": Kind(attrgetter("exclusive"), exclusive.decide),
    "a gang": Kind(attrgetter("shape.parts"), gangs.decide),
}
"""The first that applies decides, and gets the rest of the table to divide by."""
_ROWS: Final = tuple(KINDS.values())


def no_mark(_: str) -> int:
    return 0


def decide(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    seq: int,
    mark: Callable[[str], int] = no_mark,
    capped: Mapping[str, int] = candidates.NOBODY,
    previous_hash: str = "",
    finished: Ranges = (),
    by_name: bool = False,
    leave: leaving.Leave | None = None,
    per_cluster: int = 0,
    blocks: Blocks = NO_BLOCKS,
    empty: Collection[str] = (),
    may_run: MayRun = NOWHERE,
) -> Decision:
    """Decides for one workload and charges the ledger. The arguments are those of `Request`."""
    request = quick_request(
        snapshot,
        ledger,
        seq,
        mark,
        held,
        capped,
        previous_hash,
        finished,
        by_name,
        leave,
        per_cluster,
        blocks,
        empty,
        may_run,
    )
    fleet = ledger.fleet
    if fleet.bounding:
        with limits.within(ask, held, finished, ledger):
            return _grown(ask, request)
    return _grown(ask, request) if fleet.growing else _by_kind(_ROWS, ask, request)


def _grown(ask: Ask, request: Request) -> Decision:
    """Over nodes that clusters can add, where any can."""
    if request.ledger.fleet.growing:
        return scaling.decide(ask, request, functools.partial(_by_kind, _ROWS))
    return _by_kind(_ROWS, ask, request)


def _by_kind(rows: tuple[Kind, ...], ask: Ask, request: Request) -> Decision:
    for kind in rows:
        if kind.applies(ask):
            after = rows[rows.index(kind) + 1 :]
            return kind.decide(ask, request, functools.partial(_by_kind, after))
    return _divided(ask, request)


def _divided(ask: Ask, request: Request) -> Decision:
    """Of copies that are all alike, or of shards."""
    held, snapshot, ledger = request.held, request.snapshot, request.ledger
    # What only candidates know: bounds of single clusters, and shards that are done.
    apart = request.finished or request.capped or request.per_cluster or ledger.ceilings
    if not apart and (not held or (request.leave is None and _leaves_whole(ask, held, snapshot))):
        before = ledger.mark()
        over_columns = deciding.decide(ask, request)
        # A workload that leaves clusters keeps there what finds no other place: only candidates say
        # which copies these are.
        if over_columns is not None and not (held and over_columns.shortfall):
            return over_columns
        ledger.rollback(before)
    problem = contradiction(ask)
    if problem and _disobeys(ask, held, snapshot, request.finished):
        again = replace(request, previous_hash="", per_cluster=0)
        made = _divided(_bare(ask, held, request.finished), again)
        return _obeyed(ask, made, problem, inputs.inputs_hash(ask, snapshot, ledger.memo))
    return _in_full(ask, request, problem)


def _leaves_whole(ask: Ask, held: Sequence[Holding], snapshot: FleetSnapshot) -> bool:
    """Whether every copy is in a cluster that is being emptied, and may leave it: where all find
    another place, they are divided like those of a workload that holds nothing."""
    if ask.unit is not Unit.REPLICAS or ask.ordinals is not None:
        return False
    for holding in held:
        view = snapshot.clusters.get(holding.cluster)
        if view is None or not view.draining or holding.tolerated:
            return False
    return True


def _in_full(ask: Ask, request: Request, problem: str) -> Decision:
    """The decision with every holder, and the best of the others, as a candidate. `problem`: why
    its policy cannot be followed; "" when it can."""
    snapshot, ledger, seq = request.snapshot, request.ledger, request.seq
    finished, by_name = request.finished, request.by_name
    hashed = inputs.inputs_hash(ask, snapshot, ledger.memo)
    judged = candidates.places(ask, snapshot, ledger)
    # Shards that are done or no more wanted hold no slot and no room.
    over = shards.union(finished, sharing.beyond(ask, request.held))
    mine = {holding.cluster: remaining(holding, over) for holding in request.held}
    eligible = candidates.for_holders(ask, mine, judged)
    leavers = leaving.leavers(ask, mine, eligible, by_name=by_name)
    unfinished = shards.size(shards.minus(sharing.all_shards(ask), finished))
    wanted = _wanted(ask, unfinished)
    # Held copies are admitted already: quota bounds growth only.
    within = functools.partial(ledger.admission, ask, held=sum(map(copies_of, mine.values())))
    previous = request.previous_hash
    fresh = ask.policy.division.fresh and not inputs.unchanged(
        previous, hashed, ask, snapshot, ledger.memo
    )
    drawing = Drawing(
        ask, ledger, mine, eligible, request.capped, unfinished, wanted, by_name, fresh, within
    )
    own_way = eligible is not judged or bool(problem or request.per_cluster or ledger.ceilings)
    gathered = crowd.gather(drawing, whole=own_way or _go_whole(ask, leavers))
    recap = functools.partial(candidates.cap_by_shards, ask, held=mine, unfinished=unfinished)
    outcome, pool = _outcome(ask, request, problem, drawing, gathered, leavers, recap)
    shares = sharing.shares_of(
        ask,
        outcome.got,
        mine,
        pool,
        finished=finished,
        seq=lambda name: seqs.above(request.mark(name), seq),
    )
    sharing.charge(ask, shares, pool, finished, ledger)
    facts, seen = _for_verdicts(ask, outcome), gathered.crowd
    sentences = verdicts.verdicts(
        ask, eligible, pool, outcome.got, outcome.left_out, outcome=facts, crowd=seen
    )
    kept = bool(problem or outcome.surplus or ask.suspended)
    record = _Record(
        shares,
        sentences,
        hashed,
        _last_seq(request.held, seq) if sharing.all_as_held(shares, mine) else seq,
        sharing.tolerated(shares, snapshot),
        _per_cluster(ask, request.per_cluster, kept=kept),
    )
    return _decision(ask, outcome, record, pool, as_of=snapshot.as_of, finished=finished)


def _outcome(  # noqa: PLR0917 what is known by then
    ask: Ask,
    request: Request,
    problem: str,
    drawing: Drawing,
    gathered: Gathered,
    leavers: list[Candidate],
    recap: Callable[[list[Candidate]], None],
) -> tuple[placing.DivisionResult, list[Candidate]]:
    """The division, and the clusters that take part in it."""
    pool, admission = gathered.pool, gathered.admission
    per_cluster = request.per_cluster
    if ask.suspended or drawing.wanted <= 0:
        return placing.nothing(ask, drawing.wanted, drawing.unfinished, admission), pool
    if problem or (per_cluster and leaving.as_duplicated(ask, (*pool, *leavers), per_cluster)):
        return placing.as_it_is(ask, pool, leavers, drawing.wanted, problem, admission, per_cluster)
    job = placing.Job(
        ask,
        drawing.eligible,
        admission,
        gathered.wanted,
        drawing.fresh,
        request.leave,
        drawing.within,
        gathered.beside,
    )
    return placing.placed(job, pool, leavers, recap)


def _last_seq(held: Sequence[Holding], seq: int) -> int:
    return max((holding.seq for holding in held), default=seq)


def _per_cluster(ask: Ask, before: int, *, kept: bool) -> int:
    """The count per cluster to record in the decision; `before` is kept while copies placed under
    it must not be touched."""
    if leaving.everywhere(ask):
        return max(ask.count, 0)
    return before if kept else 0


def _disobeys(ask: Ask, held: Sequence[Holding], snapshot: FleetSnapshot, finished: Ranges) -> bool:
    """Whether copies run where a Required policy forbids them."""
    if not ask.policy.required or ask.suspended:
        return False
    bare = enforcing.alone(ask, 0)
    # There is no order to obey, so what runs stays.
    if contradiction(bare):
        return False  # the Required policies contradict themselves
    for holding in held:
        copies, view = (
            copies_of(remaining(holding, finished)),
            snapshot.clusters.get(holding.cluster),
        )
        if not copies or view is None:
            continue
        most = percluster.of(bare, view).most
        if enforcing.refuses(bare.policy, view) or (most is not None and copies > most):
            return True
    return False


def _bare(ask: Ask, held: Sequence[Holding], finished: Ranges) -> Ask:
    running = sum(copies_of(remaining(holding, finished)) for holding in held)
    return enforcing.alone(ask, running)


def _obeyed(ask: Ask, made: Decision, problem: str, hashed: str) -> Decision:
    """The decision for a workload with a policy of its own that cannot be followed: running copies
    are placed as the Required policies want (`made`), and nothing new is given."""
    policy = ask.policy
    missing = max(ask.count - made.wanted, 0) if ask.unit is Unit.REPLICAS else 0
    return replace(
        made,
        wanted=made.wanted + missing,
        shortfall=made.shortfall + missing,
        reason=Reason.MISCONFIGURED,
        message=(
            f"{problem}; what runs moves to where {enforcing.titles(policy)} admits it: "
            f"{made.message}"
        ),
        inputs_hash=hashed,
        policy_namespace=policy.namespace,
        policy_uid=policy.uid,
        policy_generation=policy.generation,
    )


def _for_verdicts(ask: Ask, outcome: placing.DivisionResult) -> verdicts.Shortfall:
    missing = outcome.wanted - sum(outcome.got.values())
    why = outcome.why or outcome.message
    return verdicts.Shortfall(
        outcome.wanted, missing, outcome.reason, why, ask.policy.require_all and missing > 0
    )


def _go_whole(ask: Ask, leavers: Sequence[Candidate]) -> bool:
    """Whether clusters leave as a whole: which of them stay decides how many shards are left."""
    return ask.unit is Unit.SHARDS and bool(leavers)


def _wanted(ask: Ask, unfinished: int) -> int:
    """Copies that may run at once."""
    return max(min(ask.slots, unfinished) if ask.unit is Unit.SHARDS else ask.count, 0)


@dataclass(frozen=True, slots=True)
class _Record:
    """What a decision records about how it was made."""

    shares: tuple[Share, ...]
    verdicts: Sequence[Verdict]
    hashed: str
    seq: int
    tolerated: dict[str, tuple[str, ...]]
    per_cluster: int


def _decision(
    ask: Ask,
    outcome: placing.DivisionResult,
    record: _Record,
    pool: Sequence[Candidate],
    *,
    as_of: float,
    finished: Ranges,
) -> Decision:
    shares = record.shares
    placed = sum(share.count for share in shares)
    wanted, reason, message = outcome.wanted, outcome.reason, outcome.message
    if ask.unit is Unit.SHARDS:
        assigned: Ranges = ()
        for share in shares:
            assigned = shards.union(assigned, share.ranges)
        done_elsewhere = shards.minus(shards.intersect(sharing.all_shards(ask), finished), assigned)
        wanted = max(ask.count, 0) - shards.size(done_elsewhere)
        if reason is Reason.CHOSEN and wanted > placed:
            reason, why = sharing.not_begun(ask, shares, pool, wanted - placed)
            message = f"{message}; {why}" if why else message
    return quick_decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=shares,
        shortfall=wanted - placed,
        reason=reason,
        message=message,
        verdicts=record.verdicts,
        as_of=as_of,
        inputs_hash=record.hashed,
        seq=record.seq,
        quota_generations=outcome.admission.generations,
        unlimited_quota=outcome.admission.unlimited,
        violations=outcome.violations,
        held=sum(outcome.kept.values()),
        to_move=outcome.to_move,
        moved=outcome.moved,
        tolerated=record.tolerated,
        per_cluster=record.per_cluster,
        surplus=outcome.surplus,
        **inputs.recorded(ask.policy),
    )
