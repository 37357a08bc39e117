"""Every verdict made at once (see `engine` beside it); the wording before it became lazy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.ask import Ask, Policy, SpreadRule, Strategy, Unit
from federator.model.decision import Reason, Verdict
from federator.model.kubernetes import quantity
from federator.placement.policy import enforcing
from federator.placement.quota.quota import Admission
from federator.placement.selection import admitting, filters
from federator.placement.selection.candidates import Candidate, Place

CAPPED: Final = "it could not schedule more lately"
"""Part of the verdict of a cluster that its own scheduler caps. Offline commands look for it in
recorded decisions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the division, as far as a cluster's verdict depends on it."""

    wanted: int
    missing: int
    binding: Reason
    """The binding constraint; CHOSEN when nothing is missing."""
    why: str
    """The constraint as a part of a sentence."""
    whole: bool = False
    """All or nothing was asked for, and not all copies have a place."""


def verdicts(
    ask: Ask,
    eligible: Mapping[str, Place],
    pool: Sequence[Candidate],
    got: Mapping[str, int],
    left_out: Mapping[str, Reason],
    *,
    outcome: Outcome,
) -> tuple[Verdict, ...]:
    """One verdict per cluster of the snapshot, by name."""
    by_name = {candidate.name: candidate for candidate in pool}
    return tuple(
        _of_candidate(ask, by_name[name], got.get(name, 0), left_out.get(name), outcome)
        if name in by_name
        else _of_refused(place)
        for name, place in eligible.items()
    )


def _of_refused(place: Place) -> Verdict:
    refusal = place.refusal
    if refusal is None:
        raise ValueError(f"cluster {place.view.name} is open but no candidate")
    return Verdict(place.view.name, refusal.reason, refusal.message)


def _of_candidate(
    ask: Ask, candidate: Candidate, got: int, left_out: Reason | None, outcome: Outcome
) -> Verdict:
    reason, message = (
        _judged(ask, candidate, got, left_out)
        if got > 0
        else _spared(ask, candidate, left_out, outcome)
    )
    return Verdict(
        candidate.name,
        reason,
        f"cluster {candidate.name} {message}",
        candidate.cap,
        got,
        candidate.score,
        candidate.terms,
    )


def _judged(
    ask: Ask, candidate: Candidate, got: int, left_out: Reason | None
) -> tuple[Reason, str]:
    """Verdict of a cluster that gets copies: how many, and what bounds them."""
    things = noun(ask)
    if got > 0 and candidate.place.refusal is not None:
        because = candidate.place.refusal.message.removeprefix(f"cluster {candidate.name} ")
        if candidate.place.refusal.moves:
            subject = candidate.place.refusal.message.removeprefix(f"cluster {candidate.name}")
            because = subject.removeprefix(": ") if subject.startswith(": ") else f"it{subject}"
            return Reason.CHOSEN, f"keeps {got} {things} that {candidate.waits}, although {because}"
        return Reason.CHOSEN, f"keeps {got} {things} and takes no new ones: it {because}"
    if got > candidate.cap:
        return (
            Reason.CHOSEN,
            f"keeps {got} {things}, {got - candidate.cap} of them beyond {_beyond(ask, candidate)}",
        )
    if left_out is not None and got > 0:
        return (
            Reason.CHOSEN,
            f"keeps {got} {things} that {candidate.waits}, although {_kept_out(ask, left_out)}",
        )
    kept = f", {min(candidate.held, got)} of them held before" if candidate.held else ""
    return (
        Reason.CHOSEN,
        (
            f"gets {got} {things}{kept}; at most {candidate.cap} are possible "
            f"there{_limited(ask.policy, candidate)}"
        ),
    )


def _spared(
    ask: Ask, candidate: Candidate, left_out: Reason | None, outcome: Outcome
) -> tuple[Reason, str]:
    """Verdict of a candidate that gets no copies."""
    things = noun(ask)
    if outcome.wanted <= 0:
        return Reason.NOT_NEEDED, f"is not needed: there are no {things} to place"
    if outcome.binding in (Reason.SUSPENDED, Reason.MISCONFIGURED):
        return outcome.binding, f"gets nothing new: {outcome.why}"
    if candidate.pending:
        return (
            Reason.PENDING_EVALUATION,
            "has not yet answered how many copies of this pod fit (node selector or affinity)",
        )
    if left_out is Reason.BELOW_MINIMUM:
        least = enforcing.bound(ask.policy, "minPerCluster")
        return left_out, f"could take {candidate.cap} {things}; {least} could not be met there"
    if left_out is Reason.AT_MAXIMUM:
        most = enforcing.bound(ask.policy, "maxClusters")
        return (
            left_out,
            f"could take {candidate.cap} {things}, but {most} is reached by better clusters",
        )
    if (
        candidate.cap <= 0 and candidate.place.refusal is not None
    ):  # it was let take part for what it had, all of it done by now
        return candidate.place.refusal.reason, candidate.place.refusal.message.removeprefix(
            f"cluster {candidate.name} "
        )
    if candidate.cap <= 0:
        return candidate.limit, _full(ask, candidate)
    if candidate.weight <= 0:
        return Reason.NOT_SELECTED, "has no weight under spec.division.weights"
    could = f"could take {candidate.cap} {things}"
    if outcome.missing <= 0:
        return Reason.NOT_NEEDED, f"{could}, none was needed there"
    if outcome.whole:
        return (
            Reason.GANG_INCOMPLETE,
            f"{could}, but all are wanted or none (spec.partial RequireAll): {outcome.why}",
        )
    return outcome.binding, f"{could}, but {outcome.why}"


