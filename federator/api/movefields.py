"""The fields of a placement policy that say when and how fast running copies move: its move budget
and its failover, and their conversion to the core's values. Conversions are total."""

import re
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import Model, rules
from federator.api.raw import Obj
from federator.model.policy import Failback, Failover, FailoverWhen, MoveBudget

Pace = Annotated[
    int | str,
    Field(json_schema_extra={"x-federator-pattern": "^(100|[1-9][0-9]?)%$", "minimum": 1}),
]
"""Copies, at least one, or a percentage from 1% to 100%."""


class MoveBudgetFields(Model):
    """At which pace edits of the policy, or of the labels it reads, move copies that run."""

    max_copies_per_minute: Pace
    """Copies over all workloads of the policy: a number, or a percentage of those that run under
    it."""

    @model_validator(mode="after")
    def _above_nothing(self) -> Self:
        if move_budget({"maxCopiesPerMinute": self.max_copies_per_minute}) is None:
            raise PydanticCustomError(
                "moveBudget", "maxCopiesPerMinute is a number above 0 or a percentage up to 100%"
            )
        return self


FAILOVER_RULES = (
    (
        "!has(self.afterSeconds) || !has(self.when) || self.when == 'Unreachable'",
        "afterSeconds is about clusters that are Unreachable: when must be Unreachable",
    ),
    (
        "!has(self.failbackAfterSeconds) || !has(self.failback) || self.failback == 'Auto'",
        "failbackAfterSeconds is for failback Auto",
    ),
)

Delay = Annotated[int, Field(ge=0, le=604_800, json_schema_extra={"format": "int32"})]
"""Seconds, a week at most."""


class FailoverFields(Model):
    """When copies leave a cluster that is lost, and whether they come back."""

    model_config = ConfigDict(json_schema_extra=rules(*FAILOVER_RULES))

    when: Literal["Unreachable", "Dead", "Never"] | None = None
    """Unreachable (the default): when nothing was heard of the cluster for afterSeconds; its copies
    may be running on. Dead: when a person declared it dead. Never: not even then."""
    after_seconds: Delay | None = None
    """How long the cluster must have been Unreachable; 300 when left out. A toleration of the taint
    federation.pinterest.com/unreachable takes its place."""
    cooldown_seconds: Delay | None = None
    """Least time between two such moves of one workload; 600 when left out."""
    failback: Literal["Auto", "Manual", "Never"] | None = None
    """Auto (the default): copies go back when the cluster has answered for failbackAfterSeconds
    without a break. Manual: when somebody asks (federator rebalance). Never: they do not."""
    failback_after_seconds: Delay | None = None
    """How long the cluster must have been well; 1800 when left out."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.after_seconds is not None and self.when not in (None, "Unreachable"):
            raise PydanticCustomError("failover", FAILOVER_RULES[0][1])
        if self.failback_after_seconds is not None and self.failback not in (None, "Auto"):
            raise PydanticCustomError("failover", FAILOVER_RULES[1][1])
        return self


def failover_of(fields: Obj) -> Failover:
    """What is not said, or means nothing, is as by default."""
    usual = Failover()
    when, failback = raw.text(fields, "when"), raw.text(fields, "failback")
    return Failover(
        when=FailoverWhen(when) if when in set(FailoverWhen) else usual.when,
        after_s=max(raw.integer(fields, "afterSeconds", default=usual.after_s), 0),
        cooldown_s=max(raw.integer(fields, "cooldownSeconds", default=usual.cooldown_s), 0),
        failback=Failback(failback) if failback in set(Failback) else usual.failback,
        failback_after_s=max(
            raw.integer(fields, "failbackAfterSeconds", default=usual.failback_after_s), 0
        ),
    )


def move_budget(fields: Obj) -> MoveBudget | None:
    """None for one that says nothing, or nothing that can be followed."""
    pace = fields.get("maxCopiesPerMinute")
    if isinstance(pace, int) and not isinstance(pace, bool):
        return MoveBudget(copies=pace) if pace > 0 else None
    if not isinstance(pace, str) or not re.fullmatch(r"(100|[1-9][0-9]?)%", pace, re.ASCII):
        return None
    return MoveBudget(percent=int(pace[:-1]), floor=1)
