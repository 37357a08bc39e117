"""PinterestJobSet: many equal, independent jobs, each taking one numbered shard of the work. Schema and verbs.

Shards are given to clusters as ranges, and each range becomes one Indexed Job there: `model.shards.in_pieces` makes
sure that a range which has a Job stays a range.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import SEQ_RULE, Amount, DnsLabel, IndexSet, Metadata, Model, rules
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.pods import podparts
from federator.kinds.shared import workloads
from federator.kinds.shared.workloadfields import NAME_RULE, ClusterRow, WorkloadSpec, WorkloadStatus, rows_of
from federator.kinds.verbs import FoldFacts, SliceMark, WorkloadVerbs
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges

KIND: Final = "PinterestJobSet"
API_VERSION: Final = "pinterest.com/v1beta1"
SELECTOR_LABEL: Final = "pinterest.com/jobset"
"""Label of its pods and Jobs, with the workload's name as value."""
DEFAULTS: Final[dict[str, Any]] = {
    "tier": "OnDemand",
    "completion": "All",
    "execution": "MayOverlap",
    "backoffLimitPerShard": 3,
}
MAX_SHARDS: Final = 100_000
"""Above this, a Job with a limit per index needs other settings; one Job may hold all shards."""

ShardCount = Annotated[int, Field(ge=1, le=MAX_SHARDS, json_schema_extra={"format": "int32"})]
FIXED_SHARDS = rules(
    ("self == oldSelf", "the number of shards is fixed: shards that ran were cut for it; make a new job set")
)
EXCLUSIVE = (
    "execution Exclusive is not offered yet: it needs the fence between clusters, which comes later; use MayOverlap"
)


class ClaimMetadata(Model):
    """Name and labels of a volume claim."""

    name: DnsLabel
    """Name of the volume that containers mount."""
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Labels of the claims."""
    annotations: Annotated[dict[str, str], Field(max_length=64)] = Field(default_factory=dict)
    """Annotations of the claims."""


class ClaimTemplate(Model):
    """A volume of its own for each shard's pod; it is made with the pod and goes with it."""

    metadata: ClaimMetadata
    """Name of the volume; labels and annotations of the claims."""
    spec: Annotated[dict[str, Any], Field(json_schema_extra={"x-federator-embed": "PersistentVolumeClaimSpec"})]
    """The claim: access modes, size, storage class."""


class Spec(WorkloadSpec):
    """What a PinterestJobSet asks for."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            SEQ_RULE,
            ("self.execution != 'Exclusive'", EXCLUSIVE),
            (
                "!has(self.template.spec) || !has(self.template.spec.restartPolicy)"
                " || self.template.spec.restartPolicy == 'Never'",
                "the pods of a job set have restartPolicy Never: a failed shard is tried again in a new pod",
            ),
        )
    )

    shards: Annotated[ShardCount, Field(json_schema_extra=FIXED_SHARDS)] = 1
    """Parts that the work is cut into, numbered from 0; on a slice still the whole number."""
    parallelism: Annotated[int, Field(ge=0, le=MAX_SHARDS, json_schema_extra={"format": "int32"})] | None = None
    """Shards that may run at once over all clusters (on a slice, in this cluster); all of them when left out."""
    completion: Literal["All"] = "All"
    """All: the job set is complete when every shard is; it fails when one has failed for good."""
    execution: Literal["MayOverlap", "Exclusive"] = "MayOverlap"
    """MayOverlap: after the loss of a cluster a shard may run twice for a while. Exclusive is not offered yet."""
    backoff_limit_per_shard: Annotated[int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})] = 3
    """How often a failed shard is tried again."""
    volume_claim_templates: Annotated[
        list[ClaimTemplate], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = Field(default_factory=list)
    """A volume of its own for each shard's pod."""

    @model_validator(mode="after")
    def _offered(self) -> "Spec":
        if self.execution == "Exclusive":
            raise PydanticCustomError("execution", EXCLUSIVE)
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
    unknown: Amount = 0
    """Running shards in clusters that are not heard of."""
    completed_indexes: IndexSet = ""
    """Completed shards, such as 0-3,7. On the host this is the durable truth."""
    failed_indexes: IndexSet = ""
    """Shards that have failed for good."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestJobSet(Model):
    """Many equal, independent jobs, each taking one numbered shard of the work."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE))

    api_version: Literal["pinterest.com/v1beta1"]
    """pinterest.com/v1beta1."""
    kind: Literal["PinterestJobSet"]
    """PinterestJobSet."""
    metadata: Metadata
    """Standard metadata."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""


def count(obj: Obj) -> int:
    return max(raw.integer(obj, "spec", "shards", default=1), 0)


def slots(obj: Obj) -> int:
    wanted = raw.integer(obj, "spec", "parallelism", default=count(obj))
    return min(max(wanted, 0), count(obj))


def refused(obj: Obj) -> str:
    """Why it cannot be placed at all, as a sentence; "" when it can. Old objects may hold what the schema now
    refuses."""
    return EXCLUSIVE if raw.text(obj, "spec", "execution") == "Exclusive" else ""


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    """The total number of shards stays; the cluster's ranges are those of the mark, else of the share."""
    if not mark.ranges:
        mark = replace(mark, ranges=share.ranges)
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    spec["shards"] = count(obj)
    spec["parallelism"] = share.slots
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": verbs.slice_metadata(obj, mark), "spec": spec}


