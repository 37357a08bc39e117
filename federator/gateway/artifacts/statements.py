"""in-toto statements about a version: SLSA provenance v1, and the review of a commit, a predicate
of ours (docs/reference/review.schema.json). Pure.

Source: the in-toto attestation framework (Statement v1) and SLSA 1.0, "Provenance".
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from federator.api import decoding, raw
from federator.api.common import Model, Moment, ShortText
from federator.api.decoding import Limits
from federator.api.raw import Obj
from federator.gateway.artifacts.ports import ENVELOPE_MAX
from federator.kinds import read
from federator.model.errors import FieldError

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
_STATEMENTS: Final = (STATEMENT, "https://in-toto.io/Statement/v0.1")
"""cosign still writes the older one, which has the same fields."""
PROVENANCE: Final = "https://slsa.dev/provenance/v1"
REVIEW: Final = "https://federation.pinterest.com/review/v1"
_LIMITS: Final = Limits(size=ENVELOPE_MAX, depth=32, nodes=20_000)
_COMMIT: Final = r"^[0-9a-f]{40}([0-9a-f]{24})?$"
_ACCOUNT: Final = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,253}$"
_GIT: Final = re.compile(r"git\+(?P<repository>[^@\s]{1,512})(@(?P<ref>[^@\s]{1,255}))?")

Account = Annotated[str, Field(max_length=254, pattern=_ACCOUNT)]
Commit = Annotated[str, Field(max_length=64, pattern=_COMMIT)]


class Approval(Model):
    """The approval of one reviewer."""

    id: Account
    """Account of the reviewer, in ASCII, such as a mail address."""
    at: Moment | None = None
    """When (RFC 3339)."""


class Review(Model):
    """Predicate of a review statement: a commit landed on a branch, its authors and its
    approvals. The statement's subject is the commit (digest `gitCommit`) or the artifact (digest
    `sha256`)."""

    repository: Annotated[str, Field(min_length=1, max_length=512)]
    """Repository of the source, spelled as in the provenance."""
    commit: Commit
    """The commit that landed."""
    branch: Annotated[str, Field(min_length=1, max_length=255)]
    """The branch on which it landed, such as main."""
    authors: Annotated[list[Account], Field(min_length=1, max_length=32)]
    """Accounts of all authors of the change, in ASCII, such as mail addresses."""
    approvals: Annotated[list[Approval], Field(max_length=64)]
    """The approvals in force when the commit landed."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with a verified signature."""

    predicate_type: str
    predicate: Obj
    digests: frozenset[tuple[str, str]]
    """(algorithm, value) of all subjects."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a provenance statement says."""

    builder: str
    repository: str
    ref: str
    commit: str


class _SlsaModel(Model):
    """Foreign fields: what is not named here may be there too."""

    model_config = ConfigDict(extra="ignore", strict=True, alias_generator=to_camel, frozen=True)


class _Dependency(_SlsaModel):
    uri: Annotated[str, Field(max_length=1024)] = ""
    digest: Annotated[dict[str, ShortText], Field(max_length=16)] = Field(default_factory=dict)


class _Definition(_SlsaModel):
    resolved_dependencies: Annotated[list[_Dependency], Field(max_length=1024)] = Field(
        default_factory=list
    )
    external_parameters: dict[str, Any]


class _Builder(_SlsaModel):
    id: Annotated[str, Field(min_length=1, max_length=512)]


class _Run(_SlsaModel):
    builder: _Builder


class _Slsa(_SlsaModel):
    build_definition: _Definition
    run_details: _Run


def statement(payload: bytes) -> Statement:
    """Reads a statement. Raises ValueError."""
    try:
        fields = decoding.from_json(payload, _LIMITS)
    except FieldError as error:
        raise ValueError(f"is not a statement: {error}") from None
    kind = raw.text(fields, "_type")
    if kind not in _STATEMENTS:
        raise ValueError(f"is not an in-toto statement: its _type is {kind[:80]!r}")
    digests = frozenset(
        (algorithm, value)
        for subject in raw.objects(fields, "subject")
        for algorithm, value in raw.text_map(subject, "digest").items()
    )
    if not digests:
        raise ValueError("has no subject with a digest")
    return Statement(raw.text(fields, "predicateType"), raw.mapping(fields, "predicate"), digests)


def made(predicate_type: str, predicate: Mapping[str, Any], name: str, digest: str) -> bytes:
    """The payload of a statement about an artifact with this digest."""
    subject = {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
    fields = {
        "_type": STATEMENT,
        "subject": [subject],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(fields, sort_keys=True).encode()


def built(predicate: Obj) -> Built:
    """Reads SLSA provenance. The source is the dependency `git+REPOSITORY@REF` with a commit; of
    several, the entry of the repository that the external parameters name. Raises ValueError."""
    try:
        slsa = _Slsa.model_validate(predicate)
    except ValidationError as error:
        raise ValueError(f"is not SLSA provenance: {_first(error, predicate)}") from None
    commits = []
    for entry in slsa.build_definition.resolved_dependencies:
        match = _GIT.fullmatch(entry.uri)
        commit = entry.digest.get("gitCommit") or entry.digest.get("sha1", "")
        if match is not None and re.fullmatch(_COMMIT, commit):
            commits.append((match["repository"].removesuffix(".git"), match["ref"] or "", commit))
    if len(commits) > 1:
        named = set(_texts(slsa.build_definition.external_parameters))
        commits = [each for each in commits if each[0] in named]
    if len(set(commits)) != 1:
        raise ValueError(
            "does not say from which commit: one of resolvedDependencies has to be"
            " git+REPOSITORY@REF with digest gitCommit"
        )
    repository, ref, commit = commits[0]
    return Built(slsa.run_details.builder.id, repository, ref, commit)


def _texts(value: Any) -> list[str]:
    """All texts of the external parameters, without what makes a URI of a repository."""
    if isinstance(value, str):
        return [value.removeprefix("git+").partition("@")[0].removesuffix(".git")]
    entries = value.values() if isinstance(value, Mapping) else value
    return (
        [text for entry in entries for text in _texts(entry)]
        if isinstance(value, Mapping | list)
        else []
    )


def review(predicate: Obj) -> Review:
    """Reads a review. Raises ValueError."""
    try:
        return Review.model_validate(predicate)
    except ValidationError as error:
        raise ValueError(f"is not a review: {_first(error, predicate)}") from None


def _first(error: ValidationError, value: Obj) -> str:
    path, message = read.from_pydantic(error, value)[0]
    return f"{path}: {message}" if path else message


def person(account: str) -> str:
    """One spelling for all that reach the same account: letters in lower case, no tag behind a
    plus, no dot at the end of a domain."""
    name, at, domain = unicodedata.normalize("NFKC", account).casefold().strip().rpartition("@")
    if not at:
        name, domain = domain, ""
    name = name.partition("+")[0]
    return f"{name}{at}{domain.rstrip('.')}"


def branch_of(ref: str) -> str:
    """refs/heads/main, main -> main; "" for a ref of another kind, such as a tag."""
    if ref.startswith("refs/"):
        return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else ""
    return ref
