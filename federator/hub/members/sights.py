"""What a standby hub hears of the members, as it writes it into a Lease of its own, and what the
leader makes of that.

One more piece of evidence, never the only one: a cluster that the leader does not hear and a
standby does is cut off from the leader alone. An account does not list the clusters that the
standby reaches, because these are most of the fleet. It names the unreachable ones, and identifies
by a hash the clusters that it is about. A leader that knows other clusters concludes nothing. Pure;
times are seconds of the leader's monotonic clock.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.model import names

LEASES: Final = 3
"""Leases for standby hubs: so many can give an account, whatever they are called."""
NAMED_BYTES: Final = 48 << 10
"""Names of an account take no more: a thousand clusters with short names, or all of those that a
standby which is itself cut off does not hear. Beyond that it vouches for nobody."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Sight:
    """One account. `fleet` is the hash of all clusters that it speaks of."""

    hub: str
    fleet: str
    silent: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    """Not asked yet, or they answer as somebody else: it vouches for none of them."""
    more: int = 0
    """Clusters that it does not hear and that are not named."""

    def hears(self, cluster: str) -> bool:
        return not self.more and cluster not in self.silent and cluster not in self.unknown


def fleet_of(clusters: Iterable[str]) -> str:
    """The hash of these clusters, in any order."""
    return names.short_hash(*sorted(clusters), length=16)


def sight(hub: str, members: Mapping[str, Member], now_s: float, fresh_s: float) -> Sight:
    """What this process hears now. What was not asked for `fresh_s` is unknown."""
    silent, unknown = set[str](), set[str]()
    for name, member in members.items():
        seen = member.link.reachability
        asked_s = seen.asked_at_s
        if member.link.unasked or asked_s is None or now_s - asked_s > fresh_s:
            unknown.add(name)
        elif seen.state in (Reachability.SUSPECT, Reachability.UNREACHABLE):
            silent.add(name)
        elif seen.state is not Reachability.LIVE:
            unknown.add(name)
    return Sight(hub, fleet_of(members), frozenset(silent), frozenset(unknown))


def text(account: Sight, *, clusters: int) -> str:
    """The account as a standby writes it: JSON, for people too."""
    body: dict[str, Any] = {"v": _VERSION, "clusters": clusters, "fleet": account.fleet}
    named = account.silent | account.unknown
    if account.more or sum(len(name) + 3 for name in named) > NAMED_BYTES:
        return json.dumps({**body, "more": account.more or len(named)})
    listed = {"silent": sorted(account.silent), "unknown": sorted(account.unknown)}
    return json.dumps({**body, **{field: some for field, some in listed.items() if some}})


def read(lease: Mapping[str, Any]) -> Sight | None:
    """The account in a Lease; None where there is none that can be read. Total."""
    written = raw.text(lease, "metadata", "annotations", names.SIGHT_ANNOTATION)
    hub = raw.text(lease, "spec", "holderIdentity")
    try:
        body = json.loads(written) if written and hub else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or body.get("v") != _VERSION:
        return None
    return Sight(
        hub=hub,
        fleet=raw.text(body, "fleet"),
        silent=frozenset(raw.texts(body, "silent")),
        unknown=frozenset(raw.texts(body, "unknown")),
        more=max(raw.integer(body, "more"), 0),
    )


@dataclass(frozen=True, slots=True)
class LeaseSight:
    """One Lease as last read: which state of it, and since when it is so, as far as was seen."""

    version: str
    since_s: float
    changed: bool
    """False for what the first read showed, which may be of any age."""
    account: Sight | None

    def fresh(self, now_s: float, fresh_s: float) -> bool:
        return self.changed and now_s - self.since_s <= fresh_s


def seen(before: LeaseSight | None, lease: Mapping[str, Any], now_s: float) -> LeaseSight:
    """What a read at `now_s` showed. When its writer says that it wrote is never believed."""
    meta = raw.mapping(lease, "metadata")
    version = f"{raw.text(meta, 'uid')}/{raw.text(meta, 'resourceVersion')}"
    if before is not None and before.version == version:
        return before
    return LeaseSight(version, now_s, before is not None, read(lease))


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What standby hubs say of one cluster, by name."""

    hear: tuple[str, ...] = ()
    miss: tuple[str, ...] = ()


def of_cluster(accounts: Iterable[Sight], cluster: str, fleet: str) -> Witnesses:
    """What is said of one cluster. Accounts of other clusters than ours say nothing."""
    speaking = [account for account in accounts if account.fleet == fleet]
    return Witnesses(
        tuple(sorted(short(account.hub) for account in speaking if account.hears(cluster))),
        tuple(sorted(short(account.hub) for account in speaking if cluster in account.silent)),
    )


def short(hub: str) -> str:
    """The name of a hub without the characters that make every start another one."""
    return hub.rpartition("_")[0] or hub
