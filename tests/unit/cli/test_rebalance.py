"""`federator rebalance`: what would move, of files, and who is meant."""

from pathlib import Path

import pytest

from tests.unit.cli.files import member, psvc, run, write

Files = tuple[str, ...]


def one_cluster_came_later(tmp_path: Path) -> Files:
    """Two services of 6 copies were placed on cluster a; then b came, as large."""
    workloads = [psvc(name, 6, cpu="1") for name in ("ads", "web")]
    workloads[0]["metadata"]["labels"] = {"team": "ads"}
    first = write(tmp_path, "first.yaml", member("a", 2, cpu="8"), *workloads)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    fleet = (member("a", 2, cpu="8"), member("b", 2, cpu="8"))
    return (
        "-f",
        write(tmp_path, "fleet.yaml", *fleet, *workloads),
        "-f",
        str(tmp_path / "decisions.yaml"),
    )


def test_the_dry_run_names_every_move_and_asks_for_nothing(tmp_path: Path) -> None:
    files = one_cluster_came_later(tmp_path)

    done = run("rebalance", "-A", "--dry-run", *files)

    assert done.exit_code == 0, done.output
    assert "PinterestService/feed/ads: would be asked; " in done.stdout
    assert "  a: 6 -> " in done.stdout
    assert "  b: 0 -> " in done.stdout
    assert done.stdout.splitlines()[-1].endswith("copies would move in all. Nothing was asked for.")


def test_no_more_copies_move_than_are_allowed_and_the_rest_is_named(tmp_path: Path) -> None:
    files = one_cluster_came_later(tmp_path)
    every = run("rebalance", "psvc/ads", "-n", "feed", "--dry-run", *files).stdout
    moves = int(every.split("would be asked; ")[1].split(" to move")[0])

    done = run("rebalance", "-A", "--dry-run", "--max-moves", str(moves), *files)

    assert f"{moves} copies would move in all." in done.stdout
    assert "web: left as it is: " in done.stdout
    assert " to move are more than the 0 that still may" in done.stdout


def test_a_selector_chooses_by_labels(tmp_path: Path) -> None:
    done = run(
        "rebalance", "-n", "feed", "-l", "team=ads", "--dry-run", *one_cluster_came_later(tmp_path)
    )

    assert "feed/ads" in done.stdout
    assert "feed/web" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a workload or a policy, or select workloads with --selector or -A"),
        (("psvc/web",), "files can only be looked at: add --dry-run"),
        (("psvc/none", "--dry-run"), "there is no PinterestService none in namespace default"),
        (("-l", "a in", "--dry-run"), "--selector"),
        (("cluster/a", "--dry-run"), "a MemberCluster has no copies"),
        (("psvc/web", "--dry-run", "--max-moves", "0"), "0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path: Path, arguments: Files, message: str) -> None:
    done = run("rebalance", *arguments, *one_cluster_came_later(tmp_path))

    assert done.exit_code != 0
    assert message in done.output
