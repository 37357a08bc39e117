"""The accounts that Kueue's queues and cohorts become."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import Item
from federator.convert.kueueflavors import Flavors
from federator.kinds import registry
from federator.model import names
from federator.model.ask import Tier
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.resources import ZERO, Resources

QUEUE: Final = "ClusterQueue"
TIER: Final = str(Tier.ON_DEMAND)
"""The tier that borrows and lends, as queues do."""
LARGEST_WEIGHT: Final = 1000
_LIMITS: Final = ("borrowingLimit", "lendingLimit")
_CHECKS: Final[Mapping[str, str]] = {
    "admissionChecks": "workloads are admitted by quota and room alone",
    "admissionChecksStrategy": "workloads are admitted by quota and room alone",
}
"""Field of a queue -> what is the case instead."""
_UNFIT: Final = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """What Kueue's Configuration says of order."""

    fair: bool = False
    strategies: tuple[str, ...] = ()

    @staticmethod
    def of(obj: Obj) -> "Settings":
        sharing = raw.at(obj, "fairSharing")
        if not isinstance(sharing, Mapping) or sharing.get("enable") is False:
            return Settings()
        return Settings(True, raw.texts(sharing, "preemptionStrategies"))


def fitting(name: str, longest: int = 63) -> str:
    """A name that objects may have; the same where it is one."""
    fit = _UNFIT.sub("-", name.lower()).strip("-.")
    if fit == name and len(name) <= longest:
        return name
    return f"{fit[: longest - 9].strip('-.')}-{names.short_hash(name, length=8)}"


@dataclass(frozen=True, slots=True)
class Family:
    """All queues and cohorts, by the names of their accounts."""

    items: Mapping[str, Item]
    """Without cohorts that queues name and nobody wrote."""
    parents: Mapping[str, str]
    queues: Mapping[str, str]
    """Account -> its queue."""

    @staticmethod
    def of(queues: Mapping[str, Item], cohorts: Mapping[str, Item]) -> "Family":
        """A queue that has the name of a cohort gets another."""
        above = {_parent(item) for item in (*queues.values(), *cohorts.values())} | cohorts.keys()
        accounts = {
            (fitting(name) if name not in above else f"{fitting(name)}-queue"): item
            for name, item in queues.items()
        }
        of_queues = {account: item.name for account, item in accounts.items()}
        accounts |= {fitting(name): item for name, item in cohorts.items()}
        parents = {account: _parent(item) for account, item in accounts.items()}
        parents = {account: fitting(up) if up else "" for account, up in parents.items()}
        for name in sorted({up for up in parents.values() if up} - accounts.keys()):
            parents[name] = ""
        return Family(accounts, parents, of_queues)

    def node_of(self, queue: str) -> str | None:
        """The account of a queue that is converted."""
        kept = set(self.kept())
        result = (account for account, name in self.queues.items() if name == queue)
        return next((account for account in result if account in kept), None)

    def root(self, name: str) -> str:
        """The account above all; in a circle the first by name."""
        line = [name]
        while above := self.parents.get(line[-1], ""):
            if above in line:
                return min(line[line.index(above) :])
            line.append(above)
        return line[-1]

    def members(self, root: str) -> list[str]:
        return [name for name in self.parents if self.root(name) == root]

    def refused(self) -> Iterator[tuple[str, str]]:
        """(account, why it is left) of trees that cannot be said."""
        for root in sorted({self.root(name) for name in self.parents}):
            if reason := self._why_not(root):
                yield from ((name, reason) for name in self.members(root) if name in self.items)

    def kept(self) -> list[str]:
        """The accounts that can be said, those above first."""
        result = [name for name in self.parents if not self._why_not(self.root(name))]
        return sorted(result, key=lambda name: (self._depth(name), name))

    def _depth(self, name: str) -> int:
        return 0 if not self.parents[name] else 1 + self._depth(self.parents[name])

    def _why_not(self, root: str) -> str:
        line, seen = root, list[str]()
        while line and line not in seen:
            seen.append(line)
            line = self.parents.get(line, "")
        if line:
            return f"spec.parentName: the cohorts {', '.join(sorted(seen))} are above each other"
        for name in self.members(root):
            item = self.items.get(name)
            if item is not None and raw.text(item.obj, "spec", "stopPolicy") not in ("", "None"):
                return f"spec.stopPolicy of {item.title}: a queue that is held cannot be said"
        return ""


def _parent(item: Item) -> str:
    spec = raw.mapping(item.obj, "spec")
    fields = ("cohortName", "cohort") if item.kind == QUEUE else ("parentName", "parent")
    return next((raw.text(spec, field) for field in fields if raw.text(spec, field)), "")


