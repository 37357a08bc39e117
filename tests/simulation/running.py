"""One simulated run: a script under faults, healing, rest, a restart that changes nothing, and all
rules throughout.

`simulate(seed)` is the whole of it. A run fails with `Broken`, whose text begins and ends with the
drawn parameters.
"""

import asyncio
import collections
import contextlib
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from federator.hub.leading.process import HubProcess
from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef
from tests import heap, virtual_time
from tests.faults.episodes import timing
from tests.faults.lives import keeper
from tests.simulation import (
    daemons,
    guard,
    halfdone,
    invariants,
    lives,
    rest,
    rulings,
    script,
    upheld,
)
from tests.simulation.drawing import Parameters, draw, generator
from tests.simulation.judges import Judges
from tests.simulation.nemesis import Nemesis
from tests.simulation.scaled import Load
from tests.simulation.story import Story
from tests.simulation.world import Between, Stoppable, World

HEAL_S = 120.0
"""After the last fault everything settles within this many virtual seconds, and as many after each
shard that ends while others still run."""
LOOK_S = 5.0
"""So often it is looked at whether shards have ended: all workloads are judged for it."""
RUNS_S = 1200.0
"""All shards have run by then."""
DEBOUNCE_S = 75.0
"""Figures that are not urgent are written half a minute after they moved at most, and copied as
much later.
"""
QUIET_S = 60.0
_SHARDS_RUN = re.compile(r"completed, .*\b[1-9]\d* running")
TAIL = 60
"""Lines of the story that a failure shows."""


class Broken(AssertionError):
    """A rule was broken. The text says which, under which parameters, after which requests."""

    def __init__(self, parameters: Parameters, breaches: Sequence[str], story: Story) -> None:
        self.breaches = list(breaches)
        self.story = story
        tail = collections.deque(story.told(), TAIL)
        lines = [parameters.text(), *tail, *breaches[:10], parameters.text()]
        super().__init__("\n".join(lines))

    @property
    def rules(self) -> frozenset[str]:
        """The names of the rules that were broken."""
        return frozenset(breach.partition(":")[0] for breach in self.breaches)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was like."""

    parameters: Parameters
    fired: Counter[str]
    actions: Counter[str]
    end_state: dict[str, object]
    steps: int
    deaths: int
    leaders: int
    """How often the lead went from one life of a hub to another."""
    most_per_minute: int
    virtual_s: float
    story: Story
    changes: Counter[str]
    """How many objects of each kind that is ours to make were created and deleted, as "create Job".
    """
    reasons: Counter[str]
    """How often each reason was newly given, as `reasons.spoken` names them."""
    judged: Counter[str]
    """How often some rules had anything to judge: `Judges.judged`."""

    @property
    def digest(self) -> str:
        """Equal for two runs that sent the same bytes at the same times."""
        return self.story.digest()


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug put into a run on purpose, to see that a rule can fail: on the wire, in the hub, in the
    stores, or in the code itself, while `patched()` is entered.
    """

    between: Between | None = None
    tamper: Callable[[HubProcess], None] | None = None
    after_script: Callable[[World], None] | None = None
    at_rest: Callable[[World], None] | None = None
    patched: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    only: Collection[str] = ()
    """Faults and acts of the worlds in which it shows; none: as drawn."""
    machines: int = 0
    """So many in each member, where the bug shows only in small ones; 0: as drawn."""


NOTHING = Plant()


@dataclass(frozen=True, slots=True)
class Course:
    """What happens in a run, where it is not drawn from a seed."""

    actions: Sequence[script.Action] = ()
    schedules: Mapping[str, Stoppable] | None = None
    story: Callable[[World], Awaitable[None]] | None = None
    """Told after the actions: what a test does to the world and looks at while it happens. Healing
    comes after it.
    """
    brief: bool = False
    """Only the end is of interest: nothing is looked for at rest, and nothing is restarted."""


