"""Episodes at a cluster's own gate: who may enter, what webhooks refuse or change, which kinds are
served.

All of them end as they began: credentials are restored, webhooks removed, definitions served again.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from federator.kinds import registry
from federator.kube.wire.transport import Response, Transport
from federator.model.steps import ObjectRef
from tests.faults import boxes
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import Box, Episode, Sending, Stage, is_hub, plural_of

_SLICES = frozenset(kind.plural for kind in registry.WORKLOADS.values())
_JOBSETS = registry.KINDS["PinterestJobSet"].plural
_NATIVES = frozenset({"deployments", "jobs", "services", "configmaps"})
_WEBHOOK = (
    'admission webhook "policy.example.com" denied the request: images must come from the mirror'
)
_REFUSALS: tuple[tuple[int, str, str], ...] = (
    (422, "Invalid", _WEBHOOK),
    (403, "Forbidden", _WEBHOOK),
    (400, "BadRequest", _WEBHOOK),
    (
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "policy.example.com": no endpoints',
    ),
)


def puts(sending: Sending, plurals: frozenset[str]) -> bool:
    """Whether the request makes or changes an object of one of these resources, not its status."""
    plural, subresource = plural_of(sending.request.path)
    return (
        sending.request.method in ("POST", "PUT", "PATCH") and plural in plurals and not subresource
    )


@contextlib.asynccontextmanager
async def credentials_refused(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A member does not know the hubs any more (401), or lets them do nothing (403)."""
    member, status = rng.choice(list(stage.members)), rng.choice((401, 403))

    denial = boxes.unauthorized if status == 401 else boxes.forbidden
    box = boxes.answering(
        lambda sending: sending.cluster == member and is_hub(sending.process),
        denial,
        lambda sending: stage.happened("credentials-refused"),
    )
    with stage.boxes.standing(box):
        if rng.random() < 0.5:
            await stage.links.end_streams(member)
        yield


