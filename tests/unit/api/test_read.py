"""Reading objects from outside: hostile and mistaken input gets the path of the field, and costs
little.
"""

from typing import Any

import pytest

from federator.api import decoding
from federator.api.decoding import Limits
from federator.kinds import read
from federator.kinds.service.schema import PinterestService
from tests import effort

TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}


def service(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": TEMPLATE, **spec},
    }


def jobs(**spec: Any) -> dict[str, Any]:
    return {**service(**spec), "kind": "PinterestJobSet"}


def federation(kind: str, name: str = "x", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def problems(obj: Any) -> dict[str, str]:
    with pytest.raises(read.InvalidObject) as caught:
        read.check(obj)
    return {error.path: error.message for error in caught.value.errors}


NOT_YAML_FOR_US = {
    "deep flow": ("[" * 900, "[0]" * 64, "deeper than 64"),
    "deep flow of mappings": ("{a: " * 900, ".".join("a" * 64), "deeper than 64"),
    "deep through aliases": (
        f"a: &a {'[' * 60}{']' * 60}\nb: {'[' * 10}*a{']' * 10}",
        "b" + "[0]" * 10,
        "deeper",
    ),
    "duplicate key": ("spec:\n  a: 1\n  a: 2", "spec.a", "given twice"),
    "duplicate key in a list": ("a: [1, {b: 1, b: 2}]", "a[1].b", "given twice"),
    "in the second document": ("a: 1\n---\nb: {c: 1, c: 2}", "[1].b.c", "given twice"),
    "python tag": ("a: !!python/object/apply:os.system [ls]", "a", "tag"),
    "binary tag": ("a: !!binary aGk=", "a", "tag"),
    "not a number": ("a: [.nan]", "a[0]", "not a number that Kubernetes knows"),
    "infinite": ("a: -.inf", "a", "not a number that Kubernetes knows"),
    "too large an integer": ("a: 9223372036854775808", "a", "64 bits"),
    "an integer that is no float either": ("a: " + "9" * 300, "a", "64 bits"),
    "a key that is a boolean": ("a: {on: 1}", "a.on", "reads as a boolean: put it in quotes"),
    "a key that is a number": ("a: {0x10: 1}", "a.0x10", "reads as a number: put it in quotes"),
    "neither octal nor decimal": ("a: 089", "a", "quotes"),
    "alias within its anchor": ("a: &x [*x]", "a[0]", "no anchor"),
    "alias of another document": ("a: &x 1\n---\nb: *x", "[1].b", "no anchor"),
    "key that is a list": ("? [a]\n: 1", "", "key must be a text"),
    "empty key": ("~: 1", "", "key is empty"),
    "merge of a text": ("<<: text", "<<", "only mappings"),
    "bad syntax": ("a: b: c", "", "not YAML"),
    "control character": ("a: \x00", "", "not YAML"),
}


@pytest.mark.parametrize(("text", "path", "message"), NOT_YAML_FOR_US.values(), ids=NOT_YAML_FOR_US)
def test_hostile_yaml_is_refused_with_the_path_of_the_field(
    text: str, path: str, message: str
) -> None:
    with pytest.raises(read.InvalidObject) as caught:
        read.load_yaml(text)
    (error,) = caught.value.errors
    assert error.path == path
    assert message in error.message


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000])
def test_yaml_too_deep_for_its_parser_is_refused_in_the_same_words(text: str) -> None:
    """PyYAML from 6.0.4 on has a bound of its own, which may come before any field is known."""
    with pytest.raises(read.InvalidObject, match="is nested deeper than 64 levels"):
        read.load_yaml(text)


def _alias_bomb() -> str:
    rows = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *rows])


def _merge_bomb() -> str:
    rows = [
        f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], x{i}: {{<<: [*a{i - 1}, *a{i - 1}]}}}}"
        for i in range(1, 30)
    ]
    return "\n".join(["a0: &a0 {k: v}", *rows])


