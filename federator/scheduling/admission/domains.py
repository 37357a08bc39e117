"""In which domain of clusters a workload gets its quota, and whether somebody has to leave for it.

An account lists its domains in order; resources that it limits in the same ones belong together.
For each such group of resources the domains are tried in that order, and the best is taken: free
quota before what can be reclaimed, that before what only its own account gives, and of equals what
borrows least far up the tree (`fungibility` says when the first usable one is enough).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from federator.model.accounts import Domain, Fungibility, Ordering, QuotaAccount, Take
from federator.model.ask import Tier
from federator.model.resources import Resources, cell, domain_of, resource_of
from federator.placement.quota.tree import Tree
from federator.scheduling.admission.holders import Preemptor, ShortClusters, Victim, Why, scaled
from federator.scheduling.admission.tree_usage import TreeUsage

Victims = Callable[[Preemptor], tuple[Victim, ...] | None]
"""The victims of a preemptor."""


Whence = Callable[[Sequence[Victim]], Iterable[tuple[Victim, Mapping[str, int] | None]]]
"""Each with cluster -> copies of it that leave there; None for anywhere."""


def always(_: tuple[Victim, ...], __: int) -> bool:
    """Accepts any victims."""
    return True


def anywhere(victims: Sequence[Victim]) -> Iterable[tuple[Victim, None]]:
    """Its copies go where room is seen free."""
    return ((victim, None) for victim in victims)


class Mode(IntEnum):
    """How the quota could be had; more is better."""

    NEVER = 0
    """More than it could have if nobody used anything, or nothing may be taken."""
    NOBODY_LEAVES = 1
    """Too little is free, and nothing that may leave helps."""
    OWN_LEAVES = 2
    """Others of its own account would leave."""
    RECLAIMED = 3
    """Only holders of other accounts would leave."""
    FREE = 4


@dataclass(frozen=True, slots=True)
class Want:
    """What a workload still lacks: `each` for every copy."""

    node: str
    """The leaf of its account."""
    priority: int
    created_s: float
    each: Resources
    copies: int
    least: int
    """Fewer copies are of no use."""
    allowed: Callable[[str], bool]
    """Whether its policy leaves it a cluster in this domain."""
    edit_of: str = ""
    """The uid of the running workload that asks for so much more, of which nothing leaves for it;
    "" for copies that it does not have."""
    follows: frozenset[str] = frozenset()
    """The uids of workloads near which alone it can begin. They leave for it last (`following`)."""
    cells: Callable[[int], Mapping[str, int]] | None = None
    """So many copies -> cell -> amount, where it chooses no domain: copies of an edit are where
    they are, and what is everywhere is in all of them."""
    there: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> copies that it lacks there, of what is everywhere."""
    outside: bool = False
    """Whether copies of it are in no domain of those in which alone the tree gives that."""
    gives: tuple[str, Mapping[str, int]] | None = None
    """What its copies hold now that come to this account from another of the tree: that leaf, and
    cell -> amount."""
    helped: Callable[[tuple[Victim, ...], int], bool] = always
    """Whether so many copies can begin when these have left: of no use to it, they do not leave."""
    whence: Whence = anywhere
    """Where those leave that leave for it."""
    place: Callable[[], ShortClusters] | None = None
    """Where it lacks room; None where nobody need leave for it in certain clusters."""

    def preemptor(
        self, needs: Mapping[str, int], short: frozenset[str], *, follows: bool = False
    ) -> Preemptor:
        """For victims of which it needs so much. `follows`: not those that it follows."""
        spares = frozenset({self.edit_of}) if self.edit_of else frozenset[str]()
        if follows:
            spares |= self.follows
        return Preemptor(self.node, self.priority, self.created_s, needs, short, spares)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a number of copies would get their quota."""

    copies: int
    mode: Mode
    height: int
    """How far up the tree it borrows; 0 within its guarantee."""
    needs: Mapping[str, int]
    """Cell -> amount, for all copies."""
    short: frozenset[str]
    """Cells of which too little is free."""
    domains: tuple[str, ...]
    """The domains in which its clusters have to be, of all of them."""


@dataclass(frozen=True, slots=True)
class _Option:
    mode: Mode
    height: int
    cells: Mapping[str, int]
    short: frozenset[str]
    domain: str = ""


def assign(want: Want, copies: int, usage: TreeUsage, victims: Victims) -> Assignment:
    """The best domains for so many copies."""
    account = usage.tree.accounts[usage.account[want.node]]
    search = _DomainSearch(want, usage, victims, account)
    # No victim helps: the tree gives the resource in domains only, and copies do not move to one.
    if want.outside:
        return Assignment(copies, Mode.NEVER, 0, {}, frozenset(), ())
    if want.cells is not None:
        there = search.judged(want.cells(copies))
        return Assignment(copies, there.mode, there.height, there.cells, there.short, ())
    needs = want.each * copies
    parts: list[_Option] = []
    for resources, names in groups(account, usage.tier, needs):
        amounts = {name: needs[name] for name in resources if needs[name] > 0}
        options: Sequence[str] = [name for name in names if want.allowed(name)]
        if not names and not any(_by_domain(name, usage) for name in resources):
            options = [""]
        parts.append(search.best(amounts, options))
    # A copy needs all groups of resources, so the worst of them decides.
    modes = [part.mode for part in parts]
    return Assignment(
        copies=copies,
        mode=min(modes, default=Mode.FREE),
        height=max((part.height for part in parts), default=0),
        needs={name: amount for part in parts for name, amount in part.cells.items()},
        short=frozenset(name for part in parts for name in part.short),
        domains=tuple(part.domain for part in parts if part.domain),
    )


def groups(
    account: QuotaAccount, tier: Tier, needs: Resources
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The resources of an ask with the account's domains for them, in its order; those that it does
    not limit by domain with none."""
    leaving: dict[tuple[str, ...], list[str]] = {}
    for resource in needs:
        names = tuple(
            domain.name for domain in account.domains if resource in domain.limited.get(tier, ())
        )
        leaving.setdefault(names, []).append(resource)
    return [(tuple(resources), names) for names, resources in leaving.items()]


