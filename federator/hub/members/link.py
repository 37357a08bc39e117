"""The connection to one member: its reachability, its identity, and the client and applier that
carry requests to it.

Its `Connection` writes all of it; other code only reads, or asks for the token to be read again.
It lives as long as its `Member`.
"""

import asyncio
from dataclasses import dataclass, field

from federator.hub.members import reachability
from federator.hub.members.reachability import ProbeResult, ReachabilityState
from federator.kube import client as clients
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane
from federator.kube.tokens import Token


@dataclass(slots=True)
class Link:
    """The connection to one member."""

    reachability: ReachabilityState = field(default_factory=ReachabilityState)
    reason: str = "NotProbed"
    """Reason of the reachability, in one word."""
    unasked: str = ""
    """Why its present state is unknown although nothing is known against it: this process has been
    short of a resource of its own for longer than the tolerated silence. "" otherwise."""
    probes: int = 0
    """Probes that have ended, with or without an answer."""
    token: Token | None = None
    """The claims of the token that we use there; None for a certificate or an opaque token."""
    certificate_ends_s: int | None = None
    """When the client certificate that we use there ends, in epoch seconds; None for a token."""
    reread: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its Secret has another token: the connection uses that from the next probe on."""
    uid: str = ""
    """Uid of its kube-system namespace, as this process read it."""
    version: str = ""
    apis: frozenset[str] = frozenset()
    """The workload kinds it serves, and the kinds that they can become there, as `Kind.group`."""
    client: clients.Client | None = None
    applier: Applier | None = None
    """Carries steps out through `client`; both are None without a connection."""
    other_uid: str = ""
    """Uid of another cluster that answered at its address between two probes of this connection."""
    estranged: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with `other_uid`: the connection is closed and opened again."""

    def begin(self, now_s: float) -> None:
        """Its first probe is about to be sent: silence counts from now on."""
        self.reachability = ReachabilityState(since_s=now_s, counts_from_s=now_s)

    def attach(self, client: clients.Client, lane: Lane, clock: Clock) -> None:
        """A connection is up."""
        self.client = client
        self.applier = Applier(client, lane, clock=clock, component="hub")

    def detach(self) -> None:
        """The connection is gone, or must no longer be used."""
        self.client = self.applier = None

    def observe_probe(
        self, result: ProbeResult, why: str, reason: str, now_s: float, grace_s: float
    ) -> None:
        self.probes += 1
        self.reachability = reachability.after(self.reachability, result, why, now_s, grace_s)
        if reachability.explains(self.reachability.state, result):
            self.reason = reason

    def observe_excuse(self, why: str, now_s: float) -> None:
        """It could not be probed for a reason that is not its own."""
        self.reachability = reachability.excused(self.reachability, why, now_s)

    def observe_unasked(self, why: str) -> bool:
        """Records why its present state is unknown, "" when it is known. Returns whether it became
        known or unknown thereby."""
        before, self.unasked = self.unasked, why
        return bool(before) is not bool(why)

    def observe_identity(self, uid: str) -> None:
        self.uid = uid

    def observe_apis(self, apis: frozenset[str]) -> None:
        self.apis = apis

    def observe_version(self, version: str) -> None:
        self.version = version

    def observe_credentials(self, token: Token | None, certificate_ends_s: int | None) -> None:
        """The connection uses this token, or this client certificate, from now on."""
        self.token, self.certificate_ends_s = token, certificate_ends_s
        self.reread.clear()

    def reread_token(self) -> None:
        """Its Secret has another token: the connection is to use that."""
        self.reread.set()

    def meet_other(self, uid: str) -> None:
        """Another cluster answers at its address: nothing is written there from this moment on."""
        self.detach()
        self.other_uid = uid
        self.estranged.set()

    def expect_same(self) -> None:
        """A new connection: what met another cluster was the last one."""
        self.estranged.clear()
