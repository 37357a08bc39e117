"""The light CRDs of members on every backend: what members stored under the full ones stays, and an
older decision never overwrites a newer one.
"""

import asyncio
import copy
from typing import Any

import pytest
import yaml

from federator.kinds import crds, registry
from tests.contract.crds import DEFINITIONS
from tests.contract.speaking import Object, Speaker
from tests.house.sources import ROOT

EXAMPLES = {
    "PinterestService": "service.yaml",
    "PinterestJobSet": "jobset.yaml",
    "PinterestDaemon": "daemon.yaml",
    "PinterestStatefulSet": "statefulset.yaml",
    "PinterestTrainingJob": "training.yaml",
}
SLICE = {
    "fleet": "f",
    "workloadUID": "u",
    "originGeneration": 1,
    "cluster": "a",
    "seq": 7,
    "expander": "1",
}


def slice_of(kind: str) -> Object:
    documents = yaml.safe_load_all((ROOT / "config" / "examples" / EXAMPLES[kind]).read_text())
    obj: Object = next(one for one in documents if one["kind"] == kind)
    obj["spec"]["slice"] = SLICE
    return obj


def elsewhere(bodies: list[dict[str, Any]], kind: str, group: str) -> Object:
    """The definition under a group of the test's own: the server is shared."""
    body = copy.deepcopy(next(one for one in bodies if one["spec"]["names"]["kind"] == kind))
    body["spec"]["group"] = group
    body["metadata"]["name"] = f"{body['spec']['names']['plural']}.{group}"
    return body


async def applied(api: Speaker, body: Object) -> None:
    """Applies a definition, and waits until the server works with it."""
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    answer = await api.apply(path, body, "tests", force="true", fieldValidation="Strict")
    assert answer.status in (200, 201), answer.json


@pytest.mark.parametrize("kind", EXAMPLES)
async def test_slices_survive_the_step_to_light_definitions(api: Speaker, kind: str) -> None:
    row, group = registry.KINDS[kind], f"{api.namespace}.example"
    url = f"/apis/{group}/{row.version}/namespaces/{api.namespace}/{row.plural}"
    await applied(api, elsewhere(crds.all_crds(), kind, group))
    async with asyncio.timeout(60):
        while (await api.get(url)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    obj = {**slice_of(kind), "apiVersion": f"{group}/{row.version}"}
    obj["metadata"].pop("namespace", None)
    name = obj["metadata"]["name"]
    before = (await api.post(url, obj, fieldValidation="Strict")).object(201)

    await applied(api, elsewhere(crds.member_crds(), kind, group))
    async with asyncio.timeout(60):  # until the server takes what only light definitions take
        while (  # noqa: ASYNC110
            answer := await api.patch(f"{url}/{name}", {"spec": {"newer": {"field": 1}}})
        ).status != 200 or "newer" not in answer.json["spec"]:
            await asyncio.sleep(0.05)

    after = (await api.get(f"{url}/{name}")).object()
    assert after["spec"] == {**before["spec"], "newer": {"field": 1}}
    lower = await api.patch(f"{url}/{name}", {"spec": {"slice": {"seq": 6}}})
    assert (lower.status, lower.json["reason"]) == (422, "Invalid")
    assert "slice.seq never falls" in lower.json["message"]
