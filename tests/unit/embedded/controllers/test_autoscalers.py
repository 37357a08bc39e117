"""HorizontalPodAutoscalers: bounds hold at once, and an annotation says what metrics ask for."""

import pytest

from federator.embedded.controllers.workloads.autoscalers import WANTED
from tests.unit.embedded.controllers.clusters import Cluster, Obj, play, template


def deployment(replicas: int) -> Obj:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web"),
    }
    return {"metadata": {"name": "web"}, "spec": spec}


def autoscaler(least: int, most: int, wanted: str | None = None) -> Obj:
    metadata: Obj = {"name": "web"} | ({"annotations": {WANTED: wanted}} if wanted else {})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": metadata,
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most},
    }


@pytest.mark.parametrize(
    ("before", "wanted", "after", "limited"),
    [
        (1, None, 2, "DesiredWithinRange"),
        (4, None, 4, "DesiredWithinRange"),
        (9, None, 6, "DesiredWithinRange"),
        (2, "5", 5, "DesiredWithinRange"),
        (2, "50", 6, "TooManyReplicas"),
        (5, "0", 2, "TooFewReplicas"),
        (5, "many", 5, "DesiredWithinRange"),
        (0, "5", 0, "TooManyReplicas"),
    ],
)
def test_a_deployment_is_kept_within_bounds(
    before: int, wanted: str | None, after: int, limited: str
) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(before))
        cluster.create("HorizontalPodAutoscaler", autoscaler(2, 6, wanted))
        await cluster.pass_s(20)
        assert cluster.get("Deployment", "web")["spec"]["replicas"] == after
        assert len(cluster.pods()) == after
        status = cluster.status("HorizontalPodAutoscaler", "web")
        assert (status["currentReplicas"], status["desiredReplicas"]) == (after, after)
        told = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
        assert told["AbleToScale"] == ("True", "ReadyForNewScale")
        active = wanted is not None and wanted.isdecimal() and before > 0
        assert told["ScalingActive"][0] == str(active)
        if before:
            assert told["ScalingLimited"][1] == limited
        written = cluster.writes["HorizontalPodAutoscaler"]
        await cluster.pass_s(60)
        assert cluster.writes["HorizontalPodAutoscaler"] == written

    play(story)


def test_an_autoscaler_waits_for_its_deployment() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("HorizontalPodAutoscaler", autoscaler(3, 6))
        await cluster.pass_s(16)
        (able,) = cluster.status("HorizontalPodAutoscaler", "web")["conditions"]
        assert (able["status"], able["reason"]) == ("False", "FailedGetScale")
        cluster.create("Deployment", deployment(1))
        await cluster.pass_s(20)
        assert len(cluster.pods()) == 3

    play(story)
