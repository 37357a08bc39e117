"""The documents of the gateway's API: requests as they are validated, answers as they are
described. The OpenAPI document and the command line come from these models alone."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from federator.api import decoding
from federator.api.common import Model
from federator.api.decoding import Limits
from federator.gateway.api import problems
from federator.kinds import read
from federator.model.errors import FieldError

BODY_MAX: Final = 64 * 1024
"""Bytes of a request's body."""
LIMITS: Final = Limits(size=BODY_MAX, depth=8, nodes=2000)
PARAMETERS_MAX: Final = 64
KEY_PATTERN: Final = r"^[\x21-\x7e]{1,128}$"
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SEGMENT: Final = "[a-z0-9]+([._-][a-z0-9]+)*"
ARTIFACT_PATTERN: Final = (
    rf"^((oci|https)://({_LABEL}\.)*[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?(:[1-9][0-9]{{0,3}})?"
    rf"|http://localhost(:[1-9][0-9]{{0,3}})?)(/{_SEGMENT})+$"
)
"""For the document: hosts with a name. Addresses are read too."""
VERSION_PATTERN: Final = r"^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$"
ID_PATTERN: Final = r"^[0-9a-f]{20}$"
Value = Annotated[str, Field(max_length=4096)] | int | float | bool
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
Answer = Literal["placed", "queued", "refused"]


