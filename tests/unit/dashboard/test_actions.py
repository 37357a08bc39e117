"""Buttons: for whom they exist, what they show before, and what becomes of the object."""

import asyncio
import html
import re
from typing import Any

import pytest

from federator.dashboard import actions
from federator.dashboard.options import DashboardOptions
from federator.dashboard.sources import rights
from federator.dashboard.sources.acting import admitted
from federator.hub.query import pausing
from federator.hub.query.access import User
from federator.kinds import registry
from federator.kube.tlsserver import Outgoing
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef
from tests.faults.links import Cut
from tests.unit.dashboard.asking import Browser, dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

WEB = "/workloads/PinterestService/feed/web"
ACTS = DashboardOptions(act_as=("user:alice", "user:olga", "user:bob"))
READS: dict[str, Any] = {
    "apiGroups": ["pinterest.com"],
    "resources": ["pinterestservices"],
    "verbs": ["get", "list"],
}
WRITES = {**READS, "verbs": ["patch", "update"]}
REVISIONS = {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["list"]}
CLUSTERS: dict[str, Any] = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": ["memberclusters"],
    "verbs": ["get", "list", "patch", "update"],
}
PAUSES = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "create"]}


async def people(world: World) -> None:
    """Alice writes in feed, bob reads there, olga operates."""
    await world.create("PinterestService", "feed", "web", worlds.service(4))
    await world.settle()
    await asking.grant(world, "alice", "feed", READS, WRITES, REVISIONS)
    await asking.grant(world, "bob", "feed", READS)
    await asking.grant(world, "olga", "feed", READS)
    await asking.grant_everywhere(world, "olga", CLUSTERS, PAUSES)


def hidden(page: Outgoing) -> dict[str, str]:
    """The fields of the confirmation."""
    form = page.body.decode().partition('<form class="confirm"')[2].partition("</form>")[0]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form)
    return {name: html.unescape(value) for name, value in fields}


async def confirmed(browser: Browser, path: str) -> Outgoing:
    """Opens a button's page and confirms."""
    page = await browser.get(path)
    assert page.status == 200, page.body.decode()
    return await browser.post(path.partition("?")[0], hidden(page))


async def replicas(world: World) -> int:
    obj = await world.get("PinterestService", "feed", "web")
    assert obj is not None
    return int(obj["spec"]["replicas"])


def test_scale_shows_the_plan_and_writes_as_the_person() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            assert f"{WEB}/act/scale" in (await alice.get(WEB)).body.decode()
            assert not hidden(await alice.get(f"{WEB}/act/scale")), "the number comes first"
            page = await alice.get(f"{WEB}/act/scale?given=7")
            assert b"1 workload changes" in page.body
            assert b"3 start" in page.body
            assert b"--replicas=7" in page.body
            assert await replicas(world) == 4, "a forecast changes nothing"
            done = await alice.post(f"{WEB}/act/scale", hidden(page))
            assert (done.status, done.headers["Location"]) == (303, WEB)
            assert await replicas(world) == 7
            assert b"Done: scale of PinterestService feed/web" in (await alice.get(WEB)).body
            assert b"Done: scale" not in (await alice.get(WEB)).body
            for wrong in ("", "-1", "x", "1e3", "99999999"):
                answer = await alice.get(f"{WEB}/act/scale?given={wrong}")
                assert answer.status == 422, wrong
                assert not hidden(answer)

    worlds.play(scenario)


def test_of_two_tabs_the_second_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            first = hidden(await alice.get(f"{WEB}/act/scale?given=7"))
            second = hidden(await alice.get(f"{WEB}/act/scale?given=9"))
            await asyncio.sleep(5)  # statuses are written meanwhile
            assert (await alice.post(f"{WEB}/act/scale", first)).status == 303
            for late in (second, first):
                answer = await alice.post(f"{WEB}/act/scale", late)
                assert answer.status == 409
                assert b"was changed meanwhile" in answer.body
            assert await replicas(world) == 7

    worlds.play(scenario)


def test_a_write_that_comes_between_is_not_overwritten() -> None:
    """After the mark was compared, and before the edit is written."""

    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            fields = hidden(await alice.get(f"{WEB}/act/scale?given=7"))
            ref = registry.KINDS["PinterestService"].ref("feed", "web")

            async def write() -> None:
                await world.host.patch(ref, {"spec": {"replicas": 5}})

            world.meanwhile("host", "PATCH", "pinterestservices", write, process="dashboard")
            assert (await alice.post(f"{WEB}/act/scale", fields)).status == 409
            assert await replicas(world) == 5

    worlds.play(scenario)


