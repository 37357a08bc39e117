"""The stages of one probe of a cluster, in one tier: what was seen -> what to do next.

A small service is placed in the cluster, becomes ready, is reached through its Service by a job set
in the same cluster, is rolled to another revision, and is removed with the job set. Each stage has
a deadline. A probe that cannot go on ends with a verdict, and removes what it made.

When a probe is due follows from what MemberCluster and standards say (`due`).

Pure: time is an argument, in monotonic seconds, of `due` in epoch seconds. Effects are data (`Do`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from federator.api import raw
from federator.model.ask import Tier
from federator.model.decision import Reason


class Stage(StrEnum):
    """What a probe waits for, in order."""

    PLACED = "Placed"
    """The hub has given the service to the cluster."""
    READY = "Ready"
    """Its copy is ready there."""
    REACHED = "Reached"
    """A Job in the cluster has reached it through its Service."""
    ROLLED = "Rolled"
    """A copy of its next revision is ready there."""
    REMOVED = "Removed"
    """Service and job set are gone from the cluster and from the host."""


class Result(StrEnum):
    """What came of a probe, the worst last."""

    PASSED = "Passed"
    NOT_RUN = "NotRun"
    """Something outside of the cluster prevented it: it says nothing of the cluster."""
    BUSY = "Busy"
    """The cluster has no room for it now, and would have if it were empty."""
    FAILED = "Failed"
    """The cluster did not do what was asked of it."""


SEVERITY: Final = tuple(Result)
AFTER: Final[Mapping[Stage, Stage]] = dict(zip(Stage, list(Stage)[1:], strict=False))
WITHIN_S: Final[Mapping[Stage, float]] = {
    Stage.PLACED: 60.0,
    Stage.READY: 180.0,
    Stage.REACHED: 180.0,
    Stage.ROLLED: 180.0,
    Stage.REMOVED: 180.0,
}
"""Seconds that each stage may take: an image is pulled in READY, and perhaps on another node in the
two after it."""
REFUSED_S: Final = 15.0
"""A refusal that is not about the cluster's state ends the probe after so long: the quota of the
probe before may still be charged."""
_OF_THE_CLUSTER: Final = frozenset(
    {
        Reason.API_NOT_AVAILABLE,
        Reason.CLUSTER_UNHEALTHY,
        Reason.CLUSTER_UNTRUSTWORTHY,
        Reason.CLUSTER_STALE,
    }
)
"""Reasons of the hub against the cluster that make a probe fail."""
_OF_ROOM: Final = frozenset(
    {Reason.INSUFFICIENT_CAPACITY, Reason.UNSCHEDULABLE, Reason.PREEMPTED, Reason.AT_MAXIMUM}
)
_MAY_PASS: Final = _OF_THE_CLUSTER | _OF_ROOM | {Reason.PENDING_EVALUATION}


@dataclass(frozen=True, slots=True)
class Work:
    """The service or the job set of a probe, as the host shows it."""

    generation: int = 1
    observed: int = 0
    """The generation that its status speaks about: every member with a share has observed it."""
    placed: int = 0
    actual: int = 0
    """Copies that exist, ready or not."""
    ready: int = 0
    updated: int = 0
    """Copies of the present revision, ready or not."""
    done: int = 0
    """Shards that are completed."""
    failed: int = 0
    """Shards that have failed permanently."""
    refusal: str = ""
    """The reason why it is not placed, of `Reason`; "" while it is placed, or was not judged."""
    unschedulable: bool = False
    """The member's scheduler found no node for its pod."""
    message: str = ""
    """Why it is not ready, as a sentence."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the cluster last reported, for the pod of a probe."""

    fits: bool
    """A node has room for it now."""
    could: bool
    """A node would have room for it if it were empty."""


@dataclass(frozen=True, slots=True)
class ProbeSight:
    """A probe as it is seen now."""

    service: Work | None = None
    """None: there is no such object on the host."""
    jobs: Work | None = None
    traces: bool = False
    """A decision on one of them is still there: the cluster may hold something."""
    room: Room | None = None
    """None: the cluster has reported nothing."""
    silence: str = ""
    """Why the cluster is not heard, as a part of a sentence; "" while it is."""
    halted: str = ""
    """Why the probe is to end now, as a sentence; "" when it may go on."""


