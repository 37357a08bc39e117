"""`decide` as it was before it drew the best clusters from columns: every cluster a candidate. The
measure of the engine; only tests run it. It reads room and quota from a `PlainLedger`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from federator.model import seq as seqs
from federator.model import shards
from federator.model.ask import Ask, Strategy, Unit
from federator.model.decision import Decision, Reason, Share, Verdict
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of, remaining
from federator.model.kubernetes import taints
from federator.model.shards import Ranges
from federator.placement import inputs, placing
from federator.placement.division import shards as assignment
from federator.placement.division import spread
from federator.placement.division.division import DIVIDERS, Party
from federator.placement.policy import enforcing
from federator.placement.quota.quota import Admission
from federator.placement.room.ledger import Ledger
from federator.placement.selection import filters, leaving
from federator.placement.selection.candidates import Candidate, Place
from tests.unit.placement.oracle import candidates, verdicts


@dataclass(slots=True)
class _Outcome:
    """Result of one division."""

    got: dict[str, int]
    wanted: int
    placed: int
    admission: Admission = field(default_factory=Admission)
    left_out: dict[str, Reason] = field(default_factory=dict)
    violated: bool = False
    violations: tuple[str, ...] = ()
    reason: Reason = Reason.CHOSEN
    message: str = ""
    why: str = ""
    """The binding constraint, as a part of a sentence."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """cluster -> copies that stay there because they have no other place."""
    to_move: int = 0
    moved: int = 0
    then: str = ""
    """When the copies still to move may move, as the end of a sentence."""
    surplus: int = 0
    """Copies beyond the count that stay where strategy Duplicate placed them."""


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
) -> Decision:
    """Decides for one workload and charges the ledger. `held`: what the last decision gave,
    including clusters that no longer exist. `finished`: shards that are done. Unchanged shares keep
    their seq; changed ones get `seq`, or the next above `mark(cluster)` where that is higher.
    `capped`: cluster -> copies that its scheduler could bind lately, whatever room it reports;
    copies beyond that go elsewhere, or stay pending when no cluster takes them. `by_name` breaks
    the last ties by name instead of by a stable hash. `leave` limits how many running copies an
    edit may move now. `per_cluster`: the last count per cluster under strategy Duplicate. With mode
    Fresh held copies get no preference, unless `previous_hash` equals the hash of the present
    inputs: a plan is not recomputed without a cause."""
    if (problem := contradiction(ask)) and _disobeys(ask, held, snapshot, finished):
        again = functools.partial(
            decide, mark=mark, capped=capped, finished=finished, by_name=by_name, leave=leave
        )
        made = again(_bare(ask, held, finished), held, snapshot, ledger, seq=seq)
        return _obeyed(ask, made, problem, inputs.inputs_hash(ask, snapshot, ledger.memo))
    hashed, eligible = (
        inputs.inputs_hash(ask, snapshot, ledger.memo),
        candidates.places(ask, snapshot, ledger),
    )
    over = shards.union(finished, _beyond(ask, held))
    mine = {holding.cluster: remaining(holding, over) for holding in held}
    eligible = candidates.for_holders(ask, mine, eligible)
    pool = candidates.candidates(ask, mine, eligible, ledger, capped=capped, by_name=by_name)
    unfinished = shards.size(shards.minus(_all_shards(ask), finished))
    wanted = _wanted(ask, unfinished)
    _cap_by_shards(ask, pool, mine, unfinished)
    within = functools.partial(ledger.admission, ask, held=sum(map(copies_of, mine.values())))
    admission = within(wanted * _times(ask, pool))
    fresh = ask.policy.division.fresh and not inputs.unchanged(
        previous_hash, hashed, ask, snapshot, ledger.memo
    )
    leavers = leaving.leavers(ask, mine, eligible, by_name=by_name)
    if ask.suspended or wanted <= 0:
        outcome = _nothing(ask, wanted, unfinished, admission)
    elif problem:
        everybody, each = _with(pool, leavers), leaving.everywhere(ask) or per_cluster > 0
        outcome = _unchanged(ask, everybody, wanted, problem, admission, each=each)
        # what leaves takes its finished shards along
        pool = _with(pool, [leaver for leaver in leavers if outcome.got[leaver.name]])
    elif per_cluster and (stays := leaving.as_duplicated(ask, (*pool, *leavers), per_cluster)):
        pool = _with(pool, [leaver for leaver in leavers if leaver.name in stays])
        outcome = _as_duplicated(ask, pool, stays, admission)
    else:
        job = _Job(ask, eligible, admission, wanted * _times(ask, pool), fresh, leave, within)
        outcome, pool = _placed(
            job, pool, leavers, lambda grown: _cap_by_shards(ask, grown, mine, unfinished)
        )
    shares = _shares(
        ask,
        outcome.got,
        mine,
        pool,
        finished=finished,
        seq=lambda name: seqs.above(mark(name), seq),
    )
    _charge(ask, shares, pool, finished, ledger)
    sentences = verdicts.verdicts(
        ask, eligible, pool, outcome.got, outcome.left_out, outcome=_for_verdicts(ask, outcome)
    )
    last = (
        max((holding.seq for holding in held), default=seq) if _all_as_held(shares, mine) else seq
    )
    per_cluster = _per_cluster(
        ask, per_cluster, kept=bool(problem or outcome.surplus or ask.suspended)
    )
    record = _Record(shares, sentences, hashed, last, _tolerated(shares, snapshot), per_cluster)
    return _decision(ask, outcome, record, pool, as_of=snapshot.as_of, finished=finished)


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
    if contradiction(bare):
        return False  # the Required policies contradict themselves
    most = bare.policy.division.max_per_cluster
    for holding in held:
        copies, view = (
            copies_of(remaining(holding, finished)),
            snapshot.clusters.get(holding.cluster),
        )
        if (
            copies
            and view is not None
            and (enforcing.refuses(bare.policy, view) or (most is not None and copies > most))
        ):
            return True
    return False


def _bare(ask: Ask, held: Sequence[Holding], finished: Ranges) -> Ask:
    running = sum(copies_of(remaining(holding, finished)) for holding in held)
    return enforcing.alone(ask, running)


def _obeyed(ask: Ask, made: Decision, problem: str, hashed: str) -> Decision:
    """The decision for a workload whose own policy cannot be followed: running copies are placed as
    the Required policies want (`made`), and nothing new is given."""
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


def _tolerated(shares: Sequence[Share], snapshot: FleetSnapshot) -> dict[str, tuple[str, ...]]:
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


def _for_verdicts(ask: Ask, outcome: _Outcome) -> verdicts.Outcome:
    missing = outcome.wanted - sum(outcome.got.values())
    why = outcome.why or outcome.message
    return verdicts.Outcome(
        outcome.wanted, missing, outcome.reason, why, ask.policy.require_all and missing > 0
    )


def contradiction(ask: Ask) -> str:
    """Why the ask or its policy cannot be followed, as a sentence naming the fields; "" when it
    can."""
    plan, named = ask.policy.division, functools.partial(filters.field_of, ask.policy)
    if ask.policy.problem:
        return ask.policy.problem
    if plan.max_per_cluster is not None and plan.min_per_cluster > plan.max_per_cluster:
        demand = enforcing.bounding(ask.policy, "minPerCluster")
        least = (
            enforcing.of("division.minPerCluster", demand)
            if demand
            else named("division.minPerCluster")
        )
        return (
            f"{least} is {plan.min_per_cluster}, greater than "
            f"{enforcing.bound(ask.policy, 'maxPerCluster')}"
        )
    if plan.min_per_cluster < 0 or (plan.max_per_cluster is not None and plan.max_per_cluster < 0):
        return f"{named('division')} has a negative minPerCluster or maxPerCluster"
    if any(weight.weight < 0 for weight in plan.weights):
        return f"{named('division.weights')} has a negative weight"
    if (
        plan.strategy is Strategy.WEIGHTED
        and plan.weights
        and not any(weight.weight for weight in plan.weights)
    ):
        return f"all weights in {named('division.weights')} are 0"
    if plan.strategy is Strategy.DUPLICATE and ask.unit is Unit.SHARDS:
        return (
            f"{named('division.strategy')} is Duplicate, which cannot divide shards: each runs once"
        )
    if plan.max_clusters is not None and plan.max_clusters < 1:
        return f"{named('division.maxClusters')} is {plan.max_clusters}, which allows no cluster"
    return ""


def _cap_by_shards(
    ask: Ask, pool: Sequence[Candidate], held: Mapping[str, Holding], unfinished: int
) -> None:
    """Caps slots per cluster at the shards it can have: its own and the unassigned ones."""
    if ask.unit is not Unit.SHARDS:
        return
    own = {
        candidate.name: held[candidate.name].count if candidate.name in held else 0
        for candidate in pool
    }
    loose = max(unfinished - sum(own.values()), 0)
    for candidate in pool:
        most = own[candidate.name] + loose
        candidate.stays = min(candidate.stays, most)
        if candidate.cap > most:
            candidate.cap, candidate.limit = most, Reason.NOT_NEEDED


def _times(ask: Ask, pool: Sequence[Candidate]) -> int:
    """How often the whole count is wanted: once per cluster for Duplicate, else once."""
    division = ask.policy.division
    if not DIVIDERS[division.strategy].everywhere:
        return 1
    return max(min(len(pool), division.max_clusters or len(pool)), 1)


def _all_shards(ask: Ask) -> Ranges:
    return ((0, ask.count - 1),) if ask.unit is Unit.SHARDS and ask.count > 0 else ()


def _beyond(ask: Ask, held: Sequence[Holding]) -> Ranges:
    """Shards in holdings that the workload no longer has: nothing runs for them and they hold no
    slot."""
    return shards.minus(
        shards.normal(index_range for holding in held for index_range in holding.ranges),
        _all_shards(ask),
    )


def _wanted(ask: Ask, unfinished: int) -> int:
    """Copies that may run at once."""
    return max(min(ask.slots, unfinished) if ask.unit is Unit.SHARDS else ask.count, 0)


def _nothing(ask: Ask, wanted: int, unfinished: int, admission: Admission) -> _Outcome:
    if ask.suspended:
        message = "the workload is suspended (spec.suspend)"
        return _Outcome({}, wanted, 0, admission, reason=Reason.SUSPENDED, message=message)
    if ask.unit is Unit.SHARDS and ask.slots <= 0 < unfinished:
        message = (
            f"spec.parallelism is {ask.slots}: none of the {unfinished} unfinished shards may run"
        )
        return _Outcome({}, wanted, 0, admission, reason=Reason.SUSPENDED, message=message)
    return _Outcome({}, 0, 0, admission, message=f"there are 0 {verdicts.noun(ask)} to place")


def _unchanged(
    ask: Ask,
    pool: Sequence[Candidate],
    wanted: int,
    problem: str,
    admission: Admission,
    *,
    each: bool,
) -> _Outcome:
    """Outcome for a contradictory policy: nothing moves, nothing is added. `each`: one cluster may
    hold the whole count."""
    got, left = {}, wanted
    for candidate in pool:
        got[candidate.name] = min(candidate.held, ask.count if each else left)
        left -= got[candidate.name]
    placed = sum(got.values())
    return _Outcome(
        got, max(wanted, placed), placed, admission, reason=Reason.MISCONFIGURED, message=problem
    )


def _as_duplicated(
    ask: Ask, pool: Sequence[Candidate], stays: Mapping[str, int], admission: Admission
) -> _Outcome:
    """Keeps everything that strategy Duplicate placed: an edit of the policy alone takes no copies
    down."""
    for candidate in pool:
        candidate.waits = leaving.AS_DUPLICATED if candidate.name in stays else candidate.waits
    placed = sum(stays.values())
    outcome = _Outcome(dict(stays), placed, placed, admission, surplus=placed - ask.count)
    outcome.message = verdicts.duplicated(ask, placed)
    return outcome


@dataclass(frozen=True, slots=True)
class _Job:
    """Input of one division."""

    ask: Ask
    eligible: Mapping[str, Place]
    admission: Admission
    wanted: int
    fresh: bool
    leave: leaving.Leave | None
    within: Callable[[int], Admission]
    """copies -> how many of them quota admits."""

    @property
    def total(self) -> int:
        """Copies to place: kept copies are part of this number, never on top of it."""
        return min(self.wanted, self.admission.copies)


def _placed(
    job: _Job,
    pool: list[Candidate],
    leavers: list[Candidate],
    recap: Callable[[list[Candidate]], None],
) -> tuple[_Outcome, list[Candidate]]:
    """Divides, then gives copies that lost their place without a new one back to the cluster where
    they run.

    Returns the outcome and the clusters that take part in the end. `recap` bounds slots again by
    the remaining shards when clusters of a job set stay.
    """
    ask = job.ask
    outcome = first = _divide(job, pool)
    if job.fresh and leaving.everywhere(ask) and outcome.placed < job.wanted:
        job = replace(job, fresh=False)
        outcome = first = _divide(job, pool)
    named = {candidate.name for candidate in pool}
    if ask.unit is Unit.SHARDS:
        outcome, taking, kept = _whole_clusters(job, outcome, pool, leavers, recap)
    else:
        taking, kept = _with(pool, leavers), {}
    while True:
        lacking = job.total - sum(outcome.got.values())
        if leaving.everywhere(ask) and (sum(outcome.got.values()) < job.wanted or not pool):
            lacking = sum(candidate.held for candidate in taking)
        back = leaving.give_back(taking, outcome.got, lacking, ask.count)
        if not placing.remain(ask, pool, outcome.left_out, back):
            break
        outcome = _divide(job, pool, outcome.left_out)
    outcome.got = {
        name: outcome.got.get(name, 0) + back.get(name, 0) for name in {**outcome.got, **back}
    }
    outcome.kept = {name: kept.get(name, 0) + back.get(name, 0) for name in {**kept, **back}}
    if outcome.kept:
        _say_kept(job, outcome, first)
    if ask.unit is Unit.REPLICAS:
        _move(job, outcome, taking)
    if leaving.everywhere(ask):
        _keep_first(job, outcome, taking)
    if outcome.to_move:
        outcome.message = (
            f"{outcome.message}; {outcome.to_move} {verdicts.noun(ask)} are still to "
            f"move{outcome.then}"
        )
    return outcome, [
        candidate
        for candidate in taking
        if candidate.name in named or candidate.name in outcome.got
    ]


def _whole_clusters(
    job: _Job,
    outcome: _Outcome,
    pool: list[Candidate],
    leavers: list[Candidate],
    recap: Callable[[list[Candidate]], None],
) -> tuple[_Outcome, list[Candidate], dict[str, int]]:
    """For shards: divides again with the clusters that stay: those whose slots have no other place,
    and those whose turn to move has not come.

    Returns the outcome, the clusters that take part, and the slots that stay for want of a place.
    """
    taking, going = pool, leavers
    named = {candidate.name for candidate in pool}
    while going and (lacking := job.total - sum(outcome.got.values())) > 0:
        staying = leaving.enough(going, lacking)
        going = [candidate for candidate in going if candidate not in staying]
        taking = _with(taking, staying)
        recap(taking)
        outcome = _divide(job, taking)
    kept = {
        candidate.name: outcome.got[candidate.name]
        for candidate in taking
        if candidate.name not in named and candidate.name in outcome.got
    }
    moving = sum(candidate.held for candidate in going if leaving.edited(candidate))
    if job.leave is None or not moving:
        return outcome, taking, kept
    allowed = job.leave(moving, leaving.forced(job.ask, going, {}, moving))
    waiting = leaving.waiting(
        [candidate for candidate in going if leaving.edited(candidate)], allowed.copies
    )
    if waiting:
        taking = _with(taking, waiting)
        recap(taking)
        outcome = _divide(job, taking)
    outcome.to_move = sum(candidate.held for candidate in waiting)
    outcome.moved, outcome.then = moving - outcome.to_move, allowed.then
    return outcome, taking, kept


def _say_kept(job: _Job, outcome: _Outcome, first: _Outcome) -> None:
    """Words the outcome when copies stay without a place under the policy; `first` is the outcome
    of the policy alone."""
    ask, placed = job.ask, sum(outcome.got.values())
    by_policy = placed - sum(outcome.kept.values())
    if leaving.everywhere(ask):
        outcome.wanted = (
            max(outcome.wanted, placed) if by_policy == 0 else outcome.wanted + placed - by_policy
        )
    outcome.placed, outcome.reason = placed, first.reason
    if not verdicts.admits_somebody(job.eligible):
        outcome.reason = Reason.NO_CLUSTER_ADMITTED
        outcome.message = verdicts.none_admitted(
            ask, job.eligible, outcome.kept, outcome.wanted - placed
        )
        return
    why = (
        f"spec.partial is RequireAll, and {first.why}"
        if ask.policy.require_all and first.why
        else first.why
    )
    outcome.message = verdicts.sentence(ask, outcome.wanted, by_policy, why, outcome.kept)


def _move(job: _Job, outcome: _Outcome, taking: Sequence[Candidate]) -> None:
    """Moves as many of the copies that an edit moves as may move now; the rest stay where
    they run.
    """
    if job.leave is None or not any(candidate.held for candidate in taking):
        return
    moving = leaving.moving(job.ask, taking, outcome.got)
    if moving <= 0:
        return
    allowed = job.leave(moving, leaving.forced(job.ask, taking, outcome.got, moving))
    outcome.moved = min(max(allowed.copies, 0), moving)
    outcome.to_move, outcome.then = moving - outcome.moved, allowed.then
    if outcome.to_move:
        placed = sum(outcome.got.values())
        outcome.got = leaving.back_to_runners(job.ask, taking, outcome.got, outcome.to_move)
        outcome.placed = sum(outcome.got.values())
        outcome.wanted += outcome.placed - placed


def _keep_first(job: _Job, outcome: _Outcome, taking: Sequence[Candidate]) -> None:
    """For a workload that wants its count in every cluster: kept copies come on top of the divided
    ones, so quota is charged for them first and other clusters grow by what is left."""
    placed = sum(outcome.got.values())
    allowed = job.within(placed)
    if allowed.copies >= placed:
        return
    outcome.got = leaving.without_growth(taking, outcome.got, placed - allowed.copies)
    outcome.placed, outcome.admission = sum(outcome.got.values()), allowed
    outcome.reason = allowed.reason
    outcome.message = (
        f"{outcome.message}; of those, {placed - outcome.placed} are missing: {allowed.message}"
    )


def _with(pool: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """Both lists, sorted by cluster name."""
    return sorted([*pool, *more], key=lambda candidate: candidate.name)


def _divide(job: _Job, pool: list[Candidate], without: dict[str, Reason] | None = None) -> _Outcome:
    ask, admission, wanted = job.ask, job.admission, job.wanted
    divider = DIVIDERS[ask.policy.division.strategy]
    if divider.everywhere:
        for candidate in pool:
            candidate.stays = min(candidate.stays, ask.count)
            if candidate.cap > ask.count:
                candidate.cap, candidate.limit = ask.count, Reason.NOT_NEEDED
    total = min(wanted, admission.copies)
    seated = placing.seat(ask, pool, total, fresh=job.fresh, sticky=total < wanted, without=without)
    parties, left_out = seated.parties, seated.left_out
    missing = _stay(pool, parties, seated.missing)
    placed = total - missing - seated.remaining
    outcome = _Outcome({}, wanted, placed, admission, left_out)
    outcome.violated = missing > 0 and any(
        party.seats < party.cap and party.weight > 0 for party in parties
    )
    outcome.reason, outcome.why = verdicts.shortage(
        ask,
        wanted,
        placed,
        admission,
        eligible=job.eligible,
        pool=pool,
        left_out=left_out,
        violated=outcome.violated,
    )
    outcome.message = verdicts.sentence(ask, wanted, placed, outcome.why, {})
    if ask.policy.require_all and placed < wanted:
        seated = placing.seat(ask, pool, total, fresh=job.fresh, sticky=True)
        parties = seated.parties
        for party, seats in zip(parties, seated.before, strict=True):
            party.seats = min(party.seats, seats)
        outcome.placed = sum(party.seats for party in parties)
        outcome.message = f"spec.partial is RequireAll, and only {outcome.message}"
    outcome.got = {party.name: party.seats for party in parties if party.seats > 0}
    outcome.violations = (
        spread.violations(parties, ask.policy.spread, seated.idle) if outcome.placed else ()
    )
    return outcome


def _stay(pool: Sequence[Candidate], parties: Sequence[Party], missing: int) -> int:
    """Copies that their cluster could not schedule and no other can take stay where they wait:
    elsewhere they would not run either, and a cluster that adds nodes for pending pods must see
    them. Returns the copies still missing."""
    stays = {candidate.name: candidate.stays for candidate in pool}
    for party in sorted(parties, key=lambda party: (party.level, party.order, party.name)):
        kept = min(max(stays[party.name] - party.seats, 0), missing)
        party.seats += kept
        missing -= kept
    return missing


def _shares(
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


def _all_as_held(shares: Sequence[Share], held: Mapping[str, Holding]) -> bool:
    """Whether nothing changes: same clusters, same shares."""
    return {share.cluster for share in shares} == set(held) and all(
        _is_as_held(share, held[share.cluster]) for share in shares
    )


def _is_as_held(share: Share, held: Holding) -> bool:
    if held.slots != share.slots:
        return False
    return shards.normal(held.ranges) == share.ranges if share.ranges else held.count == share.count


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
        if former is not None and slots == copies_of(former) and left <= former.count:
            slots = (
                former.slots
            )  # more slots than shards are left: writing the smaller number would change nothing
        shares.append(Share(name, shards.size(mine), slots, ranges=mine))
    return shares


def _charge(
    ask: Ask, shares: tuple[Share, ...], pool: Sequence[Candidate], finished: Ranges, ledger: Ledger
) -> None:
    before = {candidate.name: candidate.held for candidate in pool}
    made = Commitment.of(ask, shares, finished)
    grown = {
        holding.cluster: copies_of(holding) - before.get(holding.cluster, 0)
        for holding in made.holdings
    }
    ledger.commit(made, {cluster: copies for cluster, copies in grown.items() if copies > 0})


@dataclass(frozen=True, slots=True)
class _Record:
    """What a decision records about how it was made."""

    shares: tuple[Share, ...]
    verdicts: tuple[Verdict, ...]
    hashed: str
    seq: int
    tolerated: dict[str, tuple[str, ...]]
    per_cluster: int


def _decision(
    ask: Ask,
    outcome: _Outcome,
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
        done_elsewhere = shards.minus(shards.intersect(_all_shards(ask), finished), assigned)
        wanted = max(ask.count, 0) - shards.size(done_elsewhere)
        if reason is Reason.CHOSEN and wanted > placed:
            for candidate in pool:
                why = filters.barring(ask, candidate.place.view)
                refused, slots = candidate.place.refusal, outcome.got.get(candidate.name, 0)
                if refused is not None and why and slots > 0:
                    some = (
                        "1 shard waits"
                        if wanted - placed == 1
                        else f"{wanted - placed} shards wait"
                    )
                    message = f"{message}; {some} for slots where shards may begin: {why}"
                    reason = refused.reason
                    break
    policy = ask.policy
    return Decision(
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
        policy_name=policy.name,
        policy_namespace=policy.namespace,
        policy_uid=policy.uid,
        policy_generation=policy.generation,
        policy_origin=policy.origin,
        required=tuple((demand.name, demand.generation) for demand in policy.required),
        quota_generations=outcome.admission.generations,
        unlimited_quota=outcome.admission.unlimited,
        violations=outcome.violations,
        held=sum(outcome.kept.values()),
        to_move=outcome.to_move,
        moved=outcome.moved,
        tolerated=record.tolerated,
        per_cluster=record.per_cluster,
        surplus=outcome.surplus,
    )
