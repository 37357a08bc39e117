"""Required policies in a running hub, against a tenant who writes whatever he may in his namespace;
and what many policies of one tenant cost everybody else.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kinds import registry
from tests.unit.hub.test_policy_edits import LONG, watched, wide
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC, CPP, PP = "PinterestService", "ClusterPlacementPolicy", "PlacementPolicy"
OWNER = {"team": "platform", "contact": "platform@example.com"}
TITLE = "ClusterPlacementPolicy not-c (Required, owner platform, platform@example.com)"


async def required(world: World, name: str = "not-c", **spec: Any) -> None:
    await world.create(CPP, "", name, {"enforcement": "Required", "owner": OWNER, **spec})


NOT_C: dict[str, Any] = {"clusters": {"names": ["a", "b"]}}
HOSTILE: tuple[Mapping[str, Any], ...] = (
    {"clusters": {"names": ["c"]}},
    {"clusters": {"selector": {"matchLabels": {"zone": "z-c"}}}, "onPolicyChange": "Lazy"},
    {"clusters": {"names": ["c"]}, "moveBudget": {"maxCopiesPerMinute": 1}},
    {"division": {"strategy": "Weighted", "weights": [{"weight": 1, "names": ["c"]}]}},
    {"division": {"groups": [{"name": "mine", "names": ["c"]}]}},
    {"policyRef": "mine"},
    {"policyRef": "wide"},
    {"tolerations": [{"operator": "Exists"}], "clusters": {"names": ["c"]}},
)


@pytest.mark.parametrize("placement", HOSTILE, ids=str)
def test_no_placement_of_a_tenant_puts_a_copy_where_a_required_policy_does_not(
    placement: Mapping[str, Any],
) -> None:
    async def scenario(world: World) -> None:
        await required(world, **NOT_C)
        await world.create(PP, "feed", "mine", {"clusters": {"names": ["c"]}, "priority": 1000000})
        await world.create(CPP, "", "wide", {"clusters": {"names": ["c"]}})
        await world.create(PSVC, "feed", "web", service(6, placement=placement))
        await world.settle()
        shares = await world.shares("feed", "web")
        assert "c" not in shares
        decided = (await world.decisions())[0]["spec"]
        if not shares:
            assert (await world.condition(PSVC, "feed", "web", "Placed"))["status"] == "False"
            refused = [one["message"] for one in decided["verdicts"]["rejected"]]
            assert any(TITLE in one for one in refused), refused
        assert decided["policy"]["required"] == [{"name": "not-c", "generation": 1}]

    play(scenario)


@pytest.mark.parametrize(
    "placement",
    [
        {"onPolicyChange": "Lazy", "moveBudget": {"maxCopiesPerMinute": 1}},
        {"policyRef": "gone"},
        {"division": {"maxPerCluster": 12}, "onPolicyChange": "Lazy"},
    ],
    ids=str,
)
def test_what_runs_where_it_may_not_moves_at_once_and_none_is_lost(
    placement: Mapping[str, Any],
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PP, "feed", "mine", {"clusters": {"names": ["c"]}})
        await world.create(PSVC, "feed", "web", service(12, placement={"policyRef": "mine"}))
        await world.settle()
        assert await world.shares("feed", "web") == {"c": 12}
        await required(world, "elsewhere", clusters={"names": ["c", "a"]})
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"policyRef": None, **placement}}}
        )
        await world.settle()
        await required(world, **NOT_C)
        assert await watched(world, 60) >= 12 - 12 // 4
        shares = await world.shares("feed", "web")
        assert shares == {"a": 12}

    play(scenario, fleet=wide())


def test_a_required_policy_moves_at_its_own_pace_and_holds_what_has_nowhere_to_go() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(12, placement={"clusters": {"names": ["c"]}})
        )
        await world.settle()
        await required(world, **NOT_C)
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"c": 12}
        await world.patch(CPP, "", "not-c", {"spec": {"moveBudget": {"maxCopiesPerMinute": 4}}})
        await asyncio.sleep(5)
        await world.patch(
            PSVC,
            "feed",
            "web",
            {"spec": {"placement": {"clusters": None, "onPolicyChange": "Lazy"}}},
        )
        await asyncio.sleep(20)
        moved = 12 - (await world.shares("feed", "web")).get("c", 0)
        assert 4 <= moved <= 8
        said = next(one["spec"] for one in await world.decisions())["message"]
        assert f"4 a minute at most over all workloads (spec.moveBudget of {TITLE})" in said
        await asyncio.sleep(200)
        assert "c" not in await world.shares("feed", "web")

    play(scenario, fleet=wide())


def test_a_job_set_leaves_where_it_may_not_run() -> None:
    async def scenario(world: World) -> None:
        placement = {"onPolicyChange": "Lazy"}
        await world.create(
            "PinterestJobSet",
            "feed",
            "index",
            {**jobset(12, 6, annotations=LONG), "placement": placement},
        )
        await asyncio.sleep(30)
        assert "c" in await world.slots("feed", "index")
        await required(world, **NOT_C)
        await asyncio.sleep(60)
        assert set(await world.slots("feed", "index")) <= {"a", "b"}

    play(scenario, fleet=wide())


def test_an_operators_no_execute_is_not_beaten_by_tolerating_everything() -> None:
    async def scenario(world: World) -> None:
        await required(world, "bounds", tolerations=[{"key": "gpu", "operator": "Exists"}])
        await world.create(
            PSVC, "feed", "web", service(9, placement={"tolerations": [{"operator": "Exists"}]})
        )
        await world.settle()
        assert "c" in await world.shares("feed", "web")
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await world.patch("MemberCluster", "", "c", {"spec": {"taints": [taint]}})
        await asyncio.sleep(20)
        assert "c" not in await world.shares("feed", "web")

    play(scenario)


def test_a_required_policy_holds_for_a_bound_project_whatever_the_workload_claims() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed", "other"], "namespaces": ["feed"]}
        )
        await required(world, workloads={"projects": ["feed"]}, **NOT_C)
        await world.create(
            PSVC,
            "feed",
            "web",
            service(6, project="other", placement={"clusters": {"names": ["c"]}}),
        )
        await world.settle()
        assert await world.shares("feed", "web") == {}

    play(scenario)


def test_a_cluster_of_one_project_is_not_opened_by_claiming_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "namespaces": ["feed"]}
        )
        await world.create(
            "FederatedQuota", "", "evil", {"projects": ["evil"], "namespaces": ["evil"]}
        )
        await world.patch("MemberCluster", "", "c", {"spec": {"projects": ["feed"]}})
        only_c = {"clusters": {"names": ["c"]}}
        await world.create(PSVC, "feed", "web", service(3, project="feed", placement=only_c))
        await world.create(PSVC, "evil", "web", service(3, project="feed", placement=only_c))
        await world.settle()
        assert await world.shares("feed", "web") == {"c": 3}
        assert await world.shares("evil", "web") == {}

    play(scenario)


def test_of_too_many_policies_the_oldest_are_in_force_and_the_others_are_told() -> None:
    async def scenario(world: World) -> None:
        for number in range(5):
            more = {"priority": number, "clusters": {"names": ["abc"[number % 3]]}}
            await world.create(PP, "feed", f"p{number}", more)
            await asyncio.sleep(2)
        await world.create(PSVC, "feed", "web", service(3))
        await world.create(PSVC, "feed", "named", service(3, placement={"policyRef": "p4"}))
        await world.settle()
        assert await world.shares("feed", "web") == {
            "c": 3
        }  # p2: p3 and p4 are younger than the three oldest
        told = {f"p{n}": await world.condition(PP, "feed", f"p{n}", "InForce") for n in range(5)}
        assert [name for name, one in told.items() if one.get("reason") == "TooManyPolicies"] == [
            "p3",
            "p4",
        ]
        named = await world.condition(PSVC, "feed", "named", "Placed")
        assert (named["reason"], "the 3 oldest are in force" in named["message"]) == (
            "Misconfigured",
            True,
        )
        await world.delete(PP, "feed", "p0")
        await world.settle()
        await asyncio.sleep(5)
        assert await world.shares("feed", "web") == {"a": 3}
        assert not await world.condition(PP, "feed", "p3", "InForce")
        assert await world.condition(PP, "feed", "p4", "InForce")

    play(scenario, options=HubOptions(policies_per_namespace=3))


def test_one_edited_policy_of_many_concerns_those_whom_it_selects() -> None:
    async def scenario(world: World) -> None:
        for number in range(30):
            select = {"workloads": {"matchLabels": {"app": f"app-{number}"}}}
            await world.create(PP, "feed", f"p{number}", select)
        for number in range(8):
            labels = {"app": f"app-{number}"}
            await world.create(PSVC, "feed", f"w{number}", service(1), labels=labels)
        await world.create(PSVC, "ads", "web", service(1), labels={"app": "app-3"})
        await world.settle()
        hub = world.federation.hub
        rules, requeueing = hub.state.rules, hub.controllers.hosting.requeueing
        evaluated, compared = rules.evaluations, requeueing.compared
        await world.patch(PP, "feed", "p3", {"spec": {"clusters": {"names": ["b"]}}})
        await world.settle()
        assert await world.shares("feed", "w3") == {"b": 1}
        # Each of the eight workloads of the namespace beside the policy as it was and as it is;
        # then one is decided. Its slice in the other cluster is heard of until its pods have ended.
        assert requeueing.compared - compared <= 16
        assert rules.evaluations - evaluated <= 12

    play(scenario)


def test_a_storm_of_policies_costs_one_look_at_the_namespace() -> None:
    async def scenario(world: World) -> None:
        for number in range(8):
            await world.create(PSVC, "feed", f"w{number}", service(1))
        await world.settle()
        requeueing = world.federation.hub.controllers.hosting.requeueing
        kind = registry.KINDS[PP]
        for number in range(200):
            body = {
                "apiVersion": kind.api_version,
                "kind": PP,
                "metadata": {"name": f"p{number}", "namespace": "feed"},
            }
            spec = {"workloads": {"matchLabels": {"app": f"app-{number}"}}}
            await world.host.create(kind.ref("feed", f"p{number}"), {**body, "spec": spec})
        await world.settle()
        assert requeueing.compared <= 200 * 8 * 2
        assert world.federation.hub.state.rules.count("feed") == 200

    play(scenario, fleet=small_fleet(1))
