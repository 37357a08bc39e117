"""The sentences of a decision: why each cluster was or was not chosen, and what is missing. Always
with numbers. Wording only; the engine decides.

The sentence about a cluster is made when somebody reads it: a refusal judges every cluster of the
fleet, and what waits for what (`queueing_hints`) reads the reasons alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from federator.model.ask import Ask, Unit
from federator.model.decision import (
    NAMES_SHOWN,
    Grouped,
    Reason,
    Rejected,
    Verdict,
    Verdicts,
    by_frequency,
    chosen_row,
    quick_verdict,
)
from federator.model.kubernetes import quantity
from federator.model.policy import Policy, SpreadRule, Strategy
from federator.model.quickly import quickly
from federator.placement.division import domains
from federator.placement.policy import enforcing
from federator.placement.quota.quota import Admission
from federator.placement.selection import admitting, filters
from federator.placement.selection.candidates import (
    BY_CEILING,
    CONFLICT,
    Candidate,
    Place,
    limited,
)
from federator.placement.selection.crowd import Crowd
from federator.placement.selection.filters import Refusal

_Said: TypeAlias = tuple[Reason, Callable[[], str]]
"""The reason of a verdict, and what makes its sentence without the name of the cluster."""
UNANSWERED: Final = "not yet answered how many copies of this pod fit"
"""Part of what is said of clusters that have not counted a pod. Offline commands look for it."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Result of the division, as far as a cluster's verdict depends on it."""

    wanted: int
    missing: int
    binding: Reason
    """The binding constraint; CHOSEN when nothing is missing."""
    why: str
    """The constraint as a part of a sentence."""
    whole: bool = False
    """All or nothing was asked for, and not all copies have a place."""


quick_outcome = quickly(Shortfall)


def verdicts(
    ask: Ask,
    eligible: Mapping[str, Place],
    pool: Sequence[Candidate],
    got: Mapping[str, int],
    left_out: Mapping[str, Reason],
    *,
    outcome: Shortfall,
    crowd: Crowd | None = None,
) -> Verdicts:
    """One verdict per cluster of the snapshot, by name. `crowd`: what the candidates (`pool`) were
    drawn from; None when every cluster that takes part is one."""
    if crowd is not None:
        return of_crowd(ask, crowd, pool, got, outcome)
    by_name = {candidate.name: candidate for candidate in pool}
    said = _Each(ask, eligible, by_name, got, left_out, outcome)
    return Verdicts(len(eligible), said.every, said.grouped, said.reasons)


@dataclass(frozen=True, slots=True)
class _Each:
    """What the verdicts are made of where every cluster was looked at. Nothing of it changes once
    the decision is made."""

    ask: Ask
    eligible: Mapping[str, Place]
    pool: Mapping[str, Candidate]
    got: Mapping[str, int]
    left_out: Mapping[str, Reason]
    outcome: Shortfall

    def every(self) -> tuple[Verdict, ...]:
        return tuple(map(self._verdict, self.eligible))

    def reasons(self) -> Iterator[tuple[str, Reason]]:
        for name, place in self.eligible.items():
            if name in self.pool:
                yield name, self._said(name)[0]
            else:
                yield name, _refusal(place).reason

    def grouped(self) -> Grouped:
        groups: dict[Reason, list[str]] = {}
        for name, reason in self.reasons():
            groups.setdefault(reason, []).append(name)
        chosen = [chosen_row(self._verdict(name)) for name in groups.pop(Reason.CHOSEN, ())]
        rejected = [
            Rejected(
                reason, tuple(names[:NAMES_SHOWN]), len(names), self._verdict(names[0]).message
            )
            for reason, names in groups.items()
        ]
        return Grouped(chosen, by_frequency(rejected))

    def _said(self, name: str) -> _Said:
        got, left_out = self.got.get(name, 0), self.left_out.get(name)
        return _said(self.ask, self.pool[name], got, left_out, self.outcome)

    def _verdict(self, name: str) -> Verdict:
        candidate = self.pool.get(name)
        if candidate is None:
            return _of_refused(self.eligible[name])
        got, left_out = self.got.get(name, 0), self.left_out.get(name)
        return _of_candidate(self.ask, candidate, got, left_out, self.outcome)


