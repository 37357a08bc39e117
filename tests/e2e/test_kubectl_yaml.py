"""What a real kubectl prints without quotes is read back as the text that it is, and what it reads
without quotes is what we read."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from federator.api import decoding
from tests.controlplane import build
from tests.unit.model.test_scalars import RULES

pytestmark = pytest.mark.e2e


def printed(kubeconfig: Path) -> str:
    kubectl = build.kubectl()
    if kubectl is None:
        pytest.skip("there is no kubectl")
    command = [str(kubectl), "--kubeconfig", str(kubeconfig), "config", "view", "--raw", "-o"]
    done = subprocess.run([*command, "yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_texts_that_kubectl_prints_are_read_back(tmp_path: Path) -> None:
    rng = random.Random(8)
    letters = "0123456789" * 3 + "eE+-._:xXobafnyNY~ #'\"|>&*!%@`?[]{},"
    texts = {text for rule in RULES.values() for text in rule if text}
    texts |= {"".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(2000)}
    users: list[Any] = [
        {"name": f"u{at}", "user": {"token": text}} for at, text in enumerate(sorted(texts))
    ]
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    (found,) = decoding.from_yaml(printed(kubeconfig))
    read = {entry["name"]: entry["user"]["token"] for entry in found["users"]}
    assert read == {entry["name"]: entry["user"]["token"] for entry in users}


def test_scalars_that_kubectl_reads_are_those_that_we_read(tmp_path: Path) -> None:
    """Through an extension, which kubectl keeps as JSON."""
    rows = {
        text: text if value is str else value
        for rule in RULES.values()
        for text, value in rule.items()
        if text not in ("", "-")
        and (isinstance(value, type) or value is None or abs(value) < 2**63)
    }
    lines = "\n".join(f"      - {text}" for text in rows)
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\nextensions:\n- name: x\n  extension:\n"
        f"    apiVersion: x/v1\n    kind: X\n    values:\n{lines}\n"
    )
    (found,) = decoding.from_yaml(printed(kubeconfig))
    assert found["extensions"][0]["extension"]["values"] == list(rows.values())
