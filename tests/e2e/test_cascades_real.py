"""Foreground and orphan deletion of every kind on real servers: on a host without controllers, and
on the same host once it has a controller manager.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from federator.kinds import registry
from federator.model import names
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, workloads
from tests.e2e.deployed import Deployed
from tests.e2e.federations import Fleet, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.xdist_group("federation of real servers"),
    pytest.mark.timeout(900),
]

LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "3600"}
WITHIN = "--timeout=120s"
PLACED_S = 90.0


@pytest.fixture(scope="module")
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    home: Path = tmp_path_factory.mktemp("cascades")
    with deployed.running(home, request.getfixturevalue("control_plane")) as found:
        for shell in found.fleet.members.values():
            shell("apply", "-f", found.fleet.manifest(*workloads.volumes(12)))
        yield found
        assert found.refused() == []


def kinds(space: str) -> dict[str, dict[str, Any]]:
    """A workload of every kind that people write: a PinterestCronJob has its clusters run it."""
    job = workloads.jobset("crunch", space, 2, 2)
    job["spec"]["template"]["metadata"]["annotations"] = LONG
    run = {**workloads.jobset("tick", space, 1, 1)["spec"], "placement": clusters("a")}
    times = {"runs": "Native", "concurrencyPolicy": "Forbid"}
    found = (
        workloads.service("web", space, 2),
        job,
        workloads.daemon("agent", space),
        workloads.stateful("kv", space, 1),
        workloads.training("ranker", space),
        workloads.cronjob("tick", space, "0 0 29 2 *", run, **times),
        workloads.deployment("plain", space, 2),
    )
    return {obj["kind"]: obj for obj in found}


def clusters(*members: str) -> dict[str, Any]:
    return {"clusters": {"names": list(members)}}


def held(fleet: Fleet, space: str, kind: str) -> list[dict[str, Any]]:
    """What members hold of this kind: the slices."""
    what = "PinterestNativeCronJob" if kind == "PinterestCronJob" else kind
    row = registry.KINDS[what]
    listed = f"{row.plural}.{row.group}"
    return [obj for shell in fleet.members.values() for obj in shell.items(listed, "-n", space)]


def running(fleet: Fleet, space: str) -> set[str]:
    """Pods of members that do not end, by uid."""
    pods = [obj for shell in fleet.members.values() for obj in shell.items("pods", "-n", space)]
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def created(fleet: Fleet, space: str, objects: Mapping[str, Mapping[str, Any]]) -> None:
    fleet.host("create", "ns", space)
    fleet.host("create", "-f", fleet.manifest(*objects.values()))
    until(
        lambda: all(held(fleet, space, kind) for kind in objects),
        lambda: f"not placed: {[kind for kind in objects if not held(fleet, space, kind)]}",
        PLACED_S,
    )
    whole = ("psvc/web", "psts/kv", "pdm/agent")
    for what in whole:
        fleet.host("wait", "--for=condition=Ready", what, "-n", space, WITHIN)


def deleted(
    fleet: Fleet, space: str, objects: Mapping[str, Mapping[str, Any]], cascade: str
) -> None:
    for kind, obj in objects.items():
        row = registry.KINDS[kind]
        what = (f"{row.plural}.{row.group}", obj["metadata"]["name"], "-n", space)
        fleet.host("delete", *what, f"--cascade={cascade}", "--wait=false")
    for kind, obj in objects.items():
        row = registry.KINDS[kind]
        named = (f"{row.plural}.{row.group}/{obj['metadata']['name']}", "-n", space)
        fleet.host("wait", "--for=delete", *named, WITHIN)


def decided(fleet: Fleet, space: str) -> set[str]:
    """Kinds with a decision. What a cron job has made stays a workload."""
    return {obj["spec"]["workload"]["kind"] for obj in fleet.host.items("pd", "-n", space)}


def is_marked(obj: Mapping[str, Any]) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return names.FLEET_LABEL in labels or "slice" in obj["spec"]


def both_ways(fleet: Fleet, host: str, kept: set[str]) -> None:
    """Deletes a workload of each kind in the foreground, and one with Orphan."""
    space = f"{host}-foreground"
    objects = {kind: obj for kind, obj in kinds(space).items() if kind in kept}
    created(fleet, space, objects)
    deleted(fleet, space, objects, "foreground")
    for kind in objects:
        assert held(fleet, space, kind) == [], f"{kind} is gone, and members hold something of it"
    assert running(fleet, space) == set()
    assert decided(fleet, space) == set()

    space = f"{host}-orphan"
    objects = {kind: obj for kind, obj in kinds(space).items() if kind in kept}
    created(fleet, space, objects)
    ran = running(fleet, space)
    assert ran
    deleted(fleet, space, objects, "orphan")
    until(lambda: decided(fleet, space) <= {"PinterestNativeCronJob"}, lambda: "a decision stays")
    assert ran <= running(fleet, space)
    for kind in objects.keys() - {"PinterestCronJob"}:
        name = objects[kind]["metadata"]["name"]
        left = [obj for obj in held(fleet, space, kind) if obj["metadata"]["name"] == name]
        assert left, kind
        assert [obj for obj in left if is_marked(obj)] == [], kind


def test_each_kind_is_deleted_as_asked_on_both_types_of_host(
    fleet: Deployed, control_plane: ControlPlane
) -> None:
    every = {*registry.WORKLOADS, "PinterestCronJob"}
    both_ways(fleet.fleet, "dedicated", every)
    until(
        lambda: (
            "NoGarbageCollector" in json.dumps(fleet.fleet.host.items("events", "-n", "default"))
        ),
        lambda: "the host's lack is not reported",
    )
    control_plane.cluster(fleet.clusters["host"].name, controllers=True)
    fleet.stop_hub()
    fleet.start_hub()
    fleet.ready("a", "b")
    # Its controllers would run a Deployment themselves.
    both_ways(fleet.fleet, "shared", every - {"Deployment"})
    fleet.fleet.host("delete", "ns", "shared-foreground", WITHIN)
