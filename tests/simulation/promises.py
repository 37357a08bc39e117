"""6: trees of quotas, reckoned from FederatedQuotas as they are written, without
`federator.placement`.

An account keeps what it is guaranteed and does not lend; what it uses beyond that, its parent sees.
What is seen of an account must stay within what it may use: what it has where it has no parent,
elsewhere its guarantee and what it may borrow. An account alone is a tree of one: what it may use
at most (`max`, else `guaranteed`), and what it uses.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts
from federator.model.decision import Share
from federator.model.kubernetes import quantity

Obj = Mapping[str, Any]
Use = Callable[[str], int]
"""What the workloads of a project use, of one resource in one tier."""
Uses = Callable[[str, str], int]
KEPT_TIER = "Reserved"


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of an account's use, and how much of it there may be; None for any amount."""

    used: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Said:
    guaranteed: int | None
    kept: int
    below: int
    most: int | None


class Accounts:
    """All FederatedQuotas of a host at one moment."""

    def __init__(self, objs: Collection[Obj]) -> None:
        self._specs = {obj["metadata"]["name"]: raw.mapping(obj, "spec") for obj in objs}
        self.objs = {obj["metadata"]["name"]: obj for obj in objs}

    def line(self, name: str) -> list[str]:
        """An account and those above it; one that leads in a circle stands alone."""
        line = [name]
        while (above := raw.text(self._specs[line[-1]], "parent")) in self._specs:
            if above in line:
                return [name]
            line.append(above)
        return line

    def of(self, project: str) -> list[str]:
        """The accounts that a project is charged to: the lowest that name it."""
        naming = [
            name
            for name in sorted(self._specs)
            if project in raw.texts(self._specs[name], "projects")
        ]
        above = {other for name in naming for other in self.line(name)[1:]}
        return [name for name in naming if name not in above]

    def tree(self, name: str) -> list[str]:
        """All accounts of the same tree."""
        root = self.line(name)[-1]
        return [other for other in sorted(self._specs) if self.line(other)[-1] == root]

    def projects(self, name: str) -> list[str]:
        """The projects of an account and of those below it."""
        family = [other for other in self.tree(name) if name in self.line(other)]
        named = {
            project for other in family for project in raw.texts(self._specs[other], "projects")
        }
        return sorted(project for project in named if set(self.of(project)) & set(family))

    def resources(self, name: str, tier: str) -> list[str]:
        """What the tree of an account limits in a tier."""
        found: set[str] = set()
        for other in self.tree(name):
            for field in ("guaranteed", "max", "borrowingLimit"):
                found |= raw.mapping(self._specs[other], "tiers", tier, field).keys()
        return sorted(found)

    def guaranteed(self, name: str, tier: str, resource: str) -> int:
        """What an account is guaranteed by what it writes; 0 where it writes nothing."""
        written = raw.mapping(self._specs[name], "tiers", tier, "guaranteed")
        return quantity.valid({resource: written[resource]})[resource] if resource in written else 0

    def seen(self, name: str, tier: str, resource: str, use: Use) -> dict[str, Sight]:
        """Of all accounts of the same tree."""
        family = sorted(self.tree(name), key=lambda other: -len(self.line(other)))
        said: dict[str, _Said] = {}
        used = dict.fromkeys(family, 0)
        for other in family:
            children = [one for one in family if self.line(one)[1:2] == [other]]
            said[other] = self._said(other, tier, resource, [said[one] for one in children])
            mine = [
                project
                for project in raw.texts(self._specs[other], "projects")
                if other in self.of(project)
            ]
            used[other] = sum(map(use, mine)) + sum(
                max(used[one] - said[one].kept, 0) for one in children
            )
        return {
            other: Sight(
                used[other],
                None if (most := said[other].most) is None else max(most - said[other].below, 0),
            )
            for other in family
        }

    def _said(self, name: str, tier: str, resource: str, children: list[_Said]) -> _Said:
        written = {
            field: quantity.valid({resource: amounts[resource]})[resource]
            for field in ("guaranteed", "max", "borrowingLimit", "lendingLimit")
            if resource in (amounts := raw.mapping(self._specs[name], "tiers", tier, field))
        }
        below = sum(one.kept + one.below for one in children)
        beneath = [one.guaranteed for one in children if one.guaranteed is not None]
        promised = written.get("guaranteed", sum(beneath) if beneath else None)
        if len(self.line(name)) == 1:
            return _Said(promised, 0, below, written.get("max", promised))
        most = written.get("max")
        if "borrowingLimit" in written:
            most = (promised or 0) + written["borrowingLimit"]
        elif most is None and tier == KEPT_TIER and "guaranteed" in written:
            most = promised
        if most is not None and promised is not None:
            promised = min(promised, most)
        own = max((promised or 0) - below, 0)
        lent = written.get("lendingLimit", 0 if tier == KEPT_TIER else own)
        return _Said(promised, max(own - lent, 0), below, most)

    def breaches(self, project: str, tier: str, use: Uses, before: Uses) -> Iterator[str]:
        """Accounts above a project that are seen to use more than they may, and more than before.
        `use` and `before` are asked for (resource, project).
        """
        for name in self.of(project):
            for resource in self.resources(name, tier):
                now = self.seen(name, tier, resource, functools.partial(use, resource))
                had = self.seen(name, tier, resource, functools.partial(before, resource))
                for other in self.line(name):
                    one = now[other]
                    if one.most is not None and one.used > max(one.most, had[other].used):
                        yield (
                            f"{other} uses {one.used} {resource} after {had[other].used}, "
                            f"{one.most} are its own"
                        )


def with_raised(
    before: DecisionFacts, now: DecisionFacts, slices: Mapping[str, tuple[int, int]]
) -> tuple[Share, ...]:
    """The shares of the decision before, with what runs in clusters under a number that it did not
    give: a member's administrator raised it while nobody heard the member (numbers-raised). Nothing
    proves that such a slice is of the past, so it is held, whatever its account has left. `slices`:
    by cluster, seq and copies of those that stand.
    """
    shares = {share.cluster: share for share in before.shares}
    for share in now.shares:
        had, (seq, copies) = shares.get(share.cluster), slices.get(share.cluster, (0, 0))
        raised = seq > max(before.seq, before.marks.get(share.cluster, 0))
        if raised and share.slots <= copies and (had is None or share.slots > had.slots):
            shares[share.cluster] = share
    return tuple(shares.values())


def lacks_only_an_edit(facts: DecisionFacts) -> bool:
    """Whether all copies have a place, and the reason is about an edit of them that is held back:
    of the workload, or of its RuntimeProfile."""
    terms = facts.terms
    return not terms.shortfall and bool(terms.held_back or terms.held_profile)
