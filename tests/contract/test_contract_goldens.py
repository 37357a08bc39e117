"""The native objects that our kinds become: every backend takes each golden as it is, with strict
field checks.
"""

import asyncio
from pathlib import Path

import pytest
import yaml

from federator.kinds.natives import NATIVES, OPTIONAL
from tests.contract.crds import DEFINITIONS
from tests.contract.speaking import Object, Speaker
from tests.controlplane import build, definitions
from tests.house.sources import ROOT

GOLDENS = sorted((ROOT / "tests" / "unit" / "kinds" / "golden").glob("*.yaml"))

ROUTED = next(golden for golden in GOLDENS if golden.stem == "service-routed")


def natives(golden: Path) -> list[Object]:
    return list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.stem)
async def test_every_native_of_a_golden_is_taken(api: Speaker, golden: Path) -> None:
    for obj in natives(golden):
        if obj["kind"] in OPTIONAL and obj["kind"] != "CronJob":
            continue  # below, and tests/e2e/test_operators.py, have their definitions
        await taken(api, obj)


def collection(api: Speaker, kind: str) -> str:
    version = NATIVES[kind].api_version
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{api.namespace}/{NATIVES[kind].plural}"


async def taken(api: Speaker, obj: Object) -> Object:
    """The object as the server would store it."""
    obj["metadata"]["namespace"] = api.namespace
    path = f"{collection(api, obj['kind'])}/{obj['metadata']['name']}"
    answer = await api.apply(path, obj, "tests", fieldValidation="Strict", dryRun="All")
    assert answer.status == 201, (obj["kind"], obj["metadata"]["name"], answer.json)
    stored: Object = answer.json
    return stored


async def test_doors_are_taken_by_the_definitions_of_their_makers_and_stay_as_they_are(
    api: Speaker,
) -> None:
    try:
        crds = await asyncio.to_thread(definitions.definitions)
    except build.Unavailable as why:
        pytest.skip(str(why))
    for crd in crds:
        answer = await api.post(DEFINITIONS, crd)
        assert answer.status in (201, 409), answer.json
    kinds = [crd["spec"]["names"]["kind"] for crd in crds]
    async with asyncio.timeout(60):
        while any(  # noqa: ASYNC110
            [(await api.get(collection(api, kind))).status != 200 for kind in kinds]
        ):
            await asyncio.sleep(0.05)
    doors = [obj for obj in natives(ROUTED) if obj["kind"] in kinds]
    assert {obj["kind"] for obj in doors} == set(kinds)
    for obj in doors:
        stored = await taken(api, obj)
        assert stored.get("spec") == obj.get("spec")
