"""Traces are read whole; a bad row is left out, counted, and named by file, row and field."""

import gzip
import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from federator.model.ask import Tier
from federator.simulate.scenario import loading as scenarios
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.traces import loading, openb, table
from federator.simulate.traces.columns import Columns
from federator.simulate.traces.nodes import NodeGroup
from federator.simulate.traces.problems import TraceError
from federator.simulate.traces.works import Reading, TierBy, Trace
from tests import casetables

HEADER = "name,kind,tenant,home_cluster,submit_s,runtime_s,shards,cpu_milli,memory_mib,gpu,gpu_models,priority"
LENIENT = Reading(tolerated=Fraction(1))


def row(name: str = "a", submit: str = "0", runtime: str = "60", **cells: str) -> str:
    """A line of workloads.csv."""
    given = {
        "kind": "job",
        "tenant": "ads",
        "home": "c1",
        "shards": "2",
        "cpu": "500",
        "memory": "64",
        "gpu": "",
    }
    given |= cells
    parts = [name, given["kind"], given["tenant"], given["home"], submit, runtime]
    parts += [
        given["shards"],
        given["cpu"],
        given["memory"],
        given["gpu"],
        given.get("models", ""),
        "3",
    ]
    return ",".join(parts)


def written(tmp_path: Path, *rows: str, header: str = HEADER, name: str = "workloads.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


def read(tmp_path: Path, *rows: str) -> Trace:
    return loading.demand(written(tmp_path, *rows), LENIENT)


def said(trace: Trace) -> Sequence[str]:
    return [str(problem) for problem in trace.problems.named]


def test_a_row_is_a_work(tmp_path: Path) -> None:
    path = written(tmp_path, row("train", "5", "", kind="trainingjob", gpu="8", models="A100|H100"))

    (work,) = loading.demand(path).works

    assert (work.id, work.kind, work.namespace, work.project, work.home_cluster) == (
        "train", "trainingjob", "ads", "ads", "c1",
    )  # fmt: skip
    assert (work.submit_s, work.runtime_s, work.shards, work.cpu_milli, work.memory_mib) == (
        5,
        None,
        2,
        500,
        64,
    )
    assert (work.gpu, work.gpu_models, work.priority, work.tier) == (
        8,
        ("A100", "H100"),
        3,
        Tier.ON_DEMAND,
    )


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (row("b", "x"), "row 3: submit_s: is no number ('x')"),
        (row("b", ""), "row 3: submit_s: is missing ('')"),
        (row("b", "-1"), "row 3: submit_s: is negative ('-1')"),
        (row("b", "1", "-60"), "row 3: runtime_s: is negative ('-60')"),
        (row("b", "1", "NaN"), "row 3: runtime_s: is not a finite number ('NaN')"),
        (row("b", "1", "inf"), "row 3: runtime_s: is not a finite number ('inf')"),
        (
            row("b", "1", "90s"),
            "row 3: runtime_s: has a unit of its own, and the column is in s ('90s')",
        ),
        (
            row("b", "1", "1", memory="4Gi"),
            "row 3: memory_mib: has a unit of its own, and the column is in MiB ('4Gi')",
        ),
        (
            row("b", "1", "1", memory="4294967296"),
            (
                "row 3: memory_mib: is implausibly large for MiB; is the column in bytes or KiB? "
                "('4294967296')"
            ),
        ),
        (
            row("b", "1700000000000"),
            (
                "row 3: submit_s: is implausibly large for s; is the column in milliseconds? "
                "('1700000000000')"
            ),
        ),
        (row("b", "1", "1", shards="0"), "row 3: shards: is less than 1 ('0')"),
        (
            row("b", "1", "1", kind="cron"),
            "row 3: kind: is none of service, job, jobset, trainingjob ('cron')",
        ),
        (row("a", "1"), "row 3: name: was given before ('a', first in row 2)"),
        (row("", "1"), "row 3: name: is missing"),
        (row("b", "1") + ",7", "row 3: has not 12 cells as the header (13)"),
        (row("b", "1").rpartition(",")[0], "row 3: has not 12 cells as the header (11)"),
        (row('"b', "1"), "row 3: a quotation mark is not closed in its row"),
    ],
)
def test_a_bad_row_is_left_out_and_named(tmp_path: Path, bad: str, expected: str) -> None:
    trace = read(tmp_path, row("a"), bad)

    assert said(trace) == [f"workloads.csv: {expected}; the row is left out"]
    assert ([work.id for work in trace.works], trace.read, trace.problems.left_out) == (["a"], 2, 1)


