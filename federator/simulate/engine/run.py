"""Plays a demand against a fleet: discrete events in whole seconds, decided by the scheduling cycle
of the hub.

At one instant, in this order: works end and give back what they held; events of the scenario
happen; services are scaled and works submitted; then cycles run until nothing is due, each over at
most as many heads as a batch of the hub has. What waits is decided again when one of the queueing
hints says that it may be helped, as in the hub. Reports of members are never late here, and slices
never fail: that is what the hub's own latency adds.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from federator.model.names import WorkloadKey
from federator.model.quickly import quickly
from federator.placement.policy import permitted
from federator.scheduling import cycle, ordering, write_order
from federator.scheduling.admission import preempting
from federator.scheduling.admission.notice import NoticesGiven
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.scheduling.write_order import Decided
from federator.simulate.demand import Scaling, Work
from federator.simulate.engine import events
from federator.simulate.engine.asks import identity, key_of
from federator.simulate.engine.autoscaling import Autoscalers
from federator.simulate.engine.recording import Recording
from federator.simulate.engine.running import Running
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Inputs
from federator.simulate.outcome import SimulationResult

Progress = Callable[[int, int | None, int, int], None]
"""(simulated second, last second if it is known, works submitted, works in all)."""

Watch = Callable[[Simulation, Cycle], None]
"""Reads only."""

_entry = quickly(Entry)
HEADS_MAX: Final = 256
"""Works of one cycle at most: the hub's default `batch_size`."""
TOGETHER_MAX: Final = 4
"""Where some that wait were left out, so many are decided on in one cycle; more in turn."""
MOMENT_S: Final = int(preempting.MOMENT_S)
_NEVER: Final = 1 << 62
_Step = tuple[int, float, Work, Scaling]
"""(second, cycle of the recording, service, what it asks for)."""
PROGRESS_EVERY: Final = 256
"""Instants between two calls of the progress callback."""


def run(
    inputs: Inputs, progress: Progress | None = None, watch: Watch | None = None
) -> SimulationResult:
    """The outcome of one simulation; the same inputs give an equal outcome. `watch` is shown the
    world after each cycle.

    Raises ValueError for inputs that are not in the order they are to be in, or name the same work
    twice.
    """
    _check(inputs)
    return _Simulation(inputs, watch).play(progress)


def _check(inputs: Inputs) -> None:
    for what, times in (
        ("works", [work.submit_s for work in inputs.works]),
        ("events", [event.at_s for event in inputs.events]),
    ):
        if any(later < sooner for sooner, later in itertools.pairwise(times)):
            raise ValueError(f"the {what} of a simulation are to be in the order of their times")
    works = inputs.works
    plainly = len({work.id for work in works}) == len(works)  # which the identity ends with
    if not (plainly and all(work.recorded is None for work in works)) and len(
        set(map(identity, works))
    ) < len(works):
        raise ValueError("a simulation names a work twice")