@pytest.mark.parametrize("text", [_alias_bomb(), _merge_bomb()], ids=["aliases", "merge keys"])
def test_texts_that_multiply_themselves_are_refused_quickly(text: str) -> None:
    assert len(text) < 2500

    def load() -> None:
        with pytest.raises(read.InvalidObject, match="too many values"):
            read.load_yaml(text, Limits(nodes=200_000))

    assert effort.lines(load) < 1_000_000


def test_a_text_that_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(read.InvalidObject, match="has 101 characters, at most 100"):
        read.load_yaml("#" * 101, Limits(size=100))


def test_plain_scalars_are_those_of_kubectl() -> None:
    """The rules are tested in `tests/unit/model/test_scalars.py`."""
    text = "{a: no, b: 2026-01-02, c: '1', d: 1:30, e: 0644, f: 0x1F, "
    text += "g: 1e3, h: ~, i: 1_000, j: true, k: -7, l: 0o17, m: 12e, o: 97000e656493}"
    (found,) = read.load_yaml(text)
    assert found == {
        "a": False,
        "b": "2026-01-02",
        "c": "1",
        "d": "1:30",
        "e": 420,
        "f": 31,
        "g": 1000,
        "h": None,
        "i": 1000,
        "j": True,
        "k": -7,
        "l": 15,
        "m": "12e",
        "o": "97000e656493",
    }


def test_keys_are_texts_whatever_they_look_like() -> None:
    assert read.load_yaml("80: x\ntrue: w\n'~': z") == [{"80": "x", "true": "w", "~": "z"}]


def test_merge_keys_and_aliases_are_copies() -> None:
    (found,) = read.load_yaml("base: &b {x: 1, v: {z: 2}}\none: {<<: *b, x: 3}\ntwo: *b\n")
    assert found == {
        "base": {"x": 1, "v": {"z": 2}},
        "one": {"x": 3, "v": {"z": 2}},
        "two": {"x": 1, "v": {"z": 2}},
    }
    assert found["two"]["v"] is not found["base"]["v"]


def test_several_documents_and_lists_give_their_objects() -> None:
    text = "---\n---\nkind: A\n---\nkind: ThingList\nitems: [{kind: B}, {kind: C}]\n"
    assert [obj["kind"] for obj in read.load_yaml(text)] == ["A", "B", "C"]
    assert [
        obj["kind"] for obj in read.load_json('{"kind": "List", "items": [{"kind": "B"}]}')
    ] == ["B"]


def test_a_document_that_is_no_object_is_refused() -> None:
    with pytest.raises(read.InvalidObject, match=r"\[1\]: an object is expected"):
        read.load_yaml("a: 1\n---\njust text")


NOT_JSON_FOR_US = {
    "duplicate key": ('{"replicas":1,"replicas":100}', "replicas", "given twice"),
    "not a number": ('{"a":[{"b":NaN}]}', "a[0].b", "NaN"),
    "infinite": ('{"a":-Infinity}', "a", "-Infinity"),
    "too large a float": ('{"a":1e400}', "a", "too large"),
    "too large an integer": ('{"a":123456789012345678901234567890}', "a", "64 bits"),
    "ten thousand digits": ('{"a":' + "9" * 10_000 + "}", "a", "64 bits"),
    "lone surrogate": ('{"a":"\\ud800"}', "a", "surrogate"),
    "lone surrogate in a key": ('{"\\ud800":1}', "", "surrogate"),
    "deep": ('{"a":' * 70 + "1" + "}" * 70, ".".join("a" * 65), "deeper than 64"),
    "very deep": ("[" * 100_000, "", "deeper than 64"),
    "not UTF-8": (b'{"a":"\xff"}', "", "UTF-8"),
    "cut off": ('{"a":1', "", "not JSON"),
}


