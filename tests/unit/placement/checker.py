"""Judges decisions from outside: small random fleets and policies, and what
docs/reference/spread.md says of them.

Shares no code with the engine: rules are counted here anew, and the most that can be placed is
found by trying every division. `python -m tests.unit.placement.checker 15000` runs that many random
decisions and prints every breach.
"""

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from federator.model.kubernetes.taints import Effect, Taint
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]
Got = Mapping[str, int]


@dataclass(frozen=True)
class Spot:
    """One cluster, in the words of the documents."""

    name: str
    room: int
    held: int = 0
    zone: str = "z1"
    region: str = "r1"
    closed: bool = False
    avoided: bool = False
    weight: int = 1
    group: int = 0


@dataclass(frozen=True)
class Case:
    spots: tuple[Spot, ...]
    copies: int
    rules: tuple[SpreadRule, ...] = ()
    strategy: Strategy = Strategy.CAPACITY
    floor: int = 0
    most_each: int | None = None
    most_clusters: int | None = None
    groups: bool = False

    @property
    def hard(self) -> tuple[SpreadRule, ...]:
        return tuple(rule for rule in self.rules if rule.hard)


def drawn(pick: Pick) -> Case:  # type: ignore[type-arg]
    """A case of random choices."""
    spots = tuple(
        Spot(
            f"c{at}",
            pick((0, 1, 2, 3, 5)),
            0,
            pick(("z1", "z2", "z3")),
            pick(("r1", "r1", "r2")),
            closed=pick((False,) * 7 + (True,)),
            avoided=pick((False,) * 5 + (True,)),
            weight=pick((0, 1, 1, 3)),
            group=pick((0, 1)),
        )
        for at in range(pick((1, 2, 3, 4, 4)))
    )
    keys = pick(((), ("zone",), ("zone",), ("zone", "region")))
    rules = tuple(
        SpreadRule(key, pick((1, 1, 2, 3)), pick((0, 1, 1, 2)), pick((True, False))) for key in keys
    )
    return Case(
        spots,
        pick((1, 2, 3, 5, 7, 9, 12)),
        rules,
        pick(tuple(one for one in Strategy if one is not Strategy.DUPLICATE)),
        pick((0, 0, 0, 2, 3)),
        pick((None, None, None, 2, 4)),
        pick((None, None, None, 1, 2, 3)),
        groups=pick((False, False, True)),
    )


def with_holdings(case: Case, pick: Pick) -> Case:  # type: ignore[type-arg]
    """The same with copies held already."""
    return replace(case, spots=tuple(replace(spot, held=pick((0, 0, 1, 3))) for spot in case.spots))


def decided(case: Case) -> Got:
    """What the engine gives."""
    views = [
        cluster(
            one.name,
            one.room + one.held,
            labels={"zone": one.zone, "region": one.region},
            cordoned=one.closed,
            taints=(Taint("spot", "", Effect.PREFER_NO_SCHEDULE),) if one.avoided else (),
        )
        for one in case.spots
    ]
    weights = (
        tuple(Weight(one.weight, (one.name,)) for one in case.spots)
        if any(s.weight for s in case.spots)
        else ()
    )
    groups = tuple(
        Group(f"g{at}", tuple(s.name for s in case.spots if s.group == at)) for at in (0, 1)
    )
    division = Division(
        case.strategy,
        case.floor,
        case.most_each,
        False,
        weights if case.strategy is Strategy.WEIGHTED else (),
        groups if case.groups else (),
        case.most_clusters,
    )
    ask = service(case.copies, policy=Policy(spread=case.rules, division=division))
    return counts(
        decide(ask, fleet(*views), held(**{one.name: one.held for one in case.spots if one.held}))
    )


def contradictory(case: Case) -> bool:
    return case.most_each is not None and case.floor > case.most_each


def most(case: Case, one: Spot) -> int:
    """The most that one cluster may have."""
    weightless = (
        case.strategy is Strategy.WEIGHTED and one.weight == 0 and any(s.weight for s in case.spots)
    )
    top = one.held if one.closed or weightless else one.held + one.room
    return top if case.most_each is None else min(top, case.most_each)


