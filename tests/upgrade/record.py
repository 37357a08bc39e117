"""`python -m tests.upgrade.record FILE`: what a federation of this tree leaves in its API servers.

A small federation lives for a while in virtual time: replicas and shards, a policy, a quota, a
profile, a roll-out, a plain Deployment. Then all that its host and members hold is written to one
file of JSON, compressed by xz, `{about, clusters: {name: [object]}}`. Run once for each release, in
its own checkout; `test_upgrade` starts the code of today on it.
"""

import argparse
import asyncio
import json
import lzma
from pathlib import Path
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play, service

LEFT_OUT = frozenset({"events", "nodes", "leases", "apiservices"})
"""Told anew, made from the fleet, or of processes that have ended."""


async def live(world: World) -> None:
    """A life short of nothing that leaves traces, and at rest in the end."""
    await world.create("RuntimeProfile", "", "std", {"env": [{"name": "STAGE", "value": "prod"}]})
    selector = {"matchLabels": {"team": "feed"}}
    placed = {
        "workloadSelector": selector,
        "division": {"strategy": "Weighted"},
        "rollout": {"maxClustersAtOnce": 1},
    }
    await world.create("ClusterPlacementPolicy", "", "wide", placed)
    quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "400"}}}}
    await world.create("FederatedQuota", "", "feed", quota)
    labels = {"labels": {"team": "feed"}}
    await world.create("PinterestService", "feed", "web", service(6, project="feed"), **labels)
    await world.create(
        "PinterestService", "feed", "one", service(1, project="feed", runtimeProfile="std")
    )
    await world.create(
        "PinterestJobSet", "batch", "train", {**jobset(12, 4, cpu="1"), "project": "feed"}
    )
    await world.host.create(
        ObjectRef("apps/v1", "deployments", "feed", "plain", "Deployment"), _plain()
    )
    await world.settle()
    await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 9}})
    await world.settle()
    found = await world.get("PinterestService", "feed", "web")
    assert found is not None
    container = {**found["spec"]["template"]["spec"]["containers"][0], "image": "app:2"}
    edit = {"template": {"spec": {"containers": [container]}}}
    await world.patch("PinterestService", "feed", "web", {"spec": edit})
    await world.settle()
    await world.create("PinterestJobSet", "batch", "long", {**_long(9, 6), "project": "feed"})
    await asyncio.sleep(60.0)


def _long(shards: int, parallelism: int) -> dict[str, Any]:
    """Shards that run for hours: recorded in the middle of their work."""
    return jobset(shards, parallelism, annotations={"embedded.federator/run-seconds": "86400"})


def _plain() -> dict[str, Any]:
    labels = {"app": "plain"}
    container = {"name": "app", "image": "plain:1", "resources": {"requests": {"cpu": "250m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "plain", "namespace": "feed", "labels": {"team": "feed"}},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def objects(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    """All that one API server holds, definitions first."""
    found: list[dict[str, Any]] = []
    for resource in cluster.registry.stored():
        if resource.plural not in LEFT_OUT:
            found += [dict(row.obj) for row in cluster.store.items(resource)]
    return sorted(found, key=lambda obj: obj["kind"] != "CustomResourceDefinition")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--about", required=True, help="the release, as tag or commit")
    options = parser.parse_args()
    clusters: dict[str, list[dict[str, Any]]] = {}

    async def scenario(world: World) -> None:
        await live(world)
        federation = world.federation
        for name, cluster in (("host", federation.host), *federation.members.items()):
            clusters[name] = objects(cluster)

    play(scenario)
    text = json.dumps({"about": options.about, "clusters": clusters}, sort_keys=True, indent=0)
    options.file.write_bytes(lzma.compress(text.encode()))
    print(
        f"{options.file}: {sum(map(len, clusters.values()))} objects, "
        f"{options.file.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
