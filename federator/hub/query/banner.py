"""Warnings that apply to every table: the federation is paused, no hub leads, or the leading hub
lacks a resource of its own.

They go to stderr, so that scripts can read stdout. They are read from the hubs' Lease and the
pause object, which every authenticated user of the host may `get`. A missing object, or a caller
without that right, gives no banner and no error. Times are compared with the host's clock (the Date
header of a response), never with the clock of the caller's machine.
"""

import asyncio
import email.utils
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from federator.api import raw

if TYPE_CHECKING:
    from federator.kube.client import Client
    from federator.model.steps import ObjectRef

SYSTEM_NAMESPACE: Final = "federator-system"
LEASE: Final = "federator-hub"
WITHIN_S: Final = 3.0
"""Deadline of each request; a slower host gets no banner."""
SLACK_S: Final = 2.0
"""Tolerance: a Date header has whole seconds, and a response takes time."""
WHY_MAX: Final = 512
"""Characters of an annotation that are shown."""
PAUSED: Final = "paused"
NO_LEADER: Final = "no hub leads"
Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Banner:
    """What applies to everything that a host's objects say."""

    lines: tuple[str, ...] = ()
    halted: str = ""
    """Why no change of a spec has an effect now: "no hub leads" or "paused"; "" when changes do."""


async def read(client: "Client") -> Banner:
    """The banner of this host. Sends three small requests concurrently."""
    from federator.hub.records import pauses
    from federator.model.steps import ObjectRef

    lease = ObjectRef("coordination.k8s.io/v1", "leases", SYSTEM_NAMESPACE, LEASE, "Lease")
    pause = ObjectRef("v1", "configmaps", SYSTEM_NAMESPACE, pauses.PAUSE_OBJECT, "ConfigMap")
    lease_obj, pause_obj, now_s = await asyncio.gather(
        _read(client, lease), _read(client, pause), _host_s(client)
    )
    pausing, leading = paused(pause_obj), leaderless(lease_obj, now_s)
    shown = tuple(text for text in (pausing, leading or short(lease_obj)) if text)
    return Banner(shown, NO_LEADER if leading else PAUSED if pausing else "")


def paused(obj: Obj | None) -> str:
    """The sentence about a pause; "" when nothing is paused."""
    from federator.hub.records import pauses

    facts = pauses.facts(obj)
    if facts is None:
        return ""
    return (
        f"The federation is paused{facts}: nothing is placed or dispatched until `federator"
        " resume`."
    )


def leaderless(lease: Obj | None, now_s: float | None) -> str:
    """The sentence about a Lease that is no longer renewed; "" while a hub leads, and where no hub
    ever took part in an election."""
    renewed = raw.text(lease or {}, "spec", "renewTime")
    if not renewed:
        return ""
    holder = raw.text(lease or {}, "spec", "holderIdentity")
    holder_text = f"last leader: {holder}" if holder else "the last leader gave it up"
    asked_s = raw.integer(lease or {}, "spec", "leaseDurationSeconds")
    overdue = now_s is not None and now_s > raw.epoch_s(renewed) + asked_s + SLACK_S
    if holder and not overdue:
        return ""
    since = renewed.partition(".")[0].removesuffix("Z") + "Z"
    return (
        f"No hub leads since {since} ({holder_text}): the states shown are from that time or"
        " before."
    )


def short(lease: Obj | None) -> str:
    """The sentence about a leading hub that cannot query all members because it is short of a
    resource of its own; "" when it is not."""
    from federator.model import names, plaintext

    noted = raw.text_map(raw.mapping(lease or {}, "metadata"), "annotations").get(
        names.SHORTAGE_ANNOTATION, ""
    )
    try:
        facts = json.loads(noted) if noted else {}
    except ValueError:
        return ""
    why = plaintext.clipped(raw.text(facts, "why"), WHY_MAX)
    if not why or raw.text(facts, "holder") != raw.text(lease or {}, "spec", "holderIdentity"):
        return ""  # written by a hub that no longer leads
    since = plaintext.clipped(raw.text(facts, "since"), WHY_MAX)
    return f"The hub cannot ask every cluster since {since}, which says nothing about them ({why})."


async def _read(client: "Client", ref: "ObjectRef") -> Obj | None:
    from federator.kube import errors

    try:
        return await client.get(ref, timeout_s=WITHIN_S)
    except errors.ApiError:
        return None  # absent or forbidden: the command's own reads report what is wrong


async def _host_s(client: "Client") -> float | None:
    """The host's time in epoch seconds; None when it sends no valid Date header."""
    from federator.kube import errors

    try:
        return email.utils.parsedate_to_datetime(await client.ready(timeout_s=WITHIN_S)).timestamp()
    except (errors.ApiError, ValueError, TypeError):
        return None
