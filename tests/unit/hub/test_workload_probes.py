"""Probes of clusters with workloads: the whole way through hub, member and nodes, at the gate of a
ClusterStandard, and with everything that may be wrong.
"""

import asyncio
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kinds import probes as objects
from federator.kinds import registry
from federator.model import names
from federator.model.ask import Tier
from federator.model.steps import ObjectRef
from federator.scheduling import drill
from tests.unit.hub import probes
from tests.unit.hub.test_product_metrics import measured
from tests.unit.hub.world import HUB, World, play, service, small_fleet

CLUSTER, PSVC, PJS, STANDARD = (
    "MemberCluster",
    "PinterestService",
    "PinterestJobSet",
    "ClusterStandard",
)
TWO = small_fleet(2, nodes=1)


async def ask(world: World, cluster: str, request: str = "first") -> None:
    noted = {"annotations": {names.PROBE_ANNOTATION: request}}
    await world.patch(CLUSTER, "", cluster, {"metadata": noted})


async def probe(world: World, cluster: str) -> dict[str, Any]:
    obj = await world.get(CLUSTER, "", cluster)
    assert obj is not None
    found: dict[str, Any] = obj["status"].get("probe") or {}
    return found


async def result(world: World, cluster: str, request: str = "first") -> dict[str, Any]:
    """The result of a request, as soon as there is one."""
    async with asyncio.timeout(900):
        while (said := await probe(world, cluster)).get("request") != request:  # noqa: ASYNC110
            await asyncio.sleep(1.0)
    return said


async def nothing_is_left(world: World, *clusters: str) -> None:
    for kind in (PSVC, PJS):
        row = registry.KINDS[kind]
        for cluster in ("host", *clusters):
            at = world.host if cluster == "host" else world.member(cluster)
            left = (await at.list(row.api_version, row.plural, names.PROBES)).items
            assert not left, (cluster, left)
    assert [
        one for one in await world.decisions() if one["metadata"]["namespace"] == names.PROBES
    ] == []
    for cluster in clusters:
        assert not (await world.member(cluster).list("v1", "pods", names.PROBES)).items


async def gate(world: World, **more: Any) -> None:
    spec = {"workloadProbe": {"gate": True, **more}}
    await world.create(STANDARD, "", "probed", spec)


def test_a_probe_is_placed_reached_rolled_and_removed_in_every_tier() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        seen: set[str] = set()
        await ask(world, "a")
        async with asyncio.timeout(300):
            while not (said := await probe(world, "a")).get("result"):
                pods = (await world.member("a").list("v1", "pods", names.PROBES)).items
                for pod in pods:
                    assert pod["spec"]["priorityClassName"] == "federator-preemptible"
                    seen |= {
                        f"{each['name']} {pair['value']}"
                        for each in pod["spec"]["containers"]
                        for pair in each.get("env", ())
                        if pair["name"] == objects.REVISION
                    } | {each["name"] for each in pod["spec"]["containers"]}
                await asyncio.sleep(0.5)
        assert {"answer 1", "answer 2", "reach"} <= seen
        assert said["result"] == "Passed"
        assert "runningSince" not in said
        assert [one["tier"] for one in said["tiers"]] == ["Reserved", "OnDemand", "Preemptible"]
        assert said["passedAt"] == said["startedAt"] <= said["finishedAt"]
        told = await world.condition(CLUSTER, "", "a", "ProbePassed")
        assert (told["status"], told["reason"]) == ("True", "Passed")
        assert await probe(world, "b") == {}
        await nothing_is_left(world, "a", "b")
        await asyncio.sleep(60)
        before = world.count()
        await asyncio.sleep(180)
        assert world.count() == before, "without a schedule nothing more is written"

    play(scenario, fleet=TWO)


@pytest.mark.parametrize(
    ("breaks", "outcome", "stage", "words"),
    [
        (probes.never_ready, "Failed", "Ready", "not ready within 180 s"),
        (probes.kubelets_dead, "Failed", "Placed", "No node could take the probe"),
        (probes.no_endpoints, "Failed", "Reached", "could not reach"),
        (probes.refuses, "Failed", "Ready", "was refused"),
        (probes.full, "Busy", "Placed", "not placed within 60 s"),
    ],
    ids=["never-ready", "kubelets-dead", "no-endpoints", "refuses", "full"],
)
def test_a_broken_cluster_fails_and_a_full_one_is_busy(
    breaks: Any, outcome: str, stage: str, words: str
) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await breaks(world, "a")
        await asyncio.sleep(60)
        await ask(world, "a")
        said = await result(world, "a")
        assert (said["result"], said.get("stage")) == (outcome, stage), said
        assert words in said["message"]
        told = await world.condition(CLUSTER, "", "a", "ProbePassed")
        assert told["reason"] == {"Failed": "ProbeFailed", "Busy": "ClusterBusy"}[outcome]
        events = (await world.host.list("events.k8s.io/v1", "events")).items
        about = [one for one in events if one["reason"] == "ProbeFailed"]
        assert bool(about) == (outcome == "Failed")
        assert "gateSince" not in said
        await nothing_is_left(world, "b")

    play(scenario, fleet=TWO)


