"""An upgrade with unchanged specs writes nothing into members (F66, invariant 26): the code of
today is started on what an earlier release left (`record`).
"""

import asyncio
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from federator.embedded.server import EmbeddedCluster
from federator.hub.options import HubOptions
from federator.kinds import crds, registry
from tests import virtual_time
from tests.unit.hub.world import World, small_fleet

RELEASES = sorted(Path(__file__).parent.glob("*.json.xz"))
WATCHED = ("pods", "replicasets", "jobs", "deployments")
OUR_OWN = frozenset({"clustercapacities", "clustercapacities/status"})
"""What is said again all the time, and by each version in its own way."""

LEVELS = {("hub", name, "PATCH", "namespaces"): 2 for name in "abc"}
"""What this release must say once of each namespace it made in a member: its Pod Security level
(threat model).
"""

Objects = Mapping[str, list[dict[str, Any]]]


def _restore(
    cluster: EmbeddedCluster, objects: list[dict[str, Any]], *, new_definitions: bool
) -> None:
    """Makes an API server hold just these objects, with their uids; definitions as they were, or
    those of today.
    """
    definitions = {obj["metadata"]["name"]: obj for obj in crds.all_crds()}
    for obj in objects:
        group, _, _ = obj["apiVersion"].rpartition("/")
        info = cluster.registry.for_kind(obj["apiVersion"], obj["kind"])
        assert info is not None, (group, obj["kind"])
        held = cluster.store.get(
            info, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        )
        if obj["kind"] == "CustomResourceDefinition" and new_definitions:
            cluster.store.restore(
                info, {**obj, "spec": definitions[obj["metadata"]["name"]]["spec"]}
            )
        elif held is None or held.obj["metadata"]["uid"] != obj["metadata"]["uid"]:
            cluster.store.restore(info, obj)


def _uids(cluster: EmbeddedCluster) -> dict[tuple[str, str, str], str]:
    """By resource and name: what runs in a member."""
    found = {}
    for resource in cluster.registry.stored():
        if resource.plural in WATCHED:
            for row in cluster.store.items(resource):
                found[resource.plural, *row.key] = row.obj["metadata"]["uid"]
    return found


def _desired(cluster: EmbeddedCluster) -> dict[tuple[str, str, str], Any]:
    """The specs of workloads and slices."""
    found = {}
    served = {(resource.group, resource.plural) for resource in cluster.registry.stored()}
    for kind in registry.WORKLOADS.values():
        if (kind.group, kind.plural) not in served:
            continue  # a kind that came later
        for row in cluster.store.items(cluster.registry.get(kind.group, kind.plural)):
            found[kind.plural, *row.key] = row.obj["spec"]
    return found


def _written(world: World) -> dict[tuple[str, str, str, str], int]:
    """Writes into members so far, of hub and member processes."""
    return {
        key: number
        for key, number in world.writes.items()
        if key[1] != "host" and key[3] not in OUR_OWN
    }


@pytest.mark.parametrize(
    "new_definitions", [True, False], ids=["definitions of today", "definitions of then"]
)
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name.removesuffix(".json.xz"))
def test_an_upgrade_writes_nothing_into_members_and_moves_nothing(
    release: Path, new_definitions: bool
) -> None:
    clusters: Objects = json.loads(lzma.decompress(release.read_bytes()))["clusters"]

    async def scenario() -> None:
        world = World(small_fleet(), HubOptions(), seed=2)
        federation = world.federation
        await asyncio.sleep(3600)
        try:
            for name, cluster in (("host", federation.host), *federation.members.items()):
                _restore(cluster, clusters[name], new_definitions=new_definitions)
            before = {
                name: (_uids(cluster), _desired(cluster))
                for name, cluster in federation.members.items()
            }
            federation.start_clusters()
            federation.start_members()
            federation.start_hub()
            await asyncio.sleep(600)
            assert _written(world) == LEVELS
            await federation.kill("hub")
            federation.start_hub()
            await asyncio.sleep(600)
            assert _written(world) == LEVELS
            federation.check()

            assert {
                name: (_uids(one), _desired(one)) for name, one in federation.members.items()
            } == before
            assert federation.hub.state.ready
            assert await world.shares("feed", "web") == {"a": 3, "b": 3, "c": 3}
            assert (await world.condition("PinterestService", "feed", "web", "Ready"))[
                "status"
            ] == "True"
            await _new_pods_get_the_environment(world, new_definitions=new_definitions)
        finally:
            await federation.stop()

    virtual_time.run(scenario())


async def _new_pods_get_the_environment(world: World, *, new_definitions: bool) -> None:
    """A copy more is one of the kind that runs; pods that are made anew are told where they are,
    as far as the definitions of the members can say so."""
    federation = world.federation
    before = {name: _templates(one) for name, one in federation.members.items()}
    await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 12}})
    await asyncio.sleep(120)
    assert await world.shares("feed", "web") == {"a": 4, "b": 4, "c": 4}
    assert {name: _templates(one) for name, one in federation.members.items()} == before
    await world.patch("PinterestService", "feed", "web", {"spec": {"config": {"a": "b"}}})
    await asyncio.sleep(600)
    for name, cluster in federation.members.items():
        (container,) = _templates(cluster)["web"]["containers"]
        told = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
        assert (told.get("PINTEREST_CLUSTER") == name) == new_definitions
        assert (told.get("PINTEREST_PROJECT") == "feed") == new_definitions


def _templates(cluster: EmbeddedCluster) -> dict[str, Any]:
    """The pods of Deployments, by name."""
    resource = cluster.registry.get("apps", "deployments")
    return {
        row.key[1]: row.obj["spec"]["template"]["spec"] for row in cluster.store.items(resource)
    }


def test_there_is_a_release_to_upgrade_from() -> None:
    assert RELEASES