def makes_domain(case: Case, one: Spot) -> bool:
    weightless = (
        case.strategy is Strategy.WEIGHTED and one.weight == 0 and any(s.weight for s in case.spots)
    )
    return one.held > 0 or not (one.closed or weightless or case.most_each == 0)


def domains(case: Case, rule: SpreadRule, got: Got) -> dict[str, int]:
    totals: dict[str, int] = {}
    for one in case.spots:
        if makes_domain(case, one):
            where = one.zone if rule.topology_key == "zone" else one.region
            totals[where] = totals.get(where, 0) + got.get(one.name, 0)
    return totals


def skew_beyond(case: Case, rule: SpreadRule, got: Got) -> int:
    totals = domains(case, rule, got)
    if not totals or rule.max_skew == 0:
        return 0
    least = 0 if len(totals) < rule.min_domains else min(totals.values())
    return max(max(totals.values()) - least - rule.max_skew, 0)


def lacking(case: Case, rule: SpreadRule, got: Got) -> int:
    used = sum(count > 0 for count in domains(case, rule, got).values())
    return max(min(rule.min_domains, sum(got.values())) - used, 0)


def admissible(case: Case, got: Got) -> str:
    """Which hard bound a division breaks that was made with nothing held; "" when none."""
    using = [name for name, count in got.items() if count]
    if any(got.get(one.name, 0) > most(case, one) for one in case.spots):
        return "room, weight or maxPerCluster"
    if case.most_clusters is not None and len(using) > case.most_clusters:
        return "maxClusters"
    if any(got[name] < case.floor for name in using):
        return "minPerCluster"
    for rule in case.hard:
        if skew_beyond(case, rule, got):
            return f"maxSkew of {rule.topology_key}"
        if lacking(case, rule, got):
            return f"minDomains of {rule.topology_key}"
    return ""


def divisions(case: Case) -> Iterator[Got]:
    names = [one.name for one in case.spots]
    for seats in itertools.product(
        *(range(min(most(case, one), case.copies) + 1) for one in case.spots)
    ):
        if sum(seats) <= case.copies:
            got = dict(zip(names, seats, strict=True))
            if not admissible(case, got):
                yield got


def exact(case: Case) -> bool:
    """Where the documents promise the most that can be placed: all but several hard rules with
    maxSkew or minDomains, and floors under hard rules.
    """
    return len(case.hard) <= 1 and not (case.hard and case.floor)


def breaches(case: Case) -> list[str]:
    """What is wrong with the decision of a case in which nothing is held."""
    got = decided(case)
    broken = admissible(case, got)
    if broken:
        return [f"{broken} is broken by {got}"]
    found: list[str] = []
    placed = sum(got.values())
    if exact(case):
        best = max(sum(each.values()) for each in divisions(case))
        if placed < best:
            found.append(f"{placed} are placed by {got}, {best} could be")
    if not case.hard and not case.floor and case.most_clusters is None:
        found += _groups(case, got)
        found += _least_soft(case, got)
    return found


def _groups(case: Case, got: Got) -> Iterator[str]:
    """Later groups, and avoided clusters in a group, are used only when the others are full."""
    for one, other in itertools.permutations(case.spots, 2):
        first, second = ((s.group if case.groups else 0, s.avoided) for s in (one, other))
        if first < second and got.get(other.name, 0) and got.get(one.name, 0) < most(case, one):
            yield f"{other.name} comes after {one.name}, which is not full: {got}"


def _least_soft(case: Case, got: Got) -> Iterator[str]:
    """One soft rule, and nothing that comes before it: no division that places as many breaks it
    less.
    """
    if (
        len(case.rules) != 1
        or case.groups
        or any(one.avoided for one in case.spots)
        or case.rules[0].min_domains > 1
    ):
        return
    if case.strategy is Strategy.PACK:
        return
    (rule,) = case.rules
    placed = sum(got.values())
    least = min(
        skew_beyond(case, rule, each) for each in divisions(case) if sum(each.values()) == placed
    )
    if skew_beyond(case, rule, got) > least:
        yield f"the soft rule is broken by {skew_beyond(case, rule, got)}, {least} would do: {got}"


