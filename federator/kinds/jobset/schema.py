"""Schema of PinterestJobSet: the models that its CRD is generated from and files are checked by."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    INT32_MAX,
    SEQ_RULE,
    Amount,
    IndexSet,
    Model,
    Moment,
    many,
    named,
    rules,
)
from federator.kinds.jobset import endfields, shardparts
from federator.kinds.jobset.endfields import FailurePolicy, Seconds, SuccessPolicy
from federator.kinds.shared.claims import ClaimMetadata, ClaimSpec
from federator.kinds.shared.workloadfields import (
    ClusterRow,
    FileName,
    PinterestKind,
    WorkloadSpec,
    WorkloadStatus,
    rows_of,
)

KIND: Final = "PinterestJobSet"
SELECTOR_LABEL: Final = "pinterest.com/jobset"
"""Label of its pods and Jobs, with the workload's name as value."""
MAX_SHARDS: Final = 100_000
"""Above this, a Job with a limit per index needs other settings; one Job may hold all shards."""

ShardFileName = Annotated[FileName, Field(max_length=240)]
"""Its key in a ConfigMap begins with the number of the shard."""
ShardCount = Annotated[int, Field(ge=1, le=MAX_SHARDS, json_schema_extra={"format": "int32"})]
FIXED_SHARDS = rules(
    (
        "self == oldSelf",
        "the number of shards is fixed: shards that ran were cut for it; make a new job set",
    )
)


