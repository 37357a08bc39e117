"""What an operator may set for the gateway. Filled by `settings`; every field says its unit, and
why it is so."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from federator.model.errors import FieldError
from federator.process.oidc.options import RESERVED


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The submission gateway (`federator gateway`)."""

    audiences: tuple[str, ...] = ("federator-gateway",)
    """Audiences of the tokens that the issuer of the group `oidc` gives for the gateway. Tokens
    for the dashboard do not count here."""
    issuers_file: str = ""
    """YAML file with further issuers, such as that of a CI system
    (docs/operating/gateway.md#issuers)."""
    clients_ca_file: str = ""
    """PEM authorities of client certificates that name users, read again when the file changes.
    Empty: client certificates do not count. With it, the gateway speaks TLS 1.3 only."""
    clients_username: Literal["CommonName", "URI", "Email"] = "CommonName"
    """The part of a client certificate with the user's name. Its organisations are the groups.
    URI and Email: the only alternative name of that type."""
    clients_username_prefix: Annotated[str, Field(min_length=1)] = "x509:"
    """Prefix of the names of users with certificates. It keeps them apart from those of issuers."""
    clients_groups_prefix: Annotated[str, Field(min_length=1)] = "x509:"
    """Prefix of their groups."""
    secrets_namespace: str = "federator-gateway"
    """Namespace of the Secrets with credentials of registries that SubmissionPolicies name."""
    audit_directory: str = ""
    """Folder of the audit: each process appends to files of its own there. Empty: no audit."""
    audit_file_bytes: Annotated[int, Field(ge=64 * 1024)] = 64 * 1024 * 1024
    """A file of the audit that is as large is followed by another one. So is one of another day
    (UTC)."""
    cache_directory: str = "/var/cache/federator-gateway"
    """Folder in which versions of workflows are kept, by digest."""
    requests_a_second: float = 5.0
    """Requests of one user a second, on average; more get 429 with Retry-After."""
    burst: Annotated[int, Field(ge=1)] = 50
    """Requests of one user at once after a pause."""
    submissions_at_once: Annotated[int, Field(ge=1)] = 32
    """Submissions that one process works on at the same time."""
    submissions_waiting: Annotated[int, Field(ge=1)] = 256
    """Submissions that wait for a search of their key or for their turn; more get 503 with
    Retry-After."""
    streams: Annotated[int, Field(ge=1)] = 64
    """Event streams that are open at the same time; more get 503."""

    def check(self) -> None:
        """Raises FieldError for prefixes with which users could get names of Kubernetes."""
        for name in ("clients_username_prefix", "clients_groups_prefix"):
            prefix = getattr(self, name)
            if prefix.startswith(RESERVED) or RESERVED.startswith(prefix):
                raise FieldError(f"gateway.{name}", f"must not begin like {RESERVED}")
