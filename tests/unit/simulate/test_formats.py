"""Formats that planners have: separators, decimal marks and quotes, tables of other systems, Slurm's
list of jobs; and what a message says where a column is missing.
"""

import gzip
from fractions import Fraction
from pathlib import Path

import pytest

from federator.model.ask import Tier
from federator.simulate.demand import Failing, Work
from federator.simulate.scenario import loading as scenarios
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.traces import loading
from federator.simulate.traces.columns import Columns
from federator.simulate.traces.dialect import Dialect
from federator.simulate.traces.problems import TraceError
from federator.simulate.traces.works import Reading, TierBy, Trace

JOBS = Columns(
    {"id": "job", "submit": "queued", "runtime": "took", "cpu": "cores"}, {"cpu": "cores"}
)


def jobs(tmp_path: Path, *lines: str, dialect: Dialect | None = None) -> Trace:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return loading.demand(path, Reading(JOBS, dialect=dialect or Dialect()))


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("job,queued,took,cores", "a,1,60,1.5"),
        ("job;queued;took;cores", "a;1;60;1,5"),
        ("job\tqueued\ttook\tcores", "a\t1\t60\t1.5"),
        ("job|queued|took|cores|", "a|1|60|1.5|"),
        ("'job','queued','took','cores'", "'a','1','60','1.5'"),
        ('"job";"queued";"took";"cores"', '"a";"1";"60";"1,5"'),
    ],
)
def test_separator_decimal_mark_and_quotes_are_found_out(
    tmp_path: Path, header: str, line: str
) -> None:
    (work,) = jobs(tmp_path, header, line).works

    assert (work.id, work.submit_s, work.runtime_s, work.cpu_milli) == ("a", 1, 60, 1500)


@pytest.mark.parametrize(
    ("cells", "milli"),
    [
        (("1,5", "1,500"), (1500, 1500)),
        (("1,234.5", "1,000"), (1_234_500, 1_000_000)),
        (("1,234,567", "2"), (1_234_567_000, 2000)),
        (("0,250", "4"), (250, 4000)),
    ],
)
def test_one_clear_cell_tells_what_a_comma_means_in_its_column(
    tmp_path: Path, cells: tuple[str, str], milli: tuple[int, int]
) -> None:
    lines = [f"{name};0;60;{cell}" for name, cell in zip("ab", cells, strict=True)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(("job;queued;took;millis", *lines)) + "\n")
    columns = Columns({**JOBS.names, "cpu": "millis"}, {"cpu": "cores"})
    if max(milli) > 10_000_000:  # more than a shard may have: read as thousandths instead
        columns, milli = Columns(columns.names), (milli[0] // 1000, milli[1] // 1000)

    works = loading.demand(path, Reading(columns)).works

    assert tuple(work.cpu_milli for work in works) == milli


def test_a_comma_with_two_meanings_is_refused_until_the_scenario_says_which(tmp_path: Path) -> None:
    lines = ("job;queued;took;cores", "a;0;60;1,500")
    with pytest.raises(TraceError, match=r"may be decimal or group thousands; say csv\.decimal"):
        jobs(tmp_path, *lines)

    assert jobs(tmp_path, *lines, dialect=Dialect(decimal=",")).works[0].cpu_milli == 1500
    assert jobs(tmp_path, *lines, dialect=Dialect(decimal=".")).works[0].cpu_milli == 1_500_000


def test_a_scenario_states_how_a_table_is_divided(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,x;queued;took;cores\na;0;60;1,500\n")
    (tmp_path / "nodes.csv").write_text("node;cluster;cpu_cores\nn;c;1,500\n")
    trace = {
        "path": "jobs.csv",
        "columns": {**JOBS.names, "id": "job,x"},
        "units": {"cpu": "cores"},
        "csv": {"separator": ";", "decimal": ","},
    }
    document = {
        "fleet": {"table": {"path": "nodes.csv", "csv": {"decimal": "."}}},
        "demand": {"trace": trace},
    }

    made = scenarios.inputs(document, tmp_path / "s.yaml", {})

    assert [work.cpu_milli for work in made.works] == [1500]
    capacity = made.clusters["c"].capacity
    assert capacity is not None
    assert capacity.rows[0].allocatable["cpu"] == 1_500_000
    trace["csv"] = {"separator": "x"}
    with pytest.raises(InvalidScenario, match=r"demand\.trace\.csv\.separator"):
        scenarios.inputs(document, tmp_path / "s.yaml", {})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            "JobName,Submit Time,Duration,Cores,User",
            "jobs.csv: row 1: there is no column name (id), submit_s (submit), runtime_s (runtime);"
            " there are JobName, Submit Time, Duration, Cores, User; likely is"
            " demand.trace.columns: {id: JobName, submit: Submit Time, runtime: Duration,"
            " cpu: Cores, tenant: User}",
        ),
        (
            "uid,created_at,started_at,finished_at",
            "jobs.csv: row 1: there is no column name (id), submit_s (submit), runtime_s (runtime);"
            " there are uid, created_at, started_at, finished_at; likely is"
            " demand.trace.columns: {id: uid, submit: created_at, start: started_at,"
            " end: finished_at}",
        ),
        (
            "alpha,beta",
            "jobs.csv: row 1: there is no column name (id), submit_s (submit), runtime_s (runtime);"
            " there are alpha, beta",
        ),
    ],
)
def test_a_missing_column_is_told_with_those_that_were_found_and_the_likely_ones(
    tmp_path: Path, header: str, expected: str
) -> None:
    (tmp_path / "jobs.csv").write_text(f"{header}\n")
    with pytest.raises(TraceError) as refused:
        loading.demand(tmp_path / "jobs.csv")
    assert str(refused.value) == expected


