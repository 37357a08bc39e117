"""Clusters that grow: nodes come for copies that wait, are counted and paid for, and go."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.hub.options import HubOptions
from federator.model.ask import Tier
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement.policy.policies import Rule
from federator.scheduling.cycle import Cycle
from federator.simulate.demand import Scaling, Work
from federator.simulate.engine import autoscaling, run
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Event, EventKind, Inputs
from federator.simulate.outcome import GrownNode, SimulationResult
from federator.simulate.report import figures, forms
from federator.simulate.report.measures import measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from tests.examples import dear_examples
from tests.unit.simulate import growth, intervals
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, service, simulate
from tests.unit.simulate.intervals import ByIntervals
from tests.unit.simulate.recount import Wanted

IDLE_S = 120


def node_class(name: str = "m6i", most: int = 3, **fields: Any) -> NodeClass:
    """A node holds four copies of one core."""
    settings: dict[str, Any] = {"minutes": 2, "price": 3_600_000, **fields}
    size = Resources({"cpu": 4000, "memory": 64 << 30, "pods": 110})
    return NodeClass(name, size, most, **settings)


def grows(name: str = "a", *classes: NodeClass, **fields: Any) -> Any:
    """A cluster with one node of four cores."""
    return cluster(name, nodes(1), scale_up=classes or (node_class(),), **fields)


def under(scale_up: ScaleUp) -> dict[str, Any]:
    """Every work is under a policy that says so."""
    return {"rules": (Rule(Policy(name="p", scale_up=scale_up), cluster_wide=True),)}


def played(fleet: list[Any], works: list[Work], *events: Event, **fields: Any) -> SimulationResult:
    settings: dict[str, Any] = {"idle_s": IDLE_S, **fields}
    return simulate(inputs_of(fleet, works, *events, **settings))


def spans(outcome: SimulationResult) -> list[tuple[int, int | None, int | None]]:
    return [(each.ordered_s, each.ready_s, each.removed_s) for each in outcome.grown or ()]


def test_a_job_starts_when_its_nodes_have_come_and_they_go_when_they_are_empty() -> None:
    outcome = played([grows()], [job("wide", 10, 100, 10)])

    life = lives(outcome)["wide"]
    assert life.start_s == 10 + 120
    assert [(wait.start_s, wait.end_s, wait.reason, wait.copies) for wait in life.waits] == [
        (10, 130, "ScalingUp", 6)
    ]
    assert life.waited_for_nodes == 6
    assert spans(outcome) == [(10, 130, 230 + IDLE_S), (10, 130, 230 + IDLE_S)]


def test_one_node_is_ordered_once_for_all_copies_that_it_holds() -> None:
    works = [job("fills", 0, 1000, 4), *(job(f"w{at}", 5 + at, 50, 1) for at in range(4))]

    outcome = played([grows()], works)

    assert spans(outcome) == [(5, 125, 128 + 50 + IDLE_S - 3)]
    assert [lives(outcome)[f"w{at}"].start_s for at in range(4)] == [125] * 4


def test_copies_beyond_the_most_that_a_class_has_wait_for_room() -> None:
    works = [job("fills", 0, 1000, 4), job("first", 5, 500, 8), job("second", 6, 50, 8)]

    outcome = played([grows("a", node_class(most=2))], works)

    assert lives(outcome)["second"].start_s == 125 + 500
    assert len(spans(outcome)) == 2
    assert lives(outcome)["second"].waits[0].reason == "InsufficientCapacity"


def test_never_waits_for_room_and_when_short_uses_free_room_elsewhere_first() -> None:
    works = [job("fills", 0, 300, 4), service("web", 5, 6)]
    fleet = [grows(), cluster("b", nodes(1))]

    never, short, prefer = (
        played(fleet, works, end_s=200, **under(each))
        for each in (ScaleUp.NEVER, ScaleUp.WHEN_SHORT, ScaleUp.PREFER)
    )

    assert never.grown == ()
    assert sum(stay.copies for stay in lives(never)["web"].stays) == 4
    assert len(short.grown or ()) == 1
    assert {stay.cluster for stay in lives(short)["web"].stays} == {"a", "b"}
    assert len(prefer.grown or ()) >= 1
    assert lives(prefer)["web"].waited_for_nodes >= lives(short)["web"].waited_for_nodes


def test_under_never_a_fleet_decides_as_if_no_cluster_could_grow() -> None:
    works = [job(f"w{at}", 7 * at, 90, 1 + at % 3) for at in range(40)]
    fleet = [grows(), cluster("b", nodes(1))]

    outcome = played(fleet, works, **under(ScaleUp.NEVER))
    bare = played([dataclasses.replace(each, scale_up=()) for each in fleet], works)

    assert outcome.lives == bare.lives


def test_a_node_that_is_used_again_stays() -> None:
    works = [job("fills", 0, 1000, 4), job("w0", 5, 50, 1), job("w1", 125 + 50 + 60, 50, 1)]

    outcome = played([grows()], works)

    assert spans(outcome) == [(5, 125, 285 + IDLE_S)]
    assert lives(outcome)["w1"].wait_s == 0


def test_nodes_that_never_come_are_given_up_and_the_copies_get_another_place() -> None:
    works = [job("fills", 0, 2000, 4), job("other", 0, 300, 4), service("web", 5, 3)]
    fleet = [grows(), cluster("b", nodes(1))]
    silent = Event(0, EventKind.SCALE_UP, "a", delivers=False)

    outcome = played(fleet, works, silent, end_s=900)

    life = lives(outcome)["web"]
    assert spans(outcome) == [(5, None, None)]
    assert (life.waits[0].end_s, life.waits[0].reason) == (5 + 240, "ScalingUp")
    assert [(stay.cluster, stay.start_s) for stay in life.stays] == [("b", 300)]


def test_a_late_class_is_not_counted_on_until_a_node_comes() -> None:
    late_s = 5 + 2 * 120
    works = [job("fills", 0, 4000, 4), job("w0", 5, 50, 1), job("w1", late_s + 10, 50, 1)]
    silent = Event(0, EventKind.SCALE_UP, "a", delivers=False)
    again = Event(late_s + 20, EventKind.SCALE_UP, "a", delivers=True)

    outcome = played([grows()], works, silent, again)

    # no node is ordered for w1, and w0 waits on: there is no other place
    assert spans(outcome) == [(5, late_s + 140, late_s + 190 + IDLE_S)]
    assert [wait.reason for wait in lives(outcome)["w0"].waits] == ["ScalingUp", "Unschedulable"]
    assert {wait.reason for wait in lives(outcome)["w1"].waits} == {"InsufficientCapacity"}
    assert lives(outcome)["w1"].start_s == late_s + 140


def test_nodes_that_are_waited_for_come_once_the_autoscaler_delivers_again() -> None:
    works = [job("fills", 0, 4000, 4), job("w0", 5, 50, 1)]
    silent = Event(0, EventKind.SCALE_UP, "a", node_class="m6i", delivers=False)
    again = Event(60, EventKind.SCALE_UP, "a", node_class="m6i", delivers=True)

    outcome = played([grows()], works, silent, again)

    assert spans(outcome) == [(5, 180, 230 + IDLE_S)]


def test_a_price_that_changes_is_paid_from_then_on() -> None:
    works = [job("fills", 0, 4000, 4), service("web", 0, 1)]
    dearer = Event(180, EventKind.PRICE_CHANGED, "a", price_per_hour=36.0, node_class="m6i")

    outcome = played([grows()], works, dearer, end_s=240)

    assert spans(outcome) == [(0, 120, None)]
    assert outcome.costs == {"a": round(100 * (60 * 3.6 + 60 * 36) / 3600)}


def test_the_cheapest_class_for_a_copy_is_ordered_and_a_change_of_prices_counts() -> None:
    classes = (node_class("dear", price=5), node_class("fair", price=3))
    works = [job("fills", 0, 4000, 4), job("w0", 5, 1000, 4), job("w1", 300, 500, 4)]
    dearer = Event(200, EventKind.PRICE_CHANGED, "a", price_per_hour=1.0, node_class="fair")

    outcome = played([grows("a", *classes)], works, dearer)

    assert [each.node_class for each in outcome.grown or ()] == ["fair", "dear"]


def test_a_cluster_that_is_lost_takes_its_nodes_and_what_waited_there_goes_elsewhere() -> None:
    works = [job("fills", 0, 1000, 4), service("web", 0, 5), job("late", 150, 1000, 4)]
    lost, back = Event(160, EventKind.LOST, "a"), Event(400, EventKind.RETURNED, "a")

    outcome = played([grows()], works, lost, back, end_s=700)

    first = outcome.grown or ()
    assert all(each.removed_s == 160 for each in first if (each.ready_s or 999) <= 160)
    assert [each.ordered_s for each in first if each.ready_s is None] == [150]
    assert lives(outcome)["late"].start_s is not None
    assert lives(outcome)["web"].end_s is None


def test_nodes_stay_when_the_cluster_gets_further_ones() -> None:
    works = [job("fills", 0, 1000, 4), service("web", 0, 5)]
    further = cluster("a", nodes(2), scale_up=(node_class(),))
    more = Event(150, EventKind.GROWN, "a", further)

    outcome = played([grows()], works, more, end_s=500)

    assert [stay.end_s for stay in lives(outcome)["web"].stays][-1] is None
    assert sum(each.copies for each in outcome.happened) == 0
    assert all(ready_s == 120 for _, ready_s, _ in spans(outcome))


def test_copies_that_wait_in_a_drained_cluster_get_another_place() -> None:
    works = [job("fills", 0, 5000, 4), job("other", 0, 30, 4), service("web", 5, 2)]
    drained = Event(40, EventKind.DRAINED, "a")

    outcome = played([grows(), cluster("b", nodes(1))], works, drained, end_s=200)

    assert {stay.cluster for stay in lives(outcome)["web"].stays} == {"b"}
    assert lives(outcome)["web"].start_s == 40


def test_the_hub_gives_up_copies_after_the_same_times() -> None:
    options = HubOptions()
    assert options.unschedulable_after_s == autoscaling.UNSCHEDULABLE_AFTER_S
    assert options.unschedulable_decay_s == autoscaling.CAPPED_S


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 6), st.booleans())
@dear_examples()
def test_the_nodes_that_decisions_promise_are_those_that_are_ordered(
    counts: list[int], most: int, spread: bool
) -> None:
    """Of equal copies; services and jobs, in one cycle or in several."""
    works = [
        service(f"w{at}", at * spread, count) if at % 2 else job(f"w{at}", at * spread, 900, count)
        for at, count in enumerate(counts)
    ]
    promised: list[int] = []

    def watch(_: Simulation, made: Cycle) -> None:
        for decided in made.decided:
            promised.extend(added.nodes for added in decided.decision.additions)

    fleet = [grows("a", node_class(most=most)), cluster("b", nodes(1))]
    outcome = run.run(inputs_of(fleet, works, end_s=60), watch=watch)

    assert len(outcome.grown or ()) == sum(promised) <= most


# -- a count of their own --------------------------------------------------------------------------


@st.composite
def fleets(draw: st.DrawFn) -> list[Any]:
    classes = [
        node_class(
            name,
            draw(st.integers(0, 3)),
            minutes=draw(st.integers(1, 3)),
            price=draw(st.sampled_from([None, 1_000_000, 7_200_000])),
        )
        for name in draw(st.sampled_from(["x", "xy"]))
    ]
    return [grows("a", *classes), cluster("b", nodes(1), scale_up=tuple(classes[:1]))]


@st.composite
def scenarios(draw: st.DrawFn) -> Inputs:
    works = []
    for number in range(draw(st.integers(1, 9))):
        submit_s, copies = draw(st.integers(0, 500)), draw(st.integers(1, 9))
        fields: dict[str, Any] = {"cpu_milli": draw(st.sampled_from([500, 1000, 3000]))}
        fields |= {"tier": draw(st.sampled_from(list(Tier))), "priority": draw(st.integers(0, 1))}
        if draw(st.booleans()):
            curve = (Scaling(submit_s + draw(st.integers(1, 200)), draw(st.integers(1, 9))),)
            works.append(service(f"w{number}", submit_s, copies, curve=curve, **fields))
        else:
            works.append(job(f"w{number}", submit_s, draw(st.integers(1, 300)), copies, **fields))
    at_s = st.integers(1, 800)
    kinds = {
        "price": lambda: Event(
            draw(at_s), EventKind.PRICE_CHANGED, "a", price_per_hour=2.5, node_class="x"
        ),
        "never": lambda: Event(draw(at_s), EventKind.SCALE_UP, "a", delivers=False),
        "again": lambda: Event(draw(at_s), EventKind.SCALE_UP, "a", delivers=True),
        "lost": lambda: Event(draw(at_s), EventKind.LOST, "a"),
        "back": lambda: Event(draw(at_s), EventKind.RETURNED, "a"),
        "drained": lambda: Event(draw(at_s), EventKind.DRAINED, draw(st.sampled_from("ab"))),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), max_size=3))
    events = sorted((kinds[kind]() for kind in chosen), key=lambda event: event.at_s)
    return inputs_of(
        draw(fleets()),
        works,
        *events,
        end_s=1000,
        idle_s=draw(st.sampled_from([60, 180])),
        warm_up_s=draw(st.sampled_from([0, 200])),
        price_per_hour={"a": 1.5} if draw(st.booleans()) else {},
        **under(draw(st.sampled_from(ScaleUp))),
    )


@given(scenarios())
@dear_examples()
def test_every_figure_agrees_with_a_count_of_its_own(inputs: Inputs) -> None:
    outcome = simulate(inputs)
    intervals.compare(ByIntervals(inputs, outcome), measure(outcome))


@given(scenarios())
@dear_examples()
def test_the_count_by_intervals_is_that_of_every_second(inputs: Inputs) -> None:
    outcome = simulate(inputs)
    by_seconds, by_intervals = Wanted(inputs, outcome), ByIntervals(inputs, outcome)
    assert by_intervals.figures() == pytest.approx(by_seconds.figures())


def test_node_hours_and_cost_of_some_hundred_works_are_those_of_a_count_of_its_own() -> None:
    """With a warm-up, in which nodes come that stay, and a price that changes later."""
    works = [
        job(f"w{at}", 11 * at + at % 17, 60 + 37 * at % 400, 1 + at * 7 % 5) for at in range(300)
    ]
    dearer = Event(1800, EventKind.PRICE_CHANGED, "a", price_per_hour=9.0, node_class="m6i")
    inputs = inputs_of(
        [grows("a", node_class(most=6)), cluster("b", nodes(2))],
        works,
        dearer,
        idle_s=IDLE_S,
        warm_up_s=900,
    )
    outcome = simulate(inputs)

    found = figures.values(measure(outcome))
    seconds = range(900, outcome.horizon_s)
    there = {at_s: _there(outcome, at_s) for at_s in seconds}
    cost = sum(count * (3.6 if at_s < 1800 else 9.0) / 3600 for at_s, count in there.items())
    assert found["grown_node_s"] == sum(there.values()) > 0
    assert found["cost_grown"] == pytest.approx(cost, abs=0.01)
    assert found["cost"] == found["cost_grown"]  # no other node has a price
    assert _there(outcome, 899) > 0
    assert found["grown_peak"] == max(there.values()) <= 6
    intervals.compare(ByIntervals(inputs, outcome), measure(outcome))


def _there(outcome: SimulationResult, at_s: int) -> int:
    return sum(growth.is_there(each, at_s) for each in outcome.grown or ())


def test_a_node_that_is_ordered_twice_is_found() -> None:
    inputs = inputs_of([grows()], [job("fills", 0, 300, 4), job("w", 5, 50, 1)], idle_s=IDLE_S)
    outcome = simulate(inputs)
    twice = (*(outcome.grown or ()), GrownNode("a", "m6i", 5, 125, 300))

    wrong = list(growth.broken(inputs, dataclasses.replace(outcome, grown=twice)))

    assert wrong == ["at 5 s 2 nodes are on their way for 1 copies"]


# -- scenarios -------------------------------------------------------------------------------------

SCENARIO = """
fleet:
  clusters:
  - {name: a, nodes: [{count: 1, cpu: 4}], scaleUp: [
       {name: m6i, shape: {cpu: "16"}, max: 5, minutes: 2, pricePerHour: "0.77"}]}
  - {name: b, nodes: [{count: 1, cpu: 4}]}
