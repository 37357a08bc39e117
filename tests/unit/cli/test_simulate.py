"""`federator simulate`: what a planner reads, what is written to --out, and how bad input is
told.
"""

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from federator.cli.planning import simulating
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import Document
from tests import casetables
from tests.house.sources import ROOT
from tests.unit.cli.files import run

SCENARIO = """
name: two
seed: 1
fleet:
  clusters:
  - {name: a, nodes: [{count: 1, cpu: 8}]}
  - {name: b, nodes: [{count: 1, cpu: 8}]}
demand:
  generate:
  - {name: job, works: 30, over: 6h, tenants: {ads: 1}, shard: {cpu: 4}, runtime: {median: 40m, sigma: 1}}
"""


def scenario(tmp_path: Path, text: str = SCENARIO) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(text)
    return str(path)


def test_the_verdict_comes_first_and_tables_follow(tmp_path: Path) -> None:
    done = run("simulate", scenario(tmp_path), "-q")

    assert done.exit_code == 0
    assert done.stdout.startswith("All 30 works started; ")
    assert "FIGURE" in done.stdout
    assert done.stderr == ""


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    done = run("simulate", scenario(tmp_path), "-q", "--out", str(tmp_path / "out"))

    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "report.html",
        "report.json",
        "works.csv",
    }
    assert {path.name for path in tmp_path.iterdir()} == {"two.yaml", "out"}
    assert "--set" not in (tmp_path / "out" / "report.json").read_text()


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for out in ("one", "two"):
        run("simulate", scenario(tmp_path), "-q", "--out", str(tmp_path / out))

    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_losing_a_cluster_is_compared_with_not_losing_it(tmp_path: Path) -> None:
    path = scenario(tmp_path)

    done = run("simulate", path, "--lose", "a@1h", "--compare", path, "-q", "-o", "json")

    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert report["comparedWith"]["name"] == "two"
    table = run("simulate", path, "--lose", "a@1h", "--compare", path, "-q").stdout
    assert table.startswith("two as changed against two: ")


LARGEST = """
name: largest
until: 2d
fleet:
  clusters:
  - {name: small, nodes: [{count: 1, cpu: 8}]}
  - {name: large, nodes: [{count: 2, cpu: 8}]}
demand:
  trace: {path: jobs.csv, columns: {id: id, submit: at, runtime: for, cpu: cpu}, units: {cpu: cores}}
"""


@pytest.mark.parametrize(
    ("loss", "lost", "told"),
    [
        (
            "largest@peak",
            {"atSeconds": 7201, "subject": "large"},
            "large, the cluster with most cpu, is lost after 2 h when 75.0 % of cpu is in use",
        ),
        ("small@peak", {"atSeconds": 7201, "subject": "small"}, "small, is lost after 2 h when"),
        (
            "largest@1h",
            {"atSeconds": 3600, "subject": "large"},
            "large, the cluster with most cpu, is lost after 1 h.",
        ),
    ],
)
def test_the_largest_cluster_and_the_peak_are_found(
    tmp_path: Path, loss: str, lost: dict[str, Any], told: str
) -> None:
    path = scenario(tmp_path, LARGEST)
    rows = ["id,at,for,cpu", "a,0,100,4", "b,7000,9000,6", "c,7200,300,6", "d,7200,9000,6"]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")

    done = run("simulate", path, "--lose", loss, "-q", "-o", "json")

    (happened,) = json.loads(done.stdout)["happened"]
    assert {key: happened[key] for key in lost} == lost
    assert f"note: --lose {loss}: {told}" in done.stderr
    assert json.loads(done.stdout)["inputs"]["settings"]["--lose"] == (
        f"{lost['subject']}@{lost['atSeconds']}"
    )


def test_both_simulations_of_a_comparison_are_measured_over_one_time(tmp_path: Path) -> None:
    priced = SCENARIO.replace("cpu: 8}]}", "cpu: 8}], price: 3}")
    path = scenario(tmp_path, priced + "until: 9h\n")
    other = tmp_path / "other.yaml"
    other.write_text(priced.replace("seed: 1", "seed: 1\nwarmUp: 2h") + "until: 7h\n")

    done = run("simulate", path, "--compare", str(other), "-q", "-o", "json")

    found = json.loads(done.stdout)
    window = [found["inputs"][f"{name}Seconds"] for name in ("warmUp", "horizon")]
    assert window == [7200, 25_200]
    assert found["figures"]["cost"] == found["comparedWith"]["figures"]["cost"] == 5 * 2 * 3
    assert found["figures"]["works"] == found["comparedWith"]["figures"]["works"]
    assert found["inputs"]["endSeconds"] == 25_200
    assert found["comparedWith"]["differences"] == [
        {**one, "change": "same"} for one in found["comparedWith"]["differences"]
    ]
    assert "note: both are measured from 2 h to 7 h, the time that both have." in done.stderr
    table = run("simulate", path, "--compare", str(other), "-q").stdout
    assert "Means and cost are of the time from 2 h to 7 h.\n" in table


