"""Training jobs that are handed to the controllers of JobSet 0.12.0 and Kubeflow Trainer 2.3.0, on a
real API server with their definitions and webhooks: what we write is taken, runs, and is told.
"""

import functools
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds.natives import NATIVES, OPTIONAL
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.e2e import operators, realworld
from tests.e2e.realworld import RealWorld
from tests.house.sources import ROOT
from tests.unit.member.memberworld import MemberWorld, template, training

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("real servers with operators"),
]
KIND = "PinterestTrainingJob"
JOBSET, TRAINER = "jobset", "trainer-controller-manager"
RUNS_FOR = "embedded.federator/run-seconds"
GOLDENS = sorted((ROOT / "tests" / "unit" / "kinds" / "golden").glob("training-*.yaml"))


_numbers = itertools.count()
"""Every test has a cluster of its own."""


@pytest.fixture
def programs() -> Path:
    found = build.found_operators()
    if found is None:
        pytest.skip("The controllers of JobSet and Trainer are not built: run `make kube`.")
    return found


@pytest.fixture
async def world(control_plane: ControlPlane, programs: Path) -> AsyncIterator[RealWorld]:
    """A cluster with a member process and three nodes; both controllers run, webhooks are called."""
    name, theirs = f"operators-{next(_numbers)}", operators.definitions(programs)
    async with realworld.opened(control_plane, name, more=theirs) as found:
        client, cluster = found.client, found.cluster
        with (
            operators.running(control_plane, cluster, JOBSET, programs) as jobset_port,
            operators.running(control_plane, cluster, TRAINER, programs) as trainer_port,
        ):
            await operators.call_webhooks(client, cluster, JOBSET, jobset_port, programs)
            await operators.call_webhooks(client, cluster, TRAINER, trainer_port, programs)
            async with realworld.with_nodes(found), realworld.running(found):
                yield found


def native(kind: str, name: str) -> ObjectRef:
    row = NATIVES[kind]
    return ObjectRef(row.api_version, row.plural, "feed", name, kind)


def job(name: str, target: str) -> dict[str, Any]:
    """A master and two workers that run for a few seconds."""
    return training(name, target=target, template=template(annotations={RUNS_FOR: "3"}))


async def test_goldens_are_taken_and_a_job_set_lives_its_life(world: RealWorld) -> None:
    # The member process would take away a runtime whose TrainJob is not there yet.
    await world.stop()
    for golden in GOLDENS:
        for obj in handed_over(golden):
            obj["metadata"] |= {"namespace": "feed", "ownerReferences": []}
            ref = native(obj["kind"], obj["metadata"]["name"])
            await world.until(functools.partial(_taken, world, ref, obj))
    await world.start()
    await live_and_go(world, "JobSet")


@pytest.mark.soak
async def test_a_train_job_lives_its_life(world: RealWorld) -> None:
    await live_and_go(world, "TrainJob")


async def live_and_go(world: RealWorld, target: str) -> None:
    name = f"ranker-{target.lower()}"
    await world.client.create(MemberWorld.ref(KIND, name), job(name, target))

    await world.until_status(KIND, name, running=3)
    live = await world.client.get(native(target, name))
    assert live["spec"]["suspend"] is False
    environment = await _environment(world, f"{name}-worker-1")
    assert environment["RANK"]["valueFrom"]["fieldRef"]["fieldPath"].endswith("global-index']")
    assert environment["MASTER_ADDR"]["value"] == f"{name}-master-0-0.{name}.feed.svc"

    await world.until_status(KIND, name, completedIndexes="0", summary="completed")
    told = (await world.get(KIND, name))["status"]["natives"]
    assert {"kind": target, "name": name, "health": "Healthy"} in told
    # The Event about the status comes after the status, from a task of its own.
    written = [line for line in await world.quiet(3) if "clustercapacities" not in line]
    assert written in ([], ["POST /apis/events.k8s.io/v1/namespaces/feed/events"])

    uid = (await world.get(KIND, name))["metadata"]["uid"]
    await world.client.delete(MemberWorld.ref(KIND, name), uid=uid, propagation="Foreground")
    await world.until(lambda: _gone(world, native(target, name), native("Job", f"{name}-master-0")))
    row = NATIVES["TrainingRuntime"]

    async def none_left() -> bool:
        left = await world.client.list(row.api_version, row.plural, "feed")
        return not [obj for obj in left.items if obj["metadata"]["name"].startswith(name)]

    await world.until(none_left)


@pytest.mark.soak
async def test_a_pod_that_fails_for_good_is_told_with_their_reason(world: RealWorld) -> None:
    obj = job("broken", "JobSet")
    annotations = obj["spec"]["template"]["metadata"]["annotations"]
    annotations["embedded.federator/exit-code"] = "3"
    obj["spec"]["components"] = [{"name": "worker", "replicas": 2, "backoffLimit": 0}]
    await world.client.create(MemberWorld.ref(KIND, "broken"), obj)

    await world.until_status(KIND, "broken", failedIndexes="0")
    status = (await world.get(KIND, "broken"))["status"]
    (ready,) = (one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "FailedJobs")
    assert "jobset failed due to one or more job failures" in ready["message"]


async def _taken(world: RealWorld, ref: ObjectRef, obj: dict[str, Any]) -> bool:
    """Their webhook for a TrainJob may not have heard of its runtime yet."""
    try:
        await world.client.patch(ref, obj, kind="apply", strict=True)
    except errors.Denied as denied:
        if "must be created before" not in str(denied):
            raise
        return False
    return True


def handed_over(golden: Path) -> list[dict[str, Any]]:
    every = yaml.safe_load_all(golden.read_text(encoding="utf-8"))
    return [obj for obj in every if obj["kind"] in OPTIONAL]


async def _environment(world: RealWorld, job_name: str) -> dict[str, Any]:
    made = await world.client.get(native("Job", job_name))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry for entry in container["env"]}


async def _gone(world: RealWorld, *refs: ObjectRef) -> bool:
    for ref in refs:
        try:
            await world.client.get(ref)
        except errors.NotFound:
            continue
        return False
    return True
