"""Versions for the gateway, with a store in memory: policies, provenance, caches, images."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts.artifacts import FRESH_S, SILENT_S, SMALL_BYTES, Artifacts
from federator.gateway.artifacts.cache import Cache
from federator.gateway.artifacts.images import Images
from federator.gateway.artifacts.ports import (
    Artifact,
    ArtifactRefused,
    ArtifactStore,
    Build,
    Reason,
)
from federator.model import sources
from tests.artifacts import made
from tests.artifacts.embedded import EmbeddedStore

SOURCE = "oci://registry.example/ads/serving"
REF = sources.reference(SOURCE)


class Store:
    """A store in memory with one signed version, and the gateway's view of it."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 1000.0
        self.folder = folder
        self.embedded = EmbeddedStore()
        self.asked: list[str] = []
        self.artifacts = self.restarted()

    def restarted(self) -> Artifacts:
        """As a new process has it: nothing in memory."""

        def monotonic() -> float:
            return self.now_s

        images = Images(None, monotonic)
        stores = {"oci": cast(ArtifactStore, self)}
        self.artifacts = Artifacts(stores, images, Cache(self.folder), monotonic)
        return self.artifacts

    async def put(self, version: str = "v1", file: bytes = made.WORKFLOW, **build: str) -> str:
        return await self.embedded.push(REF, version, file, Build(**build), made.policy())

    async def attach(self, digest: str, *envelopes: bytes) -> None:
        for envelope in envelopes:
            await self.embedded.attach(REF, "", digest, envelope, made.policy())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.asked.append(name)
        found: Callable[..., Any] = getattr(self.embedded, name)
        return found

    async def resolve(
        self, version: str = "v1", *policies: Policy, source: str = SOURCE
    ) -> Artifact:
        allowed = policies or (made.policy(),)
        return await self.artifacts.resolve(source, version, "ads", allowed)

    async def refusal(
        self, version: str = "v1", *policies: Policy, **changes: str
    ) -> ArtifactRefused:
        with pytest.raises(ArtifactRefused) as refusal:
            await self.resolve(version, *policies, **changes)
        return refusal.value


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


async def _signed(store: Store) -> str:
    digest = await store.put()
    await store.attach(digest, *made.good(digest))
    return digest


async def test_a_signed_version_is_pinned_and_rendered(store: Store) -> None:
    digest = await _signed(store)

    artifact = await store.resolve()
    rendered = await store.artifacts.render(artifact, {"replicas": 3}, "ads")

    assert (artifact.digest, artifact.version, artifact.cached) == (digest, "v1", False)
    assert (artifact.provenance.verified, artifact.policy.name) == (True, "ads")
    assert rendered.objects[0]["spec"]["replicas"] == 3
    assert list(rendered.images) == list(rendered.images.values())


async def test_a_large_file_is_filled_in_like_a_small_one(store: Store) -> None:
    small = await store.resolve(await _signed(store))
    digest = await store.put("v2", made.WORKFLOW + b"\n# " + b"x" * SMALL_BYTES + b"\n")
    await store.attach(digest, *made.good(digest))
    large = await store.resolve("v2")

    assert (small.small, large.small) == (True, False)
    filled = [await store.artifacts.render(each, {"replicas": 3}, "ads") for each in (small, large)]
    assert filled[0].objects == filled[1].objects


@pytest.mark.parametrize(
    ("source", "version", "reason", "path"),
    [
        ("oci://registry.example/feed/x", "v1", Reason.SOURCE_NOT_ALLOWED, "artifact"),
        ("oci://10.0.0.1/ads/serving", "v1", Reason.SOURCE_NOT_ALLOWED, "artifact"),
        ("oci://registry.example/ads/../x", "v1", Reason.BAD_REFERENCE, "artifact"),
        (SOURCE, "../v1", Reason.BAD_REFERENCE, "version"),
        (SOURCE, "sha256:abc", Reason.BAD_REFERENCE, "version"),
        (SOURCE, "v9", Reason.NOT_FOUND, "version"),
        (SOURCE, f"sha256:{'0' * 64}", Reason.NOT_FOUND, "version"),
    ],
)
async def test_references_that_are_not_served_are_refused_before_anything_is_kept(
    store: Store, source: str, version: str, reason: Reason, path: str
) -> None:
    refusal = await store.refusal(version, source=source)

    assert (refusal.reason, refusal.problems[0].path) == (reason, path)
    assert Cache(store.folder).size == 0


async def test_a_version_by_digest_is_asked_for_once(store: Store) -> None:
    digest = await _signed(store)
    await store.resolve(digest)
    asked = list(store.asked)

    for _ in range(3):
        assert (await store.resolve(digest)).digest == digest
    store.restarted()
    assert (await store.resolve(digest)).digest == digest

    assert asked == ["fetch", "envelopes"]
    assert store.asked == asked


