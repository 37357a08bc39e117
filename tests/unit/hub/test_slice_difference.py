"""What the hub changes in a slice: what the user took out of a template goes, where the hub is the only writer."""

from typing import Any

from federator.hub import slices


def _slice(template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template, **spec}}


LIVE: dict[str, Any] = {"metadata": {"annotations": {"a": "1", "b": "2"}}, "spec": {"volumes": [{"name": "v"}]}}
WANT: dict[str, Any] = {"metadata": {"annotations": {"b": "2"}}, "spec": {}}


def test_what_a_template_of_ours_lost_is_removed_from_its_slice() -> None:
    found = slices.difference(_slice(LIVE, slice={"seq": 1}), _slice(WANT, slice={"seq": 1}))

    assert found == {"spec": {"template": {"metadata": {"annotations": {"a": None}}, "spec": {"volumes": None}}}}


def test_a_slice_with_the_template_as_wanted_is_left_alone() -> None:
    assert slices.difference(_slice(WANT, slice={"seq": 1}), _slice(WANT, slice={"seq": 1})) == {}


def test_in_a_carried_native_object_what_others_added_to_the_template_stays() -> None:
    assert slices.difference(_slice(LIVE), _slice(WANT)) == {}
