"""`federator record` of the demo as anybody starts it, and its replay by `federator simulate`: all
workloads of the example application, and the runs of its cron job that were due meanwhile, get what
they got, in the same order.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.api.placement import decisionfacts
from federator.cli.running import demo
from federator.kinds import read, registry
from federator.kube.client import Client
from federator.kube.login import connect
from tests.e2e.federations import FEDERATOR, Shell, family, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,  # 15 CPU-s; test_record.py does the same with workloads of a sandbox
    pytest.mark.xdist_group("record of the demo"),
    pytest.mark.timeout(300),
]
STARTED_S = 120.0
CRON = registry.KINDS["PinterestCronJob"].ref("discovery", "index-check")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A demo that runs, and what was recorded of it once it had settled."""

    shell: Shell
    path: Path
    decisions: dict[str, dict[str, int]]
    """Workload -> copies or shards by cluster, by the decision in force."""
    runs: set[str]
    """Workloads that the cron job of the application has made."""


def _name(obj: dict[str, Any]) -> str:
    return f"{obj['kind']}/{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _application() -> set[str]:
    """The workloads of the example application."""
    objs = read.load_yaml(demo.data("application.yaml"))
    return {_name(obj) for obj in objs if obj["kind"] in registry.WORKLOADS}


def _decisions(shell: Shell) -> dict[str, dict[str, int]]:
    by_name = {}
    for one in shell.items("decisions", "-A"):
        workload = one["spec"]["workload"]
        name = f"{workload['kind']}/{one['metadata']['namespace']}/{workload['name']}"
        given = {share.cluster: share.count for share in decisionfacts.shares(one)}
        by_name[name] = {cluster: count for cluster, count in given.items() if count}
    return by_name


async def _suspend(kubeconfig: Path) -> None:
    client = Client(await connect.from_kubeconfig(str(kubeconfig)))
    try:
        await client.patch(CRON, {"spec": {"suspend": True}})
    finally:
        await client.close()


def _last_runs(shell: Shell) -> set[str]:
    """Lets the cron job make no further runs, waits until those that it has made are over, and
    returns them. One is due every ten minutes: between two looks at the federation, too.
    """
    asyncio.run(_suspend(shell.kubeconfig))
    space = ("-n", CRON.namespace)

    def heeded() -> bool:
        live = shell.json("get", "pcj", CRON.name, *space)
        return bool(live["status"]["observedGeneration"] == live["metadata"]["generation"])

    until(heeded, lambda: "the hub does not look at its cron job")
    runs = shell.items("pjs", *space, "-l", f"pinterest.com/cronjob={CRON.name}")
    for run in runs:
        shell("wait", f"pjs/{run['metadata']['name']}", *space, "--for=complete", "--timeout=60s")
    return {_name(run) for run in runs}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with family(tmp_path_factory.mktemp("recorded-demo")) as programs:
        home = programs.directory
        child = programs.start("demo", [*FEDERATOR, "demo"])
        programs.wait_until(lambda: "Ctrl-C" in child.log.read_text(), "The demo", STARTED_S)
        shell = Shell(FEDERATOR, home, home / demo.KUBECONFIG)
        runs = _last_runs(shell)
        path = home / "demo.yaml"
        shell("record", str(path))
        yield Recorded(shell, path, _decisions(shell), runs)
        programs.check()


def _replayed(recorded: Recorded, *options: str) -> dict[str, Any]:
    done = recorded.shell.run("simulate", str(recorded.path), "-o", "json", "-q", *options)
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


def test_the_recording_says_what_every_workload_of_the_demo_got(recorded: Recorded) -> None:
    works = yaml.safe_load(recorded.path.read_text())["demand"]["recording"]["works"]
    told = {_name(work["workload"]): work["decisions"][-1]["clusters"] for work in works}

    assert sorted(_name(work["workload"]) for work in works) == sorted(
        _application() | recorded.runs
    )
    assert told == recorded.decisions


def test_the_replay_of_the_demo_takes_the_same_decisions_in_the_same_order(
    recorded: Recorded,
) -> None:
    report = _replayed(recorded)

    assert report["replay"]["whole"], report["verdict"]
    assert report["replay"]["decisions"] >= len(recorded.decisions)
    assert "recorded decisions were taken again, in the same order" in report["verdict"]


def test_a_replay_on_another_fleet_is_found_to_differ(recorded: Recorded) -> None:
    most = max(recorded.decisions.values(), key=len)
    report = _replayed(recorded, "--lose", f"{min(most)}@0s")

    assert not report["replay"]["whole"]