def test_results_are_in_the_metrics() -> None:
    async def scenario(world: World) -> None:
        sample = await measured(world)
        assert sample('federator_workload_probe_failed{cluster="a"}') is None
        await ask(world, "a")
        assert (await result(world, "a"))["result"] == "Passed"
        await asyncio.sleep(30)
        assert sample('federator_workload_probe_failed{cluster="a"}') == 0.0
        assert sample('federator_workload_probes_total{cluster="a",result="Passed"}') == 1.0

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_an_image_that_cannot_be_pulled_is_named() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        said = await result(world, "a")
        assert (said["result"], said["stage"]) == ("Failed", "Ready")
        assert "registry.invalid/none:1" in said["message"]
        await nothing_is_left(world, "a")

    play(scenario, fleet=TWO, options=HubOptions(workload_probe_image="registry.invalid/none:1"))


def test_a_new_and_a_returning_cluster_take_work_after_a_passed_probe() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await asyncio.sleep(5)
        await gate(world)
        await asyncio.sleep(30)
        only = {"clusters": {"names": ["a"]}}
        # A cluster that was ready before is not affected.
        await world.create(PSVC, "feed", "before", service(1, placement=only))
        await world.settle()
        assert await world.shares("feed", "before") == {"a": 1}
        assert "result" not in await probe(world, "a")
        await probes.never_ready(world, "a")
        await world.cut("a")
        await asyncio.sleep(120)
        world.heal("a")
        await asyncio.sleep(60)
        await world.create(PSVC, "feed", "after", service(1, placement=only))
        await asyncio.sleep(30)
        assert await world.shares("feed", "after") == {}
        assert await world.shares("feed", "before") == {"a": 1}, "what runs there stays"
        placed = await world.condition(PSVC, "feed", "after", "Placed")
        assert "a has not been probed since it became ready" in placed["message"]
        told = await world.condition(CLUSTER, "", "a", "ProbePassed")
        assert (told["status"], told["reason"]) == ("False", "ProbeAwaited")
        await asyncio.sleep(300)
        assert (await probe(world, "a"))["result"] == "Failed"
        assert await world.shares("feed", "after") == {}
        await probes.notes_of_nodes(world, "a", {"embedded.federator/never-ready": None})
        await asyncio.sleep(480)
        assert (await probe(world, "a"))["result"] == "Passed"
        assert await world.shares("feed", "after") == {"a": 1}, "who waited is placed"
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_gate_that_is_taken_away_lets_work_in() -> None:
    async def scenario(world: World) -> None:
        await gate(world)
        await world.settle()
        await probes.never_ready(world, "a")
        await world.cut("a")
        await asyncio.sleep(120)
        world.heal("a")
        only = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "web", service(1, placement=only))
        await asyncio.sleep(90)
        assert await world.shares("feed", "web") == {}
        await world.delete(STANDARD, "", "probed")
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 1}
        assert "gateSince" not in await probe(world, "a")

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_schedule_probes_every_cluster_and_few_at_once() -> None:
    options = HubOptions(workload_probe_interval_s=300.0, workload_probes_at_once=1)

    async def scenario(world: World) -> None:
        await world.settle()
        probed: set[frozenset[str]] = set()
        for _ in range(200):
            pods = [
                frozenset(
                    [cluster]
                    if (await world.member(cluster).list("v1", "pods", names.PROBES)).items
                    else []
                )
                for cluster in "ab"
            ]
            probed.add(frozenset().union(*pods))
            await asyncio.sleep(1.0)
        assert probed == {frozenset(), frozenset("a"), frozenset("b")}
        first = (await probe(world, "a"))["finishedAt"]
        await asyncio.sleep(400)
        assert (await probe(world, "a"))["finishedAt"] > first

    play(scenario, fleet=TWO, options=options)