class _Simulation:
    """One run. `play` may be called once."""

    def __init__(self, inputs: Inputs, watch: Watch | None = None) -> None:
        self.inputs, self._watch = inputs, watch
        self.simulation = Simulation(inputs)
        self.recording = Recording(inputs)
        self._ends: list[tuple[int, int, WorkloadKey, int]] = []
        """Heap of (second, order, work, attempt): when an attempt ends, or may begin after one that
        failed. That of an attempt which is over counts for nothing.
        """
        self._order = 0
        scaled = [
            (scaling.at_s, scaling.cycle, work, scaling)
            for work in inputs.works
            for scaling in work.curve
        ]
        self._steps = sorted(scaled, key=lambda step: step[:2])
        """How services follow their curves."""
        self._works, self._steps_in_all = len(inputs.works), len(scaled)
        self._notices = NoticesGiven()
        self._due: list[tuple[int, WorkloadKey]] = []
        """Heap of (second, work): when those that are to leave for it have had their notice, or
        when it has waited long enough for the room of those that left."""
        self._due_of: dict[WorkloadKey, int] = {}
        """The last of them, by work."""
        self._undecided: set[WorkloadKey] = set()
        """Those for which nobody could be told to leave, because another cycle was to decide on one
        of those that would."""
        self._submitted = self._scaled = 0
        """So many works are submitted, and so many steps of curves done."""
        self._of_cycle: float | None = None
        """Of what was submitted or scaled last, if that was recorded."""

    def play(self, progress: Progress | None) -> SimulationResult:
        """Runs until the end of the inputs, or until nothing is left to happen."""
        changes, simulation = self.inputs.events, self.simulation
        changed = instants = 0
        self.recording.settle(simulation)
        while (now_s := self._next(changed)) is not None:
            if self.inputs.end_s is not None and now_s > self.inputs.end_s:
                break
            self.recording.reach(now_s, simulation)
            simulation.now_s = now_s
            if self._ends and self._ends[0][0] == now_s:
                simulation.requeue(self._complete())
            while changed < len(changes) and changes[changed].at_s == now_s:
                self.recording.happen(changes[changed], events.happen(simulation, changes[changed]))
                changed += 1
            if simulation.scaling is not None:
                self._scale(simulation.scaling)
            self._arrive()
            if self._due or simulation.drains.waits or simulation.bars:
                returning = (
                    *simulation.drains.give(simulation.live, now_s),
                    *simulation.come_back(),
                )
                for key in (*returning, *self._noticed(now_s)):
                    simulation.put(key)
            self._decide()
            if simulation.is_held:
                simulation.release_reports()
                self._decide()
            if simulation.scaling is not None:
                simulation.scaling.order(now_s)
            self.recording.settle(simulation)
            instants += 1
            if progress is not None and instants % PROGRESS_EVERY == 0:
                progress(now_s, self.inputs.end_s, self._submitted, len(self.inputs.works))
        simulation.now_s = self.inputs.end_s if self.inputs.end_s is not None else simulation.now_s
        self.recording.reach(simulation.now_s + 1, simulation)
        return self.recording.outcome(simulation)

    def _next(self, changed: int) -> int | None:
        """The next instant at which something happens; None when nothing is left."""
        changes, simulation = self.inputs.events, self.simulation
        nearest = self._ends[0][0] if self._ends else _NEVER
        if self._submitted < self._works:
            nearest = min(nearest, self.inputs.works[self._submitted].submit_s)
        if changed < len(changes):
            nearest = min(nearest, changes[changed].at_s)
        if self._scaled < self._steps_in_all:
            nearest = min(nearest, self._steps[self._scaled][0])
        if self._due:
            nearest = min(nearest, self._due[0][0])
        if simulation.drains.next_s is not None:
            nearest = min(nearest, simulation.drains.next_s)
        if simulation.bars:
            nearest = min(nearest, simulation.back_s)
        if simulation.scaling is not None and simulation.scaling.next_s is not None:
            nearest = min(nearest, simulation.scaling.next_s)
        return nearest if nearest < _NEVER else None

    def _scale(self, scaling: Autoscalers) -> None:
        """Nodes come and go, and copies that waited for them are bound."""
        simulation = self.simulation
        changes = scaling.happen(simulation.now_s)
        for running in changes.bound:
            simulation.decided(running)
            self._start(running)
        for key in changes.due:
            simulation.put(key)
        simulation.requeue(changes.hints)

    def _noticed(self, now_s: int) -> Iterator[WorkloadKey]:
        """The works for which others leave now, or more may."""
        while self._due and self._due[0][0] <= now_s:
            _, key = heapq.heappop(self._due)
            self._due_of.pop(key, None)
            if key in self.simulation.live:
                yield key

    def _complete(self) -> list[Hint]:
        """Ends what ends now, and begins again what failed and has waited. Returns what that may
        help.
        """
        simulation, hints = self.simulation, []
        while self._ends and self._ends[0][0] == simulation.now_s:
            _, _, key, attempt = heapq.heappop(self._ends)
            running = simulation.live.get(key)
            if running is None or running.attempt != attempt:
                continue
            if not running.running or (running.fail(simulation.now_s) and not running.failed):
                self._start(running)
                continue
            running.end(simulation.now_s)
            for name, bound in running.bound.items():
                member, namespace = simulation.fleet.members[name], running.ask.key.namespace
                member.give_back(running.ask.shape, bound, namespace)
            hints += simulation.take_away(running, running.places)
            simulation.ended(running)
            self._notices.forget(key)
            self.recording.ended(running, simulation.now_s)
        return hints

    def _arrive(self) -> None:
        """Works are submitted and services scaled. What a recording decided on in different cycles
        is decided on one after the other.
        """
        while True:
            work = self._work()
            step = self._step() if self._scaled < self._steps_in_all else None
            if step is not None and not (work is not None and _sooner(work, step[1])):
                _, cycle, service, scaling = step
                self._in_order(cycle if service.recorded is not None else None)
                self._scaled += 1
                if (running := self.simulation.live.get(key_of(service))) is not None:
                    self.simulation.scale(running, scaling.copies)
            elif work is not None:
                self._in_order(work.recorded.cycle if work.recorded is not None else None)
                self._submitted += 1
                self._submit(work)
            else:
                return

    def _work(self) -> Work | None:
        """The next work that is submitted now."""
        if self._submitted == self._works:
            return None
        work = self.inputs.works[self._submitted]
        return work if work.submit_s == self.simulation.now_s else None

    def _step(self) -> _Step | None:
        """The next step of a curve that is due now."""
        step = self._steps[self._scaled]
        return step if step[0] == self.simulation.now_s else None

    def _in_order(self, cycle: float | None) -> None:
        """Before something is submitted or scaled: decides on what a recording decided on before
        that.
        """
        if (
            self._of_cycle is not None
            and cycle is not None
            and (not cycle or self._of_cycle != cycle)
        ):
            self.simulation.hold_reports()
            self._decide()
        self._of_cycle = cycle

    def _submit(self, work: Work) -> None:
        running = Running(work, self.simulation.asks.of(work))
        self.simulation.submit(running)

    def _decide(self) -> None:
        """Cycles, until nothing is due. A work that found no place while others were due is decided
        on again then; if that is in vain too, a moment later."""
        self._cycles()
        if self._undecided:
            for key in sorted(self._undecided):
                self.simulation.put(key)
            self._undecided.clear()
            self._cycles()
            for key in sorted(self._undecided):
                self._look_again(self.simulation.now_s + MOMENT_S, key)
            self._undecided.clear()
        self.simulation.inadmissible.at_rest()

    def _cycles(self) -> None:
        simulation = self.simulation
        while simulation.queued:
            heads = simulation.heads(HEADS_MAX)
            backlog = simulation.inadmissible
            if (
                backlog.thinned
                and len(heads) > TOGETHER_MAX
                and not any(simulation.judged_together(head.ask.project) for head in heads)
            ):
                self._in_turn(heads)
            elif heads:
                self._cycle(heads)

    def _look_again(self, at_s: int, key: WorkloadKey) -> None:
        """The work is due then, too."""
        if self._due_of.get(key) != at_s:
            self._due_of[key] = at_s
            heapq.heappush(self._due, (at_s, key))

    def _in_turn(self, heads: Sequence[Running]) -> None:
        """Many wait for little: in the order of one cycle, but each in a cycle of its own, so that
        nobody is asked for any more when nothing is left.
        """
        simulation = self.simulation
        asks, ledger = (
            [head.ask for head in heads],
            simulation.commitments.open(simulation.snapshot()),
        )
        for ask in ordering.order(asks, simulation.commitments, ledger):
            running = simulation.live[ask.key]
            if not (simulation.inadmissible.hopeless(running) or simulation.waits_beside(running)):
                self._cycle([running])

    def _entry(self, running: Running) -> Entry:
        simulation = self.simulation
        return _entry(
            ask=running.ask,
            standing=self._standing(running),
            refused=permitted.refusal(running.ask, simulation.levels, simulation.quotas),
            leave=simulation.drains.leave(running.ask.key, simulation.now_s),
            noticed=self._notices.of(running.ask.key, running.ask.uid),
            displaced=running.displaced,
            may_leave=simulation.drains.turn(running.ask.key),
        )

    def _standing(self, running: Running) -> Standing:
        standing, scaling = running.standing(), self.simulation.scaling
        capped = scaling.capped(running.ask.key, self.simulation.now_s) if scaling else None
        return replace(standing, capped=capped) if capped else standing

    def _other(self, key: WorkloadKey) -> Entry | None:
        """The entry of a work that may have to leave for another's quota; None while its own turn
        is near.
        """
        running = self.simulation.live.get(key)
        return None if running is None or self.simulation.is_due(key) else self._entry(running)

    def _cycle(self, heads: Sequence[Running]) -> None:
        simulation = self.simulation
        made = cycle.run(
            list(map(self._entry, heads)),
            simulation.inadmissible,
            simulation.snapshot(),
            simulation.commitments,
            seq=simulation.next_seq,
            find=self._other,
        )
        for bug in made.failed.values():
            raise bug
        self.recording.cycles += 1
        hints = [*made.hints_of(made.decided), *made.released_hints]
        if simulation.relating:
            near = write_order.relocated(made.decided)
            hints += [Hint(HintKind.WORKLOADS, namespace=name) for name in sorted(near)]
        for decided in made.decided:
            self._apply(decided, hints)
        simulation.inadmissible.settle(
            made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims
        )
        if made.notices or len(self._notices):
            self._give_notice(made)
        if made.undecided or made.room_claims or self._undecided:
            self._wait_for_room(made)
        simulation.requeue(hints)
        if simulation.scaling is not None:
            self._scale(simulation.scaling)
        if self._watch is not None:
            self._watch(simulation, made)

    def _give_notice(self, made: Cycle) -> None:
        self._notices.settle(made.settled, made.notices)
        for at_s, key in {(int(notice.noticed.due_s), notice.by) for notice in made.notices}:
            self._look_again(at_s, key)

    def _wait_for_room(self, made: Cycle) -> None:
        self._undecided -= made.settled
        self._undecided |= made.undecided & made.inadmissible.keys()
        for key, claim in made.room_claims.items():
            self._look_again(math.ceil(claim.until_s), key)

    def _apply(self, decided: Decided, hints: list[Hint]) -> None:
        """The decision is in force, and the members have what it gives at once. What that may help
        is added to the hints.
        """
        simulation, decision, key = self.simulation, decided.decision, decided.entry.ask.key
        running = simulation.live[key]
        simulation.commit(decided.after)
        if running.work.recorded is not None:
            self.recording.placed(running, decision.shares, simulation.now_s)
        if running.bound or decided.beneficiary != key:
            hints += self._shrink(decided, running)
        for share in decision.shares:
            name = share.cluster
            lacking = share.slots - running.copies(name)
            if lacking > 0:
                shape = running.shape_in(share)
                member = simulation.fleet.members[name]
                bound = member.take(shape, lacking, key.namespace)
                running.enter(name, bound, simulation.now_s)
        if simulation.scaling is not None:
            self._give_up_places(running, {share.cluster: share.slots for share in decision.shares})
        running.decided(decision, simulation.now_s)
        if simulation.scaling is not None:
            simulation.scaling.note(running, simulation.now_s)
        simulation.decided(running)
        self._start(running)

    def _shrink(self, decided: Decided, running: Running) -> list[Hint]:
        """Copies that a decision gives no more are gone at once. Returns what that may help."""
        simulation = self.simulation
        given = {share.cluster: share.slots for share in decided.decision.shares}
        made_way = decided.beneficiary != decided.key
        if made_way:
            running.make_way(simulation.now_s)
            simulation.bar(running)
        if running.is_job and given.keys() != running.bound.keys():
            running.break_off(simulation.now_s, made_way=made_way)
        hints = []
        for name in [name for name in running.bound if given.get(name, 0) < running.copies(name)]:
            gone = running.shrink(name, given.get(name, 0), simulation.now_s)
            member, namespace = simulation.fleet.members[name], running.ask.key.namespace
            member.give_back(running.ask.shape, gone, namespace)
            hints.append(Hint(HintKind.ROOM, name))
            if name not in given:
                simulation.commitments.release(name, running.ask.uid)
        simulation.report({hint.cluster for hint in hints})
        return hints

    def _give_up_places(self, running: Running, given: Mapping[str, int]) -> None:
        """Copies that waited for nodes are given fewer places: no pod of them is there any more."""
        for name, waiting in running.pending.items():
            if given.get(name, 0) < running.copies(name) + waiting:
                if name not in given:
                    self.simulation.commitments.release(name, running.ask.uid)
                self.simulation.report([name])

    def _start(self, running: Running) -> None:
        """Starts the clock of a work that has all it asked for, unless it runs or has failed just
        now.
        """
        decision, now_s = running.decision, self.simulation.now_s
        if running.running or decision is None or decision.shortfall or running.missing:
            return
        if now_s < running.ready_s:
            running.idle(now_s)
            due_s: int | None = running.ready_s
        else:
            runtime_s = running.begin(now_s)
            due_s = None if runtime_s is None else now_s + runtime_s
        if due_s is not None:
            self._order += 1
            heapq.heappush(self._ends, (due_s, self._order, running.ask.key, running.attempt))


def _sooner(work: Work, cycle: float) -> bool:
    """Whether a work was recorded to be decided on before what a cycle decided."""
    return work.recorded is not None and work.recorded.cycle < cycle
