"""PlacementInvariant: what must hold of where workloads are. Schema and conversion to the core's
invariant."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import (
    LIST_SET,
    Amount,
    Conditions,
    FederationObject,
    LabelKey,
    Model,
    Owner,
    Sentence,
    ShortText,
    TierName,
    many,
    rules,
)
from federator.api.placement.placementpolicy import ClusterWorkloads
from federator.api.raw import Obj
from federator.model import plaintext
from federator.model.ask import Tier
from federator.model.rules.invariant import Invariant, MaxShare, Survives

KIND: Final = "PlacementInvariant"
HOLDS: Final = "Holds"
"""The condition that says whether the invariant holds."""
VALID: Final = "Valid"
"""The condition that says whether it can hold."""
OWNED: Final = (HOLDS, VALID)
BREACHES_MAX: Final = 20
LOSS_MAX: Final = 3
ONE_RULE: Final = "exactly one of maxShare and survives is expected"
WARNS_ONLY: Final = (
    "Refuse is for maxShare only: whether the fleet survives a loss is known from a drill, not from"
    " one decision; use Warn, and federator plan before an edit"
)


class MaxShareRule(Model):
    """At most a part of the copies of each workload is in one domain of clusters."""

    topology_key: LabelKey
    """The label of clusters that makes domains, such as zone, or a key of their spec.topology. A
    copy counts in each domain of its cluster. Clusters without it are one domain together."""
    percent: Annotated[int, Field(ge=1, le=100, json_schema_extra={"format": "int32"})]
    """Of the copies that a workload asks for (slots of a job set), so many percent in one domain,
    rounded down; one copy is always allowed."""


class SurvivesRule(Model):
    """Every copy has another place after the loss of domains of clusters."""

    topology_key: LabelKey
    """The label of clusters that makes domains, such as zone, or a key of their spec.topology. A
    cluster in several domains is lost with the last of them. Clusters without it are one domain
    together."""
    loss: Annotated[int, Field(ge=1, le=LOSS_MAX, json_schema_extra={"format": "int32"})] = 1
    """So many domains are lost together; every combination is tried."""
    tiers: list[TierName] = many(8, LIST_SET)
    """Only workloads of these tiers; all when left out."""


class Rule(Model):
    """What must hold."""

    model_config = ConfigDict(
        json_schema_extra=rules(("has(self.maxShare) != has(self.survives)", ONE_RULE))
    )

    max_share: MaxShareRule | None = None
    """At most a part of the copies of each workload is in one domain of clusters."""
    survives: SurvivesRule | None = None
    """Every copy has another place after the loss of domains of clusters."""

    @model_validator(mode="after")
    def _exactly_one(self) -> "Rule":
        if (self.max_share is None) == (self.survives is None):
            raise PydanticCustomError("rule", ONE_RULE)
        return self


class Spec(Model):
    """What must hold, and of which workloads."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.enforcement) || self.enforcement != 'Refuse' ||"
                " !has(self.rule.survives)",
                WARNS_ONLY,
            )
        )
    )

    workloads: ClusterWorkloads | None = None
    """Which workloads it speaks of; all when left out."""
    rule: Rule
    """What must hold."""
    enforcement: Literal["Warn", "Refuse"] | None = None
    """Warn (when left out): a breach is reported. Refuse: besides, no new copy is placed where it
    would break the rule. Copies that run stay, and copies that leave a lost or drained cluster
    are not refused another place."""
    owner: Owner | None = None
    """The owner of the invariant, shown where it refuses something."""

    @model_validator(mode="after")
    def _warns(self) -> "Spec":
        if self.enforcement == "Refuse" and self.rule.survives is not None:
            raise PydanticCustomError("enforcement", WARNS_ONLY)
        return self


class BreachRow(Model):
    """One breach."""

    workload: Annotated[str, Field(max_length=512)]
    """Kind, namespace and name."""
    domain: Annotated[str, Field(max_length=256)]
    """The domain that has too much, or the domains that are lost."""
    copies: Amount
    """Copies in this domain; for a loss, copies that would have no place."""
    most: Amount | None = None
    """The most that may be there; left out for a loss."""


