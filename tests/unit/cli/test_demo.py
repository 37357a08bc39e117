"""What the demo is made of, and what it says at its end; the fleet file and its documentation."""

import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from federator.api import raw
from federator.cli.running import demo, newcomers
from federator.kinds import read, registry
from federator.kube.clock import Clock, RealClock
from federator.runtime.traffic.embedded import RegistryNode
from federator.runtime.traffic.members import Member
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation, ensure
from federator.sandbox.runtimes import Backends
from tests import virtual_time
from tests.house import sources
from tests.unit.cli.files import psvc

DOCUMENT = (sources.ROOT / "docs" / "reference" / "fleet-file.md").read_text(encoding="utf-8")


def _cpu(fleet: fleetfile.FleetSpec) -> int:
    return sum(pool.count * int(pool.cpu) for one in fleet.members for pool in one.nodes)


def _accounts() -> list[dict[str, Any]]:
    """The FederatedQuotas of the example application."""
    every = read.load_yaml(demo.data("application.yaml"))
    return [obj for obj in every if obj["kind"] == "FederatedQuota"]


async def _newcomers(*objs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects once all has settled in a federation with the accounts of the demo, by name, and
    its FederatedQuotas as `fq/NAME`."""
    federation = Federation(
        fleet=fleetfile.resized(fleetfile.parse(demo.data("fleet.yaml")), 3),
        clock=Clock(1_790_000_000.0),
        rng=random.Random(1),
    )
    await federation.start()
    newcomers.admit(federation.host)
    said: set[str] = set()
    federation.host.store.subscribe_all(
        lambda event: said.add(raw.text(raw.condition(event.current.obj, "Placed"), "reason"))
    )
    try:
        host = federation.client("host")
        for name in {obj["metadata"]["namespace"] for obj in objs}:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await ensure(host, space, "namespaces")
        for obj in [*_accounts(), *objs]:
            await host.create(registry.KINDS[obj["kind"]].ref_of(obj), obj)
        await federation.until_settled(120.0)
        quotas = await host.list("federation.pinterest.com/v1alpha1", "federatedquotas")
        found = {f"fq/{obj['metadata']['name']}": dict(obj) for obj in quotas.items}
        for obj in objs:
            ref = registry.KINDS[obj["kind"]].ref_of(obj)
            found[obj["metadata"]["name"]] = dict(await host.get(ref))
        found["reasons of Placed"] = dict.fromkeys(said)
        return found
    finally:
        await federation.stop()


def _of_newcomer(name: str, replicas: int) -> dict[str, Any]:
    obj = psvc(name, replicas, cpu="1")
    obj["metadata"]["namespace"] = "hello"
    obj["spec"]["project"] = "hello.team"
    return obj


def test_the_demo_gives_an_unknown_project_a_small_account() -> None:
    found = virtual_time.run(_newcomers(_of_newcomer("web", 6), _of_newcomer("wide", 41)))

    limits = found["fq/default"]["spec"]["tiers"]
    assert found["fq/hello.team"]["spec"]["tiers"] == limits
    assert found["fq/hello.team"]["spec"]["projects"] == ["hello.team"]
    assert found["web"]["status"]["placed"] == 6
    assert found["wide"]["status"]["placed"] < 41
    assert "NotAllowed" not in found["reasons of Placed"]
    message = raw.condition(found["wide"], "Placed")["message"]
    assert "FederatedQuota hello.team allows 40 cpu (spec.tiers.OnDemand.max.cpu)" in message


def test_the_demo_makes_no_account_for_a_project_in_a_namespace_of_another() -> None:
    obj = _of_newcomer("web", 1)
    obj["metadata"]["namespace"] = "ads"
    found = virtual_time.run(_newcomers(obj))

    assert {name for name in found if name.startswith("fq/")} == {
        f"fq/{account['metadata']['name']}" for account in _accounts()
    }
    assert "bound to FederatedQuota ads" in raw.condition(found["web"], "Placed")["message"]


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


def test_the_service_that_reads_a_secret_and_an_artifact_finds_both(tmp_path: Path) -> None:
    backends = Backends(tmp_path, RealClock(), random.Random(1))
    demo.furnish(backends)
    (search,) = (
        obj
        for obj in read.load_yaml(demo.data("application.yaml"))
        if raw.mapping(obj, "spec", "runtime")
    )
    account = raw.text(search, "metadata", "name")
    principal = (
        f"spiffe://federator.example/ns/{raw.text(search, 'metadata', 'namespace')}/sa/{account}"
    )
    (secret,) = raw.objects(search, "spec", "runtime", "secrets")
    (artifact,) = raw.objects(search, "spec", "runtime", "config")
    folder = tmp_path / "secrets" / secret["name"]
    assert (folder / "..readers").read_text().split() == [principal]
    assert backends.artifacts[artifact["artifact"]].digest == artifact["digest"]


def test_the_registered_pods_of_each_service_are_told_by_cluster(tmp_path: Path) -> None:
    backends = Backends(tmp_path, RealClock(), random.Random(1))
    assert demo.runtimes(backends) == ""
    for number, cluster in enumerate(("a", "a", "b")):
        member = Member(
            "/discovery/web/prod", f"{number:032x}", "10.0.0.1", 80, 1, {"cluster": cluster}
        )
        entries = backends.directory.folders.setdefault(member.folder, {})
        entries[member.node] = RegistryNode(member.data())
    head, row, note = demo.runtimes(backends).splitlines()
    assert head.split() == ["REGISTERED", "UNDER", "IDENTITY", "UNTIL", "a", "b"]
    assert row.split() == ["/discovery/web/prod", "-", "-", "2", "1"]
    assert "the first 10 pods of a workload in each cluster" in note
