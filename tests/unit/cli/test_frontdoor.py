"""The gateway of the demo: its rights, its repository, and the evidence about its workflow."""

import hashlib
from typing import Any

import pytest

from federator.api import submissionpolicy
from federator.cli.gateway.asking import Answer, verdict_lines
from federator.cli.running import demo, frontdoor
from federator.gateway.artifacts import provenance, workflows
from federator.gateway.artifacts.ports import ArtifactRefused
from federator.gateway.artifacts.registry import digest_of
from federator.kinds import read
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.sandbox import repository
from federator.sandbox.repository import Repository
from tests.unit.deploy import manifests

SOURCE = f"http://127.0.0.1:1/{frontdoor.WORKFLOWS}"


def _rules(objs: list[Any]) -> dict[str, Any]:
    return {
        f"{obj['kind']}/{obj['metadata'].get('namespace', '')}": obj["rules"]
        for obj in objs
        if obj["metadata"]["name"] == "federator-gateway" and "rules" in obj
    }


def test_the_demo_s_gateway_has_the_rights_of_deploy() -> None:
    deployed = _rules(
        list(manifests.load((manifests.DEPLOY / "gateway" / "account.yaml").read_text()))
    )
    # The demo's policies name no Secrets.
    del deployed["Role/federator-gateway"]

    assert _rules(read.load_yaml(demo.data("gateway.yaml"))) == deployed


def test_the_demo_s_policy_admits_the_reviewed_version_only() -> None:
    keys = {name: frontdoor._key() for name in ("build", "review")}
    workflow = demo.data("ranker.yaml").encode()
    files = frontdoor.stored(SOURCE, workflow, keys)
    obj = frontdoor.policy(SOURCE, keys)
    read.check(obj)
    policy = submissionpolicy.to_policy(obj)

    found = {}
    for version in ("v1", "v2"):
        folder = f"/{frontdoor.WORKFLOWS}/ranker/{version}"
        file = files[f"{folder}/workflow.yaml"]
        workflows.render(workflows.load(file), {}, "ads")
        signed = files[f"{folder}/workflow.yaml.intoto.jsonl"].splitlines()
        found[version] = signed, digest_of(file), policy

    assert provenance.check(*found["v1"]).reviewers == ("ben@example.com",)
    with pytest.raises(ArtifactRefused, match="no signed review"):
        provenance.check(*found["v2"])


async def _ask(store: Repository, method: str, path: str, body: bytes = b"") -> Outgoing:
    async def read_body(most: int) -> bytes:
        if len(body) > most:
            raise BodyRefused("too long")
        return body

    headers = {"x-checksum-sha256": hashlib.sha256(body[:1000]).hexdigest()}
    return await store.answer(
        Incoming(method, path, has_body=bool(body), read_body=read_body, headers=headers)
    )


async def test_the_repository_gives_back_what_was_stored_with_its_checksum() -> None:
    store = Repository()
    assert (await _ask(store, "PUT", "/a/v1/workflow.yaml;vcs.branch=main", b"x")).status == 201
    for method in ("GET", "HEAD"):
        answer = await _ask(store, method, "/a/v1/workflow.yaml")
        assert (answer.status, answer.body) == (200, b"x")
        assert answer.headers[repository.CHECKSUM] == hashlib.sha256(b"x").hexdigest()


async def test_the_repository_is_bounded_and_refuses_wrong_checksums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repository, "FILES_MAX", 2)
    store = Repository()
    given = {
        ("GET", "/none", b""): 404,
        ("POST", "/a", b"x"): 405,
        ("PUT", "/a", b""): 400,
        ("PUT", "/b", b"x" * 1001): 409,
        ("PUT", "/c", b"x" * (repository.FILE_MAX + 1)): 413,
        ("PUT", "/d", b"x"): 201,
        ("PUT", "/e", b"x"): 201,
        ("PUT", "/f", b"x"): 507,
        ("PUT", "/d", b"y"): 201,
    }
    found = {asked: (await _ask(store, *asked)).status for asked in given}

    assert found == given
    assert store.files == {"/d": b"y", "/e": b"x"}


@pytest.mark.parametrize(
    ("status", "document", "again"),
    [
        (0, {}, True),
        (429, {"title": "TooManyRequests"}, True),
        (503, {"title": "StoreUnreachable"}, True),
        (502, {"detail": "of a proxy"}, True),
        (502, {"title": "StoreInvalid"}, False),
        (422, {"title": "WorkflowInvalid"}, False),
        (201, {"id": "x"}, False),
    ],
)
def test_a_request_is_repeated_only_when_that_may_help(
    status: int, document: dict[str, Any], again: bool
) -> None:
    assert Answer(status, document).passes is again


def test_a_verdict_shows_what_is_missing_and_no_command_on_an_object_that_is_not_stored() -> None:
    own = {
        "change": "replicas 9 -> 5",
        "commands": ["kubectl patch pinterestservice web -n ads ..."],
        "byOperator": False,
    }
    quota = {
        "change": "max.cpu 4 -> 9",
        "commands": ["kubectl patch federatedquota ads ..."],
        "byOperator": True,
    }
    base = {"kind": "PinterestService", "name": "web", "message": "4 are missing"}
    refused = {**base, "verdict": "refused", "fixes": [own, quota]}
    placed = {
        **base,
        "verdict": "placed",
        "desired": 9,
        "placed": 5,
        "missing": 4,
        "clusters": [{"name": "a", "copies": 5}],
    }

    assert verdict_lines({"workloads": [refused]}) == [
        "refused: PinterestService web",
        "  4 are missing",
        "  fix: replicas 9 -> 5",
        "  fix: max.cpu 4 -> 9 (by an operator)",
        "    kubectl patch federatedquota ads ...",
    ]
    assert verdict_lines({"workloads": [placed]}) == [
        "placed: PinterestService web: 5 of 9 copies: 5 in a",
        "  4 are missing",
    ]
