"""The fields of a file with policy tests, as docs/operating/policy-tests.md describes them. Unknown
fields are refused.

An expectation checks the fields that it names; fields that are left out are not checked.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from federator.api.common import Model
from federator.model.decision import Reason
from federator.simulate.scenario import fields

_AMOUNT: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of copies that a test accepts: `3`, `2-4`, or `2+` for two and more."""

    low: int
    high: int | None

    def __contains__(self, copies: int) -> bool:
        return self.low <= copies and (self.high is None or copies <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def _refuse(problem: str) -> PydanticCustomError:
    return PydanticCustomError("policy_test", "{problem}", {"problem": problem})


def _amount(value: object) -> Amount:
    match = None
    if isinstance(value, int | str) and not isinstance(value, bool):
        match = _AMOUNT.fullmatch(str(value).strip())
    if match is None:
        raise _refuse(f"{str(value)[:40]!r} is no number of copies: 3, 2-4 and 2+ are")
    low = int(match[1])
    high = None if match[3] else int(match[2] or low)
    if high is not None and high < low:
        raise _refuse(f"{value!r} ends below its beginning; write {high}-{low}")
    return Amount(low, high)


def _reason(value: str) -> str:
    known = [str(reason) for reason in Reason]
    if value not in known:
        raise _refuse(f"{value[:80]!r} is no reason{fields.near(value[:80], known)}")
    return value


def _source(value: object) -> object:
    if isinstance(value, dict) or (isinstance(value, str) and value.strip() not in ("", "-")):
        return value
    raise _refuse(
        f"{str(value)[:40]!r} is neither a path (from the folder of this file) nor an object"
    )


Copies = Annotated[Amount, PlainValidator(_amount)]
ByCluster = dict[str, Copies]
"""Cluster -> copies. A cluster that is not named has none."""
AReason = Annotated[str, AfterValidator(_reason)]
Text = Annotated[str, Field(min_length=1)]
Source = Annotated[Any, PlainValidator(_source)]
"""An object, or the path of a file or directory with objects."""


class Decided(Model):
    """What is expected of one workload, wherever it is decided."""

    workload: Text
    """KIND/NAME or KIND/NAMESPACE/NAME."""
    clusters: ByCluster | None = None
    domains: dict[str, dict[str, Copies]] | None = None
    """Label of clusters -> its value -> copies there. A value that is not named has none."""
    short: Copies | None = None
    """Copies without a place; of a job set, slots."""
    reason: AReason | None = None
    message: Text | None = None
    """A part of the sentence that goes with the reason."""


class Moved(Decided):
    """What a plan is expected to do to one workload."""

    leaves: ByCluster | None = None
    enters: ByCluster | None = None
    moves: Copies | None = None
    restarted: Copies | None = None
    waiting: Copies | None = None
    preempted: Copies | None = None
    held_back: bool | None = None


class Refusal(Model):
    """An object that is not to be taken, or a workload of which no copy is to be placed."""

    object: Source
    field: Text | None = None
    """The field that the API server names when it refuses the object."""
    reason: AReason | None = None
    """Why the workload gets no copy, although the API server takes it."""
    message: Text | None = None


class Planned(Model):
    """What the whole plan is expected to come to."""

    exit: Literal[0, 10, 11] | None = None
    """The exit code of `federator plan`."""
    moves: Copies | None = None
    restarted: Copies | None = None
    started: Copies | None = None
    ended: Copies | None = None
    preempted: Copies | None = None
    waiting: Copies | None = None
    shorter: Copies | None = None
    """Workloads that end with more copies without a place than before."""
    uncovered: list[Text] | None = None
    """Clusters of which the loss is no longer covered."""
    breaks: list[Text] | None = None
    """PlacementInvariants that the edits break, or break further."""
    workloads: list[Moved] = Field(default_factory=list)


class Plan(Model):
    """Edits, planned all together on the fleet as the fixtures are placed."""

    apply: list[Source] = Field(default_factory=list)
    delete: list[Text] = Field(default_factory=list)
    lose: list[Text] = Field(default_factory=list)
    scale: dict[str, Annotated[int, Field(ge=0, le=999_999_999)]] = Field(default_factory=dict)
    losses: bool = True
    """Whether the losses of single clusters are compared, as without `--no-losses`."""
    expect: Planned


class Test(Model):
    """One test."""

    name: Text
    fixtures: list[Source] = Field(default_factory=list)
    """Objects of this test. They replace those of the file with the same kind and name."""
    placements: list[Decided] = Field(default_factory=list)
    refusals: list[Refusal] = Field(default_factory=list)
    plan: Plan | None = None


class File(Model):
    """A file with tests."""

    namespace: Text = "default"
    """Of objects and names without one."""
    fixtures: list[Source] = Field(default_factory=list)
    """Objects of all tests."""
    tests: Annotated[list[Test], Field(min_length=1)]
