"""FederatedQuota: what the projects of one account may use over all clusters. Schema and
conversion."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import doorfields, raw
from federator.api.clusterchoice import Selector, selector_of
from federator.api.common import (
    LIST_SET,
    Amount,
    Amounts,
    Conditions,
    Count,
    FederationObject,
    Int32,
    Model,
    ObjectName,
    Owner,
    ShortText,
    many,
    rules,
)
from federator.api.raw import Obj
from federator.model import plaintext
from federator.model.accounts import (
    Balance,
    Domain,
    Fungibility,
    Ordering,
    Preemption,
    QuotaAccount,
    Take,
    TakesRoom,
    TierQuota,
)
from federator.model.ask import Tier
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity, selectors
from federator.model.resources import ZERO, Resources, cell

KIND: Final = "FederatedQuota"
VALID: Final = "Valid"
"""The condition that says whether anything is wrong with the account."""
_ORDERINGS: Final = {str(ordering): ordering for ordering in Ordering}
COMPARED: Final = ("cpu", "memory", "nvidia.com/gpu")
"""Resources for which the API server compares the guarantee with the maximum when an account is
written. For the others a condition of the account reports it. API servers estimate the cost of a
rule for amounts as long as a request may be, and accept no rule that compares all resources."""
ABOVE_MAX = "guaranteed may not be above max"
MAX_OR_BORROWING = (
    "max and borrowingLimit say the same (max = guaranteed + borrowingLimit): only one of them"
)
NOBODY_ELSE = "borrowingLimit and lendingLimit are for accounts with a parent"
OWN_PARENT = "an account is not its own parent"
NOT_ROOT = "unknownProjects is said by an account without a parent"
ROOTS_ORDER = "ordering and fairSharing are said by an account without a parent"


class Limits(Model):
    """Limits in one tier."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.max) || !has(self.borrowingLimit)", MAX_OR_BORROWING),
        )
    )

    guaranteed: Amounts | None = None
    """What is promised to this account and those below it. Without a parent also the most that they
    may use, where max says nothing."""
    max: Amounts | None = None
    """What it may use at most, with those below it; when left out, what its parent leaves."""
    borrowing_limit: Amounts | None = None
    """Of an account with a parent: what it may use at most beyond its guarantee. When left out, all
    that its parent has idle; in tier Reserved nothing."""
    lending_limit: Amounts | None = None
    """Of an account with a parent: what others may use of its guarantee at most while it is idle.
    When left out, all of it; in tier Reserved nothing."""

    @model_validator(mode="after")
    def _within(self) -> "Limits":
        most = self.max or {}
        least = self.guaranteed or {}
        both = (name for name in COMPARED if name in least and name in most)
        if any(
            quantity.from_json(least[name]).nanos > quantity.from_json(most[name]).nanos
            for name in both
        ):
            raise PydanticCustomError("guaranteed", ABOVE_MAX)
        if self.max is not None and self.borrowing_limit is not None:
            raise PydanticCustomError("borrowing_limit", MAX_OR_BORROWING)
        return self

    @property
    def shared(self) -> bool:
        """Whether it says what is borrowed or lent."""
        return self.borrowing_limit is not None or self.lending_limit is not None


