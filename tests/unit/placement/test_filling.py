"""Seats given and taken in blocks are those given and taken one by one: `filling` against the plain
oracle.
"""

from operator import le

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.policy import SpreadRule
from federator.placement.division import domains, filling
from federator.placement.division.division import Party
from tests.unit.placement import seatbyseat

World = tuple[list[Party], list[SpreadRule], tuple[tuple[str, ...], ...]]
MANY = 400
"""Beyond what is given one by one."""


@st.composite
def worlds(draw: st.DrawFn, keys: int, *, nested: bool = True, floors: bool = False) -> World:
    weights = draw(st.sampled_from((st.just(1), st.integers(1, 9), st.integers(1, 1_000))))
    clusters: list[Party] = []
    for index in range(draw(st.integers(1, 7))):
        zone = draw(st.integers(0, 3))
        where = (f"z{zone}", f"r{zone % 2 if nested else draw(st.integers(0, 1))}")[:keys]
        cap = draw(st.sampled_from((MANY, 90, 13, 4, 0)))
        floor = min(draw(st.sampled_from((0, 0, 3))), cap) if floors else 0
        clusters.append(
            Party(
                f"c{index}",
                draw(weights),
                cap,
                floor,
                min(draw(st.sampled_from((0, 0, 0, 2, 17))), cap),
                draw(st.sampled_from((0, 0, 0, 1))),
                draw(st.integers(0, 3)),
                where,
            )
        )
    rules = [
        SpreadRule(
            f"k{at}",
            draw(st.integers(1, 3)),
            draw(st.sampled_from((0, 1, 2, 5, 40))),
            draw(st.booleans()),
        )
        for at in range(keys)
    ]
    idle = draw(st.sampled_from(((), (), (("z9", "r0")[:keys],))))
    return clusters, rules, idle


def seats(parties: list[Party]) -> dict[str, int]:
    return {party.name: party.seats for party in parties}


@pytest.mark.parametrize("keys", [1, 2])
@given(data=st.data(), missing=st.integers(0, MANY))
def test_blocks_give_what_single_seats_give(keys: int, data: st.DataObject, missing: int) -> None:
    parties, rules, idle = data.draw(worlds(keys))
    before = [party.seats for party in parties]
    broken = any(_excess(parties, rules, idle))
    expected = seatbyseat.filled(parties, missing, rules, idle)
    left = filling.fill(parties, missing, rules, idle)
    assert left >= 0
    if broken and sum(seats(parties).values()) > sum(expected.values()):
        # From a state that already breaks a hard rule, single seats can be stuck where blocks are
        # not (see below): no rule is broken by more than they would leave it.
        assert not filling.overgrown(parties, before, rules, idle)
        blocks = _excess(parties, rules, idle)
        for party in parties:
            party.seats = expected[party.name]
        assert all(map(le, blocks, _excess(parties, rules, idle)))
    else:
        assert seats(parties) == expected


def test_blocks_from_a_broken_state_leave_no_rule_more_broken_than_single_seats() -> None:
    """z3 has too many from before, and z1 waits for r0, which waits for z1: what single seats leave
    broken by 2 and 2 is broken by 2 and 1.
    """
    parties = [
        Party("c0", 1, 400, 0, 0, 0, 0, ("z1", "r1")),
        Party("c1", 1, 400, 0, 0, 0, 0, ("z0", "r0")),
        Party("c2", 1, 400, 0, 2, 0, 0, ("z3", "r1")),
        Party("c3", 1, 400, 0, 2, 0, 0, ("z3", "r1")),
    ]
    rules = [SpreadRule("k0", 3, 2, True), SpreadRule("k1", 1, 1, True)]
    expected = seatbyseat.filled(parties, 66, rules, ())
    filling.fill(parties, 66, rules, ())
    assert expected == {"c0": 0, "c1": 1, "c2": 2, "c3": 2}
    assert seats(parties) == {"c0": 0, "c1": 2, "c2": 2, "c3": 2}
    assert _excess(parties, rules, ()) == [2, 1]


def test_the_rest_of_a_cap_does_not_pass_for_a_whole_block() -> None:
    """In blocks of 8, c5 fits its last 5 where c0 would break the skew with 8: with them it would
    have a seat that is c4's.
    """
    parties = [
        Party("c0", 1, 400, 0, 0, 0, 0, ("z2", "r0")),
        Party("c2", 1, 13, 0, 0, 0, 0, ("z1", "r1")),
        Party("c4", 1, 400, 0, 0, 0, 0, ("z2", "r0")),
        Party("c5", 1, 13, 0, 0, 0, 0, ("z0", "r0")),
    ]
    rules = [SpreadRule("k0", 3, 0, False), SpreadRule("k1", 1, 1, True)]
    expected = seatbyseat.filled(parties, 196, rules, ())
    assert filling.fill(parties, 196, rules, ()) == 169
    assert seats(parties) == expected == {"c0": 5, "c2": 13, "c4": 5, "c5": 4}


