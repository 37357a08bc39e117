"""Each enum value and both values of each boolean of a workload kind appear in a golden: what
changes in the native objects when one field of a full manifest has another value.

The fields come from the CRDs, so a new field fails here until its manifest below has a place for
it. Goldens are rewritten with FEDERATOR_WRITE_GOLDEN=1; the change is then read in the diff.
"""

import copy
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import crds, read, registry
from federator.model.decision import Share
from federator.model.errors import FieldError
from tests.unit.kinds.test_natives import expand, slice_of

HERE = Path(__file__).parent
TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}
RULES = [
    {"action": "FailShard", "onExitCodes": {"operator": "In", "values": [42]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
]
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
MOUNTED = {
    "spec": {
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ]
    }
}
JOBS = {
    "shards": 8,
    "failurePolicy": {"rules": RULES},
    "volumeClaimTemplates": [CLAIM],
    "template": MOUNTED,
}
BASES: dict[str, tuple[dict[str, Any], Share]] = {
    "PinterestService": (
        {
            "service": {"ports": [{"name": "http", "port": 80}]},
            "additionalServices": [{"name": "inner", "ports": [{"name": "grpc", "port": 81}]}],
            "loadBalancers": [{"port": 80, "host": "a.example"}],
            "autoscaling": {
                "min": 2,
                "max": 9,
                "metrics": [{"resource": "cpu", "averageUtilization": 60}],
            },
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "app",
                            "image": "app:1",
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        }
                    ]
                }
            },
        },
        Share("east", 4, 4, 9),
    ),
    "PinterestJobSet": (JOBS, Share("east", 8, 4, 9, ((0, 7),))),
    "PinterestNativeCronJob": ({"cron": {"schedule": "@hourly"}, **JOBS}, Share("east", 1, 1, 9)),
    "PinterestCronJob": (
        {"schedule": "@hourly", "jobTemplate": {"spec": JOBS}},
        Share("east", 1, 1, 9),
    ),
    "PinterestDaemon": (
        {"startupTaint": {"key": "infra.example/starting"}, "template": TEMPLATE},
        Share("east", 1, 1, 9, nodes=3),
    ),
    "PinterestTrainingJob": (
        {
            "checkpoint": {"storage": "1Gi", "mountPath": "/ckpt"},
            "components": [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 2}],
            "template": TEMPLATE,
        },
        Share("east", 1, 1, 9, ((0, 0),)),
    ),
    "PinterestStatefulSet": (
        {
            "replicas": 3,
            "service": {"ports": [{"name": "sql", "port": 5432}]},
            "volumeClaimTemplates": [CLAIM],
            "template": MOUNTED,
        },
        Share("east", 3, 3, 9, ((0, 2),)),
    ),
    "RuntimeProfile": (
        {
            "initContainers": [
                {
                    "name": "download",
                    "parameters": [{"name": "paths", "env": "PATHS"}],
                    "container": {"image": "download:1"},
                }
            ],
            "sidecars": [
                {
                    "name": "logs",
                    "parameters": [{"name": "level", "env": "LEVEL"}],
                    "container": {"image": "logs:1"},
                }
            ],
        },
        Share("east", 2, 2, 9),
    ),
}
"""Kind -> (a spec with an element of each list and each group of fields, its share)."""

SHARED = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    "lifetime": "Shard",
}
WITH: dict[tuple[str, object], Mapping[str, Any]] = {
    ("completion", "SuccessPolicy"): {"successPolicy": {"succeededCount": 3}},
    ("guard", True): {"execution": "Exclusive"},
    ("lifetime", "Shard"): {"volumeClaimTemplates": [SHARED]},
    ("retention", "Delete"): {"volumeClaimTemplates": [SHARED]},
    ("retention", "Retain"): {"volumeClaimTemplates": [SHARED]},
    ("owner", "Member"): {"autoscaling": {"min": 2, "max": 9}},
    ("runs", "Native"): {"concurrencyPolicy": "Forbid"},
}
"""(field, value) -> fields that such a value needs."""
WHOLE = 200
"""More changes than these are shown by the names of the objects: whole goldens show the rest."""
SKIPPED = (
    *("template", "placement", "slice"),
    *("container", "env", "volumes", "volumeMounts"),
)
"""Fields of pods, which are passed on as they are, of where the workload goes, and of the hub."""
REFUSED = {
    "PinterestNativeCronJob": {
        'execution: "Exclusive"',
        "guard: true",
        'volumeClaimTemplates[].lifetime: "Shard"',
        'volumeClaimTemplates[].retention: "Delete"',
        'volumeClaimTemplates[].retention: "Retain"',
    },
    "RuntimeProfile": {
        "initContainers[].parameters[].required: true",
        "sidecars[].parameters[].required: true",
    },
}
"""Values that the kind shares with others and refuses itself, or that ask for more."""