class ClaimTemplate(Model):
    """A volume for each shard."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.retention) || (has(self.lifetime) && self.lifetime == 'Shard')",
                shardparts.GOES_WITH_POD,
            )
        )
    )

    metadata: ClaimMetadata
    """Name of the volume; labels and annotations of the claims."""
    spec: ClaimSpec
    """The claim: access modes, size, storage class."""
    lifetime: Literal["Pod", "Shard"] | None = None
    """Pod (when left out): a claim for each pod, made with it and gone with it. Shard: a shard that
    is tried again finds its data. The shards of a cluster share one claim of access mode
    ReadWriteMany, and each sees a directory of its own.
    """
    retention: Literal["Delete", "Retain"] | None = None
    """Of a claim with lifetime Shard: Delete (when left out) with the job set, or when the cluster
    has no part of it any more. Retain: it stays, and the next job set of this name finds it.
    """

    @model_validator(mode="after")
    def _kept(self) -> "ClaimTemplate":
        # Checked here and where it is placed: a CEL rule over a list without a bound exceeds the
        # cost that API servers allow.
        modes = self.spec.get("accessModes") or []
        if self.lifetime == "Shard" and shardparts.SHARED_ACCESS not in modes:
            raise PydanticCustomError("lifetime", shardparts.NEEDS_SHARED)
        if self.lifetime != "Shard" and self.retention is not None:
            raise PydanticCustomError("retention", shardparts.GOES_WITH_POD)
        return self


GUARD_RULE = (
    "!has(self.guard) || !self.guard || self.execution == 'Exclusive'",
    "guard is for execution Exclusive: other shards may run twice for a while",
)
SPEC_RULES = (
    (
        "!has(self.template.spec) || !has(self.template.spec.restartPolicy)"
        " || self.template.spec.restartPolicy == 'Never'",
        (
            "the pods of a job set have restartPolicy Never: a failed shard is tried again in a "
            "new pod"
        ),
    ),
    endfields.SUCCESS_RULE,
    endfields.ENOUGH_RULE,
    GUARD_RULE,
)
"""Rules on a spec wherever it stands: in a job set, or in the template of one."""
FIXED_RULES = (
    *map(endfields.fixed, ("successPolicy", "failurePolicy", "guard")),
    ("self.completion == oldSelf.completion", "completion is fixed; make a new job set"),
    (
        "self.execution == oldSelf.execution",
        "execution is fixed: shards that run began under it; make a new job set",
    ),
    endfields.DEADLINE_RULE,
)
"""Rules on a change of a job set that exists."""


class Spec(WorkloadSpec):
    """What a PinterestJobSet asks for."""

    model_config = ConfigDict(json_schema_extra=rules(SEQ_RULE, *SPEC_RULES, *FIXED_RULES))

    shards: Annotated[ShardCount, Field(json_schema_extra=FIXED_SHARDS)] = 1
    """Parts that the work is cut into, numbered from 0; on a slice still the whole number."""
    parallelism: (
        Annotated[int, Field(ge=0, le=MAX_SHARDS, json_schema_extra={"format": "int32"})] | None
    ) = None
    """Shards that may run at once over all clusters (on a slice, in this cluster); all of them when
    left out.
    """
    min_parallelism: (
        Annotated[int, Field(ge=1, le=MAX_SHARDS, json_schema_extra={"format": "int32"})] | None
    ) = None
    """Where a quota has less than parallelism: so many at once are enough to begin. All of them
    when left out.
    """
    completion: Literal["All", "Any", "SuccessPolicy"] = "All"
    """All: the job set is complete when every shard is; it fails when one has failed for good. Any:
    when one shard is. SuccessPolicy: when those are that successPolicy names. With Any and
    SuccessPolicy the rest is stopped then, in all clusters.
    """
    success_policy: SuccessPolicy | None = None
    """With completion SuccessPolicy: which completed shards suffice."""
    failure_policy: FailurePolicy | None = None
    """What failures mean; without it a failed shard is tried again backoffLimitPerShard times."""
    active_deadline_seconds: Seconds | None = None
    """The job set fails, and what runs of it is stopped, so long after its first shard began."""
    ttl_seconds_after_finished: (
        Annotated[int, Field(ge=0, le=INT32_MAX, json_schema_extra={"format": "int32"})] | None
    ) = None
    """The job set is deleted, with all that it has in clusters, so long after it ended; it stays
    when left out.
    """
    execution: Literal["MayOverlap", "Exclusive"] = "MayOverlap"
    """MayOverlap: after the loss of a cluster a shard may run twice for a while. Exclusive: no
    shard runs in two clusters at once; those of a silent cluster stay its own until it is heard
    again, or until a person fences it, or, with guard, until they have stopped there.
    """
    guard: bool | None = None
    """With execution Exclusive: a sidecar in each pod stops the shard when its cluster is cut off
    for too long, so that it can begin elsewhere without a person.
    """
    backoff_limit_per_shard: Annotated[
        int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})
    ] = 3
    """How often a failed shard is tried again."""
    volume_claim_templates: list[ClaimTemplate] = many(16)
    """A volume for each shard."""
    shard_config: dict[ShardFileName, Annotated[str, Field(max_length=131072)]] = named(16)
    """Files that are rendered for each shard, mounted at /etc/pinterest/shard: {shard} is its
    number, {index} its number in its Job, {count} the number of all. At most 512 KiB for the shards
    of one cluster.
    """

    @model_validator(mode="after")
    def _offered(self) -> "Spec":
        policy = self.success_policy
        if (self.completion == "SuccessPolicy") != (policy is not None):
            raise PydanticCustomError("completion", endfields.SUCCESS_RULE[1])
        if policy is not None and (policy.succeeded_count or 0) > self.shards:
            raise PydanticCustomError("successPolicy", endfields.ENOUGH_RULE[1])
        if self.guard and self.execution != "Exclusive":
            raise PydanticCustomError("guard", GUARD_RULE[1])
        return self


class Row(ClusterRow):
    """One cluster's part of a job set."""

    shards: Amount = 0
    """Shards it is given."""
    slots: Amount = 0
    """How many of them may run at once."""
    running: Amount = 0
    """Shards that run."""
    done: Amount = 0
    """Shards that are completed."""
    failed: Amount = 0
    """Shards that have failed for good."""


class Status(WorkloadStatus):
    """What is reported of a PinterestJobSet."""

    shards: Amount = 0
    """Shards in all."""
    running: Amount = 0
    """Shards that run."""
    done: Amount = 0
    """Shards that are completed."""
    failed: Amount = 0
    """Shards that have failed for good."""
    stopped: Amount = 0
    """Shards that were neither completed nor failed when the job set ended: they run no more."""
    start_time: Moment | None = None
    """When its first shard began; said where activeDeadlineSeconds counts from it."""
    unknown: Amount = 0
    """Running shards in unreachable clusters."""
    completed_indexes: IndexSet = ""
    """Completed shards, such as 0-3,7. On the host this is the durable truth."""
    failed_indexes: IndexSet = ""
    """Shards that have failed for good."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestJobSet(PinterestKind):
    """Many equal, independent jobs, each taking one numbered shard of the work."""

    kind: Literal["PinterestJobSet"]
    """PinterestJobSet."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
