"""Plans as files: what is saved, what is refused, and how a changed outcome is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from federator import __version__
from federator.advice.plans import edits, saved
from tests.unit.cli.files import member, policy, psvc, run, write


def plan(tmp_path: Path, *workloads: Any, edit: Any, name: str = "web.plan") -> dict[str, Any]:
    """What a plan on these workloads saves."""
    fleet = write(tmp_path, "fleet.yaml", *(member(name, 2, cpu="8") for name in "abc"), *workloads)
    decided = run("place", "-f", fleet, "-o", "yaml")
    decisions = tmp_path / "decisions.yaml"
    decisions.write_text(decided.stdout, encoding="utf-8")
    path = tmp_path / name
    dump = ("--dump", fleet, "--dump", str(decisions))
    edited = write(tmp_path, "edit.yaml", edit)
    run("plan", *dump, "-n", "feed", "--no-losses", "-f", edited, "--out", str(path))
    body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return body


ONLY_A = policy("only-a", clusters={"names": ["a"]})


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    body = plan(tmp_path, psvc("web", 9), edit=ONLY_A)

    made = saved.read(json.dumps(body), __version__)

    assert made.applied == (ONLY_A,)
    assert (made.deleted, made.scaled, made.losses) == ((), (), False)
    assert saved.differences(made.document, body["document"]) == []


def test_what_comes_otherwise_is_named(tmp_path: Path) -> None:
    first = plan(tmp_path, psvc("web", 9), psvc("api", 3), edit=ONLY_A)["document"]
    then = plan(tmp_path, psvc("web", 18), psvc("new", 3), edit=ONLY_A)["document"]

    said = saved.differences(first, then)

    web = "PinterestService/feed/web"
    assert "PinterestService/feed/api: would not change any more; planned was a 3" in said
    assert any(line.startswith("PinterestService/feed/new: would change too: ") for line in said)
    assert f"{web}: has a 6, b 6, c 6 now; when it was planned it had a 3, b 3, c 3" in said
    assert any(line.startswith(f"{web}: would get a ") for line in said)
    assert any(line.startswith(f"{web}: copies that wait would be ") for line in said)


def test_a_new_refusal_loss_or_broken_invariant_is_a_difference() -> None:
    planned = {"workloads": [], "settled": True}
    loss = {"cluster": "a", "copiesWithoutPlaceThen": 3}
    broken = {"invariant": "zones", "copiesBeyondThen": 2, "worse": True}
    now = {**planned, "refused": ["no"], "uncovered": [loss], "invariants": [broken]}

    assert saved.differences(planned, {**now, "settled": False}) == [
        "refused: no",
        "without a, 3 copies would have no place; planned were 0",
        "PlacementInvariant zones: 2 copies would be beyond it",
        "the decisions would still be changing",
    ]
    assert saved.differences(now, now) == []
    as_now = {**broken, "worse": False}
    assert saved.differences(planned, {**planned, "invariants": [as_now]}) == []


def test_other_sums_of_workloads_that_the_caller_may_not_see_are_a_difference() -> None:
    planned = {"workloads": [], "others": {"workloads": 2, "moves": 3}}

    more = {**planned, "others": {"workloads": 2, "moves": 7}}

    hidden = "workloads that you may not see"
    assert saved.differences(planned, planned) == []
    assert saved.differences(planned, more) == [f"{hidden}: moves would be 7; planned was 3"]
    assert saved.differences({"workloads": []}, planned) == [
        f"{hidden}: moves would be 3; planned was 0",
        f"{hidden}: workloads would be 2; planned was 0",
    ]
    assert len(saved.differences(planned, {"workloads": []})) == 2


def test_losses_that_cannot_be_compared_any_more_are_a_difference() -> None:
    bare: dict[str, Any] = {"workloads": []}
    compared: dict[str, Any] = {**bare, "uncovered": []}

    (said,) = saved.differences(compared, bare)

    assert "losses of clusters cannot be compared now" in said
    assert saved.differences(bare, bare) == saved.differences(compared, compared) == []


@pytest.mark.parametrize("count", [True, "5", 5.0, -1, 10**9, None])
def test_a_count_that_is_no_number_of_copies_is_refused(count: Any) -> None:
    scaled = [[["PinterestService", "feed", "web"], count]]
    asked = {"applied": [], "deleted": [], "scaled": scaled, "losses": False}

    with pytest.raises(saved.Unreadable, match="a count must be a whole number"):
        saved.read(saved.as_text(asked, {}, "1"), "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "0.0.9"}, "it was made by federator '0.0.9', and this is"),
        ({"format": 7}, "plan again with this version"),
        ({"kind": "List"}, "it is no saved plan"),
        ({"edits": {}}, "edits.applied: must be a list"),
        ({"edits": {"applied": [], "deleted": [["x"]], "scaled": []}}, "its edits cannot be read"),
        ({"edits": {"applied": [{"kind": "Secret"}], "deleted": [], "scaled": []}}, "applied[0]"),
        ({"document": 3}, "its edits or its document are missing"),
    ],
)
def test_a_file_that_is_no_plan_of_this_version_is_refused_in_words(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    body = plan(tmp_path, psvc("web", 9), edit=ONLY_A)
    with pytest.raises(saved.Unreadable, match=r".") as caught:
        saved.read(json.dumps({**body, **change}), __version__)
    assert said in str(caught.value)


@pytest.mark.parametrize("option", [("--lose", "a"), ("--add-cluster", "d.yaml")])
def test_what_cannot_be_applied_is_not_saved(tmp_path: Path, option: tuple[str, str]) -> None:
    path = tmp_path / "a.plan"
    done = run("plan", *option, "--dump", "x", "--out", str(path))
    assert done.exit_code == 1
    assert "cannot be applied" in done.output
    assert not path.exists()


def test_an_object_is_written_as_it_was_planned() -> None:
    """Labels of the last apply go, those of others stay, and the spec is the given one."""
    last = json.dumps({"metadata": {"labels": {"mine": "1", "old": "1"}}})
    live = {
        **psvc("web", 4),
        "metadata": {
            "name": "web",
            "namespace": "feed",
            "uid": "u",
            "resourceVersion": "7",
            "finalizers": ["theirs"],
            "labels": {"mine": "1", "old": "1", "theirs": "1"},
            "annotations": {edits.LAST_APPLIED: last},
        },
        "status": {"placed": 4},
    }
    given = {**psvc("web", 6)}
    given["metadata"] = {"name": "web", "namespace": "feed", "labels": {"mine": "2"}}

    made = edits.written(given, live)

    assert made["spec"] == given["spec"]
    assert made["metadata"]["labels"] == {"mine": "2", "theirs": "1"}
    assert made["metadata"]["resourceVersion"] == "7"
    assert made["metadata"]["finalizers"] == ["theirs"]
    assert json.loads(made["metadata"]["annotations"][edits.LAST_APPLIED]) == given
