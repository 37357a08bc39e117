"""What an operator may set for the gateway. Filled by `settings`; every field says its unit, and
why it is so."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The submission gateway (`federator gateway`)."""

    audiences: tuple[str, ...] = ("federator-gateway",)
    """Audiences of the tokens that the issuer of the group `oidc` gives for the gateway. Tokens
    for the dashboard do not count here."""
    issuers_file: str = ""
    """YAML file with further issuers, such as that of a CI system
    (docs/operating/gateway.md#issuers)."""
    secrets_namespace: str = "federator-gateway"
    """Namespace of the Secrets with credentials of registries that SubmissionPolicies name."""
    audit_directory: str = ""
    """Folder of the audit: each process appends to a file of its own there. Empty: no audit."""
    cache_directory: str = "/var/cache/federator-gateway"
    """Folder in which versions of workflows are kept, by digest."""
    requests_a_second: float = 5.0
    """Requests of one user a second, on average; more get 429 with Retry-After."""
    burst: Annotated[int, Field(ge=1)] = 50
    """Requests of one user at once after a pause."""
    submissions_at_once: Annotated[int, Field(ge=1)] = 32
    """Submissions that one process works on at the same time."""
    submissions_waiting: Annotated[int, Field(ge=1)] = 256
    """Submissions that wait for their turn; more get 503 with Retry-After."""
    streams: Annotated[int, Field(ge=1)] = 64
    """Event streams that are open at the same time; more get 503."""
