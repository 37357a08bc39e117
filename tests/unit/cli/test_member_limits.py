"""ResourceQuotas and LimitRanges of members, as `federator plan` and `federator headroom` count
them: what they leave bounds copies, and what they refuse leaves a cluster out.
"""

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.files import member, psvc, run, write

LIMITED = "NamespaceLimits"


def limited(name: str, namespace: str = "feed", **limits: Any) -> dict[str, Any]:
    """A member with 8 cpus, which reports these limits of a namespace."""
    found = member(name)
    found["status"]["capacity"]["namespaces"] = [{"name": namespace, **limits}]
    return found


def leaves(**requests: str) -> dict[str, Any]:
    """A ResourceQuota that leaves these requests."""
    return {"quotas": [{"name": "compute", "requests": requests}]}


def at_least(cpu: str) -> dict[str, Any]:
    """A LimitRange that asks for so much of each container."""
    return {"limitRanges": [{"name": "sizes", "type": "Container", "min": {"cpu": cpu}}]}


def headroom(tmp_path: Path, *fleet: Any, shape: str = "1cpu") -> dict[str, Any]:
    path = write(tmp_path, "fleet.yaml", *fleet)
    done = run("headroom", "-f", path, "-n", "feed", "--shape", shape, "-o", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_cluster(found: dict[str, Any]) -> dict[str, int]:
    return {row["cluster"]: row["now"] for row in found["clusters"]}


def test_headroom_counts_what_the_quota_of_a_member_leaves(tmp_path: Path) -> None:
    fleet = [limited("a", **leaves(pods="3")), limited("b", **leaves(cpu="2500m")), member("c")]

    found = headroom(tmp_path, *fleet)

    assert by_cluster(found) == {"a": 3, "b": 2, "c": 8}
    assert found["now"] == 13
    done = run("place", "-f", write(tmp_path, "p.yaml", *fleet, psvc("web", 13)))
    assert done.exit_code == 0, done.output
    assert run("place", "-f", write(tmp_path, "p.yaml", *fleet, psvc("web", 14))).exit_code == 3


def test_headroom_leaves_out_a_member_with_a_limit_range_that_refuses_the_pods(
    tmp_path: Path,
) -> None:
    fleet = [limited("a", **at_least("1500m")), member("b")]

    assert by_cluster(headroom(tmp_path, *fleet)).get("a", 0) == 0
    assert by_cluster(headroom(tmp_path, *fleet, shape="2cpu")) == {"a": 4, "b": 4}


def test_limits_of_another_namespace_bound_nothing(tmp_path: Path) -> None:
    found = headroom(tmp_path, limited("a", "ads", **leaves(pods="0")), member("b"))

    assert by_cluster(found) == {"a": 8, "b": 8}


def planned(tmp_path: Path, fleet: list[Any], *args: str) -> tuple[int, dict[str, Any]]:
    """What a change does to the fleet."""
    first = write(tmp_path, "fleet.yaml", *fleet)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    dump = ("--dump", first, "--dump", str(tmp_path / "decisions.yaml"))
    done = run("plan", *dump, "-n", "feed", "-o", "json", "--no-losses", *args)
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


def test_a_plan_ends_short_where_quotas_of_members_leave_no_more(tmp_path: Path) -> None:
    """Of 12 copies 6 have a place: what running copies use is not charged twice."""
    fleet = [*(limited(name, **leaves(pods="3")) for name in "ab"), psvc("web", 4)]

    _, fits = planned(tmp_path, fleet, "-f", write(tmp_path, "fits.yaml", psvc("web", 6)))
    _, more = planned(tmp_path, fleet, "-f", write(tmp_path, "more.yaml", psvc("web", 12)))

    assert [row["short"] for row in fits["workloads"]] == [0]
    (row,) = more["workloads"]
    assert (row["short"], row["reason"]) == (6, LIMITED)
    assert "ResourceQuota compute of namespace feed" in row["message"]


def test_copies_of_a_lost_cluster_go_only_where_limits_let_them(tmp_path: Path) -> None:
    fleet = [
        member("a", 1),
        limited("b", **leaves(pods="1")),
        limited("c", **at_least("2")),
        psvc("web", 5),
    ]

    _, document = planned(tmp_path, fleet, "--lose", "a")

    (row,) = document["workloads"]
    assert row["leaves"] == {"a": 4}
    assert row["short"] == 4
    assert row["reason"] == LIMITED
