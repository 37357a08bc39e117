"""The fields of a scenario file; docs/reference/scenario-file.md shows all, others are refused."""

from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from federator.api.common import Model
from federator.api.scaleupfields import Classes
from federator.model.ask import Tier
from federator.simulate.scenario import fields
from federator.simulate.scenario.fields import Duration, Instant, Names, Portion, refused
from federator.simulate.scenario.question import Question
from federator.simulate.scenario.tables import FleetTable, TierName, TraceFile

Name = Annotated[str, Field(min_length=1, max_length=253)]
Object = dict[str, Any]
"""An object of one of our kinds, or `{file: PATH}`."""
Weights = Annotated[dict[str, Annotated[float, Field(ge=0)]], Field(min_length=1)]
"""Value -> how often it is drawn, relative to the others."""
RECORDING_VERSION: Final = 1
"""Of what `federator record` writes under `demand.recording`."""


class Gpus(Model):
    """GPUs of a node."""

    count: Annotated[int, Field(ge=1, le=64)]
    model: str = ""


class Taint(Model):
    """Keeps away what does not tolerate it."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Nodes(Model):
    """`count` equal nodes. A resource that is not named the nodes do not have."""

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    cpu: str | int | None = None
    """A quantity, `96` or `96000m`."""
    memory: str | int | None = None
    """A quantity, `768Gi`."""
    gpus: Gpus | None = None
    taints: list[Taint] = Field(default_factory=list)


class Cluster(Model):
    """One cluster, written down."""

    name: Name
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    usable: Portion = Fraction(1)
    """How much of what its nodes offer may be filled."""
    failover_buffer: Portion = Fraction(0)
    """How much of it is kept for copies that leave other clusters, and lent to Preemptible work."""
    nodes: Annotated[list[Nodes], Field(min_length=1)]
    packs: bool = False
    """Its scheduler fills nodes one after the other; the default one spreads over them."""
    price: Annotated[float, Field(ge=0)] | None = None
    """Of one node for an hour."""
    scale_up: Classes = Field(default_factory=list)
    """Nodes that its autoscaler can add, as `spec.scaleUp` of a MemberCluster. None of `nodes` is
    one of them."""


class FleetGenerator(Model):
    """Clusters of one kind of node, with sizes that are drawn."""

    clusters: Annotated[int, Field(ge=1, le=5000)]
    regions: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["us-east-1", "us-west-2", "eu-west-1"]
    )
    zones: Annotated[int, Field(ge=1, le=26)] = 2
    """Of each region; a cluster lies in one."""
    least: Annotated[int, Field(ge=1)] = 8
    """Nodes of the smallest cluster."""
    most: Annotated[int, Field(ge=1)] = 64
    """Nodes of the largest cluster; sizes are drawn so that each doubling is as likely."""
    node: Nodes
    """What each node has; its count is not read."""
    price: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.least > self.most:
            raise refused(f"least is {self.least}, more than most, which is {self.most}")
        return self


class FleetFields(Model):
    """The clusters: from one or several of these sources, each name once."""

    clusters: list[Cluster] = Field(default_factory=list)
    table: FleetTable | None = None
    objects: list[Object] = Field(default_factory=list)
    """MemberClusters with status.capacity, or `{file: PATH}` with some."""
    occupied: bool = False
    """What is not free in `objects` stays occupied; without it everything counts as free."""
    generate: FleetGenerator | None = None
    capacity: Portion = Fraction(1)
    """Every cluster has this part of its nodes, rounded down, at least one of each kind."""
    packs: bool = False
    """The schedulers of all clusters fill nodes one after the other; default ones spread."""
    aggregates: bool = False
    """Each cluster is one node of its totals: faster, and blind to fragmentation."""
    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Cluster -> labels beside those that it has."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Cluster -> price of one of its nodes for an hour."""
    failover_buffers: dict[str, Portion] = Field(default_factory=dict)
    """The same field of these clusters."""
    scale_down_after: Annotated[Duration, AfterValidator(fields.at_least_a_minute)] = 600
    """Autoscalers remove nodes that have stood empty for so long."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not (self.clusters or self.table or self.objects or self.generate):
            raise refused("names no clusters: give clusters, table, objects or generate")
        return self


class Runtime(Model):
    """Log-normal run times: half of them are longer than the median."""

    median: Duration
    sigma: Annotated[float, Field(ge=0, le=5)] = 1.5
    """Of the logarithm: 0 gives equal run times, 2 the long tails of training clusters."""
    longest: Duration = 30 * 86400


class Rhythm(Model):
    """How submissions follow day and week."""

    day: Annotated[float, Field(ge=0, le=1)] = 0.5
    """0: evenly; 1: none at the quietest hour, twice the mean at the peak."""
    peak: Duration = 15 * 3600
    """Time of day of the most submissions."""
    weekend: Annotated[float, Field(ge=0, le=10)] = 0.5
    """Submissions of the last two days of seven, beside the other days."""
    growth_per_week: Annotated[float, Field(ge=-0.9, le=10)] = 0.0
    """0.05: each week has 5 % more than the one before."""


class Bursts(Model):
    """Submissions in one go: a sweep of equal jobs of one tenant."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Of all works."""
    size: Annotated[int, Field(ge=2, le=10_000)] = 20
    """Works of a burst at most; at least two."""
    within: Duration = 600


