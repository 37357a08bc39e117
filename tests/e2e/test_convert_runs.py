"""Real applications, converted, run in a federation of three members until all of them is Ready. On
virtual time.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from federator.api import raw
from federator.cli.main import cli
from federator.kinds import read, registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests import casetables, virtual_time

pytestmark = pytest.mark.e2e

WITHIN_S = 600.0


def converted(path: Path) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["convert", str(path)])
    assert done.exit_code == 0
    return read.load_yaml(done.stdout)


async def ran(objs: list[dict[str, Any]], look: Any) -> Any:
    """Applies the objects to a new federation and looks at it when everything has settled."""
    federation = Federation(
        fleet=fleetfile.generated(3), clock=Clock(1_790_000_000.0), rng=random.Random(5)
    )
    try:
        await federation.start()
        host = federation.client("host")
        for obj in objs:
            kind = registry.KINDS[obj["kind"]]
            namespaced = {**obj, "metadata": {"namespace": "default", **obj["metadata"]}}
            await host.create(kind.ref_of(namespaced), namespaced, strict=True)
        await federation.until_settled(WITHIN_S)
        return await look(federation, host)
    finally:
        await federation.stop()


async def readiness(federation: Federation, host: Client) -> dict[str, str]:
    listing = await host.list("pinterest.com/v1beta1", "pinterestservices", "default")
    return {
        obj["metadata"]["name"]: raw.text(raw.condition(obj, "Ready"), "status")
        for obj in listing.items
    }


@pytest.mark.parametrize(
    ("name", "count"),
    [("online-boutique/kubernetes-manifests.yaml", 12), ("bookinfo/bookinfo.yaml", 6)],
)
def test_every_service_of_a_real_application_becomes_ready(name: str, count: int) -> None:
    folder, _, file = name.partition("/")
    objs = converted(casetables.data("manifests") / folder / file)

    found = virtual_time.run(ran(objs, readiness))
    assert found == dict.fromkeys(sorted(obj["metadata"]["name"] for obj in objs), "True")
    assert len(found) == count


async def fronts(federation: Federation, host: Client) -> dict[str, list[tuple[Any, ...]]]:
    """Service name -> (cluster, ports, ready addresses) in members."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name in federation.members:
        client = federation.client(name)
        for obj in (await client.list("v1", "services", "default")).items:
            selector = ",".join(
                f"{key}={value}" for key, value in raw.mapping(obj, "spec", "selector").items()
            )
            if not selector:
                continue
            pods = await client.list("v1", "pods", "default", label_selector=selector)
            ports = tuple((port["port"], port.get("targetPort")) for port in obj["spec"]["ports"])
            found.setdefault(obj["metadata"]["name"], []).append((name, ports, len(pods.items)))
    return found


def test_clients_of_the_shop_find_every_service_under_its_old_name_and_port() -> None:
    path = casetables.data("manifests") / "online-boutique" / "kubernetes-manifests.yaml"
    before = {
        obj["metadata"]["name"]: tuple(
            (port["port"], port["targetPort"]) for port in obj["spec"]["ports"]
        )
        for obj in read.load_yaml(path.read_text(encoding="utf-8"))
        if obj["kind"] == "Service" and obj["metadata"]["name"] != "frontend-external"
    }

    found = virtual_time.run(ran(converted(path), fronts))
    assert {name: rows[0][1] for name, rows in found.items()} == before
    assert all(sum(pods for _, _, pods in rows) >= 1 for rows in found.values())


async def jobs(federation: Federation, host: Client) -> dict[str, Any]:
    status: dict[str, Any] = (
        await host.list("pinterest.com/v1beta1", "pinterestjobsets", "default")
    ).items[0]["status"]
    return status


def test_a_converted_job_runs_all_its_shards_over_the_members() -> None:
    path = casetables.data("manifests") / "kueue-examples" / "jobs_sample-scalable-job.yaml"

    found = virtual_time.run(ran(converted(path), jobs))
    assert (found["shards"], found["done"], found["completedIndexes"]) == (100, 100, "0-99")


SHOP = """
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec:
  replicas: 3
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: main, image: "cart:1", resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, annotations: {prometheus.io/scrape: "true"}}
spec: {selector: {app: cart}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart-outside}
spec: {type: NodePort, selector: {app: cart}, ports: [{port: 80, nodePort: 30001}]}
"""


async def before_and_after(federation: Federation, host: Client) -> list[dict[str, Any]]:
    """Services of all members by name, with all that the shop asks for and without its second
    Service.
    """
    seen: list[dict[str, Any]] = []
    for patch in ({}, {"spec": {"additionalServices": None}}):
        await host.patch(registry.KINDS["PinterestService"].ref("default", "cart"), patch)
        await federation.until_settled(WITHIN_S)
        found: dict[str, Any] = {}
        for name in federation.members:
            for obj in (await federation.client(name).list("v1", "services", "default")).items:
                found[obj["metadata"]["name"]] = obj
        seen.append(found)
    return seen


def test_no_service_of_an_application_is_lost_and_one_that_is_taken_out_goes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP, encoding="utf-8")
    objs = [obj for obj in converted(path) if obj["kind"] != "Namespace"]

    before, after = virtual_time.run(ran(objs, before_and_after))
    assert before["cart"]["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert before["cart-outside"]["spec"]["type"] == "NodePort"
    assert before["cart-outside"]["spec"]["ports"][0]["nodePort"] == 30001
    assert after.keys() == before.keys() - {"cart-outside"}
