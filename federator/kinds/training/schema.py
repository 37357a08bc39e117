"""Schema of PinterestTrainingJob: the models that its CRD is generated from and files are checked
by."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api.common import (
    SEQ_RULE,
    Amount,
    Count,
    DnsLabel,
    IndexSet,
    LabelValue,
    Model,
    Moment,
    ObjectName,
    PodTemplate,
    Port,
    Quantity,
    ShortText,
    list_map,
    many,
    rules,
)
from federator.kinds.shared.workloadfields import (
    ClusterRow,
    PinterestKind,
    WorkloadSpec,
    WorkloadStatus,
    rows_of,
)

KIND: Final = "PinterestTrainingJob"
SELECTOR_LABEL: Final = "pinterest.com/trainingjob"
"""Label of its pods, Jobs and Service, with the workload's name as value."""
LONGEST_COMPONENT: Final = 40
LONGEST_POD: Final = 63
"""Characters of a pod's name that the JobSet controller takes, its random end included."""
MAX_COMPONENTS: Final = 16
MAX_PODS: Final = 1000
"""Pods of one component."""
MAX_SINGLE_JOBS: Final = 64
"""Pods of a component that each need a Job of their own."""
DEFAULT_PORT: Final = 29500
TENSORFLOW: Final = ("chief", "master", "worker", "ps", "evaluator")
"""Roles that TF_CONFIG knows; the pods of ps and evaluator never end by themselves."""
ENDLESS: Final = frozenset({"ps", "evaluator"})

FIXED = rules(("self == oldSelf", "is fixed: pods that ran have found each other by it"))
PodCount = Annotated[int, Field(ge=1, le=MAX_PODS, json_schema_extra={"format": "int32"} | FIXED)]
Processes = Annotated[int, Field(ge=1, le=256, json_schema_extra={"format": "int32"})]
LEAST_RULE = (
    "!has(self.minReplicas) || self.minReplicas <= self.replicas",
    "minReplicas is at most replicas",
)


class Component(Model):
    """Equal pods of the job."""

    model_config = ConfigDict(json_schema_extra=rules(LEAST_RULE))

    name: Annotated[DnsLabel, Field(max_length=LONGEST_COMPONENT)]
    """Its name: worker, master, chief, ps, evaluator, or any other."""
    replicas: PodCount = 1
    """Pods that are wanted."""
    min_replicas: PodCount | None = None
    """Elastic: pods that are enough to begin with, where there is no room for all; all of them when
    left out."""
    pods_per_job: PodCount | None = None
    """Pods of one native Job, numbered from 0 in each; all of the component in one when left out.
    """
    restart_policy: Literal["Never", "OnFailure"] = "Never"
    """Never: a failed pod is replaced by a new one. OnFailure: its containers begin again where
    they are."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})] = 3
    """How often a failed pod is tried again, for each pod; then the whole job has failed."""
    gpu_models: list[LabelValue] = many(16)
    """GPU models that it may run on, as nodes name them in the label nvidia.com/gpu.product; any
    when left out."""
    template: PodTemplate | None = None
    """The pods; spec.template when left out."""

    @model_validator(mode="after")
    def _least(self) -> "Component":
        if self.min_replicas is not None and self.min_replicas > self.replicas:
            raise PydanticCustomError("minReplicas", LEAST_RULE[1])
        return self


class Checkpoint(Model):
    """A volume that all pods of the job share, and that outlives each of them."""

    storage: Quantity
    """Its size."""
    mount_path: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^/[^:]*$")] = (
        "/checkpoints"
    )
    """Where the pods' own containers find it."""
    access_mode: Annotated[
        Literal["ReadWriteMany", "ReadWriteOnce"], Field(json_schema_extra=FIXED)
    ] = "ReadWriteMany"
    """ReadWriteOnce is enough where all pods run on one node."""
    storage_class_name: Annotated[ObjectName, Field(json_schema_extra=FIXED)] | None = None
    """Storage class of the clusters; their default when left out."""
    retain: bool = False
    """Whether the claim stays in the cluster when the job leaves it or is deleted."""


