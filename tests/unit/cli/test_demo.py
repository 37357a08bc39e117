"""What the demo is made of, and what it says at its end; the fleet file and its documentation."""

import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from federator.api import federatedquota
from federator.cli.running import demo
from federator.kinds import read, registry
from federator.kube.clock import Clock
from federator.placement.quota import quota
from federator.sandbox import fleetfile, virtual_time
from federator.sandbox.federation import Federation, ensure
from tests.house import sources
from tests.unit.cli.files import psvc

DOCUMENT = (sources.ROOT / "docs" / "reference" / "fleet-file.md").read_text(encoding="utf-8")


def _cpu(fleet: fleetfile.FleetSpec) -> int:
    return sum(pool.count * int(pool.cpu) for one in fleet.members for pool in one.nodes)


def test_the_demo_admits_projects_that_it_does_not_know() -> None:
    accounts = [
        federatedquota.to_account(obj)
        for obj in read.load_yaml(demo.data("application.yaml"))
        if obj["kind"] == "FederatedQuota"
    ]

    assert quota.allows_unknown(accounts)


@pytest.mark.parametrize("count", [1, 2, 4, 6, 13])
def test_a_smaller_demo_has_fewer_clusters_and_no_less_room(count: int) -> None:
    whole = fleetfile.parse(demo.data("fleet.yaml"))
    fleet = fleetfile.resized(whole, count)

    assert len({one.name for one in fleet.members}) == count
    assert _cpu(fleet) >= _cpu(whole)
    if count == len(whole.members):
        assert fleet == whole


async def _ended(*objs: dict[str, Any]) -> str:
    federation = Federation(
        fleet=fleetfile.generated(1), clock=Clock(1_790_000_000.0), rng=random.Random(1)
    )
    await federation.start()
    try:
        host = federation.client("host")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await ensure(host, space, "namespaces")
        for obj in objs:
            await host.create(registry.KINDS[obj["kind"]].ref_of(obj), obj)
        await federation.until_settled(120.0)
        return await demo.ending(federation, 5.0)
    finally:
        await federation.stop()


def test_the_demo_does_not_call_settled_what_lacks_something() -> None:
    text = virtual_time.run(_ended(psvc("fits", 2), psvc("large", 2, cpu="500")))

    first, *lines = text.splitlines()
    assert first.endswith("Of 2 workloads, one is not fully placed:")
    assert [line.split(":")[0] for line in lines] == ["  psvc/large -n feed"]


def test_the_demo_says_when_everything_is_as_asked() -> None:
    text = virtual_time.run(_ended(psvc("fits", 2)))

    assert text.startswith("Everything has settled, 5.0 s after")
    assert text.endswith(": all 1 workloads have what they asked for.")


def test_a_shell_that_does_not_find_the_program_is_told_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "federator"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.way_to_program() == ["export PATH=$PWD/bin:$PATH"]

    monkeypatch.setenv("PATH", str(program.parent))
    assert demo.way_to_program() == []


def test_the_documented_fleet_file_is_one_and_names_every_field() -> None:
    found = re.search(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    fleet = fleetfile.parse(found[1])

    (one,) = fleet.members
    (pool,) = one.nodes
    assert one.model_fields_set == set(fleetfile.MemberSpec.model_fields)
    assert pool.model_fields_set == set(fleetfile.Pool.model_fields)