class Run:
    """The parts of one run."""

    def __init__(self, parameters: Parameters, plant: Plant, course: Course | None) -> None:
        self.parameters = parameters
        self.plant = plant
        schedules = course.schedules if course is not None else None
        self.world = World(parameters, between=plant.between, schedules=schedules)
        if (tamper := plant.tamper) is not None:
            self.world.on_hub.append(lambda hub, _: tamper(hub))
        self.story = course.story if course is not None else None
        self.brief = course is not None and course.brief
        self.script = course.actions if course is not None else script.write(parameters)
        self.nemesis = Nemesis(self.world, parameters.turns)
        self.judges = Judges(self.world)
        self.notes = generator(parameters.seed, "notes")
        self.load = Load(generator(parameters.seed, "load"))
        picky = any(action.name == daemons.NAME for action in self.script)
        self.machines = (
            daemons.Machines(generator(parameters.seed, "daemon machines")) if picky else None
        )

    def check(self) -> None:
        """Raises `Broken` when any rule has been broken so far, or a process has ended by
        itself.
        """
        self.world.federation.check()
        found = self.judges.found()
        if found:
            raise Broken(self.parameters, found, self.world.story)

    async def main(self) -> Report:
        """The whole run."""
        world = self.world
        await world.start()
        some = {action.namespace for action in self.script} & {lives.NAMESPACE}
        some |= {halfdone.NAMESPACE} if self.parameters.contest else set()
        await script.open_namespaces(world.host, *sorted(some))
        await world.plant()
        self.nemesis.start()
        for action in self.script:
            await asyncio.sleep(action.pause_s)
            world.say(f"{'user':12} {action.text()}")
            await script.perform(action, world.host)
            await self._note()
            await self.load.turn(world)
            if self.machines is not None:
                await self.machines.turn(world)
            self.check()
        if self.story is not None:
            await self.story(world)
            self.check()
        if self.plant.after_script is not None:
            self.plant.after_script(world)
        await self._heal()
        if self.brief:
            await asyncio.sleep(DEBOUNCE_S)
            await self._settle()
            self.check()
        else:
            await self._rest("nothing is left to do")
            for hub in world.hubs:
                world.kill(hub)
            await self._settle()
            await self._rest("a restarted hub has nothing to do")
        if self.plant.at_rest is not None:
            self.plant.at_rest(world)
        self._judge_rest()
        return Report(
            parameters=self.parameters,
            fired=world.fired,
            actions=Counter(action.what for action in self.script),
            end_state=rest.end_state(world, contended=self._contended(), profiled=self._profiled()),
            steps=self.judges.steps,
            deaths=world.deaths,
            leaders=max(0, len(self.judges.holders) - 1),
            most_per_minute=self.judges.loops.most_requests,
            virtual_s=world.federation.clock.monotonic(),
            story=world.story,
            changes=self.judges.changes,
            reasons=self.judges.reasons,
            judged=self.judges.judged(),
        )

    def _contended(self) -> bool:
        limited = (
            bool(self.parameters.quota_cpu)
            or self.parameters.two_kinds
            or self.parameters.backlog
            or self.parameters.contest
            or any(action.kind == upheld.KIND for action in self.script)
        )
        return limited or rulings.bind([action.body for action in self.script])

    def _profiled(self) -> bool:
        return any(action.kind == script.PROFILE for action in self.script)

    async def _note(self) -> None:
        """Somebody in a member leaves a note on one of our objects there."""
        cluster = self.notes.choice(sorted(self.world.federation.members))
        member = self.world.federation.members[cluster]
        kind, group, version, plural = self.notes.choice(_NOTED)
        found = [
            one
            for one in member.store.items(member.registry.get(group, plural))
            if names.FLEET_LABEL in (one.obj["metadata"].get("labels") or {})
        ]
        if not found:
            return
        meta = self.notes.choice(found).obj["metadata"]
        ref = ObjectRef(f"{group}/{version}", plural, meta["namespace"], meta["name"], kind)
        part = self.notes.choice(("labels", "annotations"))
        note = {invariants.note_key(kind): str(self.notes.randrange(1000))}
        with contextlib.suppress(errors.NotFound):
            await self.world.member(cluster).patch(ref, {"metadata": {part: note}})

    async def _heal(self) -> None:
        if self.parameters.patient:
            await self.nemesis.finish()
        await self.nemesis.heal()
        self.world.end_faults()
        await self.world.unplant()
        self.world.say("faults are over")
        self.judges.doubts.faults_over()
        await self._settle()

    async def _settle(self) -> None:
        clock, last = self.world.federation.clock, list[str]()
        since_s = clock.monotonic()
        latest_s = since_s + RUNS_S
        if self.world.fired["member-clock-off"]:
            # A pod that failed by a clock that was ahead is made again when that time has come.
            since_s += timing.OFF_S[1]
        looked_s = since_s - LOOK_S
        while next(self.world.waiting(), None) is not None:
            if clock.monotonic() >= looked_s + LOOK_S:
                looked_s, waiting = clock.monotonic(), self.world.unsettled()
                if waiting != last and any(map(_SHARDS_RUN.search, waiting)):
                    since_s = max(since_s, min(looked_s, latest_s))
                last = waiting
            self.check()
            await self.load.bound(self.world)
            self._resolved()
            late = clock.monotonic() >= since_s + HEAL_S
            if late and (waiting := self.world.unsettled()):
                raise Broken(
                    self.parameters, [f"10 settles: {text}" for text in waiting], self.world.story
                )
            await asyncio.sleep(0.5)

    def _resolved(self) -> None:
        """Raises `Broken` where something is unknown still."""
        if found := list(self.judges.doubts.breaches()):
            raise Broken(self.parameters, found, self.world.story)

    async def _rest(self, why: str) -> None:
        await asyncio.sleep(DEBOUNCE_S)
        self._resolved()
        self.world.say(f"quiet from here: {why}")
        self.judges.quiet.listening = True
        await asyncio.sleep(QUIET_S)
        self.judges.quiet.listening = False
        self.check()

    def _judge_rest(self) -> None:
        found = [f"10 settles: {text}" for text in self.world.unsettled()] + rest.breaches(
            self.world
        )
        found += [*self.judges.charges.at_rest(), *self.judges.contested.at_rest()]
        found += self.judges.claimed.at_rest(self.world)
        found += self.judges.every_node.at_rest(self.world)
        if found:
            raise Broken(self.parameters, found, self.world.story)


