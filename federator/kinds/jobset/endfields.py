"""Fields of a PinterestJobSet that say when it ends and what failures mean: models and rules."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import ATOMIC, INT32_MAX, LIST_SET, DnsLabel, Int32, Model, many, rules
from federator.model import shards

MAX_RULES: Final = 20
"""As many rules as a Job takes."""
MAX_INDEX_TEXT: Final = 65536
Seconds = Annotated[int, Field(ge=1, le=INT32_MAX, json_schema_extra={"format": "int64"})]
ShardSet = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_INDEX_TEXT,
        pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$",
    ),
]
Threshold = Annotated[int, Field(ge=1, le=100_000, json_schema_extra={"format": "int32"})]

NEEDS_ONE = (
    "has(self.succeededCount) || has(self.succeededShards)",
    "needs succeededCount, succeededShards, or both",
)


class SuccessPolicy(Model):
    """Which completed shards suffice, over all clusters together."""

    model_config = ConfigDict(json_schema_extra=rules(NEEDS_ONE))

    succeeded_count: Threshold | None = None
    """How many completed shards suffice; all that succeededShards names when left out."""
    succeeded_shards: ShardSet | None = None
    """Shards that are counted, such as 0-3,7; all of them when left out."""

    @model_validator(mode="after")
    def _says_something(self) -> "SuccessPolicy":
        if self.succeeded_count is None and self.succeeded_shards is None:
            raise PydanticCustomError("successPolicy", NEEDS_ONE[1])
        try:
            named = shards.size(shards.parse(self.succeeded_shards or ""))
        except ValueError as bad:
            raise PydanticCustomError("succeededShards", "{why}", {"why": str(bad)}) from None
        if named and self.succeeded_count is not None and self.succeeded_count > named:
            raise PydanticCustomError(
                "succeededCount",
                "succeededCount {count} is more than the {named} shards of succeededShards",
                {"count": self.succeeded_count, "named": named},
            )
        return self


ExitCodes = Annotated[
    list[Int32], Field(min_length=1, max_length=255, json_schema_extra=dict(LIST_SET))
]
ZERO_RULE = (
    "self.operator != 'In' || !self.values.exists(v, v == 0)",
    "0 is no failure: with operator In the values are other exit codes",
)


class OnExitCodes(Model):
    """Exit codes of a failed container."""

    model_config = ConfigDict(json_schema_extra=rules(ZERO_RULE))

    container_name: DnsLabel | None = None
    """The container; any container of the template when left out, never an injected one."""
    operator: Literal["In", "NotIn"]
    """In: one of the values. NotIn: none of them, and not 0."""
    values: ExitCodes
    """Exit codes."""

    @model_validator(mode="after")
    def _failures(self) -> "OnExitCodes":
        if self.operator == "In" and 0 in self.values:
            raise PydanticCustomError("values", ZERO_RULE[1])
        return self


class OnPodCondition(Model):
    """A condition of the failed pod."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Its type, such as DisruptionTarget: the pod was evicted, preempted, or its node was lost."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Its status."""


ONE_RULE = (
    "has(self.onExitCodes) != has(self.onPodConditions)",
    "has either onExitCodes or onPodConditions",
)


class FailureRule(Model):
    """What a failed pod means. The first rule that matches counts."""

    model_config = ConfigDict(json_schema_extra=rules(ONE_RULE))

    action: Literal["FailJobSet", "FailShard", "Ignore", "Count"]
    """FailJobSet: the whole job set fails, in all clusters. FailShard: the shard fails without
    another try. Ignore: it is tried again, and this failure does not count. Count: as without a
    rule.
    """
    on_exit_codes: OnExitCodes | None = None
    """By the exit code of a container."""
    on_pod_conditions: (
        Annotated[
            list[OnPodCondition], Field(min_length=1, max_length=20, json_schema_extra=ATOMIC)
        ]
        | None
    ) = None
    """By a condition of the pod."""

    @model_validator(mode="after")
    def _codes_or_conditions(self) -> "FailureRule":
        if (self.on_exit_codes is None) == (self.on_pod_conditions is None):
            raise PydanticCustomError("rule", ONE_RULE[1])
        return self


class FailurePolicy(Model):
    """What failures mean."""

    max_failed_shards: (
        Annotated[int, Field(ge=0, le=100_000, json_schema_extra={"format": "int32"})] | None
    ) = None
    """The job set fails as soon as more shards than this have failed for good. When left out, the
    others run to their end first.
    """
    rules: list[FailureRule] = many(MAX_RULES)
    """What a failed pod means, by its exit code or conditions."""


def fixed(field: str) -> tuple[str, str]:
    """A transition rule: the field stays as it was made, present or absent."""
    return (
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} is fixed: Jobs keep what they were made with; make a new job set",
    )


SUCCESS_RULE = (
    "(self.completion == 'SuccessPolicy') == has(self.successPolicy)",
    "completion SuccessPolicy and the field successPolicy go together",
)
ENOUGH_RULE = (
    "!has(self.successPolicy) || !has(self.successPolicy.succeededCount)"
    " || self.successPolicy.succeededCount <= self.shards",
    "successPolicy.succeededCount is at most spec.shards",
)
DEADLINE_RULE = (
    "!has(oldSelf.activeDeadlineSeconds) || has(self.activeDeadlineSeconds)",
    "a deadline can be changed, not taken away: set a longer one",
)
