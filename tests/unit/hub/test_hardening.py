"""The tables of the hardening checks, and what they come to where a caller may not ask."""

import logging
import random

import pytest
import yaml

from federator.embedded.server import EmbeddedCluster
from federator.hub.security import hardening
from federator.hub.security.hardening import Asked, Result
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from tests.unit.deploy import manifests
from tests.unit.kube.scripted import on_virtual_time


def policies(where: str) -> set[str]:
    files = sorted((manifests.DEPLOY / where).glob("admission*.yaml"))
    documents = [
        found for file in files for found in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
    return {
        found["metadata"]["name"]
        for found in documents
        if found["kind"] == "ValidatingAdmissionPolicy"
    }


def test_every_policy_that_deploy_ships_is_looked_for() -> None:
    assert set(hardening.HOST_POLICIES) == policies("host/access")
    assert set(hardening.MEMBER_POLICIES) == policies("member")


def test_every_finding_has_its_row_in_the_guide() -> None:
    guide = (manifests.ROOT / hardening.GUIDE).read_text(encoding="utf-8")
    tables = (
        hardening.HOST_AS_PERSON,
        hardening.HOST_AS_HUB,
        hardening.MEMBER_AS_PERSON,
        hardening.MEMBER_AS_HUB,
    )
    for check in {check for table in tables for check in table}:
        assert f"`{check.__name__}`" in guide


def embedded() -> Client:
    cluster = EmbeddedCluster(
        "host", clock=Clock(1_700_000_000.0), rng=random.Random(1), controllers=False
    )
    return Client(cluster.transport(), "host")


@on_virtual_time
async def test_what_is_not_there_to_be_looked_at_is_unknown_and_never_fine() -> None:
    (finding,) = await hardening.examine(Asked(embedded()), (hardening.system_namespace,))
    assert finding.result is Result.UNKNOWN
    assert "federator-system" in finding.message


@on_virtual_time
async def test_the_hub_says_at_its_start_what_is_missing_and_counts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    with caplog.at_level(logging.WARNING):
        await hardening.at_start(Asked(embedded()), {"east": Asked(embedded())}, metrics)
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("hardening of the host: admission on the host") for line in said)
    assert any(line.startswith("hardening of east: admission in the member") for line in said)
    shown = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines())
    counts = {
        name: sum(line.startswith(f"hardening of {title}: ") for line in said)
        for name, title in (("host", "the host"), ("east", "east"))
    }
    assert min(counts.values()) > 0
    for cluster, name in (("", "host"), ("east", "east")):
        sample = f'federator_hardening_warnings{{cluster="{cluster}"}}'
        assert float(shown[sample]) == counts[name]
