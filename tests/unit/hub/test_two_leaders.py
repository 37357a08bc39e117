"""A leader with other settings or an empty memory keeps to what the former one promised and spent."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federator.api import raw
from federator.hub.cache.notices import Notices
from federator.hub.evacuation.draining import Draining
from federator.hub.evacuation.leasing import Leasing
from federator.hub.host.controller import Tools
from federator.hub.members.link import Link
from federator.hub.members.member_conditions import Vitals
from federator.hub.members.reachability import Reachability, ReachabilityState
from federator.hub.options import HubOptions
from federator.hub.placing.move_budget import DRAIN, MoveBuckets
from federator.hub.records.policy_use import PolicyUse
from federator.kube import errors
from federator.model.ask import Tier
from federator.model.decision import Preempted, Share
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from federator.runtime import fencing
from federator.runtime.fencing import Renewal, Sight
from tests.unit.hub.test_reclaim import placed, tree
from tests.unit.hub.world import World, play, service

EPOCH_S = 1_790_000_000.0
LEASES_S = (90.0, 180.0, 600.0, 1800.0)


class Time:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.s = 1000.0

    def monotonic(self) -> float:
        return self.s

    elapsed = monotonic

    def now(self) -> float:
        return EPOCH_S + self.s


class Server:
    """Leases by name, with versions as an API server checks them."""

    def __init__(self, *made: str) -> None:
        self.up = True
        self.leases: dict[str, dict[str, Any]] = {}
        for name in made:
            self._put(name, {"metadata": {"name": name}, "spec": {}})

    def _put(self, name: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        before = self.leases.get(name, {"metadata": {"resourceVersion": "0"}})
        version = int(before["metadata"]["resourceVersion"]) + 1
        meta = {**obj["metadata"], "resourceVersion": str(version)}
        self.leases[name] = {**obj, "metadata": meta}
        return self.leases[name]

    def _check(self, ref: ObjectRef, version: str | None) -> dict[str, Any]:
        if not self.up:
            raise errors.Unreachable(f"{ref.name}: no connection")
        if ref.name not in self.leases:
            raise errors.NotFound(ref.name)
        live = self.leases[ref.name]
        if version not in (None, live["metadata"]["resourceVersion"]):
            raise errors.Conflict(ref.name)
        return live

    async def get(self, ref: ObjectRef) -> dict[str, Any]:
        return self._check(ref, None)

    async def create(self, ref: ObjectRef, body: Mapping[str, Any]) -> dict[str, Any]:
        if ref.name in self.leases:
            raise errors.AlreadyExists(ref.name)
        return self._put(ref.name, body)

    async def replace(self, ref: ObjectRef, body: Mapping[str, Any]) -> dict[str, Any]:
        self._check(ref, body["metadata"]["resourceVersion"])
        return self._put(ref.name, body)

    async def patch(self, ref: ObjectRef, body: Mapping[str, Any]) -> dict[str, Any]:
        live = self._check(ref, body["metadata"]["resourceVersion"])
        spec = {**live["spec"], **body["spec"]}
        return self._put(ref.name, {**live, "spec": spec})


class Fence:
    """One cluster with guarded shards, its guard, and one leader after the other."""

    def __init__(self) -> None:
        self.time, self.host, self.cluster = Time(), Server(), Server(fencing.LEASE)
        self.sight, self.ran_s = Sight(), float("-inf")
        self.term = 0
        self.leads(180.0)

    def leads(self, lease_s: float) -> None:
        """Another hub begins to lead, with a lease of this length."""
        self.term += 1
        options = HubOptions(fence_lease_s=lease_s)
        self.vitals = Vitals()
        self.member = SimpleNamespace(
            name="a",
            link=Link(ReachabilityState(Reachability.LIVE), client=cast(Any, self.cluster)),
            vitals=self.vitals,
            heard=True,
            claimed=True,
            cleaning="",
            obj={"apiVersion": "v1", "kind": "MemberCluster", "metadata": {"uid": "u"}},
        )
        state = SimpleNamespace(
            options=options, members={"a": self.member}, records={}, term=self.term, metrics=None
        )
        applier = SimpleNamespace(client=self.host)
        made: Any = (state, applier, None, None, self.time, random.Random(1))
        self.leasing = Leasing(Tools(*made))

    def serve(self) -> None:
        asyncio.run(self.leasing._serve(cast(Any, self.member), ""))

    def goes_by(self, seconds: int) -> None:
        """The guard looks every five seconds."""
        for _ in range(seconds // 5):
            self.time.s += 5
            spec = self.cluster.leases[fencing.LEASE]["spec"]
            text = str(spec.get("renewTime", ""))
            wall_s, lease_s = raw.epoch_s(text), float(spec.get("leaseDurationSeconds", 0))
            self.sight = fencing.look(self.sight, Renewal(text, wall_s, lease_s), self.time.s)
            if not fencing.why_not(self.sight, self.time.s, self.time.now()):
                self.ran_s = self.time.s

    def recorded_s(self) -> int:
        (record,) = self.host.leases.values()
        return raw.integer(record, "spec", "leaseDurationSeconds")

    def until_over(self) -> float:
        """The cluster is silent: seconds until the leader holds its lease to be over."""
        self.cluster.up = False
        self.member.link.reachability = ReachabilityState(Reachability.UNREACHABLE)
        begun_s = self.time.s
        while not self.vitals.lapsed:
            self.serve()
            self.goes_by(5)
            assert self.time.s < begun_s + 10_000
        return self.time.s - begun_s


@dataclass(frozen=True)
class Term:
    """One leader: its lease, how often it renews, and which renewals reach only the host."""

    lease_s: float
    renewals: int
    reaches: int = -1
    """Of so many renewals the cluster hears; -1 for all."""


terms = st.builds(Term, st.sampled_from(LEASES_S), st.integers(0, 4), st.integers(-1, 2))


@pytest.mark.long
@given(st.lists(terms, min_size=1, max_size=4), st.integers(0, 12))
@example([Term(1800.0, 2), Term(90.0, 1, 0)], 0)
@example([Term(1800.0, 2), Term(90.0, 2), Term(90.0, 0)], 0)
@example([Term(90.0, 3), Term(1800.0, 1, 0)], 4)
def test_no_lease_is_over_while_a_guard_keeps_to_what_any_leader_promised(
    history: list[Term], gap: int
) -> None:
    fence = Fence()
    for term in history:
        fence.cluster.up = True
        fence.leads(term.lease_s)
        for number in range(term.renewals):
            fence.cluster.up = term.reaches < 0 or number < term.reaches
            fence.serve()
            fence.goes_by(15)
        fence.goes_by(5 * gap)
    fence.until_over()

    assert fence.time.s - fence.ran_s >= fencing.STOP_S


def test_the_record_tells_a_third_leader_what_the_first_one_promised() -> None:
    fence = Fence()
    fence.leads(1800.0)
    fence.serve()
    fence.goes_by(60)
    fence.leads(90.0)
    fence.serve()
    assert fence.recorded_s() == 1800  # the second one cannot know when the first one renewed last
    fence.goes_by(600)
    fence.serve()
    assert fence.recorded_s() == 1200
    fence.goes_by(1200)
    fence.serve()
    assert fence.recorded_s() == 90


@pytest.mark.parametrize("act", ["shortened", "deleted"])
def test_a_record_that_a_person_changes_makes_no_promise_shorter(act: str) -> None:
    fence = Fence()
    fence.leads(1800.0)
    fence.serve()
    fence.leads(90.0)
    fence.serve()
    (name,) = fence.host.leases
    if act == "deleted":
        del fence.host.leases[name]
    else:
        spec = {**fence.host.leases[name]["spec"], "leaseDurationSeconds": 1}
        fence.host._put(name, {**fence.host.leases[name], "spec": spec})
    fence.serve()

    assert fence.until_over() >= 1800 + fencing.STOP_S


def test_a_leader_with_a_longer_lease_waits_for_what_the_former_one_decided() -> None:
    """By its shorter lease the former one may have held the cluster to be lost, and what it decided
    for that may still be on its way."""
    fence = Fence()
    fence.leads(90.0)
    fence.serve()
    fence.goes_by(300)
    fence.leads(1800.0)
    fence.serve()
    assert "waited for" in fence.leasing._logged["a"]
    fence.goes_by(int(fencing.LATE_WRITE_S))
    fence.serve()
    assert fence.leasing._logged["a"] == ""


def test_a_new_leader_does_not_preempt_again_what_the_former_one_just_did() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(5)
        assert await placed(world, "ads", "web") == 5
        await world.federation.kill("hub")
        world.federation.start_hub()
        await world.create("PinterestService", "feed", "cron", service(1, "1", project="feed"))
        await asyncio.sleep(10)
        assert await placed(world, "ads", "web") == 5
        await asyncio.sleep(60)
        assert await placed(world, "ads", "web") == 4

    play(scenario, options=HubOptions(preempted_copies_a_minute=3))


@pytest.mark.parametrize(
    ("changes", "left", "gone"),
    [
        ({}, 4, {"u": {"a": 3, "b": 3}}),
        ({"why": "InClusterQueue"}, 7, {"u": {"a": 3, "b": 3}}),
        ({"tier": Tier.PREEMPTIBLE}, 7, {"u": {"a": 3, "b": 3}}),
        ({"as_of": EPOCH_S - 61}, 7, {}),
        ({"preempted": None}, 7, {}),
    ],
)
def test_what_a_former_leader_preempted_counts_by_its_decisions(
    changes: Mapping[str, Any], left: int, gone: Mapping[str, Mapping[str, int]]
) -> None:
    by = WorkloadKey("PinterestService", "feed", "api")
    preempted = Preempted(by, "feed", changes.get("why", "InCohortReclamation"), 3)
    record = SimpleNamespace(
        workload_uid="u",
        shares=(Share("a", 4, 1), Share("b", 4, 1)),
        facts=SimpleNamespace(as_of=changes.get("as_of", EPOCH_S - 10)),
        terms=SimpleNamespace(
            preempted=changes.get("preempted", preempted),
            tier=changes.get("tier", Tier.ON_DEMAND),
        ),
    )
    notices = Notices()
    notices.begin(cast(Any, [record]), 50.0, EPOCH_S)

    pace = notices.pace(50.0, HubOptions(preempted_copies_a_minute=7), lambda _: None)

    assert (pace.copies, pace.budgets.gone) == (left, gone)


MOVED_LATELY = st.lists(
    st.tuples(st.integers(0, 8), st.floats(0, 119), st.booleans(), st.booleans()), max_size=6
)


@given(MOVED_LATELY, st.integers(1, 40))
def test_a_new_leader_counts_the_moves_of_the_last_minute(
    decisions: list[tuple[int, float, bool, bool]], rate: int
) -> None:
    """By what decisions say: those of a policy for its move budget, those of drains and failovers
    for theirs."""
    time, use = Time(), PolicyUse()
    for number, (moved, ago_s, ours, drains) in enumerate(decisions):
        causes = (f"{DRAIN}a", "an edit") if drains else ("an edit",)
        terms = SimpleNamespace(
            moved=moved,
            causes=causes,
            required=(),
            policy_origin="policy",
            policy_namespace="feed",
            policy_name="ours" if ours else "other",
        )
        facts = SimpleNamespace(as_of=time.now() - ago_s, portions=())
        record = SimpleNamespace(terms=terms, facts=facts)
        use.note(("feed", str(number)), None, cast(Any, record))
    state = cast(Any, SimpleNamespace(policy_use=use, signals=None))
    buckets = MoveBuckets(state, clock=cast(Any, time), later=lambda key, in_s: None)
    draining = SimpleNamespace(state=state, clock=time)

    lately = [row for row in decisions if row[1] < 60]
    spent = sum(moved for moved, _, ours, _ in lately if ours)
    assert buckets._bucket(("feed", "ours", ""), rate).left == rate - spent
    drained = sum(moved for moved, _, _, drains in lately if drains)
    assert Draining._moved_before(cast(Any, draining)) == drained