def test_an_end_without_a_start_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,queued,began,done\na,0,90,100\nb,0,,100\nc,5,50,40\n")
    names = {"id": "job", "submit": "queued", "end": "done"}
    with pytest.raises(TraceError, match=r"row 1: done: an end without a start makes run time of"):
        loading.demand(path, Reading(Columns(names)))

    trace = loading.demand(
        path, Reading(Columns({**names, "start": "began"}), tolerated=Fraction(1))
    )

    assert [(work.id, work.runtime_s) for work in trace.works] == [("a", 10)]
    assert {(problem.row, problem.kind) for problem in trace.problems.named} == {
        (3, "ended without a start"),
        (4, "is before the start"),
    }
    assert trace.problems.bad_rows == {("jobs.csv", 4)}


def test_rows_out_of_order_are_counted_and_are_not_bad(tmp_path: Path) -> None:
    lines = [f"j{at},{1000 - at},60,1" for at in range(200)]
    trace = jobs(tmp_path, "job,queued,took,cores", *lines)

    assert [work.submit_s for work in trace.works] == list(range(801, 1001))
    assert list(trace.problems.lines()) == [
        "jobs.csv: queued: is not sorted by submission, sorted in: 199 rows mended: row 3 (999 after"
        " 1000), row 4 (998 after 999), row 5 (997 after 998), ..."
    ]


SACCT = "JobID|Account|User|Partition|Submit|Start|End|Elapsed|State|NNodes|AllocCPUS|ReqMem|AllocTRES|Priority"
T = "2024-03-01T"


def sacct(
    tmp_path: Path, *lines: str, header: str = SACCT, reading: Reading | None = None
) -> Trace:
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join((header, *lines)) + "\n")
    return loading.demand(path, reading or Reading())


def line(job: str = "12", **cells: str) -> str:
    """A row of the list; times of one day without its date."""
    given = {
        "submit": "00:00:00",
        "start": "00:01:00",
        "end": "00:11:00",
        "elapsed": "00:10:00",
        "state": "COMPLETED",
        "tres": "billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=2",
        **cells,
    }
    moments = [given[name] for name in ("submit", "start", "end")]
    dated = [f"{T}{at}" if at[:1].isdigit() else at for at in moments]
    rest = (given["elapsed"], given["state"], "2", "16", "64Gn", given["tres"], "7")
    return "|".join((job, "ads", "ann", "gpu", *dated, *rest))


def test_a_job_of_slurm_is_a_work_with_a_shard_for_each_node(tmp_path: Path) -> None:
    trace = sacct(tmp_path, line())

    assert trace.works == (
        Work(
            id="slurm-12", kind="job", namespace="ads", project="ads", tier=Tier.ON_DEMAND,
            home_cluster="gpu", submit_s=0, runtime_s=600, shards=2, cpu_milli=8000,
            memory_mib=32768, gpu=2, gpu_models=("a100",), priority=7,
        ),
    )  # fmt: skip
    assert trace.origin_s == 1709251200


