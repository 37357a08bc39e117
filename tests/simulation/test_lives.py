"""How workloads live and end: planted bugs that drawn worlds seldom show, each caught in a world of
its own, which keeps every rule without the bug.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from federator.model.steps import ObjectRef
from tests.simulation import claimed, running, scaled, solo
from tests.simulation.daemonrules import NODES, STARTS, TOLD, WHERE
from tests.simulation.lived import LIVED
from tests.simulation.lives import JOBSET, NAMESPACE, PREFIX, SERVED, SERVICE, STATEFUL, STORED
from tests.simulation.ordinals import DAEMON
from tests.simulation.running import NOTHING, Course, Plant
from tests.simulation.script import Action, perform
from tests.simulation.unmatched import UNMATCHED
from tests.simulation.world import World

Story = Callable[[World], Awaitable[None]]
LONG_S = 4000
"""Some of what runs for so long at most runs when a world is looked at."""


def _template(run_s: str = "", **annotations: str) -> dict[str, Any]:
    notes = {PREFIX + name.replace("_", "-"): text for name, text in annotations.items()}
    notes |= {f"{PREFIX}run-seconds": run_s} if run_s else {}
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
    }
    pod: dict[str, Any] = {"containers": [container]}
    if run_s:
        pod["restartPolicy"] = "Never"
    return {"metadata": {"annotations": notes}, "spec": pod}


def _claim(access: str, **more: str) -> dict[str, Any]:
    spec = {"accessModes": [access], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "data"}, "spec": spec, **more}


def _with_data(**more: Any) -> Action:
    """A job set whose shards fail once, and are tried again with what they wrote."""
    template = _template("3", fail_indexes="0-2", fail_attempts="1", index_base_env="SHARD_BASE")
    mounts = [{"name": "data", "mountPath": "/data"}]
    template["spec"]["containers"][0]["volumeMounts"] = mounts
    claim = _claim("ReadWriteMany", lifetime="Shard")
    spec = {"shards": 6, "template": template, "volumeClaimTemplates": [claim], **more}
    return Action(0.0, "create", JOBSET, NAMESPACE, "drops", {"spec": spec})


def _stored(replicas: int, keeps: str) -> Action:
    claims = [_claim("ReadWriteOnce")]
    spec = {"replicas": replicas, "claimRetention": keeps, "volumeClaimTemplates": claims}
    body = {"spec": {**spec, "template": _template()}}
    return Action(5.0, "create", STATEFUL, NAMESPACE, STORED, body)


def _scaled(pause_s: float, replicas: int) -> Action:
    body = {"spec": {"replicas": replicas}}
    return Action(pause_s, "patch", STATEFUL, NAMESPACE, STORED, body)


def _cordoned(cluster: str, yes: bool, pause_s: float = 0.0) -> Action:
    return Action(pause_s, "patch", "MemberCluster", "", cluster, {"spec": {"cordoned": yes}})


def _autoscaled(placement: Mapping[str, Any] | None = None, **scaling: Any) -> Action:
    spec = {"autoscaling": {"min": 2, "max": 10, **scaling}, "template": _template()}
    body = {"spec": {**spec, "placement": dict(placement or {})}}
    return Action(0.0, "create", SERVICE, NAMESPACE, SERVED, body)


async def _loaded(world: World) -> None:
    """The autoscaler of each cluster asks for three copies."""
    await asyncio.sleep(20.0)
    for name, member in world.federation.members.items():
        info = member.registry.get(*scaled.AUTOSCALERS)
        for entry in member.store.items(info, NAMESPACE):
            scaler = entry.obj["metadata"]["name"]
            ref = ObjectRef(
                "autoscaling/v2", info.plural, NAMESPACE, scaler, "HorizontalPodAutoscaler"
            )
            note = {f"{PREFIX}wanted-replicas": "3"}
            await world.member(name).patch(ref, {"metadata": {"annotations": note}})
    await asyncio.sleep(30.0)


def _placed(*clusters: str) -> dict[str, Any]:
    return {"placement": {"clusters": {"names": list(clusters)}}}


def _daemon(**spec: Any) -> Action:
    body = {"spec": {"template": _template(), **spec}}
    return Action(0.0, "create", DAEMON, NAMESPACE, "agent", body)


def _member(pause_s: float, cluster: str, **patch: Any) -> Action:
    return Action(pause_s, "patch", "MemberCluster", "", cluster, patch)


def _chosen(pause_s: float, cluster: str, value: str | None) -> Action:
    return _member(pause_s, cluster, metadata={"labels": {"agents": value}})


async def _registered(world: World) -> None:
    """A machine of each cluster comes with the start-up taint, and with one that is tolerated."""
    taints = [{"key": "starting", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}]
    for name, member in world.federation.members.items():
        machine = member.store.items(member.registry.get("", "nodes"))[0].key[1]
        ref = ObjectRef("v1", "nodes", "", machine, "Node")
        await world.member(name).patch(ref, {"spec": {"taints": taints}})
    await asyncio.sleep(30.0)


def _starting() -> dict[str, Any]:
    template = _template()
    pod = {**template["spec"], "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    return {"template": {**template, "spec": pod}, "startupTaint": {"key": "starting"}}


def _choosing_machines() -> dict[str, Any]:
    template = _template()
    return {**template, "spec": {**template["spec"], "nodeSelector": {"agents": "yes"}}}


async def _for_long(world: World) -> None:
    await asyncio.sleep(LONG_S / 3)


BY_LABEL = {"placement": {"clusters": {"selector": {"matchLabels": {"agents": "yes"}}}}}
JOINS = [_chosen(0.0, "a", "yes"), _daemon(**BY_LABEL), _chosen(20.0, "b", "yes")]
ANY = {"shards": 8, "completion": "Any", "template": _template(f"3-{LONG_S}")}
ENDS = [Action(0.0, "create", JOBSET, NAMESPACE, "ends", {"spec": ANY})]
SCRIPTS: dict[str, list[Action]] = {
    "a cluster that comes to match gets no daemon": JOINS,
    "a daemon stays in clusters that are not chosen any more": [*JOINS, _chosen(20.0, "a", None)],
    "a cordon takes a daemon down": [
        _daemon(),
        _cordoned("a", True, 20.0),
        _member(0.0, "b", spec={"taints": [{"key": "repairs", "effect": "NoExecute"}]}),
        _cordoned("a", False, 20.0),
    ],
    "the pods of a daemon choose no machines": [_daemon(template=_choosing_machines())],
    "a daemon leaves its start-up taint": [_daemon(**_starting())],
    "a daemon is charged one pod a cluster": [_daemon()],
    "a daemon's status counts the nodes of one cluster": [_daemon()],
    "a scaled service is always charged for all": [_autoscaled(chargePercent=50)],
    "copies that no autoscaler asks for are told as asked for": [_autoscaled()],
    "copies that nobody asks for count while a scaled service moves": [
        _autoscaled(min=4, max=20, **_placed("a")),
        Action(20.0, "patch", SERVICE, NAMESPACE, SERVED, {"spec": _placed("b")}),
    ],
    "shards of a job set that has ended run on and are told as stopped": ENDS,
    "what a shard wrote goes with its pod": [_with_data()],
    "the shards of a Job share one directory": [_with_data()],
    "claims that go with their job set have no owner": [
        _with_data(),
        Action(40.0, "delete", JOBSET, NAMESPACE, "drops"),
    ],
    "claims of ordinals stay when their set is deleted": [
        _stored(2, "Delete"),
        Action(40.0, "delete", STATEFUL, NAMESPACE, STORED),
    ],
    "ordinals that were scaled away may begin elsewhere": [
        _cordoned("a", True),
        _stored(2, "Retain"),
        _scaled(20.0, 0),
        _cordoned("a", False, 20.0),
        _cordoned("b", True),
        _scaled(5.0, 2),
        _cordoned("b", False, 20.0),
        Action(20.0, "delete", STATEFUL, NAMESPACE, STORED),
    ],
}
STORIES: dict[str, Story] = {
    "a daemon leaves its start-up taint": _registered,
    "shards of a job set that has ended run on and are told as stopped": _for_long,
    "copies that no autoscaler asks for are told as asked for": _loaded,
}


JUDGED = (claimed.FOUND, claimed.HOME, claimed.LEFT, WHERE, NODES, STARTS, TOLD)
"""Rules that count what they had to judge."""
PLANTS = {**LIVED, **UNMATCHED}


def played(what: str, plant: Plant = NOTHING) -> running.Report:
    course = Course(SCRIPTS[what], story=STORIES.get(what), brief=True)
    return running.simulate(solo.world(), plant, course)


@pytest.mark.parametrize("what", sorted(SCRIPTS))
def test_a_bug_in_how_workloads_live_is_caught(what: str) -> None:
    rule, plant = PLANTS[what]
    with pytest.raises(running.Broken) as caught:
        played(what, plant)

    assert rule in caught.value.rules, caught.value.breaches[:5]


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(SCRIPTS))
def test_without_the_bug_its_world_keeps_every_rule(what: str) -> None:
    rule, _ = PLANTS[what]
    judged = played(what).judged
    assert judged[rule] or rule not in JUDGED


def test_an_autoscaler_of_a_members_own_keeps_to_bounds_that_fall_after_its_load_changed() -> None:
    """Otherwise more copies run than are decided, and nothing settles."""
    deployment = ObjectRef("apps/v1", "deployments", NAMESPACE, SERVED, "Deployment")

    def counts(world: World) -> list[int]:
        return [
            entry.obj["spec"]["replicas"]
            for _, member in sorted(world.federation.members.items())
            for entry in member.store.items(member.registry.get("apps", "deployments"), NAMESPACE)
        ]

    ended: list[World] = []

    async def loaded(world: World) -> None:
        await solo.settled(world)
        for name in sorted(world.federation.members):
            await world.member(name).patch(deployment, {"spec": {"replicas": 4}})
        await solo.settled(world)
        fewer = {"spec": {"autoscaling": {"max": 4}}}
        await perform(Action(0.0, "patch", SERVICE, NAMESPACE, SERVED, fewer), world.host)
        ended.append(world)

    # Later than the first reports of both members, so that both get copies.
    made = replace(_autoscaled(max=8, owner="Member"), pause_s=5.0)
    running.simulate(solo.world(), NOTHING, Course((made,), story=loaded, brief=True))

    assert counts(ended[0]) == [2, 2]
