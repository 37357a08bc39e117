"""One small world, one fault at a time, looked at while it happens: what a row of the table of
faults promises.

For tests of single rows. The world has one settled service per member's worth of room and a job
set; a story does something to it and asserts; after that faults are healed and every rule of a
campaign's run is checked as well.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from federator.kinds import registry
from tests.faults import table
from tests.faults.rows import HUB, RequestFault
from tests.faults.schedules import Seeded
from tests.simulation import running
from tests.simulation.drawing import Parameters, generator
from tests.simulation.invariants import Obj, all_of
from tests.simulation.script import JOBSET, SERVICE, Action
from tests.simulation.world import MEMBER, World

Story = Callable[[World], Awaitable[None]]
SETTLE_S = 60.0


def world(**changes: Any) -> Parameters:
    """Two members of two machines, two hubs; `changes` are other parameters."""
    given: dict[str, Any] = {
        "seed": 0,
        "members": 2,
        "nodes": 2,
        "steps": 0,
        "pause_s": 0.0,
        "restart_s": 1.0,
        "quota_cpu": 0,
        "hub": {},
        "member": {},
        "hubs": 2,
        "shuffled": True,
    }
    return Parameters(**{**given, **changes})


def service(name: str, replicas: int) -> Action:
    """Makes a service in namespace feed."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    template = {"spec": {"containers": [container]}}
    return Action(
        0.0, "create", SERVICE, "feed", name, {"spec": {"replicas": replicas, "template": template}}
    )


def scaled(name: str, replicas: int) -> Action:
    """Gives a service of namespace feed another size."""
    return Action(0.0, "patch", SERVICE, "feed", name, {"spec": {"replicas": replicas}})


def deleted(name: str) -> Action:
    """Deletes a service of namespace feed."""
    return Action(0.0, "delete", SERVICE, "feed", name)


def jobset(name: str, shards: int, run_s: int) -> Action:
    """Makes a job set in namespace feed whose shards take so many seconds."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    template = {
        "metadata": {"annotations": {"embedded.federator/run-seconds": str(run_s)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"shards": shards, "parallelism": shards, "template": template}
    return Action(0.0, "create", JOBSET, "feed", name, {"spec": spec})


BEGINNING = (service("web", 4), service("shop", 2), jobset("index", 4, 20))


def tell(
    story: Story, parameters: Parameters | None = None, actions: tuple[Action, ...] = BEGINNING
) -> running.Report:
    """Runs the world until it has settled, then the story, then the rest of a run. Raises what the
    story asserts, and `running.Broken`.
    """

    async def after_settling(stage: World) -> None:
        await settled(stage)
        await story(stage)

    return running.simulate(
        parameters or world(), course=running.Course(actions, story=after_settling)
    )


async def settled(stage: World, within_s: float = SETTLE_S) -> None:
    """Waits for rest. Fails with what is still waited for."""
    deadline = stage.federation.clock.monotonic() + within_s
    while next(stage.waiting(), None) is not None:
        assert stage.federation.clock.monotonic() < deadline, stage.unsettled()
        await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def happening(stage: World, name: str, *, draw: int = 0) -> AsyncIterator[None]:
    """An episode of the table, while this is entered; it must have had an effect by the time it is
    left.
    """
    before = stage.fired[name]
    async with table.EPISODES[name].befall(stage, generator(draw, name)):
        yield
    assert stage.fired[name] > before, f"{name} had no effect"


@contextlib.asynccontextmanager
async def befalling(stage: World, name: str, per_mille: int = 1000) -> AsyncIterator[None]:
    """A fault of single requests that befalls every one it can, or so many in a thousand, while
    this is entered.
    """
    assert isinstance(table.FAULTS[name], RequestFault)
    before, schedules = stage.fired[name], dict(stage.schedules)
    stage.rescheduled({who: Seeded(generator(0, name), {name: per_mille}) for who in schedules})
    try:
        yield
    finally:
        stage.rescheduled(schedules)
    assert stage.fired[name] > before, f"{name} never happened"


def only(name: str, per_mille: int = 1000) -> Mapping[str, Seeded]:
    """A schedule of one fault for hubs and member processes."""
    return {who: Seeded(generator(0, name), {name: per_mille}) for who in (HUB, MEMBER)}


def conditions(obj: Obj) -> Mapping[str, tuple[str, str]]:
    """type -> (status, reason) of an object's conditions."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def one_of(stage: World, kind: str, name: str, cluster: str = "host") -> Obj:
    """One object by its name. Raises StopIteration when there is none."""
    return next(
        obj for obj in all_of(stage.clusters[cluster], kind) if obj["metadata"]["name"] == name
    )


def shares(stage: World) -> Mapping[str, Mapping[str, int]]:
    """workload name -> copies per cluster, from the slices that members hold."""
    found: dict[str, Counter[str]] = {}
    for cluster in stage.members:
        for obj in all_of(stage.clusters[cluster], SERVICE):
            if registry.verbs_of(SERVICE).read_mark(obj) is not None:
                found.setdefault(obj["metadata"]["name"], Counter())[cluster] = obj["spec"][
                    "replicas"
                ]
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}
