"""Pages over a federation: what they show, their twins in JSON, and what they say when something
does not answer.
"""

import asyncio
import json
from typing import NoReturn

from federator.dashboard import listing, pages
from federator.dashboard.sources.leader import LATE_S, PLAN_S, SOON_S
from federator.kube.client import Client
from federator.kube.wire.transport import Request
from tests.unit.dashboard.asking import at_once, dashboard_of, play, reader, report
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World

WEB = "/workloads/PinterestService/feed/web"


def test_pages_show_what_the_federation_does() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.create("PinterestJobSet", "feed", "index", worlds.jobset(8, 4))
        await world.settle()
        await world.create("PinterestService", "feed", "large", worlds.service(40, "3"))
        await world.settle()
        await asyncio.sleep(40)  # capacity is copied to the host every half minute
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            overview = await admin.json("/")
            assert overview["workloads"] == 3
            assert [need["subject"] for need in overview["needs"]] == [
                "PinterestService feed/large"
            ]
            assert overview["needs"][0]["runbook"].startswith("/runbooks/index#")
            assert len(overview["clusters"]) == 3
            assert overview["heat"]["resources"] == ["cpu", "memory", "pods"]
            rows = {row["name"]: row for row in (await admin.json("/workloads"))["rows"]}
            assert (rows["web"]["health"], rows["web"]["ready"]) == ("Ready", 6)
            assert (rows["index"]["health"], rows["index"]["ready"]) == ("Complete", 8)
            assert rows["large"]["health"] == "Short"
            web = await admin.json(WEB)
            assert sum(row["ready"] for row in web["clusters"]) == 6
            assert sum(row["given"] for row in web["clusters"]) == 6
            assert {row["type"] for row in web["conditions"]} >= {"Ready", "Placed"}
            assert web["decisions"][0]["placed"] == 6
            assert web["decisions"][0]["causes"]
            assert {row["reason"] for row in (await admin.json(f"{WEB[:-3]}large"))["events"]} & {
                "InsufficientCapacity"
            }
            cluster = await admin.json("/clusters/a")
            assert {row["name"] for row in cluster["holders"]} >= {"web", "large"}
            assert cluster["state"] == "Ready"
            by_cluster = await admin.json("/workloads?cluster=a&kind=PinterestService")
            assert {row["name"] for row in by_cluster["rows"]} == {"web", "large"}
            waiting = (await admin.json("/quota"))["waiting"]
            assert [(row["name"], row["reason"]) for row in waiting] == [
                ("large", "InsufficientCapacity")
            ]
            for route in pages.ROUTES:
                if "{action}" in route.path:
                    continue  # test_actions.py
                path = route.path.format(kind="PinterestService", namespace="feed", name="web")
                path = path.replace("/clusters/web", "/clusters/a").replace(
                    "books/web", "books/drain"
                )
                answer = await admin.get(path)
                absent = path in (
                    "/quota/web",
                    "/cronjobs/feed/web",
                    "/simulations/web",
                    f"{WEB}/shards",
                )
                assert answer.status in ((404,) if absent else (200, 502)), path
                assert b"</html>" in answer.body
                twin = await admin.get(f"{path}?format=json")
                assert twin.status == answer.status
                assert json.loads(twin.body)

    worlds.play(scenario)


def test_a_lost_cluster_is_first_and_its_workloads_are_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.settle()
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            await world.cut("b")
            await asyncio.sleep(90)
            overview = await admin.json("/")
            assert overview["needs"][0]["subject"] == "Cluster b"
            assert overview["needs"][0]["runbook"] == "/runbooks/lose-a-member"
            assert overview["clusters"][0]["name"] == "b"
            assert overview["clusters"][0]["state"] == "Unreachable"
            assert (await admin.json("/clusters?state=Unreachable"))["paging"]["total"] == 1
            world.heal("b")
            await asyncio.sleep(90)
            assert (await admin.json("/clusters?state=Ready"))["paging"]["total"] == 3

    worlds.play(scenario)


