"""The stages of one probe, by the pure core: what it waits for, its deadlines, and busy against
broken.
"""

import dataclasses
from typing import Any

import pytest

from federator.api.clusterstandard import ProbeWish, probe_wish, to_probe_rule
from federator.api.memberfields import unproven
from federator.hub.probing import stages
from federator.hub.probing.stages import (
    Cause,
    Do,
    Probe,
    ProbeSight,
    Result,
    Room,
    Stage,
    Want,
    Work,
)
from federator.kinds import probes as objects
from federator.model.ask import Tier
from federator.model.decision import Reason

EMPTY = Room(fits=True, could=True)
FULL = Room(fits=False, could=True)
DEAD = Room(fits=False, could=False)
READY = Work(observed=1, placed=1, actual=1, ready=1, updated=1)
WAITS = Work(placed=1, message="container answer is waiting")
SECOND = dataclasses.replace(READY, generation=2)
DONE = Work(observed=1, placed=1, done=1)


def at(stage: Stage, **more: Any) -> Probe:
    return Probe(Tier.ON_DEMAND, 0.0, stage, **more)


def test_a_probe_takes_every_stage_and_passes() -> None:
    probe, trail, now_s = stages.begun(Tier.RESERVED, 0.0), [], 0.0
    for seen, acts in (
        (ProbeSight(), Do.MAKE_SERVICE),
        (ProbeSight(Work()), None),
        (ProbeSight(WAITS), None),
        (ProbeSight(READY), Do.MAKE_JOBS),
        (ProbeSight(READY, Work()), None),
        (ProbeSight(READY, DONE), Do.ROLL),
    ):
        now_s += 1.0
        probe, do = stages.step(probe, seen, now_s)
        assert do is acts
        trail.append(probe.stage)
    probe = stages.rolled(probe, 2)
    for seen in (
        ProbeSight(READY, DONE),
        ProbeSight(dataclasses.replace(READY, generation=2), DONE),
        ProbeSight(dataclasses.replace(SECOND, observed=2, updated=0), DONE),
        ProbeSight(dataclasses.replace(SECOND, observed=2, actual=2), DONE),
    ):
        probe, do = stages.step(probe, seen, now_s)
        assert (probe.stage, do) == (Stage.ROLLED, None)
    probe, do = stages.step(probe, ProbeSight(dataclasses.replace(SECOND, observed=2), DONE), now_s)
    assert (probe.stage, do) == (Stage.REMOVED, Do.REMOVE)
    probe, do = stages.step(probe, ProbeSight(traces=True), now_s)
    assert (probe.over, do) == (False, Do.REMOVE)
    probe, do = stages.step(probe, ProbeSight(), now_s)
    assert probe.over
    assert do is None
    assert probe.verdict == stages.ProbeEnd(Result.PASSED)
    assert trail[-1] is Stage.ROLLED
    assert trail[3] is Stage.REACHED


