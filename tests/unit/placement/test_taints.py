"""Cluster taints against the recorded cases of two older planners: who may take new copies, and who
is better.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from federator.model.errors import FieldError
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Effect, Taint, Toleration
from federator.model.policy import Policy
from federator.placement.selection import scorers
from federator.placement.selection.scorers import Facts
from tests import casetables
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service

EFFECTS = {
    "NoSelect": "NoSchedule",
    "NoSelectIfNew": "NoSchedule",
    "PreferNoSelect": "PreferNoSchedule",
}
LEFT_OUT = {
    "filter-many-049": "two effects of the peer are one of ours: NoSchedule lets held copies stay",
    "filter-many-057": "tolerations that end belong to failover",
    "filter-many-058": "tolerations that end belong to failover",
}


def ours(obj: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in obj.items() if value is not None and name != "timeAdded"}
    return {**kept, "effect": EFFECTS.get(kept.get("effect", ""), kept.get("effect", ""))}


def toleration(obj: Mapping[str, Any]) -> Toleration:
    return taints.toleration_from_dict(ours(obj))


def taint(obj: Mapping[str, Any]) -> Taint:
    return taints.taint_from_dict(ours(obj))


def chosen(given: Mapping[str, Any]) -> list[str]:
    policy = Policy(
        tolerations=tuple(toleration(one) for one in given["placement"].get("tolerations") or ())
    )
    already = {name for one in given["existingDecisions"] or () for name in one["clusters"]}
    views = [
        cluster(one["name"], 10, taints=tuple(taint(each) for each in one["taints"]))
        for one in given["clusters"]
    ]
    decision = decide(
        service(2 * len(views), policy=policy), fleet(*views), held(**dict.fromkeys(already, 1))
    )
    return sorted(counts(decision))


def check(case: Mapping[str, Any]) -> bool:
    given, expected = case["input"], case["expected"]
    if case["kind"] == "filter":
        found = [taint(one) for one in given["clusterTaints"]]
        untolerated = taints.untolerated(found, [toleration(one) for one in given["tolerations"]])
        return bool((untolerated is None) == expected["schedulable"])
    if case["kind"] == "filter-many":
        try:
            return chosen(given) == sorted(expected["selected"]) and not expected.get("error")
        except FieldError:
            return bool(expected.get("error"))
    policy = Policy(tolerations=tuple(toleration(one) for one in given["tolerations"]))
    ask = service(1, policy=policy)
    views = [
        cluster(one["name"], 1, taints=tuple(taint(each) for each in one["taints"]))
        for one in given["clusters"]
    ]
    avoided = np.array([scorers.avoided(ask, view) for view in views], dtype=np.int64)
    points = scorers.untainted(ask, Facts(avoided * 0, avoided * 0 + 1, avoided)).tolist()
    got = {view.name: each // 10 for view, each in zip(views, points, strict=True)}
    return bool(got == expected["scores"])


def test_every_recorded_case_holds_but_for_those_named() -> None:
    wrong = [
        case["name"]
        for case in casetables.cases("taint_toleration")
        if check(case) == (case["name"] in LEFT_OUT)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"operator": "Equal"}, "t.operator"),
        ({"key": "a", "operator": "Exists", "value": "b"}, "t.value"),
        ({"key": "a", "operator": "In"}, "t.operator"),
        ({"key": "-a"}, "t.key"),
        ({"key": "a", "effect": "Never"}, "t.effect"),
        ({"key": "a", "tolerationSeconds": "5"}, "t.tolerationSeconds"),
        ({"key": "a", "tolerationSeconds": True}, "t.tolerationSeconds"),
        ({"key": "a", "extra": 1}, "t.extra"),
        ({"key": 5}, "t.key"),
        ([], "t"),
    ],
)
def test_a_toleration_that_kubernetes_refuses_is_refused_at_its_field(obj: Any, path: str) -> None:
    with pytest.raises(FieldError) as caught:
        taints.toleration_from_dict(obj, "t")
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"effect": "NoSchedule"}, "t.key"),
        ({"key": "a"}, "t.effect"),
        ({"key": "a", "value": "b c", "effect": "NoSchedule"}, "t.value"),
    ],
)
def test_a_taint_that_kubernetes_refuses_is_refused_at_its_field(obj: Any, path: str) -> None:
    with pytest.raises(FieldError) as caught:
        taints.taint_from_dict(obj, "t")
    assert caught.value.path == path


def test_taints_and_tolerations_written_back_read_the_same() -> None:
    for one in (Taint("a", "b", Effect.NO_EXECUTE), Taint("a", "", Effect.NO_SCHEDULE)):
        assert taints.taint_from_dict(taints.taint_to_dict(one)) == one
    for each in (
        Toleration("a", "Exists", "", "NoExecute", 30),
        Toleration("", "Exists"),
        Toleration("a", "Equal", "b"),
    ):
        assert taints.toleration_from_dict(taints.toleration_to_dict(each)) == each