def test_simulations_without_a_time_in_common_are_not_compared(tmp_path: Path) -> None:
    path = scenario(tmp_path, SCENARIO + "until: 2h\n")
    other = tmp_path / "other.yaml"
    other.write_text(SCENARIO + "until: 9h\nwarmUp: 3h\n")

    done = run("simulate", path, "--compare", str(other), "-q")

    assert done.exit_code == 1
    assert (
        "the two have no time in common: one is measured from 3 h on, one until 2 h" in done.stderr
    )


POLICY = """
apiVersion: federation.pinterest.com/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: only-b}
spec: {clusters: {names: [b]}}
"""


def report(*arguments: str) -> dict[str, Any]:
    done = run("simulate", *arguments, "-q", "-o", "json")
    assert done.exit_code == 0, done.stderr
    return cast(dict[str, Any], json.loads(done.stdout))


def test_the_policies_of_a_file_stand_instead_of_those_of_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "only-a.yaml").write_text(POLICY.replace("only-b", "only-a").replace("[b]", "[a]"))
    (tmp_path / "only-b.yaml").write_text(POLICY)
    path = scenario(tmp_path, SCENARIO + "policies: [{file: only-a.yaml}]\n")

    def used(found: dict[str, Any]) -> set[str]:
        return {one["cluster"] for one in found["use"] if one["cluster"] and one["mean"] > 0}

    assert used(report(path)) == {"a"}
    changed = report(path, "--policy", str(tmp_path / "only-b.yaml"))
    assert used(changed) == {"b"}
    assert changed["inputs"]["settings"] == {"--policy": str(tmp_path / "only-b.yaml")}


def test_demand_grows_and_nodes_and_fields_are_others_without_a_change_of_the_file(
    tmp_path: Path,
) -> None:
    path = scenario(tmp_path)
    before = Path(path).read_bytes()

    (said,) = [
        one for one in report(path, "--scale-demand", "1.5")["assumptions"] if "is scaled" in one
    ]
    assert said == "Demand is scaled by 1.5: 49 works ask for 202 core-hours (1.504 times)."
    grown = report(path, "--add-nodes", "a=2@1h")["happened"]
    assert [(one["kind"], one["subject"], one["atSeconds"]) for one in grown] == [
        ("grown", "a", 3600)
    ]
    assert report(path, "--set", "seed=5")["inputs"]["seed"] == 5
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("kind: [", "policy.yaml: line 2, column 1: not YAML"),
        (POLICY.replace("clusters", "cluster"), "policy.yaml: [0].spec.cluster: unknown field"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
            "policy.yaml: [0].kind: 'ConfigMap' is not a kind that is read here",
        ),
    ],
)
def test_a_bad_file_of_policies_is_told_and_nothing_is_written(
    tmp_path: Path, content: str, expected: str
) -> None:
    (tmp_path / "policy.yaml").write_text(content)
    out = tmp_path / "out"

    done = run(
        "simulate",
        scenario(tmp_path),
        *("--policy", str(tmp_path / "policy.yaml"), "--out", str(out)),
    )

    assert (done.exit_code, done.stdout, out.exists()) == (1, "", False), done.stderr
    assert "Traceback" not in done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "fleet.cluster=1"], "two.yaml: fleet.cluster: unknown field; is it 'clusters'?"),
        (["--set", "seed"], "seed: a field and a value are expected"),
        (["--lose", "c@1h"], "two.yaml: events[0].lost: there is no cluster 'c'; there are a, b"),
        (["--lose", "a"], "--lose: 'a': CLUSTER@TIME is expected"),
        (["--lose", "a@soon"], "--lose: 'soon' is no duration"),
        (["--add-nodes", "a"], "--add-nodes: 'a': CLUSTER=N or CLUSTER=N@TIME is expected"),
        (["--scale-demand", "much"], "--scale-demand: 'much' is no fraction"),
        (["--capacity", "1/0"], "two.yaml: fleet.capacity: '1/0' is no fraction"),
        (
            ["--reference", "fed-fifo", "--lose", "a@1h"],
            "--reference goes with --capacity and -o only",
        ),
        (["--reference", "fed-fifo"], "two.yaml: a reference policy reads a folder"),
    ],
)
def test_bad_input_is_told_with_its_field_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    out = [] if arguments == ["--reference", "fed-fifo"] else ["--out", str(tmp_path / "out")]
    done = run("simulate", scenario(tmp_path), *arguments, *out)

    assert done.exit_code == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert expected in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_bad_trace_is_told_with_file_row_and_field(tmp_path: Path) -> None:
    (tmp_path / "clusters.csv").write_text("cluster,cpu_cores\na,8\n")
    (tmp_path / "workloads.csv").write_text(
        "name,kind,tenant,home_cluster,submit_s,runtime_s,shards,cpu_milli,memory_mib,gpu,gpu_models,priority\n"
        "x,job,t,a,0,NaN,1,1000,,,,0\n"
    )

    done = run("simulate", str(tmp_path), "--out", str(tmp_path / "out"))

    assert (done.exit_code, done.stdout, (tmp_path / "out").exists()) == (1, "", False)
    assert "workloads.csv: 1 of 1 rows are bad" in done.stderr
    assert "row 2: runtime_s: is not a finite number ('NaN')" in done.stderr


