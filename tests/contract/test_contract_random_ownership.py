"""Random stories of applies and updates: the embedded schema layer against a real API server, step
by step.

Each step starts from the real server's last answer, so one difference is one failure. The stories
are seeded; those recorded for machines without a real server
(tests/unit/embedded/recorded/ownership.json) were drawn the same way.
"""

import json
import random
from typing import Any

import pytest

from tests.controlplane import record
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.unit.embedded import recordings

pytestmark = [
    pytest.mark.real,
    pytest.mark.e2e,
    pytest.mark.xdist_group("contract of real servers"),
]

STORIES = 25
STEPS = 6
_KINDS = {
    "Widget": (
        "recorded.example/v1",
        f"/apis/recorded.example/v1/namespaces/{record.NAMESPACE}/widgets",
    ),
    "ConfigMap": ("v1", f"/api/v1/namespaces/{record.NAMESPACE}/configmaps"),
    "PodTemplate": ("v1", f"/api/v1/namespaces/{record.NAMESPACE}/podtemplates"),
}
_TYPES = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


def _some(rng: random.Random, names: str) -> list[str]:
    return rng.sample(names, rng.randint(0, len(names)))


def _metadata(rng: random.Random) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if rng.random() < 0.5:
        meta["labels"] = {name: rng.choice("12") for name in _some(rng, "abc")}
    if rng.random() < 0.2:
        meta["finalizers"] = [f"x.y/{name}" for name in _some(rng, "ab")]
    return meta


def _widget(rng: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"color": rng.choice(["red", "green"])}
    choices: dict[str, Any] = {
        "replicas": rng.randint(0, 5),
        "ports": [{"name": name, "port": rng.randint(1, 3)} for name in _some(rng, "pqs")],
        "tags": _some(rng, "abcd"),
        "m": {name: rng.randint(1, 5) for name in _some(rng, "xy")},
        "atom": {"a": rng.choice("12")},
        "nested": {"deep": rng.choice("xz")},
        "any": rng.choice([1, [1, 2], {"k": {"l": 1}}, {"k": {}}, "s"]),
    }
    spec |= {name: value for name, value in choices.items() if rng.random() < 0.4 and value != []}
    return {"spec": spec}


def _template(rng: random.Random) -> dict[str, Any]:
    containers = []
    for name in rng.sample("abc", rng.randint(1, 3)):
        container: dict[str, Any] = {"name": name, "image": rng.choice(["i:1", "i:2"])}
        if rng.random() < 0.5:
            container["env"] = [
                {"name": each, "value": rng.choice("12")} for each in _some(rng, "ABC")
            ]
        if rng.random() < 0.5:
            container["ports"] = [
                {"containerPort": port} for port in rng.sample([80, 81], rng.randint(1, 2))
            ]
        if rng.random() < 0.3:
            container["resources"] = {"requests": {"cpu": rng.choice(["100m", "0.1", "1"])}}
        containers.append(container)
    spec: dict[str, Any] = {"containers": containers}
    if rng.random() < 0.4:
        spec["nodeSelector"] = dict.fromkeys(_some(rng, "xyz"), "v")
    if rng.random() < 0.3:
        spec["volumes"] = [{"name": name, "emptyDir": {}} for name in _some(rng, "vw")]
    return {
        "template": {"metadata": {"labels": dict.fromkeys(_some(rng, "ab"), "v")}, "spec": spec}
    }


def _content(rng: random.Random, kind: str) -> dict[str, Any]:
    if kind == "Widget":
        return _widget(rng)
    if kind == "PodTemplate":
        return _template(rng)
    return (
        {"data": {name: rng.choice("12") for name in _some(rng, "abcd")}}
        if rng.random() < 0.9
        else {}
    )


def _step(rng: random.Random, kind: str, name: str, live: dict[str, Any] | None) -> dict[str, Any]:
    api_version, base = _KINDS[kind]
    others = ["merge", "put"] + (["strategic"] if kind != "Widget" else [])
    action = "apply" if live is None or rng.random() < 0.55 else rng.choice(others)
    identity = {"name": name, "namespace": record.NAMESPACE}
    body = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**identity, **_metadata(rng)},
        **_content(rng, kind),
    }
    force = "&force=true" if action == "apply" and rng.random() < 0.4 else ""
    path = f"{base}/{name}?fieldManager={rng.choice(['one', 'two', 'three'])}{force}"
    if action == "put":
        assert live is not None
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        return {"method": "PUT", "path": path, "body": body}
    if action != "apply":
        body = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        body["metadata"] = {
            key: value for key, value in body["metadata"].items() if key not in identity
        }
    return {"method": "PATCH", "path": path, "type": _TYPES[action], "body": body}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Cluster:
    """A server that knows the widgets of the recordings."""
    cluster = control_plane.cluster("contract")
    cluster.ask("/api/v1/namespaces", "POST", {"metadata": {"name": record.NAMESPACE}})
    widgets = json.loads((record.FOLDER / "widgets.json").read_text())
    cluster.ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST", widgets)
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{widgets['metadata']['name']}")
    return cluster


@pytest.mark.parametrize("seed", range(STORIES))
def test_random_story_goes_alike(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(["Widget", "Widget", "ConfigMap", "PodTemplate", "PodTemplate"])
    live: dict[str, Any] | None = None
    for _ in range(STEPS):
        step = _step(rng, kind, f"story-{seed}", live)
        code, answer = record.ask(cluster, step)
        if code >= 300 and '"null"' in answer["message"]:
            # a real server trips over the null that its own removal of the last item leaves; we
            # drop it
            continue
        if code >= 300:
            with pytest.raises(recordings.Refused) as refused:
                recordings.perform(step, live)
            assert str(refused.value) == answer["message"], step
            continue
        mine = recordings.perform(step, live)
        settled = recordings.by_writer(recordings.settled(mine))
        assert settled == recordings.by_writer(record.settled(answer)), step
        live = answer
