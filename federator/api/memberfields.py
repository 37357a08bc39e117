"""What operators state of a MemberCluster beside its state: how it is reached, its properties, its
price and the domains that it lies in. Fields and conversion."""

from typing import Annotated, Final

from pydantic import Field

from federator.api import raw
from federator.api.common import LIST_SET, LabelKey, LabelValue, Model, ObjectName
from federator.api.raw import Obj
from federator.model import properties
from federator.model.kubernetes import selectors
from federator.model.terms import NOTHING_STATED, Stated

DOMAINS_MAX: Final = 16
"""Domains of one topology key that a cluster may lie in."""


class SecretRef(Model):
    """Names a Secret of the credentials namespace."""

    name: ObjectName
    """Name of the Secret; its key kubeconfig holds the access."""


class Credentials(Model):
    """How the cluster is reached."""

    secret_ref: SecretRef
    """Secret with a kubeconfig."""


class StatedFields(Model):
    """What operators state of the cluster, and policies read."""

    properties: Annotated[
        dict[LabelKey, Annotated[str, Field(max_length=256)]], Field(max_length=64)
    ] = Field(default_factory=dict)
    """Facts that policies ask for as properties.KEY: texts, numbers or quantities. Keys are spelt
    as label keys."""
    price_per_hour: (
        Annotated[str, Field(max_length=32, pattern=r"^[0-9]{1,12}(\.[0-9]{1,9})?$")] | None
    ) = None
    """Price of an hour there, a decimal number in any unit that is the same for all clusters, such
    as dollars per node. Policies ask for it as price."""
    topology: Annotated[
        dict[
            LabelKey,
            Annotated[
                list[Annotated[LabelValue, Field(min_length=1)]],
                Field(min_length=1, max_length=DOMAINS_MAX, json_schema_extra=LIST_SET),
            ],
        ],
        Field(max_length=8),
    ] = Field(default_factory=dict)
    """The domains that the cluster lies in, by topologyKey: zone with several zones. A copy in it
    counts in each of them, and the cluster is lost with the last of them. A key that is not here
    has the value of the label."""


class SuccessFields(Model):
    """How well copies start and jobs end in the cluster."""

    percent: Annotated[int, Field(ge=0, le=100)]
    """The share of workloads that start and end well there, over about an hour."""
    avoided: bool = False
    """New copies go to other clusters first, because the share fell below 50 percent and has not
    reached 80 percent since."""


def stated_of(obj: Obj) -> Stated:
    """What is known of a MemberCluster. Total: what cannot be read is left out."""
    spec = raw.mapping(obj, "spec")
    price = raw.text(spec, "pricePerHour")
    topology = raw.mapping(spec, "topology")
    made = Stated(
        raw.text(obj, "status", "version"),
        raw.text_map(spec, "properties"),
        price if properties.number(price) is not None else "",
        raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp")),
        {
            key: tuple(sorted(domains))
            for key in topology
            if (domains := {each for each in raw.texts(topology, key) if _is_domain(each)})
        },
    )
    return made if made != NOTHING_STATED else NOTHING_STATED


def success_permille(obj: Obj) -> int | None:
    """The success rate that its status records, in thousandths; None where it records none."""
    status = raw.mapping(obj, "status", "success")
    if "percent" not in status:
        return None
    return 10 * min(max(raw.integer(status, "percent"), 0), 100)


def avoided(obj: Obj) -> bool:
    """Whether its status records that new copies go to other clusters first."""
    return raw.flag(obj, "status", "success", "avoided")


def _is_domain(text: str) -> bool:
    return bool(text) and selectors.check_label_value(text) is None
