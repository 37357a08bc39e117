"""`federator plan` on files: what moves, restarts, waits and ends short, and the exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from federator.advice.plans import sending
from federator.hub.query.router import LARGE_BYTES
from tests.unit.cli.files import member, policy, psvc, quota, run, write

Files = tuple[str, ...]


def fleet(tmp_path: Path, *more: Any) -> Files:
    """Three clusters of 16 cpus each with 22 of them taken, and the decisions on them."""
    workloads = (
        psvc("web", 9, cpu="1"),
        psvc("spare", 5, cpu="1", tier="Preemptible"),
        psvc("big", 4, cpu="2"),
    )
    clusters = [member(name, 2, cpu="8") for name in "abc"]
    first = write(tmp_path, "fleet.yaml", *clusters, *workloads, *more)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return "--dump", first, "--dump", str(tmp_path / "decisions.yaml")


def planned(dump: Files, *args: str) -> tuple[int, dict[str, Any]]:
    done = run("plan", *dump, "-n", "feed", "-o", "json", *args)
    assert done.stdout, done.output
    document = json.loads(done.stdout)
    return done.exit_code, {
        **document,
        "by": {row["workload"]: row for row in document["workloads"]},
    }


def key(name: str) -> str:
    return f"PinterestService/feed/{name}"


def test_objects_as_they_are_change_nothing(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    code, document = planned(dump, "-f", str(tmp_path / "fleet.yaml"))

    assert code == 0
    assert document["workloads"] == []
    assert run("plan", *dump, "-f", dump[1]).stdout.startswith("Nothing changes, of 3 workloads")


def test_the_copies_of_a_lost_cluster_are_placed_in_the_others(tmp_path: Path) -> None:
    code, document = planned(fleet(tmp_path), "--lose", "a", "--no-losses")

    assert code == 10
    web = document["by"][key("web")]
    assert web["leaves"] == {"a": 3}
    assert sum(web["enters"].values()) == web["restarted"] == 3
    assert "a" not in web["after"]
    (budget,) = document["budgets"]
    assert budget == {
        "budget": "hub.evacuated_copies_a_minute",
        "copies": 6,
        "aMinute": 300,
        "seconds": 2,
    }


def test_clusters_are_lost_by_label(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    _, by_name = planned(dump, "--lose", "b", "--no-losses")
    _, by_label = planned(dump, "--lose", "zone=b", "--no-losses")

    assert by_name["by"] == by_label["by"]


def test_a_loss_that_is_no_longer_covered_is_reported(tmp_path: Path) -> None:
    code, document = planned(fleet(tmp_path), "--lose", "a")

    assert code == 11
    assert {loss["cluster"] for loss in document["uncovered"]} == {"b", "c"}
    for loss in document["uncovered"]:
        assert loss["copiesWithoutPlaceNow"] == 0
        # 22 cpus on one cluster of 16
        assert loss["copiesWithoutPlaceThen"] >= 3


def test_room_that_copies_leave_is_given_to_those_that_wait(tmp_path: Path) -> None:
    big = write(tmp_path, "big.yaml", psvc("huge", 4, cpu="8"))
    dump = fleet(tmp_path)

    _, crowded = planned(dump, "-f", big, "--no-losses")
    _, alone = planned(
        dump, "-f", big, "--delete", "psvc/web", "--delete", "psvc/big", "--no-losses"
    )

    assert crowded["by"][key("huge")]["short"] > alone["by"][key("huge")]["short"]
    assert alone["by"][key("web")]["deleted"]


def test_a_policy_moves_copies_and_its_budget_says_for_how_long(tmp_path: Path) -> None:
    rules = policy("only-a", clusters={"names": ["a"]}, moveBudget={"maxCopiesPerMinute": 1})
    code, document = planned(
        fleet(tmp_path), "-f", write(tmp_path, "policy.yaml", rules), "--no-losses"
    )

    assert code == 10
    moved = document["summary"]["moves"]
    assert moved > 0
    (budget,) = document["budgets"]
    assert budget["budget"] == "moveBudget of PlacementPolicy feed/only-a"
    assert budget["seconds"] == (moved - 1) * 60
    assert {row["to"] for row in document["byClusters"]} == {"a"}


def test_running_copies_of_a_lazy_policy_stay(tmp_path: Path) -> None:
    rules = policy("only-a", clusters={"names": ["a"]}, onPolicyChange="Lazy")
    _, document = planned(
        fleet(tmp_path), "-f", write(tmp_path, "policy.yaml", rules), "--no-losses"
    )

    assert document["summary"]["moves"] == 0
    assert document["budgets"] == []


def test_a_drain_that_leaves_copies_without_a_place_is_refused(tmp_path: Path) -> None:
    """As the hub refuses it, unless it is forced."""
    full = psvc("full", 24, cpu="1")
    dump = fleet(tmp_path, full)
    drained = write(tmp_path, "a.yaml", member("a", 2, cpu="8", drain={}))
    forced = write(tmp_path, "forced.yaml", member("a", 2, cpu="8", drain={"force": True}))

    code, document = planned(dump, "-f", drained, "--no-losses")
    _, moving = planned(dump, "-f", forced, "--no-losses")

    assert code == 11
    assert document["workloads"] == []
    (sentence,) = document["refused"]
    assert sentence.startswith("MemberCluster/a: the hub does not begin this drain: ")
    assert moving["refused"] == []
    assert moving["summary"]["waiting"] > 0


def test_more_moves_than_allowed_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    assert planned(dump, "--lose", "a", "--max-moves", "5")[0] == 12
    assert planned(dump, "--lose", "a", "--max-moves", "6", "--no-losses")[0] == 10


def test_a_workload_that_ends_short_names_the_limit(tmp_path: Path) -> None:
    account = quota(OnDemand={"guaranteed": {"cpu": "40"}}, Preemptible={"max": {"cpu": "9"}})
    dump = fleet(tmp_path, account)

    code, document = planned(dump, "--scale", "psvc/web=60", "--no-losses")

    web = document["by"][key("web")]
    assert code == 11
    assert web["short"] == 60 - sum(web["after"].values()) > 0
    assert web["reason"] == "ExceedsMaxQuota"
    (cpu,) = [
        row for row in document["accounts"] if (row["resource"], row["tier"]) == ("cpu", "OnDemand")
    ]
    assert (cpu["before"]["used"], cpu["after"]["used"]) == ("17", "40")


def test_a_changed_template_restarts_every_copy_where_it_runs(tmp_path: Path) -> None:
    edited = psvc("web", 9, cpu="1")
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "registry/app:2"

    code, document = planned(
        fleet(tmp_path), "-f", write(tmp_path, "web.yaml", edited), "--no-losses"
    )

    web = document["by"][key("web")]
    assert code == 10
    assert (web["restarted"], web["moves"]) == (9, 0)
    assert web["before"] == web["after"]


def _runtime(version: str, image: str) -> dict[str, Any]:
    sidecar = {"name": "logs", "container": {"image": image}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": "default"},
        "spec": {"version": version, "sidecars": [sidecar]},
    }


def test_a_new_version_of_a_runtime_restarts_all_but_the_workloads_that_keep_theirs(
    tmp_path: Path,
) -> None:
    kept = psvc("kept", 2, cpu="1")
    pin = {"version": {"name": "1", "until": "2099-01-01T00:00:00Z"}}
    kept["spec"]["runtime"] = pin
    dump = fleet(tmp_path, kept, _runtime("1", "logs:1"))
    upgrade = write(tmp_path, "upgrade.yaml", _runtime("2", "logs:2"))

    code, document = planned(dump, "-f", upgrade, "--no-losses")

    assert code == 10
    restarted = {name: row["restarted"] for name, row in document["by"].items()}
    assert restarted == {key("web"): 9, key("spare"): 5, key("big"): 4}


def test_a_pin_of_a_runtime_version_restarts_nothing(tmp_path: Path) -> None:
    dump = fleet(tmp_path, _runtime("1", "logs:1"))
    pinned = psvc("web", 9, cpu="1")
    pinned["spec"]["runtime"] = {"version": {"name": "1", "until": "2099-01-01T00:00:00Z"}}

    code, document = planned(dump, "-f", write(tmp_path, "web.yaml", pinned), "--no-losses")

    assert (code, document["workloads"]) == (0, [])


def test_a_new_cluster_takes_what_found_no_place(tmp_path: Path) -> None:
    dump = fleet(tmp_path)
    more = write(tmp_path, "more.yaml", psvc("huge", 6, cpu="8"))
    new = write(tmp_path, "new.yaml", member("d", 6, cpu="8"))

    _, without = planned(dump, "-f", more, "--no-losses")
    _, within = planned(dump, "-f", more, "--add-cluster", new, "--no-losses")

    assert without["by"][key("huge")]["short"] > 0
    assert within["by"][key("huge")]["short"] == 0
    assert within["looked"]["clusters"] == 4


def test_a_cluster_without_nodes_is_named(tmp_path: Path) -> None:
    bare = member("d")
    del bare["status"]

    done = run("plan", *fleet(tmp_path), "--add-cluster", write(tmp_path, "new.yaml", bare))

    assert "MemberCluster/d: has no status.capacity, so it takes nothing" in done.stderr


def test_labels_that_the_last_apply_set_are_removed(tmp_path: Path) -> None:
    last = {"metadata": {"labels": {"zone": "a"}}}
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(last)}
    cluster = member("a", 2, cpu="8")
    cluster["metadata"]["annotations"] = annotation
    clusters = [cluster, *(member(name, 2, cpu="8") for name in "bc")]
    rules = policy(
        clusters={"selector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    )
    first = write(tmp_path, "fleet.yaml", *clusters, rules, psvc("web", 9, cpu="1"))
    decided = run("place", "-f", first, "-o", "yaml")
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    edited = member("a", 2, cpu="8")
    del edited["metadata"]["labels"]

    _, document = planned(
        ("--dump", first, "--dump", str(tmp_path / "decisions.yaml")),
        "-f",
        write(tmp_path, "a.yaml", edited),
        "--no-losses",
    )

    assert document["by"][key("web")]["leaves"] == {"a": 3}


def test_many_workloads_are_grouped(tmp_path: Path) -> None:
    many = [psvc(f"w{number:02}", 3, cpu="100m") for number in range(30)]

    done = run("plan", *fleet(tmp_path), "-f", write(tmp_path, "many.yaml", *many), "--no-losses")

    assert done.exit_code == 10
    assert "... and 10 more workloads (-o json)" in done.stdout
    assert "POLICY" in done.stdout
    assert "FROM   TO" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name an edit: -f, --delete, --lose, --add-cluster or --scale"),
        (("--delete", "psvc/none"), "PinterestService/none: there is none in namespace feed"),
        (("--delete", "psvc"), "--delete: 'psvc' is not KIND/NAME"),
        (("--delete", "pd/x"), "a plan does not take the deletion of this kind"),
        (("--lose", "none"), "there is no cluster none to lose; there is a, b, c"),
        (("--lose", "zone=x"), "no cluster has the label zone=x; there is a, b, c"),
        (("--scale", "psvc/none=3"), "PinterestService/feed/none: there is no such workload"),
        (("--scale", "psvc/web=many"), "is not KIND/NAME=COUNT"),
        (("--scale", "cluster/a=3"), "a MemberCluster has no copies"),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path: Path, args: Files, message: str) -> None:
    done = run("plan", *fleet(tmp_path), "-n", "feed", *args)

    assert done.exit_code == 1
    assert message in done.output


def test_workloads_without_a_decision_are_placed_before_the_edits(tmp_path: Path) -> None:
    decided, undecided = fleet(tmp_path), ("--dump", str(tmp_path / "fleet.yaml"))
    anywhere = write(tmp_path, "cpp.yaml", policy("anywhere"))

    code, document = planned(undecided, "--lose", "a", "--no-losses")
    unchanged, nothing = planned(undecided, "-f", anywhere, "--no-losses")

    assert document["looked"]["undecided"] == 3
    assert "3 workloads have no decision yet" in document["warnings"][0]
    assert document["by"] == planned(decided, "--lose", "a", "--no-losses")[1]["by"]
    assert code == 10
    assert (unchanged, nothing["workloads"]) == (0, [])
    assert nothing["looked"]["undecided"] == 3


def test_a_decision_cannot_be_planned(tmp_path: Path) -> None:
    dump = fleet(tmp_path)

    done = run("plan", *dump, "-f", str(tmp_path / "decisions.yaml"))

    assert done.exit_code == 1
    assert "placing does not read this kind; a plan takes" in done.output


def test_a_large_plan_says_in_which_namespace_its_sender_lists_workloads() -> None:
    service = psvc("web", 2)
    large = {**service, "spec": {**service["spec"], "config": {"text": "x" * LARGE_BYTES}}}
    nowhere: dict[str, Any] = {"applied": [], "deleted": [], "scaled": []}

    assert sending.query_of({**nowhere, "applied": [service]}) == ()
    assert sending.query_of({**nowhere, "applied": [quota(), large]}) == (("namespace", "feed"),)
