"""What the hub changes in a slice: what the user took out of a template goes, where the hub is the
only writer.
"""

import asyncio
from typing import Any

from federator.hub.records import slices
from tests.unit.hub.world import World, play, small_fleet


def _slice(template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template, **spec}}


LIVE: dict[str, Any] = {
    "metadata": {"annotations": {"a": "1", "b": "2"}},
    "spec": {"volumes": [{"name": "v"}]},
}
WANT: dict[str, Any] = {"metadata": {"annotations": {"b": "2"}}, "spec": {}}


def test_what_a_template_of_ours_lost_is_removed_from_its_slice() -> None:
    found = slices.difference(_slice(LIVE, slice={"seq": 1}), _slice(WANT, slice={"seq": 1}))

    assert found == {
        "spec": {"template": {"metadata": {"annotations": {"a": None}}, "spec": {"volumes": None}}}
    }


def test_a_slice_with_the_template_as_wanted_is_left_alone() -> None:
    assert slices.difference(_slice(WANT, slice={"seq": 1}), _slice(WANT, slice={"seq": 1})) == {}


def test_what_an_object_within_the_spec_lost_is_removed_from_its_slice_once() -> None:
    live = _slice(WANT, slice={"seq": 1}, config={"a": "1", "b": "2"}, service={"export": True})
    want = _slice(WANT, slice={"seq": 1}, config={"b": "2"}, service={})

    assert slices.difference(live, want) == {
        "spec": {"config": {"a": None}, "service": {"export": None}}
    }
    # what a server of another version has put in there after our write is its own
    assert slices.difference(live, want, answered=True) == {}


OURS: dict[str, Any] = {
    "f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:a": {}, "f:b": {}}}}}
}
MINE = {"manager": "federator", "operation": "Update", "fieldsV1": OURS}


def test_what_we_set_in_a_carried_native_object_is_removed_once_and_not_fought_for() -> None:
    live = _slice(LIVE)
    live["metadata"]["managedFields"] = [MINE]

    assert slices.difference(live, _slice(WANT)) == {
        "spec": {"template": {"metadata": {"annotations": {"a": None}}}}
    }
    assert slices.difference(live, _slice(WANT), answered=True) == {}


def test_a_label_that_the_user_took_off_is_taken_off_slices_and_nobody_elses() -> None:
    live = _slice(WANT, slice={"seq": 1})
    live["metadata"] |= {
        "labels": {"team": "feed", "theirs": "x"},
        "managedFields": [
            MINE
            | {
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:team": {}}, "f:finalizers": {'v:"ours"': {}}}
                }
            }
        ],
    }

    assert slices.difference(live, _slice(WANT, slice={"seq": 1})) == {
        "metadata": {"labels": {"team": None}}
    }


def test_in_a_carried_native_object_what_others_added_to_the_template_stays() -> None:
    assert slices.difference(_slice(LIVE), _slice(WANT)) == {}


def test_what_a_user_takes_out_of_a_carried_deployment_goes_and_what_others_put_in_stays() -> None:
    async def scenario(world: World) -> None:
        container = {"name": "app", "image": "app:1", "env": [{"name": "DEBUG", "value": "1"}]}
        template = {
            "metadata": {"labels": {"app": "page"}, "annotations": {"team": "ads", "debug": "on"}},
            "spec": {
                "containers": [container],
                "nodeSelector": {"disk": "fast", "old": "2"},
                "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            },
        }
        spec = {"replicas": 6, "selector": {"matchLabels": {"app": "page"}}, "template": template}
        await world.create("Deployment", "ads", "page", spec, labels={"tier": "1"})
        await asyncio.sleep(10)
        note = {"metadata": {"annotations": {"x": "y"}}}
        theirs = {"metadata": {"labels": {"theirs": "x"}}, "spec": {"template": note}}
        await world.patch("Deployment", "ads", "page", theirs, at="a")
        pods = {
            "metadata": {"annotations": {"debug": None}},
            "spec": {
                "containers": [{"name": "app", "image": "app:1"}],
                "nodeSelector": {"old": None},
                "tolerations": [{"key": "spot", "operator": "Exists"}],
                "volumes": None,
            },
        }
        change = {"metadata": {"labels": {"tier": None}}, "spec": {"template": pods}}
        await world.patch("Deployment", "ads", "page", change)
        await asyncio.sleep(10)

        found = await world.get("Deployment", "ads", "page", at="a")
        assert found is not None
        made = found["spec"]["template"]
        assert made["metadata"]["annotations"] == {"team": "ads", "x": "y"}
        assert "volumes" not in made["spec"]
        assert made["spec"]["nodeSelector"] == {"disk": "fast"}
        assert made["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
        assert "env" not in made["spec"]["containers"][0]
        assert "tier" not in found["metadata"]["labels"]
        assert found["metadata"]["labels"]["theirs"] == "x"
        await asyncio.sleep(90)
        before = world.count()
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert world.count() == before

    fleet = small_fleet()
    for member in fleet.members:
        member.nodes[0].labels.update(disk="fast", old="2")
    play(scenario, fleet=fleet)
