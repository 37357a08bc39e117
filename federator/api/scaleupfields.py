"""Nodes that a cluster can add (`MemberCluster.spec.scaleUp`), and what decisions charge to them:
schema and conversion."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import capacityfields, raw
from federator.api.capacityfields import MAX_RESOURCES, TaintFields
from federator.api.common import (
    Amount,
    Amounts,
    ClusterName,
    Count,
    Labels,
    Model,
    ShortText,
    list_map,
    many,
)
from federator.api.raw import Obj
from federator.model.kubernetes import quantity
from federator.model.kubernetes.taints import REFUSING
from federator.model.resources import PODS, Resources
from federator.model.scaleup import Addition, NodeClass, money

MAX_CLASSES: Final = 32
MAX_CLASS_NODES: Final = 10_000
MAX_MINUTES: Final = 1440
MAX_ADDITIONS: Final = 256
PODS_PER_NODE: Final = 110
"""What a kubelet allows where a class does not name pods, as by its own default."""
PRICE_PATTERN: Final = r"^[0-9]{1,6}(\.[0-9]{1,6})?$"
ClassName = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
]
Price = Annotated[str, Field(max_length=13, pattern=PRICE_PATTERN)]


class ScaleUpFields(Model):
    """Equal nodes that the autoscaler of the cluster can add."""

    name: ClassName
    """Name of the class: the instance type of its nodes, unless labels name another one. Nodes of
    this type that the cluster has count towards max."""
    shape: Amounts
    """What one node offers to pods; 110 pods unless it says otherwise."""
    max: Annotated[int, Field(ge=0, le=MAX_CLASS_NODES, json_schema_extra={"format": "int32"})]
    """Nodes of the class that the cluster has at most, with those that exist."""
    minutes: Annotated[int, Field(ge=1, le=MAX_MINUTES, json_schema_extra={"format": "int32"})]
    """From a Pending pod to a Ready node, about. After twice this time without nodes the copies get
    another place, and the hub does not count on the class for a while."""
    price_per_hour: Price | None = None
    """Price of one node, such as "0.77", in the currency of all prices."""
    labels: Labels = Field(default_factory=dict)
    """Labels of its nodes, which node selectors are compared with."""
    taints: list[TaintFields] = many(32)
    """Taints of its nodes."""

    @model_validator(mode="after")
    def _offers_something(self) -> "ScaleUpFields":
        if not quantity.valid(self.shape):
            raise PydanticCustomError(
                "shape", "shape names no amount above 0: say what a node offers to pods"
            )
        return self


Classes = Annotated[
    list[ScaleUpFields], Field(max_length=MAX_CLASSES, json_schema_extra=list_map("name"))
]


class AdditionFields(Model):
    """Copies that wait for nodes which their cluster adds."""

    cluster: ClusterName
    """The cluster."""
    node_class: ShortText = Field(alias="class")
    """Class of its spec.scaleUp."""
    nodes: Count
    """Nodes that are added for them; 0 when nodes that were promised before hold them."""
    copies: Count
    """Copies that wait for them."""
    minutes: Amount
    """In how many minutes the nodes are there, as the class states."""
    price_per_hour: Price | None = None
    """Price of these nodes together."""


def to_classes(value: object) -> tuple[NodeClass, ...]:
    """The classes of a spec by name; what is not valid is left out."""
    entries = value if isinstance(value, list) else []
    classes: dict[str, NodeClass] = {}
    for entry in entries[:MAX_CLASSES]:
        if isinstance(entry, dict) and (read := _to_class(entry)) is not None:
            classes.setdefault(read.name, read)
    return tuple(classes[name] for name in sorted(classes))


def _to_class(fields: Obj) -> NodeClass | None:
    shape = raw.mapping(fields, "shape")
    offered = dict(list(shape.items())[:MAX_RESOURCES])
    allocatable = quantity.valid(offered)
    name, most = raw.text(fields, "name"), min(raw.integer(fields, "max"), MAX_CLASS_NODES)
    if not name or most < 0 or not allocatable:
        return None
    if PODS not in offered:
        allocatable = allocatable + Resources({PODS: PODS_PER_NODE})
    return NodeClass(
        name=name,
        allocatable=allocatable,
        most=most,
        minutes=min(max(raw.integer(fields, "minutes"), 1), MAX_MINUTES),
        price=to_price(raw.text(fields, "pricePerHour")),
        labels=tuple(sorted(raw.text_map(fields, "labels").items())),
        taints=tuple(
            sorted(
                taint
                for taint in capacityfields.taints_of(fields.get("taints"))
                if taint.effect in REFUSING
            )
        ),
    )


def to_price(text: str) -> int | None:
    """Millionths of a price as people write it; None for none and for what is no price.

    "0.77" -> 770000
    """
    whole, _, part = text.partition(".")
    digits = whole + part.ljust(6, "0")[:6]
    if not whole or not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
        return None
    return int(digits)


def to_additions(value: object) -> tuple[Addition, ...]:
    """What a decision records."""
    entries = value if isinstance(value, list) else []
    return tuple(
        Addition(
            raw.text(entry, "cluster"),
            raw.text(entry, "class"),
            raw.integer(entry, "nodes"),
            raw.integer(entry, "copies"),
            raw.integer(entry, "minutes"),
            to_price(raw.text(entry, "pricePerHour")),
        )
        for entry in entries[:MAX_ADDITIONS]
        if isinstance(entry, dict)
    )


def from_additions(additions: Iterable[Addition]) -> list[dict[str, Any]]:
    """As a decision records them, as many as fit."""
    return [
        {
            "cluster": added.cluster,
            "class": added.node_class,
            "nodes": added.nodes,
            "copies": added.copies,
            "minutes": added.minutes,
        }
        | ({} if added.price is None else {"pricePerHour": money(added.price)})
        for added in list(additions)[:MAX_ADDITIONS]
    ]