class PerShard(Model):
    """What one shard asks for."""

    cpu: str | int | None = None
    memory: str | int | None = None
    gpus: Annotated[int, Field(ge=0, le=64)] = 0


class Failures(Model):
    """Jobs with attempts that fail, each somewhere within its run time."""

    share: Annotated[float, Field(ge=0, le=1)]
    """Of the jobs of the stream."""
    times: Weights = Field(default_factory=lambda: {"1": 1.0})
    """Attempts of such a job that fail before one that completes -> weight."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Failures that are followed by another attempt; with one more the job has failed."""

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        wrong = [
            text
            for text in self.times
            if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1000)
        ]
        if wrong:
            raise refused(f"times: {wrong[0]!r} is no number of attempts from 1 to 1000")
        if sum(self.times.values()) <= 0:
            raise refused("times: every weight is 0")
        return self


class Daily(Model):
    """Replicas that follow the day: all that were drawn at the peak, a part of them twelve hours
    later.
    """

    least: Portion
    peak: Duration = 15 * 3600
    step: Annotated[Duration, AfterValidator(fields.at_least_a_minute)] = 3600
    """Time between two looks at how many are needed."""

    @model_validator(mode="after")
    def _part(self) -> Self:
        if self.least > 1:
            raise refused("least: is more than all")
        return self


class Curve(Model):
    """How the services of a stream are scaled: by points, or by the time of day."""

    points: (
        Annotated[dict[str, Annotated[int, Field(ge=0, le=10_000_000)]], Field(min_length=1)] | None
    ) = None
    """Time (`0`, `9h`) -> replicas of each service from then on."""
    every: Duration | None = None
    """The points are of such a period, and come again; without it the last one holds."""
    daily: Daily | None = None

    def at(self) -> list[tuple[int, int]]:
        """The points in the order of time."""
        return sorted(
            (fields.seconds(text), replicas) for text, replicas in (self.points or {}).items()
        )

    @model_validator(mode="after")
    def _points_or_daily(self) -> Self:
        if (self.points is None) == (self.daily is None):
            raise refused("needs points or daily, and not both")
        if self.daily is not None and self.every is not None:
            raise refused("every: goes with points")
        try:
            times = [at_s for at_s, _ in self.at()]
        except ValueError as bad:
            raise refused(f"points: {bad}") from None
        if len(set(times)) < len(times):
            raise refused("points: a time is given twice")
        if self.every is not None and (not self.every or times[-1] >= self.every):
            raise refused("every: is to be later than all points")
        return self


