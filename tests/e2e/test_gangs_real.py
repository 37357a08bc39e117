"""Gangs on real servers of Kubernetes 1.37 with PodGroups: what the member process writes is taken,
and the real scheduler binds the pods of a gang at once or not at all.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from federator.kinds.natives import NATIVES, POD_GROUP
from federator.kinds.pods import priorities
from federator.kinds.training import podgroups
from federator.kube import errors
from federator.model.ask import Tier
from federator.model.decision import Share
from federator.model.steps import ObjectRef
from tests.controlplane.plane import ControlPlane
from tests.e2e import realworld
from tests.e2e.realworld import RealWorld
from tests.unit.kinds.test_natives import CUSTOM, TENSORFLOW, TRAINING, expand, slice_of
from tests.unit.member.memberworld import MemberWorld, template, training

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("real servers with nodes"),
]
KIND = "PinterestTrainingJob"
RUNS_FOR = "embedded.federator/run-seconds"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(control_plane: ControlPlane) -> AsyncIterator[RealWorld]:
    """One cluster with three nodes for all tests."""
    opened = realworld.opened(control_plane, "gangs", gangs=True)
    async with opened as found, realworld.with_nodes(found):
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def world(servers: RealWorld) -> AsyncIterator[RealWorld]:
    """With a member process; each test finds it without slices."""
    async with realworld.running(servers):
        await servers.until(lambda: _classes(servers))
        yield servers


async def _classes(world: RealWorld) -> bool:
    """A PodGroup is refused while its PriorityClass is not there; the member process makes these."""
    found = await world.client.list("scheduling.k8s.io/v1", "priorityclasses")
    return {priorities.class_name(tier) for tier in Tier} <= {
        one["metadata"]["name"] for one in found.items
    }


def native(kind: str, name: str) -> ObjectRef:
    row = NATIVES[kind]
    return ObjectRef(row.api_version, row.plural, "feed", name, kind)


def apart(name: str, pods: int, run_s: int, **spec: Any) -> dict[str, Any]:
    """A gang whose pods share no node."""
    made = template("0.25", {RUNS_FOR: str(run_s)})
    made["metadata"]["labels"] = {"apart": "yes"}
    rule = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"apart": "yes"}},
    }
    made["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    }
    components = [{"name": "master"}, {"name": "worker", "replicas": pods - 1}]
    return training(name, template=made, components=components, **spec)


async def test_what_is_written_is_taken_as_it_is(world: RealWorld) -> None:
    """Strict: an unknown or misspelt field would be an error, and one that is not kept is seen."""
    for text in (TRAINING, TENSORFLOW, CUSTOM):
        obj = slice_of(text, Share("east", 1, 1, 9, ((0, 0),)))
        for made in podgroups.grouped(obj, expand(obj, None), {}, False):
            if made["kind"] not in (POD_GROUP, "Job"):
                continue
            made["metadata"] |= {"namespace": "feed", "ownerReferences": []}
            ref = native(made["kind"], made["metadata"]["name"])
            kept = await world.client.patch(ref, made, kind="apply", strict=True)
            if made["kind"] == POD_GROUP:
                assert made["spec"].items() <= kept["spec"].items()
            else:
                pod = kept["spec"]["template"]["spec"]
                assert pod["schedulingGroup"] == {"podGroupName": obj["metadata"]["name"]}


async def test_a_gang_is_bound_at_once_or_not_at_all(world: RealWorld) -> None:
    """Four pods for three nodes: none is ever bound, and it is rolled back. Three then are bound at
    once; those that complete are waited for no more, and all goes with the slice."""
    most = 0

    async def bound() -> list[str]:
        found = await world.client.list("v1", "pods", namespace="feed")
        return [pod["metadata"]["name"] for pod in found.items if pod["spec"].get("nodeName")]

    async def rolled_back() -> bool:
        nonlocal most
        most = max(most, len(await bound()))
        gang = ((await world.get(KIND, "wide")).get("status") or {}).get("gang") or {}
        return bool(gang.get("phase") == "RolledBack")

    await world.client.create(
        MemberWorld.ref(KIND, "wide"), apart("wide", 4, 600, gangTimeoutSeconds=10)
    )
    await world.until(rolled_back)
    assert most == 0
    group = await world.client.get(native(POD_GROUP, "wide"))
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    (told,) = group["status"]["conditions"]
    assert (told["type"], told["status"]) == ("PodGroupInitiallyScheduled", "False")
    await _delete(world, "wide")

    narrow = apart("narrow", 3, 600)
    brief = {**narrow["spec"]["template"], "metadata": {"annotations": {RUNS_FOR: "4"}}}
    narrow["spec"]["components"][1]["template"] = brief
    await world.client.create(MemberWorld.ref(KIND, "narrow"), narrow)
    await world.until_status(KIND, "narrow", running=3)
    gang = (await world.get(KIND, "narrow"))["status"]["gang"]
    assert gang["podGroup"] == "narrow"

    async def shrunk() -> bool:
        live = await world.client.get(native(POD_GROUP, "narrow"))
        return bool(live["spec"]["schedulingPolicy"]["gang"]["minCount"] == 1)

    await world.until(shrunk)
    (master,) = [name for name in await bound() if "master" in name]
    uid = (await world.get("Pod", master))["metadata"]["uid"]
    await world.client.delete(MemberWorld.ref("Pod", master), uid=uid)

    async def tried_again() -> bool:
        return any("master" in name and name != master for name in await bound())

    await world.until(tried_again)
    await _delete(world, "narrow")


async def _delete(world: RealWorld, name: str) -> None:
    uid = (await world.get(KIND, name))["metadata"]["uid"]
    await world.client.delete(MemberWorld.ref(KIND, name), uid=uid)

    async def gone() -> bool:
        try:
            await world.client.get(native(POD_GROUP, name))
        except errors.NotFound:
            return not (await world.client.list("v1", "pods", namespace="feed")).items
        return False

    await world.until(gone)
