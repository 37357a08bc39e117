"""The native objects that our kinds become: every backend takes each golden as it is, with strict
field checks.
"""

from pathlib import Path

import pytest
import yaml

from federator.kinds.natives import NATIVES, OPTIONAL
from tests.contract.speaking import Object, Speaker
from tests.house.sources import ROOT

GOLDENS = sorted((ROOT / "tests" / "unit" / "kinds" / "golden").glob("*.yaml"))


def natives(golden: Path) -> list[Object]:
    return list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.stem)
async def test_every_native_of_a_golden_is_taken(api: Speaker, golden: Path) -> None:
    for obj in natives(golden):
        if (
            obj["kind"] in OPTIONAL and obj["kind"] != "CronJob"
        ):  # tests/e2e/test_operators.py has their definitions
            continue
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        obj["metadata"]["namespace"] = api.namespace
        name, plural = obj["metadata"]["name"], NATIVES[obj["kind"]].plural
        path = f"{root}/namespaces/{api.namespace}/{plural}/{name}"
        answer = await api.apply(path, obj, "tests", fieldValidation="Strict", dryRun="All")
        assert answer.status == 201, (obj["kind"], name, answer.json)
