"""How long what a member said is held against it: `hub.members.trust`."""

from federator.hub.members.trust import LASTING_S, SUBJECTS_MAX, Trust
from federator.status.given import SHARDS_NOT_GIVEN, TOO_MANY_COPIES, Contradiction

FLAT = Contradiction(SHARDS_NOT_GIVEN, "job: it tells of 40 shards that it was never given.")
SLOW = Contradiction(TOO_MANY_COPIES, "service: it tells of 90 copies of 3.", lasting=True)


def looked(trust: Trust, since_s: float, until_s: float) -> list[float]:
    """Probes every ten seconds; the times at which the verdict changed."""
    return [float(at) for at in range(int(since_s), int(until_s) + 1, 10) if trust.look(float(at))]


def test_a_flat_contradiction_counts_at_once_and_is_news_once() -> None:
    trust = Trust()

    assert trust.condition() is None
    assert trust.note("job", FLAT, 5.0)
    assert not trust.note("job", FLAT, 6.0)
    found = trust.condition()
    assert found is not None
    assert (found.type, found.status, found.reason) == ("Untrustworthy", "True", SHARDS_NOT_GIVEN)
    assert "40 shards that it was never given" in found.message
    assert (
        trust.why == SHARDS_NOT_GIVEN
    )  # without the evidence: verdicts are read by owners of other workloads


def test_what_a_delay_could_explain_counts_when_it_stands() -> None:
    trust = Trust()

    assert not trust.note("service", SLOW, 0.0)
    assert looked(trust, 0, LASTING_S - 10) == []
    assert not trust.note("service", None, LASTING_S - 5), "it was a delay"
    assert looked(trust, LASTING_S, 3 * LASTING_S) == []
    assert not trust.note("service", SLOW, 200.0)
    assert looked(trust, 200, 300) == [260.0]


def test_it_ends_when_nothing_of_the_kind_was_seen_for_long_while_it_was_heard() -> None:
    trust = Trust(clears_after_s=100.0)
    trust.look(0.0)
    trust.note("job", FLAT, 0.0)

    assert looked(trust, 10, 500) == [], "it stands: nothing is clean"
    trust.note("job", None, 500.0)
    assert looked(trust, 510, 560) == []
    assert not trust.look(5000.0), "nobody looked meanwhile, so only a part of that time counts"
    assert looked(trust, 5010, 5100) == [5010.0]
    assert trust.condition() is None
    assert trust.why == ""


def test_another_contradiction_meanwhile_begins_the_time_anew() -> None:
    trust = Trust(clears_after_s=100.0)
    trust.look(0.0)
    trust.note("job", FLAT, 0.0)
    trust.note("job", None, 1.0)
    looked(trust, 10, 90)
    trust.note("other", FLAT, 90.0)
    trust.note("other", None, 91.0)

    assert looked(trust, 100, 250) == [190.0]


def test_an_operators_word_ends_it_and_names_what_is_to_be_looked_at_anew() -> None:
    trust = Trust()
    trust.note("job", FLAT, 0.0)

    assert trust.pardon() == ("job",)
    assert trust.condition() is None
    assert trust.note("job", FLAT, 1.0), "what stands still is found out again"


def test_what_an_earlier_hub_found_stands_and_ends_like_its_own() -> None:
    first = Trust(clears_after_s=100.0)
    first.note("job", FLAT, 0.0)
    told = first.condition()
    assert told is not None
    then = Trust(clears_after_s=100.0)
    then.recorded({"status": "True", "reason": told.reason, "message": told.message})
    again = then.condition()

    assert again == told
    assert looked(then, 0, 300) == [100.0]
    fresh = Trust()
    fresh.recorded({"status": "False", "reason": "x", "message": "y"})
    assert fresh.condition() is None


def test_a_flood_of_contradictions_is_remembered_up_to_a_bound() -> None:
    trust = Trust()
    for number in range(SUBJECTS_MAX + 500):
        trust.note(number, FLAT, 0.0)

    assert len(trust.pardon()) == SUBJECTS_MAX
