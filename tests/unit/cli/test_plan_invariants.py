"""PlacementInvariants in `federator place`, `plan` and `test`: what they refuse, what breaks them,
and the exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.files import member, policy, psvc, run, write

NAMES = "abc"


def invariant(name: str = "zones", **spec: Any) -> dict[str, Any]:
    spec = {"rule": {"maxShare": {"topologyKey": "zone", "percent": 40}}, **spec}
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementInvariant",
        "metadata": {"name": name},
        "spec": spec,
    }


SURVIVES = {"survives": {"topologyKey": "zone"}}


def placed(tmp_path: Path, *objs: Any) -> tuple[str, ...]:
    """The files with these objects and the decisions on them."""
    clusters = [member(name, 2, cpu="8") for name in NAMES]
    first = write(tmp_path, "fleet.yaml", *clusters, *objs)
    decided = run("place", "-f", first, "-o", "yaml")
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return "--dump", first, "--dump", str(tmp_path / "decisions.yaml")


def planned(dump: tuple[str, ...], *args: str) -> tuple[int, dict[str, Any]]:
    done = run("plan", *dump, "-n", "feed", "-o", "json", "--no-losses", *args)
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


def test_place_refuses_copies_that_would_break_it(tmp_path: Path) -> None:
    only_a = psvc("web", 10, placement={"clusters": {"names": ["a"]}})
    refuses = invariant(enforcement="Refuse", owner={"team": "sre"})
    path = write(tmp_path, "all.yaml", *(member(name) for name in NAMES), only_a, refuses)

    done = run("place", "-f", path)

    assert done.exit_code == 3
    assert "4 of 10" in done.output
    assert "PlacementInvariant zones (owner sre) allows 4 of 10 copies in zone=a" in done.output


def test_a_policy_edit_that_breaks_a_warning_invariant_is_listed_with_exit_11(
    tmp_path: Path,
) -> None:
    dump = placed(tmp_path, psvc("web", 10), invariant())
    edit = write(tmp_path, "edit.yaml", policy("only-a", clusters={"names": ["a"]}))

    code, document = planned(dump, "-f", edit)

    assert code == 11
    (broken,) = document["invariants"]
    assert (broken["worse"], broken["copiesBeyondNow"], broken["copiesBeyondThen"]) == (True, 0, 6)
    (breach,) = broken["breaches"]
    assert breach["message"] == (
        "PinterestService/feed/web has 10 copies in zone=a; at most 4 may be there"
    )
    table = run("plan", *dump, "-n", "feed", "--no-losses", "-f", edit).output
    assert "PlacementInvariant zones (Warn) breaks: 6 copies of 1 workload beyond it (now 0):" in (
        table
    )


def test_the_same_edit_under_refuse_moves_no_more_than_is_allowed(tmp_path: Path) -> None:
    dump = placed(tmp_path, psvc("web", 10), invariant(enforcement="Refuse"))
    edit = write(tmp_path, "edit.yaml", policy("only-a", clusters={"names": ["a"]}))

    _, document = planned(dump, "-f", edit)

    assert document["invariants"] == []
    for row in document["workloads"]:
        assert row["after"]["a"] <= 4
        assert sum(row["after"].values()) == 10


def test_a_breach_that_a_plan_does_not_change_is_listed_without_exit_11(tmp_path: Path) -> None:
    only_a = psvc("web", 10, placement={"clusters": {"names": ["a"]}})
    dump = placed(tmp_path, only_a, invariant())
    edit = write(tmp_path, "edit.yaml", psvc("new", 3))

    code, document = planned(dump, "-f", edit)

    assert code == 10
    (broken,) = document["invariants"]
    assert (broken["worse"], broken["copiesBeyondNow"], broken["copiesBeyondThen"]) == (False, 6, 6)


def test_a_new_invariant_that_running_copies_break_is_listed_with_exit_11(tmp_path: Path) -> None:
    only_a = psvc("web", 10, placement={"clusters": {"names": ["a"]}})
    dump = placed(tmp_path, only_a)

    code, document = planned(dump, "-f", write(tmp_path, "edit.yaml", invariant()))

    assert code == 11
    assert document["workloads"] == [], "running copies stay"
    assert document["invariants"][0]["copiesBeyondThen"] == 6


def test_a_relaxed_invariant_gives_waiting_copies_their_place(tmp_path: Path) -> None:
    only_a = psvc("web", 10, placement={"clusters": {"names": ["a"]}})
    dump = placed(tmp_path, only_a, invariant(enforcement="Refuse"))

    code, document = planned(dump, "--delete", "pi/zones")

    assert code == 10
    (row,) = document["workloads"]
    assert (row["before"], row["after"], row["shortBefore"]) == ({"a": 4}, {"a": 10}, 6)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {"maxShare": {"topologyKey": "zone", "percent": 30}},
            "30 percent at most in one domain needs 4 domains, and the clusters make 3 by label"
            " zone: a, b, c",
        ),
        (
            {"maxShare": {"topologyKey": "rack", "percent": 50}},
            "needs 2 domains, and the clusters make 1 by label rack: (without the label)",
        ),
        (
            {"survives": {"topologyKey": "zone", "loss": 3}},
            "the loss of 3 domains leaves no cluster",
        ),
    ],
)
def test_an_invariant_that_can_never_hold_is_refused_in_words(
    tmp_path: Path, rule: dict[str, Any], said: str
) -> None:
    dump = placed(tmp_path, psvc("web", 4))

    code, document = planned(dump, "-f", write(tmp_path, "edit.yaml", invariant(rule=rule)))

    assert code == 11
    assert said in document["refused"][0]


def test_a_loss_that_a_plan_leaves_uncovered_breaks_survives(tmp_path: Path) -> None:
    # 48 cpus: after the loss of a zone 32 are left
    only_reserved = {"survives": {"topologyKey": "zone", "tiers": ["Reserved"]}}
    dump = placed(
        tmp_path,
        psvc("web", 28),
        invariant("all-tiers", rule=SURVIVES),
        invariant("reserved", rule=only_reserved),
    )
    edit = write(tmp_path, "edit.yaml", psvc("more", 12))

    done = run("plan", *dump, "-n", "feed", "-o", "json", "-f", edit)

    assert done.exit_code == 11
    document = json.loads(done.stdout)
    (broken,) = document["invariants"]
    assert (broken["invariant"], broken["worse"]) == ("all-tiers", True)
    assert "once zone" in broken["breaches"][0]["message"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"rule": {}}, "spec.rule: exactly one of maxShare and survives is expected"),
        ({"rule": {"maxShare": {"topologyKey": "zone", "percent": 0}}}, "percent"),
        ({"rule": SURVIVES, "enforcement": "Refuse"}, "Refuse is for maxShare only"),
        ({"rule": {"maxShare": {"percent": 4}}}, "topologyKey"),
        ({"enforcement": "Forbid"}, "enforcement"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, spec: dict[str, Any], said: str) -> None:
    done = run("validate", "-f", write(tmp_path, "bad.yaml", invariant(**spec)))

    assert done.exit_code != 0
    assert said in done.output


def test_policy_tests_expect_refusals_by_an_invariant(tmp_path: Path) -> None:
    only_a = psvc("web", 10, placement={"clusters": {"names": ["a"]}})
    fixtures = [*(member(name) for name in NAMES), only_a, invariant(enforcement="Refuse")]
    write(tmp_path, "fleet.yaml", *fixtures)
    tests = {
        "fixtures": ["fleet.yaml"],
        "tests": [
            {
                "name": "no zone has more than its share",
                "placements": [
                    {
                        "workload": "psvc/feed/web",
                        "clusters": {"a": 4},
                        "short": 6,
                        "reason": "InvariantViolation",
                        "message": "PlacementInvariant zones",
                    }
                ],
            }
        ],
    }
    path = write(tmp_path, "suite.test.yaml", tests)
    done = run("test", str(path))
    assert done.exit_code == 0, done.output


def edit_test(tmp_path: Path, *, losses: bool = False, **expect: Any) -> str:
    """A policy test of an edit that moves all copies into the zone a."""
    fixtures = [*(member(name, 2, cpu="8") for name in NAMES), psvc("web", 10), invariant()]
    edit = policy("only-a", clusters={"names": ["a"]})
    plan = {"apply": [edit], "losses": losses, "expect": expect}
    tests = [{"name": "the edit", "plan": plan}]
    suite = {"namespace": "feed", "fixtures": [*fixtures, invariant("sums", rule=SURVIVES)]}
    return str(write(tmp_path, "suite.test.yaml", {**suite, "tests": tests}))


def test_policy_tests_name_the_invariants_that_an_edit_breaks(tmp_path: Path) -> None:
    done = run("test", edit_test(tmp_path, exit=11, breaks=["zones"]))
    assert done.exit_code == 0, done.output

    lines = run("test", edit_test(tmp_path, breaks=[])).stdout.splitlines()
    assert [line.strip() for line in lines[2:5]] == [
        "the plan (tests[0].plan.expect)",
        "- breaks: (none)",
        "+ breaks: zones",
    ]
    assert any("at most 4 may be there" in line for line in lines)


def test_policy_tests_try_the_losses_of_invariants(tmp_path: Path) -> None:
    done = run("test", edit_test(tmp_path, losses=True, breaks=["zones", "sums"]))

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zone", "breaks[0]: the fixtures and the edits have no PlacementInvariant zone"),
        ("sums", "breaks[0]: sums has the rule survives, which losses: false leaves out"),
    ],
)
def test_an_invariant_that_no_plan_of_the_test_breaks_is_an_error(
    tmp_path: Path, name: str, said: str
) -> None:
    done = run("test", edit_test(tmp_path, breaks=[name]))

    assert done.exit_code == 1
    assert said in done.stderr
