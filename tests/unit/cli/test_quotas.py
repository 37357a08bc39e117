"""`federator quota` and `federator queue`: the tree with its loans, who holds and who waits, of
files.
"""

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.files import items, member, pjs, psvc, quota, run, write


def account(name: str, parent: str = "", **limits: str) -> dict[str, Any]:
    obj = quota(name, OnDemand={field: {"cpu": amount} for field, amount in limits.items()})
    obj["spec"] = {field: one for field, one in obj["spec"].items() if field != "namespaces"}
    obj["spec"] |= {"parent": parent} if parent else {}
    return obj


def company(tmp_path: Path) -> tuple[str, ...]:
    """ads has lent to feed what it would like to have now; feed waits for more, and so does ads."""
    fleet = [
        member("a", 3, cpu="8"),
        account("company", guaranteed="6"),
        account("ads", "company", guaranteed="3", lendingLimit="2"),
        account("feed", "company", guaranteed="2"),
        psvc("web", 9, project="feed"),
    ]
    first = write(tmp_path, "fleet.yaml", *fleet)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 3, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    later = write(
        tmp_path,
        "later.yaml",
        psvc("page", 2, project="ads", priority=7),
        psvc("free", 1, project="ads"),
    )
    return "-f", first, "-f", str(tmp_path / "decisions.yaml"), "-f", later


def test_the_tree_shows_who_borrows_from_whom_and_who_holds_it(tmp_path: Path) -> None:
    done = run("quota", *company(tmp_path))

    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == [
        "ACCOUNT",
        "TIER",
        "RESOURCE",
        "GUARANTEED",
        "MAX",
        "USED",
        "BORROWED",
        "LENT",
        "WAITING",
    ]
    assert lines[1] == ["company", "OnDemand", "cpu", "6", "6", "5", "-", "-", "1"]
    assert lines[2] == ["ads", "OnDemand", "cpu", "3", "-", "0", "-", "2", "0"]
    assert lines[3] == [
        "feed",
        "OnDemand",
        "cpu",
        "2",
        "-",
        "5",
        "3",
        "(company,",
        "ads)",
        "-",
        "1",
    ]
    assert [
        "feed",
        "psvc/web",
        "-n",
        "feed",
        "OnDemand",
        "5",
        "cpu",
        "5,",
        "memory",
        "1000Mi",
    ] in lines


def test_the_same_for_programs_and_below_one_account(tmp_path: Path) -> None:
    done = run("quota", "feed", *company(tmp_path), "-o", "json")

    (feed,) = json.loads(done.stdout)["accounts"]
    cpu = feed["tiers"]["OnDemand"]["cpu"]
    assert (feed["parent"], feed["waiting"], feed["workloads"]) == ("company", 1, 1)
    assert (cpu["used"], cpu["borrowed"], cpu["guaranteed"]) == ("5", "3", "2")
    assert cpu["lenders"] == [
        {"account": "company", "amount": "1"},
        {"account": "ads", "amount": "2"},
    ]
    assert feed["holders"][0]["copies"] == 5
    names = [
        one["name"]
        for one in json.loads(run("quota", *company(tmp_path), "-o", "json").stdout)["accounts"]
    ]
    assert names == ["company", "ads", "feed"]


def test_what_is_wrong_with_an_account_stands_below_the_tree(tmp_path: Path) -> None:
    objs = [
        member("a"),
        account("company", guaranteed="2"),
        account("ads", "company", guaranteed="3"),
    ]

    done = run("quota", "-f", write(tmp_path, "fleet.yaml", *objs))

    assert (
        "company: GuaranteesAboveParent: spec.tiers.OnDemand.guaranteed.cpu is 2, and 3 is"
        in done.stdout
    )


def test_terminating_pods_of_the_status_are_used_and_leave_no_room(tmp_path: Path) -> None:
    feed = account("feed", max="4")
    used = [{"tier": "OnDemand", "used": {"cpu": "3"}, "terminating": {"cpu": "3"}}]
    fleet = [member("a", 3, cpu="8"), feed | {"status": {"usage": used}}, psvc("web", 4)]
    files = "-f", write(tmp_path, "fleet.yaml", *fleet)

    done = run("quota", *files)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["feed", "OnDemand", "cpu", "-", "4", "3", "-", "-", "0"]
    said = "feed: pods that are terminating, or that no decision gives any more, use cpu 3 of tier"
    assert said in done.stdout
    (row,) = json.loads(run("quota", *files, "-o", "json").stdout)["accounts"]
    assert row["terminating"] == {"OnDemand": {"cpu": "3"}}
    placed = run("place", *files)
    assert "1 of 4 copies are placed" in placed.output


