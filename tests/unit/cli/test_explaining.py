"""What `federator explain` says: from objects alone, as the host would hold them."""

from typing import Any

import pytest

from federator.cli import explaining
from federator.hub import offline
from federator.model.decision import Reason
from federator.model.names import WorkloadKey
from tests.unit.cli.files import member, pjs, policy, psvc, quota

QUIET = frozenset({Reason.CHOSEN, Reason.NOT_NEEDED})


def facts(workload: dict[str, Any], *objs: dict[str, Any]) -> dict[str, Any]:
    """The facts on a workload, after the engine has placed it once and that decision was recorded."""
    from federator.cli import place

    everything = [workload, *objs]
    situation = offline.read(everything, as_of=1_790_000_000.0)
    decisions = [place.as_object(ask, decision) for ask, decision in situation.decide_all()]
    situation = offline.read([*everything, *decisions], as_of=1_790_000_000.0)
    return of(workload, situation)


def of(workload: dict[str, Any], situation: offline.Situation) -> dict[str, Any]:
    meta = workload["metadata"]
    key = WorkloadKey(workload["kind"], meta["namespace"], meta["name"])
    return explaining.facts(workload, situation, situation.workloads[key])


def row(found: dict[str, Any], cluster: str) -> dict[str, Any]:
    (one,) = (row for row in found["clusters"] if row["cluster"] == cluster)
    result: dict[str, Any] = one
    return result


def with_status(workload: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**workload, "status": status}


def test_the_first_line_is_the_verdict() -> None:
    placed = {"type": "Placed", "status": "True", "reason": "Placed", "message": "all"}
    found = facts(with_status(psvc(), ready=3, conditions=[placed]), member("a"))

    assert explaining.text(found).splitlines()[0] == (
        "PinterestService/web  desired 4  placed 4  ready 3  Placed=True (Placed)"
    )


def test_a_workload_that_the_hub_has_not_seen_says_so() -> None:
    assert explaining.first_line(facts(psvc(), member("a"))).endswith("Placed=Unknown (NotYetSeen)")


def test_job_sets_show_what_runs_and_what_is_done() -> None:
    found = facts(with_status(pjs(shards=6), running=2, done=1), member("a"), member("b"))

    assert explaining.first_line(found).startswith("PinterestJobSet/batch  desired 6  placed 6  running 2  done 1")
    assert {one["ranges"] for one in found["clusters"]} == {"0-2", "3-5"}


def test_every_cluster_has_a_row_whose_numbers_add_up() -> None:
    found = facts(psvc(replicas=6), member("a", 1), member("b", 2))

    assert [one["cluster"] for one in found["clusters"]] == ["a", "b"]
    assert sum(one["got"] for one in found["clusters"]) == 6
    for one in found["clusters"]:
        assert one["score"] == sum(one["terms"].values())
        assert one["got"] == one["placed"] <= one["fit"]
        assert one["held"] + one["room"] >= one["got"]


def test_ready_there_comes_from_the_status_of_that_cluster() -> None:
    statuses = [{"cluster": "a", "ready": 2, "reason": "ImagePullBackOff", "message": "no such image"}]
    found = facts(with_status(psvc(), clusterStatuses=statuses), member("a"), member("b"))

    assert (row(found, "a")["ready"], row(found, "b")["ready"]) == (2, None)
    assert "there: ImagePullBackOff: no such image" in explaining.text(found)


@pytest.mark.parametrize(
    ("spec", "rules", "fix"),
    [
        ({"cordoned": True}, [], "federator cluster uncordon b"),
        (
            {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]},
            [policy(priority=1)],
            "tolerate it in PlacementPolicy rules spec.tolerations, or take it from MemberCluster b spec.taints",
        ),
        ({"tiers": ["Reserved"]}, [], "change spec.tiers or spec.projects of MemberCluster b"),
        ({}, [policy(clusters={"names": ["a"]})], "change PlacementPolicy rules spec.clusters"),
    ],
)
def test_every_refusal_names_its_fix(spec: dict[str, Any], rules: list[dict[str, Any]], fix: str) -> None:
    found = facts(psvc(), member("a"), member("b", **spec), *rules)

    assert Reason(row(found, "b")["verdict"]) not in QUIET
    assert row(found, "b")["fix"].startswith(fix)
    assert f"fix: {fix}" in explaining.text(found)


