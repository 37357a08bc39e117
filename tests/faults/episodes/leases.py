"""Faults of the Lease that hubs stand for: it is deleted, edited by hand, or its API answers with
errors."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

from federator.hub.options import HubOptions
from federator.kube import errors
from federator.kube.wire.transport import Response
from federator.model.steps import ObjectRef
from tests.faults.episodes.processes import meanwhile
from tests.faults.requests import refusal
from tests.faults.rows import Episode, Injection, RequestFault, Sending, Stage, is_hub

API_VERSION = "coordination.k8s.io/v1"
EVERY_S = (1.0, 15.0)
EDITS: tuple[Mapping[str, Any], ...] = (
    {"holderIdentity": "somebody-else"},
    {"holderIdentity": ""},
    {"holderIdentity": None, "leaseTransitions": None, "renewTime": None},
    {"leaseTransitions": 0},
    {"leaseDurationSeconds": 1},
    {"leaseDurationSeconds": 3600},
    {"renewTime": "2001-01-01T00:00:00.000000Z", "acquireTime": "2001-01-01T00:00:00.000000Z"},
)
"""What a hand may write into its spec."""


def hubs_lease() -> ObjectRef:
    """The Lease that the hubs of a federation stand for, as they are set up by default."""
    options = HubOptions()
    return ObjectRef(API_VERSION, "leases", options.system_namespace, options.lease_name, "Lease")


async def delete(stage: Stage) -> bool:
    """Deletes the Lease; False when there is none."""
    try:
        live = await stage.user("host").get(hubs_lease())
        await stage.user("host").delete(hubs_lease(), uid=live["metadata"]["uid"])
    except errors.NotFound:
        return False
    return True


async def edit(stage: Stage, change: Mapping[str, Any]) -> bool:
    """Writes something into the Lease; False when there is none."""
    try:
        await stage.user("host").patch(hubs_lease(), {"spec": dict(change)})
    except errors.NotFound:
        return False
    return True


@contextlib.asynccontextmanager
async def lease_deleted(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """The Lease is deleted, some times over."""

    async def over_and_over() -> None:
        while True:
            if await delete(stage):
                stage.say("the Lease is deleted")
                stage.happened("lease-deleted")
            await asyncio.sleep(rng.uniform(*EVERY_S))

    async with meanwhile(over_and_over()):
        yield


@contextlib.asynccontextmanager
async def lease_edited(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A person writes into the Lease, several times."""

    async def over_and_over() -> None:
        while True:
            change = rng.choice(EDITS)
            if await edit(stage, change):
                stage.say(f"the Lease is edited: {change}")
                stage.happened("lease-edited")
            await asyncio.sleep(rng.uniform(*EVERY_S))

    async with meanwhile(over_and_over()):
        yield


async def _unavailable(at: Injection) -> Response:
    code, reason = at.rng.choice(
        ((500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))
    )
    return refusal(code, reason, "etcdserver: request timed out")


def of_a_hub_s_lease(sending: Sending) -> bool:
    """Any request of a hub about the Lease that it stands for."""
    return (
        is_hub(sending.process) and sending.cluster == "host" and "/leases" in sending.request.path
    )


ROWS = (
    Episode(
        "lease-deleted", "F7", "the hubs' Lease", "after 5 to 40 s", lease_deleted, (5.0, 40.0)
    ),
    Episode("lease-edited", "F7", "the hubs' Lease", "after 5 to 40 s", lease_edited, (5.0, 40.0)),
    RequestFault(
        "lease-unavailable",
        "F7",
        "a hub's request for its Lease",
        of_a_hub_s_lease,
        _unavailable,
        900,
        0,
    ),
)
