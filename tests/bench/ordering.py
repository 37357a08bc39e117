"""ORD: what the order of a batch costs, against the most that any placement could reach.

One batch of up to 256 asks (the hub's batch size) is decided by the engine on an empty fleet, once
for each candidate order, and compared with an upper bound: the linear relaxation over classes of
equal asks x kinds of machines. The gap is told by resources (a copy weighs its dominant share of
the fleet) and by copies, each with a bound of its own.

`python -m tests.bench.ordering --seeds 20` prints the table that docs/decisions/0001-batch-order.md
rests on.
"""

import argparse
import csv
import gzip
import itertools
import os
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import highspy
import numpy as np

from federator.hub.options import HubOptions
from federator.model.ask import Ask, PodShape
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow
from federator.model.policy import Policy
from federator.model.resources import CPU, GPU, MEMORY, PODS, Resources
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from federator.placement.selection import filters
from federator.scheduling import ordering
from tests.bench.harness import Result
from tests.controlplane import build
from tests.unit.placement.fleets import fleet, service

ROOT: Final = Path(__file__).parents[2]
LOADS: Final = (0.5, 0.8, 0.95)
"""Demand over the fleet's total, of the resource where this is greatest."""
OVERLOAD: Final = 1.3
SEEDS: Final = 6
ASKS_MOST: Final = HubOptions().batch_size
MI: Final = 1 << 20
PROJECTS: Final = {"large": 6, "middle": 3, "small": 1}
"""Projects and how many of ten asks are theirs."""

Kind = tuple[ClusterView, NodeRow]
Class = tuple[PodShape, Policy]
Order = Callable[[Sequence[Ask], FleetSnapshot], list[Ask]]
Trial = tuple[str, float, str]
"""Fleet, load and order."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet and what a batch is drawn from: `draw` gives the shape and the policy of one more
    ask.
    """

    snapshot: FleetSnapshot
    draw: Callable[[random.Random], Class]
    greedy: bool = False
    """Whether the asks that fit on few nodes are all of one project, instead of everybody's."""

    @property
    def kinds(self) -> list[Kind]:
        views = self.snapshot.clusters.values()
        return [(view, row) for view in views if view.capacity for row in view.capacity.rows]

    @property
    def total(self) -> Resources:
        amounts: Counter[str] = Counter()
        for _, row in self.kinds:
            amounts.update({name: row.count * amount for name, amount in row.allocatable.items()})
        return Resources({name: amount for name, amount in amounts.items() if name != PODS})


Maker = Callable[[random.Random], Scene]


@dataclass(slots=True)
class Score:
    """Percentages of one order, one entry per seed."""

    gap: list[float] = field(default_factory=list)
    copies_gap: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    """What the worst served project got of its own demand, by resources."""
    order_us: list[float] = field(default_factory=list)
    """Time of ordering, in microseconds per ask."""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    if "ORD" not in wanted:
        return
    notes: dict[str, object] = {}
    scenes: dict[str, Maker] = {"mixed": mixed}
    try:
        scenes["openb"] = openb()
    except build.Unavailable as absent:
        notes["openb"] = f"left out: {absent}"
    found = _scores(
        scenes,
        LOADS,
        max(1, round(SEEDS * scale)),
        {"without": _without, "as the hub": _as_the_hub},
    )
    for (scene, load, order), one in found.items():
        notes[f"{scene}, load {load}, {order}"] = round(statistics.mean(one.gap), 2)
    yield Result("ORD", _gap(found, "as the hub"), _gap(found, "without"), notes)


# -- orders ----------------------------------------------------------------------------------------


def _without(asks: Sequence[Ask], snapshot: FleetSnapshot) -> list[Ask]:
    """Tier, priority, share, age, key."""
    return ordering.order(asks, Commitments())


def _ranked(counted: Callable[[Ask, FleetSnapshot], int], *, first: bool) -> Order:
    """The same with fewest places before share (as if it were priority) or after it (as if it were
    age).
    """

    def order(asks: Sequence[Ask], snapshot: FleetSnapshot) -> list[Ask]:
        by_uid = {ask.uid: ask for ask in asks}
        count = {ask.uid: counted(ask, snapshot) for ask in asks}
        if first:
            dressed = [replace(ask, priority=-count[ask.uid]) for ask in asks]
        else:
            dressed = [replace(ask, created_s=count[ask.uid] * 1e6 + ask.created_s) for ask in asks]
        return [by_uid[ask.uid] for ask in ordering.order(dressed, Commitments())]

    return order