class TierLimits(Limits):
    """Limits in one tier."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!has(self.guaranteed) || !has(self.max) || {list(COMPARED)}"
                ".all(name, !(name in self.guaranteed) || !(name in self.max)"
                " || quantity(string(self.guaranteed[name]))"
                ".compareTo(quantity(string(self.max[name]))) <= 0)",
                ABOVE_MAX,
            ),
            ("!has(self.max) || !has(self.borrowingLimit)", MAX_OR_BORROWING),
        )
    )


class Tiers(Model):
    """Limits by tier. In a tier that is left out nothing limits the account."""

    reserved: TierLimits | None = Field(default=None, alias="Reserved")
    """Limits of workloads of tier Reserved."""
    on_demand: TierLimits | None = Field(default=None, alias="OnDemand")
    """Limits of workloads of tier OnDemand."""
    preemptible: TierLimits | None = Field(default=None, alias="Preemptible")
    """Limits of workloads of tier Preemptible."""


class DomainTiers(Model):
    """Limits by tier in one domain. An API server takes no rule that compares amounts in each of
    many domains: `federator validate` does."""

    reserved: Limits | None = Field(default=None, alias="Reserved")
    """Limits of workloads of tier Reserved."""
    on_demand: Limits | None = Field(default=None, alias="OnDemand")
    """Limits of workloads of tier OnDemand."""
    preemptible: Limits | None = Field(default=None, alias="Preemptible")
    """Limits of workloads of tier Preemptible."""


class DomainLimits(Model):
    """Limits in the clusters of one domain."""

    name: ShortText = ""
    """By what the domain is shown, and told from others; the text of its selector when left out.
    Accounts of one tree mean the same domain by the same name."""
    selector: Selector
    """The clusters of the domain."""
    tiers: DomainTiers
    """Limits by tier. What they say of a resource holds in these clusters."""


class WhileBorrowing(Model):
    """When others leave although the account borrows itself."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """LowerPriority: workloads of other accounts that borrow, with a lower priority."""
    max_priority_threshold: Int32 | None = None
    """Only those with a priority up to this."""


class PreemptionRules(Model):
    """What may be preempted when a workload of this account lacks quota: nothing if left out."""

    within_project: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Workloads of the same account, by priority; with LowerOrNewerEqualPriority also newer ones of
    the same priority."""
    reclaim: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"] = "Never"
    """Workloads of other accounts that hold more than is guaranteed to these, by priority; Any:
    whatever their priority."""
    while_borrowing: WhileBorrowing | None = None
    """When the account borrows itself. Nobody when left out."""
    room: Literal["Never", "Preemptible", "Borrowed"] = "Never"
    """Preemptible: work of that tier leaves when a workload of another tier has quota and finds no
    room, as far as its account holds more than is guaranteed to it there. Borrowed: besides, for
    what is guaranteed to this account, work of tier OnDemand that its own guarantee does not cover,
    after its notice."""


class FairSharing(Model):
    """Rules under ordering FairShare."""

    preemption_strategies: list[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]] = (
        many(2)
    )
    """Rules by which a victim is selected, tried in this order; both when empty. The preemptor's
    share is at most what the victim's account has left, or less than what that account has."""


class DomainChoice(Model):
    """When the first usable domain is enough, and which of several is taken."""

    when_can_borrow: Literal["Borrow", "TryNextDomain"] = "Borrow"
    """Whether a domain is enough in which the account has to borrow."""
    when_can_preempt: Literal["Preempt", "TryNextDomain"] = "TryNextDomain"
    """Whether a domain is enough in which others have to leave."""
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = (
        "BorrowingOverPreemption"
    )
    """Of several domains the one in which it has to borrow, or the one in which others have to
    leave."""


Grace = Annotated[int, Field(ge=30, le=2**31 - 1, json_schema_extra={"format": "int32"})]
"""Seconds that pods may take to end."""


