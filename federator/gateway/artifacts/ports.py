"""The values that pass between the gateway and artifact stores, the port to stores, and the ways in
which a version is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from federator.api.raw import Obj
from federator.api.submissionpolicy import Mode, Policy
from federator.model.sources import Reference

Value = str | int | float | bool
"""The value of a parameter."""

FILE_MAX: Final = 1024 * 1024
"""Bytes of one workflow file."""
ENVELOPE_MAX: Final = 256 * 1024
"""Bytes of one signed statement."""
ENVELOPES_MAX: Final = 16
"""Signed statements of one version that are read."""


class Reason(Enum):
    """Why a version is refused; the value is (name in problems, HTTP status)."""

    BAD_REFERENCE = "BadReference", 400
    SOURCE_NOT_ALLOWED = "SourceNotAllowed", 403
    ADDRESS_REFUSED = "AddressRefused", 403
    """The store, or where it redirects to, is at an address that the gateway does not contact."""
    NOT_FOUND = "VersionNotFound", 404
    STORE_UNREACHABLE = "StoreUnreachable", 503
    """The store does not answer, or answers with an error: try again."""
    STORE_DENIED = "StoreDenied", 502
    """The store does not accept the credentials that the policy names."""
    STORE_INVALID = "StoreInvalid", 502
    """The store's answer breaks its protocol: a wrong length, digest or form."""
    FILE_INVALID = "WorkflowInvalid", 422
    PARAMETER_INVALID = "ParameterInvalid", 422
    PROVENANCE = "ProvenanceRefused", 403
    IMAGE = "ImageNotPinned", 422
    POLICY_INVALID = "PolicyInvalid", 500
    """The SubmissionPolicy, or a Secret that it names, cannot be used."""

    @property
    def title(self) -> str:
        """The name in problems."""
        return str(self.value[0])

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(self.value[1])


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `path` is in the user's terms: a field of the request (`artifact`,
    `version`, `parameters.replicas`), of the workflow file (`workflow.objects[0].spec.shards`), or
    of the policy (`policy.spec.provenance.keys[0]`)."""

    reason: Reason
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ArtifactRefused(Exception):
    """A version that cannot be submitted, with at least one problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems

    @property
    def reason(self) -> Reason:
        """That of the first problem."""
        return self.problems[0].reason


def refused(reason: Reason, path: str, message: str) -> ArtifactRefused:
    """With one problem."""
    return ArtifactRefused(Problem(reason, path, message))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a submission may set."""

    name: str
    type: str
    """string, integer, number or boolean."""
    default: Value | None = None
    """None: the submission has to set it."""
    enum: tuple[Value, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_length: int = 0
    """Characters of a string."""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """How the version was built. "" for what neither the file nor the store says."""

    version: str = ""
    commit: str = ""
    branch: str = ""
    builder: str = ""
    time: str = ""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow file that has been read: objects with references to parameters in them."""

    name: str
    parameters: tuple[Parameter, ...]
    objects: tuple[Obj, ...]
    build: Build


@dataclass(frozen=True, slots=True)
class Provenance:
    """The evidence that was found for one version under one policy."""

    mode: Mode
    verified: bool
    """Whether all that the policy asks for is shown by signed statements. False under Off."""
    repository: str = ""
    commit: str = ""
    branch: str = ""
    builder: str = ""
    keys: tuple[str, ...] = ()
    """Names of the keys of the policy that signed what counts."""
    authors: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    """The persons other than the authors that approved the commit."""
    problems: tuple[Problem, ...] = ()
    """What is missing, under Warn."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of a workflow, pinned."""

    source: Reference
    version: str
    """As it was asked for: a tag or a digest."""
    digest: str
    """sha256:... of the manifest (OCI) or the file (HTTP repository)."""
    workflow: Workflow
    policy: Policy
    """The policy under which it is submitted: it allows the source and the projects of all
    objects."""
    provenance: Provenance
    cached: bool = False
    """Whether the store could not be asked, so that the digest is the one last seen for this
    version."""
    small: bool = False
    """Whether its objects take no thread to fill in."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a submission: parameters filled in, every image pinned to a digest."""

    objects: tuple[dict[str, Any], ...]
    parameters: Mapping[str, Value]
    """The value of each declared parameter, defaults included."""
    images: Mapping[str, str]
    """Image as the workflow names it -> the pinned one."""


class Versions(Protocol):
    """What the gateway asks of this package; `artifacts.Artifacts` implements it."""

    async def resolve(
        self, source: str, version: str, namespace: str, policies: Sequence[Policy]
    ) -> Artifact:
        """The version, fetched and checked under the first of the policies that allows its source
        and the projects of its objects in this namespace. Raises ArtifactRefused. Takes at most
        `artifacts.RESOLVE_S` seconds."""
        ...

    async def render(
        self, artifact: Artifact, parameters: Mapping[str, Any], namespace: str
    ) -> Rendered:
        """The objects that a submission with these parameters makes in the namespace. Raises
        ArtifactRefused."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """One version as a store serves it; its digest is verified."""

    digest: str
    file: bytes
    properties: Mapping[str, str]
    """What the store says about the version (annotations, build properties), not signed."""


class ArtifactStore(Protocol):
    """One kind of store, under the rules of a policy. The gateway reads; `federator workflow push`
    and `attest` write, with a person's rights. Raises ArtifactRefused."""

    async def digest_of(self, ref: Reference, version: str, policy: Policy) -> str: ...

    async def fetch(self, ref: Reference, version: str, digest: str, policy: Policy) -> Fetched: ...

    async def envelopes(
        self, ref: Reference, version: str, digest: str, policy: Policy
    ) -> tuple[bytes, ...]:
        """The signed statements that are stored beside the version, at most ENVELOPES_MAX."""
        ...

    async def push(
        self, ref: Reference, version: str, file: bytes, build: Build, policy: Policy
    ) -> str:
        """Stores a workflow file under a version; returns its digest."""
        ...

    async def attach(
        self, ref: Reference, version: str, digest: str, envelope: bytes, policy: Policy
    ) -> None:
        """Stores a signed statement beside a version."""
        ...