@dataclass(frozen=True, slots=True)
class ProbeEnd:
    """How a probe ended. `stage` is the one that was not passed."""

    result: Result
    stage: Stage | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of one cluster in one tier."""

    tier: Tier
    since_s: float
    """When its stage began, in monotonic seconds."""
    stage: Stage = Stage.PLACED
    rolled: int = 0
    """Generation of the service with its next revision; 0 before it was written."""
    verdict: ProbeEnd | None = None
    """Set when it is known; what was made is removed after that."""
    over: bool = False
    """Everything is removed, or was not in time."""


class Do(StrEnum):
    """What to do next. Each is safe to repeat."""

    MAKE_SERVICE = "make the service"
    MAKE_JOBS = "make the job set"
    ROLL = "write the next revision of the service"
    REMOVE = "delete both"


def begun(tier: Tier, now_s: float) -> Probe:
    return Probe(tier, now_s)


def step(probe: Probe, seen: ProbeSight, now_s: float) -> tuple[Probe, Do | None]:
    """The probe after a look, and what to do now."""
    if probe.over:
        return probe, None
    if probe.stage is not Stage.REMOVED:
        verdict = _ended(probe, seen, now_s)
        if verdict is not None:
            probe = ended(probe, verdict, now_s)
        elif passed(probe, seen):
            probe = replace(probe, stage=AFTER[probe.stage], since_s=now_s)
    if probe.stage is Stage.REMOVED:
        return _removing(probe, seen, now_s)
    return probe, _due(probe, seen)


def ended(probe: Probe, verdict: ProbeEnd, now_s: float) -> Probe:
    """The probe with its verdict: what is left is to remove what it made."""
    return replace(probe, stage=Stage.REMOVED, since_s=now_s, verdict=verdict)


def refused(probe: Probe, why: str, now_s: float) -> Probe:
    """The host does not take what the probe writes."""
    message = f"The host refuses the probe: {why}"
    return ended(probe, ProbeEnd(Result.NOT_RUN, probe.stage, message), now_s)


def rolled(probe: Probe, generation: int) -> Probe:
    """The next revision was written, as this generation of the service."""
    return replace(probe, rolled=generation)


def passed(probe: Probe, seen: ProbeSight) -> bool:
    """Whether what the probe waits for has come, by what the member itself reports."""
    service, jobs = seen.service, seen.jobs
    if service is None:
        return False
    if probe.stage is Stage.PLACED:
        return service.placed > 0
    if probe.stage is Stage.REACHED:
        return jobs is not None and jobs.done > 0
    return _runs(service, 1 if probe.stage is Stage.READY else probe.rolled)


def _runs(service: Work, generation: int) -> bool:
    """Whether a copy of this generation, or a later one, is ready: all copies are, and none is of
    an earlier revision."""
    if not 0 < generation <= min(service.observed, service.generation):
        return False
    return 0 < service.updated == service.actual == service.ready


def _due(probe: Probe, seen: ProbeSight) -> Do | None:
    if seen.service is None:
        return Do.MAKE_SERVICE if probe.stage is Stage.PLACED else None
    if probe.stage is Stage.REACHED and seen.jobs is None:
        return Do.MAKE_JOBS
    if probe.stage is Stage.ROLLED and not probe.rolled:
        return Do.ROLL
    return None


def _ended(probe: Probe, seen: ProbeSight, now_s: float) -> ProbeEnd | None:
    """The verdict on a probe that cannot go on; None while it may."""
    if seen.halted:
        return ProbeEnd(Result.NOT_RUN, probe.stage, seen.halted)
    waited_s, stage = now_s - probe.since_s, probe.stage
    service, jobs = seen.service, seen.jobs
    if service is None and stage is not Stage.PLACED:
        return ProbeEnd(Result.NOT_RUN, stage, "Somebody deleted the service of the probe.")
    if stage is Stage.REACHED and jobs is not None and jobs.failed:
        why = f" {jobs.message}" if jobs.message else ""
        return ProbeEnd(Result.FAILED, stage, f"A Job could not reach the Service.{why}")
    if stage is Stage.PLACED and service is not None and _never(service, waited_s):
        return ProbeEnd(Result.NOT_RUN, stage, service.message)
    if waited_s < WITHIN_S[stage] or passed(probe, seen):
        return None
    return _missed(stage, seen)


def _never(service: Work, waited_s: float) -> bool:
    """Whether it is not placed for a reason that lies outside of the cluster and lasts."""
    return waited_s > REFUSED_S and bool(service.refusal) and service.refusal not in _MAY_PASS


def _missed(stage: Stage, seen: ProbeSight) -> ProbeEnd:
    """The verdict at the deadline of a stage: busy, or broken."""
    work = seen.jobs if stage is Stage.REACHED else seen.service
    within = f"not {stage.value.lower()} within {WITHIN_S[stage]:g} s"
    if seen.silence:
        return ProbeEnd(Result.FAILED, stage, f"The probe was {within}: {seen.silence}.")
    if work is None:
        return ProbeEnd(Result.NOT_RUN, stage, f"The probe was {within}: the host has no object.")
    message = f"The probe was {within}. {work.message}".strip()
    if _for_room(stage, work, seen.room):
        return ProbeEnd(Result.BUSY, stage, message)
    if seen.room is not None and not seen.room.could and work.refusal in _OF_ROOM:
        message = f"No node could take the probe if it were empty. {message}"
    return ProbeEnd(Result.FAILED, stage, message)


def _for_room(stage: Stage, work: Work, room: Room | None) -> bool:
    """Whether only room is lacking. A scheduler that finds no node although the cluster reports
    room is broken, and so is a cluster without a node that could take a pod."""
    if room is None or not room.could:
        return False
    if work.placed == 0:
        return work.refusal in _OF_ROOM
    return work.unschedulable and not room.fits


def _removing(probe: Probe, seen: ProbeSight, now_s: float) -> tuple[Probe, Do | None]:
    if seen.service is None and seen.jobs is None and not seen.traces:
        return replace(probe, over=True, verdict=probe.verdict or ProbeEnd(Result.PASSED)), None
    if now_s - probe.since_s >= WITHIN_S[Stage.REMOVED]:
        message = "What the probe made was not removed within"
        message = f"{message} {WITHIN_S[Stage.REMOVED]:g} s; the hub goes on removing it."
        late = ProbeEnd(Result.FAILED, Stage.REMOVED, message)
        return replace(probe, over=True, verdict=probe.verdict or late), Do.REMOVE
    return probe, Do.REMOVE


RETRY_S: Final = 60.0
"""A cluster that waits at its gate is probed again so long after a probe that did not pass."""


class Cause(StrEnum):
    """Why a probe begins."""

    ASKED = "asked"
    GATE = "gate"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked of one cluster now."""

    request: str = ""
    """A request that was not dealt with; "" for none."""
    waits: bool = False
    """It takes no work until it has passed a probe, and is ready by its own status."""
    every_s: float = 0.0
    """Seconds between two probes; 0: no schedule."""


def due(want: Want, last: Mapping[str, Any], now_s: float) -> tuple[Cause | None, float]:
    """Why a probe is due now, else None and the seconds until one is; infinity when none will be.
    `last`: `status.probe`."""
    if want.request:
        return Cause.ASKED, 0.0
    text = raw.text(last, "finishedAt")
    finished_s = raw.epoch_s(text) if text else -math.inf
    waits: dict[Cause, float] = {}
    if want.waits:
        waits[Cause.GATE] = finished_s + RETRY_S - now_s
    if want.every_s:
        waits[Cause.SCHEDULE] = finished_s + want.every_s - now_s
    if not waits:
        return None, math.inf
    cause, left_s = min(waits.items(), key=lambda entry: entry[1])
    return (cause, 0.0) if left_s <= 0 else (None, left_s)
