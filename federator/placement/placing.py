"""Divides copies over clusters (`seating`), and gives back what lost its place without a new one:
the copies stay where they run, as many as must or as may not move yet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from federator.model.ask import Ask, Unit
from federator.model.decision import Reason
from federator.placement import seating, verdicts
from federator.placement.division import spread
from federator.placement.division.division import DIVIDERS, Party
from federator.placement.quota.quota import Admission
from federator.placement.selection import domainchoice, leaving
from federator.placement.selection.candidates import Candidate, Place


@dataclass(slots=True)
class DivisionResult:
    got: dict[str, int]
    """cluster -> copies or slots."""
    wanted: int
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

    @property
    def placed(self) -> int:
        """Copies in all clusters together."""
        return sum(self.got.values())


@dataclass(frozen=True, slots=True)
class Job:
    """Input of one division."""

    ask: Ask
    eligible: Mapping[str, Place]
    admission: Admission
    wanted: int
    fresh: bool
    leave: leaving.Leave | None
    within: Callable[[int], Admission]
    """copies -> how many of them quota admits."""
    beside: tuple[tuple[str, ...], ...] = ()
    """Domains of clusters that are no candidates but count (`crowd`)."""

    @property
    def total(self) -> int:
        """Copies to place: kept copies are part of this number, never on top of it."""
        return min(self.wanted, self.admission.copies)


def nothing(ask: Ask, wanted: int, unfinished: int, admission: Admission) -> DivisionResult:
    if ask.suspended:
        message = "the workload is suspended (spec.suspend)"
        return DivisionResult({}, wanted, admission, reason=Reason.SUSPENDED, message=message)
    if ask.unit is Unit.SHARDS and ask.slots <= 0 < unfinished:
        message = (
            f"spec.parallelism is {ask.slots}: none of the {unfinished} unfinished shards may run"
        )
        return DivisionResult({}, wanted, admission, reason=Reason.SUSPENDED, message=message)
    return DivisionResult({}, 0, admission, message=f"there are 0 {verdicts.noun(ask)} to place")


def _unchanged(
    ask: Ask,
    pool: Sequence[Candidate],
    wanted: int,
    problem: str,
    admission: Admission,
    *,
    each: bool,
) -> DivisionResult:
    """The result for a contradictory policy: nothing moves, nothing is added. `each`: one cluster
    may hold the whole count."""
    got, left = {}, wanted
    for candidate in pool:
        got[candidate.name] = min(candidate.held, ask.count if each else left)
        left -= got[candidate.name]
    return DivisionResult(
        got, max(wanted, sum(got.values())), admission, reason=Reason.MISCONFIGURED, message=problem
    )


def as_it_is(  # noqa: PLR0917 what `decide` knows by then
    ask: Ask,
    pool: Sequence[Candidate],
    leavers: Sequence[Candidate],
    wanted: int,
    problem: str,
    admission: Admission,
    per_cluster: int,
) -> tuple[DivisionResult, list[Candidate]]:
    """The result where nothing moves: the policy contradicts itself, or what Duplicate placed
    stays.
    """
    if problem:
        everybody, each = _with(pool, leavers), leaving.everywhere(ask) or per_cluster > 0
        outcome = _unchanged(ask, everybody, wanted, problem, admission, each=each)
        # A leaver that gets nothing keeps no finished shards either: with only these it would be
        # no holder in the next decision, and lose them then.
        staying = [leaver for leaver in leavers if outcome.got[leaver.name]]
        return outcome, _with(pool, staying)
    stays = leaving.as_duplicated(ask, (*pool, *leavers), per_cluster)
    taking = _with(pool, [leaver for leaver in leavers if leaver.name in stays])
    return _as_duplicated(ask, taking, stays, admission), taking


def _as_duplicated(
    ask: Ask, pool: Sequence[Candidate], stays: Mapping[str, int], admission: Admission
) -> DivisionResult:
    """Keeps everything that strategy Duplicate placed: an edit of the policy alone takes no copies
    down."""
    for candidate in pool:
        candidate.waits = leaving.AS_DUPLICATED if candidate.name in stays else candidate.waits
    placed = sum(stays.values())
    outcome = DivisionResult(dict(stays), placed, admission, surplus=placed - ask.count)
    outcome.message = verdicts.duplicated(ask, placed)
    return outcome


def placed(
    job: Job,
    pool: list[Candidate],
    leavers: list[Candidate],
    recap: Callable[[list[Candidate]], None],
) -> tuple[DivisionResult, list[Candidate]]:
    """Divides, then gives copies that lost their place without a new one back to the cluster where
    they run.

    Returns the outcome and the clusters that take part in the end. `recap` bounds slots again by
    the remaining shards when clusters of a job set stay.
    """
    ask = job.ask
    outcome = first = _divide(job, pool)
    if job.fresh and leaving.everywhere(ask) and outcome.placed < job.wanted:
        # What runs would stay beside it, and count as placed when this is asked again: better now.
        job = replace(job, fresh=False)
        outcome = first = _divide(job, pool)
    named = {candidate.name for candidate in pool}
    if ask.unit is Unit.SHARDS:
        outcome, taking, kept = _whole_clusters(job, outcome, pool, leavers, recap)
    else:
        taking, kept = _with(pool, leavers), {}
    back = _given_back(job, outcome, pool, taking)
    # What stays counts for hard rules and may make others break them, which then stay too. It only
    # grows, so it ends.
    while remain(ask, pool, outcome.left_out, back):
        outcome = _divide(job, pool, outcome.left_out)
        back = _given_back(job, outcome, pool, taking)
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


def _given_back(
    job: Job, outcome: DivisionResult, pool: Sequence[Candidate], taking: Sequence[Candidate]
) -> dict[str, int]:
    """Cluster -> copies that stay there without a place."""
    given = sum(outcome.got.values())
    lacking = job.total - given
    if leaving.everywhere(job.ask) and (given < job.wanted or not pool):
        lacking = sum(candidate.held for candidate in taking)
    return leaving.give_back(taking, outcome.got, lacking, job.ask.count)


def remain(
    ask: Ask, pool: Sequence[Candidate], left_out: Mapping[str, Reason], back: Mapping[str, int]
) -> bool:
    """Notes the copies that stay in clusters that are left out. Whether they are more than those
    beside which the others were divided, and a hard rule counts them."""
    policy = ask.policy
    if ask.unit is not Unit.REPLICAS or leaving.everywhere(ask) or policy.require_all:
        return False
    if not any(rule.hard for rule in policy.spread):
        return False
    more = [
        candidate
        for candidate in pool
        if candidate.name in left_out and back.get(candidate.name, 0) > candidate.remains
    ]
    for candidate in more:
        candidate.remains = back[candidate.name]
    return bool(more)


def _whole_clusters(
    job: Job,
    outcome: DivisionResult,
    pool: list[Candidate],
    leavers: list[Candidate],
    recap: Callable[[list[Candidate]], None],
) -> tuple[DivisionResult, list[Candidate], dict[str, int]]:
    """For shards: divides again with the clusters that stay: those with slots that have no other
    place, and those that wait for their turn to move. Returns the outcome, the participating
    clusters, and the slots that remain in place because no cluster has capacity for them.
    """
    taking, going = pool, leavers
    named = {candidate.name for candidate in pool}
    # A job set's shards do not move one by one: a cluster keeps all its slots or gives all up.
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


def _say_kept(job: Job, outcome: DivisionResult, first: DivisionResult) -> None:
    """Words the outcome when copies stay without a place under the policy; `first` is the outcome
    of the policy alone."""
    ask, placed = job.ask, outcome.placed
    by_policy = placed - sum(outcome.kept.values())
    if leaving.everywhere(ask):
        outcome.wanted = (
            max(outcome.wanted, placed) if by_policy == 0 else outcome.wanted + placed - by_policy
        )
    outcome.reason = first.reason
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


def _move(job: Job, outcome: DivisionResult, taking: Sequence[Candidate]) -> None:
    """Moves as many of the copies that an edit moves as may move now; the rest stay where
    they run.
    """
    if job.leave is None or not any(candidate.held for candidate in taking):
        return
    moving = leaving.moving(job.ask, taking, outcome.got)
    if moving <= 0:
        return
    allowed = job.leave(moving, leaving.forced(job.ask, taking, outcome.got, moving))
    # The budget belongs to the caller, which need not know how many are asked for.
    outcome.moved = min(max(allowed.copies, 0), moving)
    outcome.to_move, outcome.then = moving - outcome.moved, allowed.then
    if outcome.to_move:
        placed = outcome.placed
        outcome.got = leaving.back_to_runners(job.ask, taking, outcome.got, outcome.to_move)
        outcome.wanted += outcome.placed - placed


def _keep_first(job: Job, outcome: DivisionResult, taking: Sequence[Candidate]) -> None:
    """For a workload that wants its count in every cluster: kept copies come on top of the divided
    ones, so quota is charged for them first and other clusters grow by what is left."""
    placed = outcome.placed
    allowed = job.within(placed)
    if allowed.copies >= placed:
        return
    outcome.got = leaving.without_growth(taking, outcome.got, placed - allowed.copies)
    outcome.admission, outcome.reason = allowed, allowed.reason
    outcome.message = (
        f"{outcome.message}; of those, {placed - outcome.placed} are missing: {allowed.message}"
    )


def _with(pool: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """Both lists, sorted by cluster name."""
    return sorted([*pool, *more], key=lambda candidate: candidate.name)


def _divide(
    job: Job, pool: list[Candidate], without: dict[str, Reason] | None = None
) -> DivisionResult:
    """`without`: these are left out, whatever would be chosen. Over the domains that maxDomains
    allows; where it is soft, over as many more as copies need."""
    rules, division = job.ask.policy.spread, job.ask.policy.division
    if not domainchoice.bounds(rules):
        return _divide_over(job, pool, without)
    further, total = 0, min(job.wanted, job.admission.copies)
    while True:
        for candidate in pool:
            candidate.unbar()
        choice = domainchoice.choose(
            pool, rules, total, division.min_per_cluster, fresh=job.fresh, further=further
        )
        for candidate in pool:
            if candidate.name in choice.barred:
                candidate.bar(choice.barred[candidate.name])
        outcome = _divide_over(job, pool, without)
        if not choice.softly or sum(outcome.got.values()) >= total:
            return outcome
        # Doubling: a soft bound far from enough is found in a few divisions.
        further = 2 * further + 1


def _divide_over(
    job: Job, pool: list[Candidate], without: dict[str, Reason] | None = None
) -> DivisionResult:
    ask, admission, wanted = job.ask, job.admission, job.wanted
    divider = DIVIDERS[ask.policy.division.strategy]
    if divider.everywhere:
        for candidate in pool:
            candidate.stays = min(candidate.stays, ask.count)
            # With Duplicate a cluster has the count and no more, however much room it has.
            if candidate.cap > ask.count:
                candidate.cap, candidate.limit = ask.count, Reason.NOT_NEEDED
    total = min(wanted, admission.copies)
    seated = seating.seat(
        ask, pool, total, fresh=job.fresh, sticky=total < wanted, beside=job.beside, without=without
    )
    parties, left_out = seated.parties, seated.left_out
    missing = _stay(pool, parties, seated.missing)
    placed = total - missing - seated.remaining
    outcome = DivisionResult({}, wanted, admission, left_out)
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
        seated = seating.seat(ask, pool, total, fresh=job.fresh, sticky=True, beside=job.beside)
        parties = seated.parties
        for party, seats in zip(parties, seated.before, strict=True):
            # All or nothing: what runs stays, and nothing is added to it.
            party.seats = min(party.seats, seats)
        outcome.message = verdicts.all_or_none(outcome.message)
    outcome.got = {party.name: party.seats for party in parties if party.seats > 0}
    outcome.violations = (
        spread.violations(parties, ask.policy.spread, seated.idle)
        + spread.too_many(parties, ask.policy.spread)
        if outcome.placed
        else ()
    )
    return outcome


def _stay(pool: Sequence[Candidate], parties: Sequence[Party], missing: int) -> int:
    """Copies that their cluster could not schedule and no other can take stay where they wait:
    elsewhere they would not run either, and a cluster that adds nodes for pending pods must see
    them. Returns the copies still missing."""
    stays = {candidate.name: candidate.stays for candidate in pool}
    # The best level keeps its waiting copies first, as it would get them first.
    for party in sorted(parties, key=lambda party: (party.level, party.order, party.name)):
        kept = min(max(stays[party.name] - party.seats, 0), missing)
        party.seats += kept
        missing -= kept
    return missing
