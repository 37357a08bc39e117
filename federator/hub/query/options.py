"""What an operator may set for the query port. Filled by `settings`; every field says its unit, and
why it is so."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The port that the leading hub answers on. Times in seconds."""

    enabled: bool = True
    """False where nothing may listen; `federator pods` and `logs` then need --own-contexts."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 in a pod."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 takes a free port."""
    advertise: str = ""
    """Where callers find it, as HOST or HOST:PORT, told in the Lease; empty: where it listens."""
    cert_file: str = ""
    """PEM certificate to show, read again when it changes; empty: one is made at every start, its
    authority told in the Lease."""
    key_file: str = ""
    """PEM key of `cert_file`."""
    ca_file: str = ""
    """PEM authority of `cert_file`, told in the Lease; the certificate is for the host in
    `advertise`."""
    requests_at_once: int = 16
    """Requests at once; more get 429 with Retry-After."""
    requests_of_one_user: int = 4
    """The same for one user and one class (`explain` and `place`; `plan`; all others), so that one
    user cannot block all others."""
    requests_to_one_member: int = 4
    """Reads in one member at once, for all callers: its lane for writes is not touched."""
    member_timeout_s: float = 8.0
    """A member that has not answered by then is named as away; the others are not waited for
    longer."""
    snapshot_worker: bool = True
    """Compute answers to `explain`, `place` and `plan` in a process next to the leading hub, which
    holds a copy of what decisions depend on. False: in threads of the hub, without that memory;
    the event loop then shares the interpreter with them."""
    computed_at_once: Annotated[int, Field(ge=1, le=16)] = 1
    """Such answers that are computed at once, beyond one of each class (`explain` and `place`;
    `plan`); in threads: of all together."""
    compute_timeout_s: float = 20.0
    """An answer that has not been computed by then is given up."""
    pods_max: int = 10_000
    """Pods in one answer, shared out evenly over its clusters; the rest is said to be left out."""
    log_pods_max: int = 20
    """Pods with logs in one answer; the rest is said to be left out."""
    log_bytes_max: int = 2_000_000
    """Bytes of log text in one answer, shared out over its pods."""
