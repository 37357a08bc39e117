"""What `federator explain` says: from objects alone, as the host would hold them."""

from typing import Any

import pytest

from federator.advice import facts as facts_of
from federator.cli import explaining
from federator.hub.placing import offline
from federator.model.decision import Reason
from federator.model.names import WorkloadKey
from tests.unit.cli.files import member, pjs, policy, psvc, quota

QUIET = frozenset({Reason.CHOSEN, Reason.NOT_NEEDED})


def facts(workload: dict[str, Any], *objs: dict[str, Any]) -> dict[str, Any]:
    """The facts on a workload, after the engine has placed it once and that decision was
    recorded.
    """

    everything = [workload, *objs]
    situation = offline.read(everything, as_of=1_790_000_000.0)
    decisions = [
        offline.as_object(ask, decision, "placed") for ask, decision in situation.decide_all()
    ]
    situation = offline.read([*everything, *decisions], as_of=1_790_000_000.0)
    return of(workload, situation)


def of(workload: dict[str, Any], situation: offline.Situation) -> dict[str, Any]:
    meta = workload["metadata"]
    key = WorkloadKey(workload["kind"], meta["namespace"], meta["name"])
    return facts_of.facts(workload, situation, situation.workloads[key])


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


def test_required_policies_are_named_with_their_owner() -> None:
    rule = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "only-b", "generation": 2},
        "spec": {
            "enforcement": "Required",
            "owner": {"team": "platform"},
            "clusters": {"names": ["b"]},
        },
    }
    found = facts(psvc(), member("a"), rule)

    title = "ClusterPlacementPolicy only-b (Required, owner platform)"
    assert found["policy"]["required"] == [{"name": "only-b", "generation": 2, "title": title}]
    assert (
        f"  and {title}, which holds whatever the workload says"
        in explaining.text(found).splitlines()
    )
    assert title in row(found, "a")["message"]


def test_nodes_that_do_not_have_a_daemon_are_named_by_reason() -> None:
    taint = "has taint ads:NoSchedule, which its pods do not tolerate"
    groups = [
        {"why": taint, "count": 5, "names": ["n-1", "n-2", "n-3"]},
        {"why": "has a pod of it: ImagePullFailed", "count": 1, "names": ["n-9"]},
    ]
    rows = [{"cluster": "a", "nodesWithout": groups}, {"cluster": "b"}]
    agent = {**psvc(name="agent"), "kind": "PinterestDaemon"}
    agent["spec"] = {"template": psvc()["spec"]["template"]}
    found = facts(with_status(agent, clusterStatuses=rows), member("a"), member("b"))

    lines = [line for line in explaining.text(found).splitlines() if line.startswith("  not on")]
    assert lines == [
        f"  not on a/n-1, n-2, n-3 and 2 more: each {taint}",
        "  not on a/n-9: each has a pod of it: ImagePullFailed",
    ]
    assert "not on" not in explaining.text(found, cluster="b")


def test_a_workload_that_the_hub_has_not_seen_says_so() -> None:
    assert explaining.first_line(facts(psvc(), member("a"))).endswith("Placed=Unknown (NotYetSeen)")


def test_job_sets_show_what_runs_and_what_is_done() -> None:
    found = facts(with_status(pjs(shards=6), running=2, done=1), member("a"), member("b"))

    assert explaining.first_line(found).startswith(
        "PinterestJobSet/batch  desired 6  placed 6  running 2  done 1"
    )
    assert {one["ranges"] for one in found["clusters"]} == {"0-2", "3-5"}


