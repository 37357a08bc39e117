"""Accounts of quotas: limits by tier, and what of them is borrowed and lent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from federator.model.ask import Tier
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.resources import ZERO, Resources


@dataclass(frozen=True, slots=True)
class TierQuota:
    """Limits of one account in one tier. Of an account that stands alone a resource is limited by
    `maximum` where that names it, else by `guaranteed`; otherwise not at all. With a parent:
    `placement.quota.tree`."""

    guaranteed: Resources = ZERO
    maximum: Resources | None = None
    barred: frozenset[str] = frozenset()
    """Resources with a maximum of zero: a vector keeps no zeros, and absence means no limit."""
    withheld: frozenset[str] = frozenset()
    """Resources with a guaranteed amount of zero: that is the limit where `maximum` does not name
    them."""
    borrowing: Mapping[str, int] = field(default_factory=dict)
    """What it may use at most beyond its guarantee; zeros are kept."""
    lending: Mapping[str, int] = field(default_factory=dict)
    """What others may use of its guarantee at most while it does not; zeros are kept."""


class Take(StrEnum):
    """The workloads that a preemptor may take quota from, by priority."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL = "LowerOrNewerEqualPriority"
    ANY = "Any"


class TakesRoom(StrEnum):
    """The workloads that lose room to those of an account that have quota and find no room."""

    NEVER = "Never"
    PREEMPTIBLE = "Preemptible"
    """Work of tier Preemptible leaves for them."""
    BORROWED = "Borrowed"
    """Besides, for what is guaranteed to the account, work of tier OnDemand that no guarantee of
    its own covers."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The workloads that may be preempted when a workload of an account lacks quota. By default
    none."""

    within: Take = Take.NEVER
    """Workloads of the same account."""
    reclaim: Take = Take.NEVER
    """Workloads of other accounts that hold more than is guaranteed to them."""
    while_borrowing: Take = Take.NEVER
    """LOWER_PRIORITY: of those, with a lower priority, also when the account borrows itself."""
    threshold: int | None = None
    """Of those, only with a priority up to this."""
    room: TakesRoom = TakesRoom.NEVER
    """Workloads that have quota and no room."""

    @property
    def any(self) -> bool:
        return self.within is not Take.NEVER or self.reclaim is not Take.NEVER


class Ordering(StrEnum):
    """Which workload is first in a tree of accounts; then the higher priority, then the older."""

    PRIORITY = "Priority"
    FAIR_SHARE = "FairShare"
    BORROW_LAST = "BorrowLast"


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the first usable domain of an account is enough."""

    borrow_first: bool = True
    """One in which it has to borrow is usable before the next is looked at."""
    preempt_first: bool = False
    """One in which others have to leave is."""
    preemption_over_borrowing: bool = False
    """Of several domains, others leave rather than it borrows."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of clusters for which an account has limits of its own. Its limits are in
    `QuotaAccount.tiers`, under names of `quota.tree.cell`."""

    name: str
    """The selector in its canonical text, unless the account says a name."""
    selector: LabelSelector
    limited: Mapping[Tier, frozenset[str]] = field(default_factory=dict)
    """Tier -> the resources that it limits here."""


@dataclass(frozen=True, slots=True)
class QuotaAccount:
    """One FederatedQuota: the projects it covers, the namespaces bound to them, its limits."""

    name: str
    uid: str = ""
    generation: int = 0
    projects: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    tiers: Mapping[Tier, TierQuota] = field(default_factory=dict)
    max_priority: int | None = None
    max_concurrent: int | None = None
    parent: str = ""
    owner: str = ""
    """The team that it names; "" where it names none."""
    weight: int = 1
    """Of its projects in fair ordering: with 2, twice the use counts like that of others."""
    unknown_projects: bool | None = None
    """Whether a root account admits projects that no account names; None when it does not say."""
    defaults: Resources | None = None
    """What a copy is charged for a resource it does not request; None for `quota.ASSUMED`."""
    service_accounts: tuple[str, ...] = ()
    """Names or patterns (`*` is any text) that its projects' pods may use; the same for the next
    two."""
    iam_roles: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    """Patterns of the host names that its projects' workloads may have; None for all. The same for
    the next two: keys of annotations of Services, and types of Services."""
    service_annotations: tuple[str, ...] | None = None
    service_types: tuple[str, ...] | None = None
    max_grace_s: int | None = None
    """The longest terminationGracePeriodSeconds that its projects' pods may have; None for any."""
    domains: tuple[Domain, ...] = ()
    """In the order in which they are tried: a workload gets all that they limit in one of them."""
    preemption: Preemption = Preemption()
    notice_s: int = 0
    """Between telling others that they leave for a workload of it, and their leaving; tier
    Preemptible leaves at once."""
    fungibility: Fungibility = Fungibility()
    ordering: Ordering | None = None
    """Of an account without a parent: the order in its tree; None where it does not say."""
    strict: bool = False
    """Its first waiting workload lets none of its others go before it (queueing: StrictFIFO)."""
    backfills: bool = False
    """What of it waits for room is kept room (queueing: Backfilling), also below it."""
    strategies: tuple[str, ...] = ()
    """The rules of fair sharing, of an account without a parent; none for the usual ones."""
    unread: tuple[str, ...] = ()
    """A sentence for each amount that could not be read and counts as zero."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What one account uses of one resource in one tier, with all accounts below it."""

    used: int = 0
    guaranteed: int | None = None
    most: int | None = None
    """The most it may use, as it is written; None where nothing limits it."""
    borrowed: int = 0
    """Of what it uses, what is guaranteed to others, or to nobody."""
    lent: int = 0
    """Of what is guaranteed to it, what accounts that are not below it use."""
    lenders: tuple[tuple[str, int], ...] = ()
    """(account, amount) that together are `borrowed`. An account above lends what it has promised
    to nobody."""
