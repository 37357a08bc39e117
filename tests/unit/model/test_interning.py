"""Interned keys: one copy of each that is in use, and none of those that are not."""

from federator.model import interning, names
from federator.model.interning import Pool


def test_equal_keys_are_one_object_however_many_were_read_between() -> None:
    first = names.key("PinterestService", "feed", "web")
    others = [names.key("PinterestService", "feed", f"w{number}") for number in range(40_000)]
    again = names.key("PinterestService", "feed", "".join(("w", "eb")))
    assert again is first
    assert type(interning.key(("feed", "web"))) is tuple
    assert len({id(other) for other in others}) == 40_000


def test_a_pool_keeps_what_is_in_use_and_forgets_the_rest() -> None:
    pool = Pool()
    kept = [pool.own(("kept", str(number))) for number in range(100)]
    for number in range(10_000):
        pool.own(("gone", str(number)))
    assert len(pool) < 400
    assert all(pool.own(("kept", str(number))) is kept[number] for number in range(100))