def of_crowd(  # noqa: PLR0917 the parts of a decision
    ask: Ask,
    crowd: Crowd,
    pool: Sequence[Candidate],
    got: Mapping[str, int],
    outcome: Shortfall,
    spared: Reason | None = None,
) -> Verdicts:
    """As `verdicts`, where the candidates were drawn from a crowd. `spared`: why clusters of it
    that could take copies were left out before the division.
    """
    worded = _Crowded(
        ask, crowd, {candidate.name: candidate for candidate in pool}, got, outcome, spared
    )
    return Verdicts(len(crowd.field.places), worded.every, worded.grouped)


@dataclass(frozen=True, slots=True)
class _Crowded:
    """What the verdicts of a crowd are made of."""

    ask: Ask
    crowd: Crowd
    pool: Mapping[str, Candidate]
    got: Mapping[str, int]
    outcome: Shortfall
    spared: Reason | None

    def every(self) -> tuple[Verdict, ...]:
        places = self.crowd.field.places
        rest = [
            at
            for at in np.flatnonzero(self.crowd.member).tolist()
            if places[at].view.name not in self.pool
        ]
        others = dict(zip(rest, self.crowd.candidates(rest), strict=True))
        return tuple(self._verdict(at, others.get(at)) for at in range(len(places)))

    def grouped(self) -> Grouped:
        """The crowd is spared in groups of one reason each; the first of each group speaks
        for it.
        """
        at_of, member = self.crowd.field.at, self.crowd.member
        chosen = sorted(at_of[name] for name, copies in self.got.items() if copies > 0)
        groups = [group.tolist() for group in self.crowd.alike(chosen)]
        apart = [
            at for name in self.pool if not member[at := at_of[name]] and self.got.get(name, 0) <= 0
        ]
        groups += [[at] for at in apart]
        closed = {at_of[name] for name in self.pool if not self.crowd.field.open[at_of[name]]}
        for refused in self.crowd.field.refused.values():
            groups.append([at for at in refused if at not in closed] if closed else refused)
        heads = [self._verdict(group[0]) for group in groups if group]
        by_reason: dict[Reason, list[tuple[list[int], Verdict]]] = {}
        for group, head in zip((group for group in groups if group), heads, strict=True):
            by_reason.setdefault(head.reason, []).append((group, head))
        rejected = [self._rejected(reason, parts) for reason, parts in by_reason.items()]
        rows = [chosen_row(self._verdict(at)) for at in chosen]
        return Grouped(rows, by_frequency(rejected))

    def _rejected(self, reason: Reason, parts: Sequence[tuple[list[int], Verdict]]) -> Rejected:
        first = min(parts, key=lambda part: part[0][0])[1]
        shown = sorted(at for group, _ in parts for at in group[:NAMES_SHOWN])[:NAMES_SHOWN]
        names = tuple(self.crowd.field.places[at].view.name for at in shown)
        return Rejected(reason, names, sum(len(group) for group, _ in parts), first.message)

    def _verdict(self, at: int, candidate: Candidate | None = None) -> Verdict:
        place = self.crowd.field.places[at]
        name = place.view.name
        candidate = self.pool.get(name, candidate)
        if candidate is None and not self.crowd.member[at]:
            return _of_refused(place)
        candidate = candidate or self.crowd.candidates([at])[0]
        got = self.got.get(name, 0)
        left_out = self.spared if got <= 0 < min(candidate.cap, candidate.weight) else None
        return _of_candidate(self.ask, candidate, got, left_out, self.outcome)


def _refusal(place: Place) -> Refusal:
    if place.refusal is None:
        raise ValueError(f"cluster {place.view.name} is open but no candidate")
    return place.refusal


def _of_refused(place: Place) -> Verdict:
    refusal = _refusal(place)
    return Verdict(place.view.name, refusal.reason, refusal.message)


def _of_candidate(
    ask: Ask, candidate: Candidate, got: int, left_out: Reason | None, outcome: Shortfall
) -> Verdict:
    reason, sentence = _said(ask, candidate, got, left_out, outcome)
    return quick_verdict(
        candidate.name,
        reason,
        f"cluster {candidate.name} {sentence()}",
        candidate.cap,
        got,
        candidate.score,
        candidate.terms,
    )


def _said(
    ask: Ask, candidate: Candidate, got: int, left_out: Reason | None, outcome: Shortfall
) -> _Said:
    if got > 0:
        return Reason.CHOSEN, lambda: _chosen(ask, candidate, got, left_out)
    return _spared(ask, candidate, left_out, outcome)


