"""What holds quota of one tree of accounts in one tier, as far as it may leave apart.

A workload is one holder: of all of it where it leaves as a whole, else copy by copy. Copies in
clusters of different domains, and those that a disruption budget keeps for now, are holders of
their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from federator.model.accounts import Domain
from federator.model.ask import Former, Tier
from federator.model.fleet import Commitment, copies_of
from federator.model.resources import Resources, cell
from federator.placement.quota.tree import Tree
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling.admission import budgets, holders
from federator.scheduling.admission.budgets import Budgets
from federator.scheduling.admission.holders import Holder
from federator.scheduling.admission.tree_usage import Amounts, leaf


@dataclass(frozen=True, slots=True)
class TreeHolders:
    tree: Tree
    tier: Tier
    projects: frozenset[str]
    """Those that accounts of the tree name."""
    within: Mapping[str, frozenset[str]]
    """Domain -> its clusters."""
    limited: Mapping[str, frozenset[str]]
    """Domain -> the resources that are limited there."""
    commitments: Commitments
    spare: Budgets

    @staticmethod
    def of(
        ledger: Ledger,
        root: str,
        tier: Tier,
        commitments: Commitments,
        *,
        named: Mapping[str, Domain],
        spare: Budgets,
    ) -> "TreeHolders":
        """Of the tree below `root`, with the domains that its accounts name."""
        views = ledger.snapshot.clusters.items()
        return TreeHolders(
            ledger.tree,
            tier,
            frozenset(ledger.tree.under(root)),
            {
                name: frozenset(
                    cluster for cluster, view in views if domain.selector.matches(view.labels)
                )
                for name, domain in named.items()
            },
            {name: domain.limited.get(tier, frozenset()) for name, domain in named.items()},
            commitments,
            spare,
        )

    def terminating(self) -> dict[str, Amounts]:
        """Leaf -> what is charged for pods beyond commitments."""
        every = self.commitments.terminating.values()
        return holders.of_terminating(every, self._leaf_of, self._cells_in)

    def holders(self) -> Iterator[Holder]:
        """What the tree is charged for in this tier, in any order."""
        for commitment in self.commitments:
            if commitment.project in self.projects and commitment.tier is self.tier:
                yield from self._parts(commitment)
                continue  # the tree as a whole is charged for its copies by these holders
            yield from holders.of_former(commitment, self._leaf_of, self._cells_in)

    def _leaf_of(self, left: Former) -> str | None:
        here = left.project in self.projects and left.tier is self.tier
        return leaf(self.tree, left.project) if here else None

    def _cells_in(self, amounts: Resources, cluster: str) -> Mapping[str, int]:
        return self._cells(amounts, self.domains_of(cluster))

    def _parts(self, commitment: Commitment) -> Iterator[Holder]:
        """What a commitment uses: replicas in clusters of different domains apart, as only they
        leave apart."""
        node = leaf(self.tree, commitment.project)
        if node is None:
            return
        parts: dict[tuple[str, ...], int] = {}
        for holding in commitment.holdings:
            if copies := copies_of(holding):
                at = self.domains_of(holding.cluster)
                parts[at] = parts.get(at, 0) + copies
        seq = max((holding.seq for holding in commitment.holdings), default=0)
        make = partial(
            Holder,
            key=commitment.key,
            node=node,
            priority=commitment.priority,
            created_s=commitment.created_s,
            seq=seq,
            stays=commitment.shape.every_node,
        )
        requests = commitment.shape.requests
        if commitment.whole:
            total: dict[str, int] = {}
            for at, copies in parts.items():
                for name, amount in self._cells(requests * copies, at).items():
                    total[name] = total.get(name, 0) + amount
            if parts:
                yield make(uid=commitment.uid, each=total)
            return
        # Sorted: names of parts must not depend on the order of the shares.
        for number, (at, copies) in enumerate(sorted(parts.items())):
            uid = commitment.uid if not number else f"{commitment.uid} {number}"
            holder = make(uid=uid, each=self._cells(requests, at), copies=copies)
            if len(parts) > 1:
                holder = replace(holder, clusters=self._there(commitment, at))
            yield from self._by_budget(commitment, at, holder)

    def _by_budget(
        self, commitment: Commitment, at: tuple[str, ...], holder: Holder
    ) -> Iterator[Holder]:
        """The holder, where its workload has a disruption budget as what may leave now and what may
        not. Work of tier Preemptible leaves at once, whatever its budget."""
        may_leave = self.spare.allowed(commitment)
        if may_leave is None or self.tier is Tier.PREEMPTIBLE or holder.stays:
            yield holder
            return
        held = self._there(commitment, at)
        most = {name: copies for name, copies in may_leave.items() if name in held}
        kept = budgets.kept(most, held)
        if most:
            yield replace(holder, copies=sum(most.values()), clusters=most)
        if kept:
            uid = f"{commitment.uid} {holder.uid} kept"
            count = sum(kept.values())
            yield replace(holder, uid=uid, copies=count, clusters=kept, spared=True)

    def _there(self, commitment: Commitment, at: tuple[str, ...]) -> dict[str, int]:
        """Cluster -> its copies there, in the clusters of just these domains."""
        return {
            holding.cluster: copies
            for holding in commitment.holdings
            if (copies := copies_of(holding)) and self.domains_of(holding.cluster) == at
        }

    def domains_of(self, cluster: str) -> tuple[str, ...]:
        """The domains that the cluster lies in, by the order of the accounts."""
        return tuple(name for name, clusters in self.within.items() if cluster in clusters)

    def _cells(self, amounts: Resources, domains: tuple[str, ...]) -> dict[str, int]:
        cells = dict(amounts.items())
        for name in domains:
            for resource in self.limited[name]:
                if amounts[resource]:
                    cells[cell(resource, name)] = amounts[resource]
        return cells
