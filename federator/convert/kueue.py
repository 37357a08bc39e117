"""ClusterQueues and Cohorts of Kueue, with their LocalQueues, as a tree of FederatedQuotas.

A ClusterQueue is an account with one project of its name, used from the namespaces of its
LocalQueues; a Cohort is the account above it. In Kueue a cohort's own quota adds to that of its
queues, here a guarantee includes those below it. Accounts limit over all clusters: queues of a tree
in which a resource comes in several flavors are left, as limits of one flavor cannot be said.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import BadInput, Drafts, Item
from federator.kinds import read, registry
from federator.model.ask import Tier
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.resources import ZERO, Resources

VERSIONS: Final = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")
QUEUE: Final = "ClusterQueue"
COHORT: Final = "Cohort"
LOCAL: Final = "LocalQueue"
KINDS: Final = tuple((version, kind) for version in VERSIONS for kind in (QUEUE, COHORT, LOCAL))
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
TIER: Final = str(Tier.ON_DEMAND)
"""The tier that borrows and lends, as queues do."""
_LIMITS: Final = ("borrowingLimit", "lendingLimit")
_NOT_CARRIED: Final[Mapping[str, str]] = {
    "preemption": "nothing is preempted: what is lent comes back when those who use it leave",
    "flavorFungibility": "clusters are tried as placement policies say",
    "admissionChecks": "workloads are admitted by quota and room alone",
    "admissionChecksStrategy": "workloads are admitted by quota and room alone",
}
"""Field of a queue -> what is the case instead."""


def absorb(drafts: Drafts) -> None:
    """Turns the queues and cohorts into accounts."""
    queues = {item.name: item for item in _open(drafts, QUEUE) if _covers(item, drafts)}
    cohorts = {item.name: item for item in _open(drafts, COHORT)}
    if not queues and not cohorts:
        return
    parents = {name: _parent(item) for name, item in {**queues, **cohorts}.items()}
    both = sorted(queues.keys() & cohorts.keys())
    for name in both:
        drafts.leave(queues.pop(name), f"metadata.name: a Cohort is named {name} too")
        parents[name] = _parent(cohorts[name])
    nodes = {**queues, **cohorts}
    for name in sorted({above for above in parents.values() if above} - nodes.keys()):
        parents[name] = ""  # a cohort that queues name and nobody wrote
    families = {name: _root(name, parents) for name in parents}
    reasons = {root: _why_not(root, families, nodes) for root in set(families.values())}
    for name in sorted(nodes):
        if reason := reasons[families[name]]:
            drafts.leave(nodes[name], reason)
    kept = [name for name in parents if not reasons[families[name]]]
    spaces = _namespaces(drafts, [name for name in kept if name in queues])
    for name in sorted(kept, key=lambda name: (_depth(name, parents), name)):
        account = _Account(name, nodes.get(name), parents, nodes)
        obj = account.obj(spaces.get(name, ()), is_queue=name in queues)
        _check(obj, nodes.get(name))
        drafts.become(obj, nodes.get(name), list(account.notes()))


def assign(drafts: Drafts) -> None:
    """Workloads that name a LocalQueue which is given get the project of its account."""
    projects = {
        (item.namespace or "default", item.name): raw.text(item.obj, "spec", "clusterQueue")
        for item in drafts.items
        if item.kind == LOCAL and drafts.joined(item)
    }
    for draft in drafts.made:
        queue = raw.text(draft.item.obj, "metadata", "labels", QUEUE_LABEL)
        if project := projects.get((draft.namespace or "default", queue)):
            draft.spec["project"] = project


class _Account:
    """One account in the making. `item` is None for a cohort that nobody wrote."""

    def __init__(
        self, name: str, item: Item | None, parents: Mapping[str, str], nodes: Mapping[str, Item]
    ) -> None:
        self.name, self.item, self.parent = name, item, parents[name]
        root = _root(name, parents)
        self._parents, self._nodes = parents, nodes
        family = [other for other in parents if _root(other, parents) == root]
        self._named = sorted({name for other in family for name in _quotas(nodes.get(other))})

    def obj(self, namespaces: tuple[str, ...], *, is_queue: bool) -> dict[str, Any]:
        own = _quotas(self.item)
        total = _envelope(self.name, self._parents, self._nodes)
        limits: dict[str, dict[str, str]] = {}
        for resource in self._named:
            quotas = own.get(resource, {})
            if not is_queue and not quotas and not total[resource]:
                continue
            limits.setdefault("guaranteed", {})[resource] = quantity.render_amount(
                resource, total[resource]
            )
            for field in _LIMITS if self.parent else ():
                if field in quotas:
                    limits.setdefault(field, {})[resource] = str(quotas[field])
            if is_queue and self.parent and not quotas:  # not covered: none of it may be used
                limits.setdefault("borrowingLimit", {})[resource] = "0"
        spec: dict[str, Any] = {"parent": self.parent} if self.parent else {}
        spec |= {"projects": [self.name]} if is_queue else {}
        spec |= {"namespaces": list(namespaces)} if namespaces else {}
        if (weight := _weight(self.item)) > 1:
            spec["weight"] = weight
        spec |= {"tiers": {TIER: limits}} if limits else {}
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
        for field, instead in _NOT_CARRIED.items():
            if spec.get(field):
                yield f"spec.{field} of {self.item.title} is not carried over: {instead}"
        if raw.text(spec, "queueingStrategy") == "StrictFIFO":
            yield "spec.queueingStrategy StrictFIFO: whoever fits is admitted, as BestEffortFIFO"
        if raw.at(spec, "fairSharing", "weight") is not None and _weight(self.item) == 0:
            yield "spec.fairSharing.weight: only whole numbers from 1 to 1000 are carried over"


def _open(drafts: Drafts, kind: str) -> list[Item]:
    return [
        item for item in drafts.undecided() if item.kind == kind and item.api_version in VERSIONS
    ]


def _covers(item: Item, drafts: Drafts) -> bool:
    """Whether a queue covers any resource; one that does not is left, as it admits nothing."""
    covers = any(True for _ in _rows(item))
    if not covers:
        drafts.leave(item, "spec.resourceGroups: it covers no resource, and admits nothing")
    return covers


def _parent(item: Item) -> str:
    spec = raw.mapping(item.obj, "spec")
    fields = ("cohortName", "cohort") if item.kind == QUEUE else ("parentName", "parent")
    return next((raw.text(spec, field) for field in fields if raw.text(spec, field)), "")


def _root(name: str, parents: Mapping[str, str]) -> str:
    """The account above all; in a circle the first by name."""
    line = [name]
    while above := parents.get(line[-1], ""):
        if above in line:
            return min(line[line.index(above) :])
        line.append(above)
    return line[-1]


def _depth(name: str, parents: Mapping[str, str]) -> int:
    return 0 if not parents[name] else 1 + _depth(parents[name], parents)


def _why_not(root: str, families: Mapping[str, str], nodes: Mapping[str, Item]) -> str:
    """Why the queues of a tree cannot be said as accounts; "" when they can."""
    line, seen = root, set()
    while line in nodes and line not in seen:
        seen.add(line)
        line = _parent(nodes[line])
    if line in seen:
        return f"spec.parentName: the cohorts {', '.join(sorted(seen))} are above each other"
    flavors: dict[str, set[str]] = {}
    for name in sorted(name for name, other in families.items() if other == root):
        item = nodes.get(name)
        if item is None:
            continue
        if raw.text(item.obj, "spec", "stopPolicy") not in ("", "None"):
            return f"spec.stopPolicy of {item.title}: a queue that is held cannot be said"
        for flavor, resource, _ in _rows(item):
            flavors.setdefault(resource, set()).add(flavor)
    several = sorted(resource for resource, names in flavors.items() if len(names) > 1)
    if several:
        names = ", ".join(sorted(flavors[several[0]]))
        return (
            f"spec.resourceGroups: {several[0]} comes in several flavors ({names}), and accounts"
            " limit over all clusters"
        )
    return ""


def _rows(item: Item) -> Iterator[tuple[str, str, Obj]]:
    """(flavor, resource, its quotas) of a queue or cohort."""
    for group in raw.objects(item.obj, "spec", "resourceGroups"):
        for flavor in raw.objects(group, "flavors"):
            for row in raw.objects(flavor, "resources"):
                yield raw.text(flavor, "name"), raw.text(row, "name"), row


def _quotas(item: Item | None) -> dict[str, Obj]:
    return {} if item is None else {resource: row for _, resource, row in _rows(item)}


def _envelope(name: str, parents: Mapping[str, str], nodes: Mapping[str, Item]) -> Resources:
    """What a node and all below it have together."""
    total = ZERO
    item = nodes.get(name)
    for resource, row in _quotas(item).items():
        assert item is not None
        try:
            total = total + quantity.vector({resource: row.get("nominalQuota", 0)})
        except FieldError as error:
            path = f"spec.resourceGroups: nominalQuota of {error.path or resource}"
            raise BadInput(item.origin, item.title, [FieldError(path, error.message)]) from None
    for other, above in parents.items():
        if above == name:
            total = total + _envelope(other, parents, nodes)
    return total


def _weight(item: Item | None) -> int:
    """Of fair sharing; 0 for none that an account can have."""
    text = str(raw.at(item.obj, "spec", "fairSharing", "weight")) if item is not None else ""
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= 1000 else 0


def _namespaces(drafts: Drafts, queues: list[str]) -> dict[str, tuple[str, ...]]:
    """Queue -> the namespaces of its LocalQueues, which become part of its account."""
    spaces: dict[str, set[str]] = {}
    for item in _open(drafts, LOCAL):
        queue = raw.text(item.obj, "spec", "clusterQueue")
        if queue in queues:
            spaces.setdefault(queue, set()).add(item.namespace or "default")
            drafts.join(item, f"FederatedQuota/{queue}")
        else:
            drafts.leave(item, f"spec.clusterQueue: {queue or 'no queue'} is not converted")
    return {queue: tuple(sorted(names)) for queue, names in spaces.items()}


def _check(obj: dict[str, Any], item: Item | None) -> None:
    try:
        read.load(obj)
    except read.InvalidObject as bad:
        origin = item.origin if item is not None else ""
        title = item.title if item is not None else f"Cohort/{obj['metadata']['name']}"
        raise BadInput(origin, title, list(bad.errors)) from None
