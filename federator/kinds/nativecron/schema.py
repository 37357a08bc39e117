"""Schema of PinterestNativeCronJob: the models that its CRD is generated from and files are checked
by.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import INT32_MAX, SEQ_RULE, Amount, Model, Moment, rules
from federator.api.schedulefields import ScheduleText, ZoneName
from federator.kinds.jobset import schema as jobset
from federator.kinds.nativecron import rulings
from federator.kinds.shared.workloadfields import ClusterRow, PinterestKind, WorkloadStatus, rows_of

KIND: Final = "PinterestNativeCronJob"
SELECTOR_LABEL: Final = "pinterest.com/nativecronjob"
"""Label of its pods and Jobs, with its name as value."""
LONGEST_NAME: Final = 39
"""As of a PinterestCronJob: a Job's name is this, a dash and the minutes since 1970."""

NAME_RULE = (
    (
        f"size(self.metadata.name) <= {LONGEST_NAME} && "
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ),
    f"a native cron job's name has at most {LONGEST_NAME} lower-case letters, digits and '-', "
    "beginning with a letter: its Jobs are named NAME-MINUTES",
)

Limit = Annotated[int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})]


class Times(Model):
    """When each cluster runs it."""

    schedule: ScheduleText
    """When runs are due, as in a native CronJob."""
    time_zone: ZoneName | None = None
    """IANA name of the zone that the schedule is read in; UTC when left out."""
    concurrency_policy: Literal["Forbid", "Replace"] = "Forbid"
    """What becomes of a run that is due while another is active in the same cluster."""
    starting_deadline_seconds: (
        Annotated[
            int,
            Field(ge=rulings.LEAST_DEADLINE_S, le=INT32_MAX, json_schema_extra={"format": "int64"}),
        ]
        | None
    ) = None
    """A run that is later than this many seconds does not begin any more; however late when left
    out.
    """
    suspend: bool | None = None
    """While true no cluster begins a run; active ones go on."""
    successful_jobs_history_limit: Limit = 3
    """Completed runs that each cluster keeps."""
    failed_jobs_history_limit: Limit = 1
    """Failed runs that each cluster keeps."""
    after: Moment | None = None
    """The moment of the handover: clusters run what is due after it, and nothing before."""


class Spec(jobset.Spec):
    """What each run asks for, and when: the spec of a PinterestJobSet with times."""

    model_config = ConfigDict(
        json_schema_extra=rules(SEQ_RULE, *jobset.SPEC_RULES, *rulings.RUN_RULES)
    )

    shards: jobset.ShardCount = 1
    """Parts that the work of a run is cut into, numbered from 0."""
    cron: Times
    """When each cluster runs it."""

    @model_validator(mode="after")
    def _native(self) -> "Spec":
        if problem := rulings.of_model(self):
            raise PydanticCustomError("native", "{problem}", {"problem": problem})
        return self


class Row(ClusterRow):
    """One cluster's part."""

    parallelism: Amount = 0
    """Shards of a run that may run at once there."""
    active_runs: Amount = 0
    """Active runs."""
    last_schedule_time: Moment | None = None
    """Scheduled time of its newest run."""
    last_successful_time: Moment | None = None
    """When a run was last completed there."""
    suspended: bool = False
    """Its CronJob begins no runs."""


class Status(WorkloadStatus):
    """What is reported of a PinterestNativeCronJob."""

    active_runs: Amount = 0
    """Active runs, of all clusters."""
    last_schedule_time: Moment | None = None
    """Scheduled time of the newest run in any cluster."""
    last_successful_time: Moment | None = None
    """When a run was last completed in any cluster."""
    suspended: bool = False
    """No cluster begins a run any more: each has been heard to have stopped."""
    unknown: Amount = 0
    """Unreachable clusters: it is unknown what they run."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """Per cluster."""


class PinterestNativeCronJob(PinterestKind):
    """A native CronJob in each cluster of its policy; made for a cron job with runs Native."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE))

    kind: Literal["PinterestNativeCronJob"]
    """PinterestNativeCronJob."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
