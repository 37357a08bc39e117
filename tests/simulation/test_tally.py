"""A campaign's outcomes survive the campaign, and one in which a fault never fired is no
success.
"""

from pathlib import Path

from tests.simulation import tally
from tests.simulation.hostile import NUMBERS
from tests.simulation.tally import CAMPAIGN, Outcome

FIRST = min(NUMBERS)


def test_what_was_kept_of_a_campaign_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "outcomes"
    outcomes = [
        Outcome(3, fired={FIRST: 2}, writes=7, digest="d"),
        Outcome(4, ("6 quota: too much",)),
    ]
    assert tally.kept(file) == {}
    for outcome in outcomes:
        tally.keep(file, outcome)

    assert tally.kept(file) == {3: outcomes[0], 4: outcomes[1]}


def test_a_fault_that_never_fired_is_named_once_there_were_seeds_enough() -> None:
    few = [Outcome(seed, fired={FIRST: 1}) for seed in range(CAMPAIGN - 1)]

    assert tally.never_fired(few) == []
    assert tally.never_fired([*few, Outcome(CAMPAIGN)]) == sorted(set(NUMBERS) - {FIRST})


def test_a_broken_seed_is_in_the_sums_and_in_the_summary() -> None:
    outcomes = [
        Outcome(0, fired={FIRST: 4}, writes=5, digest="a"),
        Outcome(1, ("6 quota: too much",)),
    ]

    assert list(tally.sums(outcomes))[-1].startswith("2 seeds, 1 kept every rule")
    assert tally.summary(outcomes)["broken"] == [1]
    assert tally.summary(outcomes)["faults"][FIRST]["times"] == 4
    assert outcomes[1].line() == "seed 1 is broken\n    6 quota: too much"


def test_a_campaign_that_divided_nothing_over_several_is_no_success() -> None:
    some = [Outcome(seed, judged={"divided": 0}) for seed in range(CAMPAIGN)]

    assert not tally.never_divided(some[1:])
    assert tally.never_divided(some)
    assert not tally.never_divided([*some, Outcome(CAMPAIGN, judged={"divided": 2})])
    text = "\n".join(tally.sums([Outcome(0, judged={"divided": 2}), Outcome(1)]))
    assert "re-divided over several receivers: 2 times in 1 of 2 seeds" in text
