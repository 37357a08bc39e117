"""What projects use in parts of the fleet for which accounts have limits of their own, and which of
these limits a decision would break."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from federator.model.ask import Former, Tier
from federator.model.decision import Reason
from federator.model.fleet import Commitment, copies_of
from federator.model.kubernetes import quantity
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.resources import Resources, cell, domain_of
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Limit, Usage, Uses

Labels = Mapping[str, Mapping[str, str]]
"""Cluster -> its labels."""
_Key = tuple[str, Tier]
"""Project and tier."""
_Amounts = Mapping[str, int]
"""By cell."""
_NO_CELLS: Final[_Amounts] = {}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a workload may have in one cluster at most, by what its accounts have left in a domain
    of it, or by what an invariant allows there."""

    copies: int
    why: str
    """As a part of a sentence."""
    reason: Reason = Reason.QUOTA_EXCEEDED


@dataclass(frozen=True, slots=True)
class Over:
    """A domain in which a decision would give a workload more than its accounts have left there, or
    more than an invariant allows."""

    domain: str
    clusters: frozenset[str]
    copies: int
    """The most that it may have there in all; no fewer than it has already."""
    why: str
    """As a part of a sentence."""
    reason: Reason = Reason.QUOTA_EXCEEDED


class CommittedUsage(Protocol):
    """What is read of the commitments."""

    terminating: dict[str, tuple[Former, ...]]

    def __iter__(self) -> Iterator[Commitment]: ...
    def commitment(self, uid: str) -> Commitment | None: ...


def usage_with_domains(
    usage: Usage, commitments: CommittedUsage, tree: Tree, clusters: Labels
) -> Usage:
    """The usage, with that in each domain of a tree beside that over all clusters, under the names
    of `resources.cell`. A sum over what is held, made here: as of this moment."""
    domains = _of_roots(tree, clusters)
    if not domains:
        return usage
    cells: dict[_Key, dict[str, int]] = {}
    every = itertools.chain.from_iterable(map(_parts, commitments))
    for part in itertools.chain(every, _terminating(commitments)):
        for root in _roots(tree, part.project):
            if root in domains:
                _add(cells, part.key, domains[root].cells(part))

    def both(project: str, tier: Tier) -> Resources:
        more = cells.get((project, tier), _NO_CELLS)
        return usage(project, tier) + Resources(more) if more else usage(project, tier)

    return both