def _chosen(ask: Ask, candidate: Candidate, got: int, left_out: Reason | None) -> str:
    """Of a cluster that gets copies: how many, and what bounds them."""
    things = noun(ask)
    if candidate.place.refusal is not None:
        because = candidate.place.refusal.message.removeprefix(f"cluster {candidate.name} ")
        if candidate.place.refusal.moves:
            subject = candidate.place.refusal.message.removeprefix(f"cluster {candidate.name}")
            because = subject.removeprefix(": ") if subject.startswith(": ") else f"it{subject}"
            return f"keeps {got} {things} that {candidate.waits}, although {because}"
        return f"keeps {got} {things} and takes no new ones: it {because}"
    if got > candidate.cap:
        beyond = _beyond(candidate)
        return f"keeps {got} {things}, {got - candidate.cap} of them beyond {beyond}"
    if left_out is not None:
        return f"keeps {got} {things} that {candidate.waits}, although {_kept_out(ask, left_out)}"
    kept = f", {min(candidate.held, got)} of them held before" if candidate.held else ""
    name, limit = candidate.name, limited(candidate)
    sentence = given(name, got, things, candidate.cap, limit, kept)
    return sentence.removeprefix(f"cluster {name} ")


def given(  # noqa: PLR0917 the parts of a sentence
    name: str, got: int, things: str, cap: int, limited: str, kept: str = ""
) -> str:
    """The verdict of a cluster that gets copies, of which it had those in `kept`; `limited` says
    what else than room bounds them."""
    return f"{head(name)}{got} {things}{kept}; at most {cap} are possible there{limited}"


def head(name: str) -> str:
    """How the verdict of a cluster begins that gets copies."""
    return f"cluster {name} gets "


def _spared(ask: Ask, candidate: Candidate, left_out: Reason | None, outcome: Shortfall) -> _Said:
    """Of a candidate that gets no copies."""
    if outcome.wanted <= 0:
        return (
            Reason.NOT_NEEDED,
            lambda: f"is not needed: there are no {noun(ask)} to place",
        )
    if outcome.binding in (Reason.SUSPENDED, Reason.MISCONFIGURED):
        return outcome.binding, lambda: f"gets nothing new: {outcome.why}"
    if candidate.pending:
        return (
            Reason.PENDING_EVALUATION,
            lambda: f"has {UNANSWERED} (node selector or affinity)",
        )
    if left_out is Reason.BELOW_MINIMUM:
        return (
            left_out,
            lambda: f"{_could(ask, candidate)}; {candidate.least_text} could not be met there",
        )
    if left_out is not Reason.AT_MAXIMUM and candidate.cap <= 0:
        refusal = candidate.place.refusal
        if refusal is None:
            return candidate.limit, lambda: _full(ask, candidate)
        # it was let take part for what it had, all of it done by now
        return refusal.reason, lambda: refusal.message.removeprefix(f"cluster {candidate.name} ")
    if left_out is not Reason.AT_MAXIMUM and candidate.weight <= 0:
        return Reason.NOT_SELECTED, lambda: "has no weight under spec.division.weights"
    out = Reason.AT_MAXIMUM if left_out is Reason.AT_MAXIMUM else None
    return (
        _why_spared(out, outcome),
        lambda: f"{_could(ask, candidate)}{spared(ask.policy, out, outcome)[1]}",
    )


def _could(ask: Ask, candidate: Candidate) -> str:
    return f"could take {candidate.cap} {noun(ask)}"


def spared(policy: Policy, left_out: Reason | None, outcome: Shortfall) -> tuple[Reason, str]:
    """Why a cluster gets nothing that could take copies, with the end of its verdict."""
    reason = _why_spared(left_out, outcome)
    if left_out is Reason.AT_MAXIMUM:
        most = enforcing.bound(policy, "maxClusters")
        return reason, f", but {most} is reached by better clusters"
    if outcome.missing <= 0:
        return reason, ", none was needed there"
    if outcome.whole:
        all_or_none = "all are wanted or none (spec.partial RequireAll)"
        return reason, f", but {all_or_none}: {outcome.why}"
    return reason, f", but {outcome.why}"


