"""The floors of the rows on real servers: the same requests with the same client, in the same order
per workload, and no logic at all between them.

What is sent was recorded from what the hub really wrote (`Pattern`), so that sizes are the same.
"""

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from federator.hub.options import HubOptions
from federator.hub.records import slices
from federator.kinds import crds, registry
from federator.kube.client import Client
from federator.model.decision import Share
from federator.model.steps import ObjectRef

OPTIONS = HubOptions()
UID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one workload costs, as bodies with a name to be replaced."""

    kind: str
    workload: Mapping[str, Any]
    decision: Mapping[str, Any]
    status: Mapping[str, Any]
    shares: Mapping[str, Share]
    """By cluster."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The bodies for one workload."""

    workload: dict[str, Any]
    decision: dict[str, Any]
    slices: dict[str, dict[str, Any]]
    natives: tuple[dict[str, Any], ...]
    status: Mapping[str, Any]


def requests(pattern: Pattern, name: str, namespace: str) -> Requests:
    """Prepared before the clock starts."""
    workload = _named(pattern.workload, name, namespace)
    decision = _named(pattern.decision, f"{name}-decision", namespace)
    decision["metadata"] = {
        key: decision["metadata"][key] for key in ("name", "namespace", "labels")
    }
    for gone in ("status", "uid", "resourceVersion"):
        workload.pop(gone, None)
    known = copy.deepcopy(workload)
    known["metadata"] |= {"uid": UID, "generation": 1}
    verbs = registry.verbs_of(pattern.kind)
    rendered = {
        cluster: slices.render(verbs, known, share, fleet=OPTIONS.fleet)
        for cluster, share in pattern.shares.items()
    }
    expanded: tuple[dict[str, Any], ...] = ()
    if verbs.expand is not None:
        one = copy.deepcopy(next(iter(rendered.values())))
        one["metadata"] |= {"uid": UID, "generation": 1}
        expanded = verbs.expand(one, None)
    return Requests(workload, decision, rendered, expanded, pattern.status)


def shortest(found: Requests) -> Requests:
    """As many requests of the same kinds with the shortest bodies that servers take: what the
    machine allows, whatever is said in them."""
    decision = copy.deepcopy(found.decision)
    decision["spec"] = {name: decision["spec"][name] for name in _required_of_decisions()}
    bodies = {cluster: _bare(body) for cluster, body in found.slices.items()}
    status = {"observedGeneration": 1}
    return Requests(_bare(found.workload), decision, bodies, found.natives, status)


def _required_of_decisions() -> list[str]:
    """The fields that a PlacementDecision cannot do without."""
    definition = next(
        crd for crd in crds.all_crds() if crd["spec"]["names"]["kind"] == "PlacementDecision"
    )
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    required: list[str] = schema["properties"]["spec"]["required"]
    return required


def _bare(body: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment with nothing but what has to be there."""
    meta, spec = body["metadata"], body["spec"]
    container = {"name": "a", "image": "a"}
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "spec": {
            "selector": spec["selector"],
            "template": {
                "metadata": {"labels": spec["selector"]["matchLabels"]},
                "spec": {"containers": [container]},
            },
        },
    }


def _named(obj: Mapping[str, Any], name: str, namespace: str) -> dict[str, Any]:
    found = copy.deepcopy(dict(obj))
    found["metadata"] |= {"name": name, "namespace": namespace}
    return found


class Floor:
    """Sends what the hub, the members and the user would send, as fast as it goes."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients
        self._lanes = {
            name: asyncio.Semaphore(
                OPTIONS.host_writes_in_flight if name == "host" else OPTIONS.lane_writes_in_flight
            )
            for name in clients
        }

    async def all(
        self, work: Sequence[Requests], one: Callable[[Requests], Awaitable[None]]
    ) -> float:
        """Seconds until everything was answered."""
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for found in work:
                group.create_task(one(found))  # type: ignore[arg-type]
        return time.perf_counter() - begun

    async def carried(self, found: Requests) -> None:
        """A workload that needs no expansion, until its status is written."""
        await self._create("host", found.workload)
        await self._create("host", found.decision)
        await asyncio.gather(
            *(self._create(cluster, body) for cluster, body in found.slices.items())
        )
        ref = ref_of(found.workload)
        async with self._lanes["host"]:
            await self._clients["host"].patch(ref, {"status": found.status}, subresource="status")

    async def expanded(self, found: Requests) -> None:
        """A workload of ours, until its natives are there."""
        await self._create("host", found.workload)
        await self._create("host", found.decision)
        await asyncio.gather(
            *(self._expand(cluster, body, found.natives) for cluster, body in found.slices.items())
        )

    async def in_a_row(self, found: Requests) -> float:
        """Seconds for workload, decision and one slice, one after the other."""
        cluster, body = next(iter(found.slices.items()))
        begun = time.perf_counter()
        await self._create("host", found.workload)
        await self._create("host", found.decision)
        await self._create(cluster, body)
        return time.perf_counter() - begun

    async def _expand(
        self, cluster: str, body: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]
    ) -> None:
        made = await self._create(cluster, body)
        await asyncio.gather(
            *(self._own(cluster, native, made["metadata"]["uid"]) for native in wanted)
        )

    async def _own(self, cluster: str, native: Mapping[str, Any], uid: str) -> None:
        metadata = dict(native["metadata"])
        if owners := metadata.get("ownerReferences"):
            metadata["ownerReferences"] = [{**owner, "uid": uid} for owner in owners]
        await self._create(cluster, {**native, "metadata": metadata})

    async def _create(self, cluster: str, body: Mapping[str, Any]) -> dict[str, Any]:
        async with self._lanes[cluster]:
            return await self._clients[cluster].create(ref_of(body), body)


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """The plural is the kind in small letters with an s: true for every kind that is sent here."""
    meta, kind = obj["metadata"], obj["kind"]
    return ObjectRef(obj["apiVersion"], f"{kind.lower()}s", meta["namespace"], meta["name"], kind)