def test_a_failure_while_writing_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    done = run("simulate", scenario(tmp_path), "-q", "--out", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert "is a file; --out names a folder" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"two.yaml", "out"}


def test_open_needs_a_folder(tmp_path: Path) -> None:
    assert "--open needs --out" in run("simulate", scenario(tmp_path), "--open").stderr


@pytest.mark.parametrize("name", ["philly-11-vcs", "lcg-20-sites-6h"])
def test_a_reference_policy_prints_the_keys_of_the_published_results(name: str) -> None:
    folder = casetables.data(name)
    published = json.loads((folder / "reference.json").read_text())["results"]

    done = run("simulate", str(folder), "--reference", "home-backfill", "-o", "json")

    assert json.loads(done.stdout) in published
    assert list(json.loads(done.stdout)) == list(published[0])


def test_a_reference_policy_at_half_the_capacity(tmp_path: Path) -> None:
    (tmp_path / "clusters.csv").write_text("cluster,cpu_cores\na,8\nb,3\n")
    header = "name,kind,tenant,home_cluster,submit_s,runtime_s,shards,cpu_milli,memory_mib,gpu,gpu_models,priority\n"
    jobs = "".join(f"j{at},job,t,a,{at},100,1,4000,,,,0\n" for at in range(3))
    (tmp_path / "workloads.csv").write_text(header + jobs)

    found = json.loads(
        run(
            "simulate", str(tmp_path), "--reference", "fed-fifo", "--capacity", "50%", "-o", "json"
        ).stdout
    )

    assert (
        found["capacity_scale"],
        found["capacity_units"],
        found["waited"],
        found["wait_sum_s"],
    ) == (
        "1/2",
        5,
        2,
        297,
    )


def test_progress_is_a_line_every_ten_seconds_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Document = yaml.safe_load(SCENARIO)
    made = loading.inputs(given, tmp_path / "two.yaml", {})
    monkeypatch.setattr(simulating, "LINE_EVERY_S", 0.0)

    with simulating.progress(made, quiet=False) as progress:
        progress(90_060, None, 12, 30)

    told = capsys.readouterr().err
    assert told.startswith("day 2 01:01, ")
    assert told.endswith("times real time: 12 of 30 works submitted\n")


def test_dates_are_those_of_the_trace_where_it_tells_any() -> None:
    assert simulating.date(86_400, 1_506_988_800) == "2017-10-04 00:00"
    assert simulating.date(86_400, 0) == "day 2 00:00"


def test_the_scenarios_of_the_project_are_read() -> None:
    found = sorted((ROOT / "simulations").glob("*.yaml"))
    own = [path for path in found if "FEDERATOR_DATA" not in path.read_text()]

    assert len(own) >= 5
    for path in own:
        made = loading.inputs(loading.document(path), path, {})
        assert made.works
        assert made.name == path.stem