def test_without_a_leader_why_here_says_so_and_shows_what_is_recorded() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.settle()
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            answer = await admin.get(f"{WEB}/why")
            assert answer.status == 502
            page = answer.body.decode()
            assert "No hub with a query port has ever led here." in page
            assert "What is recorded" in page
            assert "all 6 copies are placed" in page
            objects = await admin.get(f"{WEB}/objects")
            assert objects.status == 502
            assert "No hub with a query port" in objects.body.decode()
            runtime = await admin.get(f"{WEB}/runtime")
            assert runtime.status == 502
            assert "No hub with a query port" in runtime.body.decode()

    worlds.play(scenario)


class Late:
    """A connection to a leader that never answers."""

    async def request(self, _: Request) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None: ...


def test_pages_do_not_wait_for_a_leader_that_answers_late() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await world.settle()
        late = {"connect": lambda _: at_once(Client, Late(), "leader")}
        async with dashboard_of(world, leader=True, **late) as dashboard:
            admin, loop = await reader(world, dashboard), asyncio.get_running_loop()
            for path, status, within_s in (
                ("/", 200, SOON_S),
                (WEB, 200, SOON_S),
                (f"{WEB}/timeline", 200, LATE_S),
                ("/changes", 200, LATE_S),
                (f"{WEB}/why", 502, LATE_S),
                ("/plan?lose=a", 502, PLAN_S),
            ):
                begun_s = loop.time()
                answer = await admin.get(path)
                assert answer.status == status, path
                assert loop.time() - begun_s <= within_s + 1, path
                assert path == WEB or b"does not answer" in answer.body, path
            assert b"all 6 copies are placed" in (await admin.get(f"{WEB}/why")).body

    worlds.play(scenario)


BAD_ADDRESSES = {
    "/workloads?colour=red": "colour: there is no such parameter",
    "/workloads?sort=colour": "sort: must be one of",
    "/workloads?page=0": "page: must be 1 or more",
    "/workloads?page=x": "page: must be a whole number",
    "/workloads?size=7": "size: must be one of 25, 50, 100",
    "/workloads?q=a&amp;q=b": "",
    "/workloads?q=a&q=b": "q: is given twice",
    "/?q=a": "q: there is no such parameter",
    "/?format=xml": "format: must be json or html",
    f"/workloads?q={'x' * (listing.TEXT_MAX + 1)}": "q: must have at most 253 characters",
}
NOWHERE = (
    "/nope",
    "/workloads/Pod/feed/web",
    "/workloads/PinterestService/feed/nope",
    "/workloads/PinterestService/Feed/web",
    "/workloads/PinterestService/feed/%3Cscript%3E",
    "/workloads/PinterestService/feed/..%2F..%2Fsecrets",
    "/clusters/nope",
    "/quota/nope",
    "/runbooks/nope",
    "/runbooks/..%2Findex",
)


def test_bad_addresses_are_pages_that_say_what_is_wrong() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            for path, sentence in BAD_ADDRESSES.items():
                answer = await admin.get(path)
                assert answer.status == 400, path
                assert sentence in answer.body.decode(), path
            for path in NOWHERE:
                answer = await admin.get(path)
                assert answer.status == 404, path
                assert b"<script>" not in answer.body.replace(b"<script src", b"")
            assert (await admin.get(f"/{'x' * 2000}")).status == 400
            assert (await admin.post("/workloads", {})).status == 405
            assert (await admin.ask("DELETE", "/workloads")).status == 405

    play(scenario)


def test_a_host_that_stops_answering_in_the_middle_is_a_page() -> None:
    """Rights are known for ten seconds; the object cannot be read, and lists are as before."""

    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        await report(world, "PinterestService", "feed", "web", summary="as it was")
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            assert (await admin.get(WEB)).status == 200
            assert (await admin.get("/workloads")).status == 200
            await world.cut("host", process="dashboard")
            assert (await admin.get(WEB)).status in (502, 503)
            lists = await admin.get("/workloads")
            assert lists.status == 200
            assert b"web" in lists.body

    play(scenario)


def test_the_probe_says_when_the_host_has_been_read() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            assert (await admin.get("/readyz")).status == 200
            assert dashboard.fleet.troubles == []

    play(scenario)
