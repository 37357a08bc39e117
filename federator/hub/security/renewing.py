"""Renewing: the hub's token in each member is replaced long before it ends, by the hub itself
(TokenRequest).

The leader asks the member for another token of its own account with the one that it has, tries it,
and writes it into the member's Secret on the host; every hub's connection takes it from there and
stays open. A token that never ends, as earlier versions made them, is replaced at once where the
member lets the hub. A failure is told in the condition `CredentialsRenewed` of the MemberCluster,
while days are left.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from federator.hub.cache.router import MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.connecting.connection import Connect
from federator.hub.members.connecting.credentials import secret_name
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.kube import client as clients
from federator.kube import errors, tokens
from federator.kube.backoff import Backoff
from federator.kube.clock import stamp
from federator.kube.control.work_queue import WorkQueue
from federator.kube.login import kubeconfigs
from federator.kube.tokens import Token
from federator.model.steps import ObjectRef, RequeueAfter
from federator.status.conditions import FALSE, Condition

log = logging.getLogger(__name__)

KIND: Final = "CredentialsRenewed"
TOKEN_ENDS: Final = "federator_member_token_ends_timestamp_seconds"
CERTIFICATE_ENDS: Final = "federator_member_certificate_ends_timestamp_seconds"
LOOK_S: Final = 6 * 3600.0
"""How often a token is looked at before it is due: clocks are set, and settings change."""
LEAST_S: Final = 20.0
"""Between two tokens of one member, whatever it says of their lives."""
LASTING_S: Final = 3600.0
"""How often a member that keeps the hub to a token without end is asked again."""
AGAIN_S: Final = (10.0, 1800.0)
"""Between two tries after a failure: the first ceiling, doubled up to the last."""
TOLD_AFTER: Final = 2
"""Failures in a row that make the condition: one may be a blip."""
DEADLINE_S: Final = 30.0
"""For one renewal, all requests together."""


class Renewing(Controller):
    """Replaces tokens. Keys of its queue are members' names."""

    def __init__(self, tools: Tools, connect: Connect) -> None:
        super().__init__(tools)
        self.connect = connect
        self.queue: WorkQueue[str] = self.new_queue("credentials")
        self._failures: dict[str, Backoff] = {}
        self._not_before_s: dict[str, float] = {}
        """By member, on the monotonic clock: no try before."""
        self.state.signals.on_member(MemberTurn.RENEW, self.look)

    async def run(self) -> None:
        for member in self.state.members.values():
            self.look(member)
        await self.queue.run(self.turn, workers=4)

    def look(self, member: Member) -> None:
        """It was heard, or has another token."""
        self.queue.add(member.name)

    def forget(self, name: str) -> None:
        """A member has left."""
        self._failures.pop(name, None)
        self._not_before_s.pop(name, None)

    async def turn(self, name: str) -> RequeueAfter | None:
        """Replaces the token of one member if its time has come."""
        member = self.state.members.get(name)
        if member is None or member.link.client is None or member.duplicate_of:
            return None
        if member.link.reachability.state is not Reachability.LIVE:
            return None  # looked at again when it is heard
        token = member.link.token
        self._publish(name, token, member.link.certificate_ends_s)
        if token is None:
            return None  # a certificate, or a token of another kind: its maker renews it
        age_s = self.state.options.token_renew_s * self.rng.uniform(0.9, 1.0)
        wait_s = max(
            token.renewable_s(age_s) - self.clock.now(),
            self._not_before_s.get(name, 0.0) - self.clock.monotonic(),
        )
        if wait_s > 0:
            return RequeueAfter(name, min(wait_s, LOOK_S), "its token is young enough")
        return await self._replace(member, token)

    async def _replace(self, member: Member, token: Token) -> RequeueAfter | None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                fresh = await self._renewed(member, token)
        except errors.NotLeading:
            return None
        except errors.OwnShortage as ours:
            return RequeueAfter(member.name, AGAIN_S[0], str(ours))
        except (errors.ApiError, ValueError, TimeoutError) as trouble:
            return self._failed(member, token, trouble)
        log.info(
            "the hub's token in %s was renewed and ends at %s",
            member.name,
            stamp(fresh.ends_s or 0),
        )
        self._count("renewed")
        self._failures.pop(member.name, None)
        self._publish(member.name, fresh, None)
        self._tell(member, None)
        return self._pause(member.name, LEAST_S, "its token was renewed")

    async def _renewed(self, member: Member, token: Token) -> Token:
        """The new token, once it stands in the Secret. Raises ApiErrors and ValueError."""
        assert member.link.client is not None
        ref = ObjectRef(
            "v1", "secrets", self.state.options.credentials_namespace, secret_name(member), "Secret"
        )
        secret = await self.host.get(ref)
        access = kubeconfigs.member_access(
            kubeconfigs.in_secret(secret, member.name), allow_loopback=True
        )
        if (there := tokens.read(access.token)) is not None and there != token:
            member.link.reread_token()  # somebody was sooner
            return there
        lifetime_s = self.state.options.token_lifetime_s
        given = await tokens.request(member.link.client, token.namespace, token.name, lifetime_s)
        fresh = tokens.read(given)
        assert fresh is not None
        text = kubeconfigs.written(replace(access, token=given))
        data = {"kubeconfig": base64.b64encode(text.encode()).decode("ascii")}
        await self._prove(member, {**secret, "data": data})
        meta = {
            "uid": secret["metadata"]["uid"],
            "resourceVersion": secret["metadata"]["resourceVersion"],
        }
        try:
            await self.host.patch(ref, {"metadata": meta, "data": data})
        except errors.Denied as refused:
            hint = f"`federator cluster grant {member.name}` on the host lets it"
            raise ValueError(
                f"the hub may not write the Secret {ref.namespace}/{ref.name}: {hint} ({refused})"
            ) from None
        member.link.reread_token()
        return fresh

    async def _prove(self, member: Member, secret: Mapping[str, Any]) -> None:
        """Reaches the member with the new credentials: what is not accepted there is not
        written."""
        transport = await self.connect(member.obj, secret)
        try:
            uid = await clients.Client(transport, member.name).kube_system_uid()
        finally:
            await transport.close()
        if uid != member.link.uid:
            raise errors.Malformed(f"{member.name}: another cluster ({uid}) takes the new token")

    def _failed(self, member: Member, token: Token, trouble: Exception) -> RequeueAfter:
        if token.ends_s is None and isinstance(trouble, errors.Denied):
            log.info("%s lets the hub make no token that ends: %s", member.name, trouble)
            return self._pause(member.name, LASTING_S, "it keeps the token that it has")
        waits = self._failures.setdefault(
            member.name, Backoff(self.rng, base_s=AGAIN_S[0], cap_s=AGAIN_S[1], floor=0.5)
        )
        wait_s = waits.next()
        why = str(trouble) or f"no answer within {DEADLINE_S:g} s"
        log.warning(
            "the hub's token in %s could not be renewed (%d in a row): %s",
            member.name,
            waits.failures,
            why,
        )
        self._count("failed")
        if waits.failures >= TOLD_AFTER and token.ends_s is not None:
            ends = f"The hub's token there ends at {stamp(token.ends_s)} and could not be renewed"
            help_ = "; apply deploy/member there" if isinstance(trouble, errors.Denied) else ""
            self._tell(
                member,
                Condition(KIND, FALSE, "RenewalFailed", f"{ends}: {why.rstrip('.')}{help_}."),
            )
        return self._pause(member.name, wait_s, why)

    def _tell(self, member: Member, condition: Condition | None) -> None:
        if member.vitals.renewal != condition:
            member.vitals.observe_renewal(condition)
            self.state.signals.member_changed(MemberChanged.SAID, member)

    def _pause(self, name: str, wait_s: float, why: str) -> RequeueAfter:
        self._not_before_s[name] = self.clock.monotonic() + wait_s
        return RequeueAfter(name, wait_s, why)

    def _publish(self, name: str, token: Token | None, certificate_ends_s: int | None) -> None:
        metrics, token_ends_s = self.state.metrics, token.ends_s if token is not None else None
        if metrics is not None:
            metrics.child(TOKEN_ENDS, name).set(token_ends_s or 0)
            metrics.child(CERTIFICATE_ENDS, name).set(certificate_ends_s or 0)

    def _count(self, result: str) -> None:
        if self.state.metrics is not None:
            self.state.metrics.child("federator_token_renewals_total", result).inc()
