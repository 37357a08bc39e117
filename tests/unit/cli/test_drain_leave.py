"""`federator cluster drain --leave`: ordinals of stateful sets stay, and all else leaves."""

from pathlib import Path
from typing import Any

import pytest

from federator.hub.evacuation import drain_words
from federator.kinds import read, registry
from federator.model.names import WorkloadKey
from federator.scheduling.evacuation import Rehearsed
from tests.unit.cli.files import member, psvc, run, write
from tests.unit.cli.hosts import Host

PACK = {"division": {"strategy": "Pack"}}
SPREAD = {"division": {"strategy": "Spread"}}


def _numbered(name: str) -> dict[str, Any]:
    return {**psvc(name, 2, placement=PACK), "kind": "PinterestStatefulSet"}


def _placed(host: Host, tmp_path: Path, *workloads: dict[str, Any]) -> str:
    """Two clusters with the workloads, the first of them in the cluster whose name is returned."""
    clusters = [member("a", 1, cpu="8"), member("b", 1, cpu="8")]
    host.make(*clusters, *workloads)
    live = [_live(host, workload) for workload in workloads]
    file = write(tmp_path, "fleet.yaml", *clusters, *live)
    decided = read.load_yaml(run("place", "-f", file, "-o", "yaml").stdout)
    host.add(*decided)
    first = next(
        decision
        for decision in decided
        if decision["spec"]["workload"]["name"] == workloads[0]["metadata"]["name"]
    )
    (share,) = first["spec"]["shares"]
    return str(share["cluster"])


def _live(host: Host, workload: dict[str, Any]) -> dict[str, Any]:
    meta = workload["metadata"]
    head = {"apiVersion": registry.KINDS[workload["kind"]].api_version, "kind": workload["kind"]}
    return {**host.find(workload["kind"], meta["name"], meta["namespace"]), **head}


def _wish(host: Host, name: str) -> dict[str, Any] | None:
    wish: dict[str, Any] | None = host.find("MemberCluster", name)["spec"].get("drain")
    return wish


def test_a_drain_leaves_ordinals_when_asked_to(host: Host, tmp_path: Path) -> None:
    name = _placed(host, tmp_path, _numbered("kv"), psvc("web", 2, placement=SPREAD))

    dry = run("cluster", "drain", name, "--dry-run")
    assert dry.exit_code == 1
    assert "1 copy of 1 workload has another place." in dry.stdout
    assert "No drain moves ordinals: --leave leaves them there" in dry.stdout
    assert run("cluster", "drain", name, "--dry-run", "--leave").exit_code == 0
    assert _wish(host, name) is None

    done = run("cluster", "drain", name, "--leave", "--no-wait")
    assert done.exit_code == 0, done.stderr
    assert (_wish(host, name) or {})["force"] is True


def test_leave_drains_nothing_when_more_than_ordinals_would_stay(
    host: Host, tmp_path: Path
) -> None:
    wide = psvc("wide", 2, cpu="2", placement={"clusters": {"names": ["a"]}, **PACK})
    kv = {**_numbered("kv")}
    kv["spec"] = {**kv["spec"], "placement": {"clusters": {"names": ["a"]}, **PACK}}
    name = _placed(host, tmp_path, kv, wide)

    done = run("cluster", "drain", name, "--leave", "--no-wait")

    assert done.exit_code == 1
    assert "PinterestService/feed/wide" in done.stdout
    assert "not only ordinals would stay, so nothing is drained" in done.stderr
    assert _wish(host, name) is None


def test_leave_forces_nothing_where_all_have_another_place(host: Host, tmp_path: Path) -> None:
    name = _placed(host, tmp_path, psvc("web", 2, placement=PACK))

    assert run("cluster", "drain", name, "--leave", "--no-wait").exit_code == 0
    assert not (_wish(host, name) or {}).get("force")


def test_force_and_leave_exclude_each_other(host: Host) -> None:
    host.make(member("a", 1))
    done = run("cluster", "drain", "a", "--leave", "--force")
    assert done.exit_code == 1
    assert "give one of the two" in done.stderr


@pytest.mark.parametrize(("remove", "option"), [(False, "--leave"), (True, "--force")])
def test_the_refusal_names_the_option_of_its_command(remove: bool, option: str) -> None:
    key = WorkloadKey("PinterestStatefulSet", "feed", "kv")
    kept = Rehearsed(key=key, before=2, stays=2, why="it stays", decision=None, numbered=True)
    said = drain_words.of_unplaced([kept], remove=remove)
    assert f"No drain moves ordinals: {option} leaves them there" in said
