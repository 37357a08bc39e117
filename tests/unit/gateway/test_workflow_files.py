"""Workflow files and parameters: what is read, what is refused, and that values stay values."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.gateway.artifacts import workflows
from federator.gateway.artifacts.ports import ArtifactRefused, Parameter, Reason
from tests.artifacts import made

ROOT = Path(__file__).parents[3]


def _changed(**fields: Any) -> bytes:
    return json.dumps({**yaml.safe_load(made.WORKFLOW), **fields}).encode()


def _refusal(file: bytes) -> str:
    with pytest.raises(ArtifactRefused) as refusal:
        workflows.load(file)
    assert refusal.value.reason is Reason.FILE_INVALID
    return str(refusal.value)


def test_defaults_and_given_values_are_filled_in_with_their_types() -> None:
    workflow = workflows.load(made.WORKFLOW)

    (obj,), values = workflows.render(workflow, {"replicas": 7, "model": "large"}, "ads")

    assert obj["spec"]["replicas"] == 7
    assert obj["spec"]["template"]["spec"]["containers"][0]["args"] == ["--model=large"]
    assert obj["metadata"] == {"name": "serving", "namespace": "ads"}
    assert values == {"replicas": 7, "model": "large"}
    assert workflows.render(workflow, {}, "ads")[1] == {"replicas": 10, "model": "base"}
    assert workflow.objects[0]["spec"]["replicas"] == "${parameters.replicas}"


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=40))
def test_no_text_becomes_a_field_a_list_or_another_reference(text: str) -> None:
    workflow = workflows.load(made.WORKFLOW)

    (obj,), _ = workflows.render(workflow, {"model": text}, "ads")

    assert obj["spec"]["template"]["spec"]["containers"][0]["args"] == [f"--model={text}"]


@pytest.mark.parametrize(
    "text",
    ["a\nreplicas: 500", "${parameters.replicas}", '", "--root', "{a: b}", "&x *x", "!!python/x"],
)
def test_texts_that_look_like_yaml_or_references_stay_texts(text: str) -> None:
    (obj,), _ = workflows.render(workflows.load(made.WORKFLOW), {"model": text}, "ads")

    assert obj["spec"]["template"]["spec"]["containers"][0]["args"] == [f"--model={text}"]
    assert obj["spec"]["replicas"] == 10


def test_an_escaped_reference_is_left_as_text() -> None:
    file = made.WORKFLOW.replace(b"--model=$", b"--model=$$")

    (obj,), _ = workflows.render(workflows.load(file), {}, "ads")

    arguments = obj["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments == ["--model=${parameters.model}"]


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        ({"replicas": 501}, "parameters.replicas: is 501, more than the maximum 500"),
        ({"replicas": 0}, "parameters.replicas: is 0, less than the minimum 1"),
        ({"replicas": "8x"}, "parameters.replicas: must be an integer"),
        ({"replicas": True}, "parameters.replicas: must be an integer"),
        ({"replicas": 1.5}, "parameters.replicas: must be an integer"),
        ({"replicas": [1]}, "parameters.replicas: must be an integer"),
        ({"replicas": "9" * 40}, "parameters.replicas: must be an integer"),
        ({"model": 7}, "parameters.model: must be a string"),
        ({"model": "x" * 41}, "parameters.model: has 41 characters, at most 40 are allowed"),
        ({"model": "a\x00b"}, "parameters.model: holds a control character"),
        ({"model": "a\u202eb"}, "parameters.model: holds a control character"),
        ({"modle": "x"}, "parameters.modle: is not declared"),
    ],
)
def test_values_outside_their_declaration_are_refused_with_the_path(
    given_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ArtifactRefused) as refusal:
        workflows.render(workflows.load(made.WORKFLOW), given_, "ads")

    assert str(refusal.value) == problem
    assert refusal.value.reason is Reason.PARAMETER_INVALID


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "-7", -7),
        ("number", "1.5e3", 1500.0),
        ("number", "2", 2),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("string", "true", "true"),
    ],
)
def test_command_lines_give_every_type_as_text(kind: str, text: str, value: object) -> None:
    found = workflows.values((Parameter("p", kind, max_length=9),), {"p": text})

    assert found == {"p": value}
    assert type(found["p"]) is type(value)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "0x10", "yes", "1_000", "", " 1", "True"])
@pytest.mark.parametrize("kind", ["integer", "number", "boolean"])
def test_texts_with_a_second_reading_are_no_numbers_and_no_booleans(kind: str, text: str) -> None:
    with pytest.raises(ArtifactRefused):
        workflows.values((Parameter("p", kind),), {"p": text})


def test_a_parameter_without_default_is_required_and_an_enum_names_its_values() -> None:
    declared = (
        Parameter("zone", "string", enum=("a", "b"), max_length=9),
        Parameter("n", "number"),
    )

    with pytest.raises(ArtifactRefused) as refusal:
        workflows.values(declared, {"zone": "c"})

    assert [str(each) for each in refusal.value.problems] == [
        "parameters.zone: must be one of a, b",
        "parameters.n: is required (a value of type number)",
    ]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (b"", "workflow: holds 0 documents; a workflow file holds one"),
        (b"a: 1\n---\nb: 2", "workflow: holds 2 documents; a workflow file holds one"),
        (b"\xff", "workflow: is not UTF-8 at byte 0"),
        (b"a: {", "not YAML"),
        (b"a: 1\na: 2", "workflow.a: line 2, column 1: is given twice"),
        (b"a: !!python/object:os.system x", "is not read here"),
        (b"[" * 70 + b"]" * 70, "is nested deeper than 64 levels"),
        (b" " * (1024 * 1024 + 1), "has 1048577 bytes; a workflow file has at most 1048576"),
        (_changed(kind="Job"), "workflow.kind: "),
        (_changed(extra=1), "workflow.extra: unknown field"),
        (_changed(objects=[]), "workflow.objects: "),
        (_changed(objects=[{"kind": "Secret"}]), "objects[0].kind: 'Secret' is not a kind that"),
        (_changed(objects=[{"kind": "SubmissionPolicy"}]), "is not a kind that is submitted"),
        (_changed(objects=[{"kind": "PinterestNativeCronJob"}]), "is not a kind that is submit"),
    ],
    ids=str,
)
def test_files_that_are_no_workflow_are_refused_in_a_sentence(file: bytes, problem: str) -> None:
    assert problem in _refusal(file)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert "its aliases multiply" in _refusal("\n".join(lines).encode())


def test_long_values_cannot_be_multiplied_by_many_references() -> None:
    many = ["${parameters.model}" * 200] * 200
    file = yaml.safe_load(made.WORKFLOW)
    file["parameters"][1]["maxLength"] = 4096
    file["objects"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = many
    workflow = workflows.load(json.dumps(file).encode())

    with pytest.raises(ArtifactRefused, match="have more than 4194304 characters of text"):
        workflows.render(workflow, {"model": "x" * 4000}, "ads")


def test_marks_that_look_like_ours_and_are_not_stay() -> None:
    file = yaml.safe_load(made.WORKFLOW)
    file["objects"][0]["metadata"] |= {
        "labels": {
            "federation.pinterest.com": "x",
            "notfederation.pinterest.com/a": "x",
            "app.kubernetes.io/name": "serving",
        },
        "annotations": {
            "federation.pinterest.com/converted-from": "Chart.yaml",
            "kubernetes.io/change-cause": "a larger model",
        },
    }
    workflow = workflows.load(json.dumps(file).encode())

    (obj,), _ = workflows.render(workflow, {}, "ads")
    assert obj["metadata"]["labels"] == file["objects"][0]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status": {}}, "workflow.objects[0].status: is written by the platform"),
        (
            {"metadata": {"name": "a", "namespace": "kube-system"}},
            "workflow.objects[0].metadata.namespace: a workflow sets only name, labels, annotations",
        ),
        (
            {"metadata": {"name": "a", "ownerReferences": []}},
            "workflow.objects[0].metadata.ownerReferences: a workflow sets only",
        ),
        (
            {"metadata": {"name": "a", "labels": {"federation.pinterest.com/fleet": "x"}}},
            "workflow.objects[0].metadata.labels[federation.pinterest.com/fleet]:"
            " labels and annotations of federation.pinterest.com are not for workflow files",
        ),
        (
            {"metadata": {"name": "a", "annotations": {"Federation.Pinterest.com/slice": "{}"}}},
            "workflow.objects[0].metadata.annotations[Federation.Pinterest.com/slice]: ",
        ),
        (
            {"metadata": {"name": "a", "annotations": {"x.federation.pinterest.com/y": "z"}}},
            "workflow.objects[0].metadata.annotations[x.federation.pinterest.com/y]: ",
        ),
        (
            {"metadata": {"name": "a", "labels": {"submission.pinterest.com/id": "0" * 20}}},
            "workflow.objects[0].metadata.labels[submission.pinterest.com/id]: ",
        ),
        (
            {"metadata": {"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "x"}}},
            "workflow.objects[0].metadata.labels[pod-security.kubernetes.io/enforce]: ",
        ),
        (
            {"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "x"}}},
            "workflow.objects[0].metadata.labels[kubernetes.io/metadata.name]: ",
        ),
        (
            {"spec": {"template": {"metadata": {"labels": {"federation.pinterest.com/a": ""}}}}},
            "workflow.objects[0].spec.template.metadata.labels[federation.pinterest.com/a]: ",
        ),
        (
            {"spec": {"claims": [{"metadata": {"labels": {"federation.pinterest.com/a": ""}}}]}},
            "workflow.objects[0].spec.claims[0].metadata.labels[federation.pinterest.com/a]: ",
        ),
        (
            {"spec": {"${parameters.model}": 1}},
            "workflow.objects[0].spec: parameters are filled into values, not into names of fields",
        ),
        (
            {"spec": {"replicas": "${parameters.nothing}"}},
            "workflow.objects[0].spec.replicas: refers to a parameter that is not declared",
        ),
    ],
)
def test_objects_that_no_parameters_mend_are_refused_when_the_file_is_read(
    change: dict[str, Any], problem: str
) -> None:
    obj = {**yaml.safe_load(made.WORKFLOW)["objects"][0], **change}

    assert problem in _refusal(_changed(objects=[obj]))


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("default", 501, "is 501, more than the maximum 500"),
        ("enum", [0], "is 0, less than the minimum 1"),
        ("default", "x", "must be an integer"),
        ("maximum", 0, "minimum is greater than maximum"),
        ("type", "string", "minimum and maximum are for integer and number"),
        ("name", "model", "parameter model is declared twice"),
        ("name", "a b", "parameters[0].name: "),
    ],
)
def test_declarations_that_contradict_themselves_are_refused(
    field: str, value: object, problem: str
) -> None:
    parameters = yaml.safe_load(made.WORKFLOW)["parameters"]
    parameters[0][field] = value

    assert problem in _refusal(_changed(parameters=parameters))


def test_rendered_objects_are_checked_by_the_schema_of_their_kind() -> None:
    file = made.WORKFLOW.replace(b"project: ads", b"project: ads\n    shards: 3")

    with pytest.raises(ArtifactRefused) as refusal:
        workflows.render(workflows.load(file), {}, "ads")

    assert str(refusal.value) == "workflow.objects[0].spec.shards: unknown field"


def test_what_the_file_says_of_its_build_stands_before_the_properties_of_the_store() -> None:
    file = _changed(build={"commit": "abc"})

    build = workflows.load(file, {"commit": "def", "version": "42"}).build

    assert (build.commit, build.version, build.branch) == ("abc", "42", "")


def test_the_project_is_that_of_the_kind_or_the_namespace() -> None:
    (obj,) = workflows.load(made.WORKFLOW).objects
    cron = {"kind": "PinterestCronJob", "spec": {"jobTemplate": {"spec": {"project": "feed"}}}}

    assert workflows.project_of(obj, "elsewhere") == "ads"
    assert workflows.project_of(cron, "elsewhere") == "feed"
    assert workflows.project_of({"kind": "PinterestJobSet"}, "elsewhere") == "elsewhere"