def _by_domain(resource: str, usage: TreeUsage) -> bool:
    """Whether any account of the tree limits it by domain: then it is had in a domain or not at
    all."""
    return any(resource_of(name) == resource and domain_of(name) for name in usage.bounds)


@dataclass(frozen=True, slots=True)
class _DomainSearch:
    """The domains for one group of resources of one workload."""

    want: Want
    usage: TreeUsage
    victims: Victims
    account: QuotaAccount

    def best(self, amounts: Mapping[str, int], names: Sequence[str]) -> _Option:
        rules, best = self.account.fungibility, _Option(Mode.NEVER, 0, {}, frozenset())
        for name in names:
            option = self._option(amounts, name)
            if _enough(option, rules):
                return option
            # Of equals the earlier stays: the order of the account's domains is its wish.
            if best.domain == "" or _better(option, best, rules):
                best = option
        return best

    def _option(self, amounts: Mapping[str, int], name: str) -> _Option:
        """What one domain has to offer."""
        cells = {cell(resource, name): amount for resource, amount in amounts.items()}
        if name:  # what is limited over all clusters besides
            cells |= {
                subject: most for subject, most in amounts.items() if subject in self.usage.bounds
            }
        return self.judged(cells, name)

    def judged(self, cells: Mapping[str, int], name: str = "") -> _Option:
        """How so much of these cells could be had; the worst counts."""
        worst, short = _Option(Mode.FREE, 0, cells, frozenset(), name), set()
        for subject, amount in cells.items():
            mode, height = self._judged(subject, amount)
            if mode is not Mode.FREE:
                short.add(subject)
            option = _Option(mode, height, cells, frozenset(), name)
            if _better(worst, option, self.account.fungibility):
                worst = option
        return _Option(worst.mode, worst.height, cells, frozenset(short), name)

    def _judged(self, subject: str, amount: int) -> tuple[Mode, int]:
        """How so much of one cell could be had, and how far up the tree it is borrowed."""
        usage, want, account = self.usage, self.want, self.account
        # First, as Kueue's NoFit: nobody may leave for what can never fit, however much is free.
        if amount > usage.ever(want.node, subject):
            return Mode.NEVER, 0
        height, within = usage.lowest(want.node, subject, amount)
        if amount <= usage.available(want.node, subject):
            # Where nobody is guaranteed anything of it, nothing is borrowed from anybody.
            return Mode.FREE, height if usage.promised(subject) else 0
        # Kueue's rule: within its guarantee an account always preempts, beyond it only if its rules
        # say so.
        guaranteed = amount <= usage.bounds[subject][want.node].pool
        if not (guaranteed or within or _while_borrowing(account, usage)):
            return Mode.NEVER, height
        leaving = self.victims(want.preemptor({subject: amount}, frozenset({subject})))
        if not leaving:
            return Mode.NOBODY_LEAVES, height
        for victim in leaving:
            usage.add(victim.holder.node, scaled(victim.holder.each, -victim.copies))
        height, _ = usage.lowest(want.node, subject, amount)
        for victim in leaving:
            usage.add(victim.holder.node, scaled(victim.holder.each, victim.copies))
        own = any(victim.why is Why.WITHIN for victim in leaving)
        return Mode.OWN_LEAVES if own else Mode.RECLAIMED, height


def _while_borrowing(account: QuotaAccount, usage: TreeUsage) -> bool:
    """Whether others may leave for the account although it borrows."""
    rules = account.preemption
    fair = usage.tree.accounts[usage.root].ordering is Ordering.FAIR_SHARE
    return rules.while_borrowing is not Take.NEVER or (fair and rules.reclaim is not Take.NEVER)


def _enough(option: _Option, rules: Fungibility) -> bool:
    """Whether later domains are not looked at."""
    borrows = option.height > 0
    if option.mode is Mode.FREE:
        return not borrows or rules.borrow_first
    if option.mode in (Mode.OWN_LEAVES, Mode.RECLAIMED):
        return rules.preempt_first and (not borrows or rules.borrow_first)
    return False


def _over_borrowing(option: _Option) -> tuple[bool, int, Mode]:
    """The order of domains where others leave rather than the account borrows. Where too little is
    free and nobody may leave, a workload would only wait: it borrows in another domain instead."""
    return option.mode is not Mode.NOBODY_LEAVES, -option.height, option.mode


def _better(subject: _Option, other: _Option, rules: Fungibility) -> bool:
    if subject.mode is Mode.NEVER or other.mode is Mode.NEVER:
        return subject.mode is not Mode.NEVER and other.mode is Mode.NEVER
    if rules.preemption_over_borrowing:
        return _over_borrowing(subject) > _over_borrowing(other)
    return (subject.mode, -subject.height) > (other.mode, -other.height)


def nobody(_: Preemptor) -> None:
    """Nobody is asked to leave."""


def of_tree(tree: Tree, root: str) -> dict[str, Domain]:
    """All domains of a tree, by name, with all that any account of it limits there."""
    every: dict[str, Domain] = {}
    for name in reversed(tree.family(root)):
        for domain in tree.accounts[name].domains:
            before = every.get(domain.name, domain).limited
            limited = {
                tier: before.get(tier, frozenset()) | domain.limited.get(tier, frozenset())
                for tier in {*before, *domain.limited}
            }
            every[domain.name] = replace(domain, limited=limited)
    return every
