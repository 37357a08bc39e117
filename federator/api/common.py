"""The parts that the models of several kinds share: the strict base, bounded scalars, metadata,
conditions, the slice block.

Attribute docstrings become `kubectl explain` text, so every field has one. Models are for borders
only (files, the gateway, the CRD generator); hot paths read plain objects through `raw`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from federator.model import seq as seqs
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity, selectors

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

WORKLOAD_APIS = frozenset(
    {
        "PinterestService.pinterest.com",
        "PinterestJobSet.pinterest.com",
        "PinterestDaemon.pinterest.com",
        "PinterestNativeCronJob.pinterest.com",
        "PinterestTrainingJob.pinterest.com",
        "PinterestStatefulSet.pinterest.com",
        "Deployment.apps",
    }
)
OPERATOR_APIS = frozenset({"JobSet.jobset.x-k8s.io", "TrainJob.trainer.kubeflow.org"})
"""Kinds of others that workloads can become where a cluster serves them."""
"""What a cluster is taken to serve when nobody asked it (fleet files): the workload kinds as
`Kind.group`."""


class Model(BaseModel):
    """Strict: no coercion, no unknown field, no NaN; fields are spelt in camelCase."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        defer_build=True,  # a command reads a few kinds, and pays for these alone
    )


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL rules with their messages, as schema extras of a model or field."""
    return {
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]
    }


IMMUTABLE = rules(("self == oldSelf", "is fixed once it has been set"))


def list_map(*keys: str) -> dict[str, Any]:
    """Schema extras of a list with these fields as keys of its entries."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


LIST_SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}


def many(most: int, extra: dict[str, Any] = ATOMIC) -> Any:
    """The default of a list of at most so many entries that may be left out."""
    return Field(default_factory=list, max_length=most, json_schema_extra=extra)


def named(most: int) -> Any:
    """The default of at most so many entries by name that may be left out."""
    return Field(default_factory=dict, max_length=most)


def _quantity(value: int | str) -> int | str:
    try:
        parsed = quantity.from_json(value)
    except FieldError as error:
        raise PydanticCustomError("quantity", "{problem}", {"problem": error.message}) from None
    if parsed.nanos < 0:
        raise PydanticCustomError("quantity", "an amount of a resource cannot be negative")
    return value


def checked(kind: str, check: Callable[[str], str]) -> AfterValidator:
    """A validator from a function that gives the sentence of a problem, "" for none."""

    def run(value: str) -> str:
        problem = check(value)
        if problem:
            raise PydanticCustomError(kind, "{problem}", {"problem": problem})
        return value

    return AfterValidator(run)


AMOUNT_PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
"""For API servers; models check the same with words."""
Quantity = Annotated[
    int | str,
    AfterValidator(_quantity),
    Field(json_schema_extra={"x-federator-pattern": AMOUNT_PATTERN}),
]
Amounts = Annotated[dict[str, Quantity], Field(max_length=32)]
"""A resource vector as people write it; the CRD generator spells the values as int-or-string."""
IntOrPercent = Annotated[int | str, Field(json_schema_extra={"x-federator-pattern": "^[0-9]+%?$"})]
"""An absolute number or a percentage such as 25%."""

Count = Annotated[int, Field(ge=0, le=1_000_000, json_schema_extra={"format": "int32"})]
Int32 = Annotated[
    int, Field(ge=-INT32_MAX - 1, le=INT32_MAX, json_schema_extra={"format": "int32"})
]
Seq = Annotated[int, Field(ge=0, le=seqs.MAX, json_schema_extra={"format": "int64"})]
"""Number of a decision."""
Int64 = Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra={"format": "int64"})]
Amount = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
Port = Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]
PortNameOrNumber = int | str
LabelValue = Annotated[
    str, Field(max_length=63), checked("label_value", selectors.check_label_value)
]
LabelKey = Annotated[
    str, Field(min_length=1, max_length=317), checked("label_key", selectors.check_label_key)
]
Labels = Annotated[dict[str, LabelValue], Field(max_length=64)]
_LABEL = {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_SUBDOMAIN = {"pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
_LABEL_VALUE = {"pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"}
DnsLabel = Annotated[
    str,
    Field(min_length=1, max_length=63, json_schema_extra=_LABEL),
    checked("dns_label", selectors.dns1123_label),
]
ClusterName = Annotated[
    str,
    Field(min_length=1, max_length=63, json_schema_extra=_LABEL),
    checked("cluster_name", selectors.dns1123_label),
]
ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253, json_schema_extra=_SUBDOMAIN),
    checked("name", selectors.dns1123_subdomain),
]
SHORT_MAX: Final = 256
ShortText = Annotated[str, Field(max_length=SHORT_MAX)]
NATIVES_MAX: Final = 64
"""Native objects of a slice that its status names: it travels to the hub with each change."""
Sentence = Annotated[str, Field(max_length=1024)]
INDEXES_MAX: Final = 600_000
"""Characters of any set of the shards that one job set may have, each in a piece of its own."""
IndexSet = Annotated[
    str, Field(max_length=INDEXES_MAX, pattern=r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$")
]
"""Shard indexes in the spelling of a Job's completedIndexes: 0-3,7."""
EXPANDER_MAX: Final = 16
Expander = Annotated[str, Field(max_length=EXPANDER_MAX)]
"""Version of the rules by which kinds are expanded."""
Moment = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
AnyObject = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
]
PodTemplate = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-federator-embed": "PodTemplateSpec"})
]
TierName = Literal["Reserved", "OnDemand", "Preemptible"]


