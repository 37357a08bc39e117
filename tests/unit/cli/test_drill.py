"""`federator drill`: what the loss of a cluster or a zone would come to, of files."""

import functools
import json
from pathlib import Path
from typing import Any

from federator.advice import drills
from federator.cli.planning import situations
from federator.hub.evacuation import drain_words
from federator.model.ask import Tier
from federator.process import forking
from federator.scheduling.evacuation import ORDINALS
from tests.unit.cli.files import member, psvc, run, write


def fleet(tmp_path: Path, *clusters: dict[str, object]) -> tuple[str, ...]:
    """Everything is placed on three clusters of 6 cpus each."""
    workloads = (
        psvc("reserved", 9, cpu="1", tier=Tier.RESERVED.value),
        psvc("spare", 5, cpu="1", tier=Tier.PREEMPTIBLE.value),
    )
    first = write(tmp_path, "fleet.yaml", *clusters, *workloads)
    decided = run("place", "-f", first, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return "-f", first, "-f", str(tmp_path / "decisions.yaml")


def three(zones: tuple[str, str, str] = ("z1", "z2", "z3")) -> list[dict[str, object]]:
    clusters = []
    for name, zone in zip("abc", zones, strict=True):
        cluster = member(name, 1, cpu="6")
        cluster["metadata"]["labels"] = {"zone": zone}
        clusters.append(cluster)
    return clusters


def test_every_cluster_is_lost_in_turn_and_who_lacks_a_place_is_named(tmp_path: Path) -> None:
    done = run("drill", *fleet(tmp_path, *three()), "-o", "json")

    assert done.exit_code == 1, done.output
    losses = {loss["name"]: loss for loss in json.loads(done.stdout)["losses"]}
    assert list(losses) == ["a", "b", "c"]
    for loss in losses.values():
        # 14 copies on 18 cpus: of what one cluster holds, no more than 12 in all find room
        lacking = sum(unplaced["copies"] for unplaced in loss["unplaced"])
        assert lacking == 2
        assert all(unplaced["why"] for unplaced in loss["unplaced"])
        assert loss["recoverySeconds"] == round((loss["copies"] - lacking) * 60 / 300, 1)


def test_clusters_of_one_zone_are_lost_together(tmp_path: Path) -> None:
    files = fleet(tmp_path, *three(("east", "east", "west")))

    done = run("drill", *files, "--by", "zone", "-o", "json")

    losses = {loss["name"]: loss for loss in json.loads(done.stdout)["losses"]}
    assert losses["east"]["clusters"] == ["a", "b"]
    assert sum(unplaced["copies"] for unplaced in losses["east"]["unplaced"]) == 8


def test_the_table_says_how_long_the_rest_takes_and_a_roomy_fleet_passes(tmp_path: Path) -> None:
    roomy = [*three(), member("d", 4, cpu="6")]

    done = run("drill", *fleet(tmp_path, *roomy), "--a-minute", "1")

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("CLUSTER")
    assert "NO PLACE: RESERVED" in lines[0].upper()
    assert [line.split()[0] for line in lines[1:5]] == ["a", "b", "c", "d"]
    assert all(line.split()[-1].endswith(("m", "s")) for line in lines[1:5])


def test_a_fleet_without_clusters_and_a_rate_of_nothing_are_said(tmp_path: Path) -> None:
    empty = write(tmp_path, "empty.yaml", psvc("web", 1))

    assert "no cluster" in run("drill", "-f", empty).output
    refused = run("drill", "-f", empty, "--a-minute", "0")
    assert refused.exit_code == 2
    assert "--a-minute" in refused.output


def test_a_drill_on_several_processes_says_the_same(tmp_path: Path) -> None:
    files = fleet(tmp_path, *three())[1::2]
    situation = situations.read(files, "default", {}, "")

    each = functools.partial(forking.each, processes=2)
    outcomes = drills.of_all(situation, "", 300, each)

    assert outcomes == drills.of_all(situation, "", 300)
    assert [outcome.loss.name for outcome in outcomes] == ["a", "b", "c"]
    assert any(outcome.unplaced for outcome in outcomes)


def _placed(tmp_path: Path, *workloads: dict[str, Any]) -> tuple[str, ...]:
    first = write(tmp_path, "fleet.yaml", *three(), *workloads)
    decided = run("place", "-f", first, "-o", "yaml")
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return "-f", first, "-f", str(tmp_path / "decisions.yaml")


def test_copies_that_end_with_their_cluster_are_not_counted_as_moving(tmp_path: Path) -> None:
    everywhere = psvc("everywhere", 2, placement={"division": {"strategy": "Duplicate"}})
    files = _placed(tmp_path, everywhere, psvc("moves", 3))

    losses = json.loads(run("drill", *files, "-o", "json").stdout)["losses"]

    assert [(loss["workloads"], loss["copies"]) for loss in losses] == [(1, 1)] * 3


def test_an_ordinal_without_another_place_speaks_of_no_drain(tmp_path: Path) -> None:
    packed = {"division": {"strategy": "Pack"}}
    numbered = {**psvc("kv", 3, placement=packed), "kind": "PinterestStatefulSet"}
    files = _placed(tmp_path, numbered)
    situation = situations.read(files[1::2], "default", {}, "")
    (name,) = {share.cluster for record in situation.records.values() for share in record.shares}

    (kept,) = drills.rehearse(situation, drills.holders(situation, [name]), [name])

    assert (kept.before, kept.stays, kept.numbered) == (3, 3, True)
    assert f"cluster {name} would be empty" in kept.why
    assert "drain" not in kept.why
    assert drain_words.of_unplaced([kept]).endswith(f"No drain moves ordinals: {ORDINALS}.")


def test_one_copy_without_a_place_is_one_copy(tmp_path: Path) -> None:
    files = _placed(tmp_path, psvc("large", 3, cpu="6"))

    assert "Without a, 1 copy would have no place:" in run("drill", *files).stdout
