"""When a job set ends, and how: the rules that its owner gives, and the judgement on its shards.

Shards of one job set run in several clusters, so only the hub can judge: a member sees its own
part. Pure. Facts only grow (a completed shard stays completed), and success is looked at first, so
an ending that is due stays due whatever is reported later.
"""

from dataclasses import dataclass
from typing import Final

from federator.model import shards
from federator.model.shards import Ranges

ALL_COMPLETED: Final = "AllShardsCompleted"
ANY_COMPLETED: Final = "AnyShardCompleted"
POLICY_MET: Final = "SuccessPolicyMet"
FAILED: Final = "ShardsFailed"
UNREACHABLE: Final = "SuccessPolicyUnreachable"
TOO_MANY_FAILED: Final = "MaxFailedShardsExceeded"
FAILURE_POLICY: Final = "PodFailurePolicy"
DEADLINE: Final = "DeadlineExceeded"
EARLY: Final = frozenset(
    {ANY_COMPLETED, POLICY_MET, UNREACHABLE, TOO_MANY_FAILED, FAILURE_POLICY, DEADLINE}
)
"""Reasons of an ending that does not follow from shards that are all done: recorded once, it is
final."""


@dataclass(frozen=True, slots=True)
class Success:
    """Completed shards that suffice."""

    need: int
    among: Ranges = ()
    """The shards that are counted; all of them when empty."""
    any_one: bool = False
    """It was asked for as completion Any."""


@dataclass(frozen=True, slots=True)
class EndRules:
    """When a job set ends before all its shards are done, and how long it stays afterwards."""

    success: Success | None = None
    max_failed: int | None = None
    """More failed shards than this end it; None: the others run on."""
    fails_at_once: bool = False
    """Its failure policy has a rule by which one pod ends it."""
    deadline_s: int | None = None
    """Seconds after its first shard began."""
    ttl_s: int | None = None
    """Seconds after its end at which it is deleted; None: it stays."""


NO_RULES: Final = EndRules()
"""It ends when all its shards are done, and stays."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job set has ended."""

    complete: bool
    """True: it did what was asked; False: it failed."""
    reason: str
    message: str = ""
    """The cause as a part of a sentence; "" where the numbers of shards say it."""


def judge(
    rules: EndRules,
    count: int,
    completed: Ranges,
    failed: Ranges,
    *,
    broken: str = "",
    overdue: bool = False,
) -> Ending | None:
    """How a job set of `count` shards has ended; None while it has not. `completed` and `failed`
    are disjoint. `broken`: what a member tells of a pod that matched the failure policy. `overdue`:
    its deadline is over.

        4 shards, two of them suffice; 0 and 3 completed, 1 failed -> complete (SuccessPolicyMet)
    """
    every: Ranges = ((0, count - 1),) if count > 0 else ()
    success = rules.success
    counted = shards.intersect(success.among, every) if success and success.among else every
    if success is not None and shards.size(shards.intersect(completed, counted)) >= success.need:
        return Ending(True, ANY_COMPLETED if success.any_one else POLICY_MET)
    if rules.fails_at_once and broken:
        return Ending(False, FAILURE_POLICY, broken)
    if overdue and rules.deadline_s is not None:
        return Ending(False, DEADLINE, f"it ran for more than {rules.deadline_s} seconds")
    lost = shards.size(failed)
    if rules.max_failed is not None and lost > rules.max_failed:
        return Ending(False, TOO_MANY_FAILED, f"at most {rules.max_failed} shards may fail")
    if success is not None and shards.size(shards.minus(counted, failed)) < success.need:
        return Ending(False, UNREACHABLE, f"{success.need} shards must be completed")
    if count > 0 and shards.size(completed) + lost >= count:
        return Ending(False, FAILED) if failed else Ending(True, ALL_COMPLETED)
    return None
