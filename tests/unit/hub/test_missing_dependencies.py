"""What a template names and a member does not have: its pods do not run, and the workload says what
it is.
"""

import asyncio
from typing import Any

import pytest

from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service, small_fleet

PSVC = "PinterestService"
VOLUME = {"volumes": [{"name": "keys", "secret": {"secretName": "keys"}}]}
CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
CONFIG = {"volumes": [{"name": "conf", "configMap": {"name": "conf"}}]}
VARIABLE = {
    "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
}
SOURCE = {"envFrom": [{"configMapRef": {"name": "conf"}}]}
STORAGE = {
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
}


def naming(of_pod: dict[str, Any], of_container: dict[str, Any]) -> dict[str, Any]:
    spec = service(2)
    pod = spec["template"]["spec"]
    pod |= of_pod
    pod["containers"][0] |= of_container
    return spec


async def make(world: World, kind: str, name: str, more: dict[str, Any]) -> None:
    plural = f"{kind.lower()}s"
    body = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "feed"},
        **more,
    }
    await world.member("a").create(ObjectRef("v1", plural, "feed", name, kind), body)


@pytest.mark.parametrize(
    ("naming_it", "named", "made"),
    [
        ((VOLUME, {}), 'secret "keys"', ("Secret", "keys", {"data": {"token": "eA=="}})),
        (({}, VARIABLE), 'secret "keys"', ("Secret", "keys", {"data": {"token": "eA=="}})),
        ((CONFIG, {}), "ConfigMap feed/conf", ("ConfigMap", "conf", {"data": {"a": "b"}})),
        (({}, SOURCE), "ConfigMap feed/conf", ("ConfigMap", "conf", {"data": {"a": "b"}})),
        (
            (CLAIM, {}),
            "PersistentVolumeClaim feed/data",
            ("PersistentVolumeClaim", "data", STORAGE),
        ),
    ],
    ids=["secret volume", "secret variable", "config volume", "config variables", "claim"],
)
def test_a_missing_object_is_named_and_its_pods_run_when_it_comes(
    naming_it: tuple[dict[str, Any], dict[str, Any]],
    named: str,
    made: tuple[str, str, dict[str, Any]],
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", naming(*naming_it))
        await asyncio.sleep(30)
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        (row,) = found["status"]["clusterStatuses"]
        assert row["reason"] == "MissingDependency"
        assert named in row["message"]
        assert row["ready"] == 0
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "MissingDependency")

        await make(world, *made)
        await world.settle(200)
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert ready["status"] == "True"
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert not found["status"]["clusterStatuses"][0].get("reason")

    play(scenario, fleet=small_fleet(1))


def test_what_is_optional_is_not_missed() -> None:
    async def scenario(world: World) -> None:
        optional = {
            "volumes": [{"name": "keys", "secret": {"secretName": "keys", "optional": True}}]
        }
        await world.create(PSVC, "feed", "web", naming(optional, {}))
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario, fleet=small_fleet(1))
