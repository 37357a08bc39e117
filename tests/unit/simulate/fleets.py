"""Small fleets and works for the tests of the simulator, and a run that is always checked."""

from collections.abc import Iterable
from typing import Any

from federator.model.ask import Tier
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.resources import CPU, GPU, MEMORY, PODS, Resources
from federator.simulate.demand import Work
from federator.simulate.engine import run
from federator.simulate.engine.shapes import MIB
from federator.simulate.inputs import Event, Inputs
from federator.simulate.outcome import Life, SimulationResult
from tests.unit.simulate import conservation


def nodes(
    count: int, cpu: int = 4000, memory: int = 16_384, gpu: int = 0, model: str = ""
) -> NodeRow:
    size = Resources({CPU: cpu, MEMORY: memory * MIB, GPU: gpu, PODS: 110})
    return NodeRow(count, size, size, model=model)


def cluster(name: str, *rows: NodeRow, **fields: Any) -> ClusterView:
    return ClusterView(name, capacity=Capacity(rows or (nodes(1),)), **fields)


def job(name: str, submit_s: int, runtime_s: int | None, shards: int = 1, **fields: Any) -> Work:
    settings: dict[str, Any] = {
        "cpu_milli": 1000,
        "memory_mib": 1024,
        "project": "ads",
        "kind": "job",
    }
    settings |= {"namespace": "team-a", "tier": Tier.ON_DEMAND, "home_cluster": ""} | fields
    return Work(id=name, submit_s=submit_s, runtime_s=runtime_s, shards=shards, **settings)


def service(name: str, submit_s: int, copies: int, **fields: Any) -> Work:
    return job(name, submit_s, None, copies, **({"kind": "service"} | fields))


def inputs_of(
    clusters: Iterable[ClusterView], works: Iterable[Work], *events: Event, **fields: Any
) -> Inputs:
    by_name = {view.name: view for view in sorted(clusters, key=lambda view: view.name)}
    ordered = tuple(sorted(works, key=lambda work: work.submit_s))
    return Inputs("test", by_name, ordered, events=events, **fields)


def simulate(inputs: Inputs) -> SimulationResult:
    """The outcome, after everything in it was found to add up."""
    outcome = run.run(inputs)
    wrong = conservation.broken(inputs, outcome)
    assert not wrong, wrong[:5]
    return outcome


def lives(outcome: SimulationResult) -> dict[str, Life]:
    return {life.work.id: life for life in outcome.lives}