def test_a_new_leader_removes_what_the_former_one_left_and_probes_again() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        async with asyncio.timeout(60):
            while not (await world.member("a").list("v1", "pods", names.PROBES)).items:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await world.federation.kill(HUB)
        assert (await probe(world, "a")).get("runningSince")
        world.federation.start_hub()
        said = await result(world, "a")
        assert said["result"] == "Passed"
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_leader_that_does_not_probe_again_leaves_nothing_either() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        await asyncio.sleep(4)
        await world.federation.kill(HUB)
        await world.patch(
            CLUSTER, "", "a", {"metadata": {"annotations": {names.PROBE_ANNOTATION: None}}}
        )
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await probe(world, "a") == {}
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_cluster_that_is_drained_or_paused_is_not_probed(when: str) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        if when == "meanwhile":
            await ask(world, "a")
            await asyncio.sleep(4)
        await world.patch(CLUSTER, "", "a", {"spec": {"drain": {}}})
        if when == "before":
            await asyncio.sleep(4)
            await ask(world, "a")
        said = await result(world, "a")
        assert (said["result"], said["message"].split(": ")[-1]) == (
            "NotRun",
            "The cluster is being drained.",
        )
        await asyncio.sleep(30)
        draining = await world.condition(CLUSTER, "", "a", "Draining")
        assert draining["reason"] == "Emptied", "a probe does not keep a drain from being done"
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_cluster_that_leaves_during_its_probe_takes_the_probe_with_it() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        await asyncio.sleep(4)
        await world.delete(CLUSTER, "", "a")
        async with asyncio.timeout(300):
            while await world.get(CLUSTER, "", "a") is not None:  # noqa: ASYNC110
                await asyncio.sleep(1.0)
        await nothing_is_left(world, "b")

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_cluster_that_falls_silent_fails_its_probe() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        await asyncio.sleep(3)
        await world.cut("a")
        said = await result(world, "a")
        assert said["result"] == "Failed"
        assert "nreachable" in said["message"]
        world.heal("a")
        await asyncio.sleep(120)
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


@pytest.mark.parametrize("what", ["namespace", "quota"])
def test_what_lies_outside_of_the_cluster_says_nothing_of_it(what: str) -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        if what == "namespace":
            await world.remove(ObjectRef("v1", "namespaces", "", names.PROBES, "Namespace"))
            await asyncio.sleep(5)
        else:
            none = {"max": {"cpu": "1m"}}
            spec = {
                "projects": [names.PROBES],
                "namespaces": [names.PROBES],
                "priorityClasses": ["federator-preemptible"],
                "tiers": {"Reserved": none, "OnDemand": none, "Preemptible": none},
            }
            await world.create("FederatedQuota", "", names.PROBES, spec)
        await ask(world, "a")
        said = await result(world, "a")
        assert said["result"] == "NotRun", said
        words = {"namespace": "federator-probes", "quota": "FederatedQuota federator-probes"}
        assert words[what] in said["message"]
        told = await world.condition(CLUSTER, "", "a", "ProbePassed")
        assert (told["status"], told["reason"]) == ("Unknown", "ProbeNotRun")

    play(scenario, fleet=TWO)


def test_a_cluster_that_takes_none_of_the_tiers_is_not_probed() -> None:
    async def scenario(world: World) -> None:
        await world.create(STANDARD, "", "probed", {"workloadProbe": {"tiers": ["Reserved"]}})
        await world.settle()
        await world.patch(CLUSTER, "", "a", {"spec": {"tiers": ["OnDemand"]}})
        await ask(world, "a")
        said = await result(world, "a")
        assert said["result"] == "NotRun"
        assert said["message"].endswith("takes none of the tiers that its ClusterStandards name.")
        await nothing_is_left(world, "a", "b")

    play(scenario, fleet=TWO)


def test_a_cordon_lets_a_probe_in_and_nothing_else() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.patch(
            CLUSTER,
            "",
            "a",
            {"spec": {"cordoned": True, "projects": ["other"], "tiers": ["OnDemand"]}},
        )
        await ask(world, "a")
        said = await result(world, "a")
        assert said["result"] == "Passed"
        assert [one["tier"] for one in said["tiers"]] == ["OnDemand"]
        only = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "web", service(1, placement=only))
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {}

    play(scenario, fleet=TWO)


@pytest.mark.long
def test_a_probe_counts_in_no_drill() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await ask(world, "a")
        await asyncio.sleep(4)
        assert [one["metadata"]["namespace"] for one in await world.decisions()]
        drilling = world.federation.hub.controllers.drilling
        state = world.federation.hub.state
        losses = drill.losses(state.snapshot(world.federation.clock))
        for loss in losses:
            outcome = await drilling.outcome(loss)
            assert (outcome.workloads, outcome.unplaced) == (0, ())
        assert (await result(world, "a"))["result"] == "Passed"

    play(scenario, fleet=TWO)


def test_the_objects_of_a_probe_are_valid() -> None:
    for make, kind in ((objects.service, PSVC), (objects.jobs, PJS)):
        made = make("us-east-1a", Tier.RESERVED, "federator:1")
        row = registry.KINDS[kind]
        assert row.model is not None
        row.model.model_validate(made)