def test_the_queue_has_position_reason_and_sentence(tmp_path: Path) -> None:
    files = company(tmp_path)

    done = run("queue", *files, "-o", "json")

    waiting = json.loads(done.stdout)["waiting"]
    assert [(one["position"], one["name"], one["lacks"], one["reason"]) for one in waiting] == [
        (1, "page", 2, ""),
        (2, "free", 1, ""),
        (3, "web", 4, "ExceedsMaxQuota"),
    ]
    mine = json.loads(run("queue", "--project", "feed", *files, "-o", "json").stdout)["waiting"]
    assert [one["position"] for one in mine] == [3]
    table = run("queue", *files).stdout
    assert "not decided yet" in table
    assert (
        "psvc/web -n feed: 5 of 9 copies are placed, 4 are missing: FederatedQuota company, "
        "above feed"
    ) in table


def test_nothing_to_show_is_said(tmp_path: Path) -> None:
    files = write(tmp_path, "fleet.yaml", member("a"))

    assert run("quota", "-f", files).stdout == "There is no FederatedQuota: nobody is limited.\n"
    assert (
        run("queue", "-f", files, "--project", "ads").stdout
        == "No workload of project ads lacks copies.\n"
    )


def test_an_account_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    done = run("quota", "fed", *company(tmp_path))

    assert done.exit_code == 1
    assert "no FederatedQuota fed; company, ads, feed" in done.stderr


def test_headroom_and_place_follow_the_tree(tmp_path: Path) -> None:
    files = company(tmp_path)

    for project, left in (("feed", 0), ("ads", 1)):
        asked = ("headroom", *files, "--shape", "1cpu", "--project", project, "-o", "json")
        assert json.loads(run(*asked).stdout)["now"] == left, (
            "6 cpus, 5 of them held, the last is kept for ads"
        )
    placed = json.loads(run("place", *files, "-o", "json").stdout)["items"]
    got = {one["metadata"]["name"].split("-")[1]: one["spec"]["placed"] for one in placed}
    assert got == {"web": 5, "page": 1, "free": 0}


def test_the_queue_says_when_what_waits_for_room_may_start(tmp_path: Path) -> None:
    """A job runs for an hour at most on all there is; the next one starts when it has ended."""
    runs = pjs("runs", 1)
    for job in (runs, waits := pjs("waits", 1)):
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": "6"}}
    runs["spec"]["activeDeadlineSeconds"] = 3600
    fleet = write(tmp_path, "fleet.yaml", member("a", 1, cpu="8"), runs)
    decisions = tmp_path / "decisions.yaml"
    decisions.write_text(run("place", "-f", fleet, "-o", "yaml").stdout, encoding="utf-8")
    files = ("-f", fleet, "-f", str(decisions), "-f", write(tmp_path, "more.yaml", waits))

    (waiting,) = json.loads(run("queue", *files, "-o", "json").stdout)["waiting"]

    assert waiting["name"] == "waits"
    assert waiting["expected"]["from"] < waiting["expected"]["to"]
    assert f"{waiting['expected']['from']} to {waiting['expected']['to']}" in (
        run("queue", *files).stdout
    )


def test_of_a_job_set_what_cannot_run_at_once_is_lacking(tmp_path: Path) -> None:
    """With one slot all its shards have a place, and it waits for the other slots all the same."""
    fleet = [
        member("a", 3, cpu="8"),
        account("feed", max="3"),
        pjs("index", 40, parallelism=8, project="feed"),
        pjs("small", 3, parallelism=8, project="feed"),
    ]
    files = write(tmp_path, "fleet.yaml", *fleet)
    placed = items(run("place", "-f", files, "-o", "json").stdout)
    by_name = {one["spec"]["workload"]["name"]: one["spec"] for one in placed}
    (share,) = by_name["small"]["shares"]
    share["slots"] = 1
    decisions = write(tmp_path, "decisions.yaml", *placed)

    done = run("queue", "-f", files, "-f", decisions, "-o", "json")

    lacks = {one["name"]: one["lacks"] for one in json.loads(done.stdout)["waiting"]}
    assert lacks == {"index": 8, "small": 2}
