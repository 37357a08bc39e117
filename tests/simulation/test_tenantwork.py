"""What a hostile tenant writes: an API server takes each kind, and each edit of what is charged
reaches something that is charged.
"""

import contextlib
import random

import pytest

from federator.kube import errors
from tests.simulation import solo, tenantwork
from tests.simulation.acts import tenant
from tests.simulation.confined import _beyond_level
from tests.simulation.invariants import Step
from tests.simulation.tenants import ROOT
from tests.simulation.world import World

WITHOUT = {
    ("PinterestTrainingJob", "count"),
    ("PinterestDaemon", "count"),
    ("Deployment", "profile"),
    ("Deployment", "sidecars"),
}
"""Fields that a kind has not, or that are fixed: pods of a training job have found each other by
their number.
"""
DRAWS = 12
"""An edit may draw what is there already."""


async def changes(world: World, kind: str, field: str, rng: random.Random) -> bool:
    """Whether an edit of this field, drawn a few times, changes what a new workload asks for."""
    async with tenant(world) as client:
        ref, body = tenantwork.made(kind, f"web-{field}", 2)
        made, changed = await client.create(ref, body), False
        for _ in range(DRAWS):
            edit = tenantwork.patch(kind, tenantwork.EDITS[field](kind, rng))
            with contextlib.suppress(errors.Invalid):
                found = await client.patch(ref, edit)
                notes = [obj["metadata"].get("annotations") for obj in (made, found)]
                changed = changed or made["spec"] != found["spec"] or notes[0] != notes[1]
    return changed


def test_every_kind_takes_an_edit_of_every_charged_field() -> None:
    async def story(world: World) -> None:
        rng = random.Random(1)
        for kind in tenantwork.KINDS:
            for field in tenantwork.CHARGED:
                has = (kind, field) not in WITHOUT
                assert await changes(world, kind, field, rng) is has, (kind, field)

    solo.tell(story)


@pytest.mark.parametrize("kind", tenantwork.KINDS)
def test_a_slice_of_any_kind_with_pods_beyond_their_level_is_reported(kind: str) -> None:
    for pod in (*ROOT, {}):
        _, body = tenantwork.made(kind, "rooted", 2, **pod)
        # a cron job is a native one in its clusters
        there = "CronJob" if kind == tenantwork.CRON else kind
        step = Step({}, "a", "hub#1", there, None, body)
        assert bool(list(_beyond_level(step))) is bool(pod), (kind, pod)


def test_pods_of_one_component_beyond_their_level_are_reported() -> None:
    _, body = tenantwork.made(tenantwork.TRAINING, "rooted", 2)
    body["spec"]["components"][1]["template"] = {"spec": {"hostPID": True}}
    step = Step({}, "a", "hub#1", tenantwork.TRAINING, None, body)
    assert list(_beyond_level(step))