@contextlib.asynccontextmanager
async def secret_absent(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Credentials are rotated: the old ones are void at once, and for a while the Secret is not
    there."""
    member = rng.choice(list(stage.members))
    host, namespace = stage.user("host"), stage.federation.hub_options.credentials_namespace
    ref = ObjectRef("v1", "secrets", namespace, member, "Secret")
    live = await host.get(ref)
    kept = {
        name: part for name, part in live.items() if name in ("apiVersion", "kind", "type", "data")
    }

    async def look(sending: Sending, inner: Transport) -> Response:
        response = await inner.request(sending.request)
        if response.status == 404:
            stage.happened("secret-absent")
        return response

    asked = f"/secrets/{member}"
    with (
        stage.boxes.standing(
            boxes.answering(
                lambda sending: sending.cluster == member and is_hub(sending.process),
                boxes.unauthorized,
            )
        ),
        stage.boxes.standing(Box(lambda sending: sending.request.path.endswith(asked), look)),
    ):
        await host.delete(ref, uid=live["metadata"]["uid"])
        try:
            yield
        finally:
            await host.create(ref, {**kept, "metadata": {"name": member, "namespace": namespace}})


@contextlib.asynccontextmanager
async def webhook_refuses(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A webhook in one member refuses slices, or what the member's own process makes of them."""
    member, status = rng.choice(list(stage.members)), rng.choice(_REFUSALS)
    from_hub = rng.random() < 0.6

    def befalls(sending: Sending) -> bool:
        if sending.cluster != member or is_hub(sending.process) is not from_hub:
            return False
        return puts(sending, _SLICES if from_hub else _NATIVES)

    with stage.boxes.standing(
        boxes.answering(
            befalls, lambda: refusal(*status), lambda sending: stage.happened("webhook-refuses")
        )
    ):
        yield


@contextlib.asynccontextmanager
async def statuses_refused(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A webhook on the host refuses every status of a job set: what members have done cannot be
    recorded."""
    status = rng.choice(_REFUSALS)

    def befalls(sending: Sending) -> bool:
        plural, subresource = plural_of(sending.request.path)
        return (
            sending.cluster == "host"
            and sending.writes
            and (plural, subresource) == (_JOBSETS, "status")
        )

    with stage.boxes.standing(
        boxes.answering(
            befalls, lambda: refusal(*status), lambda sending: stage.happened("statuses-refused")
        )
    ):
        yield


Change = Callable[[dict[str, Any]], None]
"""What a webhook makes of an object, or of a patch of one, before it is stored."""


def _annotates(body: dict[str, Any]) -> None:
    """Adds a note of its own."""
    body.setdefault("metadata", {}).setdefault("annotations", {})["mesh.example.com/status"] = (
        "injected"
    )


def _labels_pods(body: dict[str, Any]) -> None:
    """Adds a label to pods."""
    if isinstance(template := (body.get("spec") or {}).get("template"), dict):
        if template.setdefault("metadata", {}) is None:
            template["metadata"] = {"annotations": None}  # a patch that takes everything away
        labels = template["metadata"].get("labels") or {}
        template["metadata"]["labels"] = {**labels, "mesh.example.com/injected": "true"}


def _mirrors(body: dict[str, Any]) -> None:
    """Takes images from a mirror instead: changes what we asked for."""
    template = (body.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        image = container.get("image")
        if isinstance(image, str) and not image.startswith("mirror.example.com/"):
            container["image"] = f"mirror.example.com/{image}"


def _prunes(body: dict[str, Any]) -> None:
    """An older definition that does not know a field, and drops it."""
    template = (body.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        container.pop("resources", None)


CHANGES: Mapping[str, Change] = {
    "annotates": _annotates,
    "labels pods": _labels_pods,
    "mirrors images": _mirrors,
    "prunes resources": _prunes,
}


def changing(member: str, change: Change, plurals: frozenset[str], note: Callable[[], None]) -> Box:
    """A webhook in a member that changes what is written of these resources."""

    async def how(sending: Sending, inner: Transport) -> Response:
        body = msgspec.json.decode(sending.request.body)
        before = msgspec.json.encode(body)
        if isinstance(body, dict):
            change(body)
        after = msgspec.json.encode(body)
        if after == before:
            return await inner.request(sending.request)
        note()
        return await inner.request(replace(sending.request, body=after))

    return Box(lambda sending: sending.cluster == member and puts(sending, plurals), how)


@contextlib.asynccontextmanager
async def webhook_changes(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A webhook, or an older definition, in one member changes what is written there. It is over
    when what lacks something has been written once more without it."""
    member, change = rng.choice(list(stage.members)), CHANGES[rng.choice(sorted(CHANGES))]
    plurals = _SLICES if rng.random() < 0.5 else _NATIVES
    with stage.boxes.standing(
        changing(member, change, plurals, lambda: stage.happened("webhook-changes"))
    ):
        yield
    options = (
        stage.federation.hub_options if plurals is _SLICES else stage.federation.member_options
    )
    await asyncio.sleep(options.futile_pause_s)


@contextlib.asynccontextmanager
async def kind_not_served(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A kind of ours is not served in a member: discovery does not name it, its paths answer 404.
    Its objects stay."""
    member = rng.choice(list(stage.members))
    kind = rng.choice([kind for kind in registry.WORKLOADS.values() if kind.model is not None])
    box = boxes.without_kind(
        kind,
        lambda sending: sending.cluster == member,
        lambda sending: stage.happened("kind-not-served"),
    )
    with stage.boxes.standing(box):
        await stage.links.end_streams(member)
        yield


@contextlib.asynccontextmanager
async def discovery_flaps(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Discovery leaves a group out most of the time, or fails; the kinds themselves are served."""
    member = rng.choice(list(stage.members))
    groups = rng.choice((("pinterest.com",), ("apps",), ("pinterest.com", "apps"), ()))

    def befalls(sending: Sending) -> bool:
        return (
            sending.cluster == member
            and is_hub(sending.process)
            and sending.request.path in ("/api", "/apis")
        )

    async def how(sending: Sending, inner: Transport) -> Response:
        if rng.random() < 0.3:
            return await inner.request(sending.request)
        stage.happened("discovery-flaps")
        if not groups:
            return refusal(
                503, "ServiceUnavailable", "the server is currently unable to handle the request"
            )
        response = await inner.request(sending.request)
        document = msgspec.json.decode(await response.read(1 << 24))
        document["items"] = [
            group for group in document["items"] if group["metadata"].get("name") not in groups
        ]
        return CannedResponse(response.status, msgspec.json.encode(document), response.headers)

    with stage.boxes.standing(Box(befalls, how)):
        yield


_MEMBER = "hubs and one member"

ROWS = (
    Episode(
        "credentials-refused", "F41", _MEMBER, "after 5 to 60 s", credentials_refused, (5.0, 60.0)
    ),
    Episode(
        "secret-absent",
        "F41",
        _MEMBER,
        "a new Secret comes after 5 to 40 s",
        secret_absent,
        (5.0, 40.0),
    ),
    Episode(
        "webhook-refuses",
        "F42",
        "one member",
        "it is removed after 5 to 60 s",
        webhook_refuses,
        (5.0, 60.0),
    ),
    Episode(
        "statuses-refused",
        "F42",
        "hubs and the host",
        "it is removed after 10 to 60 s",
        statuses_refused,
        (10.0, 60.0),
    ),
    Episode(
        "webhook-changes",
        "F47",
        "one member",
        "it is removed after 5 to 60 s",
        webhook_changes,
        (5.0, 60.0),
    ),
    Episode(
        "kind-not-served",
        "F48",
        "one member",
        "served again after 10 to 90 s",
        kind_not_served,
        (10.0, 90.0),
    ),
    Episode(
        "discovery-flaps",
        "F48",
        _MEMBER,
        "it answers after 30 to 150 s",
        discovery_flaps,
        (30.0, 150.0),
    ),
)
