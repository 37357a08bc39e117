"""The question of a scenario: what its verdict answers (docs/using/simulate.md#ask-a-question)."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from federator.api.common import Model
from federator.simulate.scenario.fields import Duration, Names, refused
from federator.simulate.scenario.tables import TierName

Kind = Literal["RunsOut", "HowMuchSmaller", "WhichShape", "Survives", "Quota"]
_OF_KIND: Final = {
    "RunsOut": {"cluster"},
    "HowMuchSmaller": set(),
    "WhichShape": {"shapes"},
    "Survives": {"lose", "at", "lasting"},
    "Quota": {"account", "tier", "resource", "most"},
}
"""Kind -> the fields that belong to it."""
_NEEDED: Final = {"WhichShape": "shapes", "Quota": "account"}


class Question(Model):
    """`RunsOut`: when are the measures missed, and how many nodes more in `cluster` carry the fleet
    to the end. `HowMuchSmaller`: the smallest part of every cluster that meets them. `WhichShape`:
    which of `shapes` does, at the least cost. `Survives`: are they met when one of `lose` is lost.
    `Quota`: the smallest guarantee of `account` that meets them.
    """

    kind: Kind
    cluster: str = ""
    shapes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Name -> fields of the scenario and their values, as for `--set`."""
    lose: Names = Field(default_factory=list)
    """Clusters, or `label=value`; without it every cluster."""
    at: Duration | None = None
    """When it is lost; without it when most of the scarcest resource is in use."""
    lasting: Duration | None = None
    """When it comes back, counted from the loss; without it never."""
    account: str = ""
    """Name of a FederatedQuota of the scenario."""
    tier: TierName = "OnDemand"
    resource: str = "nvidia.com/gpu"
    most: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """The largest guarantee that is tried."""

    @model_validator(mode="after")
    def _fields_of_its_kind(self) -> Self:
        foreign = self.model_fields_set - {"kind"} - _OF_KIND[self.kind]
        if foreign:
            raise refused(f"{sorted(foreign)[0]} is no field of a question {self.kind}")
        needed = _NEEDED.get(self.kind)
        if needed and not getattr(self, needed):
            raise refused(f"a question {self.kind} needs {needed}")
        return self