def test_a_cluster_that_keeps_copies_but_takes_no_new_ones_names_its_fix_too() -> None:
    situation = offline.read([psvc(), member("a", cordoned=True), *recorded({"a": 4})], as_of=0.0)

    assert row(of(psvc(), situation), "a")["fix"] == "federator cluster uncordon a"


def recorded(shares: dict[str, int]) -> list[dict[str, Any]]:
    """A decision on the service as the host holds it."""
    from federator.cli import place

    (pair,) = offline.read([psvc(), member("a"), member("b")], as_of=0.0).decide_all()
    obj = place.as_object(*pair)
    obj["spec"]["shares"] = [{"cluster": name, "replicas": count, "seq": 1} for name, count in shares.items()]
    return [obj]


def test_every_reason_but_the_good_ones_has_a_fix() -> None:
    assert set(Reason) - set(explaining.FIXES) == QUIET


def test_a_shortfall_says_how_much_and_what_would_lift_it() -> None:
    limit = quota(OnDemand={"guaranteed": {"cpu": "6"}})
    found = facts(psvc(replicas=8), member("a"), limit)

    assert (found["missing"], found["reason"]) == (2, "ExceedsMaxQuota")
    assert {one["field"]: one["gains"] for one in found["remedies"]} == {"FederatedQuota feed": 2, "requests.cpu": 2}
    assert "guaranteed.cpu 6 -> 8 (+2)" in explaining.text(found)
    assert "short by 2" in explaining.text(found)


def test_missing_room_is_told_in_nodes() -> None:
    found = facts(psvc(replicas=21, cpu="3"), member("a", 2), member("b", 1, cpu="7"))

    text = explaining.text(found)
    assert found["reason"] == "InsufficientCapacity"
    # 4 copies fit now (1 on each node of a, 2 on that of b), and one more node like b's takes 2.
    assert found["missing"] == 17
    assert "9 more nodes like those of b (cpu 7, memory 16Gi, pods 110), 2 copies on each (+17)" in text


def test_nothing_is_short_and_nothing_is_proposed_when_all_is_placed() -> None:
    found = facts(psvc(), member("a"))

    assert (found["missing"], found["remedies"]) == (0, [])
    assert "short by" not in explaining.text(found)


def test_a_workload_that_cannot_be_read_says_which_field() -> None:
    broken = psvc(cpu="lots")
    found = of(broken, offline.read([broken, member("a")], as_of=0.0))

    text = explaining.text(found)
    assert found["reason"] == "Misconfigured"
    assert "requests.cpu" in text
    assert "fix: correct the field that the message names" in text


def test_a_policy_that_does_not_exist_is_a_misconfiguration_with_its_name() -> None:
    found = facts(psvc(placement={"policyRef": "nosuch"}), member("a"))

    assert found["reason"] == "Misconfigured"
    assert "nosuch" in found["message"]


def test_one_cluster_can_be_shown_alone() -> None:
    text = explaining.text(facts(psvc(), member("a"), member("b")), cluster="b")

    assert "\nb   " in text
    assert "\na   " not in text


def test_what_the_engine_would_change_now_is_told() -> None:
    situation = offline.read(
        [psvc(), member("a"), member("b"), policy(clusters={"names": ["b"]}), *recorded({"a": 4})], as_of=0.0
    )

    text = explaining.text(of(psvc(), situation))
    assert "holds 4 by the recorded decision; asked again now it would get 0" in text


def test_every_number_of_the_table_names_its_source() -> None:
    found = facts(psvc(), member("a"))
    text = explaining.text(found)

    for name in ("desired", "placed", "ready", "fit", "score", "got", "request"):
        assert f"\n  {name}: {found['sources'][name]}" in text
    assert "decision: PlacementDecision psvc-web-" in text


def test_what_a_quota_does_not_allow_is_mended_there_and_not_in_the_clusters() -> None:
    bound = quota("ads")
    bound["spec"]["namespaces"] = ["feed"]
    found = facts(psvc(), member("a"), bound)

    assert "FederatedQuota ads" in found["message"]
    assert "spec.namespaces or spec.projects of the FederatedQuota" in found["fix"]
    assert "MemberCluster" not in found["fix"]


def test_what_a_cluster_does_not_allow_is_mended_there() -> None:
    closed = member("a")
    closed["spec"]["projects"] = ["others"]
    found = facts(psvc(), closed)

    assert row(found, "a")["fix"] == "change spec.tiers or spec.projects of MemberCluster a"
