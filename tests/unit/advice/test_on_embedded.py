"""Each fix of `federator explain`, made on an API server by its own line of kubectl: afterwards the
shortfall is as promised.
"""

import json
import random
import shlex
from typing import Any

import pytest

from federator.cli import explain
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model.steps import ObjectRef
from federator.sandbox import federation
from tests import virtual_time
from tests.unit.cli.files import member, policy, psvc, quota


async def host(*objs: dict[str, Any]) -> Client:
    cluster = EmbeddedCluster(
        "host", clock=Clock(1_790_000_000.0), rng=random.Random(1), controllers=False
    )
    client = Client(cluster.transport(), "host")
    await federation.install_crds(client)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
    await client.create(ObjectRef("v1", "namespaces", "", "feed"), namespace)
    for obj in objs:
        kind, meta = registry.KINDS[obj["kind"]], obj["metadata"]
        ref = kind.ref(meta.get("namespace", ""), meta["name"])
        await client.create(ref, {name: value for name, value in obj.items() if name != "status"})
        if "status" in obj:
            await client.patch(ref, {"status": obj["status"]}, subresource="status")
    return client


async def kubectl(client: Client, line: str) -> None:
    if line.startswith("echo "):
        obj = json.loads(shlex.split(line)[1])
        await client.create(registry.KINDS[obj["kind"]].ref_of(obj), obj)
        return
    _, verb, singular, name, *rest = shlex.split(line)
    assert verb == "patch"
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    kind = next(one for one in registry.KINDS.values() if one.singular == singular)
    ref = kind.ref(options.get("-n", ""), name)
    await client.patch(ref, json.loads(options["-p"]), kind=options["--type"])


async def facts(client: Client) -> dict[str, Any]:
    return await explain.gathered(client, registry.KINDS["PinterestService"], "feed", "web")


TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
CASES: dict[str, list[dict[str, Any]]] = {
    "quota": [psvc(replicas=8), member("a", 3), quota(OnDemand={"guaranteed": {"cpu": "3"}})],
    "no account": [psvc(), member("a"), quota("ads")],
    "cordon": [psvc(replicas=12), member("a", 2), member("b", 1, cordoned=True)],
    "taint": [psvc(replicas=12), member("a", 2), member("b", 2, taints=[TAINT]), policy()],
    "taint, no policy": [psvc(replicas=12), member("a", 2), member("b", 2, taints=[TAINT])],
    "bounds": [
        psvc(replicas=9),
        member("a", 3),
        member("b", 3),
        policy(division={"maxPerCluster": 2}),
    ],
    "room": [psvc(replicas=9), member("a", 2)],
    "names": [psvc(), member("us-east"), policy(clusters={"names": ["us-esat"]})],
    "ref": [psvc(placement={"policyRef": "ruels"}), member("a"), policy()],
    "pair": [
        psvc(replicas=8),
        member("a", 1),
        member("b", 1, cordoned=True),
        quota(OnDemand={"max": {"cpu": "4"}}),
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_the_lines_that_are_printed_do_what_is_promised(case: str) -> None:
    async def story() -> None:
        before = await facts(await host(*CASES[case]))
        fixes = [
            fix for fix in before["remedies"] if any("kubectl " in line for line in fix["commands"])
        ]
        assert fixes
        for fix in fixes:
            client = await host(*CASES[case])
            for line in fix["commands"]:
                await kubectl(client, line)
            after = await facts(client)
            assert after["missing"] <= fix["missing"], fix
            assert after["missing"] <= before["missing"] - fix["gains"]

    virtual_time.run(story())
