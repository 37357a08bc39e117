"""`federator diff`: decided beside reported, and native objects before and after an edit."""

from pathlib import Path

import pytest

from tests.unit.cli.files import member, psvc, run, write

Files = tuple[str, ...]


def fleet(tmp_path: Path, **status: object) -> Files:
    web = psvc("web", 6, cpu="1")
    clusters = [member(name, 2, cpu="8") for name in "ab"]
    first = write(tmp_path, "fleet.yaml", *clusters, web)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    write(tmp_path, "fleet.yaml", *clusters, {**web, "status": status})
    return "--dump", first, "--dump", str(tmp_path / "decisions.yaml"), "-n", "feed"


def rows(**ready: int) -> list[dict[str, object]]:
    return [
        {
            "cluster": name,
            "actual": 3,
            "ready": count,
            "updated": 3,
            "reason": "" if count == 3 else "Starting",
        }
        for name, count in ready.items()
    ]


def test_a_cluster_that_reports_less_than_it_was_given_is_shown(tmp_path: Path) -> None:
    done = run("diff", "psvc/web", *fleet(tmp_path, clusterStatuses=rows(a=3, b=1)))

    assert done.exit_code == 10, done.output
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["b", "3", "3", "1", "3", "Starting"]
    ]


def test_a_workload_that_is_as_decided_does_not_differ(tmp_path: Path) -> None:
    done = run("diff", "psvc/web", *fleet(tmp_path, clusterStatuses=rows(a=3, b=3)))

    assert (done.exit_code, done.stdout) == (0, "Nothing differs.\n")


def test_a_new_image_differs_in_the_native_deployment_of_each_cluster(tmp_path: Path) -> None:
    dump = fleet(tmp_path)
    edited = psvc("web", 6, cpu="1")
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "registry/app:2"

    done = run("diff", "-f", write(tmp_path, "web.yaml", edited), *dump)

    assert done.exit_code == 10, done.output
    assert "# PinterestService/feed/web in a, b" in done.stdout
    assert "--- Deployment/web (now)\n+++ Deployment/web (then)" in done.stdout
    assert "-        image: registry/app:1" in done.stdout.replace("      - image", "        image")
    assert "registry/app:2" in done.stdout
    assert "CLUSTER" not in done.stdout  # no copy moves


def test_more_copies_show_per_cluster_and_in_each_deployment(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    done = run("diff", "-f", write(tmp_path, "web.yaml", psvc("web", 8, cpu="1")), *dump)

    assert "NOW   THEN" in done.stdout
    assert "-  replicas: 3\n+  replicas: 4" in done.stdout


def test_the_same_objects_do_not_differ(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    done = run("diff", "-f", write(tmp_path, "web.yaml", psvc("web", 6, cpu="1")), *dump)

    assert (done.exit_code, done.stdout) == (0, "Nothing differs.\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name one workload"),
        (("psvc/none",), '"none" not found in namespace feed'),
        (("cluster/a",), "name a workload"),
        (("-f", "fleet.yaml"), "the files may contain workloads and placement policies only"),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path: Path, args: Files, message: str) -> None:
    dump = fleet(tmp_path)
    given = [str(tmp_path / each) if each.endswith(".yaml") else each for each in args]

    done = run("diff", *given, *dump)

    assert done.exit_code == 1
    assert message in done.output