class Spec(doorfields.DoorFields):
    """What the account may use."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.parent) || !has(self.unknownProjects)", NOT_ROOT),
            ("!has(self.parent) || (!has(self.ordering) && !has(self.fairSharing))", ROOTS_ORDER),
            (
                "has(self.parent) || !has(self.tiers) || "
                + " && ".join(
                    f"(!has(self.tiers.{tier})"
                    f" || (!has(self.tiers.{tier}.borrowingLimit)"
                    f" && !has(self.tiers.{tier}.lendingLimit)))"
                    for tier in Tier
                ),
                NOBODY_ELSE,
            ),
        )
    )

    owner: Owner | None = None
    """The owner of this account. Pods of its projects get the team's name, also those of accounts
    below it that name no owner."""
    parent: ObjectName | None = None
    """Account that this one is a part of. Its limits hold for all accounts below it together, and
    what one of them has idle the others may borrow."""
    weight: Annotated[int, Field(ge=0, le=1_000, json_schema_extra={"format": "int32"})] | None = (
        None
    )
    """Of its projects where the order is decided by what each uses: with 2, twice the use counts
    like that of others. With 0 they come after all that have a weight. 1 when left out."""
    projects: list[Annotated[str, Field(min_length=1, max_length=63)]] = many(256, LIST_SET)
    """Projects that are charged to this account."""
    namespaces: list[Annotated[str, Field(min_length=1, max_length=63)]] = many(256, LIST_SET)
    """Namespaces bound to these projects; workloads of other namespaces may not name them. Every
    namespace when empty."""
    tiers: Tiers | None = None
    """Limits by tier."""
    domains: list[DomainLimits] = many(32)
    """Limits in parts of the fleet, in the order in which they are tried: a workload gets all that
    they limit in one of them."""
    domain_choice: DomainChoice | None = None
    """How one of several domains is taken."""
    preemption: PreemptionRules | None = None
    """What may be preempted when a workload of this account lacks quota: nothing when left out."""
    reclaim_notice_seconds: Count | None = None
    """Others that leave for a workload of this account are told so long before, except in tier
    Preemptible. They leave at once when left out."""
    ordering: Literal["Priority", "FairShare", "BorrowLast"] | None = None
    """Of an account without a parent: which workloads are first in its tree; then the higher
    priority, then the older. BorrowLast when left out: workloads that borrow less are first."""
    queueing: Literal["BestEffort", "StrictFIFO", "Backfilling"] | None = None
    """StrictFIFO: while the first of its waiting workloads does not fit, none after it is admitted.
    Backfilling: room is kept for the first of them, here or below, that waits for room in one
    cluster; others may use it that have ended by then. BestEffort when left out."""
    fair_sharing: FairSharing | None = None
    """Of an account without a parent: rules under ordering FairShare."""
    max_priority: Int32 | None = None
    """Highest priority that a workload may ask for, also below this account."""
    max_concurrent_workloads: Count | None = None
    """At most this many workloads of the account and of those below it hold anything at a time."""
    max_termination_grace_period_seconds: Grace | None = None
    """Longest terminationGracePeriodSeconds that pods of these projects may have: so long, pods
    that are deleted may run on. Any when left out; 30, which Kubernetes takes where a template says
    nothing, is the least."""
    default_requests: Amounts | None = None
    """What each copy is charged of a resource that its containers do not request, in quota and in
    room: cpu 100m and memory 200Mi when left out. Its pods are not changed."""
    unknown_projects: Literal["Allow", "Refuse"] | None = None
    """Of an account without a parent: whether workloads may name a project that no account has.
    Refuse when no account says Allow, or one says Refuse."""

    @model_validator(mode="after")
    def _root(self) -> "Spec":
        if self.parent is not None and self.unknown_projects is not None:
            raise PydanticCustomError("unknown_projects", NOT_ROOT)
        if self.parent is not None and (self.ordering or self.fair_sharing):
            raise PydanticCustomError("ordering", ROOTS_ORDER)
        tiers = self.tiers or Tiers()
        said = (tiers.reserved, tiers.on_demand, tiers.preemptible)
        if self.parent is None and any(limits is not None and limits.shared for limits in said):
            raise PydanticCustomError("parent", NOBODY_ELSE)
        return self


class TierUsage(Model):
    """Usage in one tier."""

    tier: Literal["Reserved", "OnDemand", "Preemptible"]
    """The tier."""
    used: Amounts = Field(default_factory=dict)
    """The sum over the decisions in force and terminating pods, with those of the accounts below.
    """
    guaranteed: Amounts | None = None
    """What is guaranteed to an account of a tree: its own guarantee, or the sum of those below it.
    """
    terminating: Amounts | None = None
    """Of what is used, what pods of its own projects use beyond decisions: they are terminating, or
    no decision gives them any more."""
    borrowed: Amounts | None = None
    """Of what is used, what is guaranteed to others or to nobody."""
    lent: Amounts | None = None
    """Of what is guaranteed to it, what accounts that are not below it use."""


class Status(Model):
    """What is used."""

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Valid: whether anything is wrong with the account; if so, what, and in which field."""
    workloads: Amount = 0
    """Workloads that hold something, with those of the accounts below."""
    waiting: Amount | None = None
    """Workloads that lack copies because of a quota, with those of the accounts below; left out
    while there are none."""
    summary: ShortText = ""
    """One line for tables."""
    usage: list[TierUsage] = many(
        8,
        {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["tier"],
        },
    )
    """Usage by tier."""


