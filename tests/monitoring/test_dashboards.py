"""The Grafana dashboards: each query is valid, asks for what the processes publish, and is answered
by what a running federation publishes. Grafana itself is not run."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from federator.kube.metrics import Metrics
from tests.monitoring import programs, queries
from tests.unit.hub.world import World, play, service

DASHBOARDS = sorted((queries.HERE / "dashboards").glob("*.json"))
ADDED = {"instance"}
"""Labels that Prometheus adds to what it scrapes."""
RARE = {
    "federator_copies_short",
    "federator_evacuated_copies_total",
    "federator_copies_not_ready",
    "federator_copies_beyond_budget",
    "federator_moves_total",
    "federator_snapshot_lag_seconds",
    "federator_snapshot_memory_bytes",
    "federator_task_restarts_total",
    "federator_watch_failing",
    "federator_watch_troubles_total",
    "federator_reconcile_oldest_seconds",
}
"""Without a sample while nothing lacks, moves or breaks, or no snapshot worker runs."""


def dashboards() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in DASHBOARDS:
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def exprs() -> dict[str, str]:
    """`DASHBOARD: PANEL N` -> the expression, with all clusters and accounts chosen."""
    return {
        f"{name}: {panel['title']} {target['refId']}": re.sub(r"\$\w+", ".*", target["expr"])
        for name, board in dashboards()
        for panel in board["panels"]
        for target in panel["targets"]
    }


def test_a_dashboard_is_whole() -> None:
    uids = [board["uid"] for _, board in dashboards()]
    assert len(set(uids)) == len(uids) == 2
    for _, board in dashboards():
        panels = board["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        titles = [panel["title"] for panel in panels]
        assert len(set(titles)) == len(titles)
        named = {variable["name"] for variable in board["templating"]["list"]}
        assert set(re.findall(r"\$(\w+)", json.dumps(panels))) <= named
        for panel in panels:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            for target in panel["targets"]:
                legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
                assert all(any(label in by for by in grouped) for label in legend)


@pytest.mark.parametrize("name", exprs())
def test_a_query_asks_for_what_is_published(name: str) -> None:
    missing = {f"nothing here has the label {label}" for label in ADDED}
    assert set(queries.faults(exprs()[name])) <= missing


def test_the_variables_ask_for_what_is_published() -> None:
    known = queries.known()
    asked = [
        re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        for _, board in dashboards()
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
    ]
    assert asked
    assert all(match is not None and match[2] in known[match[1]] for match in asked)


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expr} for number, expr in enumerate(exprs().values())
    ]
    path = tmp_path / "queries.json"
    path.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}), encoding="utf-8")
    status, output = programs.run("promtool", "check", "rules", str(path))
    assert status == 0, output


class Metered(World):
    """A federation with metrics, also of the requests to members."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.federation.metrics = Metrics()


def test_a_running_federation_publishes_what_the_queries_read() -> None:
    """But what is counted only where processes are real: requests over HTTP, lag of the loop."""
    text: list[str] = []

    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"guaranteed": {"cpu": "4"}}}
        spec = {"projects": ["ads"], "namespaces": ["ads"], "tiers": tiers}
        await world.create("FederatedQuota", "", "ads", spec)
        await world.create("PinterestService", "ads", "web", service(4, project="ads"))
        await world.settle()
        await world.patch("PinterestService", "ads", "web", {"spec": {"replicas": 6}})
        await asyncio.sleep(90)
        assert world.federation.metrics is not None
        text.append(world.federation.metrics.render().decode())

    play(scenario, election=True, world_of=Metered)
    there = {re.split(r"[{ ]", line)[0] for line in text[0].splitlines() if line[:1] != "#"}
    families = set(re.findall(r"^# TYPE (\w+) ", text[0], re.MULTILINE))
    read = {name for expr in exprs().values() for name in queries.read(expr)}
    assert {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in read} <= {
        re.sub(r"_total$", "", family) for family in families
    }
    assert read - there - RARE == {
        "federator_request_seconds_bucket",
        "federator_requests_total",
        "workqueue_retries_total",
    }
