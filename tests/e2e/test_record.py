"""`federator record` of a running federation, and its replay by `federator simulate`: the same
decisions in the same order. One federation of a sandbox serves all tests of this file.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.api.placement import decisionfacts
from tests.controlplane import build
from tests.e2e import federations, workloads
from tests.e2e.federations import Fleet, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("record"), pytest.mark.timeout(300)]
NAMESPACE = "recorded"
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with federations.sandbox(tmp_path_factory.mktemp("record")) as found:
        found.host("create", "ns", NAMESPACE)
        yield found


@pytest.fixture(scope="module")
def recorded(fleet: Fleet) -> Path:
    """A recording of a service under a policy that is scaled, one that asks for more than there is,
    a job set that completes, one that goes on, and a Deployment.
    """
    first = min(fleet.members)
    spread = workloads.policy(
        "spread", NAMESPACE, "web", clusters={"names": sorted(fleet.members)[:2]}
    )
    web = workloads.service("web", NAMESPACE, 12)
    pinned = {**workloads.service("pinned", NAMESPACE, 7)}
    pinned["spec"]["placement"] = {"clusters": {"names": [first]}}
    large = workloads.service("large", NAMESPACE, 5000)
    done = workloads.jobset("done", NAMESPACE, 9, 3)
    going = workloads.jobset("going", NAMESPACE, 8, 4)
    going["spec"]["template"]["metadata"]["annotations"]["embedded.federator/run-seconds"] = "3600"
    page = workloads.deployment("page", NAMESPACE, 5)
    for obj in (spread, web, pinned, done):
        fleet.host("apply", "-f", fleet.manifest(obj))
    fleet.federator("wait", "pjs/done", "-n", NAMESPACE, "--for", "complete", "--timeout", "60s")
    for obj in (going, page):
        fleet.host("apply", "-f", fleet.manifest(obj))
    fleet.host(
        "patch", "psvc", "web", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"replicas":20}}'
    )
    until(lambda: _decision(fleet, "web")["spec"]["wanted"] == 20, lambda: "web was not scaled")
    fleet.host("apply", "-f", fleet.manifest(large))  # last, because it takes all the room there is
    names = {"web", "pinned", "large", "done", "going", "page"}
    until(lambda: _decided(fleet) >= names, lambda: f"only {_decided(fleet)} are decided on")
    for name in ("psvc/web", "psvc/pinned", "deploy/page"):
        fleet.federator("wait", name, "-n", NAMESPACE, "--for=ready", "--timeout", "60s")
    fleet.host("wait", "-n", NAMESPACE, "--for=condition=Placed=False", "psvc/large")
    path = fleet.home / "recorded.yaml"
    out = fleet.federator("record", str(path))
    assert re.match(r"6 workloads with \d+ decisions are in ", out)
    return path


def _decided(fleet: Fleet) -> set[str]:
    found = fleet.federator.items("decisions", "-n", NAMESPACE)
    return {one["spec"]["workload"]["name"] for one in found}


def _decision(fleet: Fleet, name: str) -> dict[str, Any]:
    """The decision in force about a workload."""
    found = fleet.federator.items("decisions", "-n", NAMESPACE)
    return next(one for one in found if one["spec"]["workload"]["name"] == name)


def test_the_replay_takes_the_same_decisions_in_the_same_order(
    fleet: Fleet, recorded: Path
) -> None:
    document = yaml.safe_load(recorded.read_text())
    told = {
        one["workload"]["metadata"]["name"]: one for one in document["demand"]["recording"]["works"]
    }
    for name in ("web", "pinned", "large", "going", "page"):
        given = {
            one.cluster: one.count
            for one in decisionfacts.shares(_decision(fleet, name))
            if one.count
        }
        assert told[name]["decisions"][-1]["clusters"] == given, name
    assert told["done"]["runtime"] is not None

    done = fleet.federator.run("simulate", str(recorded), "-o", "json", "-q")

    assert done.code == 0, done.err
    report = json.loads(done.out)
    # `large` takes all room there is, also that of pods whose end no report shows yet. Late reports
    # are not simulated (docs/using/simulate.md), so its share may differ by such a pod.
    replay = report["replay"]
    assert replay["whole"] or replay["same"] >= 6, report["verdict"]
    assert replay["decisions"] in {7, 8}
    assert (told["web"]["replicas"], [one["replicas"] for one in told["web"]["scalings"]]) == (
        12,
        [20],
    )
    assert report["figures"]["scalings"] == 1
    assert "recorded decisions were taken again" in report["verdict"]


def test_another_fleet_decides_otherwise_and_says_where(fleet: Fleet, recorded: Path) -> None:
    lost = fleet.federator.run(
        "simulate", str(recorded), "--lose", f"{min(fleet.members)}@0s", "-o", "json", "-q"
    )

    assert lost.code == 0, lost.err
    report = json.loads(lost.out)
    assert not report["replay"]["whole"]
    assert "then the federation decided PinterestService/recorded/" in report["verdict"]


def test_nothing_that_decisions_do_not_read_is_passed_on(recorded: Path) -> None:
    text = recorded.read_text()

    assert "app.properties" not in text
    assert "managedFields" not in text
    assert recorded.stat().st_mode & 0o077 == 0


def test_an_existing_file_stays_unless_it_is_forced(fleet: Fleet, recorded: Path) -> None:
    before = recorded.read_bytes()

    ran = fleet.federator.run("record", str(recorded))

    assert (ran.code, recorded.read_bytes()) == (1, before)
    assert "use --force" in ran.err
    elsewhere = fleet.federator.run("record", str(fleet.home / "nowhere" / "x.yaml"))
    assert elsewhere.code == 1
    assert "cannot be written" in elsewhere.err
    assert not list(fleet.home.glob(".recorded*"))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda one: one.update(version=2), ("demand.recording: version is 2; this program reads "
"version "
"1")),
        (lambda one: one.pop("complete"), ("demand.recording: `complete: true` is not at its end: "
"the "
"file "
"was "
"cut "
"off")),
        (lambda one: one["works"][1]["workload"].pop("kind"), "demand.recording.works[1].workload.kind: "),
        (lambda one: one["works"][0]["workload"]["spec"].update(replicas="x"), "works[0].workload.spec.replicas: "),
        (lambda one: one["works"].append(one["works"][0]), ("workload: PinterestService/recorded/web "
"is "
"given "
"twice")),
        (lambda one: one["works"][0]["decisions"][0]["clusters"].update(x=1), "there is no cluster 'x'"),
        (lambda one: one.update(wroks=[]), "demand.recording.wroks: unknown field; is it 'works'?"),
    ],
)  # fmt: skip
def test_a_recording_that_cannot_be_replayed_is_an_error(
    fleet: Fleet, recorded: Path, tmp_path: Path, edit: Edit, said: str
) -> None:
    document = yaml.safe_load(recorded.read_text())
    edit(document["demand"]["recording"])
    path, out = tmp_path / "edited.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(document, sort_keys=False))

    ran = fleet.federator.run("simulate", str(path), "--out", str(out), "-q")

    assert ran.code == 1
    assert f"{path}: " in ran.err
    assert said in ran.err
    assert not out.exists()


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_an_error(
    fleet: Fleet, recorded: Path, tmp_path: Path, part: float
) -> None:
    text = recorded.read_text().rstrip()
    path = tmp_path / "cut.yaml"
    path.write_text(text[: int(len(text) * part)])

    ran = fleet.federator.run("simulate", str(path), "-q")

    assert ran.code == 1
    assert str(path) in ran.err