def breaches_of_growth(case: Case) -> list[str]:
    """What is wrong beside what is held: hard rules bind what is given. Not judged where a cluster
    holds more than maxPerCluster allows: what has no other place stays there.
    """
    if any(one.held > most(case, one) for one in case.spots):
        return []
    got = decided(case)
    before = {one.name: one.held for one in case.spots}
    grown = [one for one in case.spots if got.get(one.name, 0) > one.held]
    found = [
        f"{one.name} grows beyond {most(case, one)}: {got}"
        for one in grown
        if got[one.name] > most(case, one)
    ]
    if sum(got.values()) <= sum(before.values()):
        return found
    for rule in case.hard:
        totals = domains(case, rule, got)
        least = 0 if len(totals) < rule.min_domains else min(totals.values(), default=0)
        for one in grown:
            where = one.zone if rule.topology_key == "zone" else one.region
            if totals[where] - least > rule.max_skew > 0:
                found.append(f"{where} grows to {totals[where]}, the least is {least}: {got}")
    joined = [one.name for one in grown if not one.held]
    found += [f"{name} joins with {got[name]}" for name in joined if got[name] < case.floor]
    if case.most_clusters is not None and joined and len(got) > case.most_clusters:
        found.append(f"{len(got)} clusters are used: {got}")
    return found


def looser(case: Case) -> Iterator[tuple[str, Case]]:
    """The same with one bound loosened, or one copy more."""
    for at, one in enumerate(case.spots):
        roomier = (*case.spots[:at], replace(one, room=one.room + 1), *case.spots[at + 1 :])
        yield f"one more room in {one.name}", replace(case, spots=roomier)
    for at, rule in enumerate(case.rules):
        others = (case.rules[:at], case.rules[at + 1 :])
        if rule.max_skew:
            yield "maxSkew + 1", _ruled(case, others, replace(rule, max_skew=rule.max_skew + 1))
        if rule.min_domains > 1:
            yield (
                "minDomains - 1",
                _ruled(case, others, replace(rule, min_domains=rule.min_domains - 1)),
            )
        yield "a soft rule", _ruled(case, others, replace(rule, hard=False))
        yield "no rule", replace(case, rules=others[0] + others[1])
    if case.most_each is not None:
        yield "no maxPerCluster", replace(case, most_each=None)
    if case.most_clusters is not None:
        yield "maxClusters + 1", replace(case, most_clusters=case.most_clusters + 1)
    if case.floor:
        yield "no minPerCluster", replace(case, floor=0)
    yield "one copy more", replace(case, copies=case.copies + 1)


def _ruled(
    case: Case, others: tuple[tuple[SpreadRule, ...], tuple[SpreadRule, ...]], rule: SpreadRule
) -> Case:
    return replace(case, rules=(*others[0], rule, *others[1]))


def breaches_of_order(case: Case) -> list[str]:
    """Looser bounds never place less (invariant 32), where `exact`."""
    if not exact(case) or case.most_each == 0:
        return []
    placed = sum(decided(case).values())
    return [
        f"{what} places {after}, not {placed}"
        for what, more in looser(case)
        if exact(more) and (after := sum(decided(more).values())) < placed
    ]


def takes_away(case: Case) -> list[str]:
    """One copy more takes none from anybody, for the same set of clusters (invariant 34). Not
    judged under several hard rules that one number may keep by itself and the next not.
    """
    if case.floor or case.most_clusters is not None or case.strategy is Strategy.PACK:
        return []
    if len(case.hard) > 1:
        return []
    got, more = decided(case), decided(replace(case, copies=case.copies + 1))
    return [
        f"{name} falls from {count} to {more.get(name, 0)}"
        for name, count in got.items()
        if more.get(name, 0) < count
    ]


def main(count: int) -> int:
    bad = 0
    for seed in range(count):
        pick = random.Random(seed).choice
        case = drawn(pick)
        if contradictory(case):
            continue
        holding = with_holdings(case, pick)
        found = [*breaches(case), *takes_away(case), *breaches_of_growth(holding)]
        if seed % 5 == 0:
            found += breaches_of_order(case)
        for each in found:
            print(f"seed {seed}: {each}\n  {holding}")
        bad += bool(found)
    print(f"{count} decisions, {bad} with breaches")
    return bad


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])) > 0)
