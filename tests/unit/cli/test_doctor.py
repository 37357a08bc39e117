"""`federator doctor`: what is wrong is found, each finding with a way to repair it."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from federator import __version__
from federator.cli.clusters import joining
from federator.cli.diagnosis import checks, hostchecks, memberchecks
from federator.cli.diagnosis.checks import Patient
from federator.cli.diagnosis.findings import Finding, Result
from federator.kinds import crds, rights
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.cli.files import run
from tests.unit.cli.hosts import Host
from tests.unit.deploy import manifests
from tests.unit.hub.world import World, play

CRD = ObjectRef(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "",
    "placementpolicies.federation.pinterest.com",
    "CustomResourceDefinition",
)
HOST = hostchecks.HOST
FAILED, WARNING, OK, UNKNOWN = Result.FAILED, Result.WARNING, Result.OK, Result.UNKNOWN


async def at_host(world: World, ahead_s: float = 0.0) -> list[Finding]:
    now_s = world.federation.clock.now() + ahead_s
    return await checks.examine(Patient(HOST, world.host, now_s), hostchecks.HOST_CHECKS)


async def at_member(world: World, name: str) -> list[Finding]:
    patient = Patient(name, world.member(name), world.federation.clock.now())
    first = await memberchecks.identity(world.host, patient)
    return first + await checks.examine(patient, memberchecks.MEMBER_CHECKS)


def of(found: list[Finding], where: str, check: str) -> tuple[Result, str, str]:
    """Result, sentence and fix of one check."""
    finding = next(one for one in found if (one.where, one.check) == (where, check))
    return finding.result, finding.text, finding.fix


def bad(found: list[Finding]) -> set[tuple[str, str]]:
    return {(one.where, one.check) for one in found if one.result is FAILED}


def test_nothing_has_failed_in_a_federation_that_works() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        found = [*await at_host(world), *await at_member(world, "a")]

        # embedded members are reached without credentials
        assert bad(found) == {(name, "the hub's credentials") for name in "abc"}
        assert of(found, "a", "cluster") == (OK, "It is Ready.", "")
        assert of(found, HOST, "definitions")[0] is OK
        assert of(found, "a", "definitions")[0] is OK
        assert of(found, "a", "identity")[0] is OK
        same = (OK, f"The member process is federator {__version__}.", "")
        assert of(found, "a", "version of the member process") == same
        assert of(found, HOST, "leader")[1].endswith(" leads.")
        assert of(found, HOST, "clock")[0] is OK
        assert all(one.fix for one in found if one.wrong)
        assert all(one.text.endswith((".", ")")) for one in found)

    play(scenario, election=True)


def test_what_is_wrong_on_the_host_is_found_with_a_fix() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        endless = {"projects": ["x"], "namespaces": ["x"], "parent": "nobody", "tiers": {}}
        await world.create("FederatedQuota", "", "lost", endless)
        await world.cut("b")
        await asyncio.sleep(90)
        definition = await world.host.get(CRD)
        await world.host.delete(CRD, uid=definition["metadata"]["uid"])
        await world.federation.kill("hub")
        await asyncio.sleep(120)
        found = await at_host(world, ahead_s=60)

        result, text, fix = of(found, HOST, "definitions")
        assert (result, fix) == (FAILED, "Run `federator crd install`.")
        assert "1 missing (placementpolicies.federation.pinterest.com)" in text
        result, text, fix = of(found, HOST, "leader")
        assert (result, text[:20]) == (FAILED, "No hub leads since 2")
        assert "docs/operating/deploy.md#two-hubs" in fix
        result, text, fix = of(found, "b", "cluster")
        assert (result, text.split(":")[0]) == (FAILED, "Unreachable")
        assert "lose-a-member.md" in fix
        result, text, _ = of(found, HOST, "FederatedQuota lost")
        assert (result, text.split(":")[0]) == (WARNING, "UnknownParent")
        assert of(found, HOST, "clock")[0] is WARNING
        assert of(found, HOST, "policies")[0] is UNKNOWN  # their kind is not served

    play(scenario, election=True)


def test_what_is_wrong_in_a_member_is_found_with_a_fix() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        name = crds.member_crds()[0]["metadata"]["name"]
        ref = ObjectRef(CRD.api_version, CRD.plural, "", name, CRD.kind)
        schema = (await world.member("a").get(ref))["spec"]["versions"]
        schema[0]["additionalPrinterColumns"] = []
        await world.member("a").patch(ref, {"spec": {"versions": schema}})
        await world.federation.kill("member a")
        await asyncio.sleep(180)
        found = await at_member(world, "a")

        result, text, fix = of(found, "a", "definitions")
        assert (result, fix) == (WARNING, "Run `federator crd install --member`.")
        assert f"1 not those of this version ({name})" in text
        result, text, fix = of(found, "a", "member process")
        assert (result, text[:51]) == (
            FAILED,
            "The member process has not renewed its Lease since ",
        )
        assert "federator-member" in fix

        other = Patient("b", world.member("a"), world.federation.clock.now())
        [finding] = await memberchecks.identity(world.host, other)
        assert finding.result is FAILED
        assert "-C NAME=CONTEXT" in finding.fix

    play(scenario)


def test_an_account_without_its_rights_is_found() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await joining.hub_account(world.member("a"))
        found = await at_member(world, "a")
        hub = "rights of federator-system/federator-hub"
        assert of(found, "a", hub)[0] is OK, of(found, "a", hub)
        assert of(found, "a", "rights of federator-system/federator-member")[0] is UNKNOWN

        role = ObjectRef(
            "rbac.authorization.k8s.io/v1", "clusterroles", "", "federator-hub", "ClusterRole"
        )
        rules = (await world.member("a").get(role))["rules"]
        fewer = [rule for rule in rules if "clustercapacities" not in rule["resources"]]
        await world.member("a").patch(role, {"rules": fewer})
        result, text, fix = of(await at_member(world, "a"), "a", hub)
        assert (result, fix) == (FAILED, "Apply deploy/member of this version.")
        assert "clustercapacities" in text

    play(scenario)


def test_a_server_that_does_not_answer_is_one_finding() -> None:
    class Silent:
        async def ready(self) -> str:
            raise errors.Unreachable("a refuses connections")

    patient = Patient("a", Silent(), 0.0)  # type: ignore[arg-type]
    [finding] = asyncio.run(checks.examine(patient, memberchecks.MEMBER_CHECKS))
    assert (finding.result, finding.check) == (FAILED, "server")
    assert "a refuses connections" in finding.text
    assert "the network" in finding.fix


def test_the_rights_that_are_looked_for_on_the_host_are_those_that_deploy_grants() -> None:
    text = (manifests.DEPLOY / "host" / "access" / "account.yaml").read_text()
    granted = manifests.grants(manifests.load(text), "federator-hub")
    needed = {
        ("", group, resource, verb, "")
        for group, resource, verbs in hostchecks.HOST_RULES
        for verb in verbs
    }
    assert needed <= granted
    assert rights.of(rights.MEMBER)


def settings_file(path: Path, hub: Mapping[str, Any]) -> str:
    target = path / "federator.yaml"
    target.write_text(yaml.safe_dump({"hub": dict(hub)}), encoding="utf-8")
    return str(target)


def test_the_command_prints_a_table_or_json_and_its_exit_status_tells(
    host: Host, tmp_path: Path
) -> None:
    host.make()
    done = run("doctor", "--config", settings_file(tmp_path, {"nosuch": 1}))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["RESULT", "WHERE", "CHECK", "FOUND", "FIX"]
    assert any("settings file" in line and "hub.nosuch" in line for line in lines)
    assert any("No hub has ever led" in line for line in lines)
    assert not any(line.startswith("ok ") for line in lines)
    assert "checks: 2 failed" in lines[-1]

    shared = settings_file(tmp_path, {"shared_host": True})
    done = run("doctor", "--config", shared, "-o", "json")
    rows = json.loads(done.stdout)
    assert {tuple(row) for row in rows} == {("result", "where", "check", "found", "fix")}
    told = {row["check"]: row for row in rows}
    assert told["hub.shared_host"]["result"] == "WARNING"
    assert told["settings file"]["result"] == "ok"
    assert rows[0]["result"] == "FAILED"
