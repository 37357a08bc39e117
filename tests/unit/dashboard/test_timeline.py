"""The time line and the logs of a workload, the changes of the federation, and what fires."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from federator.dashboard.options import DashboardOptions
from federator.dashboard.sources import prometheus
from federator.dashboard.sources.prometheus import Prometheus, Silent
from federator.dashboard.views import alerts as alert_views
from federator.dashboard.views import timeline
from federator.hub.history import entry as entries
from federator.hub.history.entry import HistoryEntry, Kind
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import Segments
from federator.kinds import registry
from federator.model.errors import FieldError
from tests.unit.dashboard.asking import CLUSTERS, LIST, dashboard_of, play, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking
from tests.unit.query.asking import LOGS

KIND = registry.KINDS["PinterestService"]
WEB = "/workloads/PinterestService/feed/web"
DECISIONS = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": ["placementdecisions"],
    "verbs": ["list"],
}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}


async def rolled(world: World) -> None:
    """A service with two revisions, and another tenant's."""
    await world.create("PinterestService", "feed", "web", worlds.service(4))
    await world.create("PinterestService", "ads", "secret-of-ads", worlds.service(2))
    await world.settle()
    await asyncio.sleep(60)
    template = {"template": worlds.service(4, "250m")["template"]}
    await world.host.patch(KIND.ref("feed", "web"), {"spec": template})
    await world.settle()
    await asyncio.sleep(5)


async def remembered(world: World, folder: Path) -> None:
    """The hub has a history: there are no threads on virtual time, so it is written here."""
    now = world.federation.clock.now()
    web, other = [
        await world.host.get(KIND.ref(*each))
        for each in (("feed", "web"), ("ads", "secret-of-ads"))
    ]
    uid = web["metadata"]["uid"]
    key = "PinterestService/feed/web"
    told = [
        HistoryEntry(at=now - 50, kind=Kind.LEADER, before=1, after=2, cause="BeganToLead"),
        HistoryEntry(
            at=now - 40, kind=Kind.DECISION, key=key, uid=uid, after={"a": 4}, cause="Placed"
        ),
        HistoryEntry(
            at=now - 30,
            kind=Kind.DECISION,
            key="PinterestService/ads/secret-of-ads",
            uid=other["metadata"]["uid"],
            after={"b": 2},
            cause="Placed",
        ),
        HistoryEntry(at=now - 20, kind=Kind.CLUSTER, key="MemberCluster/a", cause="Cordoned"),
        HistoryEntry(
            at=now - 10,
            kind=Kind.DECISION,
            key=key,
            uid=uid,
            before={"a": 4},
            after={"b": 4},
            cause="Moved",
            evidence="4 of 4 placed",
        ),
        HistoryEntry(
            at=now - 5,
            kind=Kind.CONDITION,
            key=key,
            uid=uid,
            before="Ready=True AllReady",
            after="Ready=False NotReady",
            cause="NotReady",
        ),
    ]
    Segments(folder, segment_bytes=1 << 20, segments=2).append(
        [entries.line(entry) for entry in told]
    )
    options = HistoryOptions(directory=str(folder))
    world.federation.hub.journal = Journal(options, world.federation.clock)


