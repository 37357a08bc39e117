"""What a turn of a slice came to, in words: made by `expanding`, told by `rolling`.

Pure. A conflict or a refusal is a finished result: a person has to act. A failed write is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from federator.kube import errors
from federator.member.cache.rows import NativeKey
from federator.member.expansion.comparing import Plan
from federator.model.observation import MISSING, RESTORED
from federator.status.conditions import FALSE, TRUE, Condition

CONFLICT: Final = "Conflict"
FAILED: Final = "ExpansionFailed"
NOT_ALLOWED: Final = "ServiceAccountNotAllowed"
"""The namespace does not list the pods' service account for the project."""
STUBBORN: Final = "CannotConverge"
ENDING: Final = "NamespaceTerminating"

DRIFT_REPEAT_S: Final = 600.0
"""Least seconds before drift of the same object is reported again."""

OWNED: Final = ("Ready", "Expanded", CONFLICT, MISSING, "Stalled", "Failed")
"""Condition types that a member process sets on a slice."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What keeps a slice's natives from being as they should; empty when nothing does."""

    reason: str = ""
    message: str = ""
    conflict: str = ""
    missing: str = ""
    waits_for: frozenset[NativeKey] = frozenset()
    """Objects that cause another turn when they come or go."""
    failure: errors.ApiError | None = None
    """A write failed; the queue tries again."""
    final: bool = False
    """Nothing more is tried until something changes."""


@dataclass(frozen=True, slots=True)
class Result:
    """The last turn of one slice. `observed`: the caches show what this generation leads to, or why
    it leads nowhere."""

    uid: str
    generation: int
    judgement: Judgement
    observed: bool
    restored: str = ""
    """What was last put back after another client had changed or deleted it, and when, as a
    sentence. The condition outlives this process, so it says when it was."""


def judge(
    plan: Plan,
    missing: Sequence[NativeKey],
    outcomes: Sequence[tuple[NativeKey, errors.ApiError | None]],
) -> Judgement:
    """The most serious finding first: an object of others, a refusal, a fight, a missing
    reference."""
    conflicts = list(plan.conflicts)
    refusal, ending, failure = "", "", None
    for key, error in outcomes:
        if errors.ends_namespace(error):
            ending = (
                f"The namespace {key[1]} is being deleted; "
                f"{named(key)} is made when the namespace is there again."
            )
        elif isinstance(error, errors.Invalid | errors.Denied):
            refusal = refusal or f"{named(key)} was refused: {error}"
        failure = failure or error
    conflict = (
        f"{named(conflicts[0])} exists and belongs to somebody else; it is left as it is."
        if conflicts
        else ""
    )
    absent = f"Not found: {', '.join(named(key) for key in missing[:5])}." if missing else ""
    reason, message = "", ""
    if conflict:
        reason, message = CONFLICT, conflict
    elif refusal:
        reason, message = FAILED, refusal
    elif ending:
        reason, message = ENDING, ending
    elif plan.stubborn:
        reason, message = (
            STUBBORN,
            f"{named(plan.stubborn[0])} does not keep what is written into it.",
        )
    elif absent:
        reason, message = MISSING, absent
    return Judgement(
        reason=reason,
        message=message,
        conflict=conflict,
        missing=absent,
        waits_for=frozenset([*conflicts, *missing, *plan.ending, *plan.taken]),
        failure=failure,
        final=bool(conflict or refusal or plan.stubborn),
    )


def conditions_of(result: Result) -> list[Condition]:
    """What the expansion says on the slice: Expanded always, the abnormal ones only when they
    hold."""
    judgement, generation = result.judgement, result.generation
    blocked = judgement.reason if judgement.reason != MISSING or judgement.final else ""
    if blocked:
        conditions = [Condition("Expanded", FALSE, blocked, judgement.message, generation)]
    elif result.observed:
        conditions = [
            Condition(
                "Expanded", TRUE, "Expanded", "Every native object is as it should be.", generation
            )
        ]
    else:
        conditions = [
            Condition(
                "Expanded", FALSE, "Applying", "Native objects are being written.", generation
            )
        ]
    if judgement.conflict:
        conditions.append(
            Condition(CONFLICT, TRUE, "ForeignObject", judgement.conflict, generation)
        )
    if result.restored:
        conditions.append(Condition(RESTORED, TRUE, "PutBack", result.restored, generation))
    missing = judgement.missing or (judgement.message if judgement.reason == MISSING else "")
    if missing:
        conditions.append(Condition(MISSING, TRUE, "NotFound", missing, generation))
    return conditions


def named(key: NativeKey) -> str:
    """`ConfigMap feed/web-config`, or `PriorityClass high`."""
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