async def test_submissions_at_once_fetch_a_version_once(store: Store) -> None:
    await _signed(store)

    await asyncio.gather(*(store.resolve() for _ in range(20)))

    assert store.asked == ["digest_of", "fetch", "envelopes"]


async def test_a_moved_tag_is_seen_after_the_time_for_which_names_are_fresh(store: Store) -> None:
    first = await _signed(store)
    await store.resolve()
    second = await store.put(file=made.WORKFLOW + b"\n")
    await store.attach(second, *made.good(second))

    assert (await store.resolve()).digest == first
    store.now_s += FRESH_S
    assert (await store.resolve()).digest == second


async def test_a_version_that_was_served_before_is_accepted_while_the_store_is_away(
    store: Store,
) -> None:
    digest = await _signed(store)
    await store.resolve()
    await store.put("v2")
    store.embedded.reachable = False
    store.restarted()

    kept = await store.resolve()
    other = await store.refusal("v2")

    assert (kept.digest, kept.cached, kept.provenance.verified) == (digest, True, True)
    assert (other.reason, other.reason.status) == (Reason.STORE_UNREACHABLE, 503)
    asked = len(store.asked)
    await store.refusal("v3")
    assert len(store.asked) == asked  # it is not asked again for a moment
    store.embedded.reachable = True
    store.now_s += SILENT_S
    assert not (await store.resolve()).cached


async def test_a_review_that_was_signed_later_is_found(store: Store) -> None:
    digest = await store.put()
    built, reviewed = made.good(digest)
    await store.attach(digest, built)
    assert "no signed review" in str(await store.refusal())

    await store.attach(digest, reviewed)

    assert (await store.resolve()).provenance.verified


async def test_signatures_are_checked_once_for_each_policy(store: Store) -> None:
    await _signed(store)
    policies = [made.policy(), made.policy(name="other")]

    shown = [(await store.resolve("v1", each)).provenance for each in policies * 3]

    assert all(each.verified for each in shown)
    assert len({id(each) for each in shown}) == len(policies)


async def test_a_policy_that_stops_trusting_a_key_counts_from_the_next_submission(
    store: Store,
) -> None:
    await _signed(store)
    await store.resolve()
    other = made.policy(
        provenance={"keys": [{"name": "new", "publicKey": made.key("ed25519", 1)[1]}]}
    )

    assert (await store.refusal("v1", other)).reason is Reason.PROVENANCE


async def test_the_policy_of_the_projects_is_chosen_among_those_that_allow_the_source(
    store: Store,
) -> None:
    await _signed(store)
    feed, ads = made.policy(name="feed", projects=["feed"]), made.policy()

    assert (await store.resolve("v1", feed, ads)).policy.name == "ads"
    refusal = await store.refusal("v1", feed)
    assert refusal.reason is Reason.SOURCE_NOT_ALLOWED
    assert "is of project 'ads'; the SubmissionPolicy feed" in str(refusal)


async def test_a_project_from_a_parameter_is_refused(store: Store) -> None:
    file = made.WORKFLOW.replace(b"project: ads", b'project: "${parameters.model}"')
    await store.put(file=file)

    refusal = await store.refusal("v1", made.policy(provenance=made.OFF))

    assert refusal.reason is Reason.SOURCE_NOT_ALLOWED


@pytest.mark.parametrize(("name", "value"), [("commit", made.OTHER_COMMIT), ("branch", "ana")])
async def test_a_file_that_names_another_build_than_its_provenance_is_refused(
    store: Store, name: str, value: str
) -> None:
    file = json.dumps({**yaml.safe_load(made.WORKFLOW), "build": {name: value}}).encode()
    digest = await store.put(file=file)
    await store.attach(digest, *made.good(digest))

    refusal = await store.refusal()

    assert refusal.reason is Reason.PROVENANCE
    assert refusal.problems[0].path == f"workflow.build.{name}"


async def test_a_full_disk_refuses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    await _signed(store)
    monkeypatch.setattr("os.replace", full)

    assert (await store.resolve()).provenance.verified


async def test_tags_of_images_at_hosts_that_no_policy_names_are_refused_with_the_fix(
    store: Store,
) -> None:
    file = made.WORKFLOW.replace(
        b"registry.example/ads/app@sha256:" + b"1" * 64, b"evil.example/x:1"
    )
    await store.put(file=file)
    artifact = await store.resolve("v1", made.policy(provenance=made.OFF))

    with pytest.raises(ArtifactRefused) as refusal:
        await store.artifacts.render(artifact, {}, "ads")

    (problem,) = refusal.value.problems
    assert problem.reason is Reason.IMAGE
    assert problem.path == "workflow.objects[0].spec.template.spec.containers[0].image"
    assert "name evil.example in spec.registries of the SubmissionPolicy ads" in problem.message