class InDomains:
    """What is used in domains as far as one cycle has decided. What its decisions give up there is
    free in the next cycle: they are written one after the other, and no account may be above a
    limit meanwhile."""

    def __init__(self, tree: Tree, commitments: CommittedUsage, clusters: Labels) -> None:
        self._tree, self._commitments = tree, commitments
        self._domains = _of_roots(tree, clusters)
        self._roots: dict[str, list[str]] = {}
        """Project -> the trees with domains that it is charged to."""
        self._used: dict[_Key, dict[str, int]] = {}
        for commitment in commitments:
            for key, cells in self._charges(commitment).items():
                _add(self._used, key, cells)
        for part in _terminating(commitments):
            for root in self._of(part.project):
                _add(self._used, part.key, self._domains[root].cells(part))
        self._uses = Uses(tree, self._usage)
        self._counted: dict[str, Mapping[_Key, _Amounts]] = {}
        """uid -> what is counted of a workload that was decided on."""
        self._claimed: dict[str, Mapping[_Key, _Amounts]] = {}
        """uid -> what others have left for a workload, and it has not yet."""
        self.leaves = False
        """Somebody has less in a domain by now."""

    def speak_of(self, project: str) -> bool:
        """Whether an account of its trees limits anything by domain."""
        return bool(self._of(project))

    def over(self, after: Commitment) -> list[Over]:
        """The domains in which the workload would have more than before, and more than its accounts
        have left for it."""
        # What it had already stays its own, even above a limit that was lowered since: quota
        # refuses growth only.
        has, gets = self._had(after), self._cells(after)
        if all(amount <= has.get(name, 0) for name, amount in gets.items()):
            return []
        with self._without(after.uid):
            exceeded = [
                self._over(after, name, domains, has, gets)
                for domains in map(self._domains.__getitem__, self._of(after.project))
                for name in domains.within
            ]
        return [domain for domain in exceeded if domain is not None]

    def roomy(self, uid: str, project: str, tier: Tier, needs: Resources) -> bool:
        """Whether the workload may have all that it needs in any of the domains."""
        with self._without(uid):
            return all(
                needs[resource] <= limit.left
                for root in self._of(project)
                for (domain, of), resources in self._domains[root].limited.items()
                for resource in resources
                if of is tier and needs[resource]
                for limit, _ in self._limits(project, tier, cell(resource, domain))
            )

    def claim(self, uid: str, project: str, tier: Tier, cells: _Amounts) -> None:
        """What others have left for a workload is nobody else's, however it would be had."""
        inside = {name: amount for name, amount in cells.items() if domain_of(name)}
        self._claimed[uid] = {(project, tier): inside}
        self._count(self._claimed[uid])

    def hold(self, after: Commitment) -> None:
        """The workload holds this from now on, and as long as the cycle lasts what it had; and
        claims what it has not got of what others left for it."""
        # A claim stands for what is still to come: what it has got is counted as its own below.
        claims, had = self._claimed.pop(after.uid, {}), self._had(after)
        self._count(claims, -1)
        for (project, tier), cells in claims.items():
            got = {name: amount - had.get(name, 0) for name, amount in self._cells(after).items()}
            left = {name: amount - max(got.get(name, 0), 0) for name, amount in cells.items()}
            self.claim(
                after.uid, project, tier, {of: some for of, some in left.items() if some > 0}
            )
        new, former = self._charges(after), self._now(after.uid)
        both: dict[_Key, _Amounts] = {}
        for key in {**new, **former}:
            has, gets = former.get(key, _NO_CELLS), new.get(key, _NO_CELLS)
            self.leaves |= any(gets.get(name, 0) < amount for name, amount in has.items())
            # The larger of both, because both may be charged for a while: the decisions of a cycle
            # are written one after the other.
            both[key] = {name: max(has.get(name, 0), gets.get(name, 0)) for name in {**has, **gets}}
        self._count(former, -1)
        self._count(both)
        self._counted[after.uid] = both

    def _usage(self, project: str, tier: Tier) -> Resources:
        return Resources(self._used.get((project, tier), _NO_CELLS))

    def _of(self, project: str) -> list[str]:
        if project not in self._roots:
            roots = _roots(self._tree, project)
            self._roots[project] = [root for root in roots if root in self._domains]
        return self._roots[project]

    def _cells(self, commitment: Commitment) -> _Amounts:
        """What its own project and tier are charged."""
        return self._charges(commitment, own=True).get(_key(commitment), _NO_CELLS)

    def _charges(self, commitment: Commitment, *, own: bool = False) -> Mapping[_Key, _Amounts]:
        """What all accounts are charged for it; with `own` only that of its project and tier."""
        cells: dict[_Key, dict[str, int]] = {}
        for part in itertools.islice(_parts(commitment), 1 if own else None):
            for root in self._of(part.project):
                _add(cells, part.key, self._domains[root].cells(part))
        return cells

    def _had(self, after: Commitment) -> _Amounts:
        """What the accounts that it is charged to were charged for it before."""
        before, charged = self._commitments.commitment(after.uid), self._tree.charged
        if before is None or before.tier is not after.tier:
            return _NO_CELLS
        # Another account has given it nothing yet, so all that it gets there is growth.
        same = charged(before.project) == charged(after.project)
        return self._cells(before) if same else _NO_CELLS

    def _now(self, uid: str) -> Mapping[_Key, _Amounts]:
        """What is counted of the workload."""
        if uid in self._counted:
            return self._counted[uid]
        before = self._commitments.commitment(uid)
        return self._charges(before) if before is not None else {}

    @contextmanager
    def _without(self, uid: str) -> Iterator[None]:
        """While what is left for the workload is reckoned."""
        now, claims = self._now(uid), self._claimed.get(uid, {})
        self._count(now, -1)
        self._count(claims, -1)
        yield
        self._count(now)
        self._count(claims)

    def _count(self, cells: Mapping[_Key, _Amounts], sign: int = 1) -> None:
        for key, amounts in cells.items():
            moved = {name: sign * amount for name, amount in amounts.items()}
            _add(self._used, key, moved)
            self._uses.moved(*key, Resources(moved))

    def _limits(self, project: str, tier: Tier, at: str) -> Iterator[tuple[Limit, str]]:
        """Each limit of a cell, with the account that is charged."""
        for account in self._tree.charged(project):
            for limit in self._uses.limits(account, tier, at):
                yield limit, account

    def _over(
        self, after: Commitment, name: str, domains: "_Domains", has: _Amounts, gets: _Amounts
    ) -> Over | None:
        tightest: tuple[int, str] | None = None
        # Sorted: of two limits that are equally tight the message names always the same.
        for resource in sorted(domains.limited.get((name, after.tier), ())):
            at, each = cell(resource, name), after.shape.requests[resource]
            had, amount = has.get(at, 0), gets.get(at, 0)
            if amount <= had:
                continue
            for limit, account in self._limits(after.project, after.tier, at):
                # Never fewer copies than it has: a limit does not stop what runs.
                most = max(limit.left, had) // each
                if amount > limit.left and (tightest is None or most < tightest[0]):
                    tightest = most, _worded(limit, account, resource, name, had)
        return None if tightest is None else Over(name, domains.within[name], *tightest)


