"""SubmissionPolicy: which workflows a project may submit through the gateway, and the evidence of
build and review that they need. Schema and conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import (
    LIST_SET,
    FederationObject,
    Model,
    ObjectName,
    ShortText,
    checked,
    list_map,
    many,
    rules,
)
from federator.api.raw import Obj
from federator.model import sources
from federator.model.sources import Reference

KIND: Final = "SubmissionPolicy"
KEYS_MAX: Final = 16
REVIEWERS_MAX: Final = 10
HOST_PATTERN: Final = r"^(\[[0-9a-f:]+\]|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(:[0-9]{1,5})?$"
PEM_PATTERN: Final = r"^-----BEGIN PUBLIC KEY-----\n"

Host = Annotated[
    str,
    Field(min_length=1, max_length=259, json_schema_extra={"pattern": HOST_PATTERN}),
    checked("host", sources.host_problem),
]
Source = Annotated[
    str,
    Field(
        min_length=1, max_length=512, json_schema_extra={"pattern": r"^(oci|https?)://[^/?#@\s]+/"}
    ),
    checked("source", sources.pattern_problem),
]
Names = Annotated[list[ShortText], Field(max_length=64, json_schema_extra=LIST_SET)]
StatementName = Literal["Provenance", "Review"]


def _key_problem(pem: str) -> str:
    from federator.api import publickeys  # costs a start that reads no policy

    return publickeys.problem(pem)


PublicKey = Annotated[
    str,
    Field(min_length=1, max_length=8192, json_schema_extra={"pattern": PEM_PATTERN}),
    checked("public_key", _key_problem),
]


class Mode(StrEnum):
    """What becomes of a workflow without valid provenance."""

    ENFORCE = "Enforce"
    WARN = "Warn"
    OFF = "Off"


class Statement(StrEnum):
    """What a signed statement is evidence of."""

    PROVENANCE = "Provenance"
    REVIEW = "Review"


class SecretRef(Model):
    """A Secret in the namespace of the gateway's credentials."""

    name: ObjectName
    """Name of the Secret."""


class Registry(Model):
    """A host that the gateway may contact although no source names it, or to which it shows
    credentials."""

    host: Host
    """Host, with its port where it is not 443, such as registry.example or 10.0.0.5:5000."""
    secret_ref: SecretRef | None = None
    """Credentials: a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/basic-auth, or
    one with the key `token`. Without it the gateway asks anonymously."""
    ca_bundle: Annotated[str, Field(max_length=65_536)] = ""
    """Certificates (PEM) that sign this host's certificate. The system's when left out."""


class SigningKey(Model):
    """A public key; its signatures are accepted."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the key, shown where it has signed."""
    public_key: PublicKey
    """The key as PEM (SubjectPublicKeyInfo): Ed25519, ECDSA P-256, or RSA of at least 2048 bits,
    which signs with PSS and SHA-256."""
    statements: list[StatementName] = many(2, LIST_SET)
    """What the key may sign: Provenance, Review. Both when empty."""


