"""Failover on, for most of a virtual hour a seed: every rule holds, and each planted bug breaks its own."""

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from federator.hub.cache import member_news
from federator.hub.dispatch.slice_writer import SliceWriter
from federator.hub.evacuation.draining import Draining
from federator.hub.evacuation.governing import Governing
from federator.hub.members.connecting.connection import Connection
from federator.kinds import registry
from federator.kube import errors
from federator.member.heartbeat import Heartbeat
from federator.sandbox.federation import Federation
from federator.scheduling import governor, rollout
from federator.scheduling.governor import FleetHealth, Health, Watched
from tests.simulation import failoverrules, failovers
from tests.simulation.mutations import instead, together
from tests.simulation.running import Plant

WORLDS = {
    "a crowded fleet": failovers.worlds("crowded", most=1),
    "hubs that stand for election": failovers.worlds("one", elected=True, most=1),
    "late and one-way networks": failovers.worlds("doubtful", most=1),
}
"""In the second the leader goes midway."""


def _never_brakes(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, most: most


def _resets_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda clusters: False


def _heard_as_standby(original: Callable[..., Any]) -> Callable[..., Any]:
    """A new leader has been sure for long of what is silent when it begins."""

    def step(before: FleetHealth, evidence: Any, *, now_s: float, **more: Any) -> FleetHealth:
        fleet = original(before, evidence, now_s=now_s, **more)
        if before.clusters:
            return cast(FleetHealth, fleet)
        return FleetHealth(
            {name: Watched(seen.health, now_s - LONELY_S) for name, seen in fleet.clusters.items()},
            fleet.brake,
        )

    return step


def _home_at_once(_: Callable[..., Any]) -> Callable[..., Any]:
    def may_return(failover: Any, home: Any, last: Any, now_s: float) -> bool:
        return home is not None and home.health is Health.LIVE

    return may_return


def _never_rests(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda policy, lost, silence, last, now_s: original(policy, lost, silence, None, now_s)


def _back_without_rest(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda failover, home, last, now_s: original(failover, home, None, now_s)


def _all_at_once(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: 1_000_000


def _emptied() -> Plant:
    """What is decided in a cluster that has been lost counts no more when it is heard again."""
    returned = set[str]()

    def holding(original: Callable[..., Any]) -> Callable[..., Any]:
        returned.clear()  # another world

        def hold(self: Any, member: Any, health: Health) -> None:
            if member.health is Health.UNREACHABLE and health is Health.LIVE:
                returned.add(member.name)
            original(self, member, health)

        return hold

    def planning(original: Callable[..., Any]) -> Callable[..., Any]:
        def plan(unit: Any, shares: Any, observed: Any, **more: Any) -> Any:
            kept = [share for share in shares if share.cluster not in returned]
            return original(unit, kept, observed, **more)

        return plan

    return together(instead(Governing, "_hold", holding), instead(rollout, "plan", planning))


def _impatient(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda policy, lost, silence, last, now_s: ""


def _counts_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def count(self: Draining, key: Any, copies: int) -> None:
        metrics, self.state.metrics = self.state.metrics, None
        original(self, key, copies)
        self.state.metrics = metrics

    return count


NONE = {"spec": {"replicas": 0}}


def _stops_all_without_its_host(original: Callable[..., Any]) -> Callable[..., Any]:
    """Cut off from its host, a hub takes down what it can no longer account for."""

    async def probe(self: Connection, client: Any) -> None:
        await original(self, client)
        try:
            await self.host.ready(timeout_s=2.0)
        except errors.ApiError:
            for key in self.member.contents.slice_keys():
                if key.kind == failoverrules.PSVC:
                    ref = registry.KINDS[key.kind].ref(key.namespace, key.name)
                    with contextlib.suppress(errors.ApiError):
                        await client.patch(ref, NONE)

    return probe


LONELY_S = 150.0


def _stops_all_without_hubs() -> Plant:
    """A member process that has not heard of a hub for long fences itself, services and all."""
    gone_s: list[float] = []

    def killing(original: Callable[..., Any]) -> Callable[..., Any]:
        async def kill(self: Federation, name: str) -> None:
            gone_s[:] = [self.clock.monotonic()] if name.startswith("hub") else gone_s
            await original(self, name)

        return kill

    def starting(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(self: Federation, name: str = "") -> None:
            gone_s.clear()
            original(self, name)

        return start

    def beating(original: Callable[..., Any]) -> Callable[..., Any]:
        async def renew(self: Heartbeat) -> bool:
            if gone_s and self._clock.monotonic() - gone_s[0] > LONELY_S:
                kind = registry.KINDS["Deployment"]
                listed = await self._client.list(kind.api_version, kind.plural, namespace="feed")
                for one in listed.items:
                    await self._client.patch(kind.ref("feed", one["metadata"]["name"]), NONE)
            return bool(await original(self))

        return renew

    return together(
        instead(Federation, "kill", killing),
        instead(Federation, "start_hub", starting),
        instead(Heartbeat, "_renew", beating),
    )


def _sees_no_double(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda members: []


def _deletes_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    async def delete(self: SliceWriter, member: Any, workload: Any) -> None:
        return

    return delete


PLANTS: dict[str, tuple[str, Plant, tuple[int, ...]]] = {
    "a brake that does not brake": (
        failoverrules.BRAKE,
        instead(FleetHealth, "a_minute", _never_brakes),
        failovers.worlds("flaps"),
    ),
    "a clock that is not reset": (
        failoverrules.ANEW,
        instead(governor, "_all_gone", _resets_nothing),
        failovers.worlds("all"),
    ),
    "a new leader counts from before": (
        failoverrules.EARLY,
        instead(governor, "step", _heard_as_standby),
        failovers.worlds("one", "flaps", "blips", elected=True),
    ),
    "home at once": (
        failoverrules.HOME,
        instead(governor, "may_return", _home_at_once),
        failovers.worlds("one"),
    ),
    "moved again within the cooldown": (
        failoverrules.ONCE,
        instead(governor, "holds", _never_rests),
        failovers.worlds("flaps"),
    ),
    "home without a rest": (
        failoverrules.ONCE,
        instead(governor, "may_return", _back_without_rest),
        failovers.worlds("one"),
    ),
    "struck before its replacements are ready": (
        failoverrules.READY,
        instead(rollout, "_shrink_allowance", _all_at_once),
        failovers.worlds("mixed", "crowded", most=4),
    ),
    "a cluster that is back is emptied": (
        failoverrules.KEPT,
        _emptied(),
        failovers.worlds("one", "flaps"),
    ),
    "what may run twice is not counted (F28)": (
        failoverrules.COUNTED,
        instead(Draining, "_count", _counts_nothing),
        failovers.worlds("one", "flaps"),
    ),
    "a hub without its host stops services (F31)": (
        failoverrules.STILL,
        instead(Connection, "_probe", _stops_all_without_its_host),
        failovers.worlds("hubless"),
    ),
    "a member process without hubs stops services (F32)": (
        failoverrules.STILL,
        _stops_all_without_hubs(),
        failovers.worlds("hubless"),
    ),
    "a cluster that has joined twice is two (F36)": (
        failoverrules.KEPT,
        instead(member_news, "_mark_duplicates", _sees_no_double),
        failovers.worlds("blips", "doubtful", "hubless"),
    ),
    "a cluster that has joined twice gets work (F36)": (
        failoverrules.TWIN,
        together(
            instead(member_news, "_mark_duplicates", _sees_no_double),
            instead(SliceWriter, "_delete", _deletes_nothing),  # the slices of the other name
        ),
        failovers.worlds("blips", "doubtful", "hubless"),
    ),
    "moved without waiting": (
        failoverrules.EARLY,
        instead(governor, "holds", _impatient),
        failovers.worlds("one", "flaps"),
    ),
}
"""What is wrong -> (the rule that finds it, the bug, worlds in which it must be found)."""
SHOWN_IN = {"a brake that does not brake": 11, "a hub without its host stops services (F31)": 14}
"""The world that shows it, where that is not the first."""


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(WORLDS))
def test_every_rule_holds_while_clusters_come_and_go(what: str) -> None:
    (seed,) = WORLDS[what]
    seen = failovers.CAMPAIGN.played(seed)
    assert seen["failover"]
    assert seen["failback"]
    assert seen["stale slice removed"]
    assert (seen["leader killed"] > 0) is ("election" in what)


@pytest.mark.long
@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_a_planted_bug_breaks_its_rule(bug: str) -> None:
    rule, plant, seeds = PLANTS[bug]
    assert failovers.CAMPAIGN.catches(rule, plant, seeds, SHOWN_IN.get(bug))


HELD = {("b", "Deployment", "web"): ("1", 1, 3)}


@pytest.mark.parametrize(
    ("now", "share", "strays"),
    [
        (("1", 2, 2), 2, False),  # shrunk as decided
        (None, 0, False),  # gone as decided
        (("1", 2, 2), 0, False),  # on its way there
        (("1", 2, 2), 3, True),
        (("1", 2, 0), 2, True),  # beyond what was decided
        (("1", 2, 4), 4, True),  # what grows was written long before
        (None, 1, True),
        (("2", 1, 2), 2, True),  # another object
    ],
)
def test_without_its_host_a_hub_only_ends_what_was_decided(
    now: tuple[str, int, int] | None, share: int, strays: bool
) -> None:
    there = {("b", "Deployment", "web"): now} if now else {}
    found = failoverrules.strayed(HELD, there, {"web": {"b": share, "d": 2}})
    assert found == (["b Deployment web"] if strays else [])


def test_without_any_hub_nothing_changes() -> None:
    assert failoverrules.strayed(HELD, {}, {}) == ["b Deployment web"]
    assert failoverrules.strayed(HELD, HELD, {}) == []
