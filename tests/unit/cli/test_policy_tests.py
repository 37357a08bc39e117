"""`federator test`: policy tests on files. What passes, what fails with which words, and JUnit."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.house.sources import ROOT
from tests.unit.cli.files import member, pjs, policy, psvc, quota, run, write
from tests.unit.cli.policysuites import (
    FLEET,
    HALVES,
    failing,
    placed,
    planned,
    refused,
    suite,
    suite_of,
)

# -- the examples -------------------------------------------------------------


def test_the_example_suite_passes() -> None:
    done = run("test", str(ROOT / "config" / "examples" / "policy-tests"))

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "9 tests in 6 files: 9 passed, 0 failed"


# -- placements ---------------------------------------------------------------


def test_expected_placements_pass(tmp_path: Path) -> None:
    done = run("test", placed(tmp_path, HALVES))

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{tmp_path}/web.yaml",
        "  ok     test 1",
        "1 test in 1 file: 1 passed, 0 failed",
    ]


@pytest.mark.parametrize("amount", [2, "2", "1-3", "0-2", "2+", "0+"])
def test_a_number_of_copies_may_be_a_range(tmp_path: Path, amount: Any) -> None:
    expected = {"workload": "psvc/web", "clusters": {"a": amount, "b": 2}}

    assert run("test", placed(tmp_path, expected)).exit_code == 0


def test_a_failure_shows_expected_decided_and_why(tmp_path: Path) -> None:
    fixtures = [*FLEET, psvc(placement={"clusters": {"names": ["a"]}})]

    lines = failing(placed(tmp_path, HALVES, fixtures=fixtures))

    assert lines == [
        "PinterestService/feed/web (tests[0].placements[0])",
        "- clusters.a: 2",
        "+ clusters.a: 4",
        "- clusters.b: 2",
        "+ clusters.b: 0",
        "why: Chosen: all 4 copies are placed",
        "why: cluster a gets 4 copies; at most 8 are possible there",
        "why: cluster b is not among the 1 clusters named by spec.placement.clusters.names",
    ]


def test_a_cluster_that_is_not_named_has_no_copies(tmp_path: Path) -> None:
    lines = failing(placed(tmp_path, {"workload": "psvc/web", "clusters": {"a": 2}}))

    assert lines[1:3] == ["- clusters.b: 0", "+ clusters.b: 2"]


def test_copies_are_summed_by_a_label_of_clusters(tmp_path: Path) -> None:
    far = member("c")
    far["metadata"]["labels"] = {"zone": "a"}
    fixtures = [*FLEET, far, psvc(replicas=6)]
    good = {"workload": "psvc/web", "domains": {"zone": {"a": 4, "b": 2}}}
    bad = {"workload": "psvc/web", "domains": {"zone": {"b": 2}}}

    assert run("test", placed(tmp_path, good, fixtures=fixtures)).exit_code == 0
    assert failing(placed(tmp_path, bad, fixtures=fixtures))[1:3] == [
        "- domains.zone.a: 0",
        "+ domains.zone.a: 4",
    ]


def test_shortfall_reason_and_sentence_are_compared(tmp_path: Path) -> None:
    limit = quota(OnDemand={"max": {"cpu": "3"}})
    good = {
        "workload": "psvc/web",
        "short": 1,
        "reason": "ExceedsMaxQuota",
        "message": "FederatedQuota feed",
    }
    bad = {"workload": "psvc/web", "short": 0, "reason": "Chosen", "message": "all 4 copies"}
    fixtures = [*FLEET, limit, psvc()]

    assert run("test", placed(tmp_path, good, fixtures=fixtures)).exit_code == 0
    lines = failing(placed(tmp_path, bad, fixtures=fixtures))
    assert lines[1:6] == [
        "- short: 0",
        "+ short: 1",
        "- reason: Chosen",
        "+ reason: ExceedsMaxQuota",
        "- message: ... all 4 copies ...",
    ]
    assert lines[-1].startswith("why: ExceedsMaxQuota: 3 of 4 copies are placed")


def test_slots_of_a_job_set_are_counted(tmp_path: Path) -> None:
    expected = {"workload": "pjs/batch", "clusters": {"a": 3}, "short": 397}
    fixtures = [member("a", 1, cpu="3"), pjs(shards=400)]

    assert run("test", placed(tmp_path, expected, fixtures=fixtures)).exit_code == 0


def test_fixtures_are_files_relative_to_the_test(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    write(tmp_path / "fleet", "clusters.yaml", *FLEET)
    write(tmp_path, "web-service.yaml", psvc())

    done = run("test", placed(tmp_path, HALVES, fixtures=["fleet", "./web-service.yaml"]))

    assert done.exit_code == 0, done.output


def test_objects_of_a_test_replace_those_of_its_file(tmp_path: Path) -> None:
    eight = {"workload": "psvc/web", "clusters": {"a": 4, "b": 4}}
    directory = suite(
        tmp_path,
        {"placements": [eight], "fixtures": [psvc(replicas=8)]},
        {"placements": [HALVES]},
    )

    assert run("test", directory).exit_code == 0


def test_the_namespace_of_the_file_is_for_objects_and_names_without_one(tmp_path: Path) -> None:
    service = psvc()
    del service["metadata"]["namespace"]
    expected = {"workload": "PinterestService/ads/web", "short": 0}

    done = run("test", placed(tmp_path, expected, namespace="ads", fixtures=[*FLEET, service]))

    assert done.exit_code == 0, done.output


def test_a_failed_test_shows_policies_that_are_in_force_for_nothing(tmp_path: Path) -> None:
    rules = policy(clusters={"names": ["a"]}, workloads={"projects": ["fed"]})
    expected = {"workload": "psvc/web", "clusters": {"a": 4}}

    lines = failing(placed(tmp_path, expected, fixtures=[*FLEET, psvc(), rules]))

    assert lines[-1] == (
        "warning: PlacementPolicy feed/rules is in force for nothing: it matches no workload"
    )


# -- refusals -----------------------------------------------------------------


def test_an_object_that_the_api_server_refuses_is_an_expected_refusal(tmp_path: Path) -> None:
    bad = psvc("other", replicas=-1)

    assert run("test", refused(tmp_path, bad, field="spec.replicas", message="0")).exit_code == 0
    lines = failing(refused(tmp_path, bad, field="spec.tier", reason="QuotaExceeded"))
    assert lines[:5] == [
        "PinterestService/feed/other (tests[0].refusals[0])",
        "- field: spec.tier",
        "+ field: spec.replicas",
        "- reason: QuotaExceeded",
        "+ reason: (refused by the API server)",
    ]
    assert lines[5].startswith("why: spec.replicas: ")


def test_a_rule_of_the_definition_refuses_an_edit_of_a_fixture(tmp_path: Path) -> None:
    before = {**pjs(), "kind": "PinterestStatefulSet"}
    before["spec"] = {"replicas": 2, "template": psvc()["spec"]["template"]}
    before["spec"]["podManagementPolicy"] = "Parallel"
    edit = {**before, "spec": {**before["spec"], "podManagementPolicy": "OrderedReady"}}

    done = run("test", refused(tmp_path, edit, fixtures=[before]))

    assert done.exit_code == 0, done.output


def test_a_workload_that_a_quota_keeps_out_is_an_expected_refusal(tmp_path: Path) -> None:
    limit = quota(OnDemand={"max": {"cpu": "500m"}})
    large = psvc("large", 4)

    done = run("test", refused(tmp_path, large, fixtures=[limit], reason="ExceedsMaxQuota"))

    assert done.exit_code == 0, done.output


def test_a_workload_that_is_placed_is_not_refused(tmp_path: Path) -> None:
    lines = failing(refused(tmp_path, psvc("more", 2), reason="QuotaExceeded"))

    assert lines == [
        "PinterestService/feed/more (tests[0].refusals[0])",
        "- clusters.a: 0",
        "+ clusters.a: 1",
        "- clusters.b: 0",
        "+ clusters.b: 1",
        "- reason: QuotaExceeded",
        "+ reason: Chosen",
        "why: Chosen: all 2 copies are placed",
    ]


def test_a_policy_that_is_taken_is_not_refused(tmp_path: Path) -> None:
    lines = failing(refused(tmp_path, policy(clusters={"names": ["a"]}), field="spec.clusters"))

    assert lines[1:] == [
        "- field: spec.clusters",
        "+ field: (taken by the API server)",
        "- refused: yes",
        "+ refused: no",
        "why: nothing refuses this object",
    ]


# -- plans --------------------------------------------------------------------

ONLY_A = policy("only-a", clusters={"names": ["a"]})


def test_a_plan_begins_where_the_fixtures_are_placed(tmp_path: Path) -> None:
    write(tmp_path, "only-a.yaml", ONLY_A)
    web = {
        "workload": "psvc/web",
        "leaves": {"b": 2},
        "enters": {"a": 2},
        "clusters": {"a": 4},
        "moves": 2,
        "restarted": 2,
        "waiting": 0,
        "short": 0,
        "heldBack": False,
    }
    expect = {"exit": 11, "moves": "0-2", "waiting": 0, "shorter": 0, "uncovered": ["a"]}

    done = run(
        "test", planned(tmp_path, {"apply": ["only-a.yaml"]}, {**expect, "workloads": [web]})
    )

    assert done.exit_code == 0, done.output


def test_more_moves_than_expected_fail_with_the_workloads_that_move(tmp_path: Path) -> None:
    web = {"workload": "psvc/web", "leaves": {}}
    expect = {"exit": 0, "moves": "0-1", "workloads": [web]}

    lines = failing(planned(tmp_path, {"apply": [ONLY_A], "losses": False}, expect))

    said = "why: PinterestService/feed/web leaves b: 2, enters a: 2"
    assert lines == [
        "the plan (tests[0].plan.expect)",
        "- moves: 0-1",
        "+ moves: 2",
        "- exit: 0",
        "+ exit: 10",
        said,
        "PinterestService/feed/web (tests[0].plan.expect.workloads[0])",
        "- leaves.b: 0",
        "+ leaves.b: 2",
        said,
    ]


def test_a_plan_loses_scales_and_deletes(tmp_path: Path) -> None:
    fixtures = [*FLEET, psvc(), psvc("old")]
    plan: dict[str, Any] = {"lose": ["zone=b"], "scale": {"psvc/web": 6}, "losses": False}
    plan["delete"] = ["psvc/feed/old"]
    web = {"workload": "psvc/web", "clusters": {"a": 6}}
    old = {"workload": "psvc/old", "clusters": {}}

    directory = planned(
        tmp_path, plan, {"exit": 10, "ended": 4, "workloads": [web, old]}, fixtures=fixtures
    )

    done = run("test", directory)
    assert done.exit_code == 0, done.output


def test_a_workload_that_a_plan_does_not_change_keeps_its_placement(tmp_path: Path) -> None:
    plan = {"apply": [psvc("more", 2)]}

    assert (
        run("test", planned(tmp_path, plan, {"workloads": [{**HALVES, "moves": 0}]})).exit_code == 0
    )
    lines = failing(planned(tmp_path, plan, {"workloads": [{**HALVES, "moves": 1}]}))
    assert lines[-1] == "why: PinterestService/feed/web does not change"


def test_a_loss_that_is_no_longer_covered_fails_with_the_copies(tmp_path: Path) -> None:
    plan = {"scale": {"psvc/web": 10}}

    lines = failing(planned(tmp_path, plan, {"exit": 10, "uncovered": ["b"]}))

    assert lines[:5] == [
        "the plan (tests[0].plan.expect)",
        "- exit: 10",
        "+ exit: 11",
        "- uncovered: b",
        "+ uncovered: a, b",
    ]
    assert any(line.startswith("why: without a, 2 copies have no place (now 0)") for line in lines)
    without = {**plan, "losses": False}
    assert run("test", planned(tmp_path, without, {"exit": 10})).exit_code == 0


def test_an_edit_that_cannot_be_planned_is_an_error_of_its_test(tmp_path: Path) -> None:
    directory = planned(tmp_path, {"delete": ["cpp/none"]}, {"exit": 0})

    done = run("test", directory)

    assert done.exit_code == 1
    assert "  ERROR  test 1" in done.stdout
    assert "tests[0].plan: ClusterPlacementPolicy/none: there is none to delete" in done.stdout
    assert done.stdout.endswith("1 test in 1 file: 0 passed, 0 failed, 1 error\n")


# -- order, JUnit -------------------------------------------------------------


def test_files_run_in_the_order_of_their_names_with_the_same_output(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "c.json"):
        placed(tmp_path, HALVES, name=name)
    write(tmp_path, "fixture.yaml", *FLEET)

    first, second = (run("test", str(tmp_path)) for _ in range(2))

    files = [line for line in first.stdout.splitlines() if line.startswith("/")]
    assert files == [f"{tmp_path}/{name}" for name in ("a.yaml", "b.yaml", "c.json")]
    assert first.stdout == second.stdout


def test_one_file_can_be_run(tmp_path: Path) -> None:
    placed(tmp_path, HALVES, name="a.yaml")
    placed(tmp_path, {**HALVES, "short": 9}, name="b.yaml")

    assert run("test", str(tmp_path / "a.yaml")).exit_code == 0


def test_junit_has_each_test_and_is_escaped(tmp_path: Path) -> None:
    out = tmp_path / "results" / "junit.xml"
    out.parent.mkdir()
    suite(
        tmp_path,
        {"name": '<b> & "c" \x1b[2J', "placements": [{**HALVES, "short": 3}]},
        {"placements": [HALVES]},
        name="a.yaml",
    )
    planned(tmp_path, {"lose": ["none"]}, {"exit": 0}, name="b.yaml")
    suite_of(tmp_path, {"tests": []}, "c.yaml")

    done = run("test", str(tmp_path), "--junit", str(out))

    assert done.exit_code == 1
    root = ElementTree.fromstring(out.read_bytes())
    assert dict(root.attrib) == {
        "name": "federator test",
        "tests": "4",
        "failures": "1",
        "errors": "2",
    }
    first, second, third = root
    assert [case.get("name") for case in first] == ['<b> & "c" \\u001b[2J', "test 2"]
    failure = first[0][0]
    assert (failure.tag, failure.get("message")) == (
        "failure",
        "PinterestService/feed/web: short: expected 3, decided 0",
    )
    assert "- short: 3\n  + short: 0\n" in (failure.text or "")
    assert second[0][0].tag == third[0][0].tag == "error"
    assert third[0].get("name") == "(read the file)"
    before = out.read_bytes()
    run("test", str(tmp_path), "--junit", str(out))
    assert out.read_bytes() == before


def test_a_junit_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    done = run("test", placed(tmp_path, HALVES), "--junit", str(tmp_path / "none" / "out.xml"))

    assert done.exit_code == 1
    assert "none/out.xml cannot be written: No such file or directory" in done.stderr