def _beyond(ask: Ask, candidate: Candidate) -> str:
    if candidate.limit is Reason.AT_MAXIMUM:
        return f"{enforcing.bound(ask.policy, 'maxPerCluster')}, because they {candidate.waits}"
    return f"the {candidate.cap} that are possible there, because they {candidate.waits}"


def _kept_out(ask: Ask, left_out: Reason) -> str:
    if left_out is Reason.AT_MAXIMUM:
        return f"{enforcing.bound(ask.policy, 'maxClusters')} is reached by other clusters"
    return "the other clusters are enough"


def _limited(policy: Policy, candidate: Candidate) -> str:
    if candidate.limit is Reason.AT_MAXIMUM:
        return f" ({enforcing.bound(policy, 'maxPerCluster')})"
    if candidate.limit is Reason.UNSCHEDULABLE:
        return f" ({CAPPED})"
    if candidate.limit is Reason.SPREAD_UNSATISFIABLE:
        return " (it lacks a label of a DoNotSchedule spread rule)"
    return ""


def _full(ask: Ask, candidate: Candidate) -> str:
    if candidate.limit is Reason.SPREAD_UNSATISFIABLE:
        keys = ", ".join(
            rule.topology_key
            for rule, domain in zip(ask.policy.spread, candidate.place.domains, strict=True)
            if rule.hard and not domain
        )
        return f"lacks label {keys}, over which a DoNotSchedule rule spreads"
    if candidate.limit is Reason.AT_MAXIMUM:
        return f"may take none: {enforcing.bound(ask.policy, 'maxPerCluster')}"
    if candidate.limit is Reason.UNSCHEDULABLE:
        return "could not schedule a single copy lately and takes none for now"
    return f"has no node with room for one copy ({request(ask)})"


def request(ask: Ask) -> str:
    """The request of one copy, in Kubernetes quantities."""
    return (
        ", ".join(f"{name} {text}" for name, text in quantity.render(ask.shape.requests).items())
        or "no request"
    )


def noun(ask: Ask) -> str:
    """The unit that is divided: copies, or for shards the slots that run them."""
    return "slots" if ask.unit is Unit.SHARDS else "copies"


def shortage(
    ask: Ask,
    wanted: int,
    placed: int,
    admission: Admission,
    *,
    eligible: Mapping[str, Place],
    pool: Sequence[Candidate],
    left_out: Mapping[str, Reason],
    violated: bool,
) -> tuple[Reason, str]:
    """The binding constraint with its sentence; (CHOSEN, "") when nothing is missing."""
    if placed >= wanted:
        return Reason.CHOSEN, ""
    if admission.copies <= 0 and not admits_somebody(eligible):
        reason, why = _nowhere(ask, eligible)
        return reason, f"{why}; besides, {admission.message}"
    if admission.copies < wanted and placed >= min(admission.copies, wanted):
        return admission.reason, admission.message
    if not any(candidate.place.refusal is None or candidate.cap > 0 for candidate in pool):
        return _nowhere(ask, eligible)
    return _binding(ask, placed, pool, left_out, violated)


def sentence(ask: Ask, wanted: int, placed: int, why: str, kept: Mapping[str, int]) -> str:
    """The decision in one sentence. `placed` copies have a place under the policy; those in `kept`
    stay where they run."""
    things = noun(ask)
    if placed >= wanted:
        return f"all {wanted} {things} are placed"
    staying = sum(kept.values())
    if not staying:
        return f"{placed} of {wanted} {things} are placed, {wanted - placed} are missing: {why}"
    missing = f", {wanted - placed - staying} are missing" if wanted > placed + staying else ""
    head = f"{placed} of {wanted} {things} have a place under the policy"
    return (
        f"{head}{missing}, {staying} stay where they run ({admitting.where(kept)}) until they "
        f"have one: {why}"
    )


def duplicated(ask: Ask, placed: int) -> str:
    """Sentence of a decision that keeps what strategy Duplicate placed, although the policy now
    means otherwise."""
    strategy, field = (
        ask.policy.division.strategy,
        filters.field_of(ask.policy, "division.strategy"),
    )
    return (
        f"all {placed} copies stay, up to {ask.count} in each cluster as strategy Duplicate "
        "placed them, although "
        f"under {field} ({strategy}) the count means {ask.count} in all; "
        f"{placed - ask.count} go when somebody changes the count or asks for it "
        f"(federator rebalance {ask.key.kind}/{ask.key.name} -n {ask.key.namespace})"
    )


