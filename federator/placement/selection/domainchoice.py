"""Chooses the domains that copies may use where spread rules have `maxDomains`.

The rules are taken in their order, each over the clusters that the earlier ones left. Domains that
hold copies of the workload come first, those with most copies before the others, because copies
that run stay where they are. Then those with most room for the workload, counted under the later
rules; then earlier groups. A DoNotSchedule rule with `maxDomains` that finds fewer domains with
room than its `minDomains` leaves none.

A cluster that lies in several domains is used where all of them are chosen.

    maxDomains 2, 10 copies; zones with room for 8, 6 and 20, none held: the third, then the first
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from federator.model.policy import SpreadRule
from federator.placement.division import domains
from federator.placement.division.domains import UNLABELLED
from federator.placement.selection.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Choice:
    """Cluster -> why it gets no new copies; and whether soft rules left a domain out."""

    barred: Mapping[str, str]
    softly: bool


def bounds(rules: Sequence[SpreadRule]) -> bool:
    """Whether some rule bounds the number of domains."""
    return any(rule.max_domains is not None for rule in rules)


def choose(
    candidates: Sequence[Candidate],
    rules: Sequence[SpreadRule],
    total: int,
    floor: int,
    *,
    fresh: bool,
    further: int = 0,
) -> Choice:
    """The clusters in domains beyond `maxDomains`. `floor`: the minimum per cluster. `further`: so
    many domains more than a soft rule allows, because copies have no other place."""
    choosing = _Choosing(rules, total, floor, fresh)
    left, barred, softly = list(candidates), dict[str, str](), False
    for at, rule in enumerate(rules):
        if rule.max_domains is None:
            continue
        most = rule.max_domains if rule.hard else rule.max_domains + further
        ranked = choosing.ranked(left, at)
        chosen, why = ranked[:most], f"maxDomains {rule.max_domains} over {rule.topology_key}"
        wanted = min(rule.min_domains, total)
        if rule.hard and len(ranked) < wanted:
            why += f" with minDomains {rule.min_domains}: only {len(ranked)} can take copies"
            chosen = []
        elif chosen:
            why += f" is reached by {', '.join(name or '(no label)' for name in chosen)}"
        softly = softly or (not rule.hard and len(ranked) > len(chosen))
        for candidate in left:
            if not set(domains.parts(candidate.place.domains[at])) <= set(chosen):
                barred[candidate.name] = why
        left = [candidate for candidate in left if candidate.name not in barred]
    return Choice(barred, softly)


@dataclass(frozen=True, slots=True)
class _Choosing:
    rules: Sequence[SpreadRule]
    total: int
    floor: int
    fresh: bool

    def ranked(self, candidates: Sequence[Candidate], at: int) -> list[str]:
        """The domains of a rule that hold copies or can take some, the best first."""
        members: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            for domain in domains.parts(candidate.place.domains[at]):
                if not (self.rules[at].hard and domain == UNLABELLED):
                    members.setdefault(domain, []).append(candidate)
        keys: list[tuple[tuple[int, ...], str]] = []
        for domain, inside in members.items():
            held = 0 if self.fresh else sum(min(each.held, each.cap) for each in inside)
            able = [each for each in inside if self._usable(each)]
            room = self._room(able, at + 1)
            if held <= 0 and room <= 0:
                continue
            level = min((each.place.level for each in able), default=0)
            avoided = min((each.place.avoided for each in able), default=0)
            order = min(each.order for each in inside)
            spare = sum(min(each.cap, 1 << 40) for each in able)
            keys.append(((-held, -min(room, self.total), level, avoided, -spare, order), domain))
        return [domain for _, domain in sorted(keys)]

    def _usable(self, candidate: Candidate) -> bool:
        """Whether it can get copies at all."""
        joins = candidate.cap >= max(self.floor, candidate.least)
        holds = candidate.held > 0 and not self.fresh
        return candidate.cap > 0 and candidate.weight > 0 and (joins or holds)

    def _room(self, candidates: Sequence[Candidate], at: int) -> int:
        """Copies that these clusters can hold under the rules from this one on, up to the total;
        by the numbers of domains alone."""
        if not candidates:
            return 0
        rule = next((each for each in range(at, len(self.rules)) if self._counts(each)), None)
        if rule is None:
            return min(sum(min(each.cap, self.total) for each in candidates), self.total)
        members: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            for domain in domains.parts(candidate.place.domains[rule]):
                if domain != UNLABELLED:
                    members.setdefault(domain, []).append(candidate)
        rooms = sorted((self._room(inside, rule + 1) for inside in members.values()), reverse=True)
        rooms = [room for room in rooms if room > 0]
        least, most = self.rules[rule].min_domains, self.rules[rule].max_domains
        if len(rooms) < min(least, self.total):
            # Without maxDomains as many copies are placed as there are domains.
            return 0 if most is not None else len(rooms)
        return min(sum(rooms[:most]), self.total)

    def _counts(self, at: int) -> bool:
        """Whether a hard rule bounds the number of domains."""
        rule = self.rules[at]
        return rule.hard and (rule.max_domains is not None or rule.min_domains > 1)
