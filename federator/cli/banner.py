"""What a person must know before reading any table: that the federation is paused, that no hub leads, or that the one
which does lacks something of its own.

Printed on stderr, so that what is on stdout stays as it is for scripts. Read from the hubs' Lease and the pause object,
which everybody whom the host knows may `get`; who may not, or where one is missing, sees no banner and no error. Times
are compared with the host's own clock (the Date header of an answer), never with that of the caller's machine.
"""

import asyncio
import email.utils
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from federator.api import raw

if TYPE_CHECKING:
    from federator.kube.client import Client
    from federator.model.steps import ObjectRef

SYSTEM_NAMESPACE: Final = "federator-system"
LEASE: Final = "federator-hub"
WITHIN_S: Final = 3.0
"""A host that takes longer to say so is answered without a banner."""
SLACK_S: Final = 2.0
"""A Date header is cut to the second, and an answer takes its time."""
WHY_MAX: Final = 512
"""Characters of an annotation that are shown."""
Obj = Mapping[str, Any]


async def lines(client: "Client") -> list[str]:
    """The banner of this host, "" none; three small requests side by side."""
    from federator.hub.cache import pauses
    from federator.model.steps import ObjectRef

    lease = ObjectRef("coordination.k8s.io/v1", "leases", SYSTEM_NAMESPACE, LEASE, "Lease")
    pause = ObjectRef("v1", "configmaps", SYSTEM_NAMESPACE, pauses.PAUSE_OBJECT, "ConfigMap")
    found_lease, found_pause, now_s = await asyncio.gather(_read(client, lease), _read(client, pause), _host_s(client))
    return [text for text in (paused(found_pause), leaderless(found_lease, now_s) or short(found_lease)) if text]


def paused(obj: Obj | None) -> str:
    """The sentence about a pause; "" while there is none."""
    from federator.hub.cache import pauses

    facts = pauses.facts(obj)
    if facts is None:
        return ""
    return f"The federation is paused{facts}: nothing is placed or dispatched until `federator resume`."


def leaderless(lease: Obj | None, now_s: float | None) -> str:
    """The sentence about a Lease that nobody renews; "" while a hub leads, and where none ever stood for election."""
    renewed = raw.text(lease or {}, "spec", "renewTime")
    if not renewed:
        return ""
    holder = raw.text(lease or {}, "spec", "holderIdentity")
    known = f"last: {holder}" if holder else "the last one gave it up"
    asked_s = raw.integer(lease or {}, "spec", "leaseDurationSeconds")
    overdue = now_s is not None and now_s > raw.epoch_s(renewed) + asked_s + SLACK_S
    if holder and not overdue:
        return ""
    since = renewed.partition(".")[0].removesuffix("Z") + "Z"
    return f"No hub leads since {since} ({known}): what follows is what was known then."


def short(lease: Obj | None) -> str:
    """The sentence about a hub that leads and cannot ask all members, for want of something of its own."""
    from federator.model import names, plaintext

    noted = raw.text_map(raw.mapping(lease or {}, "metadata"), "annotations").get(names.SHORTAGE_ANNOTATION, "")
    try:
        facts = json.loads(noted) if noted else {}
    except ValueError:
        return ""
    why = plaintext.clipped(raw.text(facts, "why"), WHY_MAX)
    if not why or raw.text(facts, "holder") != raw.text(lease or {}, "spec", "holderIdentity"):
        return ""  # the word of a hub that does not lead any more
    since = plaintext.clipped(raw.text(facts, "since"), WHY_MAX)
    return f"The hub cannot ask every cluster since {since}, which says nothing about them ({why})."


async def _read(client: "Client", ref: "ObjectRef") -> Obj | None:
    from federator.kube import errors

    try:
        return await client.get(ref, timeout_s=WITHIN_S)
    except errors.ApiError:
        return None  # absent, or not for the caller to see: what the command itself reads will tell what is wrong


async def _host_s(client: "Client") -> float | None:
    """The host's own time, in seconds since 1970; None where it does not say."""
    from federator.kube import errors

    try:
        return email.utils.parsedate_to_datetime(await client.ready(timeout_s=WITHIN_S)).timestamp()
    except (errors.ApiError, ValueError, TypeError):
        return None
