"""Where the leader's query port is: one annotation of the Lease, written by the leader and read by
callers.

It names the hub that wrote it, so that the address of an earlier leader is never taken for that of
the present one. A writer of the Lease decides where tokens go, so only the hub's account may write
it (deploy/host/access).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator import __version__
from federator.api import raw
from federator.kube.leader import lease
from federator.model import names
from federator.model.errors import FieldError

ANNOTATION = f"{names.FEDERATION}/query-port"
SERVER_NAME = "query-port.federation.pinterest.com"
"""What certificates are for that a hub makes itself, wherever it listens."""
_ADDRESS_MAX = 300
_CA_MAX = 32 * 1024


@dataclass(frozen=True, slots=True)
class Announcement:
    """How to reach the leader's query port."""

    holder: str
    """The hub that listens there, as the Lease names it."""
    address: str
    """HOST:PORT."""
    server_name: str
    """The name that its certificate must be for."""
    ca_pem: str
    """The authority that must have signed it."""


class NoPort(ValueError):
    """The Lease names no port that answers. `waiting`: a leader has just changed, and its word may
    be on its way."""

    def __init__(self, message: str, *, waiting: bool = False) -> None:
        super().__init__(message)
        self.waiting = waiting


def notes(said: Announcement) -> dict[str, str]:
    """The annotation that says so."""
    facts = {
        "v": 1,
        "holder": said.holder,
        "address": said.address,
        "serverName": said.server_name,
        "ca": said.ca_pem,
        "version": __version__,
    }
    return {ANNOTATION: json.dumps(facts, sort_keys=True)}


def version_of(obj: Mapping[str, Any]) -> str:
    """The version of federator that the leader runs, by its Lease; "" where it says none."""
    text = lease.notes_of(obj).get(ANNOTATION, "")
    try:
        facts = json.loads(text) if text else {}
    except ValueError:
        return ""
    return raw.text(facts, "version") if raw.text(facts, "holder") == lease.holder_of(obj) else ""


def read(obj: Mapping[str, Any]) -> Announcement:
    """What a Lease says. Raises `NoPort` with a sentence; total on whatever it holds."""
    holder = lease.holder_of(obj)
    if not holder:
        raise NoPort("nobody leads: the Lease has no holder", waiting=True)
    text = lease.notes_of(obj).get(ANNOTATION, "")
    try:
        facts = json.loads(text) if text else {}
    except ValueError:
        raise NoPort(f"what the Lease says of the query port of {holder} cannot be read") from None
    said = Announcement(
        raw.text(facts, "holder"),
        raw.text(facts, "address"),
        raw.text(facts, "serverName"),
        raw.text(facts, "ca"),
    )
    if said.holder != holder:
        raise NoPort(f"the hub that leads ({holder}) has told of no query port", waiting=True)
    if not (said.address and said.server_name and said.ca_pem):
        raise NoPort(f"what the Lease says of the query port of {holder} cannot be read")
    if (
        len(said.address) > _ADDRESS_MAX
        or len(said.ca_pem) > _CA_MAX
        or set(said.address) & set("/@?#\\ \t\r\n")
    ):
        raise NoPort(f"what the Lease says of the query port of {holder} cannot be read")
    return said


def address(advertise: str, host: str, port: int) -> str:
    """HOST:PORT from the operator's setting, or from where the port listens. Raises FieldError for
    an address that cannot be reached from elsewhere."""
    if advertise:
        given, colon, number = advertise.rpartition(":")
        if colon and number.isdecimal() and (not given.count(":") or given.endswith("]")):
            return advertise
        return (
            f"[{advertise}]:{port}"
            if ":" in advertise and not advertise.startswith("[")
            else f"{advertise}:{port}"
        )
    if host in ("", "0.0.0.0", "::"):
        raise FieldError(
            "query.advertise", "must say where callers find a port that listens on every address"
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
