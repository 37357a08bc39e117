"""The pods of a gang come together: counted by component, released at once, and rolled back when
some find no node for too long. Pure.

Its Jobs are made suspended. Once all of them are there, and nothing that they refer to is
missing, they are released. Where some pods then find no node within the gang's time-out, all Jobs
are suspended again: half a gang would hold nodes, and two halves would wait for each other for
ever. The slice tells the hub, which may place the gang elsewhere; until it does, it is tried again
here after a pause that doubles, and that differs from gang to gang, so that two of them do not meet
again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.api import raw
from federator.kinds.natives import CARRIES, POD_GROUP
from federator.kinds.verbs import Role
from federator.member.cache.rows import NativeRow
from federator.model import names, shards
from federator.model.observation import Gang, Phase, RoleFigures
from federator.status import conditions

TIMED_OUT: Final = "GangTimedOut"
"""Reason of a slice without room for all its pods together."""
PAUSE_S: Final = 60.0
"""Seconds of the first pause after a roll-back; the next is twice as long."""
LONGEST_PAUSE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class GangJobs:
    """What is known of a gang's Jobs."""

    roles: tuple[RoleFigures, ...]
    there: bool
    """All its Jobs are."""
    complete: bool
    failed: bool
    maker: str = ""
    """The kind of the controller that makes its Jobs; "" where they are the slice's own."""
    group: str = ""
    """The PodGroup that all its pods belong to; "" for none."""

    @property
    def lacks(self) -> str:
        """What its Jobs wait for before they can be released, as a sentence; "" for nothing."""
        if self.there or not self.maker:
            return ""
        return f"The {self.maker} controller has not made all Jobs yet."

    @property
    def running(self) -> bool:
        """All its pods exist, or have completed."""
        return all(role.active + role.succeeded >= role.wanted for role in self.roles)

    @property
    def ready(self) -> bool:
        return all(role.ready + role.succeeded >= role.wanted for role in self.roles)


def look(
    natives: Sequence[NativeRow], roles: Sequence[Role], completes: frozenset[str]
) -> GangJobs:
    """Sums over the Jobs of each component. One that fails for good fails the gang. Where another
    object of the slice carries the Jobs, its word on the end counts, not theirs."""
    figures: list[RoleFigures] = []
    there, complete, failed = True, True, False
    for role in roles:
        jobs = [job for job in natives if job.role == role.name and not job.deleting]
        size = sum(raw.figure(job.spec, "completions") for job in jobs)
        there = there and size >= role.count
        ended = [_is(job, "Complete") for job in jobs]
        if role.name in completes:
            complete = complete and size >= role.count and all(ended)
        broken = sum(_failed(job) for job in jobs)
        failed = failed or broken > 0
        active = sum(raw.figure(job.status, "active") for job in jobs)
        figures.append(
            RoleFigures(
                role.name,
                role.count,
                active,
                min(sum(raw.figure(job.status, "ready") for job in jobs), active),
                sum(raw.figure(job.status, "succeeded") for job in jobs),
                broken,
            )
        )
    carrier = next((native for native in natives if native.key[0] in CARRIES), None)
    if carrier is not None:
        complete = _is(carrier, "Completed") or _is(carrier, "Complete")
        failed = _is(carrier, "Failed")
        return GangJobs(tuple(figures), there, complete, failed, carrier.key[0])
    complete = complete and bool(roles)
    return GangJobs(tuple(figures), there, complete, failed, group=_group(natives))


def _group(natives: Sequence[NativeRow]) -> str:
    """The PodGroup of all Jobs, if it is there."""
    named = {native.group for native in natives if native.key[0] == "Job"}
    there = {native.key[2] for native in natives if native.key[0] == POD_GROUP}
    return min(named & there) if len(named) == 1 and named <= there else ""


def _is(job: NativeRow, kind: str) -> bool:
    return conditions.is_true(raw.items(job.status, "conditions"), kind)


def _failed(job: NativeRow) -> int:
    """Pods that have failed for good; those that are left, when the Job as a whole has failed."""
    named = shards.size(shards.normal(raw.ranges(job.status, "failedIndexes")))
    if named or not _is(job, "Failed"):
        return named
    left = raw.figure(job.spec, "completions") - raw.figure(job.status, "succeeded")
    return max(left, 1)


@dataclass(frozen=True, slots=True)
class Moment:
    """What the next phase depends on, beside what is seen of the Jobs."""

    now_s: float
    """Epoch seconds."""
    timeout_s: float
    ready_to_begin: bool
    """Everything that the slice is expanded to is there, and nothing it refers to is missing."""
    waiting_since_s: float | None
    """Since when some pods find no node; None while none waits."""
    uid: str
    """Of the workload: spreads the pauses of gangs that were rolled back together."""


def advance(before: Gang, seen: GangJobs, moment: Moment) -> tuple[Gang, float]:
    """(the gang now, seconds until it has to be looked at again; infinity for never)."""
    now = replace(before, roles=seen.roles, group=seen.group)
    phase, wait_s = before.phase, math.inf
    if phase is Phase.ADMITTING:
        if moment.ready_to_begin and seen.there:
            return _in(now, Phase.RELEASED, moment), math.inf
    elif phase is Phase.ROLLED_BACK:
        wait_s = before.since_s + pause_s(before.attempts, moment.uid) - moment.now_s
        if wait_s <= 0:
            return _in(now, Phase.RELEASED, moment), math.inf
    elif seen.ready and moment.waiting_since_s is None:
        if phase is not Phase.RUNNING:
            return _in(now, Phase.RUNNING, moment), math.inf
    elif moment.waiting_since_s is not None:
        since_s = max(before.since_s, moment.waiting_since_s)
        wait_s = since_s + moment.timeout_s - moment.now_s
        if wait_s <= 0:
            now = replace(now, attempts=before.attempts + 1)
            return _in(now, Phase.ROLLED_BACK, moment), pause_s(now.attempts, moment.uid)
    return now if now.since_s else replace(now, since_s=moment.now_s), wait_s


def _in(gang: Gang, phase: Phase, moment: Moment) -> Gang:
    return replace(gang, phase=phase, since_s=moment.now_s)


def pause_s(attempts: int, uid: str) -> float:
    """Seconds before a gang is tried again after so many roll-backs.

    the first: between 60 and 120, the second: between 120 and 240, at most between 3,600 and 7,200
    """
    base_s = min(PAUSE_S * 2.0 ** min(max(attempts - 1, 0), 16), LONGEST_PAUSE_S)
    return base_s * (1 + names.stable_order(f"{uid}/{attempts}") % 1000 / 1000)


def why_rolled_back(gang: Gang, uid: str) -> tuple[str, str]:
    """Why a gang that was rolled back does not run: reason and message; empty for any other."""
    if gang.phase is not Phase.ROLLED_BACK:
        return "", ""
    times = "once" if gang.attempts == 1 else f"{gang.attempts} times"
    again = raw.rfc3339(gang.since_s + pause_s(gang.attempts, uid))
    return TIMED_OUT, (
        f"Some of its {sum(role.wanted for role in gang.roles)} pods found no node in time, {times}"
        " so far; all gave theirs back, so that none waits for the others, and are tried again"
        f" here at {again}."
    )
