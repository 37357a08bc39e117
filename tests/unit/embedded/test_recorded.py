"""The schema layer against recorded answers of a real API server: what is stored, what is refused
and in which words.

In scope: decoding, defaults, strategies, validation, field ownership, CRD rules. Out of scope: the
REST layer, the store.
"""

from typing import Any

import pytest

from tests.unit.embedded import recordings

Story = dict[str, Any]


def _each(name: str) -> list[Any]:
    return [pytest.param(story, id=story["name"]) for story in recordings.stories(name)]


TOKEN_VOLUME = "kube-api-access-"
"""Mounted by a real server into each container; embedded pods go without (see embedded/admission).
"""


def _as_embedded(obj: Any, uid: str) -> Any:
    """A recorded object with what the embedded server gives instead of the real one's own
    values.
    """
    if isinstance(obj, list):
        named = [
            item
            for item in obj
            if not (isinstance(item, dict) and TOKEN_VOLUME in str(item.get("name", "")))
        ]
        return [_as_embedded(item, uid) for item in named]
    if isinstance(obj, dict):
        pairs = {key: _as_embedded(child, uid) for key, child in obj.items()}
        emptied = {key for key in ("volumes", "volumeMounts") if obj.get(key) and not pairs[key]}
        return {key: child for key, child in pairs.items() if key not in emptied}
    return "the-uid" if obj == uid else obj


def _generated_uid(answer: dict[str, Any]) -> str:
    if answer["kind"] != "Job":
        return "-"
    return str(answer["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"])


@pytest.mark.parametrize("story", _each("stored"))
def test_builtin_is_stored_as_on_a_real_server(story: Story) -> None:
    step = story["steps"][0]
    mine = recordings.settled(recordings.perform(step))
    real = _as_embedded(step["answer"], _generated_uid(step["answer"]))
    if real["kind"] == "Service" and real["spec"].get("clusterIP", "None") != "None":
        real["spec"] |= {"clusterIP": recordings.ADDRESS, "clusterIPs": [recordings.ADDRESS]}
        for port in real["spec"]["ports"]:
            if "nodePort" in port:
                port["nodePort"] = 30000
    if real["kind"] == "PersistentVolumeClaim":
        # No controller would ever take this finalizer away again in an embedded cluster.
        assert real["metadata"].pop("finalizers") == ["kubernetes.io/pvc-protection"]
    if real["kind"] == "Pod":
        # The recording server runs without the admission of service accounts.
        real["spec"] = {"serviceAccountName": "default", "serviceAccount": "default"} | real["spec"]
    assert recordings.by_writer(mine) == recordings.by_writer(real)


@pytest.mark.parametrize("story", _each("refused"))
def test_builtin_is_refused_in_the_words_of_a_real_server(story: Story) -> None:
    step = story["steps"][0]
    if step["code"] < 300:
        recordings.perform(step)
        return
    with pytest.raises(recordings.Refused) as refused:
        recordings.perform(step)
    assert str(refused.value) == step["message"]


def _complaints(message: str) -> list[str]:
    return sorted(
        message.replace("[", "").replace("]", "").replace("is invalid: ", ", ").split(", ")
    )


@pytest.mark.parametrize("story", _each("customs"))
def test_custom_resource_is_judged_as_by_a_real_server(story: Story) -> None:
    step = story["steps"][0]
    if step["code"] < 300:
        assert recordings.settled(recordings.perform(step)) == step["answer"]
        return
    with pytest.raises(recordings.Refused) as refused:
        recordings.perform(step)
    # The order of complaints about several fields changes from run to run on a real server.
    assert _complaints(str(refused.value)) == _complaints(step["message"])


NOT_TYPED = {
    "rule not bool": (
        "our evaluator has no types before it runs: such a rule fails at its first use instead"
    )
}


@pytest.mark.parametrize("story", _each("schemas"))
def test_definition_is_judged_as_by_a_real_server(story: Story) -> None:
    step = story["steps"][0]
    if step["code"] < 300 or story["name"] in NOT_TYPED:
        recordings.perform(step)
        return
    with pytest.raises(recordings.Refused) as refused:
        recordings.perform(step)
    assert str(refused.value) == step["message"]


@pytest.mark.parametrize("story", _each("ownership"))
def test_ownership_goes_as_on_a_real_server(story: Story) -> None:
    """Applies and updates by two managers; each step starts from the real server's last answer."""
    live = None
    for step in story["steps"]:
        if step["code"] >= 300:
            if "is invalid" in step["message"] and '"null"' in step["message"]:
                # A real server trips over the null that its own removal of the last item leaves; we
                # drop it.
                continue
            with pytest.raises(recordings.Refused) as refused:
                recordings.perform(step, live)
            assert str(refused.value) == step["message"]
            continue
        mine = recordings.settled(recordings.perform(step, live))
        assert recordings.by_writer(mine) == recordings.by_writer(step["answer"])
        live = step["answer"]
