"""What each shard of a job set has of its own: sizes, names, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.kinds import read, registry
from federator.kinds.jobset import shardparts
from federator.model.errors import FieldError
from tests.unit.kinds.test_natives import CASES, expand, slice_of

RWM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
RWO = {**RWM, "accessModes": ["ReadWriteOnce"]}


def jobset(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestJobSet",
        "metadata": {"name": "own", "namespace": "ads"},
        "spec": {
            "shards": 4,
            "template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}},
            **spec,
        },
    }


def claims(**fields: Any) -> dict[str, Any]:
    claim = {"metadata": {"name": "data"}, "spec": RWM, "lifetime": "Shard", **fields}
    return jobset(volumeClaimTemplates=[claim])


def test_each_shard_finds_its_own_file_and_its_own_directory() -> None:
    made = expand(slice_of(*CASES["jobset-own-parts"][:2]), None)
    maps = {obj["metadata"]["name"]: obj["data"] for obj in made if obj["kind"] == "ConfigMap"}
    assert maps == {
        "own-4-5-shards": {
            "0.part.json": '{"shard": 4, "of": 20, "index": 0}',
            "1.part.json": '{"shard": 5, "of": 20, "index": 1}',
        },
        "own-9-9-shards": {"0.part.json": '{"shard": 9, "of": 20, "index": 0}'},
    }
    for job in (obj for obj in made if obj["kind"] == "Job"):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        mounts = {
            mount["mountPath"]: mount.get("subPathExpr") for mount in container["volumeMounts"]
        }
        assert mounts == {
            "/data": "$(SHARD_BASE)-$(JOB_COMPLETION_INDEX)",
            "/logs": "$(SHARD_BASE)-$(JOB_COMPLETION_INDEX)/logs",
            "/scratch": None,
            "/etc/pinterest/shard/part.json": "$(JOB_COMPLETION_INDEX).part.json",
        }
        assert not any("subPath" in mount for mount in container["volumeMounts"])


@given(
    st.dictionaries(
        st.sampled_from(["a.txt", "b"]),
        st.text(st.sampled_from("aé{}"), max_size=6).map(
            lambda text: text + "{shard}{count}" + text + "{index}"
        ),
        min_size=1,
    ),
    st.integers(0, 120),
    st.integers(0, 30),
)
def test_the_size_is_that_of_what_is_rendered(
    templates: dict[str, str], low: int, more: int
) -> None:
    obj = jobset(shardConfig=templates)
    piece = (low, low + more)
    (made,) = shardparts.files(obj, None, "jobset", "own-0", piece, 400)
    size = sum(len(key) + len(text.encode()) for key, text in made["data"].items())
    assert shardparts._size(templates, [piece], 400) == size


def test_more_than_the_bound_is_refused_with_its_size() -> None:
    obj = jobset(shards=100, shardConfig={"big": "x" * 6000 + "{shard}"})
    with pytest.raises(FieldError) as refused:
        shardparts.check_size(obj, ((0, 99),), 100)
    assert str(refused.value).startswith(
        "spec.shardConfig: rendered for the 100 shards of this cluster it has 600"
    )
    assert "at most 524288" in str(refused.value)
    shardparts.check_size(obj, ((0, 49),), 100)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (claims(spec=RWO), "ReadWriteMany"),
    (claims(lifetime=None, retention="Delete"), "retention is for lifetime Shard"),
    (claims(lifetime="Pod", retention="Retain"), "retention is for lifetime Shard"),
    (claims(retention="Keep"), "Delete, Retain"),
    (claims(lifetime="Node"), "Pod, Shard"),
    (jobset(shardConfig={"a/b": ""}), "file name"),
    (jobset(shardConfig={"a" * 241: ""}), "240"),
    (jobset(shardConfig={"a": "x" * 131073}), "131072"),
]


@pytest.mark.parametrize(("obj", "why"), REFUSED)
def test_what_cannot_be_kept_is_refused(obj: dict[str, Any], why: str) -> None:
    with pytest.raises(read.InvalidObject) as refused:
        read.check(obj)
    assert why in str(refused.value)


def test_an_object_that_is_there_already_is_refused_where_it_is_placed() -> None:
    problem = registry.verbs_of("PinterestJobSet").refusal(claims(spec=RWO))
    assert problem is not None
    assert problem.path == "spec.volumeClaimTemplates[0].spec.accessModes"
