"""A changed FederatedQuota requeues the workloads that it may concern, and no others."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.cache.router import Changed
from federator.hub.host import requeueing
from federator.hub.host.requeueing import QuotaEdits
from federator.model.accounts import QuotaAccount
from federator.model.names import WorkloadKey
from tests.unit.hub.world import World, play, service

FQ, PSVC = "FederatedQuota", "PinterestService"
REQUEUES = {Changed.POLICY, Changed.QUOTA, Changed.BINDING}


def limit(cpu: str) -> dict[str, Any]:
    return {"tiers": {"OnDemand": {"max": {"cpu": cpu}}}}


class Requeued:
    """The workloads that a quota edit has requeued since the last look."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: set[str] = set()
        world.federation.hub.state.signals.note.append(self._note)

    def _note(self, what: Changed, key: WorkloadKey) -> None:
        if what in REQUEUES:
            self.seen.add(f"{key.namespace}/{key.name}")

    async def by(self, name: str, spec: Mapping[str, Any]) -> set[str]:
        await self.world.patch(FQ, "", name, {"spec": spec})
        return await self.now()

    async def now(self) -> set[str]:
        await self.world.settle()
        await asyncio.sleep(5)
        seen, self.seen = self.seen, set()
        return seen


async def accounts(world: World) -> Requeued:
    """company > feed, ads; infra alone. A workload in each, and one of no account."""
    await world.create(FQ, "", "company", {"unknownProjects": "Allow", **limit("4")})
    for name in ("feed", "ads"):
        await world.create(FQ, "", name, {"projects": [name], "parent": "company"})
    await world.create(FQ, "", "infra", {"projects": ["infra"], **limit("1")})
    for name in ("feed", "ads", "infra", "free"):
        await world.create(PSVC, name, "web", service(4, "500m", project=name))
    await world.settle()
    return Requeued(world)


def test_an_edit_requeues_the_projects_of_its_tree_of_accounts() -> None:
    async def scenario(world: World) -> None:
        requeued = await accounts(world)
        await world.patch(PSVC, "ads", "web", {"spec": {"replicas": 8}})
        await requeued.now()
        assert sum((await world.shares("ads", "web")).values()) == 4

        assert await requeued.by("company", limit("8")) == {"feed/web", "ads/web"}
        assert sum((await world.shares("ads", "web")).values()) == 8
        assert await requeued.by("feed", limit("3")) == {"feed/web", "ads/web"}
        assert await requeued.by("infra", limit("2")) == {"infra/web"}
        assert sum((await world.shares("infra", "web")).values()) == 4

    play(scenario)


def test_an_account_that_changes_its_tree_requeues_both() -> None:
    async def scenario(world: World) -> None:
        requeued = await accounts(world)
        assert await requeued.by("ads", {"parent": "infra"}) == {"ads/web", "feed/web", "infra/web"}
        await world.delete(FQ, "", "infra")
        assert await requeued.now() == {"ads/web", "infra/web"}

    play(scenario)


def test_an_edit_of_namespaces_requeues_the_workloads_there() -> None:
    async def scenario(world: World) -> None:
        requeued = await accounts(world)
        assert await requeued.by("infra", {"namespaces": ["free", "infra"]}) == {
            "free/web",
            "infra/web",
        }

    play(scenario)


def test_an_edit_on_projects_of_no_account_requeues_every_workload() -> None:
    async def scenario(world: World) -> None:
        requeued = await accounts(world)
        assert await requeued.by("company", {"unknownProjects": "Refuse"}) == {
            "ads/web",
            "feed/web",
            "free/web",
            "infra/web",
        }
        refused = await world.condition(PSVC, "free", "web", "ProjectRefused")
        assert refused["status"] == "True"

    play(scenario)


def test_a_host_name_passes_on_when_an_account_bars_the_workload_that_has_it() -> None:
    door: dict[str, Any] = {
        "service": {"ports": [{"port": 80}]},
        "loadBalancers": [{"port": 80, "host": "pay.example"}],
    }

    async def scenario(world: World) -> None:
        requeued = await accounts(world)
        for name in ("company", "infra"):
            await requeued.by(name, limit("9"))
        await world.create(PSVC, "infra", "door", service(1, project="infra", **door))
        await requeued.now()
        await world.create(PSVC, "feed", "door", service(1, project="feed", **door))
        await requeued.now()
        assert (await world.condition(PSVC, "feed", "door", "Placed"))["status"] == "False"

        barred = await requeued.by("infra", {"hosts": ["*.infra.example"]})
        assert barred == {"infra/door", "infra/web", "feed/door"}
        assert (await world.condition(PSVC, "feed", "door", "Placed"))["status"] == "True"

    play(scenario)


def account(name: str, parent: str = "") -> QuotaAccount:
    return QuotaAccount(name, projects=frozenset({name}), parent=parent)


@pytest.mark.parametrize(
    ("parents", "name", "expected"),
    [
        ({"a": ""}, "a", "a"),
        ({"a": "b", "b": "c", "c": ""}, "a", "c"),
        ({"a": "gone"}, "a", "gone"),
        ({}, "new", "new"),
        ({"a": "c", "b": "a", "c": "b", "d": "c"}, "d", "a"),
    ],
    ids=["alone", "grandchild", "parent-missing", "account-missing", "circle"],
)
def test_the_top_of_a_tree(parents: dict[str, str], name: str, expected: str) -> None:
    accounts = {each: account(each, parent) for each, parent in parents.items()}
    assert requeueing.top(name, accounts) == expected


def test_edits_that_follow_each_other_keep_the_trees_between() -> None:
    """An account with one below it moves twice before the edits are followed up."""
    known = {each: account(each) for each in ("x", "y", "z", "other")}
    known["moves"], known["below"] = account("moves", "x"), account("below", "moves")
    edits = QuotaEdits()
    for parent in ("y", "z"):
        old, new = known["moves"], account("moves", parent)
        before = requeueing.top("moves", known)
        known["moves"] = new
        edits.add((before, requeueing.top("moves", known)), old, new, tell=True)
    edits.complete(known)

    assert edits.projects == {"x", "y", "z", "moves", "below"}
