"""What if: the edits that the page "Why here" plans, from its address and its form."""

import html
from typing import Any
from urllib.parse import quote

import yaml

from tests.unit.dashboard.asking import Browser, dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.test_planning import WORKLOADS

WHY = "/workloads/PinterestService/feed/web/why"


async def limited(world: World) -> None:
    """Six copies of eight run: the account allows no more."""
    limits = {"OnDemand": {"max": {"cpu": "6", "memory": "100Gi"}}}
    account = {"projects": ["feed"], "namespaces": ["feed"], "tiers": limits}
    await world.create("FederatedQuota", "", "feed", account)
    policy = {"clusters": {"names": ["a", "b", "c"]}}
    await world.create("PlacementPolicy", "feed", "everywhere", policy)
    await world.create("PinterestService", "feed", "web", worlds.service(8, "1", project="feed"))
    await world.settle()
    await asking.grant(world, "team", "feed", WORKLOADS)


async def answered(browser: Browser, query: str) -> dict[str, Any]:
    """(the row of the workload in the plan)."""
    shown = await browser.json(f"{WHY}?{query}")
    assert shown["whatIf"]["problems"] == []
    rows = shown["whatIf"]["plan"]["document"]["workloads"]
    return next((row for row in rows if row["workload"].endswith("feed/web")), {})


def test_simple_edits_have_an_address() -> None:
    async def scenario(world: World) -> None:
        await limited(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            assert (await admin.json(WHY))["whatIf"]["plan"] is None
            assert sum((await answered(admin, "replicas=3"))["after"].values()) == 3
            more = await answered(admin, f"quota={quote('cpu=2')}")
            assert (sum(more["after"].values()), more["short"]) == (8, 0)
            lost = await answered(admin, "lose=b")
            assert "b" not in lost["after"]
            larger = await answered(admin, "cpu=2")
            assert larger["heldBack"], "six copies of 2 cpu are more than the account has"
            smaller = await answered(admin, "cpu=500m")
            assert (smaller["restarted"], sum(smaller["after"].values())) == (6, 8)
            both = await answered(admin, "replicas=10&cpu=500m&memory=1Gi")
            assert sum(both["after"].values()) == 10

    worlds.play(scenario)


def test_an_edited_policy_is_planned_from_the_form() -> None:
    async def scenario(world: World) -> None:
        await limited(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            shown = (await admin.json(WHY))["whatIf"]["policy"]
            policy = yaml.safe_load(shown)
            assert (policy["kind"], policy["metadata"]["name"]) == ("PlacementPolicy", "everywhere")
            policy["spec"]["clusters"]["names"] = ["a"]
            answer = await admin.send(WHY, {"policy": yaml.safe_dump(policy)})
            page = html.unescape(answer.body.decode())
            assert answer.status == 200
            assert "between clusters" in page
            assert "- a\n" in page, "the edited policy stays in the form"
            bad = await admin.send(WHY, {"policy": shown.replace("names", "name")})
            assert bad.status == 422
            assert "the edited policy, document 1, line" in bad.body.decode()

    worlds.play(scenario)


def test_a_reader_without_rights_is_told_which_are_missing() -> None:
    async def scenario(world: World) -> None:
        await limited(world)
        async with dashboard_of(world, leader=True) as dashboard:
            team = await reader(world, dashboard, "team")
            page = await team.json(WHY)
            assert page["whatIf"]["policy"] == "", "the team may not get policies"
            assert sum((await answered(team, "replicas=3"))["after"].values()) == 3
            for query, status, sentence in (
                ("lose=b", 403, "you cannot update memberclusters"),
                ("quota=cpu%3D2", 422, "no FederatedQuota that you may get limits the project"),
            ):
                answer = await team.get(f"{WHY}?{query}")
                assert (answer.status, sentence in answer.body.decode()) == (status, True), query
                assert b"Every cluster" in answer.body, "the explanation stays"

    worlds.play(scenario)


def test_fields_that_cannot_be_read_say_what_is_accepted() -> None:
    async def scenario(world: World) -> None:
        await limited(world)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            for query, sentence in {
                "replicas=-1": "replicas: '-1' is no number of copies, such as 300",
                "replicas=1e9": "is no number of copies",
                "cpu=lots": "cpu: 'lots'",
                "memory=NaN": "memory: 'NaN'",
                "quota=more": "quota: 'more' is not RESOURCE=AMOUNT, such as cpu=100",
                "quota=gpu%3D2": "account feed has no limit of gpu in tier OnDemand",
                "lose=nope": "there is no cluster nope to lose",
            }.items():
                answer = await admin.get(f"{WHY}?{query}")
                assert answer.status == 422, query
                assert sentence in html.unescape(answer.body.decode()), query
            assert (await admin.get(f"{WHY}?colour=red")).status == 400

    worlds.play(scenario)
