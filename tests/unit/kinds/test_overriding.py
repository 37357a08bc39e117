"""What overrides make of a workload's object, and what they are refused for."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.api.placement import overridefields
from federator.kinds import asks, overriding, read, registry
from federator.kinds.overriding import OverrideRefused
from federator.model import overrides
from federator.model.overrides import InCluster
from federator.model.policy import DEFAULT_POLICY

LABELS: Mapping[str, str] = {"zone": "z-a", "provider": "gcp"}


def workload(kind: str = "PinterestService", **spec: Any) -> dict[str, Any]:
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "initContainers": [{"name": "first", "image": "registry.example/tools/first:3"}],
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example/team/web:1",
                    "command": ["serve"],
                    "env": [{"name": "MODE", "value": "blue"}],
                    "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                },
                {"name": "side", "image": "side@sha256:00", "resources": {"limits": {"cpu": "1"}}},
            ],
        },
    }
    counts: dict[str, Any] = {"replicas": 3}
    if kind == "Deployment":
        counts["selector"] = {"matchLabels": {"app": "web"}}
    if kind == "PinterestJobSet":
        counts = {"shards": 4, "parallelism": 2}
        template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": registry.KINDS[kind].api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "feed", "uid": "u", "generation": 3},
        "spec": {**counts, "template": template, **spec},
    }


def there(*entries: Mapping[str, Any], cluster: str = "a") -> InCluster:
    read_entries = overridefields.to_overrides({"overrides": list(entries)}, "PlacementPolicy p")
    return overrides.for_cluster(read_entries, cluster, LABELS)


def applied(obj: dict[str, Any], *entries: Mapping[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(obj)
    made = overriding.applied(obj, registry.verbs_of(obj["kind"]), there(*entries), None)
    assert obj == before, "the object given is never changed"
    return dict(made)


def pod(obj: Mapping[str, Any]) -> Any:
    return obj["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("image", "fields", "wanted"),
    [
        ("registry.example/team/app:1", {"registry": "gcr.example"}, "gcr.example/team/app:1"),
        ("nginx", {"registry": "gcr.example:5000/mirror"}, "gcr.example:5000/mirror/nginx"),
        ("localhost/app:1", {"registry": "gcr.example"}, "gcr.example/app:1"),
        ("team/app:1", {"registry": "gcr.example"}, "gcr.example/team/app:1"),
        ("registry.example:5000/app", {"tag": "2"}, "registry.example:5000/app:2"),
        ("registry.example/app:1@sha256:ab", {"tag": "2"}, "registry.example/app:2"),
        ("registry.example/app:1", {"tag": "sha256:ab"}, "registry.example/app@sha256:ab"),
        ("registry.example/app@sha256:ab", {"repository": "x/y"}, "registry.example/x/y@sha256:ab"),
        ("app", {"registry": "r.io", "repository": "a/b", "tag": "3"}, "r.io/a/b:3"),
    ],
)
def test_parts_of_an_image_are_replaced(image: str, fields: dict[str, str], wanted: str) -> None:
    assert overriding.image_of(image, fields) == wanted


def test_image_and_env_change_all_containers_and_command_the_first() -> None:
    changed = pod(
        applied(
            workload(),
            {
                "image": {"registry": "gcr.example"},
                "command": ["serve", "--fast"],
                "args": ["-z=${cluster.labels.zone}"],
                "env": [
                    {"name": "MODE", "value": "green"},
                    {"name": "AT", "value": "${cluster.name}"},
                ],
            },
        )
    )

    images = [each["image"] for each in (*changed["initContainers"], *changed["containers"])]
    assert images == [
        "gcr.example/tools/first:3",
        "gcr.example/team/web:1",
        "gcr.example/side@sha256:00",
    ]
    app, side = changed["containers"]
    assert (app["command"], app["args"]) == (["serve", "--fast"], ["-z=z-a"])
    assert "command" not in side
    assert app["env"] == [{"name": "MODE", "value": "green"}, {"name": "AT", "value": "a"}]
    assert side["env"] == app["env"]


def test_named_containers_alone_are_changed() -> None:
    changed = pod(
        applied(workload(), {"containers": ["side"], "image": {"tag": "2"}, "args": ["x"]})
    )

    assert [each["image"] for each in changed["containers"]] == [
        "registry.example/team/web:1",
        "side:2",
    ]
    assert "args" not in changed["containers"][0]
    assert changed["containers"][1]["args"] == ["x"]


def test_labels_and_annotations_are_those_of_the_object_and_of_its_pods() -> None:
    changed = applied(
        workload(),
        {"labels": {"zone": "${cluster.labels.zone}"}, "annotations": {"note": "${HOME}"}},
    )

    for metadata in (changed["metadata"], changed["spec"]["template"]["metadata"]):
        assert metadata["labels"]["zone"] == "z-a"
        assert metadata["annotations"] == {"note": "${HOME}"}
    assert changed["spec"]["template"]["metadata"]["labels"]["app"] == "web"


def test_entries_are_applied_in_order_and_patches_after_the_fields_of_their_entry() -> None:
    path = "/spec/template/spec/containers/0/env/0/value"
    changed = applied(
        workload(),
        {"env": [{"name": "MODE", "value": "one"}]},
        {
            "env": [{"name": "MODE", "value": "two"}],
            "jsonPatch": [
                {"op": "test", "path": path, "value": "two"},
                {"op": "replace", "path": path, "value": "three in ${cluster.name}"},
            ],
        },
    )

    assert pod(changed)["containers"][0]["env"][0]["value"] == "three in a"


def test_components_of_a_training_job_are_changed_each() -> None:
    obj = workload("PinterestTrainingJob")
    del obj["spec"]["replicas"]
    own = copy.deepcopy(obj["spec"]["template"])
    obj["spec"] |= {
        "framework": "PyTorch",
        "components": [{"name": "master", "replicas": 1}, {"name": "worker", "template": own}],
    }
    changed = applied(obj, {"image": {"tag": "9"}})

    templates = changed["spec"]["template"], changed["spec"]["components"][1]["template"]
    assert [each["spec"]["containers"][0]["image"] for each in templates] == [
        "registry.example/team/web:9"
    ] * 2


REFUSED: Mapping[str, tuple[list[Mapping[str, Any]], str]] = {
    "requests": (
        [
            {
                "op": "add",
                "path": "/spec/template/spec/containers/0/resources/requests/cpu",
                "value": "1",
            }
        ],
        "cannot change requests or limits",
    ),
    "all resources": (
        [{"op": "remove", "path": "/spec/template/spec/containers/0/resources"}],
        "cannot change requests or limits",
    ),
    "a container with requests": (
        [
            {
                "op": "add",
                "path": "/spec/template/spec/containers/-",
                "value": {
                    "name": "more",
                    "image": "more:1",
                    "resources": {"requests": {"cpu": "1"}},
                },
            }
        ],
        "cannot change requests or limits",
    ),
    "a whole template": (
        [{"op": "replace", "path": "/spec/template/spec", "value": {"containers": []}}],
        "shape of a copy is one for all clusters",
    ),
    "a container that goes": (
        [{"op": "remove", "path": "/spec/template/spec/containers/1"}],
        "shape of a copy is one for all clusters",
    ),
    "a toleration": (
        [
            {
                "op": "add",
                "path": "/spec/template/spec/tolerations",
                "value": [{"operator": "Exists"}],
            }
        ],
        "shape of a copy is one for all clusters",
    ),
    "the count": ([{"op": "replace", "path": "/spec/replicas", "value": 9}], "must match"),
    "another field": ([{"op": "add", "path": "/spec/tier", "value": "Reserved"}], "must match"),
    "a priority class": (
        [{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "first"}],
        "another priority class: first",
    ),
    "a node": (
        [{"op": "add", "path": "/spec/template/spec/nodeName", "value": "n"}],
        "another nodes: spec.template.spec.nodeName",
    ),
    "a long grace": (
        [{"op": "add", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 900}],
        "would be 900, longer than the workload's own (30)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_patch_must_not_change_is_refused(what: str) -> None:
    operations, words = REFUSED[what]

    with pytest.raises(OverrideRefused) as caught:
        applied(workload(), {"jsonPatch": operations})

    assert words in str(caught.value)
    assert "spec.overrides[0]" in str(caught.value)


def test_a_selector_that_no_longer_matches_its_pods_is_refused() -> None:
    with pytest.raises(OverrideRefused):
        applied(
            workload("Deployment"), {"jsonPatch": [{"op": "remove", "path": "/spec/template/spec"}]}
        )


def policy(**override: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "p", "namespace": "feed"},
        "spec": {"overrides": [override]},
    }


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ({}, "spec.overrides[0]"),
        ({"image": {}}, "spec.overrides[0].image"),
        ({"image": {"registri": "x"}}, "spec.overrides[0].image.registri"),
        ({"resources": {}}, "spec.overrides[0].resources"),
        ({"env": [{"value": "x"}]}, "spec.overrides[0].env[0].name"),
        ({"labels": {"federation.pinterest.com/fleet": "x"}}, "spec.overrides[0]"),
        ({"env": [{"name": "A", "value": "${cluster.labels}"}]}, "spec.overrides[0]"),
        ({"clusters": {"matchLabel": {}}, "args": ["x"]}, "spec.overrides[0].clusters.matchLabel"),
        (
            {"jsonPatch": [{"op": "move", "path": "/spec/template/x"}]},
            "spec.overrides[0].jsonPatch[0].op",
        ),
        (
            {"jsonPatch": [{"op": "remove", "path": "/spec/replicas"}]},
            "spec.overrides[0].jsonPatch[0].path",
        ),
        ({"jsonPatch": REFUSED["requests"][0]}, "spec.overrides[0].jsonPatch[0]"),
        ({"jsonPatch": REFUSED["a container with requests"][0]}, "spec.overrides[0].jsonPatch[0]"),
        (
            {"jsonPatch": [{"op": "add", "path": "/spec/template/spec/hostname"}]},
            "spec.overrides[0].jsonPatch[0]",
        ),
    ],
)
def test_a_bad_override_is_refused_with_its_path(override: dict[str, Any], path: str) -> None:
    with pytest.raises(read.InvalidObject) as caught:
        read.check(policy(**override))

    assert any(error.path.startswith(path) for error in caught.value.errors), caught.value


texts = st.sampled_from(["x", "2", "${cluster.name}", "${cluster.labels.zone}", "gcr.example"])
pointers = st.sampled_from(
    [
        "/spec/template/spec/containers/0/image",
        "/spec/template/spec/containers/0/resources",
        "/spec/template/spec/containers/-",
        "/spec/template/spec/containers",
        "/spec/template/spec/nodeSelector",
        "/spec/template/spec/overhead",
        "/spec/template/spec/hostNetwork",
        "/spec/template/spec/tolerations/0",
        "/spec/template/spec",
        "/spec/template",
        "/spec/config/a",
        "/spec/replicas",
        "/metadata/labels/app",
    ]
)
values: st.SearchStrategy[Any] = st.one_of(
    texts,
    st.booleans(),
    st.integers(0, 9),
    st.just({"name": "n", "image": "i"}),
    st.just({"name": "n", "image": "i", "resources": {"requests": {"cpu": "5"}}}),
    st.just([{"name": "app", "image": "i", "resources": {"requests": {"cpu": "1"}}}]),
    st.just({"containers": [{"name": "app", "image": "i"}]}),
    st.just({"cpu": "1"}),
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "image": st.fixed_dictionaries({"tag": texts}),
        "command": st.lists(texts, max_size=2),
        "args": st.lists(texts, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": st.just("E"), "value": texts}), max_size=1),
        "labels": st.dictionaries(st.sampled_from(["app", "zone"]), texts, max_size=2),
        "annotations": st.dictionaries(st.sampled_from(["app", "zone"]), texts, max_size=2),
        "jsonPatch": st.lists(
            st.fixed_dictionaries(
                {
                    "op": st.sampled_from(["add", "replace", "test"]),
                    "path": pointers,
                    "value": values,
                }
            ),
            max_size=3,
        ),
    },
)


@given(
    st.lists(entries, max_size=3),
    st.sampled_from(["PinterestService", "PinterestJobSet", "Deployment"]),
)
def test_overrides_never_change_a_shape(chosen: list[dict[str, Any]], kind: str) -> None:
    obj, verbs = workload(kind), registry.verbs_of(kind)
    before = asks.ask(obj, verbs, DEFAULT_POLICY)
    try:
        changed = applied(obj, *chosen)
    except OverrideRefused:
        return

    after = asks.ask(changed, verbs, DEFAULT_POLICY)
    assert after.shape == before.shape
    assert (after.count, after.slots, after.tier, after.project) == (
        before.count,
        before.slots,
        before.tier,
        before.project,
    )
    assert not after.privileges.baseline
    resources = [each.get("resources") for each in pod(changed)["containers"]]
    assert [each for each in resources if each] == [
        each["resources"] for each in pod(obj)["containers"]
    ]


def test_no_overrides_change_nothing() -> None:
    obj = workload()

    assert overriding.applied(obj, registry.verbs_of(obj["kind"]), there(), None) is obj
    elsewhere = {"clusters": {"names": ["b"]}, "image": {"tag": "2"}}
    assert not there(elsewhere)