class FederatedQuota(FederationObject):
    """What the projects of one account may use over all clusters."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.spec.parent) || self.spec.parent != self.metadata.name", OWN_PARENT)
        )
    )

    kind: Literal["FederatedQuota"]
    """FederatedQuota."""
    spec: Spec
    """What the account may use."""
    status: Status | None = None
    """What is used."""

    @model_validator(mode="after")
    def _above(self) -> "FederatedQuota":
        if self.spec.parent is not None and self.spec.parent == self.metadata.name:
            raise PydanticCustomError("parent", OWN_PARENT)
        return self


def to_account(obj: Obj) -> QuotaAccount:
    """The account as the core reads it. Amounts that are no quantities count as zero: they grant
    nothing."""
    spec = raw.mapping(obj, "spec")
    tiers = raw.mapping(spec, "tiers")
    maximum = raw.integer(spec, "maxConcurrentWorkloads", default=-1)
    defaults = spec.get("defaultRequests")
    return QuotaAccount(
        name=raw.text(obj, "metadata", "name"),
        uid=raw.text(obj, "metadata", "uid"),
        generation=raw.integer(obj, "metadata", "generation"),
        projects=frozenset(raw.texts(spec, "projects")),
        namespaces=frozenset(raw.texts(spec, "namespaces")),
        tiers=_by_tier(tiers, spec),
        max_priority=spec["maxPriority"] if _is_integer(spec.get("maxPriority")) else None,
        max_concurrent=maximum if maximum >= 0 else None,
        parent=raw.text(spec, "parent"),
        owner=raw.text(spec, "owner", "team"),
        weight=max(raw.integer(spec, "weight", default=1), 0),
        unknown_projects={"Allow": True, "Refuse": False}.get(raw.text(spec, "unknownProjects")),
        defaults=quantity.valid(defaults) if isinstance(defaults, dict) else None,
        **doorfields.lists(spec),
        max_grace_s=raw.integer(spec, "maxTerminationGracePeriodSeconds") or None,
        domains=tuple(_domain(entry) for entry in raw.objects(spec, "domains")),
        preemption=_preemption(raw.mapping(spec, "preemption")),
        notice_s=max(raw.integer(spec, "reclaimNoticeSeconds"), 0),
        fungibility=_fungibility(raw.mapping(spec, "domainChoice")),
        ordering=_ORDERINGS.get(raw.text(spec, "ordering")),
        strict=raw.text(spec, "queueing") == "StrictFIFO",
        backfills=raw.text(spec, "queueing") == "Backfilling",
        strategies=raw.texts(spec, "fairSharing", "preemptionStrategies"),
        unread=(
            *_unread(tiers, "spec.tiers"),
            *(
                problem
                for at, entry in enumerate(raw.objects(spec, "domains"))
                for problem in _unread(raw.mapping(entry, "tiers"), f"spec.domains[{at}].tiers")
            ),
        ),
    )


def _by_tier(tiers: Obj, spec: Obj) -> dict[Tier, TierQuota]:
    """The limits over all clusters, with those of domains under names of their own."""
    by_tier = {tier: _limits(raw.mapping(tiers, tier)) for tier in Tier if tier in tiers}
    for entry in raw.objects(spec, "domains"):
        name, limited = _domain_name(entry), raw.mapping(entry, "tiers")
        for tier in Tier:
            if tier in limited:
                more = _limits(raw.mapping(limited, tier), name)
                before = by_tier.get(tier)
                by_tier[tier] = more if before is None else _joined(before, more)
    return by_tier


def _joined(mine: TierQuota, other: TierQuota) -> TierQuota:
    """Of limits of different names."""
    most = mine.maximum if other.maximum is None else (mine.maximum or ZERO) + other.maximum
    return TierQuota(
        mine.guaranteed + other.guaranteed,
        most,
        mine.barred | other.barred,
        mine.withheld | other.withheld,
        {**mine.borrowing, **other.borrowing},
        {**mine.lending, **other.lending},
    )


def _domain_name(entry: Obj) -> str:
    selector = selector_of(entry.get("selector")) or selectors.NOTHING
    return raw.text(entry, "name") or selectors.to_text(selector)


def _domain(entry: Obj) -> Domain:
    tiers = raw.mapping(entry, "tiers")
    return Domain(
        _domain_name(entry),
        selector_of(entry.get("selector")) or selectors.NOTHING,
        {
            tier: frozenset(
                name for limits in raw.mapping(tiers, tier).values() for name in limits or ()
            )
            for tier in Tier
            if tier in tiers
        },
    )


def _preemption(rules: Obj) -> Preemption:
    borrowing = raw.mapping(rules, "whileBorrowing")
    threshold = borrowing.get("maxPriorityThreshold")
    return Preemption(
        within=_take(raw.text(rules, "withinProject")),
        reclaim=_take(raw.text(rules, "reclaim")),
        while_borrowing=_take(raw.text(borrowing, "policy")),
        threshold=threshold if _is_integer(threshold) else None,
        room=next((take for take in TakesRoom if take == raw.text(rules, "room")), TakesRoom.NEVER),
    )


def _take(text: str) -> Take:
    return next((take for take in Take if take == text), Take.NEVER)


def _fungibility(rules: Obj) -> Fungibility:
    return Fungibility(
        borrow_first=raw.text(rules, "whenCanBorrow") != "TryNextDomain",
        preempt_first=raw.text(rules, "whenCanPreempt") == "Preempt",
        preemption_over_borrowing=raw.text(rules, "preference") == "PreemptionOverBorrowing",
    )


def to_status(
    account: QuotaAccount,
    usage: Mapping[Tier, Mapping[str, Balance]],
    workloads: int,
    waiting: int,
    terminating: Mapping[Tier, Resources],
    *,
    alone: bool,
) -> dict[str, Any]:
    """`.status` from what the decisions in force add up to. `usage`: by tier and resource. Every
    limited tier is shown, also when nothing is used. `alone`: it has neither a parent nor accounts
    below it, and borrows and lends nothing."""
    used = {
        tier: Resources({name: balance.used for name, balance in usage.get(tier, {}).items()})
        for tier in Tier
    }
    promised = {tier for tier, of in usage.items() if any(row.guaranteed for row in of.values())}
    shown = [tier for tier in Tier if tier in account.tiers or used[tier] or tier in promised]
    rows = []
    for tier in shown:
        row: dict[str, Any] = {"tier": str(tier), "used": quantity.render(used[tier])}
        row["terminating"] = quantity.render(terminating.get(tier, Resources())) or None
        if not alone:
            balances = usage.get(tier, {}).items()
            row["guaranteed"] = _rendered({name: each.guaranteed or 0 for name, each in balances})
            row["borrowed"] = _rendered({name: each.borrowed for name, each in balances})
            row["lent"] = _rendered({name: each.lent for name, each in balances})
        rows.append({name: value for name, value in row.items() if value is not None})
    status = {
        "observedGeneration": account.generation,
        "workloads": workloads,
        "summary": _summary(account, used, shown),
        "usage": rows,
    }
    return status | ({"waiting": waiting} if waiting else {})


def _summary(account: QuotaAccount, used: Mapping[Tier, Resources], shown: Sequence[Tier]) -> str:
    """Used and allowed CPUs by tier, those in use first."""
    parts = []
    for tier in sorted(shown, key=lambda tier: not used[tier]):
        limit = account.tiers[tier].maximum if tier in account.tiers else None
        of = f" of {limit['cpu'] / 1000:g}" if limit is not None and "cpu" in limit else ""
        parts.append(f"{tier} {used[tier]['cpu'] / 1000:g}{of} cpu")
    return plaintext.clipped(", ".join(parts), plaintext.STATUS_MAX)


def _rendered(amounts: Mapping[str, int]) -> dict[str, str] | None:
    return quantity.render(Resources(amounts)) or None


def _limits(limits: Obj, domain: str = "") -> TierQuota:
    """`domain`: for which they are; "" over all clusters."""
    maximum = (
        quantity.valid(raw.mapping(limits, "max")) if isinstance(limits.get("max"), dict) else None
    )
    guaranteed = quantity.valid(raw.mapping(limits, "guaranteed"))
    zero = {
        cell(name, domain)
        for name in raw.mapping(limits, "max")
        if maximum is not None and not maximum[name]
    }
    withheld = {
        cell(name, domain) for name in raw.mapping(limits, "guaranteed") if not guaranteed[name]
    }
    borrowing, lending = (
        {
            cell(name, domain): quantity.valid({name: value})[name]
            for name, value in raw.mapping(limits, field).items()
        }
        for field in ("borrowingLimit", "lendingLimit")
    )
    return TierQuota(
        _in(guaranteed, domain),
        None if maximum is None else _in(maximum, domain),
        frozenset(zero),
        frozenset(withheld),
        borrowing,
        lending,
    )


def _in(amounts: Resources, domain: str) -> Resources:
    if not domain:
        return amounts
    return Resources({cell(name, domain): amount for name, amount in amounts.items()})


def _unread(tiers: Obj, where: str) -> Iterator[str]:
    """A sentence for each amount that is no quantity, or too large."""
    for tier in Tier:
        for field in ("guaranteed", "max", "borrowingLimit", "lendingLimit"):
            for name, value in raw.mapping(tiers, tier, field).items():
                try:
                    quantity.vector({name: value})
                except FieldError as error:
                    yield f"{where}.{tier}.{field}.{error}; it counts as 0"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