def test_of_a_training_job_the_pods_of_all_roles_are_counted_where_it_runs() -> None:
    roles = [
        {"name": "master", "wanted": 1, "active": 1},
        {"name": "workers", "wanted": 3, "active": 2},
    ]
    training = {
        **psvc("tune"),
        "kind": "PinterestTrainingJob",
        "spec": {
            "framework": "PyTorch",
            "components": [{"name": "master"}, {"name": "workers", "replicas": 3}],
            "template": psvc()["spec"]["template"],
        },
    }
    rows = [{"cluster": "a", "components": roles}]
    roomy = member("a", nodes=4)
    found = facts(with_status(training, clusterStatuses=rows), roomy)

    assert row(found, "a")["ready"] == 3
    assert found["sources"]["ready"] == "status.clusterStatuses[].components[].active"
    assert found["sources"]["desired"] == (
        "1 for all that spec.components[].replicas say together: master 1, workers 3"
    )
    unsafe = "warning: not gang-safe there (a): its scheduler binds the pods one by one, as "
    assert f"{unsafe}the cluster serves no PodGroup (scheduling.k8s.io/v1beta1)" in (
        explaining.text(found)
    )
    assert "gang-safe" not in explaining.text(facts(psvc(), member("a")))

    roomy["status"]["apis"] = ["PinterestTrainingJob.pinterest.com", "PodGroup.scheduling.k8s.io"]
    told = with_status(training, clusterStatuses=rows)
    assert f"{unsafe}its Jobs there name no PodGroup" in explaining.text(facts(told, roomy))
    told = with_status(training, clusterStatuses=[{**rows[0], "podGroup": "tune"}])
    assert "gang-safe" not in explaining.text(facts(told, roomy))
    assert "gang-safe" not in explaining.text(facts(training, roomy))  # it will have one

    training["spec"] |= {"target": "JobSet"}
    roomy["status"]["apis"].append("JobSet.jobset.x-k8s.io")
    assert f"{unsafe}its Jobs are made by a JobSet" in explaining.text(facts(training, roomy))


def test_what_autoscalers_ask_for_is_told_beside_what_is_charged() -> None:
    scaled = psvc()
    scaled["spec"]["autoscaling"] = {"min": 2, "max": 6}
    found = facts(with_status(scaled, desired=3, ready=3), member("a"), member("b"))

    assert explaining.first_line(found).startswith(
        "PinterestService/web  desired 3  charged 6  placed 6  ready 3"
    )
    assert found["sources"]["charged"].startswith("spec.autoscaling")


def test_every_cluster_has_a_row_whose_numbers_add_up() -> None:
    found = facts(psvc(replicas=6), member("a", 1), member("b", 2))

    assert [one["cluster"] for one in found["clusters"]] == ["a", "b"]
    assert sum(one["got"] for one in found["clusters"]) == 6
    for one in found["clusters"]:
        assert one["score"] == sum(one["terms"].values())
        assert one["got"] == one["placed"] <= one["fit"]
        assert one["held"] + one["room"] >= one["got"]


def test_ready_there_comes_from_the_status_of_that_cluster() -> None:
    statuses = [
        {"cluster": "a", "ready": 2, "reason": "ImagePullBackOff", "message": "no such image"}
    ]
    found = facts(with_status(psvc(), clusterStatuses=statuses), member("a"), member("b"))

    assert (row(found, "a")["ready"], row(found, "b")["ready"]) == (2, None)
    assert "there: ImagePullBackOff: no such image" in explaining.text(found)


@pytest.mark.parametrize(
    ("spec", "rules", "fix"),
    [
        ({"cordoned": True}, [], "uncordon b: kubectl patch membercluster b --type merge -p"),
        (
            {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]},
            [policy(priority=1)],
            (
                "tolerate gpu=only:NoSchedule of b: kubectl patch placementpolicy rules -n feed "
                "--type merge -p"
            ),
        ),
        (
            {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]},
            [],
            (
                "tolerate gpu=only:NoSchedule of b: kubectl patch pinterestservice web -n feed "
                "--type merge -p"
            ),
        ),
        (
            {"tiers": ["Reserved"]},
            [],
            "b takes tier OnDemand: kubectl patch membercluster b --type merge -p",
        ),
        (
            {},
            [policy(clusters={"names": ["a"]})],
            "add b to clusters.names: kubectl patch placementpolicy rules -n feed --type merge -p",
        ),
    ],
)
def test_every_refusal_names_its_fix(
    spec: dict[str, Any], rules: list[dict[str, Any]], fix: str
) -> None:
    found = facts(psvc(replicas=12), member("a"), member("b", **spec), *rules)

    assert Reason(row(found, "b")["verdict"]) not in QUIET
    assert row(found, "b")["fix"].startswith(fix)
    assert f"fix: {fix}" in explaining.text(found)


def test_a_cluster_that_keeps_copies_but_takes_no_new_ones_names_its_fix_too() -> None:
    situation = offline.read([psvc(), member("a", cordoned=True), *recorded({"a": 4})], as_of=0.0)

    assert row(of(psvc(), situation), "a")["fix"].startswith(
        "uncordon a: kubectl patch membercluster a "
    )