class Account:
    def __init__(
        self, name: str, family: Family, flavors: Flavors, settings: Settings, *, by_domain: bool
    ) -> None:
        self.name, self.family, self.flavors, self.settings = name, family, flavors, settings
        self.item = family.items.get(name)
        self.parent = family.parents[name]
        self.members = family.members(family.root(name))
        several = any(
            len({flavor for flavor, other, _ in self._every() if other == resource}) > 1
            for _, resource, _ in self._every()
        )
        self.by_domain = by_domain or several

    def obj(self, namespaces: Sequence[str]) -> dict[str, Any]:
        queue = self.family.queues.get(self.name)
        spec: dict[str, Any] = {"parent": self.parent} if self.parent else {}
        spec |= {"projects": [fitting(queue)]} if queue is not None else {}
        spec |= {"namespaces": list(namespaces)} if namespaces else {}
        if (weight := self._weight()) is not None:
            spec["weight"] = weight
        if self.by_domain:
            spec |= {"domains": domains} if (domains := list(self._domains())) else {}
            spec |= {"defaultRequests": {}} if queue is not None else {}
            barred = dict.fromkeys(self._barred(), "0")
            spec |= {"tiers": {TIER: {"max": barred}}} if barred else {}
        else:
            resources = sorted({resource for _, resource, _ in self._every()})
            limits = self._limits({(None, resource) for resource in resources})
            spec |= {"tiers": {TIER: limits}} if limits else {}
        spec |= self._rules()
        return {
            "apiVersion": registry.KINDS["FederatedQuota"].api_version,
            "kind": "FederatedQuota",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def notes(self) -> Iterator[str]:
        if self.item is None:
            return
        spec = raw.mapping(self.item.obj, "spec")
        for field, instead in _CHECKS.items():
            if spec.get(field):
                yield f"spec.{field} of {self.item.title} is not carried over: {instead}"
        if self.item.kind != QUEUE and self.parent and self.parent not in self.family.items:
            yield (
                f"spec.parentName of {self.item.title}: no Cohort {self.parent} is given; it"
                " becomes an account with the quotas of those below it, as in Kueue"
            )
        if fitting(self.item.name) != self.item.name:
            yield f"metadata.name: {self.item.name} is no name of an object here"

    def _every(self) -> Iterator[tuple[str, str, Obj]]:
        """(flavor, resource, its quotas) of all of the tree."""
        for name in self.members:
            yield from _rows(self.family.items.get(name))

    def _own(self) -> Iterator[tuple[str, str, Obj]]:
        """The same of this one. A flavor that it lists without a resource is one in which it has
        nothing of its own."""
        for group in _groups(self.item):
            for flavor in raw.objects(group, "flavors"):
                name, rows = raw.text(flavor, "name"), raw.objects(flavor, "resources")
                for row in rows:
                    yield name, raw.text(row, "name"), row
                if not rows:
                    of_others = {other for at, other, _ in self._every() if at == name}
                    yield from ((name, resource, {}) for resource in sorted(of_others))

    def _domains(self) -> Iterator[dict[str, Any]]:
        """Of a queue those that it lists, in its order; of a cohort those of all below it."""
        own = list(dict.fromkeys(flavor for flavor, _, _ in self._own()))
        if self.name not in self.family.queues:
            below = self._total()
            listed = (flavor for flavor, _, _ in self._every())
            own = [
                flavor
                for flavor in dict.fromkeys(listed)
                if flavor in own or any(at == flavor for at, _ in below)
            ]
        for flavor in own:
            cells = {(flavor, resource) for at, resource, _ in self._own() if at == flavor}
            if self.name not in self.family.queues:
                cells |= {cell for cell in self._total() if cell[0] == flavor}
            yield {
                "name": flavor,
                "selector": self.flavors.selector(flavor),
                "tiers": {TIER: self._limits(cells)},
            }

    def _limits(self, cells: set[Any]) -> dict[str, dict[str, str]]:
        """Of these (flavor, resource), where flavor None is any."""
        limits: dict[str, dict[str, str]] = {}
        is_queue, total = self.name in self.family.queues, self._total()
        for flavor, resource in sorted(cells, key=lambda cell: cell[1]):
            rows = [
                row for at, other, row in self._own() if other == resource and flavor in (None, at)
            ]
            amount = sum(
                most for (at, of), most in total.items() if of == resource and flavor in (None, at)
            )
            if not is_queue and not rows and not amount:
                continue
            limits.setdefault("guaranteed", {})[resource] = quantity.render_amount(resource, amount)
            for field in _LIMITS if self.parent else ():
                for row in rows:
                    if field in row:
                        limits.setdefault(field, {})[resource] = str(row[field])
            if is_queue and self.parent and not rows:  # not covered: none of it may be used
                limits.setdefault("borrowingLimit", {})[resource] = "0"
        return limits

    def _barred(self) -> list[str]:
        """Resources of the tree's flavors that a queue does not cover are no matter of its domains;
        the usual ones that nobody covers may not be asked for."""
        if self.name not in self.family.queues:
            return []
        named = {resource for _, resource, _ in self._every()}
        return sorted({"cpu", "memory"} - named)

    def _total(self) -> Mapping[tuple[str, str], int]:
        """(flavor, resource) -> what this one and all below it have together."""
        result: dict[tuple[str, str], int] = {}
        below = {name for name in self.members if self._is_above(name)}
        for name in sorted(below):
            item = self.family.items.get(name)
            for flavor, resource, row in _rows(item):
                amount = _amount(item, resource, row.get("nominalQuota", 0))
                result[flavor, resource] = result.get((flavor, resource), 0) + amount[resource]
        return result

    def _is_above(self, name: str) -> bool:
        while name and name != self.name:
            name = self.family.parents[name]
        return name == self.name

    def _rules(self) -> dict[str, Any]:
        spec = raw.mapping(self.item.obj, "spec") if self.item is not None else {}
        rules = raw.mapping(spec, "preemption")
        borrowing = raw.mapping(rules, "borrowWithinCohort")
        said = raw.present(
            {
                "withinProject": _unless(raw.text(rules, "withinClusterQueue"), "Never"),
                "reclaim": _unless(raw.text(rules, "reclaimWithinCohort"), "Never"),
            }
        )
        if raw.text(borrowing, "policy") not in ("", "Never"):
            said["whileBorrowing"] = {"policy": raw.text(borrowing, "policy")}
            if borrowing.get("maxPriorityThreshold") is not None:
                said["whileBorrowing"]["maxPriorityThreshold"] = borrowing["maxPriorityThreshold"]
        made: dict[str, Any] = {"preemption": said} if said else {}
        if self.by_domain and (choice := _choice(raw.mapping(spec, "flavorFungibility"))):
            made["domainChoice"] = choice
        if raw.text(spec, "queueingStrategy") == "StrictFIFO":
            made["queueing"] = "StrictFIFO"
        if not self.parent and self.settings.fair:
            made["ordering"] = "FairShare"
            if self.settings.strategies:
                made["fairSharing"] = {"preemptionStrategies": list(self.settings.strategies)}
        return made

    def _weight(self) -> int | None:
        """Of fair sharing, as whole numbers in the proportions of the tree's; None for 1."""
        every = {name: _weight_of(self.family.items.get(name)) for name in self.members}
        scale = math.lcm(*(weight.denominator for weight in every.values()))
        scaled = {name: int(weight * scale) for name, weight in every.items()}
        most = max(scaled.values())
        if most > LARGEST_WEIGHT:
            scaled = {name: -(-weight * LARGEST_WEIGHT // most) for name, weight in scaled.items()}
        weight = scaled[self.name]
        return None if weight == 1 else weight


def _unless(text: str, nothing: str) -> str:
    return "" if text == nothing else text


def _choice(rules: Obj) -> dict[str, str]:
    next_one = "TryNextFlavor"
    said: dict[str, str] = {}
    if raw.text(rules, "whenCanBorrow") == next_one:
        said["whenCanBorrow"] = "TryNextDomain"
    if raw.text(rules, "whenCanPreempt") not in ("", next_one):
        said["whenCanPreempt"] = "Preempt"
    if raw.text(rules, "preference") == "PreemptionOverBorrowing":
        said["preference"] = "PreemptionOverBorrowing"
    return said


def _weight_of(item: Item | None) -> Fraction:
    value = raw.at(item.obj, "spec", "fairSharing", "weight") if item is not None else None
    if item is None or value is None:
        return Fraction(1)
    try:
        return Fraction(quantity.from_json(value).nanos, 10**9)
    except FieldError as bad:
        raise item.bad("spec.fairSharing.weight", bad.message) from None


def _groups(item: Item | None) -> Sequence[Obj]:
    return () if item is None else raw.objects(item.obj, "spec", "resourceGroups")


def _rows(item: Item | None) -> Iterator[tuple[str, str, Obj]]:
    """(flavor, resource, its quotas) of a queue or cohort."""
    for group in _groups(item):
        for flavor in raw.objects(group, "flavors"):
            for row in raw.objects(flavor, "resources"):
                yield raw.text(flavor, "name"), raw.text(row, "name"), row


def _amount(item: Item | None, resource: str, value: Any) -> Resources:
    try:
        return quantity.vector({resource: value}) if value else ZERO
    except FieldError as error:
        assert item is not None
        path = f"spec.resourceGroups: nominalQuota of {error.path or resource}"
        raise item.bad(path, error.message) from None