def observe(obj: Obj, cluster: str, known: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    mark = workloads.read_mark(obj)
    desired = shards.size(mark.ranges) if mark else 0
    completed = workloads.indexes(status, "completedIndexes")
    failed = workloads.indexes(status, "failedIndexes")
    running = raw.figure(status, "running")
    return SliceObservation(
        **workloads.observed(obj, cluster, known, desired=desired),
        actual=running,
        active=running,
        completed=completed,
        failed=failed,
        finished=desired > 0 and shards.size(shards.union(completed, failed)) >= desired,
        unreadable=next((name for name in _INDEXES if workloads.is_no_set(status, name)), ""),
    )


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    done, failed = shards.size(seen.completed), shards.size(seen.failed)
    status = workloads.base_slice_status(seen, conditions)
    status |= {"shards": seen.desired, "running": seen.active, "done": done, "failed": failed}
    status["summary"] = f"{done}/{seen.desired} done, {seen.active} running"
    return status | _index_fields(seen.completed, seen.failed)


def host_status(obj: Obj, fold: FoldFacts, conditions: Sequence[Obj], *, policy: str = "") -> dict[str, Any]:
    rows = [
        {"cluster": row.cluster, "shards": row.share, "slots": row.slots, "running": row.active}
        | {"done": row.completed, "failed": row.failed}
        | workloads.trouble(row)
        for row in fold.rows
    ]
    status = workloads.base_host_status(fold, conditions, policy)
    status |= {
        "shards": fold.desired,
        "running": fold.active,
        "done": shards.size(fold.completed),
        "failed": shards.size(fold.failed),
        "unknown": fold.unknown,
        "clusterStatuses": rows,
    }
    return status | _index_fields(fold.completed, fold.failed)


_INDEXES = ("completedIndexes", "failedIndexes")


def _index_fields(completed: Ranges, failed: Ranges) -> dict[str, str]:
    return {"completedIndexes": workloads.index_text(completed), "failedIndexes": workloads.index_text(failed)}


VERBS: Final = WorkloadVerbs(
    unit=Unit.SHARDS,
    carried=False,
    whole=True,
    count=count,
    slots=slots,
    pod_template=workloads.pod_template,
    pods=podparts.of,
    project=workloads.project,
    tier=workloads.tier,
    priority=workloads.priority,
    placement=workloads.placement,
    suspended=workloads.suspended,
    profile=workloads.profile,
    sidecars=workloads.sidecars,
    max_unavailable=count,
    render_slice=render_slice,
    amount="parallelism",
    read_mark=workloads.read_mark,
    observe=observe,
    slice_status=slice_status,
    host_status=host_status,
)
