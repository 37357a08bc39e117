"""N1 and N1r: failover buffers on the openb fleet at 1.3 times its capacity.

A fifth of the machines of openb, of each kind, as eight clusters by GPU model, and its pods until
they ask for 1.3 times the GPUs that there are. Latency-sensitive pods that more than one model can
serve are Reserved, as many as the fleet can hold without its largest cluster; the others are
OnDemand, best-effort ones are Preemptible. Every cluster keeps a buffer, which Preemptible work
has.

N1 asks, for each cluster, the function that the drill asks, what its loss would come to: Reserved
copies without another place. N1r loses the largest cluster in the simulator, for an hour: Reserved
copies that lacked a place at the end of any instant, though some node could have held them. A
buffer is an amount and no nodes: what needs a node of which other work holds a part, and that work
does not leave, has no place whatever is lent. The notes tell how many these are, who left, who
returned, and what the same losses come to without buffers.
"""

import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.placement.room.binding import Ints
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import DrillResult, Loss
from federator.scheduling.entry import Entry
from federator.simulate.demand import Work
from federator.simulate.engine import run
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Event, EventKind, Inputs
from federator.simulate.outcome import Life
from federator.simulate.outcome import SimulationResult as Played
from federator.simulate.scenario import loading
from tests.bench.harness import Result

DATA: Final = "openb-8-clusters"
SHARE: Final = 0.2
LOAD: Final = 1.3
LARGEST: Final = "openb-g2"
BUFFERS: Final[Mapping[str, int]] = {LARGEST: 250}
OTHERS: Final = 600
"""Thousandths of each cluster: the loss of the largest, seven tenths of all GPUs, needs more of the
others than the loss of one of these needs of it."""
RESERVED: Final = 0.25
"""Of what is left without the largest cluster, so much is asked for by Reserved work."""
SUBMIT_S: Final = {Tier.RESERVED: 0, Tier.ON_DEMAND: 60, Tier.PREEMPTIBLE: 120}
LOST_S, BACK_S, END_S = 3600, 7200, 10_800
CHUNK: Final = 64
A_MINUTE: Final = 300


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("FEDERATOR_DATA", root.parent / "shared" / "data")) / DATA
    if not folder.is_dir():
        why = f"{DATA} is not there: set FEDERATOR_DATA to the folder that holds it"
        yield from (Result(name, failed=why) for name in ("N1", "N1r") if name in wanted)
        return
    inputs = _inputs(folder, SHARE * scale)
    bare = replace(
        inputs,
        clusters={name: replace(one, buffer_permille=0) for name, one in inputs.clusters.items()},
    )
    if "N1" in wanted:
        yield _drilled(inputs, bare)
    if "N1r" in wanted:
        yield _lost(inputs)


# -- the fleet and who asks ------------------------------------------------------------------------


def _inputs(folder: Path, scale: float) -> Inputs:
    """`scale`: a smaller share of the nodes, and as much less demand."""
    given = loading.of_folder(folder)
    given["fleet"]["capacity"] = f"{round(100 * scale)}%"
    inputs = loading.inputs(given, folder, {})
    clusters = {
        name: replace(view, buffer_permille=BUFFERS.get(name, OTHERS))
        for name, view in inputs.clusters.items()
    }
    total = {name: _gpus(view) for name, view in clusters.items()}
    promised = RESERVED * (sum(total.values()) - total[LARGEST])
    works: list[Work] = []
    asked = reserved = 0
    for again in itertools.count():
        for work in inputs.works:
            if asked > LOAD * sum(total.values()):
                return replace(
                    inputs,
                    clusters=clusters,
                    works=tuple(sorted(works, key=lambda one: (one.submit_s, one.id))),
                    end_s=120,
                )
            gpus = (work.gpu or 0) * work.shards
            may = reserved + gpus <= promised
            tier = _tier(work, may=may)
            reserved += gpus if tier is Tier.RESERVED else 0
            asked += gpus
            made = replace(work, id=f"{work.id}-{again}", tier=tier, runtime_s=None)
            works.append(replace(made, kind="service", submit_s=SUBMIT_S[tier], priority=0))
    raise AssertionError("never")


def _gpus(view: Any) -> int:
    return int(view.capacity.allocatable["nvidia.com/gpu"])


def _tier(work: Work, *, may: bool) -> Tier:
    if work.project == "be":
        return Tier.PREEMPTIBLE
    anywhere = not work.gpu_models or len(set(work.gpu_models)) > 1
    return Tier.RESERVED if may and anywhere else Tier.ON_DEMAND


# -- drilled ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Last:
    """The world of a simulation as it was last seen."""

    world: Simulation | None = None

    def see(self, world: Simulation, _: object) -> None:
        self.world = world


