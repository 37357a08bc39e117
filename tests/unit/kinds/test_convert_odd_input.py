"""Whatever is put into a manifest, converting ends with every object accounted for or with the
field that is wrong.
"""

import copy
import random
from typing import Any

import pytest

from federator.convert import convert
from federator.convert.drafts import BadInput
from tests.unit.kinds.conversions import (
    deployment,
    ingress,
    job,
    jobset,
    native,
    replicated_job,
    service,
)

ODD: list[Any] = [
    None,
    "",
    "x",
    0,
    -1,
    1.5,
    True,
    [],
    {},
    [1],
    ["x"],
    {"x": "y"},
    [{}],
    [None],
    {"name": 3},
    2**70,
]


def manifests() -> list[dict[str, Any]]:
    pod = {
        "serviceAccountName": "robot",
        "volumes": [{"name": "c", "configMap": {"name": "c"}}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    container = {
        "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 8080}],
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        "resources": {"requests": {"cpu": 0.5}},
    }
    return [
        deployment("web-v1", labels={"app": "web"}, pod=pod, container=container, replicas=3),
        service(),
        service("out", type="LoadBalancer"),
        ingress(),
        native("ConfigMap", "c", data={"a": "1"}),
        native("ServiceAccount", "robot"),
        job(completions=4, parallelism=2, completionMode="Indexed", script="run"),
        jobset(replicated_job(script="run"), network={"enableDNSHostnames": False}),
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [found for key, entry in inner for found in ((*path, key), *places(entry, (*path, key)))]


def spoilt(objs: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    objs = copy.deepcopy(objs)
    for _ in range(rng.choice((1, 1, 2, 5))):
        path = rng.choice([path for path in places(objs) if len(path) > 1])
        holder: Any = objs
        for key in path[:-1]:
            holder = holder[key]
        if rng.random() < 0.2 and isinstance(holder, dict):
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(rng.choice(ODD))
    return objs


@pytest.mark.parametrize("seed", range(40))
def test_odd_input_is_accounted_for_or_refused_with_its_field(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        objs = spoilt(manifests(), rng)
        before = copy.deepcopy(objs)
        problems, accounts = outcome(objs)
        assert bool(problems) != bool(accounts)
        assert len(accounts) in (0, len(objs))
        assert objs == before, "the input was changed"


def outcome(objs: list[dict[str, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(fields that are wrong, accounts): one of both is empty."""
    try:
        return (), convert.convert([("f.yaml", obj) for obj in objs]).accounts
    except BadInput as bad:
        return bad.errors, ()