def recorded(shares: dict[str, int]) -> list[dict[str, Any]]:
    """A decision on the service as the host holds it."""

    (pair,) = offline.read([psvc(), member("a"), member("b")], as_of=0.0).decide_all()
    obj = offline.as_object(*pair, "placed")
    obj["spec"]["shares"] = [
        {"cluster": name, "replicas": count, "seq": 1} for name, count in shares.items()
    ]
    return [obj]


def test_a_shortfall_says_how_much_and_what_would_lift_it() -> None:
    limit = quota(OnDemand={"guaranteed": {"cpu": "6"}})
    found = facts(psvc(replicas=8), member("a"), limit)

    assert (found["missing"], found["reason"]) == (2, "ExceedsMaxQuota")
    assert {one["change"]: one["gains"] for one in found["remedies"]} == {
        "FederatedQuota feed tiers.OnDemand.guaranteed.cpu 6 -> 8": 2,
        "cpu request of container main 1 -> 750m": 2,
    }
    assert "guaranteed.cpu 6 -> 8 (+2)" in explaining.text(found)
    assert "short by 2" in explaining.text(found)


def test_missing_room_is_told_in_nodes() -> None:
    found = facts(psvc(replicas=21, cpu="3"), member("a", 2), member("b", 1, cpu="7"))

    text = explaining.text(found)
    assert found["reason"] == "InsufficientCapacity"
    # 4 copies fit now (1 on each node of a, 2 on that of b), and one more node like b's takes 2.
    assert found["missing"] == 17
    assert (
        "9 more empty nodes in b like those it has (cpu 7, memory 16Gi, pods 110; 2 copies "
        "on each) (+17)"
    ) in text


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
        [psvc(), member("a"), member("b"), policy(clusters={"names": ["b"]}), *recorded({"a": 4})],
        as_of=0.0,
    )

    text = explaining.text(of(psvc(), situation))
    assert "holds 4 by the recorded decision; it would get 0 now" in text


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
    assert [one["change"] for one in found["remedies"]] == [
        "FederatedQuota ads speaks for project feed"
    ]


def test_an_opening_that_leads_to_no_room_is_not_advised() -> None:
    found = facts(psvc(), member("a"), member("b", cpu="500m", cordoned=True))

    assert "fix" not in row(found, "b")


def test_the_resource_that_lacks_is_named() -> None:
    found = facts(psvc(cpu="5"), member("a"), member("b", usable="10%"))

    assert (
        row(found, "a")["lacks"] == "no node has enough cpu (most on one node 4, a copy asks for 5)"
    )
    assert row(found, "b")["lacks"] == "spec.usable 10% leaves too little cpu"
    assert "lacks: no node has enough cpu" in explaining.text(found)


def test_what_was_tried_in_vain_is_told() -> None:
    found = facts(psvc(cpu="100"), member("a"))

    assert found["remedies"] == []
    assert "no change that was tried would place more (" in explaining.text(found)


def test_a_misspelt_name_is_told_and_corrected() -> None:
    weights = [{"weight": 1, "names": ["us-esat-1a"]}]
    rules = policy(division={"strategy": "Weighted", "weights": weights})
    found = facts(psvc(), member("us-east-1a"), rules)

    assert "names us-esat-1a, which no cluster is called; us-east-1a is" in explaining.text(found)
    assert found["remedies"][0]["change"] == "division.weights[0].names: us-esat-1a -> us-east-1a"
    assert found["remedies"][0]["commands"] == [
        "kubectl patch placementpolicy rules -n feed --type json -p "
        """'[{"op":"replace","path":"/spec/division/weights/0/names","value":["us-east-1a"]}]'"""
    ]


def test_a_policy_ref_that_leads_nowhere_is_corrected_where_it_stands() -> None:
    found = facts(psvc(placement={"policyRef": "ruels"}), member("a"), policy())

    assert found["remedies"][0]["change"] == "policyRef ruels -> rules"
    assert "kubectl patch pinterestservice web -n feed" in found["remedies"][0]["commands"][0]


