"""A slice that says itself what it holds is not read again; one that says anything else is read,
and put right.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from federator.hub.records import packing, slices, workloads
from federator.kinds import registry
from federator.kinds.verbs import PodRules
from federator.model import names
from federator.model.decision import Share
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"
ALONE = {"app": "page"}
TEMPLATE = {"metadata": {"labels": ALONE}, **service(1)["template"]}
DEPLOYMENT: dict[str, Any] = {
    "replicas": 7,
    "selector": {"matchLabels": ALONE},
    "template": TEMPLATE,
}
FLEET, PROFILE = "federator", ("default", "abc")


def slice_reads(world: World) -> int:
    """Single slices that anybody has read in members so far."""
    resources = {f"{kind.plural}.{kind.group}" for kind in registry.WORKLOADS.values()}
    return sum(
        number
        for member in world.federation.members.values()
        for (verb, resource), number in member.api.requests.items()
        if verb == "get" and resource in resources
    )


def test_a_restarted_hub_reads_no_slice_that_proves_itself() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.create("PinterestJobSet", "feed", "index", jobset(6, 3))
        await world.create("Deployment", "feed", "page", DEPLOYMENT)
        await world.settle()
        await asyncio.sleep(90)
        await world.federation.kill("hub")
        world.writes.clear()
        before = slice_reads(world)

        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(30)

        assert slice_reads(world) == before
        assert world.count("hub") == 0

    play(scenario)


@pytest.mark.parametrize("kind", [PSVC, "Deployment"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda share: {"spec": {"replicas": share + 3}}, id="amount"),
        pytest.param(
            lambda share: {"spec": {"template": {"metadata": {"labels": {"more": "x"}}}}},
            id="content",
        ),
        pytest.param(
            lambda share: {"metadata": {"labels": {names.WORKLOAD_UID_LABEL: "other"}}}, id="label"
        ),
    ],
)
def test_what_was_changed_in_a_member_while_no_hub_ran_is_put_right(
    kind: str, change: Callable[[int], Mapping[str, Any]]
) -> None:
    async def scenario(world: World) -> None:
        # A field that is not in the workload stays in carried kinds: their other writers' fields
        # are theirs.
        spec = DEPLOYMENT if kind == "Deployment" else service(9)
        spec = {
            **spec,
            "template": {**spec["template"], "metadata": {"labels": {**ALONE, "more": "y"}}},
        }
        await world.create(kind, "feed", "page", spec)
        await world.settle()
        share = (await world.shares("feed", "page"))["a"]
        wanted = await world.get(kind, "feed", "page", at="a")
        assert wanted is not None
        await world.federation.kill("hub")
        await world.patch(kind, "feed", "page", change(share), at="a")

        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(5)
        found = await world.get(kind, "feed", "page", at="a")

        assert found is not None
        assert found["spec"] == wanted["spec"]
        assert found["metadata"]["labels"] == wanted["metadata"]["labels"]

    play(scenario)


def test_a_slice_with_a_label_of_somebody_else_is_read_once_and_left_as_it_is() -> None:
    async def scenario(world: World) -> None:
        await world.create("Deployment", "feed", "page", DEPLOYMENT)
        await world.settle()
        await asyncio.sleep(90)
        await world.federation.kill("hub")
        await world.patch(
            "Deployment", "feed", "page", {"metadata": {"labels": {"team": "sre"}}}, at="a"
        )
        world.writes.clear()
        before = slice_reads(world)

        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(60)

        assert world.count("hub") == 0
        assert slice_reads(world) == before + 1

    play(scenario)


def rendered(
    kind: str, spec: Mapping[str, Any], share: Share
) -> tuple[workloads.Workload, dict[str, Any]]:
    """A workload of the host, and its slice as a member would show it."""
    made = registry.KINDS[kind]
    meta = {
        "name": "web",
        "namespace": "feed",
        "uid": "u-1",
        "generation": 3,
        "resourceVersion": "7",
    }
    host = {"apiVersion": made.api_version, "kind": kind, "metadata": meta, "spec": dict(spec)}
    body = slices.render(
        registry.verbs_of(kind), host, share, fleet=FLEET, rules=PodRules(PROFILE), origin=2
    )
    body["metadata"] |= {"uid": "s-1", "resourceVersion": "12"}
    return workloads.summarise(kind, host, None), body


CASES = [
    (PSVC, service(9), Share("a", 4, 4, 5)),
    ("Deployment", DEPLOYMENT, Share("a", 4, 4, 5)),
    ("PinterestJobSet", jobset(6, 3), Share("a", 4, 2, 5, ((0, 1), (2, 3)))),
]


@pytest.mark.parametrize(("kind", "spec", "share"), CASES)
def test_a_rendered_slice_proves_itself_and_carries_its_share_and_no_other(
    kind: str, spec: Mapping[str, Any], share: Share
) -> None:
    workload, body = rendered(kind, spec, share)
    seen = slices.summarise(kind, "a", body)

    assert slices.proves_itself(seen, workload)
    assert slices.carries(seen, workload, share, FLEET, PROFILE)
    assert not slices.carries(seen, workload, structs.replace(share, seq=6), FLEET, PROFILE)
    assert not slices.carries(
        seen, workload, structs.replace(share, count=5, slots=5), FLEET, PROFILE
    )
    assert not slices.carries(seen, workload, structs.replace(share, cluster="b"), FLEET, PROFILE)
    assert not slices.carries(seen, workload, share, "another", PROFILE)
    assert not slices.carries(seen, workload, share, FLEET, ("default", "def"))


@pytest.mark.parametrize(("kind", "spec", "share"), CASES)
def test_a_mark_that_is_spelled_otherwise_proves_nothing(
    kind: str, spec: Mapping[str, Any], share: Share
) -> None:
    workload, body = rendered(kind, spec, share)
    if kind == "Deployment":
        annotations = body["metadata"]["annotations"]
        block = json.loads(annotations[names.SLICE_ANNOTATION])
        annotations[names.SLICE_ANNOTATION] = json.dumps({**block, "more": 1})
    else:
        body["spec"]["slice"]["more"] = 1

    assert not slices.proves_itself(slices.summarise(kind, "a", body), workload)


@pytest.mark.long
@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=9)
    )
)
def test_a_packed_status_comes_back(status: dict[str, Any]) -> None:
    assert packing.unpacked(packing.packed(status)) == status