def leaves(
    schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """(path, values) of each enum and boolean; "[]" stands for an element of a list."""
    if path and path[-1] in SKIPPED:
        return
    if "enum" in schema:
        yield path, list(schema["enum"])
    elif schema.get("type") == "boolean":
        yield path, [False, True]
    for name, field in schema.get("properties", {}).items():
        yield from leaves(field, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from leaves(schema["items"], (*path, "[]"))


@cache
def schemas() -> dict[str, Mapping[str, Any]]:
    """Workload kind -> the schema of its spec."""
    return {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
            "properties"
        ]["spec"]
        for crd in crds.all_crds()
        if crd["spec"]["names"]["kind"]
        in (*registry.WORKLOADS, *registry.RECURRING, "RuntimeProfile")
    }


def put(spec: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Sets a field of the first element that has a place for it."""
    head, rest = path[0], path[1:]
    if not rest:
        spec[head] = value
        return
    below = spec[head]
    if rest[0] == "[]":
        rest = rest[1:]
        if not rest:
            spec[head] = [value]
            return
        below = next(one for one in below if len(rest) == 1 or rest[0] in one)
    put(below, rest, value)


def made(kind: str, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """What becomes of it: the native objects, or a cron job's run and what its clusters get."""
    share = BASES[kind][1]
    meta = {"name": "web", "namespace": "feed", "uid": "host-uid"}
    obj = {"apiVersion": "pinterest.com/v1beta1", "kind": kind, "metadata": meta, "spec": spec}
    if kind == "RuntimeProfile":
        given = {**obj, "metadata": {"name": "default"}}
        read.check(given)
        service = {**obj, "kind": "PinterestService", "spec": {"template": TEMPLATE}}
        return tuple(expand(slice_of(json.dumps(service), share), given))
    if kind == "PinterestCronJob":
        read.check(obj)
        verbs = registry.RECURRING[kind].recurring
        assert verbs is not None
        return verbs.render_run(obj, 1_790_000_040), verbs.render_native(obj, 0, False)
    return tuple(expand(slice_of(json.dumps(obj), share), None))


def flat(made_objects: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Path -> value of everything; list elements by name where they have one."""
    found: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Mapping) and value:
            for name, inner in value.items():
                walk(inner, f"{path}.{name}")
        elif isinstance(value, list | tuple) and value:
            for at, inner in enumerate(value):
                own = inner.get("name", at) if isinstance(inner, Mapping) else at
                walk(inner, f"{path}[{own}]")
        else:
            found[path] = value

    for obj in made_objects:
        walk(obj, f"{obj['kind']}/{obj['metadata']['name']}")
    return found


def changes(kind: str, path: tuple[str, ...], value: object) -> dict[str, str]:
    """Path -> "before -> after", by one field; {} for none, or why the value is refused."""
    base = copy.deepcopy(BASES[kind][0])
    other = copy.deepcopy(base)
    needed = WITH.get((path[-1], value), {})
    inner = other["jobTemplate"]["spec"] if path[:2] == ("jobTemplate", "spec") else other
    inner |= copy.deepcopy(dict(needed))
    put(other, path, value)
    before = flat(made(kind, base))
    try:
        after = flat(made(kind, other))
    except (read.InvalidObject, FieldError) as refused:
        return {"refused": str(refused)}
    if sum(before.get(name) != after.get(name) for name in before | after) > WHOLE:
        before, after = ({path.partition(".")[0]: "" for path in one} for one in (before, after))
    return {
        name: f"{_shown(before, name)} -> {_shown(after, name)}"
        for name in sorted(before.keys() | after.keys())
        if _shown(before, name) != _shown(after, name)
    }


def _shown(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "none"


@cache
def variants(kind: str) -> dict[str, dict[str, str]]:
    return {
        f"{'.'.join(path).replace('.[]', '[]')}: {json.dumps(value)}": changes(kind, path, value)
        for path, values in leaves(schemas()[kind], ())
        for value in values
    }


def test_every_kind_of_ours_has_its_variants() -> None:
    ours = {*registry.WORKLOADS, *registry.RECURRING, "RuntimeProfile"}
    assert set(BASES) == set(schemas()) == ours - {"Deployment"}


@pytest.mark.parametrize("kind", BASES)
def test_only_values_that_cannot_be_are_refused(kind: str) -> None:
    refused = {name for name, found in variants(kind).items() if "refused" in found}
    assert refused == REFUSED.get(kind, set())


@pytest.mark.parametrize("kind", BASES)
def test_each_value_of_an_enum_or_boolean_makes_what_the_golden_shows(kind: str) -> None:
    golden = HERE / "golden" / "variants" / f"{kind}.yaml"
    found = variants(kind)
    if os.environ.get("FEDERATOR_WRITE_GOLDEN") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(yaml.safe_dump(found, sort_keys=True, width=160), encoding="utf-8")
    assert yaml.safe_load(golden.read_text(encoding="utf-8")) == found
