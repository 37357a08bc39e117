"""Nodes that a cluster can add: what operators state of its autoscaler, and what a decision charges
to it. Pure values."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.model import plaintext
from federator.model.kubernetes.taints import Taint
from federator.model.resources import Resources

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
"""Label of nodes with the type of their machine."""
MILLIONTHS: Final = 1_000_000


class ScaleUp(StrEnum):
    """Whether copies are placed on nodes that a cluster has to add first."""

    NEVER = "Never"
    """Only free room counts."""
    WHEN_SHORT = "WhenShort"
    """Free room of all clusters is used first."""
    PREFER = "Prefer"
    """Nodes that can be added count like free room."""


def scale_up_of(text: str) -> ScaleUp:
    """WhenShort where nothing is said, or what means nothing."""
    return ScaleUp(text) if text in set(ScaleUp) else ScaleUp.WHEN_SHORT


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Equal nodes that the autoscaler of a cluster can add."""

    name: str
    allocatable: Resources
    """Of one node, for pods of the federation."""
    most: int
    """Nodes of the class in the cluster at most, with those that it has."""
    minutes: int
    """From a Pending pod to a Ready node, about."""
    price: int | None = None
    """Of one node, in millionths of the currency per hour; None when it is not stated."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of its nodes, sorted by key."""
    taints: tuple[Taint, ...] = ()
    late: str = ""
    """Why none of its nodes is counted on now, as a part of a sentence; "" while they are."""

    @property
    def node_labels(self) -> dict[str, str]:
        """Labels of its nodes; the class is named after the instance type unless a label says
        otherwise."""
        return {INSTANCE_TYPE: self.name, **dict(self.labels)}

    @property
    def instance_type(self) -> str:
        """The type by which members count the nodes of the class that exist."""
        return self.node_labels[INSTANCE_TYPE]


@dataclass(frozen=True, slots=True)
class Addition:
    """Copies of one decision that wait for nodes of one class in one cluster."""

    cluster: str
    node_class: str
    nodes: int
    """Nodes that are added for them; 0 when nodes that are promised already hold them."""
    copies: int
    minutes: int
    price: int | None = None
    """Of all these nodes, in millionths per hour."""

    @property
    def text(self) -> str:
        """As a part of a sentence.

        Addition("a", "m6i", 2, 3, 5, 1540000) -> "2 more nodes of m6i, in about 5 minutes, at 1.54
        an hour"
        """
        nodes = f"{self.nodes} more node{'' if self.nodes == 1 else 's'} of {self.node_class}"
        if not self.nodes:
            nodes = f"nodes of {self.node_class} that are on their way"
        price = f", at {money(self.price)} an hour" if self.nodes and self.price is not None else ""
        return f"{nodes}, in about {plaintext.counted(self.minutes, 'minute', 'minutes')}{price}"


def by_cluster(additions: Iterable[Addition]) -> dict[str, list[Addition]]:
    grouped: dict[str, list[Addition]] = {}
    for addition in additions:
        grouped.setdefault(addition.cluster, []).append(addition)
    return grouped


def money(millionths: int) -> str:
    """Millionths as a decimal text: 1540000 -> "1.54"."""
    whole, part = divmod(millionths, MILLIONTHS)
    digits = f"{part:06}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