def test_blocks_are_not_stuck_where_two_hard_rules_wait_for_each_other() -> None:
    """z0 is full from before. Seat by seat r0 waits for r1 (region), and r1 waits for z2 in r0
    (zone): 39 copies would stay unplaced. Blocks raise all of them together, and both rules hold at
    the end.
    """
    parties = [
        Party("c0", 1, 400, 0, 0, 0, 0, ("z2", "r0")),
        Party("c1", 1, 400, 0, 2, 0, 0, ("z0", "r0")),
        Party("c2", 1, 400, 0, 0, 0, 0, ("z3", "r1")),
        Party("c3", 1, 400, 0, 2, 0, 0, ("z0", "r0")),
        Party("c4", 1, 400, 0, 0, 0, 0, ("z1", "r1")),
    ]
    rules = [SpreadRule("k0", 1, 1, True), SpreadRule("k1", 1, 1, True)]
    assert sum(seatbyseat.filled(parties, 41, rules, ()).values()) == 6
    assert filling.fill(parties, 41, rules, ()) == 0
    assert seats(parties) == {"c0": 11, "c1": 6, "c2": 11, "c3": 6, "c4": 11}
    assert not any(_excess(parties, rules, ()))


def test_blocks_place_more_where_two_hard_rules_wait_for_each_other() -> None:
    """z2 has too many from before. Single seats stop after 11 copies: r0 waits for r1, where only
    z0 may grow, and z0 waits for z1 in r0. Blocks raise z0 and z1 together by 8 more copies.
    """
    parties = [
        Party("c0", 1, 400, 0, 13, 0, 0, ("z3", "r0")),
        Party("c1", 1, 400, 0, 0, 0, 0, ("z0", "r1")),
        Party("c3", 1, 400, 0, 17, 0, 0, ("z2", "r1")),
        Party("c4", 1, 400, 0, 0, 0, 0, ("z1", "r0")),
        Party("c5", 1, 400, 0, 0, 0, 0, ("z0", "r0")),
    ]
    rules = [SpreadRule("k0", 1, 1, True), SpreadRule("k1", 1, 1, True)]
    expected = seatbyseat.filled(parties, 82, rules, ())
    assert expected == {"c0": 13, "c1": 3, "c3": 17, "c4": 5, "c5": 3}
    assert filling.fill(parties, 82, rules, ()) == 63
    assert seats(parties) == {"c0": 13, "c1": 7, "c3": 17, "c4": 9, "c5": 3}
    assert _excess(parties, rules, ()) == [7, 0]


def test_a_zone_that_a_hard_rule_wants_stays_open_when_blocks_are_given_back() -> None:
    """z0, which has room for one block only, gives that back. Without a copy there, the zones wait
    for it, and it waits for r1, which is in a zone that waits: 16 copies would stay unplaced.
    """
    parties = [
        Party("c0", 1, 13, 0, 0, 0, 0, ("z1", "r1")),
        Party("c1", 1, 4, 0, 0, 0, 0, ("z0", "r0")),
        Party("c2", 1, 400, 0, 0, 0, 0, ("z2", "r0")),
        Party("c3", 1, 0, 0, 0, 0, 0, ("z0", "r0")),
    ]
    rules = [SpreadRule("k0", 3, 0, True), SpreadRule("k1", 1, 1, True)]
    expected = seatbyseat.filled(parties, 132, rules, ())
    assert filling.fill(parties, 132, rules, ()) == 105
    assert seats(parties) == expected == {"c0": 13, "c1": 4, "c2": 10, "c3": 0}


def test_blocks_leave_enough_for_single_seats_to_divide_the_rest() -> None:
    """c6 is full with 4, which bounds r0 in z3: larger blocks would give r0 more of z1 than its
    turn.
    """
    parties = [
        Party("c2", 1, 400, 0, 0, 0, 0, ("z1", "r1")),
        Party("c4", 1, 400, 0, 0, 0, 0, ("z3", "r1")),
        Party("c5", 1, 400, 0, 17, 0, 0, ("z1", "r0")),
        Party("c6", 1, 4, 0, 0, 0, 0, ("z3", "r0")),
    ]
    rules = [SpreadRule("k0", 1, 1, True), SpreadRule("k1", 1, 2, True)]
    expected = seatbyseat.filled(parties, 33, rules, ())
    assert filling.fill(parties, 33, rules, ()) == 0
    assert seats(parties) == expected == {"c2": 5, "c4": 21, "c5": 20, "c6": 4}