UNDIVIDED_RULE = (
    "!has(self.placement) || (!has(self.placement.division) && !has(self.placement.spread))",
    "a training job runs in one cluster as a whole: placement.division and placement.spread have"
    " no meaning for it",
)
TEMPLATE_RULE = (
    "has(self.template) || self.components.all(component, has(component.template))",
    "each component has a template, or spec.template is there for those that have none",
)
COMPONENTS_RULE = (
    "self.components.all(component, oldSelf.components.exists(old, old.name == component.name))"
    " && self.components.size() == oldSelf.components.size()",
    "the components are fixed: pods that ran have found each other by them; make a new job",
)
TENSORFLOW_RULE = (
    "self.framework != 'TensorFlow' || self.components.all(component, component.name in"
    " ['chief', 'master', 'worker', 'ps', 'evaluator'])",
    "the components of a TensorFlow job are chief, master, worker, ps and evaluator",
)
COMPLETES_RULE = (
    "!has(self.completesWith) || self.completesWith.all(name,"
    " self.components.exists(component, component.name == name))",
    "completesWith names components of the job",
)
ELASTIC_RULE = (
    "self.framework == 'PyTorch' || !self.components.exists(component,"
    " has(component.minReplicas) && component.minReplicas < component.replicas)",
    "only PyTorch jobs are elastic: others begin with all of their pods",
)
CLAIM_RULE = (
    "!has(oldSelf.checkpoint) || has(self.checkpoint)",
    "checkpoint stays once it is there: the federation deletes no claims",
)
PAIR_RULES = (UNDIVIDED_RULE, TEMPLATE_RULE, TENSORFLOW_RULE, COMPLETES_RULE, ELASTIC_RULE)