class Metadata(Model):
    """Standard object metadata; what servers fill in is accepted, so that live objects can be read
    from files."""

    model_config = ConfigDict(json_schema_extra={"x-federator-metadata": True})

    name: Annotated[str, Field(max_length=253)] = ""
    """Name of the object."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the object."""
    generate_name: Annotated[str, Field(max_length=253)] = ""
    """Prefix for a name made by the server."""
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    uid: str = ""
    """Set by the server."""
    resource_version: str = ""
    """Set by the server."""
    generation: int = 0
    """Set by the server."""
    creation_timestamp: str | None = None
    """Set by the server."""
    deletion_timestamp: str | None = None
    """Set by the server."""
    deletion_grace_period_seconds: int | None = None
    """Set by the server."""
    finalizers: list[str] = Field(default_factory=list)
    """Controllers that must finish before the object is removed."""
    owner_references: list[dict[str, Any]] = Field(default_factory=list)
    """Owners."""
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)
    """Set by the server."""
    self_link: str = ""
    """Set by old servers."""


class FederationObject(Model):
    """What objects of our own group begin with; each kind names itself."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: str
    """Its kind."""
    metadata: Metadata
    """Standard metadata."""


class Condition(Model):
    """One condition, by the Kubernetes API conventions."""

    type: Annotated[str, Field(max_length=316)]
    """What it speaks about: Ready, Placed, Applied, Healthy, Reconciling, Stalled, and others."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """The cause, in CamelCase."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """A sentence for people, with numbers."""
    last_transition_time: Moment | None = None
    """When the status last changed."""
    observed_generation: Amount | None = None
    """Generation of the object that it speaks about."""


Conditions = Annotated[list[Condition], Field(max_length=32, json_schema_extra=list_map("type"))]


class Owner(Model):
    """The team that answers questions, and how to reach it."""

    team: Annotated[str, Field(min_length=1, max_length=63)]
    """The team."""
    contact: Annotated[str, Field(max_length=128)] = ""
    """How to reach it, such as a mail address or a channel."""


class ProfilePin(Model):
    """The RuntimeProfile that a slice's pods are given, by content."""

    name: ObjectName
    """Name of the RuntimeProfile."""
    hash: Annotated[str, Field(max_length=64)]
    """Hash of the content of its spec."""


class SliceEnvironment(Model):
    """The project, the owner and the place of the pods of a slice, as their environment shows
    them."""

    project: ShortText = ""
    """Quota account."""
    owner: ShortText = ""
    """Team that the account names."""
    region: ShortText = ""
    """Region of the cluster."""
    zone: ShortText = ""
    """Zone of the cluster."""


class SliceBlock(Model):
    """What the federation adds to a workload in a member. Never written by people, and refused on
    the host."""

    fleet: Annotated[str, Field(min_length=1, max_length=63)]
    """Id of the hub's fleet. Members expand slices of their own fleet only."""
    workload_uid: Annotated[str, Field(min_length=1, max_length=64)] = Field(alias="workloadUID")
    """Uid of the workload on the host."""
    origin_generation: Amount
    """Generation of the workload on the host that this slice was made from."""
    cluster: ClusterName
    """Name of the member cluster that this slice was made for."""
    seq: Seq
    """Number of the decision that last changed this share; it never falls."""
    ranges: IndexSet = ""
    """Shards of this cluster, such as 0-99,200-299; one Job runs each range. Empty for kinds with
    replicas."""
    pods: Annotated[list[Count], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """Pods of each component, for a gang that got fewer than it asks for."""
    profile: ProfilePin | None = None
    """RuntimeProfile in force."""
    expander: Expander = ""
    """Version of the rules by which native objects are made from this slice."""
    environment: SliceEnvironment | None = None
    """What its pods are told of project, owner, region and zone; renewed when they are made anew.
    """
    ran_until: Moment | None = None
    """Due times up to this moment had their runs before the cluster was given its share. Only of a
    PinterestNativeCronJob."""
    overrides: ShortText = ""
    """Digest of what placement policies change of the workload in this cluster."""


SEQ_RULE = (
    "!has(oldSelf.slice) || !has(self.slice) || self.slice.workloadUID != oldSelf.slice.workloadUID"
    " || self.slice.seq >= oldSelf.slice.seq",
    "slice.seq never falls: a newer decision has already been written",
)


class Unschedulable(Model):
    """Copies that the member's scheduler has found no node for."""

    count: Count
    """How many."""
    since: Moment
    """Since when, at least one of them."""
    reason: ShortText = ""
    """The scheduler's reason, in CamelCase."""
