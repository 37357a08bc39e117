"""Affinity and anti-affinity between workloads, written down a second time: beside `rules`, and like
these without any code of the product.

Written from docs/reference/policies.md (Other workloads), pair by pair.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from federator.model.ask import Ask
    from federator.model.fleet import ClusterView
    from federator.model.neighbours import WorkloadTerm


def zones_of(view: "ClusterView", key: str) -> set[str]:
    """Where a cluster lies by a topology key; without a key it is a place of its own."""
    if key == "":
        return {f"cluster {view.name}"}
    if key in view.stated.topology:
        return {*view.stated.topology[key]}
    return {view.labels[key]} if view.labels.get(key) else set()


def selects(term: "WorkloadTerm", mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Whether a term of a workload with the first labels speaks of one with the second."""
    wanted = dict(term.selector.match_labels) if term.selector is not None else {}
    for key in term.same:
        if key not in mine:
            return False
        wanted[key] = mine[key]
    return wanted.items() <= theirs.items()


def company(
    ask: "Ask",
    others: Sequence["Ask"],
    copies: Mapping[str, Mapping[str, int]],
    views: Mapping[str, "ClusterView"],
) -> dict[str, bool]:
    """Cluster -> whether other workloads let new copies of this one begin there. `copies`: by uid
    and cluster."""
    near = [each for each in others if each.uid != ask.uid]
    near = [each for each in near if each.key.namespace == ask.key.namespace]
    allowed = dict.fromkeys(views, True)
    for name, view in views.items():
        for term in ask.policy.workloads:
            if term.weight or any(key not in ask.labels for key in term.same):
                continue
            here = zones_of(view, term.topology_key)
            beside, anywhere = False, False
            for each in near:
                for place, count in copies.get(each.uid, {}).items():
                    if count and place in views and selects(term, ask.labels, each.labels):
                        counts = term.away or not (views[place].draining or views[place].removing)
                        there = zones_of(views[place], term.topology_key)
                        anywhere = anywhere or (counts and bool(there))
                        beside = beside or (counts and bool(here & there))
            if term.away:
                allowed[name] &= not beside
            else:
                alone = not anywhere and selects(term, ask.labels, ask.labels)
                allowed[name] &= bool(here) and (beside or alone)
        for each in near:
            for term in each.policy.workloads:
                if term.away and not term.weight and selects(term, each.labels, ask.labels):
                    for place, count in copies.get(each.uid, {}).items():
                        if count and place in views:
                            there = zones_of(views[place], term.topology_key)
                            allowed[name] &= not (zones_of(view, term.topology_key) & there)
    return allowed