@pytest.mark.parametrize("missing", [72, 85, 178])
def test_a_zone_that_min_domains_wants_is_not_closed_while_copies_have_no_place(
    missing: int,
) -> None:
    """z1 is the third zone, in a cluster of a higher level. Blocks that are given back close it
    again: no rule is broken more than before, and every other zone waits for it.
    """
    parties = [
        Party("c0", 1, 4, 0, 0, 0, 3, ("z2", "r0")),
        Party("c1", 1, 90, 0, 2, 0, 1, ("z2", "r0")),
        Party("c2", 1, 400, 0, 2, 0, 0, ("z3", "r1")),
        Party("c3", 1, 400, 0, 0, 1, 0, ("z1", "r1")),
        Party("c4", 1, 400, 0, 17, 0, 0, ("z2", "r0")),
    ]
    rules = [SpreadRule("k0", 3, 0, True), SpreadRule("k1", 2, 2, True)]
    expected = seatbyseat.filled(parties, missing, rules, ())
    assert filling.fill(parties, missing, rules, ()) == 0
    assert seats(parties) == expected


@pytest.mark.parametrize("keys", [1, 2])
@given(data=st.data(), part=st.integers(0, 100))
def test_blocks_take_what_single_seats_take(keys: int, data: st.DataObject, part: int) -> None:
    parties, rules, idle = data.draw(worlds(keys))
    for party in parties:
        party.seats = data.draw(st.sampled_from((party.cap, party.seats)))
    surplus = sum(party.seats for party in parties) * part // 100
    expected = seatbyseat.shrunk(parties, surplus, rules, idle)
    filling.shrink(parties, surplus, rules, idle)
    assert seats(parties) == expected


@given(worlds(2, nested=False, floors=True), st.integers(0, 50))
def test_few_seats_are_given_one_by_one_whatever_the_labels_and_floors(
    world: World, missing: int
) -> None:
    parties, rules, idle = world
    missing = min(missing, filling.ONE_BY_ONE * len(parties))
    expected = seatbyseat.filled(parties, missing, rules, idle)
    filling.fill(parties, missing, rules, idle)
    assert seats(parties) == expected


def test_a_floor_is_given_once_another_domain_has_come_up_to_what_it_makes() -> None:
    """c3 takes three seats at once, with which r0 is not the least domain any more: how far r1 has
    come counts.
    """
    parties = [
        Party("c0", 1, 400, 0, 0, 0, 0, ("z0", "r1")),
        Party("c1", 1, 400, 0, 0, 0, 0, ("z1", "r1")),
        Party("c2", 1, 400, 0, 0, 0, 0, ("z2", "r0")),
        Party("c3", 1, 400, 3, 0, 0, 0, ("z0", "r0")),
        Party("c4", 1, 4, 0, 4, 0, 0, ("z0", "r0")),
    ]
    rules = [SpreadRule("k0", 1, 0, False), SpreadRule("k1", 1, 2, False)]
    expected = seatbyseat.filled(parties, 14, rules, ())
    filling.fill(parties, 14, rules, ())
    assert seats(parties) == expected == {"c0": 4, "c1": 4, "c2": 3, "c3": 3, "c4": 4}


@given(worlds(2, nested=False), st.integers(0, MANY))
def test_crossing_labels_keep_hard_rules_in_blocks_too(world: World, missing: int) -> None:
    parties, rules, idle = world
    before = sum(_excess(parties, rules, idle))
    held = seats(parties)
    left = filling.fill(parties, missing, rules, idle)
    assert sum(_excess(parties, rules, idle)) <= before
    assert sum(seats(parties).values()) == sum(held.values()) + missing - left
    assert all(seats(parties)[name] >= count for name, count in held.items())


def _excess(
    parties: list[Party], rules: list[SpreadRule], idle: tuple[tuple[str, ...], ...]
) -> list[int]:
    return [
        domains.of_rule(at, rule, parties, idle).excess()
        for at, rule in enumerate(rules)
        if rule.hard
    ]


@pytest.mark.parametrize("skew", [1, 100])
def test_the_number_of_steps_does_not_grow_with_the_number_of_copies(
    skew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    rank = filling._Filling.rank

    def counted(self: filling._Filling, cell: filling._Cell, left: int) -> tuple[object, ...]:
        nonlocal steps
        steps += 1
        return rank(self, cell, left)

    monkeypatch.setattr(filling._Filling, "rank", counted)
    parties = [Party(f"c{i}", 5 + i, 10**6, domains=(f"z{i % 5}",)) for i in range(20)]
    rules = [SpreadRule("zone", 1, skew, hard=True)]
    assert filling.fill(parties, 10**6, rules, ()) == 0
    assert steps < 20_000
