"""`spec.runtime` of all kinds: what reaches the pods, what is refused, and what is a roll-out."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from federator.kinds import asks, edits, read, registry
from federator.kinds.natives import pod_templates
from federator.kinds.pods import podparts
from federator.kinds.pods.revisions import Revision
from federator.kinds.read import InvalidObject
from federator.model.errors import FieldError
from federator.model.kubernetes import diffs
from federator.model.policy import DEFAULT_POLICY
from federator.runtime.files import wanted
from tests.unit.kinds.test_natives import CASES, expand, profile, slice_of

DIGEST = "sha256:" + "a" * 64
SECRETS = [{"name": "ads/db", "path": "db"}, {"name": "ads/api#key", "path": "key", "mode": 256}]
CONFIG = [{"artifact": "oci://registry.example/ads/config", "digest": DIGEST, "path": "config"}]
VERSION = {"name": "1", "until": "2026-12-31T00:00:00Z"}
ROLES = "identity,secrets,config"


def _profile(*arguments: str) -> dict[str, Any]:
    """The default profile without its init run, and its sidecar with these arguments."""
    made = profile()
    made["spec"]["initContainers"] = []
    (sidecar,) = made["spec"]["sidecars"]
    sidecar["container"]["args"] = list(arguments)
    return made


READS = _profile("runtime", f"--roles={ROLES}")


def _object(case: str, **runtime: Any) -> dict[str, Any]:
    (obj,) = read.load_yaml(CASES[case][0])
    obj["spec"]["runtime"] = runtime
    return obj


def _slice(case: str, **runtime: Any) -> dict[str, Any]:
    return slice_of(json.dumps(_object(case, **runtime)), CASES[case][1])


def _containers(made: tuple[dict[str, Any], ...]) -> Iterator[dict[str, Any]]:
    for obj in made:
        for template in pod_templates(obj):
            yield from template["spec"].get("initContainers", ())
            yield from template["spec"]["containers"]


@pytest.mark.parametrize("case", CASES)
def test_injected_containers_of_every_kind_get_both_lists_and_others_do_not(case: str) -> None:
    made = expand(_slice(case, secrets=SECRETS, config=CONFIG), READS)

    injected = {
        each["name"] for field in ("initContainers", "sidecars") for each in READS["spec"][field]
    }
    seen = set()
    for container in _containers(made):
        env = {each["name"]: each.get("value") for each in container.get("env", ())}
        if container["name"] not in injected:
            assert not {wanted.SECRETS, wanted.CONFIG} & set(env)
            continue
        seen.add(container["name"])
        files, trees = wanted.secrets(env[wanted.SECRETS]), wanted.config(env[wanted.CONFIG])
        assert [(each.name, each.value, each.path, each.mode) for each in files] == [
            ("ads/db", "", "db", 0o444),
            ("ads/api", "key", "key", 0o400),
        ]
        assert [(str(each.artifact), each.digest, each.path) for each in trees] == [
            (CONFIG[0]["artifact"], DIGEST, "config")
        ]
    assert "runtime" in seen


@pytest.mark.parametrize("case", CASES)
def test_a_workload_without_them_gets_the_same_pods_as_before(case: str) -> None:
    text, share, _ = CASES[case]
    bare = slice_of(text, share)

    assert expand(_slice(case), READS) == expand(bare, READS)
    assert expand(_slice(case, version=VERSION), READS) == expand(bare, READS)
    assert _slice(case, version=VERSION) == bare


def test_a_pin_is_no_roll_out_and_a_secret_is_one() -> None:
    plain = _object("service-plain")
    pinned = _object("service-plain", version=VERSION)
    named = _object("service-plain", version=VERSION, secrets=SECRETS)

    assert podparts.of(plain) == podparts.of(pinned)
    assert podparts.of(named)["runtime"] == {"secrets": SECRETS}


def test_an_undo_brings_secrets_back_and_leaves_the_pin() -> None:
    kind = registry.KINDS["PinterestService"]
    live = _object("service-plain", version=VERSION, config=CONFIG)
    former = _object("service-plain", secrets=SECRETS)
    chosen = Revision("", "", 1, podparts.of(former), ("", ""))

    undone = diffs.patched(live, edits.undone(kind, live, chosen))

    assert undone["spec"]["runtime"] == {"secrets": SECRETS, "version": VERSION}


@pytest.mark.parametrize("arguments", [(), ("runtime", "--roles", "identity,traffic")])
def test_secrets_that_no_container_reads_are_refused(arguments: tuple[str, ...]) -> None:
    verbs = registry.verbs_of("PinterestService")
    obj = _object("service-plain", secrets=SECRETS)

    with pytest.raises(FieldError) as refused:
        asks.ask(obj, verbs, DEFAULT_POLICY, _profile(*arguments))

    assert refused.value.path == "spec.runtime.secrets"
    assert "RuntimeProfile 'default' has no container that reads this" in refused.value.message
    with pytest.raises(FieldError):
        asks.ask(obj, verbs, DEFAULT_POLICY, None)
    for reads in (_profile("runtime", "--roles", ROLES), READS):
        asks.ask(obj, verbs, DEFAULT_POLICY, reads)


def test_they_cost_nothing() -> None:
    verbs = registry.verbs_of("PinterestService")
    bare = asks.ask(_object("service-plain"), verbs, DEFAULT_POLICY, READS)

    with_them = asks.ask(
        _object("service-plain", secrets=SECRETS, config=CONFIG), verbs, DEFAULT_POLICY, READS
    )

    assert with_them.shape == bare.shape


BAD: list[tuple[dict[str, Any], str]] = [
    ({"secrets": [{"name": "../x", "path": "a"}]}, "spec.runtime.secrets[0].name"),
    ({"secrets": [{"name": "a#", "path": "a"}]}, "spec.runtime.secrets[0].name"),
    ({"secrets": [{"name": "a", "path": "/etc/x"}]}, "spec.runtime.secrets[0].path"),
    ({"secrets": [{"name": "a", "path": "a/../b"}]}, "spec.runtime.secrets[0].path"),
    ({"secrets": [{"name": "a", "path": "a", "mode": 512}]}, "spec.runtime.secrets[0].mode"),
    ({"secrets": [{"name": "a"}]}, "spec.runtime.secrets[0].path"),
    ({"config": [{**CONFIG[0], "digest": "latest"}]}, "spec.runtime.config[0].digest"),
    (
        {"config": [{**CONFIG[0], "artifact": "http://x.example/y"}]},
        "spec.runtime.config[0].artifact",
    ),
    ({"version": {"name": "1", "until": "soon"}}, "spec.runtime.version.until"),
    ({"version": {"name": "1"}}, "spec.runtime.version.until"),
    ({"version": {"until": VERSION["until"]}}, "spec.runtime.version.name"),
    ({"other": 1}, "spec.runtime.other"),
]


@pytest.mark.parametrize(("runtime", "path"), BAD, ids=[path for _, path in BAD])
@pytest.mark.parametrize("case", ["service-plain", "training-tensorflow", "nativecron-plain"])
def test_what_is_wrong_is_refused_with_its_path(
    case: str, runtime: dict[str, Any], path: str
) -> None:
    obj = _object(case, **copy.deepcopy(runtime))

    with pytest.raises(InvalidObject) as refused:
        read.check(obj)

    assert path in {error.path for error in refused.value.errors}


def test_paths_that_overlap_are_refused_in_files_and_by_the_hub() -> None:
    both = [{"name": "a", "path": "x"}, {"name": "b", "path": "x/y"}]
    obj = _object("service-plain", secrets=both)

    with pytest.raises(InvalidObject, match=r"x/y is, or lies below, the path of secrets\[0\]"):
        read.check(obj)
    with pytest.raises(FieldError, match="is, or lies below, the path of entry 0"):
        asks.ask(obj, registry.verbs_of("PinterestService"), DEFAULT_POLICY, READS)