@pytest.mark.parametrize(
    ("stage", "seen", "result"),
    [
        (
            Stage.PLACED,
            ProbeSight(Work(refusal=Reason.INSUFFICIENT_CAPACITY), room=FULL),
            Result.BUSY,
        ),
        (
            Stage.PLACED,
            ProbeSight(Work(refusal=Reason.INSUFFICIENT_CAPACITY), room=DEAD),
            Result.FAILED,
        ),
        (Stage.PLACED, ProbeSight(Work(refusal=Reason.INSUFFICIENT_CAPACITY)), Result.FAILED),
        (
            Stage.PLACED,
            ProbeSight(Work(refusal=Reason.CLUSTER_UNHEALTHY), room=EMPTY),
            Result.FAILED,
        ),
        (Stage.PLACED, ProbeSight(Work(refusal=Reason.QUOTA_EXCEEDED), room=EMPTY), Result.NOT_RUN),
        (Stage.PLACED, ProbeSight(room=EMPTY), Result.NOT_RUN),
        (Stage.READY, ProbeSight(WAITS, room=EMPTY), Result.FAILED),
        (Stage.READY, ProbeSight(WAITS, room=FULL), Result.FAILED),
        (
            Stage.READY,
            ProbeSight(dataclasses.replace(WAITS, unschedulable=True), room=FULL),
            Result.BUSY,
        ),
        (
            Stage.READY,
            ProbeSight(dataclasses.replace(WAITS, unschedulable=True), room=EMPTY),
            Result.FAILED,
        ),
        (
            Stage.READY,
            ProbeSight(
                dataclasses.replace(WAITS, unschedulable=True), room=FULL, silence="it is silent"
            ),
            Result.FAILED,
        ),
        (Stage.READY, ProbeSight(room=EMPTY), Result.NOT_RUN),
        (Stage.REACHED, ProbeSight(READY, WAITS, room=EMPTY), Result.FAILED),
        (
            Stage.REACHED,
            ProbeSight(READY, Work(refusal=Reason.INSUFFICIENT_CAPACITY), room=FULL),
            Result.BUSY,
        ),
        (Stage.ROLLED, ProbeSight(READY, DONE, room=EMPTY), Result.FAILED),
    ],
)
def test_a_missed_deadline_tells_a_broken_cluster_from_a_busy_one(
    stage: Stage, seen: ProbeSight, result: Result
) -> None:
    late_s = stages.WITHIN_S[stage]
    if result is not Result.NOT_RUN:
        probe, _ = stages.step(at(stage), seen, late_s - 1)
        assert probe.verdict is None
    probe, _ = stages.step(at(stage), seen, late_s)
    assert probe.verdict is not None
    assert (probe.verdict.result, probe.verdict.stage) == (result, stage)
    assert (
        probe.verdict.message.endswith(".")
        or probe.verdict.message in ("", WAITS.message)
        or (WAITS.message in probe.verdict.message)
    )
    assert probe.stage is Stage.REMOVED, "what it made is removed"


def test_a_failed_job_and_a_halt_end_a_probe_before_its_deadline() -> None:
    lost = Work(failed=1, message="shard 0 failed")
    probe, do = stages.step(at(Stage.REACHED), ProbeSight(READY, lost, room=EMPTY), 1.0)
    assert probe.verdict is not None
    assert probe.verdict.result is Result.FAILED
    assert "shard 0 failed" in probe.verdict.message
    assert do is Do.REMOVE
    for stage in list(Stage)[:-1]:
        halted = ProbeSight(READY, DONE, halted="The cluster is being drained.")
        probe, do = stages.step(at(stage), halted, 1.0)
        assert probe.verdict is not None
        assert do is Do.REMOVE
        assert probe.verdict.result is Result.NOT_RUN
    probe = stages.refused(at(Stage.PLACED), "namespace not found", 1.0)
    assert probe.verdict is not None
    assert probe.verdict.result is Result.NOT_RUN


def test_what_is_not_removed_in_time_fails_the_probe_and_is_removed_further() -> None:
    late_s = stages.WITHIN_S[Stage.REMOVED]
    probe, do = stages.step(at(Stage.REMOVED), ProbeSight(traces=True), late_s)
    assert probe.over
    assert do is Do.REMOVE
    assert probe.verdict is not None
    assert probe.verdict.stage is Stage.REMOVED
    busy = stages.ProbeEnd(Result.BUSY, Stage.PLACED, "full")
    probe, _ = stages.step(at(Stage.REMOVED, verdict=busy), ProbeSight(traces=True), late_s)
    assert probe.verdict == busy
    assert stages.step(probe, ProbeSight(READY), late_s) == (probe, None)


def test_a_revision_that_was_not_written_passes_nothing() -> None:
    assert not stages.passed(at(Stage.ROLLED), ProbeSight(READY, DONE))
    assert not stages.passed(at(Stage.READY), ProbeSight(dataclasses.replace(READY, observed=0)))
    assert not stages.passed(at(Stage.READY), ProbeSight())