def test_a_time_line_has_decisions_revisions_edits_and_conditions(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await rolled(world)
        await remembered(world, tmp_path)
        async with dashboard_of(world, leader=True) as dashboard:
            admin = await reader(world, dashboard)
            seen = await admin.json(f"{WEB}/timeline")
            entries = seen["entries"]
            assert {entry["what"] for entry in entries} >= {"Decision", "Edit", "Revision"}
            assert [entry["at"] for entry in entries] == sorted(
                (entry["at"] for entry in entries), reverse=True
            )
            assert seen["rollout"]["done"], seen["rollout"]
            assert [each["number"] for each in seen["revisions"]] == [2, 1]
            assert "500m -> 250m" in str(seen["revisions"][0]["changes"])
            page = (await admin.get(f"{WEB}/timeline")).body.decode()
            assert "left out" not in page
            decided = await admin.json("/changes?what=Decision")
            assert [(row["subject"], row["title"]) for row in decided["rows"]] == [
                ("PinterestService/feed/web", "Moved: a 4 → b 4"),
                ("PinterestService/ads/secret-of-ads", "Placed: nothing → b 2"),
                ("PinterestService/feed/web", "Placed: nothing → a 4"),
            ]
            for query, total in {
                "cause=Moved": 1,
                "cluster=a": 3,
                "cluster=c": 0,
                "q=beganto": 1,
                "since=15m&what=Condition": 1,
                "what=Edit&namespace=feed": 1,
            }.items():
                found = await admin.json(f"/changes?{query}")
                assert found["paging"]["total"] == total, query
            assert (await admin.get("/changes?since=9y")).status == 400
            assert (await admin.get("/changes?colour=red")).status == 400

    worlds.play(scenario)


def test_who_may_not_read_the_whole_history_sees_the_own_workloads_only(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await rolled(world)
        await remembered(world, tmp_path)
        await asking.grant(world, "alice", "feed", LIST, DECISIONS)
        await asking.grant(world, "bob", "feed", LIST)
        await asking.grant(world, "olga", "feed")
        await asking.grant_everywhere(world, "olga", EVERYTHING)
        async with dashboard_of(world, leader=True) as dashboard:
            alice = await reader(world, dashboard, "alice")
            for path in ("/changes", "/changes?q=secret", "/changes?namespace=ads"):
                page = (await alice.get(path)).body.decode()
                assert "secret-of-ads" not in page
                assert "newest decision of each workload that you may list" in page
            seen = await alice.json("/changes")
            assert {row["what"] for row in seen["rows"]} == {"Decision", "Edit"}
            bob = await reader(world, dashboard, "bob")
            assert {row["what"] for row in (await bob.json("/changes"))["rows"]} == {"Edit"}
            page = (await bob.get("/changes")).body.decode()
            assert "Of 1 workload no decision is shown: you may not list placementdecisions" in page
            olga = await reader(world, dashboard, "olga")
            assert "secret-of-ads" in (await olga.get("/changes")).body.decode()
            line = await alice.get(f"{WEB}/timeline")
            assert line.status == 200
            assert b"You may not list Events" in line.body
            assert b"You may not list ControllerRevisions" in line.body
            other = "/workloads/PinterestService/ads/secret-of-ads"
            for part in ("timeline", "logs"):
                assert (await alice.get(f"{other}/{part}")).status == 403
            assert (await alice.get(f"{WEB}/logs")).status == 403, "pods/log is a right of its own"

    worlds.play(scenario)


def test_without_a_leader_changes_and_time_line_say_so_and_show_what_there_is() -> None:
    async def scenario(world: World) -> None:
        await rolled(world)
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            page = (await admin.get("/changes")).body.decode()
            assert "No hub with a query port has ever led here." in page
            assert "PinterestService/feed/web" in page
            line = await admin.get(f"{WEB}/timeline")
            assert line.status == 200
            assert b"Decisions and earlier conditions are left out." in line.body
            assert b"Ready=True" in line.body
            assert (await admin.get(f"{WEB}/logs")).status == 502

    worlds.play(scenario)


def test_logs_are_text_and_bounded() -> None:
    async def scenario(world: World) -> None:
        await rolled(world)
        await asking.grant(world, "alice", "feed", LIST, LOGS)
        async with dashboard_of(world, leader=True) as dashboard:
            alice = await reader(world, dashboard, "alice")
            seen = await alice.json(f"{WEB}/logs")
            assert len(seen["pods"]) == 4
            pod = seen["pods"][0]
            one = await alice.json(f"{WEB}/logs?pod={pod['pod']}&tail=100")
            assert [each["pod"] for each in one["pods"]] == [pod["pod"]]
            assert "--pod" in one["commands"][0]
            for wrong in ("tail=7", "tail=x", "pod=a%20b", "previous=maybe", "follow=true"):
                assert (await alice.get(f"{WEB}/logs?{wrong}")).status == 400, wrong
            assert (await alice.get(f"{WEB}/logs?cluster=nowhere")).status == 404

    worlds.play(scenario)


def test_a_tone_is_good_where_the_condition_is_as_wanted() -> None:
    tones = {
        ("Ready", "True"): "good",
        ("Ready", "False"): "bad",
        ("Stalled", "False"): "good",
        ("Stalled", "True"): "bad",
        ("Ready", "Unknown"): "warn",
        ("Reconciling", "True"): "idle",
    }
    for (condition, status), tone in tones.items():
        assert (
            timeline.of_history({"kind": "Condition", "to": f"{condition}={status} X"}).tone == tone
        )


def test_an_entry_without_a_kind_has_a_word_for_people() -> None:
    assert timeline.of_history({"cause": "edited"}).what == "Entry"


# -- alerts -------------------------------------------------------------------


def answer(*alerts: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"alerts": list(alerts)}}).encode()


def alert(name: str, severity: str = "warning", **labels: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": severity, **labels},
        "annotations": {"summary": f"summary of {name}"},
        "state": "firing",
        "activeAt": "2026-01-01T00:00:00Z",
        "value": "1e+00",
    }