def _clusters_with_room(ask: Ask, snapshot: FleetSnapshot) -> int:
    return len(
        {
            view.name
            for view, row in _open_kinds(ask, snapshot)
            if row.allocatable.fits(ask.shape.requests)
        }
    )


def _nodes_with_room(ask: Ask, snapshot: FleetSnapshot) -> int:
    return sum(
        row.count
        for _, row in _open_kinds(ask, snapshot)
        if row.allocatable.fits(ask.shape.requests)
    )


def _open_kinds(ask: Ask, snapshot: FleetSnapshot) -> Iterator[Kind]:
    for view in snapshot.clusters.values():
        if view.capacity and filters.admitted(ask, view):
            yield from ((view, row) for row in view.capacity.rows)


def _as_the_hub(asks: Sequence[Ask], snapshot: FleetSnapshot) -> list[Ask]:
    """As the hub orders them."""
    commitments = Commitments()
    return ordering.order(asks, commitments, commitments.open(snapshot))


ORDERS: Final[Mapping[str, Order]] = {
    "without": _without,
    "clusters, after share": _ranked(_clusters_with_room, first=False),
    "clusters, before share": _ranked(_clusters_with_room, first=True),
    "nodes, after share": _ranked(_nodes_with_room, first=False),
    "nodes, before share": _ranked(_nodes_with_room, first=True),
    "as the hub": _as_the_hub,
}


# -- fleets and batches ----------------------------------------------------------------------------


def openb() -> Maker:
    """The machines of openb as 8 clusters by GPU model; asks are its pods with whole GPUs or none,
    bound to the models that they name. Raises build.Unavailable where the data are not.
    """
    data = (
        Path(os.environ.get("FEDERATOR_DATA", ROOT.parent / "shared" / "data")) / "openb-8-clusters"
    )
    if not data.is_dir():
        raise build.Unavailable(
            "The openb data are not there: set FEDERATOR_DATA to the folder that holds them."
        )
    rows: dict[str, list[NodeRow]] = {}
    with (data / "node_grades.csv").open() as file:
        for one in csv.DictReader(file):
            amounts = _amounts(int(one["cpu_milli"]), int(one["memory_mib"]), int(one["gpu"]))
            rows.setdefault(one["cluster"], []).append(NodeRow(int(one["nodes"]), amounts, amounts))
    with (data / "clusters.csv").open() as file:
        models = {
            one["gpu_model"]: one["cluster"] for one in csv.DictReader(file) if one["gpu_model"]
        }
    with gzip.open(data / "workloads.csv.gz", "rt") as file:
        pods = [
            row
            for row in csv.DictReader(file)
            if row["cpu_milli"] and float(row["gpu"] or 0).is_integer()
        ]
    classes: list[Class] = []
    for pod in pods:
        amounts = _amounts(
            int(pod["cpu_milli"]), int(pod["memory_mib"]), int(float(pod["gpu"] or 0)), pods=1
        )
        bound = tuple(
            sorted(models[model] for model in pod["gpu_models"].split("|") if model in models)
        )
        classes.append((PodShape(amounts), Policy(names=bound)))
    snapshot = fleet(*(_view(name, own) for name, own in sorted(rows.items())))
    scene = Scene(snapshot, lambda rng: rng.choice(classes))
    return lambda rng: scene


MACHINES: Final = {
    "small": (16_000, 64 << 10, 0),
    "large": (96_000, 384 << 10, 0),
    "memory": (32_000, 512 << 10, 0),
    "t4": (48_000, 192 << 10, 2),
    "a100": (96_000, 768 << 10, 8),
}
"""Milli-cores, MiB and GPUs of one machine of each kind."""
SHAPES: Final = (
    (8, (1_000, 2 << 10, 0)),
    (6, (4_000, 16 << 10, 0)),
    (3, (14_000, 40 << 10, 0)),
    (3, (40_000, 128 << 10, 0)),
    (2, (8_000, 200 << 10, 0)),
    (4, (6_000, 32 << 10, 1)),
    (2, (24_000, 128 << 10, 4)),
    (1, (80_000, 512 << 10, 8)),
)
"""How often, and milli-cores, MiB and GPUs of one copy."""


