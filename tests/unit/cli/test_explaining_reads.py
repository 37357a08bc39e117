"""`federator explain` keeps of all other workloads what they hold, and no objects."""

import random
import time
from typing import Any

import pytest

from federator.advice import facts
from federator.cli import explain
from federator.cli.files import situations
from federator.hub.records import decisions
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model.names import WorkloadKey
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation, ensure
from tests import virtual_time
from tests.unit.cli.files import psvc, quota

NOW_S = 1_790_000_000.0
SERVICE = registry.KINDS["PinterestService"]


async def _explained(objs: list[dict[str, Any]], name: str) -> tuple[dict[str, Any], ...]:
    """The facts as the command gathers them, and by all objects of the host."""
    federation = Federation(fleet=fleetfile.generated(2), clock=Clock(NOW_S), rng=random.Random(1))
    await federation.start()
    try:
        host = federation.client("host")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await ensure(host, space, "namespaces")
        for obj in objs:
            await host.create(registry.KINDS[obj["kind"]].ref_of(obj), obj)
        await federation.until_settled(120.0)
        await _compare_charges(host)
        gathered = await explain.gathered(host, SERVICE, "feed", name)
        return gathered, await _by_all_objects(host, name)
    finally:
        await federation.stop()


async def _compare_charges(host: Client) -> None:
    """What is read of a decision for its charge says the same as all of it."""
    kind = registry.KINDS["PlacementDecision"]
    for obj in (await host.list(kind.api_version, kind.plural)).items:
        charged = decisions.summarise(obj).commitment()
        assert charged is not None
        assert charged.copies > 0
        assert decisions.summarise(decisions.charged_part(obj)).commitment() == charged


async def _by_all_objects(host: Client, name: str) -> dict[str, Any]:
    situation = await situations.from_host(host, "")
    obj = await host.get(SERVICE.ref("feed", name))
    workload = situation.workloads[WorkloadKey("PinterestService", "feed", name)]
    return facts.facts(obj, situation, workload)


@pytest.mark.parametrize("name", ["web", "wide"])
def test_explain_says_the_same_as_with_all_objects_of_the_host(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    every = [
        quota("feed", OnDemand={"max": {"cpu": "20"}}),
        psvc("web", 2),
        psvc("beside", 4),
        psvc("wide", 40),
    ]
    gathered, whole = virtual_time.run(_explained(every, name))

    del gathered["uncarried"]
    assert gathered == whole
    assert ("FederatedQuota feed allows 20 cpu" in gathered["message"]) == (name == "wide")
    assert gathered["clusters"][0]["fit"] > 0