def test_steps_requeued_runs_and_jobs_that_never_started_are_left_out_and_noted(
    tmp_path: Path,
) -> None:
    trace = sacct(
        tmp_path,
        line("1_7", state="NODE_FAIL"),
        line("1_7", start="00:20:00", end="00:50:00"),
        line("1_7.batch"),
        line("1_7.extern"),
        line("1_7.0"),
        line("1_[8-90%4]", start="Unknown", end="Unknown", state="PENDING"),
        line("2", start="None", end="00:30:00", state="CANCELLED by 1000"),
        line("3+0", submit="00:00:30"),
    )

    assert [(work.id, work.runtime_s, work.failing) for work in trace.works] == [
        ("slurm-1_7", 1800, None),
        ("slurm-3+0", 600, None),
    ]
    assert (trace.read, trace.problems.left_out) == (8, 0)
    assert sorted(trace.problems.lines()) == [
        "jobs.txt: 1 rows are earlier runs of jobs that were requeued, and are left out",
        "jobs.txt: 2 rows are jobs that never started, and are left out",
        "jobs.txt: 3 rows are steps of jobs that other rows sum up, and are left out",
    ]


@pytest.mark.parametrize(
    ("state", "failing"),
    [
        ("COMPLETED", None),
        ("FAILED", Failing(1, limit=0)),
        ("OUT_OF_MEMORY", Failing(1, limit=0)),
        ("CANCELLED by 1000", None),
        ("PREEMPTED", None),
    ],
)
def test_a_job_of_slurm_that_failed_is_not_tried_again(
    tmp_path: Path, state: str, failing: Failing | None
) -> None:
    assert sacct(tmp_path, line(state=state)).works[0].failing == failing


def test_a_job_of_slurm_that_runs_has_no_end(tmp_path: Path) -> None:
    running = line(end="Unknown", state="RUNNING", elapsed="1-00:00:00")
    assert sacct(tmp_path, running).works[0].runtime_s is None


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [("00:00:05", 5), ("10:00", 600), ("1-00:00:01", 86401), ("12-03:04:05.250", 1047845)],
)
def test_durations_of_slurm_are_read(tmp_path: Path, elapsed: str, seconds: int) -> None:
    header = "JobID|Submit|Elapsed|State|NCPUS"
    (work,) = sacct(tmp_path, f"1|{T}00:00:00|{elapsed}|COMPLETED|4", header=header).works
    assert (work.runtime_s, work.cpu_milli, work.shards) == (seconds, 4000, 1)


@pytest.mark.parametrize(
    ("memory", "mib"),
    [("4000M", 2000), ("8Gn", 8192), ("2Gc", 16384), ("0", None), ("1.50T", 786432)],
)
def test_memory_of_slurm_is_of_the_job_its_nodes_or_its_cores(
    tmp_path: Path, memory: str, mib: int | None
) -> None:
    header = "JobID|Submit|Elapsed|State|NNodes|ReqCPUS|ReqMem"
    text = f"1|{T}00:00:00|00:01:00|COMPLETED|2|16|{memory}"
    assert sacct(tmp_path, text, header=header).works[0].memory_mib == mib


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (line(submit="soon"), "Submit: is no time as sacct writes it ('soon')"),
        (line(end="00:00:10"), "End: is before the start ('2024-03-01T00:00:10')"),
        (line(tres="cpu=x,node=2"), "AllocCPUS: is no number ('x')"),
        (line(tres="cpu=4,mem=much"), "AllocTRES: is no memory as sacct writes it ('much')"),
    ],
)
def test_a_bad_row_of_slurm_is_named(tmp_path: Path, bad: str, expected: str) -> None:
    trace = sacct(tmp_path, line("1"), bad, reading=Reading(tolerated=Fraction(1)))

    assert [work.id for work in trace.works] == ["slurm-1"]
    assert [str(problem) for problem in trace.problems.named] == [
        f"jobs.txt: row 3: {expected}; the row is left out"
    ]


def test_a_list_of_slurm_without_sizes_or_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no column NNodes or AllocCPUS or ReqCPUS"):
        sacct(tmp_path, "1|a|b|COMPLETED", header="JobID|Submit|Elapsed|State")


def test_a_tier_of_slurm_is_by_a_column(tmp_path: Path) -> None:
    by = TierBy("Partition", {"gpu": Tier.RESERVED}, Tier.PREEMPTIBLE)
    assert sacct(tmp_path, line(), reading=Reading(tiers=by)).works[0].tier == Tier.RESERVED


def test_a_compressed_list_of_slurm_is_known_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt.gz"
    path.write_bytes(gzip.compress(f"{SACCT}|\n{line()}|\n".encode()))

    assert loading.form_of(path) == "sacct"
    assert [work.id for work in loading.demand(path).works] == ["slurm-12"]