def test_without_the_right_there_is_no_button_and_a_forged_form_is_refused() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice, bob = (
                await reader(world, dashboard, "alice"),
                await reader(world, dashboard, "bob"),
            )
            assert b"/act/" not in (await bob.get(WEB)).body
            assert (await bob.get(f"{WEB}/act/scale?given=0")).status == 403
            fields = hidden(await alice.get(f"{WEB}/act/scale?given=0"))
            assert (await bob.post(f"{WEB}/act/scale", fields)).status == 403, "another's form"
            own = {**fields, "csrf": csrf(await bob.get(WEB))}
            answer = await bob.post(f"{WEB}/act/scale", own)
            assert answer.status == 403
            assert b"You may not patch pinterestservices.pinterest.com" in answer.body
            for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
                assert (await alice.post(f"{WEB}/act/scale", fields, **headers)).status == 403
            assert (await alice.post(f"{WEB}/act/scale", {**fields, "csrf": "x"})).status == 403
            for path in ("/clusters/a/act/drain", "/act/pause"):
                assert (await alice.get(path)).status == 403
                own = {**fields, "csrf": csrf(await alice.get(WEB))}
                assert (await alice.post(path, own)).status == 403
            assert await replicas(world) == 4

    worlds.play(scenario)


def csrf(page: Outgoing) -> str:
    return page.body.decode().partition('name="csrf" value="')[2].partition('"')[0]


def test_a_right_that_was_taken_away_meanwhile_is_the_hosts_refusal() -> None:
    """The answer of a review is kept for 10 s; the host itself decides about the write."""

    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            fields = hidden(await alice.get(f"{WEB}/act/scale?given=7"))
            ref = ObjectRef(asking.RBAC, "roles", "feed", "alice", "Role")
            await world.host.patch(ref, {"rules": [READS]})
            answer = await alice.post(f"{WEB}/act/scale", fields)
            assert answer.status == 403
            assert b"The host refused. Nothing was changed." in answer.body
            assert await replicas(world) == 4
            await asyncio.sleep(rights.KEPT_S + 1)
            assert b"/act/" not in (await alice.get(WEB)).body

    worlds.play(scenario)


def test_a_dashboard_without_the_setting_is_read_only() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True) as dashboard:
            for browser in (
                await reader(world, dashboard, "alice"),
                await reader(world, dashboard),
            ):
                assert b"/act/" not in (await browser.get(WEB)).body
                answer = await browser.post(
                    f"{WEB}/act/scale", {"csrf": csrf(await browser.get(WEB)), "given": "0"}
                )
                assert answer.status == 403
                assert b"dashboard.act_as" in answer.body
            assert await replicas(world) == 4

    worlds.play(scenario)


def test_a_session_that_ends_before_the_confirmation_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            fields = hidden(await alice.get(f"{WEB}/act/scale?given=7"))
            await alice.post("/signout", {"csrf": fields["csrf"]})
            answer = await alice.post(f"{WEB}/act/scale", fields)
            assert answer.status == 401
            assert b"nothing was changed" in answer.body
            assert b'href="/signin"' in answer.body
            assert await replicas(world) == 4

    worlds.play(scenario)


def test_suspend_resume_restart_and_undo() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            assert (await alice.get(f"{WEB}/act/undo")).status == 409
            ref = registry.KINDS["PinterestService"].ref("feed", "web")
            await world.host.patch(ref, {"spec": {"replicas": 5}})
            await world.settle()
            nothing = await alice.get(f"{WEB}/act/undo")
            assert nothing.status == 422
            assert b"no rollout history found" in nothing.body
            assert (await confirmed(alice, f"{WEB}/act/restart")).status == 303
            await world.settle()
            obj = await world.get("PinterestService", "feed", "web")
            assert obj is not None
            notes = obj["spec"]["template"]["metadata"]["annotations"]
            assert list(notes) == ["kubectl.kubernetes.io/restartedAt"]
            assert (await confirmed(alice, f"{WEB}/act/undo")).status == 303
            await world.settle()
            obj = await world.get("PinterestService", "feed", "web")
            assert obj is not None
            assert not obj["spec"]["template"].get("metadata", {}).get("annotations")
            page = await alice.get(f"{WEB}/act/suspend")
            assert b"Nothing changes" in page.body, "running copies keep running"
            assert (await alice.post(f"{WEB}/act/suspend", hidden(page))).status == 303
            await world.settle()
            assert (await alice.json(WEB))["health"] == "Suspended"
            assert (await alice.get(f"{WEB}/act/suspend")).status == 409
            titles = [each["title"] for each in (await alice.json(WEB))["actions"]]
            assert titles == ["Scale", "Resume", "Undo the last roll-out"]
            assert (await confirmed(alice, f"{WEB}/act/resume")).status == 303
            await world.settle()
            assert (await alice.json(WEB))["health"] == "Ready"

    worlds.play(scenario)


