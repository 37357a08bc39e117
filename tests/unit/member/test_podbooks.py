"""Pods added up as they come and go."""

import random

from federator.member.cache.podbooks import PodBooks
from federator.member.cache.rows import PodRow
from federator.model.ask import PodShape
from federator.model.resources import Resources
from federator.status.reasons import Trouble

SHAPE = PodShape(Resources({"cpu": 500, "pods": 1}))


def pod(
    controller: str, node: str = "", *, ended: bool = False, trouble: Trouble | None = None
) -> PodRow:
    return PodRow("u", controller, node, "", ended, False, SHAPE, trouble)


def test_a_bound_pod_uses_its_node_until_it_has_ended() -> None:
    commitments = PodBooks()
    waiting, bound, ended = pod("rs"), pod("rs", "n1"), pod("rs", "n1", ended=True)
    commitments.change(("ns", "p"), None, waiting)
    assert set(commitments.waiting) == {("ns", "p")}
    commitments.change(("ns", "p"), waiting, bound)
    assert (commitments.bound("rs"), commitments.used, commitments.waiting) == (
        1,
        {"n1": {"cpu": 500, "pods": 1}},
        {},
    )
    commitments.change(("ns", "p"), bound, ended)
    assert (commitments.bound("rs"), commitments.used) == (0, {})


def test_troubles_are_kept_per_controller() -> None:
    commitments = PodBooks()
    ill = pod("rs", "n1", trouble=Trouble(1, "ImagePullFailed", "x"))
    commitments.change(("ns", "p"), None, ill)
    assert [trouble.reason for trouble in commitments.troubles("rs")] == ["ImagePullFailed"]
    commitments.change(("ns", "p"), ill, pod("rs", "n1"))
    assert list(commitments.troubles("rs")) == []


def test_after_any_history_only_what_is_there_is_on_the_books() -> None:
    rng = random.Random(7)
    commitments = PodBooks()
    world: dict[tuple[str, str], PodRow] = {}
    for _ in range(3000):
        key = ("ns", f"p{rng.randrange(40)}")
        old = world.get(key)
        new = None
        if rng.random() < 0.7:
            trouble = Trouble(1, "X", "") if rng.random() < 0.3 else None
            where = rng.choice(["", "n1", "n2"])
            new = pod(rng.choice(["a", "b"]), where, ended=rng.random() < 0.2, trouble=trouble)
        commitments.change(key, old, new)
        if new is None:
            world.pop(key, None)
        else:
            world[key] = new
    fresh = PodBooks()
    for key, row in world.items():
        fresh.change(key, None, row)
    assert commitments == fresh
