"""The credentials of one connection to a member: read from the Secret that its MemberCluster names,
and read again when they may have changed.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from federator.api import raw
from federator.hub.members.member import Member
from federator.hub.options import HubOptions
from federator.kube import client as clients
from federator.kube import errors, tokens
from federator.kube.clock import Clock
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import MemberAccess
from federator.kube.wire.transport import TakesToken, Transport
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

TAKEN_WITHIN_S = 60.0
"""So many seconds after a token is due, a hub that does not lead checks whether the leader renewed
it."""


class Reread(StrEnum):
    """What reading the Secret again has shown."""

    SAME = "Same"
    TOKEN = "Token"
    """Another token, which the transport uses from now on: open connections stay open."""
    OTHER = "Other"
    """Other credentials, which need a new connection."""


class HostSilent(Exception):
    """The host did not answer when a member's credentials were read. This never counts against a
    member."""


class Credentials:
    """What the present connection to a member was made from."""

    def __init__(
        self, member: Member, host: clients.Client, options: HubOptions, clock: Clock
    ) -> None:
        self.member, self.host = member, host
        self.options, self.clock = options, clock
        self._named = ""
        """The credentials fields of the MemberCluster when they were read."""
        self._secret: object = None
        """The data of the Secret."""
        self._reread_s = float("inf")
        """Wall-clock time at which the Secret is read again although nothing is wrong."""

    @property
    def named_still(self) -> bool:
        """Whether the MemberCluster still names them."""
        return _named(self.member) == self._named

    @property
    def due(self) -> bool:
        """Whether the Secret is to be read again although nothing is wrong."""
        return self.member.link.reread.is_set() or self.clock.now() >= self._reread_s

    async def read(self) -> Mapping[str, Any]:
        """The Secret for a new connection; raises what `_fetched` raises."""
        self._named = _named(self.member)
        secret = await self._fetched()
        self._note(secret)
        return secret

    async def _fetched(self) -> Mapping[str, Any]:
        """The Secret that the member's spec names; empty when it names none.

        Raises ValueError when it does not exist, ApiErrors when the host refuses it, and
        `HostSilent` when the host does not answer: then nothing was learnt about the member.
        """
        name = secret_name(self.member)
        if not name:
            return {}
        namespace = self.options.credentials_namespace
        ref = ObjectRef("v1", "secrets", namespace, name, "Secret")
        try:
            return await self.host.get(ref, timeout_s=self.options.probe_timeout_s)
        except errors.NotFound:
            raise ValueError(
                f"the Secret {namespace}/{name} named in spec.credentials.secretRef does not exist"
            ) from None
        except errors.OwnShortage:
            raise
        except errors.Denied as refused:
            hint = f"`federator cluster grant {self.member.name}` on the host lets it"
            raise ValueError(
                f"the hub may not read the Secret {namespace}/{name}: {hint} ({refused})"
            ) from None
        except errors.ApiError as trouble:
            try:
                await self.host.ready(timeout_s=self.options.probe_timeout_s)
            except errors.ApiError:
                raise HostSilent(f"its credentials could not be read: {trouble}") from trouble
            raise

    def _note(self, secret: Mapping[str, Any]) -> None:
        """Records what the connection is made from, and until when that is valid."""
        self._secret = secret.get("data")
        access = _access(secret)
        self.member.link.observe_credentials(
            tokens.read(access.token) if access is not None else None,
            _ends_s(access.cert_pem) if access is not None and access.cert_pem else None,
        )
        self._reread_s = self._overdue_s()

    def _overdue_s(self) -> float:
        """Wall-clock time by which the leader, perhaps another process, must have renewed the
        token."""
        token = self.member.link.token
        if token is None or token.ends_s is None:
            return float("inf")
        age_s = self.options.token_renew_s + TAKEN_WITHIN_S
        return max(token.renewable_s(age_s), self.clock.now() + TAKEN_WITHIN_S)

    async def reread(self, transport: Transport) -> Reread:
        """Reads the Secret again. SAME also when it cannot be read now."""
        name = secret_name(self.member)
        if not name:
            return Reread.SAME
        try:
            ref = ObjectRef("v1", "secrets", self.options.credentials_namespace, name, "Secret")
            secret = await self.host.get(ref, timeout_s=self.options.probe_timeout_s)
        except errors.ApiError as trouble:
            log.debug("the credentials of %s cannot be read: %s", self.member.name, trouble)
            return Reread.SAME
        before, now = _access({"data": self._secret}), _access(secret)
        same = secret.get("data") == self._secret
        if not same and not _only_token(before, now, transport):
            return Reread.OTHER
        self._note(secret)
        return Reread.SAME if same else Reread.TOKEN


def _named(member: Member) -> str:
    """The credentials fields of its spec, for comparison."""
    return repr(raw.at(member.obj, "spec", "credentials"))


def secret_name(member: Member) -> str:
    """The Secret on the host that its spec names; "" for none."""
    return raw.text(member.obj, "spec", "credentials", "secretRef", "name")


def _access(secret: Mapping[str, Any]) -> MemberAccess | None:
    """The access data of a Secret, for comparison; None when it has no kubeconfig. Loopback
    addresses are refused later, when connecting."""
    try:
        return kubeconfigs.member_access(kubeconfigs.in_secret(secret, ""), allow_loopback=True)
    except ValueError:
        return None


def _only_token(
    before: MemberAccess | None, now: MemberAccess | None, transport: Transport
) -> bool:
    """Whether only the token differs, and the transport has accepted the new one."""
    if before is None or now is None or not now.token or replace(before, token=now.token) != now:
        return False
    return isinstance(transport, TakesToken) and transport.take_token(now.token)


def _ends_s(cert_pem: bytes) -> int | None:
    from federator.kube import selfsigned  # 8 MB, which members with tokens do not cost

    return selfsigned.ends_s(cert_pem)
