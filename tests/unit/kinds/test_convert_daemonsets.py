"""DaemonSets to PinterestDaemons: one test per rule."""

from typing import Any

import pytest

from federator.convert.drafts import BadInput
from tests.unit.kinds.conversions import converted, deployment, left, notes, only, service


def daemon(name: str = "web", **fields: Any) -> dict[str, Any]:
    obj = deployment(name)
    kept = {key: value for key, value in obj["spec"].items() if key != "replicas"}
    return {**obj, "kind": "DaemonSet", "spec": {**kept, **fields}}


def test_a_daemon_set_runs_in_every_cluster_of_its_policy() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%", "maxSurge": 0}}
    done = converted(daemon(updateStrategy=rolling, minReadySeconds=5, revisionHistoryLimit=7))

    obj = only(done)
    assert obj["kind"] == "PinterestDaemon"
    assert obj["spec"]["updateStrategy"] == {
        "maxUnavailable": "20%",
        "maxSurge": 0,
        "minReadySeconds": 5,
    }
    assert "in every cluster of its policy" in notes(done)
    assert "revisionHistoryLimit is left out" in notes(done)


def test_a_service_over_it_stays_in_the_members() -> None:
    assert "a PinterestDaemon has no Service" in left(converted(daemon(), service()))["Service/web"]


def test_one_that_waits_for_somebody_is_left() -> None:
    done = converted(daemon(updateStrategy={"type": "OnDelete"}))

    assert "OnDelete waits for somebody" in left(done)["DaemonSet/web"]


def test_bad_input_is_told_with_its_field() -> None:
    with pytest.raises(BadInput) as caught:
        converted(daemon(selector={"matchLabels": {"app": "other"}}))

    assert [error.path for error in caught.value.errors] == ["spec.template.metadata.labels"]