def _worded(limit: Limit, account: str, resource: str, domain: str, had: int) -> str:
    """What a limit allows, as it is written, and what the workload has of it: nothing is said of
    what others use."""
    stated = quantity.render_amount(resource, limit.bound.stated or 0)
    above = "" if limit.account == account else f", above {account},"
    return (
        f"FederatedQuota {limit.account}{above} allows {stated} {resource} in {domain}"
        f" (spec.domains), of which this workload uses {quantity.render_amount(resource, had)},"
        " and too little is left"
    )


class _Domains:
    """Of one tree. Accounts that name the same domain mean the same clusters."""

    def __init__(self) -> None:
        self.within: dict[str, frozenset[str]] = {}
        """Domain -> its clusters."""
        self.limited: dict[_Key, frozenset[str]] = {}
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

    def cells(self, part: "_AccountPart") -> _Amounts:
        """What it uses in each domain."""
        cells: dict[str, int] = {}
        for name, clusters in self.within.items():
            limited = self.limited.get((name, part.tier))
            if not limited:
                continue
            copies = sum(copies for cluster, copies in part.copies if cluster in clusters)
            for resource in limited:
                if amount := part.requests[resource] * copies:
                    cells[cell(resource, name)] = amount
        return cells


def _of_roots(tree: Tree, clusters: Labels) -> dict[str, _Domains]:
    """The trees that limit anything by domain."""
    every = {root: _Domains.of(tree, root, clusters) for root in tree.roots}
    return {root: domains for root, domains in every.items() if domains.limited}


def _roots(tree: Tree, project: str) -> list[str]:
    """The trees that a project is charged to."""
    return sorted({tree.path(name)[-1] for name in tree.charged(project)})


@dataclass(frozen=True, slots=True)
class _AccountPart:
    """What one account is charged for a commitment."""

    project: str
    tier: Tier
    requests: Resources
    copies: list[tuple[str, int]]
    """By cluster."""

    @property
    def key(self) -> _Key:
        return self.project, self.tier


def _parts(commitment: Commitment) -> Iterator[_AccountPart]:
    """What its own project and tier are charged first, then what others are in addition."""
    yield _AccountPart(
        commitment.project,
        commitment.tier,
        commitment.shape.requests,
        [(holding.cluster, copies_of(holding)) for holding in commitment.holdings],
    )
    yield from map(_besides, commitment.former)


def _terminating(commitments: CommittedUsage) -> Iterator[_AccountPart]:
    """What accounts are charged for pods beyond commitments."""
    return map(_besides, itertools.chain.from_iterable(commitments.terminating.values()))


def _besides(left: Former) -> _AccountPart:
    there = [(held.cluster, held.copies) for held in left.held]
    return _AccountPart(left.project, left.tier, left.requests, there)


def _key(commitment: Commitment) -> _Key:
    return commitment.project, commitment.tier


def _add(cells: dict[_Key, dict[str, int]], key: _Key, more: _Amounts) -> None:
    if more:
        mine = cells.setdefault(key, {})
        for name, amount in more.items():
            mine[name] = mine.get(name, 0) + amount


def _matching(selector: LabelSelector, clusters: Labels) -> frozenset[str]:
    return frozenset(name for name, labels in clusters.items() if selector.matches(labels))
