"""Versions of workflows for the gateway: resolved, fetched, kept, checked, filled in.

A version name is asked for at the store each time, so that a moved tag is seen, and everything else
is kept by digest: in memory, then on disk. While a store cannot be reached, a version that it
served before stands for the digest that it had. Made once per process; close it on its loop.
"""

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from federator.api.submissionpolicy import Mode, Policy
from federator.gateway.artifacts import provenance, statements, workflows
from federator.gateway.artifacts.cache import Cache, Kept
from federator.gateway.artifacts.hosts import Hosts
from federator.gateway.artifacts.images import Images
from federator.gateway.artifacts.oci import OciStore
from federator.gateway.artifacts.ports import (
    Artifact,
    ArtifactRefused,
    ArtifactStore,
    Provenance,
    Reason,
    Rendered,
    Workflow,
    refused,
)
from federator.gateway.artifacts.registry import Registry
from federator.gateway.artifacts.repository import HttpStore
from federator.gateway.artifacts.secrets import HostSecrets, Secrets
from federator.kube import client as clients
from federator.model import sources
from federator.model.errors import FieldError
from federator.model.sources import Reference

log = logging.getLogger(__name__)

RESOLVE_S: Final = 30.0
"""Longest time to resolve a version or to pin the images of a submission, in seconds."""
FRESH_S: Final = 5.0
"""For so many seconds a version name is taken to stand for the digest that its store has named."""
SILENT_S: Final = 2.0
"""A store that could not be reached is not asked again for so many seconds."""
MEMORY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the files that are kept in memory, as they are and as they were read."""
SMALL_BYTES: Final = 4096
"""A workflow of no more bytes is filled in without a thread. It takes a fraction of a millisecond,
or some milliseconds with the longest parameters."""
SHOWN_MAX: Final = 4
"""Policies of which the outcome is kept with a version."""
_NAMES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class _Held:
    """A version in memory."""

    kept: Kept
    workflow: Workflow
    shown: list[tuple[Policy, Provenance]] = field(default_factory=list)
    """What its statements show under the last policies, where that is all that they ask for."""

    @property
    def size(self) -> int:
        return len(self.kept.fetched.file) + sum(map(len, self.kept.envelopes))


class Artifacts:
    """Implements `ports.Versions`."""

    def __init__(
        self,
        stores: Mapping[str, ArtifactStore],
        images: Images,
        cache: Cache,
        monotonic: Callable[[], float],
        hosts: Hosts | None = None,
    ) -> None:
        self._stores, self._images, self._cache = stores, images, cache
        self._monotonic, self._hosts = monotonic, hosts
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._fresh: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()
        """(source, version) -> (until when it is fresh, digest)."""
        self._silent: dict[str, float] = {}
        """Host -> until when it is not asked."""
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]
        self._turns = weakref.WeakValueDictionary()
        """One at a time resolves a version; the others find it resolved."""

    async def close(self) -> None:
        """Ends the connections to stores."""
        if self._hosts is not None:
            await self._hosts.close()

    def store(self, ref: Reference) -> ArtifactStore:
        """The store of a reference, for commands that write."""
        return self._stores[ref.scheme]

    async def resolve(
        self, source: str, version: str, namespace: str, policies: Sequence[Policy]
    ) -> Artifact:
        """See `ports.Versions`."""
        ref = _reference(source, version)
        allowing = [policy for policy in policies if policy.allows(ref)]
        if not allowing:
            message = f"no SubmissionPolicy that you may use allows the source {ref}"
            raise refused(Reason.SOURCE_NOT_ALLOWED, "artifact", message)
        try:
            async with asyncio.timeout(RESOLVE_S):
                turn = self._turns.setdefault((str(ref), version), asyncio.Lock())
                async with turn:
                    return await self._resolved(ref, version, namespace, allowing)
        except TimeoutError:
            message = f"{ref.host} has not served {version} within {RESOLVE_S:g} s"
            raise refused(Reason.STORE_UNREACHABLE, "artifact", message) from None

    async def render(
        self, artifact: Artifact, parameters: Mapping[str, Any], namespace: str
    ) -> Rendered:
        """See `ports.Versions`."""
        asked = artifact.workflow, parameters, namespace
        if artifact.small:
            objects, values = workflows.render(*asked)
        else:
            objects, values = await asyncio.to_thread(workflows.render, *asked)
        _check_projects(artifact.policy, objects, namespace)
        try:
            async with asyncio.timeout(RESOLVE_S):
                images = await self._images.pin(objects, artifact.policy)
        except TimeoutError:
            message = f"the registries of its images have not answered within {RESOLVE_S:g} s"
            raise refused(Reason.STORE_UNREACHABLE, "workflow.objects", message) from None
        return Rendered(objects, values, images)

    async def _resolved(
        self, ref: Reference, version: str, namespace: str, allowing: Sequence[Policy]
    ) -> Artifact:
        digest, cached = await self._digest(ref, version, allowing[0])
        held, new = await self._version(ref, version, digest, allowing[0])
        policy = _policy_for(held.workflow, namespace, allowing)
        try:
            shown = await _shown(held, policy)
            again = bool(shown.problems)
        except ArtifactRefused as problem:
            if new or cached or problem.reason is not Reason.PROVENANCE:
                raise
            again = True
        if again and not new and not cached:
            shown = await self._checked_again(ref, version, held, policy)
        _check_build(held.workflow, shown)
        small = len(held.kept.fetched.file) <= SMALL_BYTES
        return Artifact(ref, version, digest, held.workflow, policy, shown, cached, small)

    async def _digest(self, ref: Reference, version: str, policy: Policy) -> tuple[str, bool]:
        """The digest of a version, and whether it is the one last seen."""
        if sources.DIGEST.fullmatch(version):
            return version, False
        key, now = (str(ref), version), self._monotonic()
        until_s, digest = self._fresh.get(key, (0.0, ""))
        if now < until_s:
            return digest, False
        try:
            if now < self._silent.get(ref.host, 0.0):
                message = f"{ref.host} could not be reached a moment ago"
                raise refused(Reason.STORE_UNREACHABLE, "artifact", message)
            digest = await self.store(ref).digest_of(ref, version, policy)
        except ArtifactRefused as problem:
            if problem.reason is not Reason.STORE_UNREACHABLE:
                raise
            if now >= self._silent.get(ref.host, 0.0):
                self._silent[ref.host] = now + SILENT_S
            digest = await asyncio.to_thread(self._cache.digest, str(ref), version)
            if not digest:
                raise
            log.warning("%s is not reachable: %s stands for %s", ref, version, digest)
            return digest, True
        self._silent.pop(ref.host, None)
        self._fresh[key] = now + FRESH_S, digest
        while len(self._fresh) > _NAMES_MAX:
            self._fresh.popitem(last=False)
        return digest, False

    async def _version(
        self, ref: Reference, version: str, digest: str, policy: Policy
    ) -> tuple[_Held, bool]:
        """The version with this digest, and whether it was fetched just now."""
        key = str(ref), digest
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            return held, False
        kept = await asyncio.to_thread(self._cache.read, str(ref), digest)
        new = kept is None
        if kept is None:
            store = self.store(ref)
            fetched = await store.fetch(ref, version, digest, policy)
            kept = Kept(fetched, await store.envelopes(ref, version, digest, policy))
            await self._keep(ref, version, kept)
        file, properties = kept.fetched.file, kept.fetched.properties
        held = _Held(kept, await asyncio.to_thread(workflows.load, file, properties))
        self._hold(key, held)
        return held, new

    def _hold(self, key: tuple[str, str], held: _Held) -> None:
        self._held[key] = held
        size = sum(each.size for each in self._held.values())
        while size > MEMORY_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            size -= oldest.size

    async def _keep(self, ref: Reference, version: str, kept: Kept) -> None:
        try:
            await asyncio.to_thread(self._cache.keep, str(ref), (version,), kept)
        except OSError as trouble:
            log.warning("%s %s is not kept on disk: %s", ref, version, trouble)

    async def _checked_again(
        self, ref: Reference, version: str, held: _Held, policy: Policy
    ) -> Provenance:
        """Checks with the statements that the store has now: a review may have been signed after
        the version was first asked for."""
        digest = held.kept.fetched.digest
        store = self.store(ref)
        envelopes = await store.envelopes(ref, version, digest, policy)
        if envelopes != held.kept.envelopes:
            held = _Held(replace(held.kept, envelopes=envelopes), held.workflow)
            self._hold((str(ref), digest), held)
            await self._keep(ref, version, held.kept)
        return await _shown(held, policy)


async def _shown(held: _Held, policy: Policy) -> Provenance:
    """In a thread: signatures and JSON of sixteen statements take a tenth of a second. The outcome
    follows from the statements and the policy alone."""
    for known, shown in held.shown:
        if known == policy:
            return shown
    envelopes, digest = held.kept.envelopes, held.kept.fetched.digest
    shown = await asyncio.to_thread(provenance.check, envelopes, digest, policy)
    if not shown.problems:
        held.shown[:] = [(policy, shown), *held.shown[: SHOWN_MAX - 1]]
    return shown


def _reference(source: str, version: str) -> Reference:
    try:
        ref = sources.reference(source, "artifact")
    except FieldError as error:
        raise refused(Reason.BAD_REFERENCE, error.path, error.message) from None
    if not sources.VERSION.fullmatch(version) and not sources.DIGEST.fullmatch(version):
        message = (
            f"{version[:80]!r} is not a version: letters, digits and _ . -, at most 128, or"
            " sha256:DIGEST"
        )
        raise refused(Reason.BAD_REFERENCE, "version", message)
    return ref


def _policy_for(workflow: Workflow, namespace: str, allowing: Sequence[Policy]) -> Policy:
    """The first policy with all projects of the objects."""
    projects = {workflows.project_of(obj, namespace) for obj in workflow.objects}
    for policy in allowing:
        if projects <= policy.projects:
            return policy
    _check_projects(allowing[0], workflow.objects, namespace)
    raise AssertionError  # a project is missing in the first policy too


def _check_projects(policy: Policy, objects: Sequence[Mapping[str, Any]], namespace: str) -> None:
    for index, obj in enumerate(objects):
        project = workflows.project_of(obj, namespace)
        if project not in policy.projects:
            message = (
                f"is of project {project[:80]!r}; the SubmissionPolicy {policy.name} that allows"
                f" this source is for {', '.join(sorted(policy.projects))}"
            )
            raise refused(Reason.SOURCE_NOT_ALLOWED, f"workflow.objects[{index}]", message)


def _check_build(workflow: Workflow, shown: Provenance) -> None:
    """Refuses a file that names another commit or branch than its signed provenance."""
    pairs = (
        ("commit", workflow.build.commit, shown.commit),
        ("branch", statements.branch_of(workflow.build.branch), shown.branch),
    )
    for name, said, signed in pairs:
        if shown.mode is Mode.ENFORCE and said and said != signed:
            message = f"is {said[:80]!r}; the signed provenance says {signed[:80]!r}"
            raise refused(Reason.PROVENANCE, f"workflow.build.{name}", message)


def of_host(
    client: clients.Client,
    namespace: str,
    folder: Path,
    monotonic: Callable[[], float],
    *,
    allow_loopback: bool = False,
) -> Artifacts:
    """For a gateway: credentials from Secrets of this namespace on the host, and the cache in a
    folder. Raises OSError when the folder cannot be used."""
    secrets = HostSecrets(client, namespace, monotonic)
    return over_network(secrets, folder, monotonic, allow_loopback=allow_loopback)


def over_network(
    secrets: Secrets,
    folder: Path,
    monotonic: Callable[[], float],
    *,
    allow_loopback: bool = False,
) -> Artifacts:
    """With the stores of the network. Raises OSError when the folder cannot be used."""
    hosts = Hosts(allow_loopback=allow_loopback)
    registry = Registry(hosts, secrets, monotonic)
    http = HttpStore(hosts, secrets)
    stores: dict[str, ArtifactStore] = {"oci": OciStore(registry), "https": http, "http": http}
    return Artifacts(stores, Images(registry, monotonic), Cache(folder), monotonic, hosts)