def test_a_row_that_is_not_utf8_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "workloads.csv"
    path.write_bytes("\n".join((HEADER, row("a"), row("Zürich", "1"))).encode("latin-1"))

    trace = loading.demand(path, LENIENT)

    assert said(trace) == ["workloads.csv: row 3: name: is not UTF-8 text; the row is left out"]
    assert [work.id for work in trace.works] == ["a"]


@pytest.mark.parametrize(
    ("bad", "column"), [(row("b\0", "1"), "name"), (row("b", "1", tenant="a\0ds"), "tenant")]
)
def test_a_row_with_a_nul_is_named_and_the_others_are_read(
    tmp_path: Path, bad: str, column: str
) -> None:
    trace = read(tmp_path, row("a"), bad, row("Zürich", "2"))

    left_out = f"workloads.csv: row 3: {column}: holds a NUL character; the row is left out"
    assert said(trace) == [left_out]
    assert [work.id for work in trace.works] == ["a", "Zürich"]
    assert trace.rows == [2, 4]


def test_utf8_beyond_ascii_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, row("Zürich")).works[0].id == "Zürich"


def test_an_unsorted_row_is_sorted_in_and_named(tmp_path: Path) -> None:
    trace = read(tmp_path, row("a", "10"), row("b", "5"), row("c", "20"))

    assert [work.id for work in trace.works] == ["b", "a", "c"]
    assert said(trace) == [
        "workloads.csv: row 3: submit_s: is not sorted by submission, sorted in (5 after 10)"
    ]
    assert (trace.problems.left_out, trace.problems.bad_rows) == (0, set())


def test_works_of_one_second_keep_the_order_of_the_file(tmp_path: Path) -> None:
    trace = read(tmp_path, row("z", "9"), row("b", "5"), row("a", "5"))

    assert [work.id for work in trace.works] == ["b", "a", "z"]


def test_crlf_and_a_byte_order_mark_are_noted_and_read(tmp_path: Path) -> None:
    path = tmp_path / "workloads.csv"
    path.write_bytes(("\ufeff" + "\r\n".join((HEADER, row("a"), row("b", "1"), ""))).encode())

    trace = loading.demand(path)

    assert [work.id for work in trace.works] == ["a", "b"]
    assert said(trace) == [
        "workloads.csv: begins with a byte order mark, which is ignored",
        "workloads.csv: has CRLF line ends (3 lines), read as line ends",
    ]


def test_some_rows_with_crlf_are_named(tmp_path: Path) -> None:
    trace = read(tmp_path, row("a"), row("b", "1") + "\r", row("c", "2"))

    assert said(trace) == [
        "workloads.csv: row 3: ends in CRLF where other rows do not, read as a line end"
    ]
    assert len(trace.works) == 3


def test_more_bad_rows_than_tolerated_are_an_error(tmp_path: Path) -> None:
    rows = [row(f"w{at}", str(at)) for at in range(98)]

    assert (
        len(loading.demand(written(tmp_path, *rows, row("x", "98"), row("bad", "nan"))).works) == 99
    )
    with pytest.raises(TraceError) as refused:
        loading.demand(written(tmp_path, *rows, row("bad", "nan"), row("worse", "-3")))
    assert str(refused.value) == (
        "workloads.csv: 2 of 100 rows are bad (2.0 %), more than the 1 % that are tolerated "
        "(badRows); "
        "the first is row 100: submit_s: is not a finite number ('nan')"
    )