def _why_spared(left_out: Reason | None, outcome: Shortfall) -> Reason:
    """It was left out before the division, it is not needed, or what is missing lacks something
    else than room."""
    if left_out is Reason.AT_MAXIMUM:
        return left_out
    if outcome.missing <= 0:
        return Reason.NOT_NEEDED
    return Reason.GANG_INCOMPLETE if outcome.whole else outcome.binding


def _beyond(candidate: Candidate) -> str:
    if candidate.limit is Reason.AT_MAXIMUM:
        return f"{candidate.most_text}, because they {candidate.waits}"
    return f"the {candidate.cap} that are possible there, because they {candidate.waits}"


def _kept_out(ask: Ask, left_out: Reason) -> str:
    if left_out is Reason.AT_MAXIMUM:
        return f"{enforcing.bound(ask.policy, 'maxClusters')} is reached by other clusters"
    return "the other clusters are enough"


def _full(ask: Ask, candidate: Candidate) -> str:
    if candidate.barred:
        return f"may take none: {candidate.barred}"
    if candidate.limit is Reason.SPREAD_UNSATISFIABLE:
        keys = ", ".join(
            rule.topology_key
            for rule, domain in zip(ask.policy.spread, candidate.place.domains, strict=True)
            if rule.hard and not domain
        )
        return f"lacks label {keys}, over which a DoNotSchedule rule spreads"
    if candidate.limit is Reason.AT_MAXIMUM:
        return f"may take none: {candidate.most_text}"
    if candidate.limit is Reason.UNSCHEDULABLE:
        return "could not schedule a single copy lately and takes none for now"
    if candidate.limit is Reason.CONFLICT:
        return f"takes none: {CONFLICT}"
    if candidate.limit in BY_CEILING:
        return f"may take none: {candidate.short}"
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
    if admission.copies <= 0 and not admits_somebody(eligible):  # quota alone would help nobody
        reason, why = _nowhere(ask, eligible)
        return reason, f"{why}; besides, {admission.message}"
    if admission.copies < wanted and placed >= min(admission.copies, wanted):
        return admission.reason, admission.message
    if not any(candidate.place.refusal is None or candidate.cap > 0 for candidate in pool):
        return _nowhere(ask, eligible)
    return binding(ask, placed, _figures(ask, pool, left_out), violated=violated)


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


def all_or_none(message: str) -> str:
    """The sentence of a decision that gives nothing because not everything has a place."""
    return f"spec.partial is RequireAll, and only {message}"