def free(rng: random.Random) -> Scene:
    """`mixed` with asks that are bound to no cluster."""
    return mixed(rng, bound=0.0)


def greedy(rng: random.Random) -> Scene:
    """`mixed` where one project has all asks that fit on few nodes: fewest places before share
    favours it most.
    """
    return replace(mixed(rng), greedy=True)


def mixed(rng: random.Random, bound: float = 0.25) -> Scene:
    """Twelve clusters of one to three kinds of machines each. A quarter of the asks is bound to two
    clusters.
    """
    views = []
    for index in range(12):
        own = rng.sample(sorted(MACHINES), rng.randint(1, 3))
        rows = [
            NodeRow(rng.randint(10, 60), _amounts(*MACHINES[name]), _amounts(*MACHINES[name]))
            for name in own
        ]
        views.append(_view(f"c{index:02d}", rows))
    snapshot = fleet(*views)

    def draw(inner: random.Random) -> Class:
        shape = PodShape(
            _amounts(*inner.choices([s for _, s in SHAPES], [w for w, _ in SHAPES])[0], pods=1)
        )
        named = inner.random() < bound
        names = tuple(sorted(inner.sample(sorted(snapshot.clusters), 2))) if named else ()
        return shape, Policy(names=names)

    return Scene(snapshot, draw)


def _amounts(cpu: int, memory_mi: int, gpus: int, *, pods: int = 250) -> Resources:
    return Resources({CPU: cpu, MEMORY: memory_mi * MI, GPU: gpus, PODS: pods})


def _view(name: str, rows: Sequence[NodeRow]) -> ClusterView:
    return ClusterView(name, capacity=Capacity(rows=tuple(rows)))


def batch(scene: Scene, load: float, rng: random.Random) -> list[Ask]:
    """Asks until the demand reaches `load`, ASKS_MOST at most: their copies are as many as that
    needs.
    """
    total = scene.total
    drawn = [scene.draw(rng) for _ in range(ASKS_MOST)]
    copies = [rng.randint(1, 16) for _ in drawn]
    amounts: Counter[str] = Counter()
    for (shape, _), count in zip(drawn, copies, strict=True):
        amounts.update({name: amount * count for name, amount in shape.requests.items()})
    factor = load / max(amounts[name] / total[name] for name in total)
    asks = []
    for index, ((shape, policy), count) in enumerate(zip(drawn, copies, strict=True)):
        project = _project(scene, shape, rng)
        exact = count * factor
        whole = int(exact) + (rng.random() < exact - int(exact))
        if whole:
            more = {"shape": shape, "project": project, "created_s": float(index)}
            asks.append(service(whole, name=f"w{index:03d}", policy=policy, **more))
    return asks


def _project(scene: Scene, shape: PodShape, rng: random.Random) -> str:
    if not scene.greedy:
        return rng.choices(list(PROJECTS), list(PROJECTS.values()))[0]
    return (
        "large"
        if shape.requests[GPU] > 1 or shape.requests[CPU] >= 40_000
        else rng.choice(("middle", "small"))
    )


# -- the most that can be placed -------------------------------------------------------------------


def upper_bound(asks: Sequence[Ask], scene: Scene, weigh: Callable[[PodShape], float]) -> float:
    """The greatest weight of copies that the machines of each kind, taken as one, could hold in
    fractions.
    """
    demand: Counter[Class] = Counter()
    samples: dict[Class, Ask] = {}
    for ask in asks:
        demand[ask.shape, ask.policy] += ask.count
        samples.setdefault((ask.shape, ask.policy), ask)
    kinds, solver = scene.kinds, highspy.Highs()
    solver.setOptionValue("output_flag", False)
    of_kind: dict[tuple[int, str], list[tuple[int, float]]] = {}
    columns = 0
    for (shape, policy), count in demand.items():
        own: list[int] = []
        for index, (view, row) in enumerate(kinds):
            fit = row.allocatable.fits(shape.requests)
            if not fit or not filters.admitted(samples[shape, policy], view):
                continue
            solver.addVar(0.0, float(min(fit * row.count, count)))
            solver.changeColCost(columns, weigh(shape))
            for name, need in shape.requests.items():
                of_kind.setdefault((index, name), []).append(
                    (columns, need / row.allocatable[name])
                )
            own.append(columns)
            columns += 1
        solver.addRow(
            -highspy.kHighsInf,
            float(count),
            len(own),
            np.array(own, dtype=np.int32),
            np.ones(len(own)),
        )
    for (index, _), terms in of_kind.items():
        at, values = (
            np.array([at for at, _ in terms], dtype=np.int32),
            np.array([value for _, value in terms]),
        )
        solver.addRow(-highspy.kHighsInf, float(kinds[index][1].count), len(terms), at, values)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"the bound was not found: {solver.getModelStatus()}")
    return float(solver.getInfo().objective_function_value)