def test_a_finished_job_set_lacks_nothing_anywhere() -> None:
    found = facts(
        with_status(pjs(shards=6), done=6, completedIndexes="0-5"), member("a", 0), member("b")
    )

    assert found["missing"] == 0
    assert {one["verdict"] for one in found["clusters"]} == {"NotNeeded"}
    assert not any("lacks" in one for one in found["clusters"])


def test_a_suspended_workload_keeps_what_it_has() -> None:
    situation = offline.read([psvc(suspend=True), member("a"), *recorded({"a": 4})], as_of=0.0)
    found = of(psvc(suspend=True), situation)

    assert (row(found, "a")["got"], row(found, "a")["placed"]) == (4, 4)


def test_a_roll_out_and_what_stalls_it_are_shown() -> None:
    stalled = {
        "type": "Stalled",
        "status": "True",
        "reason": "Conflict",
        "message": "a: exists already",
    }
    found = facts(
        with_status(psvc(), replicas=4, updatedReplicas=1, conditions=[stalled]), member("a")
    )

    text = explaining.text(found)
    assert "roll-out: 1 of 4 copies have the present template" in text
    assert "Stalled=True (Conflict): a: exists already" in text


def test_a_cluster_that_is_not_heard_says_so_and_not_how_old_its_report_is() -> None:
    away = member("a")
    away["status"]["conditions"] = [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "Unreachable",
            "message": "It is Unreachable: no answer.",
            "lastTransitionTime": "2026-09-21T14:13:00Z",
        }
    ]
    found = facts(psvc(), away)

    assert row(found, "a")["verdict"] == "ClusterUnhealthy"
    assert row(found, "a")["message"] == "cluster a is not ready: it is Unreachable: no answer"
    assert found["remedies"][0]["commands"] == ["federator cluster check a"]


@pytest.mark.parametrize(
    ("reason", "message", "then"),
    [
        ("Placed", "All 4 replicas have a place, in 1 cluster.", "it would get 0 now"),
        (
            "MovesPending",
            "all 4 copies are placed; 4 copies are still to move when somebody asks for it",
            "0 when all that is to move has moved",
        ),
    ],
)
def test_of_copies_that_wait_to_be_moved_it_is_not_said_that_they_would_go_now(
    reason: str, message: str, then: str
) -> None:
    placed = {"type": "Placed", "status": "True", "reason": reason, "message": message}
    workload = with_status(psvc(placement={"clusters": {"names": ["b"]}}), conditions=[placed])
    found = of(
        workload,
        offline.read(
            [workload, member("a"), member("b"), *recorded({"a": 4})], as_of=1_790_000_000.0
        ),
    )
    text = explaining.text(found)
    assert f"    holds 4 by the recorded decision; {then}" in text.splitlines()
    assert (f"  {message}" in text.splitlines()) == (reason != "Placed")


def test_an_edit_that_is_held_back_does_not_pass_for_what_is_counted() -> None:
    limit = quota(OnDemand={"max": {"cpu": "4"}})
    before, after = psvc(), psvc(cpu="2")
    for generation, one in enumerate((before, after), 1):
        one["metadata"] |= {"generation": generation, "uid": "u-web"}
    (pair,) = offline.read([before, member("a"), limit], as_of=0.0).decide_all()
    recorded_first = offline.as_object(*pair, "placed")
    found = of(
        after, offline.read([after, member("a"), limit, recorded_first], as_of=1_790_000_000.0)
    )
    lines = explaining.text(found).splitlines()
    assert found["reason"] == "QuotaExceeded"
    assert "  one copy asks for cpu 2, pods 1" in lines
    assert (
        "  that edit is held back; the figures below are for what is in force, cpu 1, memory "
        "200Mi, pods 1"
    ) in lines


