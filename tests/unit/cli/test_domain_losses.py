"""Clusters that lie in several domains (`spec.topology`): what drills, `plan --lose` and
PlacementInvariants make of them."""

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.model.fleet import FleetSnapshot
from federator.model.rules.invariant import Survives
from federator.model.terms import Stated
from federator.scheduling import drill
from tests.examples import examples
from tests.unit.cli.files import member, policy, psvc, run, write
from tests.unit.cli.test_plan_invariants import invariant
from tests.unit.placement.fleets import cluster, fleet


def wide(name: str, *zones: str) -> dict[str, Any]:
    """A member in these zones, whatever its label says."""
    return member(name, 2, cpu="8", topology={"zone": [*zones]})


def host(tmp_path: Path, *more: Any) -> tuple[str, ...]:
    """Three clusters in a zone of their own and one in the zones a and b, with 16 copies."""
    members = [member(name, 2, cpu="8") for name in "abc"]
    first = write(tmp_path, "fleet.yaml", *members, wide("x", "a", "b"), psvc(replicas=16), *more)
    decided = run("place", "-f", first, "-o", "yaml")
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return first, str(tmp_path / "decisions.yaml")


def planned(files: tuple[str, ...], *lost: str) -> tuple[int, dict[str, Any]]:
    dump = [word for file in files for word in ("--dump", file)]
    args = [word for each in lost for word in ("--lose", each)]
    done = run("plan", *dump, *args, "-o", "json", "--no-losses")
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


def test_a_drill_loses_a_cluster_with_the_last_of_its_zones(tmp_path: Path) -> None:
    files = [word for file in host(tmp_path) for word in ("-f", file)]
    done = run("drill", *files, "--by", "zone", "-o", "json")
    losses = {loss["name"]: loss for loss in json.loads(done.stdout)["losses"]}
    assert {name: loss["clusters"] for name, loss in losses.items()} == {
        "a": ["a"],
        "b": ["b"],
        "c": ["c"],
    }
    assert [loss.get("notLost") for loss in losses.values()] == [["x"], ["x"], None]
    table = run("drill", *files, "--by", "zone").stdout
    assert "a: also in another zone, so not lost: x" in table


def test_a_plan_loses_a_cluster_with_the_last_of_its_zones(tmp_path: Path) -> None:
    files = host(tmp_path)
    _, by_zone = planned(files, "zone=a")
    _, by_name = planned(files, "a")
    assert by_zone["workloads"] == by_name["workloads"]
    assert by_zone["warnings"] == [
        "MemberCluster/x also lies in domains that are not lost (spec.topology), so this plan does"
        " not lose it"
    ]
    _, both = planned(files, "zone=a", "zone=b")
    _, named = planned(files, "a", "b", "x")
    assert both["workloads"] == named["workloads"]
    assert not both["warnings"]


def test_a_domain_with_which_no_cluster_is_lost_is_refused(tmp_path: Path) -> None:
    files = write(tmp_path, "only.yaml", wide("x", "a", "b"), member("c", 2))
    done = run("plan", "--dump", files, "--lose", "zone=a")
    assert done.exit_code == 1
    assert "--lose: x also in zone b (spec.topology), so the loss of zone=a loses no" in done.output


def test_copies_count_in_each_zone_of_their_cluster(tmp_path: Path) -> None:
    rule = {"maxShare": {"topologyKey": "zone", "percent": 50}}
    only = policy(clusters={"names": ["a", "x", "c"]})
    files = host(tmp_path, only, invariant(rule=rule, enforcement="Refuse"))
    (decision,) = yaml.safe_load(Path(files[1]).read_text(encoding="utf-8"))["items"]
    got = {share["cluster"]: share["replicas"] for share in decision["spec"]["shares"]}
    assert sum(got.values()) == 16
    assert got.get("a", 0) + got["x"] == got["c"] == 8


def test_a_fleet_survives_the_loss_of_one_of_two_zones_of_its_only_cluster() -> None:
    both = cluster("x", 9, stated=Stated(topology={"zone": ("a", "b")}))
    snapshot = fleet(both)
    assert drill.possible(snapshot, Survives("zone", 1))
    assert drill.losses(snapshot, "zone") == []
    assert [loss.clusters for loss in drill.losses(snapshot, "zone", 2)] == [("x",)]


_ZONES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(tuple)


@examples(60)
@given(st.dictionaries(st.sampled_from("pqrs"), _ZONES, min_size=1), st.integers(1, 2))
def test_losses_are_those_counted_one_by_one(where: dict[str, tuple[str, ...]], many: int) -> None:
    """Against the rule written a second time: lost is what lies in lost domains only."""
    snapshot: FleetSnapshot = fleet(
        *(
            cluster(name, 1, stated=Stated(topology={"zone": tuple(sorted(zones))}))
            for name, zones in where.items()
        )
    )
    for loss in drill.losses(snapshot, "zone", many):
        gone = set(loss.name.split(" and "))
        assert len(gone) == many
        assert set(loss.clusters) == {name for name in where if set(where[name]) <= gone}
        touched = {name for name in where if set(where[name]) & gone}
        assert set(loss.partly) == touched - set(loss.clusters)