def none_admitted(
    ask: Ask, eligible: Mapping[str, Place], kept: Mapping[str, int], missing: int
) -> str:
    """Sentence of a decision under a policy that admits no cluster while copies run."""
    why = (
        admitting.nobody_admitted(ask.policy, [place.view for place in eligible.values()])
        or "see the verdicts"
    )
    things = noun(ask)
    short = f", {missing} more are missing" if missing > 0 else ""
    return (
        f"no cluster is admitted: {why}; {sum(kept.values())} {things} stay where they run "
        f"({admitting.where(kept)}){short}"
    )


def admits_somebody(eligible: Mapping[str, Place]) -> bool:
    """Whether some cluster is open to the workload, or closed only temporarily."""
    return any(
        place.refusal is None or not (place.refusal.evicts or place.refusal.moves)
        for place in eligible.values()
    )


def _nowhere(ask: Ask, eligible: Mapping[str, Place]) -> tuple[Reason, str]:
    """No cluster takes anything: the reason closest to admission, among the clusters that the
    policy selects."""
    refusals = [place.refusal for place in eligible.values() if place.refusal is not None]
    if not refusals:
        return Reason.NO_MATCHING_CLUSTER, "the fleet has no clusters"
    selected = [refusal for refusal in refusals if refusal.reason is not Reason.NOT_SELECTED]
    if not selected:
        why = admitting.nobody_admitted(ask.policy, [place.view for place in eligible.values()])
        text = f"the policy selects none of the {len(refusals)} clusters"
        return Reason.NO_MATCHING_CLUSTER, f"{text}: {why}" if why else text
    order = list(Reason)
    first = min(selected, key=lambda refusal: order.index(refusal.reason))
    alike = sum(refusal.reason is first.reason for refusal in selected)
    more = (
        f" ({alike} of the {len(selected)} selected clusters are refused for this reason)"
        if len(selected) > 1
        else ""
    )
    return first.reason, f"{first.message}{more}"


def _binding(
    ask: Ask, placed: int, pool: Sequence[Candidate], left_out: Mapping[str, Reason], violated: bool
) -> tuple[Reason, str]:
    room = sum(candidate.cap for candidate in pool if candidate.name not in left_out)
    fits = f"{_clusters(len(pool))} could hold {sum(candidate.cap for candidate in pool)} in all"
    if left_out:
        fits += f", the {len(pool) - len(left_out)} that take part {room}"
    if any(candidate.pending for candidate in pool):
        waiting = sum(candidate.pending for candidate in pool)
        return (
            Reason.PENDING_EVALUATION,
            (
                f"{_clusters(waiting, 'has', 'have')} not yet answered how many copies of this "
                f"pod fit; {fits}"
            ),
        )
    if violated or (room > placed and any(rule.hard for rule in ask.policy.spread)):
        rules = ", ".join(
            _rule(ask.policy, at, pool) for at, rule in enumerate(ask.policy.spread) if rule.hard
        )
        return (
            Reason.SPREAD_UNSATISFIABLE,
            f"the DoNotSchedule spread over {rules} allows no more; {fits}",
        )
    for reason, why in (
        (
            Reason.BELOW_MINIMUM,
            f"{enforcing.bound(ask.policy, 'minPerCluster')} keeps clusters out; {fits}",
        ),
        (Reason.AT_MAXIMUM, f"{enforcing.bound(ask.policy, 'maxClusters')} is reached; {fits}"),
    ):
        if reason in left_out.values():
            return reason, why
    unlabelled = sum(candidate.limit is Reason.SPREAD_UNSATISFIABLE for candidate in pool)
    for reason, why in (
        (
            Reason.SPREAD_UNSATISFIABLE,
            f"{unlabelled} of them lack the label of a DoNotSchedule spread rule; {fits}",
        ),
        (Reason.AT_MAXIMUM, f"{enforcing.bound(ask.policy, 'maxPerCluster')} is reached; {fits}"),
        (Reason.UNSCHEDULABLE, f"clusters that could not schedule more lately are capped; {fits}"),
    ):
        if any(candidate.limit is reason for candidate in pool):
            return reason, why
    if ask.policy.division.strategy is Strategy.WEIGHTED and room > placed:
        return Reason.NOT_SELECTED, f"no cluster with room has a weight; {fits}"
    return Reason.INSUFFICIENT_CAPACITY, f"{fits} copies of {request(ask)}"


def _rule(policy: Policy, at: int, pool: Sequence[Candidate]) -> str:
    """A spread rule with its bounds, and the number of domains in which a copy may be placed."""
    rule: SpreadRule = policy.spread[at]
    domains = {
        candidate.place.domains[at]
        for candidate in pool
        if candidate.cap > 0 and candidate.weight > 0
    } - {""}
    bounds = [f"maxSkew {rule.max_skew}"] if rule.max_skew else []
    if rule.min_domains > 1:
        bounds.append(f"minDomains {rule.min_domains}")
    text = ", ".join(
        [*bounds, f"{len(domains)} domain{'' if len(domains) == 1 else 's'} with room"]
    )
    return f"{rule.topology_key} ({text})"


def _clusters(count: int, singular: str = "", plural: str = "") -> str:
    return f"1 cluster {singular}".rstrip() if count == 1 else f"{count} clusters {plural}".rstrip()