def said_ready(status: str, reason: str, message: str) -> list[dict[str, Any]]:
    """The conditions of a MemberCluster with this word on Ready alone."""
    since = "2026-09-21T14:13:00Z"
    return [
        {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
    ]


NO_REPORT = (
    "has no report of its capacity that is known here (its member process writes ClusterCapacity)"
)
LOST = said_ready("Unknown", "Unreachable", "It is Unreachable: no answer.")
HEARD = said_ready("True", "Ready", "")
NOTHING_KNOWN = "it has no Ready condition and no report of its capacity"


@pytest.mark.parametrize(
    ("conditions", "capacity", "why"),
    [
        pytest.param(HEARD, False, NO_REPORT, id="heard, no report"),
        pytest.param(LOST, True, "is not ready: it is Unreachable: no answer", id="lost"),
        pytest.param(
            LOST, False, "is not ready: it is Unreachable: no answer", id="lost, its report too"
        ),
        pytest.param([], False, f"is not ready: {NOTHING_KNOWN}", id="never heard"),
    ],
)
@pytest.mark.parametrize("copies", [17, 0])
def test_what_is_said_of_a_cluster_without_a_report_is_true_of_one_that_holds_copies(
    conditions: list[dict[str, Any]], capacity: bool, why: str, copies: int
) -> None:
    """A cluster that holds copies has reported: what is missing is a report that is known here,
    now.
    """
    cluster = member("a")
    status = cluster["status"] if capacity else {}
    cluster["status"] = {**status, "conditions": conditions}
    workload = with_status(
        psvc(replicas=20), clusterStatuses=[{"cluster": "a", "ready": copies}] if copies else []
    )
    everything = [workload, cluster, member("b"), *(recorded({"a": copies}) if copies else [])]
    found = of(workload, offline.read(everything, as_of=1_790_000_000.0))

    held = f"cluster a keeps 17 copies and takes no new ones: it {why}"
    assert row(found, "a")["message"] == (held if copies else f"cluster a {why}")
    assert "has not reported" not in explaining.text(found)


def test_what_a_scheduler_could_not_bind_lately_counts_as_in_the_hub() -> None:
    waiting = [{"cluster": "a", "reason": "Unschedulable", "message": "2 pods: no node"}]
    workload = with_status(psvc(), clusterStatuses=waiting)
    (decision,) = recorded({"a": 2})
    verdict = {
        "cluster": "a",
        "got": 2,
        "fit": 2,
        "message": "gets 2 (it could not schedule more lately)",
    }
    decision["spec"]["verdicts"] = {"chosen": [verdict], "rejected": []}
    found = of(workload, offline.read([workload, member("a"), decision], as_of=1_790_000_000.0))

    assert (found["missing"], found["reason"]) == (2, "Unschedulable")


def test_what_left_a_lost_cluster_and_what_is_held_in_one_is_told() -> None:
    conditions = [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "Unreachable",
            "message": "It is Unreachable.",
        },
        {"type": "FailingOver", "status": "True", "reason": "Waiting", "message": "..."},
    ]
    key = "PinterestService/feed/web"
    why = "it was moved within the last 600 s (failover.cooldownSeconds)"
    lost = member("a")
    stays = [
        {"workload": "PinterestService/feed/api", "why": "another's"},
        {"workload": key, "why": why},
    ]
    lost["status"] = {**lost["status"], "conditions": conditions, "drain": {"stays": stays}}
    everything = [psvc(placement={"clusters": {"names": ["a"]}}), member("a")]
    situation = offline.read(everything, as_of=1_790_000_000.0)
    ((ask, decision),) = situation.decide_all()
    made = offline.as_object(ask, decision, "placed")
    made["spec"]["failovers"] = [
        {
            "cluster": "b",
            "silentSince": "2026-03-01T03:12:40Z",
            "at": "2026-03-01T03:18:20Z",
            "copies": 3,
        },
        {
            "cluster": "c",
            "at": "2026-03-02T03:18:20Z",
            "copies": 0,
            "backAt": "2026-03-02T04:00:00Z",
        },
    ]
    situation = offline.read([everything[0], lost, made], as_of=1_790_000_000.0)
    lines = explaining.text(of(everything[0], situation)).splitlines()
    told = lines[lines.index("moves") + 1 :][:3]
    assert told == [
        "  left b at 2026-03-01T03:18:20Z, which was not heard since 2026-03-01T03:12:40Z; 3 are away from there",
        "  left c at 2026-03-02T03:18:20Z; went back at 2026-03-02T04:00:00Z",
        f"  4 are still in a (FailingOver): {why}",
    ]
    conditions[1] |= {
        "reason": "Held",
        "message": "4 copies are there. FullDisruption: all are silent.",
    }
    lines = explaining.text(
        of(everything[0], offline.read([everything[0], lost, made], as_of=1_790_000_000.0))
    ).splitlines()
    assert (
        "  4 are still in a (FailingOver): 4 copies are there. FullDisruption: all are silent"
        in lines
    )
