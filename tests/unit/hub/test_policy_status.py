"""The status of placement policies on a running federation, and `explain` of policies and clusters."""

import asyncio
from typing import Any

from federator.advice import standing as standings
from federator.cli.files import standing
from federator.hub.placing import offline
from federator.hub.status import policy_status
from federator.kinds import registry
from tests.unit.hub.world import World, play, service

PSVC, CPP, PP = "PinterestService", "ClusterPlacementPolicy", "PlacementPolicy"
SWEPT_S = 2 * policy_status.EVERY_S


async def status(world: World, kind: str, namespace: str, name: str) -> dict[str, Any]:
    policy = await world.get(kind, namespace, name)
    assert policy is not None
    shown: dict[str, Any] = policy.get("status") or {}
    return shown


def test_the_status_counts_workloads_and_names_what_no_cluster_has() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.create(PSVC, "feed", "api", service(3))
        wide = {"clusters": {"selector": {"matchLabels": {"zone": "z-aa"}}}, "priority": 0}
        await world.create(CPP, "", "where", wide)
        await world.create(PP, "feed", "one", {"workloads": {"names": ["web"]}})
        await asyncio.sleep(SWEPT_S)

        assert await status(world, PP, "feed", "one") == {"observedGeneration": 1, "matched": 1}
        said = await status(world, CPP, "", "where")
        assert said["matched"] == 1
        assert said["unknown"] == [
            "spec.clusters.selector asks for the label zone=z-aa, which no cluster has"
            " (did you mean z-a?)"
        ]

        await world.create(CPP, "", "another", {})
        await asyncio.sleep(SWEPT_S)
        said = await status(world, CPP, "", "where")
        assert said["matched"] == 0
        assert "ClusterPlacementPolicy another selects" in said["conflicts"][0]
        world.writes.clear()
        await asyncio.sleep(SWEPT_S)
        assert world.count("hub") == 0

    play(scenario)


def test_explain_shows_how_a_policy_and_a_cluster_stand() -> None:
    async def scenario(world: World) -> None:
        override = {"clusters": {"names": ["a"]}, "image": {"tag": "2"}}
        spec = {"clusters": {"exclude": ["c"]}, "overrides": [override]}
        await world.create(CPP, "", "where", spec)
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        objs: list[Any] = []
        for name in ("MemberCluster", CPP, PSVC, "PlacementDecision"):
            kind = registry.KINDS[name]
            objs += (await world.host.list(kind.api_version, kind.plural)).items
        situation = offline.read(objs, as_of=0)

        facts = standings.of_policy(situation, ("", "where"))
        assert facts is not None
        text = standing.text(facts)
        assert text.startswith("ClusterPlacementPolicy/where  priority 0, generation 1\n")
        assert "1 workload follows it: PinterestService/feed/web" in text
        assert "c         is excluded by spec.clusters.exclude" in text
        assert "spec.overrides[0]: image tag 2 in a" in text
        assert standings.of_policy(situation, ("feed", "where")) is None

        facts = standings.of_cluster(situation, "a")
        assert facts is not None
        text = standing.text(facts)
        assert "of 1 workload" in text.splitlines()[0]
        assert "PinterestService/feed/web: 3" in text
        assert "ClusterPlacementPolicy where" in text
        assert standings.of_cluster(situation, "z") is None

    play(scenario)
