"""What projects use in parts of the fleet for which accounts have limits of their own."""

from collections.abc import Iterable, Mapping
from typing import Final

from federator.model.ask import Tier
from federator.model.fleet import Commitment, copies_of
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.resources import Resources, cell
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Usage

Labels = Mapping[str, Mapping[str, str]]
"""Cluster -> its labels."""
_NO_CELLS: Final[Mapping[str, int]] = {}


def usage_with_domains(
    usage: Usage, commitments: Iterable[Commitment], tree: Tree, clusters: Labels
) -> Usage:
    """The usage, with that in each domain of a tree beside that over all clusters, under the names
    of `resources.cell`. A sum over what is held, made here: as of this moment."""
    domains = {root: _Domains.of(tree, root, clusters) for root in tree.roots}
    if not any(each.limited for each in domains.values()):
        return usage
    cells: dict[tuple[str, Tier], dict[str, int]] = {}
    for commitment in commitments:
        roots = {tree.path(name)[-1] for name in tree.charged(commitment.project)}
        for root in sorted(roots):
            domains[root].count(commitment, cells)

    def both(project: str, tier: Tier) -> Resources:
        more = cells.get((project, tier), _NO_CELLS)
        return usage(project, tier) + Resources(more) if more else usage(project, tier)

    return both


class _Domains:
    """Of one tree. Accounts that name the same domain mean the same clusters."""

    def __init__(self) -> None:
        self.within: dict[str, frozenset[str]] = {}
        """Domain -> its clusters."""
        self.limited: dict[tuple[str, Tier], frozenset[str]] = {}
        """Domain and tier -> resources that an account limits there."""

    @staticmethod
    def of(tree: Tree, root: str, clusters: Labels) -> "_Domains":
        made = _Domains()
        for name in reversed(tree.family(root)):
            for domain in tree.accounts[name].domains:
                made.within[domain.name] = _matching(domain.selector, clusters)
                for tier, resources in domain.limited.items():
                    before = made.limited.get((domain.name, tier), frozenset())
                    made.limited[domain.name, tier] = before | resources
        return made

    def count(self, commitment: Commitment, cells: dict[tuple[str, Tier], dict[str, int]]) -> None:
        for name, clusters in self.within.items():
            limited = self.limited.get((name, commitment.tier))
            if not limited:
                continue
            copies = sum(
                copies_of(holding) for holding in commitment.holdings if holding.cluster in clusters
            )
            for resource in limited:
                if amount := commitment.shape.requests[resource] * copies:
                    mine = cells.setdefault((commitment.project, commitment.tier), {})
                    at = cell(resource, name)
                    mine[at] = mine.get(at, 0) + amount


def _matching(selector: LabelSelector, clusters: Labels) -> frozenset[str]:
    return frozenset(name for name, labels in clusters.items() if selector.matches(labels))