SWF = "; MaxProcs: 8\n" + "".join(
    f"{number} {number * 10} 0 600 4 -1 -1 4 3600 -1 1 1 7 -1 0 -1 -1 -1\n"
    for number in range(1, 4)
)
SACCT = "JobID|Account|Submit|Start|End|State|NNodes|AllocTRES\n" + "".join(
    f"{number}|ads|2024-03-01T00:00:{number}0|2024-03-01T01:00:00|2024-03-01T01:10:00|COMPLETED|1|cpu=4\n"
    for number in range(1, 4)
)
JOBS = "name;submit_s;runtime_s;cpu_milli\n" + "".join(f"j{n};{n};600;4000\n" for n in range(1, 4))


@pytest.mark.parametrize(
    ("name", "text", "fleet"),
    [
        ("log.swf", SWF, ""),
        ("log.swf", SWF, "node,cluster,cpu_milli\nn,c,8000\n"),
        ("sacct.txt", SACCT, "node,cluster,cpu_milli\nn,c,8000\n"),
        ("jobs.csv", JOBS, "cluster;nodes;cores\nc;2;8\n"),
    ],
)
def test_a_trace_runs_directly_on_a_fleet(tmp_path: Path, name: str, text: str, fleet: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "nodes.csv").write_text(fleet)
    given = ("--fleet", str(tmp_path / "nodes.csv")) if fleet else ()

    done = run("simulate", str(tmp_path / name), *given, "-q")

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("All 3 works started; 1 of those that started waited (33.3 %)")


