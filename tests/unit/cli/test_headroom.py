"""`federator headroom`: as many as `place` would place, where, what binds, and what more nodes
would add.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.files import member, policy, psvc, quota, run, write


def asked(
    tmp_path: Path, *objs: Any, options: tuple[str, ...] = ("--shape", "1cpu")
) -> dict[str, Any]:
    done = run(
        "headroom", "-f", write(tmp_path, "fleet.yaml", *objs), "-n", "feed", *options, "-o", "json"
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def gpus(name: str, *rows: tuple[int, str, int]) -> dict[str, Any]:
    """A member with (nodes, model, GPUs of a node)."""
    found = member(name)
    nodes = []
    for count, model, many in rows:
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(many)}
        nodes.append({"count": count, "allocatable": amounts, "free": amounts, "model": model})
    found["status"]["capacity"]["nodes"] = nodes
    return found


def test_it_is_what_place_would_place_and_not_one_more(tmp_path: Path) -> None:
    fleet = [
        member("a"),
        member("b", 3, cpu="3"),
        psvc("held", 5),
        quota(OnDemand={"max": {"cpu": "100"}}),
    ]

    found = asked(tmp_path, *fleet[:2], options=("--shape", "750mcpu,2Gi"))

    there = found["after"]
    for replicas, code in ((there, 0), (there + 1, 3)):
        probe = psvc("probe", replicas, cpu="750m")
        container = probe["spec"]["template"]["spec"]["containers"][0]
        container["resources"]["requests"]["memory"] = "2Gi"
        assert run("place", "-f", write(tmp_path, "p.yaml", *fleet[:2], probe)).exit_code == code
    assert found["now"] == there == 2 * 5 + 3 * 4
    assert [(row["cluster"], row["now"], row["binds"]) for row in found["clusters"]] == [
        ("b", 12, "cpu"),
        ("a", 10, "cpu"),
    ]


def test_what_is_placed_already_counts(tmp_path: Path) -> None:
    fleet = write(tmp_path, "fleet.yaml", member("a"), psvc("web", 3))
    decisions = tmp_path / "decisions.yaml"
    decisions.write_text(run("place", "-f", fleet, "-o", "yaml").stdout, encoding="utf-8")

    done = run("headroom", "-f", fleet, "-f", str(decisions), "--shape", "1cpu", "-o", "json")

    assert json.loads(done.stdout)["now"] == 5, "8 cores, 3 of them held"


def test_the_resource_that_binds_is_named(tmp_path: Path) -> None:
    memory = asked(tmp_path, member("a"), options=("--shape", "1cpu,8Gi"))
    both = asked(tmp_path, member("a"), options=("--shape", "1cpu,4Gi"))
    pods = asked(tmp_path, member("a"), options=("--shape", "1mcpu,1Mi"))

    assert (memory["now"], memory["binds"]) == (4, "memory")
    assert (both["now"], both["binds"]) == (8, "cpu and memory")
    assert (pods["now"], pods["binds"]) == (220, "pods")
    assert pods["because"] == "the nodes take no more pods"


def test_a_quota_binds_before_the_nodes(tmp_path: Path) -> None:
    limit = quota(OnDemand={"max": {"cpu": "3"}})

    mine = asked(tmp_path, member("a"), limit, options=("--shape", "1cpu", "--project", "feed"))
    other = asked(
        tmp_path,
        member("a"),
        limit,
        options=("--shape", "1cpu", "--project", "feed", "--tier", "Reserved"),
    )

    assert (mine["now"], mine["binds"]) == (3, "quota")
    assert mine["clusters"][0]["binds"] == "quota", "it has room that the quota leaves empty"
    assert (other["now"], other["binds"]) == (8, "cpu")
    assert mine["because"] == ("FederatedQuota feed allows 3 cpu (spec.tiers.OnDemand.max.cpu)"), (
        "of the copies that are asked for by way of trial nothing is said"
    )


def test_a_project_alone_is_asked_for_in_a_namespace_that_may_use_it(tmp_path: Path) -> None:
    limit = quota(OnDemand={"max": {"cpu": "3"}})
    limit["spec"] |= {"projects": ["ads"], "namespaces": ["ads-jobs"]}

    done = run(
        "headroom",
        "-f",
        write(tmp_path, "f.yaml", member("a"), limit),
        "--shape",
        "1cpu",
        "--project",
        "ads",
    )

    assert "3 more copies of 1cpu of project ads have a place now" in done.stdout


def test_clusters_that_never_take_it_say_why(tmp_path: Path) -> None:
    done = run(
        "headroom", "-f", write(tmp_path, "f.yaml", member("a"), member("b", cordoned=True), member("c", cpu="1")),
        "--shape", "2cpu",
    )  # fmt: skip

    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "4 more copies of 2cpu have a place now, in 1 of 3 clusters; cpu binds first: without"
    )
    rows = {line.split()[0]: line.split()[1:3] for line in lines[3:]}
    assert rows["a"] == ["4", "cpu"]
    assert rows["b"] == ["never", "Cordoned:"]
    assert rows["c"] == ["never", "cpu"]


def test_a_policy_bounds_it(tmp_path: Path) -> None:
    found = asked(tmp_path, member("a"), member("b"), policy(clusters={"names": ["b"]}))

    assert {row["cluster"]: row["now"] for row in found["clusters"]} == {"b": 8, "a": 0}


def test_only_gpus_of_the_model_count(tmp_path: Path) -> None:
    fleet = [gpus("a", (2, "A100", 8), (3, "T4", 4)), gpus("b", (1, "T4", 4))]

    assert asked(tmp_path, *fleet, options=("--shape", "1cpu,1gpu:a100"))["now"] == 16
    named = asked(
        tmp_path,
        gpus("a", (2, "A100-SXM4-40GB", 8), (1, "A10", 4)),
        options=("--shape", "1gpu:A100"),
    )
    assert named["now"] == 16, "the first part of a model's name is enough"
    any_model = asked(tmp_path, *fleet, options=("--shape", "1cpu,1gpu"))
    assert (any_model["now"], any_model["binds"]) == (32, "gpu")
    done = run("headroom", "-f", write(tmp_path, "g.yaml", *fleet), "--shape", "1gpu:H100")
    assert done.exit_code == 1
    assert "no node has GPUs of model 'H100'; the fleet reports A100, T4" in done.stderr


def test_what_an_autoscaler_could_add_is_counted_apart(tmp_path: Path) -> None:
    fleet = [member("a"), gpus("b", (1, "T4", 4))]

    like = asked(tmp_path, *fleet, options=("--shape", "1cpu,8Gi", "--scale-up", "a=3"))
    shaped = asked(
        tmp_path,
        *fleet,
        options=("--shape", "1cpu,2gpu:A100", "--scale-up", "b=2x16cpu,64Gi,8gpu:A100"),
    )

    assert {row["cluster"]: (row["now"], row["after"]) for row in like["clusters"]} == {
        "a": (4, 10),
        "b": (32, 32),
    }
    assert (like["now"], like["after"]) == (36, 42)
    assert {r["cluster"]: (r["now"], r["after"], r["ever"]) for r in shaped["clusters"]} == {
        "a": (0, 0, False),
        "b": (0, 8, True),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shape", "4foo"), "--shape: '4foo' of '4foo' is no shape; one is like 4cpu,8Gi"),
        (("--shape", "1cpu,2cpu"), "names cpu twice"),
        (("--shape", "0cpu"), "asks for nothing"),
        (("--shape", ""), "is no shape"),
        (("--scale-up", "a"), "--scale-up: 'a' is not CLUSTER=NODES"),
        (("--scale-up", "a=0"), "--scale-up: 'a=0' is not CLUSTER=NODES"),
        (("--scale-up", "z=2"), "there is no cluster 'z' to add nodes to; the fleet has a"),
        (("--project", "Not A Project"), "spec.project: "),
    ],
)
def test_what_cannot_be_read_is_told_with_the_option(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run("headroom", "-f", write(tmp_path, "f.yaml", member("a")), *options)

    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_files_without_a_fleet_are_told(tmp_path: Path) -> None:
    done = run("headroom", "-f", write(tmp_path, "f.yaml", psvc()))

    assert done.exit_code == 1
    assert "there is no MemberCluster" in done.stderr