class Stream(Model):
    """Works of one kind that are drawn with the seed."""

    name: Name = "job"
    """Begins every id."""
    kind: Literal["service", "job", "jobset", "trainingjob"] = "job"
    works: Annotated[int, Field(ge=1, le=10_000_000)]
    """How many are submitted."""
    over: Duration
    """From second 0 on, in this time."""
    tenants: Weights
    """Tenant -> how much of the demand is its."""
    homes: dict[str, str] = Field(default_factory=dict)
    """Tenant -> cluster in which it would run without a federation."""
    shards: Weights = Field(default_factory=lambda: {"1": 1.0})
    """Shards -> weight; a work with several needs them at once."""
    shard: PerShard
    gpu_models: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """`A100|H100` (one of these) or `any` -> weight."""
    tiers: Weights = Field(default_factory=lambda: {"OnDemand": 1.0})
    runtime: Runtime | None = None
    """None: they run to the end, as services do."""
    rhythm: Rhythm = Rhythm()
    bursts: Bursts = Bursts()
    checkpoint: Duration | None = None
    failures: Failures | None = None
    curve: Curve | None = None
    """Of services: how their replicas change."""

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if self.failures is not None and (self.kind == "service" or self.runtime is None):
            raise refused("failures: only jobs with a runtime fail")
        if self.curve is not None and self.kind != "service":
            raise refused(f"curve: only services scale, and kind is {self.kind}")
        for field, weights in (
            ("tenants", self.tenants),
            ("shards", self.shards),
            ("tiers", self.tiers),
        ):
            if sum(weights.values()) <= 0:
                raise refused(f"{field}: every weight is 0")
        wrong = [
            text
            for text in self.shards
            if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000)
        ]
        if wrong:
            raise refused(f"shards: {wrong[0]!r} is no number of shards from 1 to 100000")
        unknown = [tier for tier in self.tiers if tier not in list(Tier)]
        if unknown:
            raise refused(f"tiers: {unknown[0]!r} is none of {', '.join(Tier)}")
        strange = [tenant for tenant in self.homes if tenant not in self.tenants]
        if strange:
            raise refused(f"homes: {strange[0]!r} is no tenant")
        if self.shard == PerShard():
            raise refused("shard: asks for nothing; give cpu, memory or gpus")
        return self


class Decided(Model):
    """A decision of the recorded federation."""

    seq: Annotated[int, Field(ge=0)]
    """Its number: by these the decisions of all works are in order."""
    at: Annotated[float, Field(ge=0, le=fields.DURATION_MAX_S)]
    """Seconds since `begin`."""
    wanted: Annotated[int, Field(ge=0)] = 0
    """Copies that were asked for; 0 where the history does not say."""
    clusters: dict[Name, Annotated[int, Field(ge=0)]]
    """Cluster -> copies or shards."""


class RecordedScaling(Model):
    """An edit of a service's replicas."""

    at: Duration
    """Seconds since `begin`."""
    replicas: Annotated[int, Field(ge=0)]
    cycle: Annotated[float, Field(ge=0)] = 0.0
    """Of the decision that followed: as `RecordedWork.cycle`."""


