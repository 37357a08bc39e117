"""Shards that may not run twice: given to another cluster only when nothing is left where they were."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.api import membercluster
from federator.model import shards
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.policy import Policy
from federator.model.shards import Ranges
from federator.placement import engine, inputs, request
from federator.placement.room.commitments import Commitments
from federator.placement.selection import filters
from tests.examples import examples
from tests.unit.placement.fleets import cluster, fleet, holdings, jobs

SILENT: Mapping[str, Any] = {"ready": False, "unready_reason": "no answer", "unreachable": True}
DEAD = {**SILENT, "dead": True, "unreachable": False}
FENCED = {**DEAD, "fenced": True}


def ask(count: int = 12, slots: int = 12, **policy: Any) -> Ask:
    return replace(jobs(count, slots), exclusive=True, overlaps=False, policy=Policy(**policy))


def decide(
    wish: Ask,
    snapshot: FleetSnapshot,
    held: tuple[Holding, ...] = (),
    may_run: Mapping[str, Ranges] = request.NOWHERE,
    finished: Ranges = (),
) -> Decision:
    ledger = Commitments().open(snapshot)
    decision = engine.decide(
        wish, held, snapshot, ledger, may_run=may_run, seq=9, finished=finished
    )
    placed = sum(share.count for share in decision.shares)
    assert decision.wanted == placed + decision.shortfall
    return decision


def ranges(decision: Decision) -> dict[str, str]:
    return {share.cluster: shards.text(share.ranges) for share in decision.shares}


BOTH = (Holding("a", 6, 6, 3, ((0, 5),)), Holding("b", 6, 6, 4, ((6, 11),)))


def test_what_leaves_a_cluster_begins_elsewhere_when_nothing_is_left_there() -> None:
    wish, snapshot = ask(), fleet(cluster("a", 12, draining=True), cluster("b", 12))
    first = decide(wish, snapshot, BOTH)
    assert ranges(first) == {"b": "6-11"}
    assert first.may_run == {"a": ((0, 5),)}
    assert (first.reason, first.shortfall, first.wanted) == (Reason.MAY_STILL_RUN, 6, 12)
    assert "shards 0-5 may still run in a" in first.message
    assert not next(verdict for verdict in first.verdicts if verdict.cluster == "a").chosen
    # b gets more slots for them now, and its shards stay its own
    still = decide(wish, snapshot, holdings(first.shares), first.may_run)
    assert (still.shares, still.may_run) == (first.shares, first.may_run)
    after = decide(wish, snapshot, holdings(still.shares))
    assert ranges(after) == {"b": "0-11"}
    assert (after.reason, after.shortfall, after.may_run) == (Reason.CHOSEN, 0, {})


@pytest.mark.parametrize("how", [SILENT, DEAD])
def test_neither_silence_nor_declared_death_moves_a_shard(how: Mapping[str, Any]) -> None:
    snapshot = fleet(cluster("a", 12, **how), cluster("b", 12))
    decision = decide(ask(), snapshot, BOTH)
    assert ranges(decision) == {"a": "0-5", "b": "6-11"}
    assert {share.cluster: share.seq for share in decision.shares} == {"a": 3, "b": 4}
    overlapping = replace(ask(), exclusive=False, overlaps=True)
    refusal = filters.refusal(overlapping, snapshot.clusters["a"])
    assert refusal is not None
    assert refusal.moves  # what may overlap does leave


def test_a_fenced_cluster_runs_nothing_so_its_shards_begin_elsewhere_at_once() -> None:
    snapshot = fleet(cluster("a", 12, **FENCED), cluster("b", 12))
    decision = decide(ask(), snapshot, BOTH)
    assert ranges(decision) == {"b": "0-11"}
    assert (decision.may_run, decision.shortfall) == ({}, 0)
    former = decide(ask(), snapshot, BOTH[1:], {"a": ((0, 5),)})
    assert ranges(former) == {"b": "0-11"}


SKEWED = "its clock is 12 s ahead of the hub's, more than 5 s"


def test_no_guarded_shard_begins_where_the_clock_is_off_and_what_runs_there_stays() -> None:
    snapshot = fleet(cluster("a", 12, skewed=SKEWED), cluster("b", 6))
    guarded = replace(ask(), guarded=True)
    first = decide(guarded, snapshot)
    assert ranges(first) == {"b": "0-11"}
    assert first.shares[0].slots == 6, "the rest waits for its turn there"
    verdict = next(one for one in first.verdicts if one.cluster == "a")
    assert verdict.reason is Reason.CLUSTER_UNHEALTHY
    assert verdict.message.startswith(f"cluster a: {SKEWED} (ClockSkew)")
    assert ranges(decide(guarded, snapshot, BOTH)) == {"a": "0-5", "b": "6-11"}
    assert ranges(decide(ask(), snapshot))["a"], "without guards no clock counts"


def test_a_clock_that_is_off_is_read_from_the_object_too() -> None:
    said = {"type": "ClockSynced", "status": "False", "message": f"I{SKEWED[1:]}."}
    obj = {"metadata": {"name": "a"}, "status": {"conditions": [said]}}
    assert membercluster.to_view(obj, 0.0).skewed == SKEWED
    said["status"] = "True"
    assert membercluster.to_view(obj, 0.0).skewed == ""


def test_a_person_s_word_against_a_silent_cluster_stops_shards_and_starts_none() -> None:
    """`exclude` takes its share away; that nothing runs there is another matter."""
    snapshot = fleet(cluster("a", 12, **SILENT), cluster("b", 12))
    decision = decide(ask(exclude=("a",)), snapshot, BOTH)
    assert ranges(decision) == {"b": "6-11"}
    assert decision.may_run == {"a": ((0, 5),)}


def test_finished_shards_run_nowhere_and_hold_nobody_up() -> None:
    snapshot = fleet(cluster("a", 12, draining=True), cluster("b", 12))
    decision = decide(ask(), snapshot, BOTH, finished=((0, 3),))
    assert ranges(decision) == {"b": "6-11"}
    assert decision.may_run == {"a": ((4, 5),)}
    assert (decision.wanted, decision.shortfall) == (8, 2)
    done = decide(ask(), snapshot, BOTH, finished=((0, 5),))
    assert (done.may_run, done.shortfall) == ({}, 0)


def test_a_cluster_that_left_the_fleet_is_not_waited_for() -> None:
    decision = decide(ask(), fleet(cluster("b", 12)), BOTH[1:], {"a": ((0, 5),)})
    assert ranges(decision) == {"b": "0-11"}


def test_the_inputs_hash_of_what_may_overlap_is_as_it_was() -> None:
    plain, snapshot = jobs(4, 4), fleet(cluster("a", 4))
    exclusively = inputs.inputs_hash(replace(plain, exclusive=True), snapshot)
    assert inputs.inputs_hash(plain, snapshot) != exclusively
    assert "Exclusive" not in inputs.ask_text(plain, "")


def _cluster(word: str, *, last_heard: str, ready: str = "Unknown") -> dict[str, Any]:
    ready_condition = {"type": "Ready", "status": ready, "reason": "Unreachable"}
    return {
        "metadata": {"name": "a"},
        "spec": {"fenced": word},
        "status": {"lastHeard": last_heard, "conditions": [ready_condition]},
    }


def test_a_fence_is_about_one_silence() -> None:
    first, second = "2026-03-01T03:12:40Z", "2026-03-01T09:00:00Z"
    assert membercluster.fenced(_cluster(first, last_heard=first))
    assert membercluster.to_view(_cluster(first, last_heard=first), 0.0).fenced
    assert membercluster.declared_dead(_cluster(first, last_heard=first))
    assert not membercluster.fenced(_cluster(first, last_heard=second))
    assert not membercluster.fenced(_cluster(first, last_heard=first, ready="True"))
    assert not membercluster.fenced(_cluster("", last_heard=""))
    by_word = _cluster("", last_heard=first)
    by_word["spec"] = {"declaredDead": first}
    assert membercluster.declared_dead(by_word)
    assert not membercluster.fenced(by_word)


class Running:
    """Three clusters that do what is decided when they hear it, and what really runs in them."""

    def __init__(self) -> None:
        self.names = ("a", "b", "c")
        self.runs: dict[str, Ranges] = dict.fromkeys(self.names, ())
        self.silent: set[str] = set()
        self.fenced: set[str] = set()
        self.draining: set[str] = set()
        self.finished: Ranges = ()
        self.decision: Decision | None = None

    def snapshot(self) -> FleetSnapshot:
        return fleet(
            *(
                cluster(
                    name,
                    9,
                    draining=name in self.draining and name not in self.silent,
                    **(FENCED if name in self.fenced else SILENT if name in self.silent else {}),
                )
                for name in self.names
            )
        )

    def decide(self) -> None:
        made = self.decision
        may_run: dict[str, Ranges] = {}
        if made is not None:
            gone = {n for n in self.names if n not in self.silent and not self.runs[n]}
            may_run = {name: left for name, left in made.may_run.items() if name not in gone}
        for name in self.names:
            if name not in self.silent and self.runs[name]:
                may_run[name] = shards.union(may_run.get(name, ()), self.runs[name])
        held = holdings(made.shares) if made is not None else ()
        self.decision = decide(ask(12, 6), self.snapshot(), held, may_run, finished=self.finished)

    def hear(self, name: str) -> None:
        """A cluster that is heard gets its slice; one that gave up its shards stops all of them."""
        if name in self.silent or self.decision is None:
            return
        share = self.decision.share_of(name)
        self.runs[name] = share.ranges if share is not None else ()

    def act(self, what: str, name: str) -> None:
        match what:
            case "hear":
                self.hear(name)
            case "cut":
                self.silent.add(name)
            case "heal":
                self.silent.discard(name)
                self.fenced.discard(name)
            case "fence" if name in self.silent:
                self.runs[name] = ()  # the person looked
                self.fenced.add(name)
            case "drain":
                self.draining.symmetric_difference_update({name})
            case "finish":
                some = shards.take(shards.minus(self.runs[name], self.finished), 2)[0]
                self.finished = shards.union(self.finished, some)
            case _:
                self.decide()

    def twice(self) -> Ranges:
        twice: Ranges = ()
        for at, name in enumerate(self.names):
            for other in self.names[at + 1 :]:
                both = shards.intersect(self.runs[name], self.runs[other])
                twice = shards.union(twice, shards.minus(both, self.finished))
        return twice


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["decide", "hear", "cut", "heal", "fence", "drain", "finish"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=60,
)


@given(acts=ACTS)
@examples(150)
def test_no_shard_runs_twice_and_none_is_forgotten(acts: list[tuple[str, str]]) -> None:
    running = Running()
    for what, name in acts:
        running.act(what, name)
        assert running.twice() == ()
    running.silent.clear()
    running.fenced.clear()
    running.draining.clear()
    for _ in range(8):
        running.decide()
        for name in running.names:
            running.hear(name)
        assert running.twice() == ()
    assert running.decision is not None
    # what a cluster lost waits as long as its slice is there, with what else it still runs
    with_slices = {share.cluster for share in running.decision.shares}
    assert running.decision.may_run.keys() <= with_slices
    waiting = shards.normal(r for ranges in running.decision.may_run.values() for r in ranges)
    placed = shards.normal(r for share in running.decision.shares for r in share.ranges)
    decided = shards.union(placed, waiting)
    assert shards.minus(((0, 11),), shards.union(decided, running.finished)) == ()