_NOTED = (
    ("PinterestService", "pinterest.com", "v1beta1", "pinterestservices"),
    ("PinterestJobSet", "pinterest.com", "v1beta1", "pinterestjobsets"),
    ("Deployment", "apps", "v1", "deployments"),
)


def simulate(
    parameters: Parameters, plant: Plant = NOTHING, course: Course | None = None
) -> Report:
    """One run from beginning to end. Raises `Broken`."""
    story = Story()
    if plant.machines:
        parameters = replace(parameters, nodes=plant.machines)

    async def main() -> Report:
        nonlocal story
        run = Run(parameters, plant, course)
        story = run.world.story
        logger = logging.getLogger("federator")
        logger.addHandler(run.judges.errors)
        try:
            return await run.main()
        except (Broken, AssertionError):
            raise
        except Exception as error:
            raise Broken(
                parameters, [f"the run itself failed: {error!r}"], run.world.story
            ) from error
        finally:
            story.end()
            logger.removeHandler(run.judges.errors)

    order = generator(parameters.seed, "order") if parameters.shuffled else None
    with heap.one_world(), guard.nothing_real(), plant.patched():
        try:
            return virtual_time.run(main(), order=order, keeper=keeper)
        except (virtual_time.Deadlock, virtual_time.Livelock) as error:
            raise Broken(parameters, [f"13 no hang: {error}"], story) from error


def compare(faulty: Report, calm: Report) -> None:
    """The end state under faults is that without. Raises `Broken`."""
    pods_deleted = any(faulty.fired[name] for name in rest.DELETE_PODS)
    found = [
        (
            f"10 reference: {name} is {faulty.end_state.get(name)}, without faults "
            f"{calm.end_state.get(name)}"
        )
        for name in sorted(faulty.end_state.keys() | calm.end_state.keys())
        if not rest.agree(
            name, faulty.end_state.get(name), calm.end_state.get(name), pods_deleted=pods_deleted
        )
    ]
    if found:
        raise Broken(faulty.parameters, found, faulty.story)


def check(seed: int, only: Collection[str] = ()) -> Report:
    """The run of a seed under faults, compared with the same script without. `only`: as in
    `drawing.draw`.
    """
    parameters = draw(seed, only)
    report = simulate(parameters)
    compare(report, reference(parameters, script.write(parameters)))
    return report


def reference(parameters: Parameters, actions: Sequence[script.Action]) -> Report:
    """How the script ends without faults: one hub, tasks in order, and no more time than that
    takes.
    """
    calm = replace(parameters.without_faults(), hubs=1, shuffled=False)
    return simulate(calm, course=Course(actions, brief=True))