def test_an_operator_cordons_drains_and_pauses() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            olga = await reader(world, dashboard, "olga")
            assert (await confirmed(olga, "/clusters/a/act/cordon")).status == 303
            assert (await confirmed(olga, "/clusters/a/act/uncordon")).status == 303
            page = await olga.get("/clusters/a/act/drain")
            assert page.status == 200
            assert (await olga.post("/clusters/a/act/drain", hidden(page))).status == 303
            await asyncio.sleep(600)
            ref = registry.KINDS["MemberCluster"].ref("", "a")
            obj = await world.host.get(ref)
            assert obj["spec"]["drain"] is not None
            assert obj["spec"]["cordoned"] is False
            assert [each["title"] for each in (await olga.json("/clusters/a"))["actions"]] == [
                "Cordon",
                "End the drain",
            ]
            assert (await confirmed(olga, "/clusters/a/act/undrain")).status == 303
            assert (await olga.get("/clusters/nowhere/act/drain")).status == 404
            assert (await olga.get("/clusters/a/act/explode")).status == 404
            early = hidden(await olga.get("/act/pause?given=other"))
            assert (await confirmed(olga, "/act/pause?given=net+work")).status == 303
            assert (await olga.post("/act/pause", early)).status == 409
            pause = await world.host.get(pausing.PAUSE)
            assert (pause["data"]["by"], pause["data"]["reason"]) == ("olga", "net work")
            await asyncio.sleep(3)
            assert b"The federation is paused since" in (await olga.get("/")).body
            assert (await confirmed(olga, "/act/resume")).status == 303
            assert (await world.host.get(pausing.PAUSE))["data"]["paused"] == "false"

    worlds.play(scenario)


def test_without_a_leader_an_action_says_that_there_is_no_forecast() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            page = await alice.get(f"{WEB}/act/scale?given=7")
            assert b"There is no forecast." in page.body
            assert (await alice.post(f"{WEB}/act/scale", hidden(page))).status == 303
            assert await replicas(world) == 7

    worlds.play(scenario)


def test_an_unanswered_write_is_said_to_be_unknown() -> None:
    async def scenario(world: World) -> None:
        await people(world)
        async with dashboard_of(world, leader=True, settings=ACTS) as dashboard:
            alice = await reader(world, dashboard, "alice")
            fields = hidden(await alice.get(f"{WEB}/act/scale?given=7"))

            async def cut() -> None:
                await world.cut("host", process="dashboard", how=Cut.DEAF)

            world.meanwhile("host", "PATCH", "pinterestservices", cut, process="dashboard")
            answer = await alice.post(f"{WEB}/act/scale", fields)
            assert answer.status == 502
            assert b"it is unknown whether it was made" in answer.body

    worlds.play(scenario)


@pytest.mark.parametrize(
    "entry",
    [
        "alice",
        "user:",
        "role:x",
        "user:system:admin",
        "group:system:masters",
        "group:System:masters",
        "group:a,b",
        "user: alice",
        "user:al\nice",
        "user:äl",
        f"user:{'x' * 300}",
    ],
)
def test_a_setting_that_admits_nobody_is_refused(entry: str) -> None:
    with pytest.raises(FieldError, match=r"dashboard\.act_as"):
        admitted([entry])


def test_only_admitted_users_and_groups_are_acted_as() -> None:
    who = admitted(["user:alice", "group:ops"])
    authenticated = "system:authenticated"
    alice = who.acting(User("alice", ("system:masters", "dev", authenticated), "uid", {"a": ["b"]}))
    assert alice == User("alice", (authenticated,))
    assert who.acting(User("olga", ("ops", "dev"))) == User("olga", ("ops", authenticated))
    for name in ("system:admin", "system:serviceaccount:feed:default", " alice", "al\r\nice", ""):
        assert who.acting(User(name, ("ops", authenticated))) is None
    assert who.acting(User("bob", ("dev",))) is None
    assert admitted([]).acting(User("alice", ("ops",))) is None


def test_every_action_has_a_command_and_a_sentence() -> None:
    for action in actions.ACTIONS:
        assert action.says.endswith(".")
        assert action.command.startswith(("kubectl ", "federator "))
        assert actions.named(action.of, action.name) is action