def test_problems_are_summed_up_by_kind(tmp_path: Path) -> None:
    trace = read(tmp_path, row("a"), *(row(f"b{at}", "-5") for at in range(5)))

    assert list(trace.problems.lines()) == [
        (
            "workloads.csv: submit_s: is negative: 5 rows left out: row 3 ('-5'), row 4 ('-5'), "
            "row 5 ('-5'), ..."
        )
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            HEADER.replace("shards", "shard"),
            "workloads.csv: row 1: there is no column shards (shards); there are name, kind,",
        ),
        (
            HEADER.replace("tenant", "kind"),
            "workloads.csv: row 1: kind: two columns have this name",
        ),
        ("", "workloads.csv: row 1: has no header: the first row names the columns"),
    ],
)
def test_a_table_of_another_shape_is_an_error(tmp_path: Path, header: str, expected: str) -> None:
    with pytest.raises(TraceError) as refused:
        loading.demand(written(tmp_path, row("a"), header=header))
    assert str(refused.value).startswith(expected)


def test_a_broken_archive_and_utf16_are_errors(tmp_path: Path) -> None:
    cut = tmp_path / "workloads.csv.gz"
    cut.write_bytes(gzip.compress(f"{HEADER}\n{row()}\n".encode())[:-9])
    wide = tmp_path / "wide.csv"
    wide.write_bytes(f"{HEADER}\n{row()}\n".encode("utf-16"))

    for path, part in (
        (cut, "cannot be read: Compressed file ended"),
        (wide, "is UTF-16"),
        (tmp_path / "no", "No such"),
    ):
        with pytest.raises(TraceError, match=part):
            loading.demand(path)


def test_a_device_a_pipe_and_a_file_that_is_too_long_are_not_read(tmp_path: Path) -> None:
    pipe, long = tmp_path / "pipe.csv", tmp_path / "long.csv"
    os.mkfifo(pipe)
    with long.open("wb") as file:
        file.truncate(table.BYTES_MAX + 1)

    for path, part in (
        (Path("/dev/zero"), "zero: cannot be read: it is a device or a pipe; write what"),
        (pipe, "pipe.csv: cannot be read: it is a device or a pipe"),
        (long, "long.csv: cannot be read: it has 2,147,483,649 bytes, and at most 2,147,483,648"),
    ):
        with pytest.raises(TraceError, match=part):
            loading.demand(path)
        with pytest.raises(InvalidScenario, match=part.partition(": ")[2][:40]):
            scenarios.document(path)


def test_a_file_with_too_many_rows_is_an_error_that_names_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, *(row(f"w{at}") for at in range(9)))
    monkeypatch.setattr(table, "ROWS_MAX", 10)
    assert len(loading.demand(path).works) == 9
    monkeypatch.setattr(table, "ROWS_MAX", 8)

    with pytest.raises(TraceError, match=r"row 9: is one of 10 lines, and at most 8 are read"):
        loading.demand(path)


def test_the_form_of_a_trace_is_found_from_its_first_line(tmp_path: Path) -> None:
    cut = tmp_path / "pods.csv.gz"
    header = ",".join(sorted(openb.HEADER))
    cut.write_bytes(gzip.compress(f"{header}\n{'x' * 9_000}\n".encode())[:-9])

    assert loading.form_of(cut) == "openb", "the rest of the file is not read, it is broken"


def test_columns_and_units_are_mapped(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "7,2017-10-03T00:00:00,2017-10-03T00:00:05,2017-10-03T00:01:30,1.5,2,gold",
        "8,2017-10-03T00:00:10,,,0.0001,0.5,tin",
        header="job,queued,began,done,cores,gib,class",
    )
    names = {"id": "job", "submit": "queued", "start": "began", "end": "done"}
    names |= {"cpu": "cores", "memory": "gib"}
    units = {"submit": "iso", "end": "iso", "cpu": "cores", "memory": "GiB"}
    tiers = TierBy("class", {"gold": Tier.RESERVED}, Tier.PREEMPTIBLE)

    trace = loading.demand(path, Reading(Columns(names, units), tiers=tiers, checkpoint_s=600))

    first, second = trace.works
    assert (first.submit_s, first.runtime_s, first.cpu_milli, first.memory_mib) == (
        0,
        85,
        1500,
        2048,
    )
    assert (second.submit_s, second.runtime_s, second.cpu_milli, second.memory_mib) == (
        10,
        None,
        1,
        512,
    )
    assert (first.tier, second.tier, first.checkpoint_s) == (Tier.RESERVED, Tier.PREEMPTIBLE, 600)
    assert trace.origin_s == 1506988800


