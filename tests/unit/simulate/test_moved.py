"""Copies moved: what counts as one, and the same number in every form of the results."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.simulate.demand import Scaling
from federator.simulate.inputs import Event, EventKind
from federator.simulate.outcome import End, Life, Stay, Wait
from federator.simulate.report import figures, forms, moving
from federator.simulate.report.measures import Measures, measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from federator.simulate.sweep import plan, running
from tests.unit.simulate.fleets import cluster, inputs_of, job, nodes, service, simulate


def drained(*works: Any, events: tuple[Event, ...] = (), **fields: Any) -> Measures:
    """Cluster a, and b of the same size that takes work from second 5 on; a is drained at 10."""
    fleet = [cluster("a", nodes(40)), cluster("b", nodes(40), cordoned=True)]
    back = Event(5, EventKind.RETURNED, "b")
    events = events or (Event(10, EventKind.DRAINED, "a"),)
    return measure(simulate(inputs_of(fleet, works, back, *events, **({"end_s": 100} | fields))))


def test_copies_of_a_service_that_leave_a_drained_cluster_have_moved() -> None:
    found = drained(service("web", 0, 100))

    assert (found.moves, sum(found.moved), found.displaced) == (100, 100, 0)


def test_copies_that_are_lost_with_their_cluster_have_not_moved() -> None:
    found = drained(
        service("web", 0, 100), job("job", 0, 50, 3), events=(Event(10, EventKind.LOST, "a"),)
    )

    assert (found.moves, sum(found.moved), found.displaced) == (0, 0, 103)


def test_a_service_that_shrinks_and_grows_elsewhere_has_not_moved() -> None:
    curve = (Scaling(20, 1), Scaling(30, 5))
    drain = Event(25, EventKind.DRAINED, "a")
    found = drained(service("web", 0, 5, curve=curve), events=(drain,))

    assert found.moves == 1  # the one copy that stood in a when its drain began


def test_moves_in_the_warm_up_are_not_measured() -> None:
    assert drained(service("web", 0, 100), warm_up_s=21).moves == 25  # those of second 25


def test_a_job_that_made_way_and_starts_elsewhere_later_has_moved() -> None:
    stays = (Stay("a", 3, 0, 10), Stay("b", 3, 40, 90))
    life = Life(job("job", 0, 50, 3), End.COMPLETED, 0, 90, stays, (Wait(10, 40, "Preempted", 3),))

    assert list(moving.moves(life)) == [(40, 3)]


def test_a_job_that_starts_again_where_it_was_has_not_moved() -> None:
    stays = (Stay("a", 3, 0, 10), Stay("a", 3, 40, 90))
    life = Life(job("job", 0, 50, 3), End.COMPLETED, 0, 90, stays, (Wait(10, 40, "Preempted", 3),))

    assert list(moving.moves(life)) == []


def test_only_as_many_as_were_ended_by_a_decision_have_moved() -> None:
    """Two of the five that start in c were ended in b; three were lost with a."""
    stays = (Stay("a", 3, 0, 10, lost=True), Stay("b", 2, 0, 10), Stay("c", 5, 20, 90))
    life = Life(service("web", 0, 5), End.RUNNING, 0, None, stays, (Wait(10, 20, "X", 5),))

    assert list(moving.moves(life)) == [(20, 2)]
    assert list(moving.displaced(life)) == [(10, 3)]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    stream = {
        "name": "web", "kind": "service", "works": 3, "over": "1m", "tenants": {"ads": 1},
        "shards": {"5": 1}, "shard": {"cpu": 1},
    }  # fmt: skip
    fleet = {"clusters": [{"name": n, "nodes": [{"count": 3, "cpu": 8}]} for n in ("a", "b")]}
    document = {
        "until": "1h",
        "fleet": fleet,
        "demand": {"generate": [stream]},
        "events": [{"at": "10m", "drained": "a"}],
        "measures": {"moves": {"least": 1}},
    }
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_all_forms_say_the_same_number(scenario: Path, tmp_path: Path) -> None:
    found = measure(simulate(loading.inputs(loading.document(scenario), scenario, {})))
    document = forms.document(found, Provenance("1"))
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(yaml.safe_dump({"scenario": "s.yaml", "vary": {"seed": [0]}}))
    (task,) = plan.read(sweep).tasks
    tables = {headers[0]: {row[0]: row[1] for row in rows} for headers, rows in forms.tables(found)}
    page = forms.files(found, Provenance("1"))["report.html"].decode()

    moves = found.moves
    assert moves > 0
    assert document["figures"]["moves"] == moves
    assert document["measures"][0]["value"] == moves
    assert running.simulated(task)["figures"]["moves"] == moves
    assert tables["FIGURE"]["copies moved"] == str(moves)
    assert sum(found.moved) == moves
    assert f"started in another: {moves} in all" in page
    assert figures.missed(found) == ()
