"""`federator record` of the demo as anybody starts it, and its replay by `federator simulate`: all
workloads of the example application get what they got, in the same order.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.api.placement import decisionfacts
from tests.e2e.federations import FEDERATOR, Shell, family

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("record"), pytest.mark.timeout(300)]
STARTED_S = 120.0
WORKLOADS = 15
"""Of the example application."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A demo that runs, and what was recorded of it once it had settled."""

    shell: Shell
    path: Path
    decisions: dict[str, dict[str, int]]
    """Workload -> copies or shards by cluster, by the decision in force."""


def _decisions(shell: Shell) -> dict[str, dict[str, int]]:
    by_name = {}
    for one in shell.items("decisions", "-A"):
        workload = one["spec"]["workload"]
        name = f"{workload['kind']}/{one['metadata']['namespace']}/{workload['name']}"
        given = {share.cluster: share.count for share in decisionfacts.shares(one)}
        by_name[name] = {cluster: count for cluster, count in given.items() if count}
    return by_name


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with family(tmp_path_factory.mktemp("recorded-demo")) as programs:
        home = programs.directory
        demo = programs.start("demo", [*FEDERATOR, "demo"])
        programs.wait_until(lambda: "Ctrl-C" in demo.log.read_text(), "The demo", STARTED_S)
        shell = Shell(FEDERATOR, home, home / "federator-demo.kubeconfig")
        path = home / "demo.yaml"
        shell("record", str(path))
        yield Recorded(shell, path, _decisions(shell))
        programs.check()


def _replayed(recorded: Recorded, *options: str) -> dict[str, Any]:
    done = recorded.shell.run("simulate", str(recorded.path), "-o", "json", "-q", *options)
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


def test_the_recording_says_what_every_workload_of_the_demo_got(recorded: Recorded) -> None:
    works = yaml.safe_load(recorded.path.read_text())["demand"]["recording"]["works"]
    told = {}
    for work in works:
        meta = work["workload"]["metadata"]
        name = f"{work['workload']['kind']}/{meta['namespace']}/{meta['name']}"
        told[name] = work["decisions"][-1]["clusters"]

    assert len(works) == WORKLOADS
    assert told == recorded.decisions


def test_the_replay_of_the_demo_takes_the_same_decisions_in_the_same_order(
    recorded: Recorded,
) -> None:
    report = _replayed(recorded)

    assert report["replay"]["whole"], report["verdict"]
    assert report["replay"]["decisions"] >= WORKLOADS
    assert "recorded decisions were taken again, in the same order" in report["verdict"]


def test_a_replay_on_another_fleet_is_found_to_differ(recorded: Recorded) -> None:
    most = max(recorded.decisions.values(), key=len)
    report = _replayed(recorded, "--lose", f"{min(most)}@0s")

    assert not report["replay"]["whole"]
