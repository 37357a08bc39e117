"""Jobs that fail: they begin again in their place, from their last check-point, until they fail for
good.
"""

import random
from fractions import Fraction
from pathlib import Path

import pytest

from federator.model.ask import Tier
from federator.simulate.demand import Failing
from federator.simulate.engine import run
from federator.simulate.inputs import Event, EventKind
from federator.simulate.outcome import End
from federator.simulate.report import figures, forms
from federator.simulate.report.measures import measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.traces import loading as traces
from federator.simulate.traces.columns import Columns
from federator.simulate.traces.problems import TraceError
from federator.simulate.traces.works import Reading, Trace
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, simulate


def test_a_job_that_fails_begins_again_in_its_place_after_a_back_off_that_doubles() -> None:
    """Attempts of 40 s at 0, 50 and 110; the last one of 100 s begins at 190. Its room is not given
    away.
    """
    works = [job("fails", 0, 100, 4, failing=Failing(3, 40)), job("waits", 1, 10)]

    found = lives(simulate(inputs_of([cluster("a")], works)))

    fails = found["fails"]
    assert (fails.start_s, fails.end_s, fails.end) == (0, 290, End.COMPLETED)
    assert (fails.failures, fails.failed_s, fails.backoff_s, fails.restarts) == (
        3,
        120,
        10 + 20 + 40,
        0,
    )
    assert found["waits"].start_s == 290


def test_the_back_off_is_six_minutes_at_most() -> None:
    works = [job("fails", 0, 1, failing=Failing(20, limit=100))]

    (life,) = simulate(inputs_of([cluster("a")], works)).lives

    assert life.backoff_s == 10 + 20 + 40 + 80 + 160 + 320 + 14 * 360


@pytest.mark.parametrize(
    ("limit", "times", "end"), [(1, 1, End.COMPLETED), (1, 2, End.FAILED), (0, 1, End.FAILED)]
)
def test_more_failures_than_the_limit_end_a_job_as_failed(limit: int, times: int, end: End) -> None:
    works = [job("fails", 0, 100, 4, failing=Failing(times, 40, limit)), job("waits", 1, 10)]

    found = lives(simulate(inputs_of([cluster("a")], works)))

    assert found["fails"].end is end
    assert found["fails"].failures == min(times, limit + 1)
    assert found["waits"].start_s == found["fails"].end_s


def test_a_job_without_a_limit_has_that_of_a_pinterestjobset() -> None:
    works = [job("three", 0, 10, failing=Failing(3, 5)), job("four", 0, 10, failing=Failing(4, 5))]

    found = lives(simulate(inputs_of([cluster("a")], works)))

    assert [found[name].end for name in ("three", "four")] == [End.COMPLETED, End.FAILED]


def test_a_failed_attempt_keeps_its_check_points_and_a_job_failed_for_good_loses_them() -> None:
    saved = job("saved", 0, 100, failing=Failing(1, 70), checkpoint_s=30)
    over = job("over", 0, 100, failing=Failing(1, 70, limit=0), checkpoint_s=30)

    found = lives(simulate(inputs_of([cluster("a")], [saved, over])))

    assert (found["saved"].failed_s, found["saved"].end_s) == (10, 70 + 10 + 40)
    assert (found["over"].failed_s, found["over"].end_s) == (70, 70)


def test_a_cluster_lost_in_the_back_off_costs_no_run_time_and_the_next_attempt_waits() -> None:
    lost = Event(45, EventKind.LOST, "a")
    fleet = [cluster("a", nodes(2)), cluster("b", nodes(1))]

    (life,) = simulate(
        inputs_of(fleet, [job("fails", 0, 100, 4, failing=Failing(1, 40))], lost)
    ).lives

    assert [stay.cluster for stay in life.stays] == ["a", "b"]
    assert (life.restarts, life.lost_s, life.end_s) == (0, 0, 150)