@pytest.mark.parametrize(("name", "text"), [("sacct.txt", SACCT), ("jobs.csv", JOBS)])
def test_a_trace_without_a_fleet_says_how_to_give_one(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    done = run("simulate", str(tmp_path / name), "-q", "--out", str(tmp_path / "out"))

    assert done.exit_code == 1
    assert f"{name}: names no fleet; give one with --fleet PATH: a table of nodes" in done.stderr
    assert not (tmp_path / "out").exists()


def test_two_traces_are_compared_on_one_fleet(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,cluster,cpu_milli\nn,c,8000\n")
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "jobs.csv").write_text(JOBS)
    other = ("--compare", str(tmp_path / "jobs.csv"))

    done = run(
        "simulate",
        str(tmp_path / "sacct.txt"),
        *other,
        "-q",
        "--fleet",
        str(tmp_path / "nodes.csv"),
    )

    assert done.exit_code == 0, done.stderr
    assert "All 3 works started" in done.stdout


def test_several_seeds_give_medians_and_ranges(tmp_path: Path) -> None:
    given = ("simulate", scenario(tmp_path), "-q", "--seeds", "3")

    done = run(*given, "--out", str(tmp_path / "out"))
    again = run(*given)

    assert done.exit_code == 0, done.stderr
    assert done.stdout == again.stdout
    assert done.stdout.startswith("Median of 3 seeds, 1 to 3: never started 0, started late ")
    assert "FIGURE" in done.stdout
    figures = json.loads((tmp_path / "out" / "seeds.json").read_text())["figures"]
    waited = figures["waited"]
    assert sorted(waited["bySeed"]) == ["1", "2", "3"]
    assert waited["least"] <= waited["median"] <= waited["most"]
    lines = (tmp_path / "out" / "seeds.csv").read_text().splitlines()
    assert lines[0] == "seed,figure,value"
    assert f"1,waited,{waited['bySeed']['1']}" in lines


def test_a_comparison_over_seeds_says_what_is_beyond_chance(tmp_path: Path) -> None:
    path = scenario(tmp_path)

    few = run("simulate", path, "-q", "--seeds", "2", "--compare", path)
    same = run("simulate", path, "-q", "--seeds", "6", "--compare", path)
    half = run("simulate", path, "-q", "--seeds", "6", "--compare", path, "--capacity", "1/2")

    assert "2 seeds are too few to tell a difference from chance; take --seeds 6" in few.stdout
    assert "No figure differs by more than chance may explain." in same.stdout
    assert "Beyond chance: missing copies times time " in half.stdout
    assert half.stdout.count("worse") > 2


def test_one_seed_of_what_is_drawn_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(SWF)
    note = "This is one seed; --seeds 8 tells how much of it is chance.\n"

    assert note in run("simulate", scenario(tmp_path), "-q").stdout
    assert note not in run("simulate", str(tmp_path / "log.swf"), "-q").stdout
    trace = run("simulate", str(tmp_path / "log.swf"), "-q", "--seeds", "2").stdout
    assert "Nothing in this scenario is drawn by the seed." in trace


def test_a_measure_that_a_seed_misses_is_exit_3(tmp_path: Path) -> None:
    path = scenario(tmp_path, SCENARIO + "measures: {wait_max_s: {most: 1s}}\n")

    done = run("simulate", path, "-q", "--seeds", "2")

    assert done.exit_code == 3
    assert "wait_max_s is out of its bounds in 2 of 2 seeds." in done.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--dask", "tcp://nowhere:1"), "--dask needs --seeds"),
        (("--seeds", "2", "--open", "--out", "out"), "--open needs --out, the folder for the"),
        (
            ("--seeds", "2", "--reference", "fed-fifo"),
            "--reference goes with --capacity and -o only",
        ),
        (("--seeds", "1"), "1 is not in the range"),
        (("--seeds", "2", "--set", "fleet.nothing=1"), "fleet.nothing"),
    ],
)
def test_seeds_are_refused_where_they_mean_nothing(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    done = run("simulate", scenario(tmp_path), "-q", *options)

    assert done.exit_code != 0
    assert why in done.stderr


def test_parquet_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    path = scenario(tmp_path)
    alone = run("simulate", path, "-q", "--parquet")
    seeds = run("simulate", path, "-q", "--parquet", "--out", str(out), "--seeds", "2")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    without = run("simulate", path, "-q", "--parquet", "--out", str(out))

    assert [done.exit_code for done in (alone, seeds, without)] == [1, 1, 1]
    needs = "--parquet needs --out, the folder for the tables, and writes one simulation"
    assert needs in alone.stderr
    assert needs in seeds.stderr
    assert "--parquet needs the extra: pip install 'federator[analysis]'" in without.stderr
    assert not out.exists()


def test_the_question_of_a_scenario_is_answered(tmp_path: Path) -> None:
    path = scenario(tmp_path, SCENARIO + "question: {kind: RunsOut, cluster: a}\n")
    out = tmp_path / "out"

    done = run("simulate", path, "-q", "--out", str(out))
    told = json.loads(run("simulate", path, "-q", "-o", "json").stdout)

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("The fleet runs out of cpu on day 1: ")
    assert done.stdout.splitlines()[0] == told["answer"]
    assert "\nas it is" in done.stdout
    assert json.loads((out / "answer.json").read_text()) == told
    page = (out / "report.html").read_text()
    assert "Question: RunsOut" in page
    assert page.index(told["answer"][:40]) < page.index("The simulation as it is")
    choices = [row["choice"] for row in told["tried"]]
    assert [line.partition(",")[0] for line in (out / "answer.csv").read_text().splitlines()] == [
        "choice",
        *choices,
    ]


def test_a_comparison_asks_no_question(tmp_path: Path) -> None:
    path = scenario(tmp_path, SCENARIO + "question: {kind: RunsOut}\n")
    done = run("simulate", path, "-q", "--compare", path)
    assert "two comes out as two in every figure" in done.stdout.replace(" as changed", "")


def test_size_is_the_smallest_fleet_that_meets_the_measures(tmp_path: Path) -> None:
    path = scenario(tmp_path, SCENARIO + "measures: {wait_p99_s: {most: 10h}}\n")

    done = run("size", path, "-q")
    half = run("size", path, "-q", "--scale-demand", "1/2", "--seeds", "2")
    never = run("size", path, "-q", "--set", "demand.generate[0].shard.cpu=80")

    assert done.exit_code == 0, done.stderr
    assert "100 % of every cluster" in done.stdout
    assert "Met means met with each of 2 seeds." in half.stdout
    assert never.exit_code == 3
    assert "nor does 800 % of it" in never.stdout


def test_one_work_is_explained_as_a_time_line(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    name = json.loads(run("simulate", path, "-q", "--explain", "job-1", "-o", "json").stdout)[
        "work"
    ]

    done = run("simulate", path, "-q", "--explain", name)
    missing = run("simulate", path, "-q", "--explain", "nothing")
    beside = run("simulate", path, "-q", "--explain", name, "--seeds", "2")

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("AT ")
    assert "submitted" in done.stdout
    assert "completed" in done.stdout
    assert (missing.exit_code, beside.exit_code) == (1, 1)
    assert "no work is called 'nothing'; there are " in missing.stderr
    assert "--explain shows one work of one simulation" in beside.stderr