class RecordedWork(Model):
    """A workload, when it came and went, and what was decided about it."""

    submit: Duration
    """Seconds since `begin`; works of one second are in the order of their first decisions."""
    runtime: Duration | None = None
    """Seconds from its start to its completion; None: it had not ended."""
    failed: bool = False
    """Whether it ended since it had failed."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """What a service asked for at first; None: what its object says."""
    scalings: list[RecordedScaling] = Field(default_factory=list)
    """Its later edits, by time."""
    cycle: Annotated[float, Field(ge=0)] = 0.0
    """Epoch seconds of what the cycle that first decided on it knew; 0 where that is not known."""
    workload: dict[str, Any]
    """The object, without its status."""
    decisions: list[Decided] = Field(default_factory=list)


class Recording(Model):
    """What `federator record` took from a live federation."""

    version: int
    begin: Annotated[int, Field(ge=0)]
    """Epoch seconds of second 0."""
    notes: list[str] = Field(default_factory=list)
    """What the recording lacks, each a sentence."""
    levels: dict[Name, Literal["privileged", "baseline", "restricted"]] = Field(
        default_factory=dict
    )
    """Namespace -> the Pod Security level that it enforces."""
    profiles: list[Object] = Field(default_factory=list)
    """RuntimeProfiles of the workloads, or `{file: PATH}` with some."""
    works: list[RecordedWork] = Field(default_factory=list)
    complete: bool
    """The last line of the recording; a file without it was cut off."""

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, data: Any) -> Any:
        if isinstance(data, dict):
            version = data.get("version")
            if version != RECORDING_VERSION or isinstance(version, bool):
                message = (
                    f"version is {str(version)[:20]}; this program reads version "
                    f"{RECORDING_VERSION}"
                )
                raise refused(message)
            if data.get("complete") is not True:
                raise refused("`complete: true` is not at its end: the file was cut off")
        return data


class Demand(Model):
    """The works: from one or several of these sources."""

    trace: TraceFile | None = None
    generate: list[Stream] = Field(default_factory=list)
    recording: Recording | None = None
    scale: Portion = Fraction(1)
    """1.3: 1.3 times the core-hours, GiB-hours and GPU-hours. Some jobs are there once more, drawn
    by weight with the seed; services ask for more copies. 0.5: half of them."""
    checkpoint: Duration | None = None
    """Time between check-points of works that name none; without it a lost work begins again."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Of jobs that fail and name none."""
    deadlines: Annotated[Portion, Field(ge=1)] | None = None
    """Jobs say how long they run at most (activeDeadlineSeconds): so many times their run time. Not
    those that fail."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.trace is None and not self.generate and self.recording is None:
            raise refused("names no works: give trace, generate or recording")
        if self.scale <= 0:
            raise refused("scale: must be more than 0")
        return self


class Grown(Model):
    """More nodes, or fewer."""

    cluster: Name
    by: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    """Nodes like those it has most of; negative takes some away."""
    nodes: Nodes | None = None
    """Nodes of another kind, added."""


class Price(Model):
    """A price from now on."""

    cluster: Name
    node_class: Annotated[str, Field(alias="class")] = ""
    """Of the nodes of this class of its scaleUp; without it of its other nodes."""
    price: Annotated[float, Field(ge=0, lt=1_000_000)]


class ScaleUpChange(Model):
    """Whether the nodes come that an autoscaler orders."""

    cluster: Name
    node_class: Annotated[str, Field(alias="class")] = ""
    """Of its scaleUp; without it all."""
    delivers: bool
    """False: also those on their way do not come. True: those that are waited for come after the
    minutes of their class, from now on."""


class Scaled(Model):
    """Services ask for other numbers of copies."""

    services: Names
    """By id, or all that are there of a tenant: `project=ads`, `namespace=ads`."""
    replicas: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    """Of each, until the next point of its curve."""
    times: Portion | None = None
    """So many times what each asks for, and what its curve says later."""

    @model_validator(mode="after")
    def _replicas_or_times(self) -> Self:
        if (self.replicas is None) == (self.times is None):
            raise refused("needs replicas or times, and not both")
        return self


class Event(Model):
    """One change at an instant: `at` and one of the others. Clusters are named, or selected by a
    label (`zone=us-east-1a`)."""

    at: Instant
    lost: Names | None = None
    returned: Names | None = None
    drained: Names | None = None
    added: Cluster | None = None
    grown: Grown | None = None
    price_changed: Price | None = None
    scale_up: ScaleUpChange | None = None
    quota_changed: list[Object] | None = None
    """All quotas from now on."""
    policy_changed: list[Object] | None = None
    """All policies from now on."""
    scaled: Scaled | None = None

    @property
    def verbs(self) -> list[str]:
        """The fields that say what happens."""
        return [
            info.alias or name for name, info in type(self).model_fields.items() if self._says(name)
        ]

    def _says(self, name: str) -> bool:
        return name != "at" and getattr(self, name) is not None

    @model_validator(mode="after")
    def _single_change(self) -> Self:
        if len(self.verbs) != 1:
            raise refused(f"says {' and '.join(self.verbs) or 'nothing'}; one change is expected")
        return self


class MeasureFields(Model):
    """A measure that the verdict is about."""

    figure: str = ""
    """Its name in report.json; without it the name of the measure."""
    project: str = ""
    """Of the works of this project only, for figures of waiting."""
    tier: TierName | None = None
    most: str | int | float | None = None
    """Lengths as `10m`, shares as `80%`."""
    least: str | int | float | None = None


class Scenario(Model):
    """A simulation as a person writes it."""

    name: str = ""
    """The file's name where it is not said."""
    description: str = ""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """Of everything that is drawn."""
    until: Instant | None = None
    """When the simulation ends; without it when nothing is left to happen."""
    warm_up: Duration = 0
    """What was submitted before is not measured."""
    fleet: FleetFields
    demand: Demand
    policies: list[Object] = Field(default_factory=list)
    """PlacementPolicies and ClusterPlacementPolicies, or `{file: PATH}` with some."""
    quotas: list[Object] = Field(default_factory=list)
    """FederatedQuotas, or `{file: PATH}` with some."""
    invariants: list[Object] = Field(default_factory=list)
    """PlacementInvariants, or `{file: PATH}` with some. Those with enforcement Refuse bound where
    copies are placed."""
    events: list[Event] = Field(default_factory=list)
    measures: dict[Name, MeasureFields] = Field(default_factory=dict)
    """Name -> which figure, and within which bounds it is good."""
    question: Question | None = None
    """What the verdict answers."""

    @property
    def drawn(self) -> bool:
        """Whether the seed changes anything."""
        return bool(self.fleet.generate or self.demand.generate or self.demand.scale != 1)