def test_a_service_does_not_fail_and_neither_does_a_job_that_never_ends() -> None:
    works = [
        job("forever", 0, None, failing=Failing(1)),
        job("served", 0, None, kind="service", failing=Failing(1, 10)),
        job("ends", 0, None, failing=Failing(1, 10, limit=0)),
    ]

    found = lives(simulate(inputs_of([cluster("a")], works)))

    assert {name: life.end for name, life in found.items()} == {
        "forever": End.RUNNING, "served": End.RUNNING, "ends": End.FAILED,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_while_clusters_come_and_go_everything_adds_up(seed: int) -> None:
    chance = random.Random(seed)
    works = [
        job(
            f"w{number}",
            chance.randrange(300),
            chance.choice([0, 5, 40, 200]),
            chance.randint(1, 6),
            kind=chance.choice(["job", "trainingjob"]),
            checkpoint_s=chance.choice([None, 10]),
            tier=chance.choice(list(Tier)),
            failing=chance.choice(
                [
                    None,
                    Failing(
                        chance.randint(1, 6),
                        chance.choice([None, 1, 30]),
                        chance.choice([None, 0, 9]),
                    ),
                ]
            ),
        )
        for number in range(60)
    ]
    events = [
        Event(at_s, chance.choice([EventKind.LOST, EventKind.RETURNED]), "a")
        for at_s in range(50, 700, 50)
    ]
    inputs = inputs_of([cluster(name, nodes(2)) for name in "abc"], works, *events)

    outcome = simulate(inputs)

    assert outcome == run.run(inputs)
    assert {life.end for life in outcome.lives} <= {
        End.COMPLETED,
        End.FAILED,
        End.UNPLACEABLE,
        End.WAITING,
    }
    assert any(life.end is End.FAILED for life in outcome.lives)


def test_the_report_tells_what_failures_cost() -> None:
    works = [
        job("fails", 0, 100, failing=Failing(2, 40, 1)),
        job("again", 0, 100, failing=Failing(1, 3600)),
    ]
    measures = measure(simulate(inputs_of([cluster("a")], works)))

    assert "3 attempts failed and cost 3 min of run time, 1 job failed for good" in figures.verdict(
        measures
    )
    values = figures.values(measures)
    assert (values["failures"], values["failed"], values["failed_s"], values["completed"]) == (
        3,
        1,
        180,
        1,
    )
    rows = forms.files(measures, Provenance("1", "test", "", {}))["works.csv"].decode().splitlines()
    assert rows[0].endswith(
        "lost_s,preempted,preempted_s,failures,failed_s,scalings,scaled_late,last_reason,"
        "shards,cpu_cores,memory_gib,gpus,home,warm_up,ran,cost"
    )
    assert rows[1].endswith(",Failed,a,0,0,0,0,2,80,0,0,,1,1,1,,,no,a=1,")


# -- where it comes from ---------------------------------------------------------------------------

NAMES = {
    "id": "id", "submit": "submit", "runtime": "runtime", "failures": "failures", "failsAfter": "fails_after",
    "backoffLimit": "limit", "exit": "exit", "kind": "kind",
}  # fmt: skip
HEADER = ",".join(NAMES.values())


def read(path: Path, *rows: str) -> Trace:
    path.write_text("\n".join([HEADER, *rows]))
    return traces.demand(path, Reading(Columns(NAMES, {"runtime": "min"}), Fraction(0)))


def test_a_table_says_how_jobs_fail(tmp_path: Path) -> None:
    rows = (
        "a,0,10,,,,,job",
        "b,0,10,0,,,0,job",
        "c,0,10,2,3,5,Pass,job",
        "d,0,10,,,,Failed,job",
        "e,0,10,2,,9,137,job",
        "f,0,,,,,,service",
    )

    found = {work.id: work.failing for work in read(tmp_path / "jobs.csv", *rows).works}

    assert found == {
        "a": None, "b": None, "c": Failing(2, 180, 5), "d": Failing(1, None, 0), "e": Failing(3, None, 2), "f": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("b,0,10,,,,perhaps,job", "row 3: exit: is none of completed, failed, an exit code"),
        ("b,0,10,-1,,,,job", "row 3: failures: is negative"),
        ("b,0,10,1,0,,,job", "row 3: fails_after: is less than 1"),
        ("b,0,10,nan,,,,job", "row 3: failures: is not a finite number"),
        ("b,0,,1,,,,service", "row 3: failures: is of a service, which does not end"),
    ],
)
def test_cells_that_say_no_failure_are_named_by_row_and_field(
    tmp_path: Path, row: str, said: str
) -> None:
    with pytest.raises(TraceError) as bad:
        read(tmp_path / "jobs.csv", "a,0,10,,,,,job", row)

    assert said in str(bad.value)


def test_a_status_of_swf_says_what_failed(tmp_path: Path) -> None:
    lines = [
        f"{number} 0 0 60 1 -1 -1 1 -1 -1 {status} 1 1 1 1 1 -1 -1"
        for number, status in ((1, 1), (2, 0))
    ]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 4", *lines]))

    found = traces.demand(tmp_path / "log.swf").works

    assert [work.failing for work in found] == [None, Failing(1, None, 0)]


def document(**failures: object) -> dict[str, object]:
    stream = {
        "works": 200, "over": "1d", "tenants": {"ads": 1}, "shard": {"cpu": 1}, "runtime": {"median": "10m"},
    }  # fmt: skip
    fleet = {"clusters": [{"name": "a", "nodes": [{"count": 4, "cpu": 16}]}]}
    drawn = {**stream, "failures": failures} if failures else stream
    return {"fleet": fleet, "demand": {"generate": [drawn], "backoffLimit": 1}}


def test_a_generator_draws_failures_and_leaves_the_works_as_they_are() -> None:
    plain = loading.inputs(document(), Path("s.yaml"), {}).works
    found = loading.inputs(document(share=0.3, times={"1": 3, "2": 1}), Path("s.yaml"), {}).works

    fail = [work for work in found if work.failing is not None]
    assert 40 < len(fail) < 80
    assert {(work.failing.times, work.failing.limit) for work in fail if work.failing} == {
        (1, 1),
        (2, 1),
    }
    assert all(
        1 <= (work.failing.after_s or 0) <= (work.runtime_s or 0) for work in fail if work.failing
    )
    assert [work.runtime_s for work in found] == [work.runtime_s for work in plain]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ({"share": 2}, "demand.generate[0].failures.share: "),
        (
            {"share": 0.1, "times": {"0": 1}},
            "demand.generate[0].failures: times: '0' is no number of attempts",
        ),
        ({"share": 0.1, "often": 1}, "demand.generate[0].failures.often: unknown field"),
    ],
)
def test_failures_that_cannot_be_drawn_are_refused_with_the_field(
    failures: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidScenario) as bad:
        loading.inputs(document(**failures), Path("s.yaml"), {})

    assert said in str(bad.value)