def _settled(inputs: Inputs) -> Simulation:
    last = _Last()
    run.run(inputs, watch=last.see)
    assert last.world is not None
    return last.world


def _drilled(inputs: Inputs, bare: Inputs) -> Result:
    outcomes = _outcomes(_settled(inputs))
    without = _outcomes(_settled(bare))
    worst = max(one.missing(Tier.RESERVED) for one in outcomes)
    notes = {
        "Reserved without a place": _missing(outcomes),
        "the same without buffers": _missing(without),
        "copies lost": {one.loss.name: one.copies for one in outcomes},
    }
    return Result("N1", ours=worst, notes=notes)


def _missing(outcomes: list[DrillResult]) -> dict[str, int]:
    return {one.loss.name: one.missing(Tier.RESERVED) for one in outcomes}


def _outcomes(world: Simulation) -> list[DrillResult]:
    return [_outcome(world, loss) for loss in drill.losses(world.snapshot())]


def _outcome(world: Simulation, loss: Loss) -> DrillResult:
    def entry(key: WorkloadKey) -> Entry | None:
        running = world.live.get(key)
        return Entry(ask=running.ask, standing=running.standing()) if running else None

    holders = [
        key for key, one in world.live.items() if not one.bound.keys().isdisjoint(loss.clusters)
    ]
    entries = drill.in_order(made for key in holders if (made := entry(key)) is not None)
    tally, commitments = drill.Tally(loss), world.commitments.copy()
    numbers = itertools.count(world.seq + 1)
    for at in range(0, len(entries), CHUNK):
        some = entries[at : at + CHUNK]
        rehearsed = evacuation.rehearse(
            some, world.snapshot(), commitments, loss.clusters, numbers.__next__, others=entry
        )
        tally.add(rehearsed, {one.key: one.ask.tier for one in some})
    return tally.outcome(A_MINUTE)


# -- lost, and back --------------------------------------------------------------------------------


def _lost(inputs: Inputs) -> Result:
    events = (
        Event(LOST_S, EventKind.LOST, LARGEST),
        Event(BACK_S, EventKind.RETURNED, LARGEST),
    )
    without_node = _without_node(_settled(inputs))
    played = run.run(replace(inputs, events=events, end_s=END_S))
    lacked = {
        life.work.id: sum(
            wait.copies
            for wait in life.waits
            if (wait.end_s is None or wait.end_s > wait.start_s) and (wait.end_s or END_S) > LOST_S
        )
        for life in played.lives
        if life.work.tier is Tier.RESERVED
    }
    beyond = {name: lacked.pop(name) for name in sorted(without_node) if lacked.get(name)}
    notes: dict[str, Any] = {
        "Reserved copies that no node could hold": {
            f"{copies} x {without_node[name]} GPUs": name for name, copies in beyond.items()
        }
    }
    for tier in Tier:
        at = [
            _copies(played, tier, moment_s) for moment_s in (LOST_S - 1, LOST_S, BACK_S - 1, END_S)
        ]
        names = ("before", "at once", "before the return", "after it")
        notes[f"{tier} copies"] = dict(zip(names, at, strict=True))
    return Result("N1r", ours=sum(lacked.values()), notes=notes)


def _without_node(world: Simulation) -> dict[str, int]:
    """Reserved work of the largest cluster that no node of the others could hold if all work of
    tier Preemptible left -> GPUs of one copy."""
    free = {name: _free_of_lent(world, name) for name in world.fleet.members if name != LARGEST}
    return {
        one.work.id: one.ask.shape.requests["nvidia.com/gpu"]
        for one in world.live.values()
        if one.ask.tier is Tier.RESERVED
        and LARGEST in one.bound
        and not any(
            world.fleet.members[name].heights(one.ask.shape, left).any()
            for name, left in free.items()
        )
    }


def _free_of_lent(world: Simulation, cluster: str) -> Ints:
    """As `Member.free`, if all work of tier Preemptible had left the cluster."""
    member = world.fleet.members[cluster]
    free = member.free.copy()
    for one in world.live.values():
        if one.ask.tier is Tier.PREEMPTIBLE:
            each = [one.ask.shape.requests[name] for name in member.names]
            for node, copies in one.bound.get(cluster, ()):
                free[:, node] += np.array(each) * copies
    return free


def _copies(played: Played, tier: Tier, at_s: int) -> int:
    """Copies of a tier that have a place at the end of an instant."""
    lives: Iterator[Life] = (life for life in played.lives if life.work.tier is tier)
    stays = (stay for life in lives for stay in life.stays)
    return sum(
        stay.copies
        for stay in stays
        if stay.start_s <= at_s and (stay.end_s is None or stay.end_s > at_s)
    )
