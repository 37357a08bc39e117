"""What slices need in their member before they are written: their namespace and the copy of their
RuntimeProfile.

Many slices share one such object. If each of them tried to create it with a back-off of its own, a
thousand slices would send a thousand requests for one object every few seconds (F40). Here one at a
time tries an object, and after a failure none tries it again before the wait of that object ends.
"""

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable
from typing import Any

from federator.api import runtimeprofile
from federator.hub.cache import profile_versions
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.kinds import registry
from federator.kube import errors
from federator.kube.backoff import Backoff
from federator.model import names
from federator.model.kubernetes import pod_security
from federator.model.steps import Create, ObjectRef

BASE_S, CAP_S = 1.0, 30.0
"""First and longest wait after a failure, in seconds."""

Name = tuple[str, str, str]
"""Cluster, kind and name of an object."""


@dataclasses.dataclass(slots=True)
class _Attempts:
    """What was tried to create one object, until it is there."""

    backoff: Backoff
    one_at_a_time: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    error: errors.ApiError | None = None
    until_s: float = 0.0


class Prerequisites:
    """Creates them once per member; `Writes.existing` says which exist."""

    def __init__(
        self,
        state: HubState,
        keep: Callable[[str], Awaitable[None]],
        *,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`keep(name)` keeps the present version of a RuntimeProfile on the host; `now()`:
        monotonic time in seconds."""
        self.state = state
        self._keep = keep
        self._now = now
        self._rng = rng
        self._attempts: dict[Name, _Attempts] = {}

    def wait(
        self, member: Member, profile: tuple[str, str], namespace: str
    ) -> tuple[float, errors.ApiError] | None:
        """In how many seconds the member may be asked again for what a slice needs, and what it
        answered last; None for now. `namespace`: "" if the slice exists already."""
        for kind, name in (("RuntimeProfile", "-".join(profile)), ("Namespace", namespace)):
            tried = self._attempts.get((member.name, kind, name))
            if (kind, name) in member.writes.existing or tried is None or tried.error is None:
                continue
            if (wait_s := tried.until_s - self._now()) > 0:
                return wait_s, tried.error
        return None

    def forget(self, cluster: str) -> None:
        """Its connection is closed: the next one tries everything immediately."""
        for name in [name for name in self._attempts if name[0] == cluster]:
            del self._attempts[name]

    async def profile(self, member: Member, profile: tuple[str, str]) -> None:
        """Copies the pinned version of a RuntimeProfile to the member, once. Raises ApiErrors."""

        async def make() -> None:
            await self._keep(profile[0])
            body = profile_versions.version_copy(self.state, profile)
            if body is None:
                raise errors.Conflict(
                    f"version {profile[1]} of RuntimeProfile {profile[0]} is not known any more",
                    reason="Conflict",
                )
            ref = registry.KINDS["RuntimeProfile"].ref("", body["metadata"]["name"])
            await _created(member, Create(ref, body))

        if profile[0]:
            await self._once(member, "RuntimeProfile", "-".join(profile), make)

    async def profile_again(self, member: Member, profile: tuple[str, str]) -> None:
        """Restores the copy of a RuntimeProfile if it is gone. Raises ApiErrors."""
        assert member.link.client is not None
        ref = registry.KINDS["RuntimeProfile"].ref("", runtimeprofile.member_name(*profile))
        try:
            await member.link.client.get(ref)
        except errors.NotFound:
            member.writes.observe_missing("RuntimeProfile", "-".join(profile))
            await self.profile(member, profile)

    async def namespace(self, member: Member, namespace: str) -> None:
        """Creates the namespace unless it exists. Ours has a mark, the Pod Security level of the
        host's and the service accounts of its projects; an existing one is not changed
        (`tidying` keeps ours up to date). Raises ApiErrors."""
        client = member.link.client
        if client is None:
            return
        ref = ObjectRef("v1", "namespaces", "", namespace, "Namespace")
        level = self.state.spaces.get(namespace, pod_security.Enforced())
        labels = {names.FLEET_LABEL: self.state.options.fleet, **level.labels}
        metadata: dict[str, Any] = {"name": namespace, "labels": labels}
        if lists := self.state.bindings().account_lists(namespace):
            metadata["annotations"] = lists
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

        async def make() -> None:
            try:
                await client.get(ref)
            except errors.NotFound:
                await _created(member, Create(ref, body))

        await self._once(member, "Namespace", namespace, make)

    async def _once(
        self,
        member: Member,
        kind: str,
        name: str,
        make: Callable[[], Awaitable[None]],
    ) -> None:
        """Makes one object while nobody else does. Raises the last error during its wait."""
        if (kind, name) in member.writes.existing:
            return
        fresh = _Attempts(Backoff(self._rng, base_s=BASE_S, cap_s=CAP_S, floor=0.5))
        tried = self._attempts.setdefault((member.name, kind, name), fresh)
        async with tried.one_at_a_time:
            if (kind, name) in member.writes.existing:
                return
            if tried.error is not None and self._now() < tried.until_s:
                raise tried.error.with_traceback(None)
            try:
                await make()
            except errors.ApiError as error:
                tried.error = error
                tried.until_s = self._now() + max(tried.backoff.next(), error.retry_after_s or 0.0)
                raise
            member.writes.observe_existing(kind, name)
            self._attempts.pop((member.name, kind, name), None)


async def _created(member: Member, step: Create) -> None:
    """Creates an object that somebody else may have created meanwhile."""
    if member.link.applier is None:
        raise errors.Unreachable(f"{member.name}: there is no connection")
    outcome = await member.link.applier.apply(step)
    if outcome.error is not None and not isinstance(outcome.error, errors.AlreadyExists):
        raise outcome.error
