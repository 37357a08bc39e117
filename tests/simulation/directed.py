"""A small world for each planted bug: its script has what the bug is about, and nothing is drawn.

A bug that a whole life of services, job sets and Deployments shows has `lifetimes` for its world;
the others have a script here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.simulation import (
    gangs,
    lifetimes,
    lives,
    nativeruns,
    ordinals,
    recurrences,
    running,
    solo,
)
from tests.simulation.invariants import note_key
from tests.simulation.running import NOTHING, Course, Plant
from tests.simulation.scaled import AUTOSCALERS
from tests.simulation.script import JOBSET, SERVICE, Action, perform
from tests.simulation.world import World

Story = Callable[[World], Awaitable[None]]
Script = tuple[Action, ...]
MINUTE_S: Final = 70.0
"""In so long a schedule of every minute is due."""


def rolled(image: str) -> Action:
    """Gives service web of namespace feed another image, with which pods take long to be ready."""
    template = {
        "metadata": {"annotations": {"embedded.federator/ready-delay-seconds": "20"}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    }
    return Action(0.0, "patch", SERVICE, "feed", "web", {"spec": {"template": template}})


def policy(pause_s: float, **spec: Any) -> Action:
    """Makes the policy of namespace feed."""
    return Action(pause_s, "create", "PlacementPolicy", "feed", "where", {"spec": spec})


def _only(*clusters: str) -> dict[str, Any]:
    """The placement of a workload that may be in these clusters only."""
    return {"placement": {"clusters": {"names": list(clusters)}}}


def _job_set() -> dict[str, Any]:
    """A small job set as the runs of cron jobs ask for it."""
    spec: dict[str, Any] = dict(solo.jobset("run", 1, 5).body["spec"])
    return {"shards": 1, "template": spec["template"]}


def _cron(name: str, body: Mapping[str, Any]) -> Action:
    return Action(0.0, "create", recurrences.CRON, recurrences.NAMESPACE, name, body)


def _ends(run_s: str = "3", **spec: Any) -> Action:
    """A job set of four shards that each run for so many seconds."""
    body = {"spec": {**solo.jobset("ends", 4, 0).body["spec"], **spec}}
    body["spec"]["template"]["metadata"]["annotations"] = {f"{lives.PREFIX}run-seconds": run_s}
    return Action(0.0, "create", JOBSET, lives.NAMESPACE, "ends", body)


def _fails(**spec: Any) -> Action:
    """A job set of which the second shard always fails."""
    made = _ends(**spec)
    notes = made.body["spec"]["template"]["metadata"]["annotations"]
    notes |= {f"{lives.PREFIX}fail-indexes": "1", f"{lives.PREFIX}index-base-env": "SHARD_BASE"}
    return made


async def _ended(world: World) -> None:
    await asyncio.sleep(30.0)


async def _terminated(world: World) -> None:
    await asyncio.sleep(60.0)


async def _chosen_by_autoscalers(world: World) -> None:
    """The autoscaler of each cluster asks for three copies, and the bounds change."""
    await asyncio.sleep(20.0)
    for name, member in world.federation.members.items():
        info = member.registry.get(*AUTOSCALERS)
        for entry in member.store.items(info, lives.NAMESPACE):
            ref = ObjectRef(
                "autoscaling/v2",
                info.plural,
                lives.NAMESPACE,
                entry.obj["metadata"]["name"],
                "HorizontalPodAutoscaler",
            )
            note = {f"{lives.PREFIX}wanted-replicas": "3"}
            await world.member(name).patch(ref, {"metadata": {"annotations": note}})
    await asyncio.sleep(40.0)
    wider = {"spec": {"autoscaling": {"max": 12}}}
    await perform(Action(0.0, "patch", SERVICE, lives.NAMESPACE, lives.SERVED, wider), world.host)
    await asyncio.sleep(20.0)


async def _noted_and_scaled(world: World) -> None:
    """Somebody leaves notes on the slices, which are then given another size."""
    await solo.settled(world)
    ref = registry.KINDS[SERVICE].ref("feed", "web")
    for name in world.members:
        note = {note_key(SERVICE): "theirs"}
        await world.member(name).patch(ref, {"metadata": {"labels": note, "annotations": note}})
    await perform(solo.scaled("web", 6), world.host)


async def _due(world: World) -> None:
    """A schedule of every minute is due twice."""
    await asyncio.sleep(2 * MINUTE_S)


async def _handed_over(world: World) -> None:
    """The clusters run the cron job, then the hub, then the clusters."""
    for runs in ("Hub", "Native"):
        await asyncio.sleep(MINUTE_S)
        what = (recurrences.CRON, recurrences.NAMESPACE, nativeruns.NAME)
        await perform(Action(0.0, "patch", *what, {"spec": {"runs": runs}}), world.host)
    await asyncio.sleep(2 * MINUTE_S)
    await perform(Action(0.0, "delete", *what), world.host)


def _then_deleted(kind: str, namespace: str, name: str) -> Story:
    async def story(world: World) -> None:
        await asyncio.sleep(40.0)
        await perform(Action(0.0, "delete", kind, namespace, name), world.host)

    return story


def _sized(name: str, copies: int, cpu: str, ready_s: str = "0") -> Action:
    """A service of namespace feed whose copies request so much, and are ready after so long."""
    requests = {"cpu": cpu, "memory": "64Mi"}
    container = {"name": "app", "image": f"app:{cpu}", "resources": {"requests": requests}}
    template = {
        "metadata": {"annotations": {f"{lives.PREFIX}ready-delay-seconds": ready_s}},
        "spec": {"containers": [container]},
    }
    spec = {"project": "feed", "replicas": copies, "template": template}
    return Action(0.0, "create", SERVICE, "feed", name, {"spec": spec})


def _ending(made: Action, seconds: int = 120) -> Action:
    """The same, whose pods take so long to end."""
    template = made.body["spec"]["template"]
    template["metadata"]["annotations"][f"{lives.PREFIX}stop-seconds"] = str(seconds)
    template["spec"]["terminationGracePeriodSeconds"] = seconds
    return made


LOGS: Final = {
    "name": "logs",
    "container": {"image": "logs:1", "resources": {"requests": {"cpu": "500m"}}},
}
TEMPLATE: Final = solo.service("any", 1).body["spec"]["template"]
SPREAD: Final = Action(
    0.0,
    "create",
    "PlacementPolicy",
    ordinals.NAMESPACE,
    "where",
    {"spec": {"division": {"strategy": "Spread"}}},
)
KV: Final = Action(
    0.0,
    "create",
    ordinals.STATEFUL,
    ordinals.NAMESPACE,
    "kv",
    {"spec": {"replicas": 4, "template": TEMPLATE}},
)
QUOTA: Final = Action(
    0.0,
    "create",
    "FederatedQuota",
    "",
    "feed",
    {"spec": {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "4"}}}}},
)
"""For eight copies of the services below."""
SCRIPTS: Final[Mapping[str, Script]] = {
    "lowered requests free their quota immediately": (
        QUOTA,
        _sized("web", 7, "500m"),
        replace(_sized("web", 7, "10m", "10"), what="patch", pause_s=20.0),
        replace(_sized("next", 7, "500m"), pause_s=2.0),
    ),
    "copies that are scaled down free their quota immediately": (
        QUOTA,
        _ending(_sized("web", 7, "500m")),
        Action(20.0, "patch", SERVICE, "feed", "web", {"spec": {"replicas": 1}}),
        replace(_sized("next", 7, "500m"), pause_s=90.0),
    ),
    "every workload gets a dearer profile": (
        QUOTA,
        _sized("web", 7, "500m"),
        Action(20.0, "create", "RuntimeProfile", "", "default", {"spec": {"sidecars": [LOGS]}}),
    ),
    "a placement forgets what is held": (
        policy(0.0, clusters={"names": ["a"]}, division={"strategy": "Spread"}),
        solo.service("web", 4),
        Action(
            20.0,
            "patch",
            "PlacementPolicy",
            "feed",
            "where",
            {"spec": {"clusters": {"names": ["a", "b"]}}},
        ),
    ),
    "a write takes somebody's label along": (solo.service("web", 4),),
    "copies of an earlier template count as ready": (
        policy(0.0, rollout={"maxClustersAtOnce": 1}),
        solo.service("web", 4),
        replace(rolled("app:2"), pause_s=20.0),
    ),
    "a fleet without a fitting cluster divides by zero": (
        policy(0.0, clusters={"names": ["nowhere"]}),
        solo.service("web", 4),
    ),
    "slices follow the clusters of an old decision": (
        solo.service("web", 4),
        Action(20.0, "patch", SERVICE, "feed", "web", {"spec": {"replicas": 2, **_only("b")}}),
    ),
    "a run is recorded and not made": (
        _cron(recurrences.NAME, recurrences.made(_job_set(), "Allow")),
    ),
    "the hub goes on deciding what its clusters decide": (
        _cron(nativeruns.NAME, nativeruns.made(_job_set(), "ab")),
    ),
    "the Jobs of a gang begin as they are made": (
        Action(0.0, "create", gangs.KIND, gangs.NAMESPACE, gangs.NAME, gangs.made(3)),
    ),
    "each cluster counts its ordinals from 0": (SPREAD, KV),
    "an end is taken back": (_ends(),),
    "a job set never ends": (_ends("3-90", completion="Any"),),
    "a job set goes before its time to live": (_ends(ttlSecondsAfterFinished=20),),
    "the time to live of a job set is forgotten": (_ends(ttlSecondsAfterFinished=5),),
    "the back-off limit of shards is not carried": (_fails(backoffLimitPerShard=1),),
    "a member process holds the count of a scaled service": (
        Action(
            0.0,
            "create",
            SERVICE,
            lives.NAMESPACE,
            lives.SERVED,
            {"spec": {"autoscaling": {"min": 2, "max": 10}, "template": TEMPLATE}},
        ),
    ),
}
STORIES: Final[Mapping[str, Story]] = {
    "a write takes somebody's label along": _noted_and_scaled,
    "copies of an earlier template count as ready": _ended,
    "an end is taken back": _ended,
    "lowered requests free their quota immediately": _ended,
    "copies that are scaled down free their quota immediately": _terminated,
    "every workload gets a dearer profile": _ended,
    "a member process holds the count of a scaled service": _chosen_by_autoscalers,
    "a run is recorded and not made": _due,
    "the hub goes on deciding what its clusters decide": _handed_over,
    "each cluster counts its ordinals from 0": _then_deleted(
        ordinals.STATEFUL, ordinals.NAMESPACE, "kv"
    ),
    "the Jobs of a gang begin as they are made": _then_deleted(
        gangs.KIND, gangs.NAMESPACE, gangs.NAME
    ),
}


def played(what: str, plant: Plant = NOTHING) -> running.Report:
    """The world of a bug, with the bug or without. Raises `running.Broken`."""
    if what not in SCRIPTS:
        return running.simulate(lifetimes.WORLD, plant, Course(lifetimes.write()))
    course = Course(SCRIPTS[what], story=STORIES.get(what), brief=True)
    return running.simulate(solo.world(), plant, course)
