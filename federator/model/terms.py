"""What MemberClusters state, and what a policy asks of clusters by their properties: required
terms, alternatives of them, and weighted preferences.

Values only. `model.properties` has the properties by name and reads them of a cluster,
`model.expressions` compiles CEL, and `placement.policy.conditions` judges clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from federator.model.kubernetes.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Stated:
    """What is known of a cluster beside its labels, its capacity and its state."""

    version: str = ""
    """Version of its API server, as it reports it; "" while unknown."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """`spec.properties` of its MemberCluster."""
    price: str = ""
    """`spec.pricePerHour`, a decimal number; "" without one."""
    created_s: float = 0.0
    """When its MemberCluster was created, in epoch seconds; 0 when unknown."""
    topology: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """`spec.topology`: topology key -> the domains that the cluster lies in, sorted. They take the
    place of the label with that key."""


NOTHING_STATED: Final = Stated()


class Operator(StrEnum):
    """How a required term compares a property with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER_THAN = "Gt"
    LESS_THAN = "Lt"


@dataclass(frozen=True, slots=True)
class Term:
    """One required term: a property compared with values, or a CEL expression. `path` is its field
    below the policy's spec, such as `clusters.properties[1]`."""

    path: str
    key: str = ""
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()
    cel: str = ""
    reported: bool = False
    """It reads amounts of the cluster's capacity report. These change with every report, so the
    term only keeps new copies away."""

    @property
    def content(self) -> tuple[str, ...]:
        """All but where it is written."""
        return (self.cel,) if self.cel else (self.key, str(self.operator), *sorted(self.values))

    def __str__(self) -> str:
        if self.cel:
            return self.cel
        match self.operator:
            case Operator.EXISTS:
                return f"{self.key} to be known"
            case Operator.DOES_NOT_EXIST:
                return f"{self.key} to be absent"
            case Operator.GREATER_THAN:
                return f"{self.key} > {self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key} < {self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({', '.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} not in ({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One entry of `clusters.anyOf`: all of it must hold."""

    path: str
    names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """All `terms`, and at least one of the alternatives where there are any."""

    terms: tuple[Term, ...] = ()
    any_of: tuple[Alternative, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms or self.any_of)

    @property
    def reported(self) -> bool:
        """Whether some term reads amounts of capacity reports."""
        return any(term.reported for term in self.terms) or any(
            term.reported for alternative in self.any_of for term in alternative.terms
        )


NO_CONDITIONS: Final = Conditions()

PROPERTY: Final = "property"
"""The scorer of a preference that sorts by a property."""
SELECTOR: Final = "selector"
"""The scorer of a preference for clusters with labels."""
WORKLOADS: Final = "workloads"
"""The scorer of a preferred term of `workloadAffinity`; `Preference.key` is the term's path."""


@dataclass(frozen=True, slots=True)
class Preference:
    """One preference with its weight: a property to sort by, labels to have, or a named scorer."""

    weight: int
    scorer: str
    """A row of the table of scorers."""
    key: str = ""
    """The property, of a sorter."""
    descending: bool = True
    """Of a sorter: whether the largest value is the best."""
    selector: LabelSelector | None = None
    name: str = ""
    """How records of decisions name its points."""
    reported: bool = False
    """It reads amounts of capacity reports."""