measures: {grown_peak: {most: 5}}
demand:
  generate: [{works: 5, over: 1h, tenants: {ads: 1}, shard: {cpu: 6}, runtime: {median: 10m}}]
"""


def read(tmp_path: Path, *settings: str) -> Inputs:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return loading.inputs(loading.changed(loading.document(path), settings), path, {})


def test_a_scenario_states_classes_as_a_member_cluster_does(tmp_path: Path) -> None:
    inputs = read(tmp_path, "fleet.scaleDownAfter=5m")
    stated = inputs.clusters["a"].scale_up

    size = Resources({"cpu": 16_000, "pods": 110})
    assert stated == (NodeClass("m6i", size, 5, 2, 770_000),)
    assert inputs.idle_s == 300
    outcome = simulate(inputs)
    assert all(life.end_s for life in outcome.lives)  # no node of the description holds one
    assert figures.values(measure(outcome))["cost_grown"] > 0


SCALE_UP = "fleet.clusters[0].scaleUp"


@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        ("fleet.clusters.0.scaleUp.0.max=-1", f"{SCALE_UP}[0].max", "greater than or equal to 0"),
        ("fleet.clusters.0.scaleUp.0.minutes=0", f"{SCALE_UP}[0].minutes", "greater than or equal"),
        ("fleet.clusters.0.scaleUp.0.shape={}", f"{SCALE_UP}[0]", "shape names no amount above 0"),
        ("fleet.clusters.0.scaleUp.0.pricePerHour=x", f"{SCALE_UP}[0].pricePerHour", "pattern"),
        ("fleet.clusters.0.scaleUp.0.nodes=3", f"{SCALE_UP}[0].nodes", "unknown field"),
        (
            "fleet.clusters.0.scaleUp=[]",
            "measures.grown_peak",
            "no cluster grows: none has scaleUp",
        ),
        ("fleet.scaleDownAfter=10s", "fleet.scaleDownAfter", "is shorter than a minute"),
        (
            "events=[{at: 1, scaleUp: {cluster: b, delivers: false}}]",
            "events[0].scaleUp.cluster",
            "cluster 'b' has no scaleUp",
        ),
        (
            "events=[{at: 1, scaleUp: {cluster: c, delivers: false}}]",
            "events[0].scaleUp.cluster",
            "there is no cluster 'c'",
        ),
        ("events=[{at: 1, scaleUp: {cluster: a}}]", "events[0].scaleUp.delivers", "required"),
        (
            "events=[{at: 1, scaleUp: {cluster: a, class: m6, delivers: false}}]",
            "events[0].scaleUp.class",
            "has no class 'm6' (is it 'm6i'?)",
        ),
        (
            "events=[{at: 1, priceChanged: {cluster: b, class: m6i, price: 1}}]",
            "events[0].priceChanged.class",
            "scaleUp of cluster 'b' has no class 'm6i'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_path(
    tmp_path: Path, setting: str, path: str, message: str
) -> None:
    with pytest.raises(InvalidScenario) as caught:
        read(tmp_path, setting)
    text = str(caught.value)
    assert f"s.yaml: {path}: " in text
    assert message in text


def test_a_class_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    twice = "{name: m6i, shape: {cpu: 16}, max: 5, minutes: 2}"
    with pytest.raises(InvalidScenario, match=r"scaleUp\[1\].name: class 'm6i' is given twice"):
        read(tmp_path, f"fleet.clusters.0.scaleUp=[{twice}, {twice}]")


def test_the_report_has_a_row_for_each_node_and_class() -> None:
    outcome = played([grows()], [job("wide", 10, 100, 10)], warm_up_s=20)
    measures = measure(outcome)
    content = forms.files(measures, Provenance("1", "s.yaml"))

    assert content["nodes.csv"].decode().splitlines() == [
        "cluster,class,ordered_s,ready_s,removed_s,node_s,cost",
        "a,m6i,10,130,350,0,0.0",
        "a,m6i,10,130,350,0,0.0",
    ]
    assert json.loads(content["report.json"])["grown"] == [
        {
            "cluster": "a",
            "class": "m6i",
            "ordered": 0,
            "came": 2,
            "removed": 2,
            "peak": 2,
            "nodeSeconds": 0,
            "pricePerHour": 3.6,
            "cost": 0.0,
        }
    ]
    assert "Nodes added" in content["report.html"].decode()
    bare = forms.files(measure(played([cluster("a")], [job("w", 0, 5)])), Provenance("1", "s"))
    assert "nodes.csv" not in bare
    assert "grown" not in json.loads(bare["report.json"])


def test_nodes_that_a_member_cluster_has_of_a_class_count_towards_its_most(tmp_path: Path) -> None:
    amounts = '{cpu: "16", memory: 64Gi, pods: "110"}'
    nodes_ = f"[{{count: 4, allocatable: {amounts}, free: {amounts}}}]"
    status = f"{{capacity: {{machines: {{m6i: 4}}, nodes: {nodes_}}}}}"
    spec = f"{{scaleUp: [{{name: m6i, shape: {amounts}, max: 5, minutes: 2}}]}}"
    fleet = (
        "fleet={objects: [{apiVersion: federation.pinterest.com/v1alpha1, kind: MemberCluster, "
        f"metadata: {{name: a}}, spec: {spec}, status: {status}}}]}}"
    )
    demand = (
        "demand={generate: [{works: 8, over: 1m, tenants: {ads: 1}, shard: {cpu: 16}, "
        "runtime: {median: 1h, sigma: 0}}]}"
    )
    outcome = simulate(read(tmp_path, fleet, demand))

    assert len(outcome.grown or ()) == 1
    assert sum(life.waited_for_nodes for life in outcome.lives) == 1