class Status(Model):
    """Whether it holds."""

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Holds: False with the number of workloads in breach. Valid: False where it can never hold, in
    a sentence."""
    workloads: Amount = 0
    """Workloads that it speaks of."""
    breached: Amount = 0
    """Workloads in breach."""
    summary: ShortText = ""
    """One line for tables."""
    message: Sentence = ""
    """The first breach in words."""
    breaches: list[BreachRow] = many(BREACHES_MAX)
    """The largest breaches."""


class PlacementInvariant(FederationObject):
    """What must hold of where workloads are, whatever policies say."""

    kind: Literal["PlacementInvariant"]
    """PlacementInvariant."""
    spec: Spec
    """What must hold, and of which workloads."""
    status: Status | None = None
    """Whether it holds."""


def to_invariant(obj: Obj) -> Invariant:
    """The invariant as the core reads it, without a rule if the object cannot be read."""
    spec = raw.mapping(obj, "spec")
    workloads = raw.mapping(spec, "workloads")
    return Invariant(
        name=raw.text(obj, "metadata", "name"),
        uid=raw.text(obj, "metadata", "uid"),
        generation=raw.integer(obj, "metadata", "generation"),
        rule=_rule(raw.mapping(spec, "rule")),
        refuses=raw.text(spec, "enforcement") == "Refuse",
        owner=raw.text(spec, "owner", "team"),
        names=frozenset(raw.texts(workloads, "names")),
        kinds=frozenset(raw.texts(workloads, "kinds")),
        match_labels=raw.text_map(workloads, "matchLabels"),
        projects=frozenset(raw.texts(workloads, "projects")),
        namespaces=frozenset(raw.texts(workloads, "namespaces")),
    )


def _rule(rule: Mapping[str, Any]) -> MaxShare | Survives | None:
    share, survives = raw.mapping(rule, "maxShare"), raw.mapping(rule, "survives")
    percent = raw.integer(share, "percent")
    if (key := raw.text(share, "topologyKey")) and 1 <= percent <= 100:
        return MaxShare(key, percent)
    loss = raw.integer(survives, "loss", default=1)
    if (key := raw.text(survives, "topologyKey")) and 1 <= loss <= LOSS_MAX:
        names = set(raw.texts(survives, "tiers"))
        tiers = frozenset(tier for tier in Tier if tier.value in names) if names else None
        return Survives(key, loss, tiers if tiers is not None else frozenset(Tier))
    return None


def to_status(
    invariant: Invariant, workloads: int, breached: int, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The status without its conditions. `rows`: the breaches, the largest first."""
    first = rows[0] if rows else None
    if breached:
        summary = f"{breached} of {workloads} in breach"
    else:
        summary = f"{workloads} hold" if workloads else "no workloads"
    status: dict[str, Any] = {
        "observedGeneration": invariant.generation,
        "workloads": workloads,
        "breached": breached,
        "summary": summary,
        "breaches": [dict(row) for row in rows[:BREACHES_MAX]],
    }
    status["message"] = plaintext.clipped(in_words(invariant, first)) if first is not None else ""
    return status


def row(workload: str, domain: str, copies: int, most: int | None = None) -> dict[str, Any]:
    """One breach, as the status has it."""
    fields: dict[str, Any] = {"workload": workload, "domain": domain, "copies": copies}
    return fields if most is None else {**fields, "most": most}


def beyond(row: Mapping[str, Any]) -> int:
    """Copies of one breach that are too many."""
    copies: int = row["copies"] - row.get("most", 0)
    return copies


def order(row: Mapping[str, Any]) -> tuple[int, str, str]:
    """Sort key: the largest breach first."""
    return -beyond(row), row["workload"], row["domain"]


def in_words(invariant: Invariant, row: Mapping[str, Any]) -> str:
    """One breach as a sentence."""
    rule = invariant.rule
    if isinstance(rule, MaxShare):
        return (
            f"{row['workload']} has {row['copies']} copies in {rule.topology_key}={row['domain']};"
            f" at most {row['most']} may be there"
        )
    key = rule.topology_key if rule is not None else ""
    lost = f"once {key} {row['domain']} is lost"
    return f"{row['copies']} copies of {row['workload']} have no place {lost}"