class SubmissionRequest(Model):
    """A version of a landed workflow, to be run."""

    artifact: Annotated[
        str,
        Field(min_length=1, max_length=512, json_schema_extra={"pattern": ARTIFACT_PATTERN}),
    ]
    """Where the workflow is: oci://HOST/REPOSITORY, or https://HOST/PATH."""
    version: Annotated[str, Field(pattern=VERSION_PATTERN)] = "latest"
    """Tag, version or digest (sha256:...)."""
    parameters: Annotated[
        dict[Name, Value],
        Field(max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
    ] = Field(default_factory=dict)
    """Values of the workflow's declared parameters."""
    dry_run: bool = False
    """True: the verdict is given, and nothing is created."""
    idempotency_key: Annotated[str, Field(pattern=KEY_PATTERN)] | None = None
    """Names this submission. A second request with the same key and body creates nothing and gets
    the same submission. Without it every request is a submission of its own."""


class Shown(Model):
    """An answer. Fields may be added, so clients ignore those that they do not know."""

    model_config = ConfigDict(extra="ignore")


class ClusterCopies(Shown):
    """What one cluster would get."""

    name: str
    """Name of the cluster."""
    copies: int
    """Copies, or shards that run at once."""


class Fix(Shown):
    """A change after which the workload would be admitted, tried with the engine."""

    change: str
    """What changes, in a sentence."""
    commands: list[str]
    """Commands that make the change."""
    by_operator: bool
    """True: only an operator may make it."""


class Queue(Shown):
    """The place of a workload that waits."""

    position: int
    """Position among all that wait, from 1."""
    ahead: int
    """Workloads before it."""
    from_: Annotated[str, Field(alias="from")] = ""
    """Earliest expected start. Empty where too little is known."""
    to: str = ""
    """Latest expected start."""


class WorkloadVerdict(Shown):
    """The verdict on one workload."""

    kind: str
    """Kind of the workload."""
    name: str
    """Its name."""
    verdict: Answer
    """placed, queued or refused."""
    desired: int = 0
    """Copies that it asks for, or shards at once."""
    placed: int = 0
    """Copies that have a place."""
    missing: int = 0
    """Copies without a place."""
    clusters: list[ClusterCopies] = Field(default_factory=list)
    """Where they are placed."""
    reason: str = ""
    """Reason of the decision."""
    message: str = ""
    """The reason in a sentence."""
    queue: Queue | None = None
    """Where it waits."""
    fixes: list[Fix] = Field(default_factory=list)
    """What would admit it."""


class Verdict(Shown):
    """What the leader's next cycle would decide now. It reserves nothing: workloads that are
    admitted earlier may take the capacity or quota."""

    verdict: Answer
    """The last of the workloads' verdicts in the order placed, queued, refused."""
    as_of: str
    """Time of the fleet that it was computed on."""
    reserved: Literal[False] = False
    """Always false: a verdict reserves nothing."""
    workloads: list[WorkloadVerdict]
    """One for each workload."""


class Member(Shown):
    """One object of a submission."""

    kind: str
    """Kind of the object."""
    name: str
    """Its name in the namespace."""
    state: str
    """Pending, Queued, Placed, Running, Succeeded, Failed or Deleted."""
    desired: int = 0
    """Copies or shards that it asks for."""
    placed: int = 0
    """Copies that have a cluster."""
    ready: int = 0
    """Copies that are ready; of a job set the shards that are done."""
    clusters: str = ""
    """Number of clusters that hold it, as `kubectl get` shows it. Empty for none."""
    message: str = ""
    """Why it is not as wanted, from its conditions."""
    queue: Queue | None = None
    """Its place in the queue, while it waits."""


class Submission(Shown):
    """One submission and what became of it."""

    id: Annotated[str, Field(pattern=ID_PATTERN)]
    """Its identifier: the same for the same namespace, workflow and idempotencyKey."""
    namespace: str
    """Namespace of its objects."""
    workflow: str
    """Name of the workflow."""
    platform: str = ""
    """Name of the platform that runs it, one of `x-platforms`."""
    state: str
    """That of its objects together; Superseded after a later submission of the workflow has
    changed the same objects; Incomplete while some of its objects are not created."""
    artifact: str
    """Where the workflow came from."""
    version: str
    """The version as it was asked for."""
    digest: str
    """The digest to which the version was resolved."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Values of all parameters, defaults included."""
    submitted_by: str
    """The user that submitted it."""
    submitted_at: str
    """When (RFC 3339)."""
    objects: list[Member] = Field(default_factory=list)
    """Its objects."""
    verdict: Verdict | None = None
    """Of the request that created it, or of a dry run."""
    warnings: list[str] = Field(default_factory=list)
    """What the SubmissionPolicy would refuse if it enforced provenance."""


class SubmissionList(Shown):
    """A page of submissions, the newest first."""

    items: list[Submission]
    """The submissions."""
    next: str = ""
    """Value of the parameter `after` for the next page. Empty on the last one."""


class PodLog(Shown):
    """The end of the log of one pod."""

    cluster: str
    """Name of the cluster."""
    pod: str
    """Name of the pod."""
    container: str
    """Name of the container."""
    shard: int | None = None
    """The shard that the pod runs."""
    text: str = ""
    """Its last lines."""
    cut: bool = False
    """True: the lines did not fit."""
    reason: str | None = None
    """Why there is no log. Absent where there is one."""


class ClusterAnswer(Shown):
    """How one cluster answered."""

    cluster: str
    """Name of the cluster."""
    answered: bool
    """False: its pods are missing in this answer."""
    reason: str = ""
    """Why it did not answer."""
    more: bool = False
    """True: it has more pods than were looked at."""


class Logs(Shown):
    """The ends of the logs of the pods of one object."""

    logs: list[PodLog]
    """One for each pod, in turn of the clusters."""
    clusters: list[ClusterAnswer]
    """The clusters that have, or may have, a part of the object."""
    left_out: int = 0
    """Pods without their logs in this answer, because there are too many."""


class ProblemField(Shown):
    """One field that is wrong."""

    path: str
    """Path in the request (`parameters.replicas`), the workflow (`workflow.objects[0].spec`) or the
    policy."""
    detail: str
    """What is wrong with it."""


class Problem(Shown):
    """Why a request is refused (RFC 9457)."""

    type: str
    """Names the class of problems."""
    title: str
    """The same, short."""
    status: int
    """The HTTP status."""
    detail: str
    """The reason in a sentence."""
    instance: str
    """Path of the request."""
    errors: list[ProblemField] = Field(default_factory=list)
    """The fields that are wrong."""
    verdict: Verdict | None = None
    """Where the verdict is what refuses."""


def parsed(body: bytes) -> SubmissionRequest:
    """The request in a body. Raises `problems.Problem` with every field that is wrong."""
    try:
        # As text: of bytes, the decoder would guess the encoding.
        given = decoding.from_json(body.decode("utf-8"), LIMITS)
    except UnicodeDecodeError:
        raise problems.Problem(400, "InvalidRequest", "The body is not UTF-8.") from None
    except FieldError as bad:
        raise problems.of_error(bad) from None
    if not isinstance(given, dict):
        raise problems.Problem(400, "InvalidRequest", "The body must be a JSON object.")
    try:
        return SubmissionRequest.model_validate(given)
    except ValidationError as error:
        bad_fields = [problems.Field(*pair) for pair in read.from_pydantic(error, given)]
        raise problems.of_fields("InvalidRequest", bad_fields) from None
