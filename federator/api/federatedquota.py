"""FederatedQuota: what the projects of one account may use over all clusters. Schema and
conversion."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import (
    LIST_SET,
    Amount,
    Amounts,
    Conditions,
    Count,
    Int32,
    Metadata,
    Model,
    ObjectName,
    ShortText,
    rules,
)
from federator.api.raw import Obj
from federator.model.ask import Tier
from federator.model.errors import FieldError
from federator.model.fleet import QuotaAccount, TierQuota
from federator.model.kubernetes import quantity
from federator.model.resources import ZERO, Resources

KIND: Final = "FederatedQuota"
VALID: Final = "Valid"
"""The condition that says whether anything is wrong with the account."""
COMPARED: Final = ("cpu", "memory", "nvidia.com/gpu")
"""Resources whose guarantee is held beside the maximum when an account is written; of the others
its condition tells. API servers reckon a rule with amounts as long as a request may be, and take
none that looks at all of them."""
ABOVE_MAX = "guaranteed may not be above max"
OWN_PARENT = "an account is not its own parent"
NOT_ROOT = "unknownProjects is said by an account without a parent"


class TierLimits(Model):
    """Limits in one tier."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!has(self.guaranteed) || !has(self.max) || {list(COMPARED)}"
                ".all(name, !(name in self.guaranteed) || !(name in self.max)"
                " || quantity(string(self.guaranteed[name]))"
                ".compareTo(quantity(string(self.max[name]))) <= 0)",
                ABOVE_MAX,
            )
        )
    )

    guaranteed: Amounts | None = None
    """What is kept for this account."""
    max: Amounts | None = None
    """What it may use at most; unlimited when left out."""

    @model_validator(mode="after")
    def _within(self) -> "TierLimits":
        most = self.max or {}
        least = self.guaranteed or {}
        both = (name for name in COMPARED if name in least and name in most)
        if any(
            quantity.from_json(least[name]).nanos > quantity.from_json(most[name]).nanos
            for name in both
        ):
            raise PydanticCustomError("guaranteed", ABOVE_MAX)
        return self


class Tiers(Model):
    """Limits by tier. In a tier that is left out nothing limits the account."""

    reserved: TierLimits | None = Field(default=None, alias="Reserved")
    """Limits of workloads of tier Reserved."""
    on_demand: TierLimits | None = Field(default=None, alias="OnDemand")
    """Limits of workloads of tier OnDemand."""
    preemptible: TierLimits | None = Field(default=None, alias="Preemptible")
    """Limits of workloads of tier Preemptible."""


Patterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[-+=,.@_/*a-zA-Z0-9]+$")]],
    Field(max_length=256, json_schema_extra=LIST_SET),
]
"""Names, in which `*` stands for any text."""


class Spec(Model):
    """What the account may use."""

    model_config = ConfigDict(
        json_schema_extra=rules(("!has(self.parent) || !has(self.unknownProjects)", NOT_ROOT))
    )

    parent: ObjectName | None = None
    """Account that this one is a part of. Accounts limit each for itself so far, whatever their
    parents."""
    projects: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]],
        Field(max_length=256, json_schema_extra=LIST_SET),
    ] = Field(default_factory=list)
    """Projects that are charged to this account."""
    namespaces: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]],
        Field(max_length=256, json_schema_extra=LIST_SET),
    ] = Field(default_factory=list)
    """Namespaces bound to these projects; workloads of other namespaces may not name them. Every
    namespace when empty."""
    tiers: Tiers | None = None
    """Limits by tier."""
    max_priority: Int32 | None = None
    """Highest priority that a workload may ask for."""
    max_concurrent_workloads: Count | None = None
    """At most this many workloads hold anything at a time."""
    default_requests: Amounts | None = None
    """What each copy is charged of a resource that its containers do not request, in quota and in
    room: cpu 100m and memory 200Mi when left out. Its pods are not changed."""
    unknown_projects: Literal["Allow", "Refuse"] | None = None
    """Of an account without a parent: whether workloads may name a project that no account has.
    Refuse when no account says Allow, or one says Refuse."""

    service_accounts: Patterns = Field(default_factory=list)
    """Service accounts that pods of these projects may name, beside `default` and one of the
    workload's own name; `*` stands for any text. No others when empty."""
    iam_roles: Patterns = Field(default_factory=list)
    """IAM roles that workloads of these projects may have, `*` standing for any text. None when
    empty."""
    priority_classes: Patterns = Field(default_factory=list)
    """Priority classes that pods of these projects may name, beside that of their tier; `*` stands
    for any text. No others when empty."""

    @model_validator(mode="after")
    def _root(self) -> "Spec":
        if self.parent is not None and self.unknown_projects is not None:
            raise PydanticCustomError("unknown_projects", NOT_ROOT)
        return self


class TierUsage(Model):
    """Usage in one tier."""

    tier: Literal["Reserved", "OnDemand", "Preemptible"]
    """The tier."""
    used: Amounts = Field(default_factory=dict)
    """The sum over the decisions in force."""


class Status(Model):
    """What is used."""

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Valid: whether anything is wrong with the account; if so, what, and in which field."""
    workloads: Amount = 0
    """Workloads that hold something."""
    summary: ShortText = ""
    """One line for tables."""
    usage: Annotated[
        list[TierUsage],
        Field(
            max_length=8,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["tier"],
            },
        ),
    ] = Field(default_factory=list)
    """Usage by tier."""


class FederatedQuota(Model):
    """What the projects of one account may use over all clusters."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.spec.parent) || self.spec.parent != self.metadata.name", OWN_PARENT)
        )
    )

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["FederatedQuota"]
    """FederatedQuota."""
    metadata: Metadata
    """Standard metadata."""
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
        tiers={tier: _limits(raw.mapping(tiers, tier)) for tier in Tier if tier in tiers},
        max_priority=spec["maxPriority"] if _is_integer(spec.get("maxPriority")) else None,
        max_concurrent=maximum if maximum >= 0 else None,
        parent=raw.text(spec, "parent"),
        unknown_projects={"Allow": True, "Refuse": False}.get(raw.text(spec, "unknownProjects")),
        defaults=vector(defaults) if isinstance(defaults, dict) else None,
        service_accounts=raw.texts(spec, "serviceAccounts"),
        iam_roles=raw.texts(spec, "iamRoles"),
        priority_classes=raw.texts(spec, "priorityClasses"),
    )


def to_status(
    account: QuotaAccount, usage: Mapping[Tier, Resources], workloads: int
) -> dict[str, Any]:
    """`.status` from what the decisions in force add up to. Every limited tier is shown, also when
    nothing is used."""
    shown = [tier for tier in Tier if tier in account.tiers or usage.get(tier)]
    parts = []
    for tier in shown:
        limit = account.tiers[tier].maximum if tier in account.tiers else None
        used = usage.get(tier, ZERO)["cpu"]
        of = f" of {limit['cpu'] / 1000:g}" if limit is not None and "cpu" in limit else ""
        parts.append(f"{tier} {used / 1000:g}{of} cpu")
    return {
        "observedGeneration": account.generation,
        "workloads": workloads,
        "summary": ", ".join(parts)[:256],
        "usage": [
            {"tier": str(tier), "used": quantity.render(usage.get(tier, ZERO))} for tier in shown
        ],
    }


def _limits(limits: Obj) -> TierQuota:
    maximum = vector(raw.mapping(limits, "max")) if isinstance(limits.get("max"), dict) else None
    guaranteed = vector(raw.mapping(limits, "guaranteed"))
    zero = {
        name for name in raw.mapping(limits, "max") if maximum is not None and not maximum[name]
    }
    withheld = {name for name in raw.mapping(limits, "guaranteed") if not guaranteed[name]}
    return TierQuota(guaranteed, maximum, barred=frozenset(zero), withheld=frozenset(withheld))


def vector(amounts: Obj) -> Resources:
    """Like `quantity.vector`, but an amount that cannot be read is zero and a negative one too."""
    total = ZERO
    for name, value in amounts.items():
        try:
            total = total + quantity.vector({name: value}).at_least_zero()
        except FieldError:
            continue
    return total


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
