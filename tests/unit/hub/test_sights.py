"""What a standby hub says of members, as text in its Lease, and what its reader makes of it."""

import json
from typing import Any

import pytest

from federator.hub.members import sights
from federator.hub.members.sights import Sight, Witnesses
from federator.model import names

FLEET = sights.fleet_of(("a", "b", "c"))
HUB = "hub-1_0123456789"
NOTE = names.SIGHT_ANNOTATION


def lease(text: str, *, version: str = "7", hub: Any = HUB) -> dict[str, Any]:
    meta = {"uid": "u", "resourceVersion": version, "annotations": {NOTE: text}}
    return {"metadata": meta, "spec": {"holderIdentity": hub}}


def test_an_account_is_read_as_it_was_written() -> None:
    said = Sight(HUB, FLEET, frozenset({"a"}), frozenset({"c"}))
    text = sights.text(said, clusters=3)
    assert json.loads(text) == {
        "v": 1,
        "clusters": 3,
        "fleet": FLEET,
        "silent": ["a"],
        "unknown": ["c"],
    }
    assert sights.read(lease(text)) == said
    assert [said.hears(name) for name in "abc"] == [False, True, False]


def test_nobody_is_named_while_all_is_well() -> None:
    assert sights.text(Sight(HUB, FLEET), clusters=3) == json.dumps(
        {"v": 1, "clusters": 3, "fleet": FLEET}
    )


@pytest.mark.parametrize(("clusters", "length", "named"), [(1000, 40, True), (1000, 63, False)])
def test_the_account_of_a_standby_that_hears_none_of_a_thousand_is_bounded(
    clusters: int, length: int, named: bool
) -> None:
    """Where names take too much it says how many, and vouches for nobody."""
    every = [f"{number:0{length}d}" for number in range(clusters)]
    text = sights.text(Sight(HUB, sights.fleet_of(every), frozenset(every)), clusters=clusters)
    assert len(text) < sights.NAMED_BYTES + 200
    said = sights.read(lease(text))
    assert said is not None
    assert (len(said.silent), said.more) == ((clusters, 0) if named else (0, clusters))
    assert said.hears("somebody else") is named
    assert not any(said.hears(name) for name in every)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"v": 2}',
        "[" * 100_000,
        '{"v": "1"}',
    ],
)
def test_what_cannot_be_read_is_no_account(text: str) -> None:
    assert sights.read(lease(text)) is None


def test_odd_fields_vouch_for_nobody() -> None:
    odd = sights.read(lease('{"v": 1, "fleet": 3, "silent": "a", "unknown": {"b": 1}}'))
    assert odd is not None
    assert sights.of_cluster([odd], "a", FLEET) == Witnesses()
    assert sights.read(lease('{"v": 1}', hub=None)) is None
    assert sights.read({}) is None


def test_accounts_of_other_clusters_say_nothing() -> None:
    """A standby that does not know of a cluster yet does not name it, and does not hear it."""
    old = Sight(HUB, sights.fleet_of(("a", "b")))
    now = Sight("hub-2_1", FLEET, frozenset({"b"}))
    assert sights.of_cluster([old, now], "c", FLEET) == Witnesses(hear=("hub-2",))
    assert sights.of_cluster([old, now], "b", FLEET) == Witnesses(miss=("hub-2",))
    assert sights.fleet_of(("b", "a", "c")) == FLEET


def test_only_what_was_seen_to_change_is_fresh_and_not_for_long() -> None:
    text = sights.text(Sight(HUB, FLEET), clusters=3)
    first = sights.seen(None, lease(text), 100.0)
    assert not first.fresh(100.0, 30.0), "it may be of any age"
    assert sights.seen(first, lease(text), 110.0) is first
    second = sights.seen(first, lease(text, version="8"), 110.0)
    assert second.fresh(140.0, 30.0)
    assert not second.fresh(140.1, 30.0)
