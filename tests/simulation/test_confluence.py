"""35 confluence: whatever the order and the pace of edits that do not touch one another, the
federation ends alike.
"""

import dataclasses

import pytest

from tests.simulation import running, solo
from tests.simulation.drawing import generator
from tests.simulation.script import SERVICE, Action

ORDERS = 4
_CONTAINER = {
    "name": "app",
    "image": "app:2",
    "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
}
EDITS = (
    Action(0.0, "patch", SERVICE, "feed", "web", {"spec": {"replicas": 7}}),
    Action(
        0.0,
        "patch",
        SERVICE,
        "feed",
        "web",
        {"spec": {"template": {"spec": {"containers": [_CONTAINER]}}}},
    ),
    Action(0.0, "patch", SERVICE, "feed", "shop", {"spec": {"replicas": 5}}),
    Action(0.0, "patch", SERVICE, "feed", "web", {"spec": {"service": {"ports": [{"port": 80}]}}}),
    Action(0.0, "patch", "MemberCluster", "", "b", {"metadata": {"labels": {"zone": "z-9"}}}),
    solo.service("late", 3),
)
"""Each touches a field, or an object, of its own."""


@pytest.mark.long
def test_edits_that_do_not_touch_one_another_end_alike_in_any_order() -> None:
    ends = []
    for seed in range(ORDERS):
        rng = generator(seed, "confluence")
        pause_s = rng.choice((0.0, 0.3, 3.0))
        order = [
            dataclasses.replace(edit, pause_s=round(rng.uniform(0, pause_s), 3)) for edit in EDITS
        ]
        rng.shuffle(order)
        course = running.Course((*solo.BEGINNING, *order))
        ends.append(running.simulate(solo.world(seed=seed), course=course).end_state)

    assert all(end == ends[0] for end in ends[1:])