@pytest.mark.parametrize(("text", "path", "message"), NOT_JSON_FOR_US.values(), ids=NOT_JSON_FOR_US)
def test_hostile_json_is_refused_with_the_path_of_the_field(
    text: str | bytes, path: str, message: str
) -> None:
    with pytest.raises(read.InvalidObject) as caught:
        read.load_json(text)
    (error,) = caught.value.errors
    assert (error.path, message in error.message) == (path, True)


def test_a_surrogate_pair_is_one_character() -> None:
    assert decoding.from_json('"\\ud83d\\ude00"') == "\U0001f600"


MISTAKES = {
    "text for a number": (service(replicas="3"), "spec.replicas", "not the text '3'"),
    "boolean for a number": (service(replicas=True), "spec.replicas", "not true"),
    "not a number": (service(replicas=float("nan")), "spec.replicas", "integer"),
    "float": (service(replicas=1.5), "spec.replicas", "not the number 1.5"),
    "negative": (service(replicas=-1), "spec.replicas", "at least 0, not -1"),
    "misspelt field": (service(replica=1), "spec.replica", "did you mean 'replicas'?"),
    "unknown tier": (service(tier="Gold"), "spec.tier", "Reserved, OnDemand, Preemptible"),
    "priority beyond 32 bits": (service(priority=2**31), "spec.priority", "at most 2147483647"),
    "no template": ({**service(), "spec": {}}, "spec.template", "is required"),
    "no containers": (
        service(template={"spec": {}}),
        "spec.template.spec.containers",
        "is required",
    ),
    "misspelt container field": (
        service(template={"spec": {"containers": [{"name": "a", "imag": "b"}]}}),
        "spec.template.spec.containers[0].imag",
        "did you mean 'image'?",
    ),
    "bad quantity": (
        service(
            template={
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1x"}}}]}
            }
        ),
        "spec.template.spec.containers[0].resources.requests.cpu",
        "'1x' is not a quantity",
    ),
    "quantity as a float": (
        service(
            template={
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 0.5}}}]}
            }
        ),
        "spec.template.spec.containers[0].resources.requests.cpu",
        "put it in quotes",
    ),
    "two containers of one name": (
        service(template={"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
        "spec.template.spec.containers[1]",
        "repeats spec.template.spec.containers[0]",
    ),
    "door without a port": (
        service(loadBalancers=[{"port": 80}]),
        "spec",
        "must be one of service.ports",
    ),
    "port twice": (
        service(service={"ports": [{"port": 80}, {"port": 80}]}),
        "spec.service.ports[1]",
        "repeats",
    ),
    "file name": (service(config={"a/b": "x"}), "spec.config.a/b", "file name"),
    "reference and fields": (
        service(placement={"policyRef": "a", "partial": "Allow"}),
        "spec.placement",
        "exclude each other",
    ),
    "misspelt strategy": (
        service(placement={"division": {"strategy": "Capacty"}}),
        "spec.placement.division.strategy",
        "did you mean 'Capacity'?",
    ),
    "minimum above maximum": (
        service(placement={"division": {"minPerCluster": 3, "maxPerCluster": 1}}),
        "spec.placement.division",
        "minPerCluster",
    ),
    "toleration of nothing": (
        service(placement={"tolerations": [{"operator": "Equal"}]}),
        "spec.placement.tolerations[0]",
        "Exists",
    ),
    "values for Exists": (
        service(
            placement={
                "clusters": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
            }
        ),
        "spec.placement.clusters.selector.matchExpressions[0]",
        "values are needed",
    ),
    "unknown execution": (jobs(execution="Once"), "spec.execution", "must be one of MayOverlap"),
    "no shards": (jobs(shards=0), "spec.shards", "at least 1"),
    "too many shards": (jobs(shards=100_001), "spec.shards", "at most 100000"),
    "unknown completion": (jobs(completion="Some"), "spec.completion", "must be one of All"),
    "half a percentage": (federation("MemberCluster", usable="90"), "spec.usable", "form"),
    "above all": (federation("MemberCluster", usable="101%"), "spec.usable", "form"),
    "negative limit": (
        federation("FederatedQuota", tiers={"Reserved": {"max": {"cpu": "-1"}}}),
        "spec.tiers.Reserved.max.cpu",
        "",
    ),
    "unknown tier of a quota": (
        federation("FederatedQuota", tiers={"reserved": {}}),
        "spec.tiers.reserved",
        "Reserved",
    ),
    "unknown kind in a policy": (
        federation("PlacementPolicy", workloads={"kinds": ["Pod"]}),
        "spec.workloads.kinds[0]",
        "",
    ),
    "cluster name": (federation("MemberCluster", "a.b"), "metadata.name", "lower-case"),
    "unknown metadata": (
        {**service(), "metadata": {"name": "web", "label": {}}},
        "metadata.label",
        "unknown field",
    ),
    "label value": (
        {**service(), "metadata": {"name": "web", "labels": {"a": "not ok"}}},
        "metadata.labels.a",
        "label value",
    ),
    "workload name too long": (
        {**service(), "metadata": {"name": "w" * 53}},
        "metadata.name",
        "at most 52",
    ),
    "workload name with a digit first": (
        {**service(), "metadata": {"name": "9w"}},
        "metadata.name",
        "lower-case",
    ),
    "no name": ({**service(), "metadata": {}}, "metadata.name", "is required"),
    "no kind": ({"apiVersion": "v1"}, "kind", "not a kind that is read here"),
    "another version": (
        {**service(), "apiVersion": "pinterest.com/v2"},
        "apiVersion",
        "pinterest.com/v1beta1",
    ),
    "a text": ("text", "", "an object is expected"),
    "deployment with a text": (
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": "1", "selector": {}, "template": TEMPLATE},
        },
        "spec.replicas",
        "not the text '1'",
    ),
}