class ProvenanceRules(Model):
    """The evidence that a workflow was built from a reviewed commit."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.mode != 'Enforce' || (has(self.keys) && size(self.keys) > 0)",
                "Enforce needs a key in keys",
            )
        )
    )

    mode: Literal["Enforce", "Warn", "Off"] = "Enforce"
    """Enforce: a workflow without valid provenance is refused. Warn: it is admitted with a warning.
    Off: nothing is checked."""
    keys: list[SigningKey] = many(KEYS_MAX, list_map("name"))
    """Keys of the build service and of the review service."""
    branch: Annotated[str, Field(min_length=1, max_length=255)] = "main"
    """The branch from which the workflow must have been built, and on which its commit landed."""
    reviewers: Annotated[
        int, Field(ge=0, le=REVIEWERS_MAX, json_schema_extra={"format": "int32"})
    ] = 1
    """So many persons other than the authors must have approved the commit. 0: no review is asked
    for."""
    builders: Names = Field(default_factory=list)
    """Builders (`runDetails.builder.id` of the SLSA provenance) that are accepted. Any when
    empty."""
    repositories: Names = Field(default_factory=list)
    """Source repositories that are accepted, such as https://git.example/ads/serving. Any when
    empty."""

    @model_validator(mode="after")
    def _can_hold(self) -> "ProvenanceRules":
        for statement in Statement:
            asked = statement is Statement.PROVENANCE or self.reviewers > 0
            able = any(not key.statements or statement in key.statements for key in self.keys)
            if self.mode == "Enforce" and asked and not able:
                raise PydanticCustomError(
                    "keys",
                    "Enforce needs a key in keys that may sign {statement}",
                    {"statement": statement.value},
                )
        return self


class Spec(Model):
    """The workflows that are accepted, and the groups that submit them."""

    projects: Annotated[
        list[ShortText], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET)
    ]
    """Projects of the workloads that these workflows may make."""
    sources: Annotated[list[Source], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET)]
    """Where workflows come from: `oci://HOST/REPOSITORY` or `https://HOST/PATH`. A last segment `*`
    stands for everything below. The gateway contacts these hosts also at private addresses."""
    groups: Names = Field(default_factory=list)
    """Groups of the users that may submit. When empty: all users that may create the objects by the
    host's RBAC."""
    registries: list[Registry] = many(32, list_map("host"))
    """Credentials and certificates by host, for sources, image registries and their token services.
    Tags of images are resolved at these hosts and those of OCI sources only."""
    provenance: ProvenanceRules
    """The evidence that a workflow needs."""


class SubmissionPolicy(FederationObject):
    """Which workflows the projects may submit through the gateway, from which stores, and the
    signed evidence of build and review that they need."""

    kind: Literal["SubmissionPolicy"]
    """SubmissionPolicy."""
    spec: Spec
    """The workflows that are accepted, and the groups that submit them."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key of a policy."""

    name: str
    pem: str
    statements: frozenset[Statement]


@dataclass(frozen=True, slots=True)
class HostAccess:
    """What the gateway shows to a host, and by what it knows it."""

    secret: str = ""
    """Name of the Secret; "" for none."""
    ca_pem: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """One SubmissionPolicy as the gateway uses it."""

    name: str
    projects: frozenset[str]
    groups: frozenset[str]
    sources: tuple[str, ...]
    hosts: Mapping[str, HostAccess]
    """Host to access, for all hosts that sources and registries name."""
    mode: Mode
    keys: tuple[TrustedKey, ...]
    branch: str
    reviewers: int
    builders: frozenset[str]
    repositories: frozenset[str]

    def allows(self, ref: Reference) -> bool:
        """Whether a source of the policy matches the reference."""
        return any(sources.matches(pattern, ref) for pattern in self.sources)


def to_policy(obj: Obj) -> Policy:
    """What the object says. A mode that cannot be read is Enforce."""
    spec = raw.mapping(obj, "spec")
    rules_ = raw.mapping(spec, "provenance")
    patterns = raw.texts(spec, "sources")
    hosts = {host: HostAccess() for _, host in map(sources.pattern_host, patterns) if host}
    for entry in raw.objects(spec, "registries"):
        hosts[raw.text(entry, "host")] = HostAccess(
            raw.text(entry, "secretRef", "name"), raw.text(entry, "caBundle")
        )
    mode = raw.text(rules_, "mode")
    return Policy(
        name=raw.text(obj, "metadata", "name"),
        projects=frozenset(raw.texts(spec, "projects")),
        groups=frozenset(raw.texts(spec, "groups")),
        sources=patterns,
        hosts=hosts,
        mode=Mode(mode) if mode in tuple(Mode) else Mode.ENFORCE,
        keys=tuple(_key(entry) for entry in raw.objects(rules_, "keys")[:KEYS_MAX]),
        branch=raw.text(rules_, "branch") or "main",
        reviewers=max(raw.integer(rules_, "reviewers", default=1), 0),
        builders=frozenset(raw.texts(rules_, "builders")),
        repositories=frozenset(raw.texts(rules_, "repositories")),
    )


def _key(entry: Obj) -> TrustedKey:
    named = raw.texts(entry, "statements")
    return TrustedKey(
        raw.text(entry, "name"),
        raw.text(entry, "publicKey"),
        frozenset(each for each in Statement if not named or each.value in named),
    )