SWF_HEADER = "; UnixStartTime: 1132444805\n; MaxProcs: 64\n"


def swf(tmp_path: Path, *jobs: str) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(SWF_HEADER + "\n".join(jobs) + "\n")
    return path


def job(number: int, submit: int, run: str, procs: int = 4, status: int = 1) -> str:
    return f"{number} {submit} 3 {run} {procs} -1 -1 {procs} 3600 2048 {status} 1 7 -1 0 -1 -1 -1"


def test_swf_is_read(tmp_path: Path) -> None:
    path = swf(tmp_path, job(1, 0, "100"), job(2, 5, "7.5", procs=2), job(3, 6, "-1", status=5))

    trace = loading.demand(path)

    assert [(work.id, work.submit_s, work.runtime_s, work.shards) for work in trace.works] == [
        ("swf-1", 0, 100, 4),
        ("swf-2", 5, 8, 2),
    ]
    assert (trace.works[0].cpu_milli, trace.works[0].memory_mib, trace.works[0].project) == (
        1000,
        2,
        "group-7",
    )
    assert "log.swf: 1 jobs were cancelled before they started, and are left out" in said(trace)
    assert loading.fleet(path).groups == (NodeGroup("swf", 64, cpu_milli=1000),)


def test_partial_executions_in_swf_are_not_counted_twice(tmp_path: Path) -> None:
    """The definition of the archive, field 11: a line with 0 or 1 sums up those with 2, 3 and 4,
    of which only the first has a submit time."""
    path = swf(
        tmp_path,
        job(1, 0, "300", status=1),
        job(1, 0, "100", status=2),
        job(1, -1, "120", status=2),
        job(1, -1, "80", status=3),
        job(2, 10, "50", status=0),
        job(2, 10, "50", status=4),
        job(3, 20, "40", status=2),
        job(3, -1, "30", status=4),
        job(4, 30, "60", status=5),
        job(5, 40, "70", status=-1),
    )
    trace = loading.demand(path, LENIENT)
    assert [(work.id, work.submit_s, work.runtime_s) for work in trace.works] == [
        ("swf-1", 0, 300),
        ("swf-2", 10, 50),
        ("swf-3", 20, 70),
        ("swf-4", 30, 60),
        ("swf-5", 40, 70),
    ]
    assert [work.id for work in trace.works if work.failing is not None] == ["swf-2"]
    assert "log.swf: 4 rows are parts of jobs that other rows sum up, and are left out" in said(
        trace
    )
    assert not trace.problems.bad_rows


def test_a_status_that_swf_does_not_know_is_named(tmp_path: Path) -> None:
    trace = loading.demand(swf(tmp_path, job(1, 0, "100", status=9)), LENIENT)
    assert [work.id for work in trace.works] == ["swf-1"]
    told = "log.swf: row 3: status: is no status of the format, and is read as completed (9)"
    assert told in said(trace)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (job(2, 5, "-9"), "row 4: run time: is negative (-9)"),
        (job(2, 5, "nan"), "row 4: run time: is not a finite number ('nan')"),
        (
            job(2, 5, "1", procs=-1),
            "row 4: requested processors: is not known, and the allocated ones are not either (-1)",
        ),
        (job(1, 5, "1"), "row 4: job number: was given before (1, first in row 3)"),
        ("2 5 7", "row 4: has not 18 numbers (3)"),
        (
            job(2, 5, "3600000000"),
            "row 4: run time: is implausibly large for s; is it in milliseconds? (3600000000)",
        ),
    ],
)
def test_a_bad_line_of_swf_is_named(tmp_path: Path, line: str, expected: str) -> None:
    trace = loading.demand(swf(tmp_path, job(1, 0, "100"), line), LENIENT)

    assert f"log.swf: {expected}; the row is left out" in said(trace)
    assert len(trace.works) == 1