@pytest.mark.parametrize(("obj", "path", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_the_path_of_the_field(
    obj: Any, path: str, message: str
) -> None:
    found = problems(obj)
    assert path in found
    assert message in found[path]


def test_every_mistake_is_reported_at_once_in_the_order_of_paths() -> None:
    found = problems(service(replicas=-1, tier="Gold", bogus=1))
    assert list(found) == ["spec.bogus", "spec.replicas", "spec.tier"]


def test_paths_begin_with_the_place_that_was_given() -> None:
    with pytest.raises(read.InvalidObject, match=r"web\.yaml\.spec\.replicas: must be at least 0"):
        read.load(service(replicas=-1), "web.yaml")


def test_a_good_object_gives_its_model() -> None:
    model = read.load(
        service(replicas=3, placement={"policyRef": "zonal"}, sidecars={"logs": {"level": "info"}})
    )
    assert isinstance(model, PinterestService)
    assert model.spec.replicas == 3
    assert model.spec.tier == "OnDemand"


def test_a_live_object_with_everything_a_server_adds_is_read() -> None:
    obj = service()
    obj["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [{"manager": "kubectl"}],
    }
    obj["spec"]["template"] = {"metadata": {"creationTimestamp": None}, **TEMPLATE}
    obj["status"] = {
        "ready": 3,
        "conditions": [{"type": "Ready", "status": "True", "reason": "AllReady", "message": ""}],
    }
    assert read.check(obj).kind == "PinterestService"


def test_a_null_stands_for_a_field_that_is_left_out() -> None:
    assert read.load(service(placement=None, iamRole=None)) is not None


def test_the_slice_block_is_for_the_federation_alone() -> None:
    marked = service(
        slice={"fleet": "f", "workloadUID": "u", "originGeneration": 1, "cluster": "c", "seq": 1}
    )
    read.check(marked)
    assert [error.path for error in read.host_problems(marked)] == ["spec.slice"]
    annotated = service()
    annotated["metadata"]["annotations"] = {"federation.pinterest.com/slice": "{}"}
    assert [error.path for error in read.host_problems(annotated)] == [
        "metadata.annotations.federation.pinterest.com/slice"
    ]
    assert read.host_problems(service()) == []
