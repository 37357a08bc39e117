"""Bugs to plant in a run, each with the rule that must catch it. Used by the negative controls
only.

A rule that no bug can break proves nothing. Bugs sit where real ones would: on the wire between a
process and an API server, inside the hub, or, for what API servers refuse by themselves, in a
store.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from federator.hub.leading.process import HubProcess
from federator.kube.wire.transport import Request, Response, Transport
from federator.model import names
from tests.faults.rows import is_hub
from tests.simulation import foreign
from tests.simulation.conduct import resource_of
from tests.simulation.invariants import Obj, all_of, note_key
from tests.simulation.running import Plant
from tests.simulation.world import World
from tests.worlds import WRITER

Rewrite = Callable[[str, Request, dict[str, Any]], dict[str, Any] | None]
"""(cluster, request, body) -> the body to send instead, None to leave the request as it is."""
SLICES = ("pinterestservices", "pinterestjobsets", "deployments")


class Rewriting:
    """Sends other bodies than the hub meant to."""

    def __init__(self, cluster: str, inner: Transport, rewrite: Rewrite, times: int) -> None:
        self.cluster = cluster
        self.inner = inner
        self.rewrite = rewrite
        self.times = times

    async def request(self, request: Request) -> Response:
        """The last of `times` answers to the request, changed where the bug says so."""
        if request.body:
            body = self.rewrite(self.cluster, request, json.loads(request.body))
            if body is not None:
                request = Request(
                    request.method,
                    request.path,
                    request.query,
                    request.headers,
                    json.dumps(body).encode(),
                    request.read_timeout_s,
                    request.total_timeout_s,
                )
        for _ in range(self.times - 1):
            response = await self.inner.request(request)
            await response.close()
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def _on_the_wire(rewrite: Rewrite, times: int = 1) -> Plant:
    def between(process: str, cluster: str, inner: Transport) -> Transport:
        return Rewriting(cluster, inner, rewrite, times) if is_hub(process) else inner

    return Plant(between=between)


def _as_it_is(cluster: str, request: Request, body: dict[str, Any]) -> None:
    return None


def _one_more_copy(cluster: str, request: Request, body: dict[str, Any]) -> dict[str, Any] | None:
    if request.method != "POST" or resource_of(request.path)[0] != "placementdecisions":
        return None
    for share in body["spec"]["shares"][:1]:
        if "replicas" in share:
            share["replicas"] += 1
    return body


def _delete_by_name(cluster: str, request: Request, body: dict[str, Any]) -> dict[str, Any] | None:
    return {} if request.method == "DELETE" and cluster != "host" else None


def _lose_notes(cluster: str, request: Request, body: dict[str, Any]) -> dict[str, Any] | None:
    if (
        request.method != "PATCH"
        or cluster == "host"
        or resource_of(request.path)[0] != "pinterestservices"
    ):
        return None
    for part in ("labels", "annotations"):
        body.setdefault("metadata", {}).setdefault(part, {})[note_key("PinterestService")] = None
    return body


def _see_the_future(cluster: str, request: Request, body: dict[str, Any]) -> dict[str, Any] | None:
    if not request.path.endswith("/status") or "observedGeneration" not in body.get("status", {}):
        return None
    body["status"]["observedGeneration"] += 1
    return body


def _without_quotas(hub: HubProcess) -> None:
    class Forgetful(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            return

    hub.state.quotas = Forgetful()


def _without_memory_of_what_is_held(hub: HubProcess) -> None:
    hub.controllers.placing.holdings = lambda workload, record: ()  # type: ignore[method-assign]


def _blind_to_templates(hub: HubProcess) -> None:
    observed = hub.controllers.aggregation._observed

    def blind(workload: Any, record: Any, cluster: str, seen: Any) -> Any:
        found = observed(workload, record, cluster, seen)
        origin = workload.generation if found.exists else 0
        return dataclasses.replace(
            found, origin_generation=origin, outdated=False, updated=found.actual
        )

    hub.controllers.aggregation._observed = blind  # type: ignore[method-assign]


def _with_a_bug_in_a_turn(hub: HubProcess) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    hub.controllers.dispatching.turn = broken  # type: ignore[method-assign]


def _hasty(process: str, cluster: str, inner: Transport) -> Transport:
    """A hub that deletes by what it remembers from before its start."""
    return Hasty(cluster, inner) if is_hub(process) and cluster != "host" else inner


class Hasty:
    """Sends a deletion before anything else."""

    def __init__(self, cluster: str, inner: Transport) -> None:
        self.cluster = cluster
        self.inner = inner
        self.begun = False

    async def request(self, request: Request) -> Response:
        """The answer to the request, after a deletion on doubt."""
        if not self.begun:
            self.begun = True
            path = "/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web"
            body = json.dumps({"preconditions": {"uid": "remembered"}}).encode()
            await (await self.inner.request(Request("DELETE", path, body=body))).close()
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def _write(
    world: World,
    cluster: str,
    kind: str,
    change: Callable[[dict[str, Any]], None],
    *,
    ours: bool = True,
) -> None:
    """Changes the first object of a kind in a store, behind its API server's back and in the hub's
    name.
    """
    store, registry = world.clusters[cluster].store, world.clusters[cluster].registry
    chosen: Obj = next(
        obj
        for obj in all_of(world.clusters[cluster], kind)
        if cluster == "host" or (names.FLEET_LABEL in (obj["metadata"].get("labels") or {})) == ours
    )
    body = json.loads(json.dumps(chosen))
    change(body)
    info = registry.for_kind(body["apiVersion"], kind)
    assert info is not None
    token = WRITER.set(world.lives[world.hubs[0]])
    store.update(info, body)
    WRITER.reset(token)


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        for part in path[:-1]:
            body = body[part]
        body[path[-1]] = to

    return change


def _old_seq(world: World) -> None:
    _write(world, "host", "PlacementDecision", _set("spec", "seq", to=0))


def _unwritten_seq(world: World) -> None:
    _write(world, _holder(world), "PinterestService", _set("spec", "slice", "seq", to=1 << 50))


def _take_over(world: World) -> None:
    _write(world, "a", "PinterestService", _set("spec", "replicas", to=7), ours=False)


def _false_status(world: World) -> None:
    _write(world, "host", "PinterestService", _set("status", "ready", to=99))


def _stray_share(world: World) -> None:
    _write(world, "host", "PlacementDecision", _set("spec", "wanted", to=99))


def _orphan(world: World) -> None:
    _, body = foreign.namesake()
    member = world.federation.members["a"]
    meta = {**body["metadata"], "name": "orphan", "labels": {names.WORKLOAD_UID_LABEL: "gone"}}
    member.store.create(
        member.registry.get("pinterest.com", "pinterestservices"), {**body, "metadata": meta}
    )


def _foreign_gone(world: World) -> None:
    member = world.federation.members["a"]
    member.store.delete(member.registry.get("", "configmaps"), "feed", "theirs")


def _holder(world: World) -> str:
    """A member that has a slice of a service."""
    return next(
        name
        for name, member in sorted(world.federation.members.items())
        if any(
            names.FLEET_LABEL in (obj["metadata"].get("labels") or {})
            for obj in all_of(member, "PinterestService")
        )
    )


PLANTED: Mapping[str, tuple[str, Plant]] = {
    "a decision gives one copy too many": ("1 conservation", _on_the_wire(_one_more_copy)),
    "a decision is for another number than was asked": (
        "1 decided as asked",
        Plant(at_rest=_stray_share),
    ),
    "an old seq is written over a newer one": ("4 rising seq", Plant(after_script=_old_seq)),
    "a member hears of what the host has not recorded": (
        "4 intent first",
        Plant(after_script=_unwritten_seq),
    ),
    "a foreign object is taken over": ("5 ownership", Plant(after_script=_take_over)),
    "a deletion names no uid": ("5 ownership", _on_the_wire(_delete_by_name)),
    "a foreign object is lost": ("5 foreign objects", Plant(at_rest=_foreign_gone)),
    "the hub knows no quota": ("6 quota", Plant(tamper=_without_quotas)),
    "an object of a workload that is gone is left": ("8 no orphans", Plant(at_rest=_orphan)),
    "a status speaks of a generation to come": (
        "9 observed generation",
        _on_the_wire(_see_the_future),
    ),
    "a deletion comes before the lists": ("14 no delete on doubt", Plant(between=_hasty)),
    "a write takes somebody's label along": ("18 field respect", _on_the_wire(_lose_notes)),
    "a status is made up": ("19 status truth", Plant(at_rest=_false_status)),
    "copies of an earlier template count as ready": (
        "19 ready is of this generation",
        Plant(tamper=_blind_to_templates),
    ),
    "a turn ends in an exception": ("20 total functions", Plant(tamper=_with_a_bug_in_a_turn)),
    "every request is sent forty times": ("21 no hot loop", _on_the_wire(_as_it_is, times=40)),
    "a placement forgets what is held": (
        "33 minimal movement",
        Plant(tamper=_without_memory_of_what_is_held),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