def duplicated(ask: Ask, placed: int) -> str:
    """Sentence of a decision that keeps what strategy Duplicate placed, although the policy now
    means otherwise."""
    strategy = ask.policy.division.strategy
    field = filters.field_of(ask.policy, "division.strategy")
    return (
        f"all {placed} copies stay, up to {ask.count} in each cluster as strategy Duplicate "
        f"placed them, although under {field} ({strategy}) the count means {ask.count} in all; "
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


@dataclass(frozen=True, slots=True)
class Figures:
    """What the binding constraint is read from, of the clusters that could take copies."""

    clusters: int
    room: int
    """Copies that all of them could hold."""
    left_out: Mapping[Reason, int]
    """How many do not take part, by reason."""
    taking: int
    """Copies that those which take part could hold."""
    limits: Mapping[Reason, int]
    """How many have this bound, which is not room."""
    domains: Callable[[int], int]
    """Spread rule -> number of labelled domains in which a copy may be placed."""
    pending: int = 0
    """How many have not answered yet."""
    short: Candidate | None = None
    """The first that accounts or an invariant allow no more."""
    bounds: Mapping[Reason, str] = field(default_factory=dict)
    """The field that sets a bound, with its value, where it is not one of all clusters: of the
    first that has it."""


def _figures(ask: Ask, pool: Sequence[Candidate], left_out: Mapping[str, Reason]) -> Figures:
    def labelled(at: int) -> int:
        able = (each for each in pool if each.cap > 0 and each.weight > 0)
        return len(domains.each_of(each.place.domains[at] for each in able) - {""})

    return Figures(
        len(pool),
        sum(each.cap for each in pool),
        Counter(left_out.values()),
        sum(each.cap for each in pool if each.name not in left_out),
        Counter(each.limit for each in pool),
        labelled,
        sum(each.pending for each in pool),
        next((each for each in pool if each.limit in BY_CEILING), None),
        _fields(pool, left_out),
    )


def _fields(pool: Sequence[Candidate], left_out: Mapping[str, Reason]) -> Mapping[Reason, str]:
    named: dict[Reason, str] = {}
    for each in pool:
        if each.barred:
            named.setdefault(Reason.SPREAD_UNSATISFIABLE, each.barred)
        elif each.limit is Reason.AT_MAXIMUM:
            named.setdefault(Reason.AT_MAXIMUM, each.most_text)
        if left_out.get(each.name) is Reason.BELOW_MINIMUM:
            named.setdefault(Reason.BELOW_MINIMUM, each.least_text)
    return named


def binding(
    ask: Ask, placed: int, figures: Figures, *, violated: bool = False
) -> tuple[Reason, str]:
    """The binding constraint with its sentence, where `placed` copies are not all and the clusters
    are what is short. `violated`: a spread rule forbids clusters that have room."""
    room, left_out, limits = figures.taking, figures.left_out, figures.limits
    fits = f"{_clusters(figures.clusters)} could hold {figures.room} in all"
    if left_out:
        taking = figures.clusters - sum(left_out.values())
        fits += f", the {taking} that take part {room}"
    if figures.pending:
        subject = _clusters(figures.pending, "has", "have")
        return Reason.PENDING_EVALUATION, f"{subject} {UNANSWERED}; {fits}"
    if figures.short is not None:
        return figures.short.limit, f"{figures.short.short}; {fits}"
    if violated or (room > placed and any(rule.hard for rule in ask.policy.spread)):
        rules = ", ".join(
            _rule(rule, figures.domains(at))
            for at, rule in enumerate(ask.policy.spread)
            if rule.hard
        )
        return (
            Reason.SPREAD_UNSATISFIABLE,
            f"the DoNotSchedule spread over {rules} allows no more; {fits}",
        )
    if Reason.BELOW_MINIMUM in left_out:
        least = enforcing.bound(ask.policy, "minPerCluster")
        least = figures.bounds.get(Reason.BELOW_MINIMUM, least)
        return Reason.BELOW_MINIMUM, f"{least} keeps clusters out; {fits}"
    if Reason.AT_MAXIMUM in left_out:
        most = enforcing.bound(ask.policy, "maxClusters")
        return Reason.AT_MAXIMUM, f"{most} is reached; {fits}"
    for reason in _BOUNDS:
        if reason in limits:
            return reason, f"{_bounded(ask.policy, reason, figures)}; {fits}"
    if ask.policy.division.strategy is Strategy.WEIGHTED and room > placed:
        return Reason.NOT_SELECTED, f"no cluster with room has a weight; {fits}"
    return Reason.INSUFFICIENT_CAPACITY, f"{fits} copies of {request(ask)}"


_BOUNDS: Final = (
    Reason.SPREAD_UNSATISFIABLE,
    Reason.AT_MAXIMUM,
    Reason.UNSCHEDULABLE,
    Reason.CONFLICT,
)
"""Bounds of single clusters, in the order in which they are named."""


def _bounded(policy: Policy, reason: Reason, figures: Figures) -> str:
    named = figures.bounds.get(reason)
    if reason is Reason.SPREAD_UNSATISFIABLE:
        lacking = figures.limits[reason]
        return named or f"{lacking} of them lack the label of a DoNotSchedule spread rule"
    if reason is Reason.AT_MAXIMUM:
        return f"{named or enforcing.bound(policy, 'maxPerCluster')} is reached"
    if reason is Reason.UNSCHEDULABLE:
        return "clusters that could not schedule more lately are capped"
    return f"in some clusters {CONFLICT}"


def _rule(rule: SpreadRule, domains: int) -> str:
    """A spread rule with its bounds, and the number of domains in which a copy may be placed."""
    bounds = [f"maxSkew {rule.max_skew}"] if rule.max_skew else []
    if rule.min_domains > 1:
        bounds.append(f"minDomains {rule.min_domains}")
    if rule.max_domains is not None:
        bounds.append(f"maxDomains {rule.max_domains}")
    text = ", ".join([*bounds, f"{domains} domain{'' if domains == 1 else 's'} with room"])
    return f"{rule.topology_key} ({text})"


def _clusters(count: int, singular: str = "", plural: str = "") -> str:
    return f"1 cluster {singular}".rstrip() if count == 1 else f"{count} clusters {plural}".rstrip()