# -- measuring -------------------------------------------------------------------------------------


def _placed(ordered: Sequence[Ask], snapshot: FleetSnapshot) -> dict[str, int]:
    """Copies of each ask (by uid) that the engine places."""
    ledger = Commitments().open(snapshot)
    decided = (
        (ask, engine.decide(ask, (), snapshot, ledger, seq=seq + 1))
        for seq, ask in enumerate(ordered)
    )
    return {ask.uid: sum(share.count for share in decision.shares) for ask, decision in decided}


def _scores(
    scenes: Mapping[str, Maker], loads: Sequence[float], seeds: int, orders: Mapping[str, Order]
) -> dict[Trial, Score]:
    found: dict[Trial, Score] = {}
    for name, load in itertools.product(scenes, loads):
        scores = {order: found.setdefault((name, load, order), Score()) for order in orders}
        for seed in range(seeds):
            rng = random.Random(f"{name} {load} {seed}")
            scene = scenes[name](rng)
            _score(scene, batch(scene, load, rng), orders, scores)
    return found


def _score(
    scene: Scene, asks: Sequence[Ask], orders: Mapping[str, Order], scores: Mapping[str, Score]
) -> None:
    total = scene.total

    def weigh(shape: PodShape) -> float:
        return 100.0 * max(
            need / total[name] for name, need in shape.requests.items() if name in total
        )

    most, most_copies = upper_bound(asks, scene, weigh), upper_bound(asks, scene, lambda shape: 1.0)
    for name, order in orders.items():
        begun = time.process_time()
        ordered = order(asks, scene.snapshot)
        spent = time.process_time() - begun
        placed = _placed(ordered, scene.snapshot)
        weights = {ask.uid: placed[ask.uid] * weigh(ask.shape) for ask in asks}
        score = scores[name]
        score.gap.append(100.0 * (1 - sum(weights.values()) / most))
        score.copies_gap.append(100.0 * (1 - sum(placed.values()) / most_copies))
        score.order_us.append(1e6 * spent / len(asks))
        wanted: defaultdict[str, float] = defaultdict(float)
        got: defaultdict[str, float] = defaultdict(float)
        for ask in asks:
            wanted[ask.project] += ask.count * weigh(ask.shape)
            got[ask.project] += weights[ask.uid]
        score.worst.append(min(100.0 * got[project] / wanted[project] for project in wanted))


def _gap(found: Mapping[Trial, Score], order: str) -> float:
    """Mean over fleets of the gap by resources at the highest load."""
    return statistics.mean(
        statistics.mean(one.gap) for key, one in found.items() if key[1:] == (LOADS[-1], order)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Orders of a batch, and the gap to the most that could be placed."
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="batches per fleet and load")
    seeds = parser.parse_args().seeds
    scenes = {"openb": openb(), "mixed": mixed, "free": free, "greedy": greedy}
    found = _scores(scenes, (*LOADS, OVERLOAD), seeds, ORDERS)
    print(
        "fleet   load  order                     gap %   worst  copies %  worst project %  us/ask"
    )
    for (scene, load, order), one in found.items():
        gap, copies, project, spent = map(
            statistics.mean, (one.gap, one.copies_gap, one.worst, one.order_us)
        )
        print(
            f"{scene:6} {load:5}  {order:24} {gap:6.2f} {max(one.gap):7.2f} {copies:9.2f} "
            f"{project:16.1f} {spent:7.1f}"
        )


if __name__ == "__main__":
    main()
