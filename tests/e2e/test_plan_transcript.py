"""An operator's afternoon, as commands against a hub that leads: plan, be refused, apply, break a
quota, fill a region, and look back.
"""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from federator.api.placement.decisionfacts import decision_facts
from federator.cli.running import sandbox
from federator.hub.history.options import HistoryOptions
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.clock import RealClock
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from tests.e2e import shells
from tests.e2e.shells import Shell, psvc

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FEDERATION = "federation.pinterest.com/v1alpha1"
WEB = "PinterestService/default/web"
COPIES = 9


def rule(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": FEDERATION, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    federation = Federation(
        fleet=fleetfile.generated(3),
        clock=RealClock(),
        rng=random.Random(7),
        hub_options=HubOptions(probe_interval_s=0.5, probe_timeout_s=10.0),
        election=True,
        history=HistoryOptions(directory=str(tmp_path_factory.mktemp("history"))),
    )
    port = await sandbox.query_port(federation)
    try:
        async with shells.running(federation, tmp_path_factory.mktemp("plan")) as made:
            web = psvc("web", COPIES)
            web["spec"]["project"] = "ads"
            await made.create(web)
            await made.settle()
            yield made
    finally:
        await port.close()


def write(folder: Path, name: str, *objs: Any) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump_all(objs))
    return str(path)


async def copies(shell: Shell) -> dict[str, int]:
    """Of the service, by cluster, as its decision says."""
    (decision,) = [
        obj
        for obj in (await shell.json("get", "decisions"))["items"]
        if obj["spec"]["workload"]["name"] == "web"
    ]
    return {share.cluster: share.count for share in decision_facts(decision).shares}


def planned(path: str) -> dict[str, int]:
    """What a saved plan gives the service, by cluster."""
    (row,) = json.loads(Path(path).read_text(encoding="utf-8"))["document"]["workloads"]
    after: dict[str, int] = row["after"]
    return after


async def test_an_operator_s_afternoon(shell: Shell, tmp_path: Path) -> None:
    first, second, _ = sorted(shell.federation.members)
    before = await copies(shell)
    assert sum(before.values()) == COPIES

    # Plan: away from one cluster. Nothing is written.
    away = write(
        tmp_path, "away.yaml", rule("ClusterPlacementPolicy", "away", clusters={"exclude": [first]})
    )
    plan = str(tmp_path / "away.plan")
    table, err = await shell.run("plan", "-f", away, "--no-losses", "--out", plan, code=10)
    assert WEB in table
    assert f"saved: federator apply {plan}" in err
    assert await copies(shell) == before

    # Refused: somebody scaled the service meanwhile, so that the outcome is another one.
    host = shell.federation.client("host")
    ref = registry.KINDS["PinterestService"].ref("default", "web")
    await host.patch(ref, {"spec": {"replicas": COPIES + 3}})
    await shell.settle()
    _, refused = await shell.run("apply", plan, code=1)
    assert "not applied, because its outcome would no longer be the planned one" in refused
    assert f"{WEB}: has " in refused
    assert "when it was planned it had" in refused
    policies = registry.KINDS["ClusterPlacementPolicy"]
    assert not (await host.list(policies.api_version, policies.plural)).items

    # Applied: planned again, and what was planned is what happens.
    await shell.run("plan", "-f", away, "--no-losses", "--out", plan, code=10)
    meant = planned(plan)
    checked, _ = await shell.run("apply", plan, "--dry-run")
    assert "still the planned one" in checked
    done, _ = await shell.run("apply", plan)
    assert done == "ClusterPlacementPolicy/away applied\n"
    await shell.settle()
    assert await copies(shell) == meant
    assert first not in meant

    # Applied twice: it would change nothing any more, and says so.
    _, again = await shell.run("apply", plan, code=1)
    assert f"{WEB}: would not change any more" in again

    # Break a quota: an account that is smaller than what runs lets it run, and refuses growth.
    small = rule(
        "FederatedQuota",
        "ads",
        projects=["ads"],
        namespaces=["default"],
        tiers={"OnDemand": {"max": {"cpu": "6"}}},
    )
    quota = write(tmp_path, "quota.yaml", small)
    plan = str(tmp_path / "quota.plan")
    await shell.run("plan", "-f", quota, "--no-losses", "--out", plan)
    await shell.run("apply", plan)
    await shell.settle()
    assert sum((await copies(shell)).values()) == COPIES + 3
    short, _ = await shell.run("plan", "--scale", "psvc/web=20", "--no-losses", code=11)
    assert "QuotaExceeded" in short or "ExceedsMaxQuota" in short

    # Fill a region: without the account the clusters are what is short.
    full, _ = await shell.run(
        *("plan", "--delete", "fq/ads", "--scale", "psvc/web=5000", "--no-losses", "-o", "json"),
        code=11,
    )
    assert json.loads(full)["workloads"][0]["reason"] == "InsufficientCapacity"

    # All in one zone breaks an invariant, and is listed.
    share = {"maxShare": {"topologyKey": "zone", "percent": 60}}
    only = write(
        tmp_path,
        "only.yaml",
        rule("ClusterPlacementPolicy", "away", clusters={"names": [second]}),
        rule("PlacementInvariant", "zones", rule=share),
    )
    broken, _ = await shell.run("plan", "-f", only, "--no-losses", code=11)
    assert "PlacementInvariant zones (Warn) breaks" in broken
    assert sum((await copies(shell)).values()) == COPIES + 3, "a plan writes nothing"

    # Look back.
    history, _ = await shell.run("history", "psvc/web")
    assert second in history


async def test_a_plan_of_another_version_is_refused(shell: Shell, tmp_path: Path) -> None:
    plan = tmp_path / "scale.plan"
    await shell.run("plan", "--scale", "psvc/web=3", "--no-losses", "--out", str(plan), code=10)
    body = json.loads(plan.read_text())
    for change, said in (
        ({"version": "0.0.9"}, "it was made by federator '0.0.9', and this is"),
        ({"format": 2}, "plan again with this version"),
        ({"kind": "Plan"}, "it is no saved plan; federator plan --out writes one"),
        ({"edits": {"applied": 3}}, "edits.applied: must be a list"),
    ):
        plan.write_text(json.dumps({**body, **change}))
        _, refused = await shell.run("apply", str(plan), code=1)
        assert said in refused
    plan.write_text("{")
    assert "it is no saved plan" in (await shell.run("apply", str(plan), code=1))[1]
    _, lost = await shell.run("plan", "--lose", "x", "--out", str(plan), code=1)
    assert "cannot be applied" in lost