def test_the_lists_of_openb_are_read_as_published(tmp_path: Path) -> None:
    pods = written(
        tmp_path,
        "pod-0,12000,16384,1,460,V100M16|V100M32,LS,Running,0,,0",
        "pod-1,6000,1024,8,1000,,BE,Succeeded,10,70,12",
        header="name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        name="openb_pod_list_default.csv",
    )
    nodes = written(
        tmp_path, "n0,64000,262144,2,P100", "n1,64000,262144,2,P100", "n2,32000,131072,0,", name="nodes.csv",
        header="sn,cpu_milli,memory_mib,gpu,model",
    )  # fmt: skip

    first, second = loading.demand(pods).works

    assert (first.kind, first.tier, first.gpu, first.gpu_models) == (
        "service",
        Tier.RESERVED,
        1,
        ("V100M16", "V100M32"),
    )
    assert (second.kind, second.tier, second.gpu, second.runtime_s) == (
        "job",
        Tier.PREEMPTIBLE,
        8,
        58,
    )
    assert loading.fleet(nodes).groups == (
        NodeGroup("openb-p100", 2, 64000, 262144, 2, "P100"),
        NodeGroup("openb-cpu", 1, 32000, 131072),
    )


def test_a_table_of_clusters_gives_nodes_or_totals(tmp_path: Path) -> None:
    shaped = written(
        tmp_path, "a,4,8,32", header="cluster,nodes,gpus_per_node,gpus", name="clusters.csv"
    )
    assert loading.fleet(shaped).groups == (NodeGroup("a", 4, gpu=8),)
    assert loading.fleet(tmp_path, aggregates=True).groups == (NodeGroup("a", 1, gpu=32),)

    cores = written(tmp_path, "a,eu,10", header="cluster,region,cpu_cores", name="cores.csv")
    found = loading.fleet(cores)
    assert found.groups == (NodeGroup("a", 1, cpu_milli=10000, labels=(("region", "eu"),)),)
    assert [str(one) for one in found.problems.named] == [
        "cores.csv: names no nodes: each cluster is one node of its totals"
    ]


def test_a_bad_node_is_named_and_a_table_without_amounts_is_an_error(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a,x,1000",
        "b,,1000",
        "a,y,1000",
        "c,x,nan",
        "d,x,1",
        header="node,cluster,cpu_milli",
    )

    found = loading.fleet(path, tolerated=Fraction(1))

    assert [str(one).split(": ", 1)[1] for one in found.problems.named] == [
        "row 5: cpu_milli: is not a finite number ('nan'); the row is left out",
        "row 3: cluster: is missing; the row is left out",
        "row 4: node: was given before ('a', first in row 2); the row is left out",
    ]
    with pytest.raises(TraceError, match="no column says what a node has"):
        loading.fleet(written(tmp_path, "a,1", header="cluster,racks"))


@pytest.mark.parametrize("name", ["philly-11-vcs", "lcg-20-sites-6h", "openb-8-clusters"])
def test_real_folders_have_the_totals_of_their_facts(name: str) -> None:
    folder = casetables.data(name)
    facts = json.loads((folder / "facts.json").read_text())
    trace, fleet = loading.demand(folder), loading.fleet(folder)

    assert len(trace.works) == facts.get("jobs", facts.get("pods"))
    assert not trace.problems.bad_rows
    assert len({group.cluster for group in fleet.groups}) == facts["clusters"]
    if "gpus" in facts:
        assert sum(group.count * group.gpu for group in fleet.groups) == facts["gpus"]
    if "cores_total" in facts:
        assert (
            sum(group.count * (group.cpu_milli or 0) for group in fleet.groups)
            == facts["cores_total"] * 1000
        )
    if "cpu_milli" in facts:
        assert (
            sum(group.count * (group.cpu_milli or 0) for group in fleet.groups)
            == facts["cpu_milli"]
        )
        assert sum(work.cpu_milli or 0 for work in trace.works) == facts["cpu_milli_requested"]
