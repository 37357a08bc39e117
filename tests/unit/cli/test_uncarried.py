"""What lies on the host beside a workload and reaches no member is told by `explain`, with the
caller's rights.
"""

import random
from typing import Any

import pytest

from federator.cli import explaining, uncarried
from federator.cli.explain import gathered
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation, ensure
from tests import virtual_time
from tests.unit.cli.files import psvc


def native(kind: str, name: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "feed", **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
SERVICE = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
OBJECTS = [
    ("services", native("Service", "web-outside", spec=SERVICE)),
    ("services", native("Service", "made", metadata={"ownerReferences": [OWNER]}, spec=SERVICE)),
    ("secrets", native("Secret", "password")),
    ("secrets", native("Secret", "of-somebody-else")),
]


def workload() -> dict[str, Any]:
    obj = psvc("web", 2)
    pod = obj["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [
        {"name": "P", "valueFrom": {"secretKeyRef": {"name": "password", "key": "k"}}}
    ]
    pod["volumes"] = [{"name": "v", "secret": {"secretName": "not-there"}}]
    return obj


async def _explained() -> tuple[dict[str, Any], list[str]]:
    federation = Federation(
        fleet=fleetfile.generated(1), clock=Clock(1_790_000_000.0), rng=random.Random(1)
    )
    await federation.start()
    try:
        host: Client = federation.client("host")
        await ensure(
            host,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}},
            "namespaces",
        )
        for plural, obj in OBJECTS:
            await ensure(host, obj, plural)
        kind = registry.KINDS["PinterestService"]
        made = await host.create(kind.ref("feed", "web"), workload())
        found = await gathered(host, kind, "feed", "web")
        return found, await uncarried.beside(host, made, "PinterestService")
    finally:
        await federation.stop()


def test_explain_names_what_the_host_holds_and_no_member_gets() -> None:
    found, beside = virtual_time.run(_explained())

    assert beside == found["uncarried"] == ["Secret/password", "Service/web-outside"]
    line = next(
        line for line in explaining.text(found).splitlines() if "carried to no member" in line
    )
    assert "Secret/password, Service/web-outside" in line
    assert "federator convert" in line


def test_a_long_list_is_counted() -> None:
    assert "Job/j7 and 3 more" in uncarried.sentence(
        [f"Job/j{number}" for number in range(11)], "feed"
    )


@pytest.mark.parametrize(
    ("found", "help_"),
    [
        (
            ["Service/web"],
            "Service/web; convert them (federator convert) or apply them in the members",
        ),
        (["Secret/password", "StatefulSet/db"], "StatefulSet/db; apply them in the members"),
        (
            ["Secret/password", "Service/web"],
            "Service/web; apply them in the members; federator convert takes Service/web",
        ),
    ],
)
def test_only_what_convert_takes_is_said_to_be_converted(found: list[str], help_: str) -> None:
    assert uncarried.sentence(found, "feed").endswith(help_)