FIRING = answer(
    alert("FederatorCopiesNotReady", account="ads"),
    alert("FederatorClusterLost", "critical", cluster="b"),
    alert("SomebodysOwn", "page", account="feed"),
)
URL = DashboardOptions(alerts_url="http://prometheus.example:9090/")


def test_alerts_of_prometheus_have_severity_page_and_runbook() -> None:
    asked = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return FIRING

    async def scenario(world: World) -> None:
        await asking.grant(world, "alice", "feed", LIST)
        await asking.grant(world, "bob", "feed", LIST)
        quota = {**CLUSTERS, "resources": ["federatedquotas"], "resourceNames": ["ads"]}
        await asking.grant_everywhere(world, "bob", quota)
        async with dashboard_of(world, settings=URL, fetch=fetch) as dashboard:
            admin = await reader(world, dashboard)
            rows = (await admin.json("/alerts"))["rows"]
            assert [(row["name"], row["severity"], row["tone"]) for row in rows] == [
                ("FederatorClusterLost", "critical", "bad"),
                ("FederatorCopiesNotReady", "warning", "warn"),
                ("SomebodysOwn", "page", "idle"),
            ]
            assert [row["href"] for row in rows] == ["/clusters/b", "/quota/ads", "/quota/feed"]
            assert [row["runbook"] for row in rows] == [
                "/runbooks/alerts#federatorclusterlost",
                "/runbooks/alerts#federatorcopiesnotready",
                "/runbooks/alerts",
            ]
            assert (await admin.get("/alerts")).status == 200
            alice = await reader(world, dashboard, "alice")
            assert (await alice.json("/alerts"))["rows"] == []
            bob = await reader(world, dashboard, "bob")
            assert [row["name"] for row in (await bob.json("/alerts"))["rows"]] == [
                "FederatorCopiesNotReady"
            ]
            assert asked == ["http://prometheus.example:9090/api/v1/alerts"], "one for all"
            await asyncio.sleep(prometheus.KEPT_S + 1)
            await admin.get("/alerts")
            assert len(asked) == 2

    play(scenario)


async def _late(_: str) -> bytes:
    await asyncio.sleep(60)
    return FIRING


async def _garbage(_: str) -> bytes:
    return b"<html>502</html>"


async def _failed(_: str) -> bytes:
    return b'{"status": "error", "error": "query timed out"}'


@pytest.mark.parametrize(
    ("fetch", "says"),
    [
        (_late, "Prometheus has not answered within 4 s."),
        (_garbage, "an answer that cannot be read"),
        (_failed, "query timed out"),
    ],
)
def test_a_prometheus_without_an_answer_is_said_and_the_host_shown(fetch: Any, says: str) -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(4))
        await world.settle()
        async with dashboard_of(world, settings=URL, fetch=fetch) as dashboard:
            admin = await reader(world, dashboard)
            await world.cut("b")
            await asyncio.sleep(90)
            page = (await admin.get("/alerts")).body.decode()
            assert says in page
            seen = await admin.json("/alerts")
            assert seen["source"] == "host"
            assert seen["rows"][0]["name"] == "Cluster b"
            assert seen["rows"][0]["severity"] == "critical"
            assert seen["rows"][0]["runbook"] == "/runbooks/lose-a-member"

    worlds.play(scenario)


def test_values_of_prometheus_that_are_no_numbers_are_gaps() -> None:
    odd: list[Any] = ["NaN", "+Inf", "-Inf", "", "x", None, [], {}, "1e999", True]
    found = prometheus.parsed(answer(*({**alert("A"), "value": value} for value in odd)))
    assert [each.value for each in found[:-1]] == [None] * 9
    rows = alert_views.of_prometheus(found, 0.0)
    assert all(row["value"] is None for row in rows[:-1])
    assert prometheus.parsed(answer({}, {"labels": []}))[0].name == "an alert without a name"
    many = prometheus.parsed(answer(*[alert("A")] * (prometheus.ALERTS_MAX + 5)))
    assert len(many) == prometheus.ALERTS_MAX
    for body in (b"", b"[", b"[]", b"null", b"[" * 100_000):
        with pytest.raises(Silent):
            prometheus.parsed(body)


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://a", "http://u:p@a", "http://a?x=1", "http://", "http://a#b"]
)
def test_an_address_of_prometheus_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(FieldError, match=r"dashboard\.alerts_url"):
        Prometheus(url, lambda: 0.0, prometheus.fetched)