class Spec(WorkloadSpec):
    """What a PinterestTrainingJob asks for."""

    model_config = ConfigDict(
        json_schema_extra=rules(SEQ_RULE, COMPONENTS_RULE, CLAIM_RULE, *PAIR_RULES)
    )

    framework: Annotated[
        Literal["PyTorch", "TensorFlow", "Custom"], Field(json_schema_extra=FIXED)
    ] = "PyTorch"
    """By what the pods find each other. PyTorch: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and the
    PET_ variables of torchrun; rank 0 is the first pod of the first component. TensorFlow:
    TF_CONFIG. Custom: by host names only."""
    components: Annotated[
        list[Component],
        Field(min_length=1, max_length=MAX_COMPONENTS, json_schema_extra=list_map("name")),
    ]
    """What it consists of, in order of rank; all of it runs in one cluster, or nothing does."""
    template: PodTemplate | None = None  # type: ignore[assignment]
    """The pods of components that have no template of their own."""
    port: Port = DEFAULT_PORT
    """Port on which the first pod (PyTorch), or every pod (TensorFlow), listens."""
    processes_per_pod: Processes | None = None
    """PyTorch: processes that torchrun begins in each pod; one for each GPU when left out."""
    completes_with: list[DnsLabel] = many(MAX_COMPONENTS)
    """Components that must complete for the job to be complete; the others are stopped then. When
    left out: all, but those that never end (ps and evaluator of TensorFlow)."""
    subdomain: Annotated[DnsLabel, Field(json_schema_extra=FIXED)] | None = None
    """Name of the headless Service, the second part of the pods' host names; the job's name when
    left out."""
    checkpoint: Checkpoint | None = None
    """A volume for checkpoints, shared by all pods; it lives in the cluster that runs the job."""
    gang_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 600
    """How long pods may wait for nodes while others hold theirs; then all give them back."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=31536000)] | None = None
    """The job has failed when it is not complete after so long."""
    target: Annotated[
        Literal["Auto", "Jobs", "JobSet", "TrainJob"], Field(json_schema_extra=FIXED)
    ] = "Auto"
    """Which native objects it becomes. Jobs: Indexed Jobs and a headless Service. JobSet: one
    JobSet, from which the JobSet controller makes them. TrainJob: a TrainJob of Kubeflow Trainer
    and the TrainingRuntime that it refers to. The last two run in clusters that serve them only.
    Auto: Jobs."""

    @model_validator(mode="after")
    def _fits_together(self) -> "Spec":
        names = [component.name for component in self.components]
        if self.placement is not None and self.placement.model_fields_set & {"division", "spread"}:
            raise PydanticCustomError("placement", UNDIVIDED_RULE[1])
        if self.template is None and any(
            component.template is None for component in self.components
        ):
            raise PydanticCustomError("template", TEMPLATE_RULE[1])
        if self.framework == "TensorFlow" and not set(names) <= set(TENSORFLOW):
            raise PydanticCustomError("components", TENSORFLOW_RULE[1])
        if not set(self.completes_with) <= set(names):
            raise PydanticCustomError("completesWith", COMPLETES_RULE[1])
        if self.framework != "PyTorch" and any(
            component.min_replicas not in (None, component.replicas)
            for component in self.components
        ):
            raise PydanticCustomError("components", ELASTIC_RULE[1])
        return self


class RoleStatus(Model):
    """How the pods of one component stand."""

    name: ShortText
    """Its name."""
    wanted: Amount = 0
    """Pods that it was given."""
    active: Amount = 0
    """Pods that exist and have not ended."""
    ready: Amount = 0
    """Pods that are ready."""
    succeeded: Amount = 0
    """Pods that have completed."""
    failed: Amount = 0
    """Pods that have failed for good."""


Roles = Annotated[
    list[RoleStatus], Field(max_length=MAX_COMPONENTS, json_schema_extra=list_map("name"))
]


class GangStatus(Model):
    """How far the pods have come together, in one cluster."""

    phase: Literal["Admitting", "Released", "Running", "RolledBack"] = "Admitting"
    """Admitting: its objects are made, and suspended. Released: its pods may begin. Running: all of
    them ran at once. RolledBack: some found no node for too long, and all gave theirs back."""
    since: Moment
    """Since when."""
    attempts: Count = 0
    """How often it was rolled back."""
    pod_group: ShortText = ""
    """The PodGroup by which the cluster's scheduler binds all its pods at once; empty where it
    binds them one by one."""


class Row(ClusterRow):
    """The cluster that runs the job."""

    components: Roles = Field(default_factory=list)
    """How its components stand there."""
    phase: ShortText = ""
    """How far its pods have come together: Admitting, Released, Running or RolledBack."""
    pod_group: ShortText = ""
    """The PodGroup by which the cluster's scheduler binds all its pods at once; empty where it
    binds them one by one."""


class Status(WorkloadStatus):
    """What is reported of a PinterestTrainingJob."""

    wanted: Amount = 0
    """Pods that it was given."""
    running: Amount = 0
    """Pods that exist and have not ended."""
    completed_indexes: IndexSet = ""
    """0 when the job is complete."""
    failed_indexes: IndexSet = ""
    """0 when it has failed for good."""
    unknown: Amount = 0
    """1 while the cluster that runs it is unreachable."""
    components: Roles = Field(default_factory=list)
    """How its components stand."""
    gang: GangStatus | None = None
    """On a slice: how far the pods have come together."""
    cluster_statuses: rows_of(Row) = Field(default_factory=list)  # type: ignore[valid-type]
    """The cluster that runs it; during a move, also the one that it leaves."""


class PinterestTrainingJob(PinterestKind):
    """Pods of several roles that train together in one cluster: all of them, or none."""

    kind: Literal["PinterestTrainingJob"]
    """PinterestTrainingJob."""
    spec: Spec
    """What is asked for."""
    status: Status | None = None
    """What is reported."""