@pytest.mark.parametrize(
    ("want", "last", "expected"),
    [
        (Want(), {}, (None, float("inf"))),
        (Want(request="x"), {"finishedAt": "1970-01-01T00:16:39Z"}, (Cause.ASKED, 0.0)),
        (Want(waits=True), {}, (Cause.GATE, 0.0)),
        (Want(waits=True), {"finishedAt": "1970-01-01T00:16:40Z"}, (None, 60.0)),
        (Want(every_s=100), {"finishedAt": "1970-01-01T00:15:50Z"}, (None, 50.0)),
        (Want(every_s=100), {"finishedAt": "1970-01-01T00:15:00Z"}, (Cause.SCHEDULE, 0.0)),
        (Want(waits=True, every_s=10), {"finishedAt": "1970-01-01T00:16:30Z"}, (Cause.SCHEDULE, 0)),
    ],
)
def test_a_probe_is_due_on_request_at_a_gate_and_on_schedule(
    want: Want, last: dict[str, str], expected: tuple[Cause | None, float]
) -> None:
    assert stages.due(want, last, 1000.0) == expected


def test_standards_together_say_gate_interval_and_tiers() -> None:
    def rule(probe: dict[str, Any] | None, zone: str = "") -> Any:
        chosen = {"clusters": {"selector": {"matchLabels": {"zone": zone}}}} if zone else {}
        return to_probe_rule({"spec": {**chosen, **({"workloadProbe": probe} if probe else {})}})

    assert rule(None) is None
    assert (
        to_probe_rule(
            {"spec": {"workloadProbe": {}, "clusters": {"selector": {"matchExpressions": [{}]}}}}
        )
        is None
    )
    rules = [
        rule({"gate": True, "tiers": ["Reserved"]}),
        rule({"everySeconds": 600, "tiers": ["OnDemand"]}, "z"),
        rule({"everySeconds": 60}, "y"),
    ]
    both = frozenset({Tier.RESERVED, Tier.ON_DEMAND})
    assert probe_wish(rules, {"zone": "z"}) == ProbeWish(True, 600.0, both)
    assert probe_wish(rules, {"zone": "y"}) == ProbeWish(True, 60.0, frozenset())
    assert probe_wish([], {}) == ProbeWish()


def _cluster(ready: str, since: str, **probe: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": f"2026-01-01T{since}Z"}
    times = {
        name: value if name == "result" else f"2026-01-01T{value}Z" for name, value in probe.items()
    }
    return {"status": {"conditions": [condition], "probe": times}}


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ({}, ""),
        (_cluster("True", "10:00:00"), ""),
        (_cluster("True", "10:00:00", gateSince="11:00:00"), ""),
        (_cluster("False", "10:00:00", gateSince="09:00:00"), ""),
        (_cluster("True", "10:00:00", gateSince="10:00:00"), "has not been probed"),
        (_cluster("True", "10:00:00", gateSince="09:00:00", passedAt="09:59:59"), "has not been"),
        (_cluster("True", "10:00:00", gateSince="09:00:00", passedAt="10:00:00"), ""),
        (
            _cluster(
                "True", "10:00:00", gateSince="09:00:00", result="Busy", finishedAt="10:01:00"
            ),
            "has not passed its last probe (Busy)",
        ),
    ],
)
def test_a_gate_opens_for_a_probe_that_began_after_the_cluster_became_ready(
    cluster: dict[str, Any], why: str
) -> None:
    said = unproven(cluster)
    assert said.startswith(why)
    assert bool(said) == bool(why)


def test_names_of_probes_are_names_of_workloads() -> None:
    for cluster in ("a", "us-east-1a", "x" * 63, "x" * 62 + "y"):
        for tier in Tier:
            name = objects.name_of(cluster, tier)
            assert len(name) <= 52
            assert name[0].isalpha()
            assert not name.endswith("-")
    first, other = (objects.name_of("x" * 62 + end, Tier.ON_DEMAND) for end in "yz")
    assert first != other
