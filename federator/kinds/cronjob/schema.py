"""Schema of PinterestCronJob: the models that its CRD is generated from and files are checked
by.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    INT32_MAX,
    Amount,
    Conditions,
    Labels,
    Model,
    Moment,
    ShortText,
    many,
    named,
    rules,
)
from federator.api.schedulefields import ScheduleText, ZoneName
from federator.kinds.jobset import schema as jobset
from federator.kinds.nativecron import rulings
from federator.kinds.shared.workloadfields import PinterestKind

KIND: Final = "PinterestCronJob"
RUN_LABEL: Final = "pinterest.com/cronjob"
"""Label of its runs, with its name as value."""
SCHEDULED_ANNOTATION: Final = "pinterest.com/scheduled-at"
"""On a run: the time that it was due."""
LONGEST_NAME: Final = 39
"""A run's name is this, a dash and twelve digits, and has 52 characters at most."""
ACTIVE_MAX: Final = 100
"""Active runs that the status names."""

NAME_RULE = (
    (
        f"size(self.metadata.name) <= {LONGEST_NAME} && "
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ),
    f"a cron job's name has at most {LONGEST_NAME} lower-case letters, digits and '-', "
    "beginning with a letter: its"
    " runs are named NAME-YYYYMMDDHHMM",
)

Limit = Annotated[int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})]


class RunMetadata(Model):
    """Labels and annotations of each run."""

    labels: Labels = Field(default_factory=dict)
    """Labels of the run's PinterestJobSet. Those that begin with federation.pinterest.com/ are left
    out.
    """
    annotations: dict[str, str] = named(64)
    """Its annotations."""


class RunSpec(jobset.Spec):
    """What each run asks for: the spec of a PinterestJobSet."""

    model_config = ConfigDict(json_schema_extra=rules(*jobset.SPEC_RULES))

    shards: jobset.ShardCount = 1
    """Parts that the work of a run is cut into, numbered from 0."""
    slice: ClassVar[None] = None  # type: ignore[misc]  # a template has no place in a member


class RunTemplate(Model):
    """The PinterestJobSet that is made for each run."""

    metadata: RunMetadata | None = None
    """Labels and annotations of each run."""
    spec: RunSpec
    """What each run asks for. A change is for later runs."""


NATIVE_RULES = (
    (
        "self.runs != 'Native' || self.concurrencyPolicy != 'Allow'",
        "with runs Native concurrencyPolicy is Forbid or Replace: a cluster is charged for one run "
        "at a time",
    ),
    (
        "self.runs != 'Native' || !has(self.startingDeadlineSeconds)"
        f" || self.startingDeadlineSeconds >= {rulings.LEAST_DEADLINE_S}",
        f"with runs Native startingDeadlineSeconds is at least {rulings.LEAST_DEADLINE_S}: under a "
        "shorter one a native controller may begin no run at all",
    ),
    *(
        (f"self.runs != 'Native' || ({rule.replace('self.', 'self.jobTemplate.spec.')})", why)
        for rule, why in rulings.RUN_RULES
    ),
)


class Spec(Model):
    """What a PinterestCronJob asks for."""

    model_config = ConfigDict(json_schema_extra=rules(*NATIVE_RULES))

    runs: Literal["Hub", "Native"] = "Hub"
    """The component that decides runs. Hub: the hub makes one job set for each time, and places it
    with the room of that moment. Native: each cluster that the placement of jobTemplate names or
    selects has a native CronJob, and runs each time by itself, also while no hub is there.
    """
    schedule: ScheduleText
    """When runs are due: minute, hour, day of month, month and day of week, as in "30 2 * *
    mon-fri"; or @hourly, @daily, @weekly, @monthly, @yearly, or "@every 90m".
    """
    time_zone: ZoneName | None = None
    """IANA name of the zone that the schedule is read in, such as America/Los_Angeles; UTC when
    left out.
    """
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """What becomes of a run that is due while another is active. Allow: both run. Forbid: it waits
    for the end of the other, and of several that wait the newest begins. Replace: the other is
    deleted.
    """
    starting_deadline_seconds: (
        Annotated[int, Field(ge=0, le=INT32_MAX, json_schema_extra={"format": "int64"})] | None
    ) = None
    """A run that is later than this many seconds does not begin any more: it counts as missed.
    None: however late.
    """
    suspend: bool | None = None
    """While true no run begins; active ones go on."""
    successful_jobs_history_limit: Limit = 3
    """Completed runs that are kept."""
    failed_jobs_history_limit: Limit = 1
    """Failed runs that are kept."""
    job_template: RunTemplate
    """The PinterestJobSet that is made for each run. Where it goes is decided when it is due."""

    @model_validator(mode="after")
    def _native(self) -> "Spec":
        if self.runs != "Native":
            return self
        if self.concurrency_policy == "Allow":
            raise PydanticCustomError("concurrencyPolicy", NATIVE_RULES[0][1])
        deadline_s = self.starting_deadline_seconds
        if deadline_s is not None and deadline_s < rulings.LEAST_DEADLINE_S:
            raise PydanticCustomError("startingDeadlineSeconds", NATIVE_RULES[1][1])
        if problem := rulings.of_model(self.job_template.spec):
            raise PydanticCustomError("jobTemplate", "{problem}", {"problem": problem})
        return self


class Status(Model):
    """What is reported of a PinterestCronJob."""

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Ready and Stalled."""
    active: list[ShortText] = many(ACTIVE_MAX)
    """Names of active runs that the hub made, at most a hundred."""
    active_runs: Amount = 0
    """Active runs, those that clusters made by themselves included."""
    last_schedule_time: Moment | None = None
    """Scheduled time of the newest run."""
    last_successful_time: Moment | None = None
    """When a run was last completed."""
    next_schedule_time: Moment | None = None
    """When the next run is due."""
    missed_runs: Amount = 0
    """Times that got no run so far: too late, or not the newest of several. More than a hundred at
    once count as 101.
    """
    last_missed_time: Moment | None = None
    """The newest of those times."""
    observed_times: ShortText = ""
    """Schedule, time zone and deadline that this status speaks about."""
    times_since: Moment | None = None
    """When one of these was last edited: no run begins for an earlier time. Left out before the
    first edit.
    """
    summary: ShortText = ""
    """One line for tables."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why it makes no runs, as a sentence."""


class PinterestCronJob(PinterestKind):
    """Makes a PinterestJobSet whenever its schedule is due."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_RULE))

    kind: Literal["PinterestCronJob"]
    """PinterestCronJob."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
