"""Whether a PlacementInvariant holds: functions over the copies that workloads have by cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.rules.invariant import UNLABELLED, Invariant, MaxShare, Survives


@dataclass(frozen=True, slots=True)
class Breach:
    """A domain in which a workload has more copies than an invariant allows."""

    domain: str
    copies: int
    most: int


def domains_of(view: ClusterView, topology_key: str) -> tuple[str, ...]:
    """The domains in which a cluster lies: several where `spec.topology` states them, else that of
    its label."""
    return view.domains(topology_key) or (view.labels.get(topology_key, UNLABELLED),)


def by_domain(
    snapshot: FleetSnapshot, topology_key: str, copies: Mapping[str, int]
) -> dict[str, int]:
    """Domain -> copies, of copies by cluster. A copy counts in each domain of its cluster. A lost
    share is outside: nothing is known to run there, and what replaces it is elsewhere."""
    domains: dict[str, int] = {}
    for name, count in copies.items():
        view = snapshot.clusters.get(name)
        if view is None or is_lost(view) or not count:
            continue
        for domain in domains_of(view, topology_key):
            domains[domain] = domains.get(domain, 0) + count
    return domains


def is_lost(view: ClusterView) -> bool:
    """Whether the cluster is unreachable or dead."""
    return view.dead or view.unreachable


def clusters_of(snapshot: FleetSnapshot, topology_key: str, domain: str) -> frozenset[str]:
    """The clusters that lie in a domain and are not lost."""
    return frozenset(
        name
        for name, view in snapshot.clusters.items()
        if not is_lost(view) and domain in domains_of(view, topology_key)
    )


def breaches(
    rule: MaxShare, wanted: int, copies: Mapping[str, int], snapshot: FleetSnapshot
) -> tuple[Breach, ...]:
    """The domains in which a workload that asks for `wanted` copies has more than the rule allows,
    the fullest first. `copies`: by cluster."""
    most = rule.most(wanted)
    there = by_domain(snapshot, rule.topology_key, copies)
    exceeded = (Breach(domain, count, most) for domain, count in there.items() if count > most)
    return tuple(sorted(exceeded, key=lambda breach: (-breach.copies, breach.domain)))


def domains(views: Iterable[ClusterView], topology_key: str) -> list[str]:
    """The domains that these clusters make."""
    return sorted({domain for view in views for domain in domains_of(view, topology_key)})


def impossible(invariant: Invariant, views: Iterable[ClusterView]) -> str:
    """Why the invariant can never hold in a fleet of these clusters, as a sentence; "" where it
    can."""
    rule = invariant.rule
    if rule is None:
        return ""
    there = domains(views, rule.topology_key)
    has = f"the clusters make {len(there)} by label {rule.topology_key}" + (
        f": {', '.join(there[:5])}" if there else ""
    )
    if isinstance(rule, MaxShare):
        if len(there) >= rule.domains:
            return ""
        return (
            f"spec.rule.maxShare: {rule.percent} percent at most in one domain needs"
            f" {rule.domains} domains, and {has}; no workload of {rule.domains} copies or more can"
            " be placed as a whole"
        )
    return _no_survivor(rule, there, has)


def _no_survivor(rule: Survives, there: list[str], has: str) -> str:
    if len(there) > rule.loss:
        return ""
    return f"spec.rule.survives: the loss of {rule.loss} domains leaves no cluster, because {has}"
