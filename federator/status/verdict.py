"""Judges the figures of a fold: conditions, one line for tables, and what keeps the workload from
being settled.

Used by `fold` only. Rules (kstatus): Reconciling=True while something is in progress; Stalled=True
when it cannot continue until a person changes something; a shortfall with a reason is settled;
Unknown is never settled.
"""

from collections.abc import Sequence
from typing import Final

from federator.model import ending, plaintext, shards
from federator.model.ask import Unit
from federator.model.decision import REFUSALS, Reason
from federator.model.ending import Ending
from federator.model.observation import SliceObservation
from federator.status import conditions
from federator.status.conditions import Condition, truth
from federator.status.facts import DecisionInput, Facts, Row

STALLING: Final = frozenset(
    {
        Reason.MISCONFIGURED,
        Reason.HOST_WOULD_RUN_IT,
        *REFUSALS,
        Reason.PRIORITY_EXCEEDS_MAX,
        Reason.EXCEEDS_MAX_QUOTA,
        Reason.NOT_ALLOWED,
        Reason.API_NOT_AVAILABLE,
        Reason.NO_MATCHING_CLUSTER,
        Reason.NO_CLUSTER_ADMITTED,
        Reason.NOT_SELECTED,
    }
)
"""Reasons for a shortfall that waiting cannot resolve; the others (room, quota in use, an unready
cluster) may."""

STALLING_IN_MEMBER: Final = frozenset(
    {"Conflict", "CannotConverge", "ExpansionFailed", "ServiceAccountNotAllowed"}
)
"""Reasons from a member process that only a person can resolve."""

DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"

OWNED: Final = (
    "Ready",
    "Available",
    "Placed",
    "Applied",
    "Healthy",
    "Reconciling",
    "Stalled",
    "QuotaUnlimited",
    "ProjectRefused",
    "Reclaiming",
    "ProfileHeldBack",
    "RuntimePinned",
    "MovesWithoutRoom",
    "DecisionRefused",
    "SpreadViolated",
    "Suspended",
    "Paused",
    "Complete",
    "Failed",
)
"""Every condition type that a fold may set; for `conditions.merge`."""

RUNTIME_PINNED: Final = "RuntimePinned"
UNPLACED: Final = "It has not been placed yet."
HALTED: Final = "spec.paused is true: no pods of a changed template are made"
HALTED_REASON: Final = "DeploymentPaused"
PAUSED: Final = " The federation is paused: nothing is placed or changed until that is over."


def waiting_for(facts: Facts) -> str:
    """The first thing that keeps the workload from being settled, as a sentence; "" when it is
    settled."""
    wanted, placing, tally = facts.wanted, facts.placing, facts.tally
    if wanted.deleting:
        return "It is being deleted."
    if facts.left_alone:
        return _waiting_left_alone(facts)
    if placing is None:
        return f"{UNPLACED}{PAUSED if wanted.paused is not None else ''}"
    if not placing.current and wanted.paused is not None:
        return f"What it was placed for has changed.{PAUSED}"
    if not placing.current:
        return "What it was placed for has changed; it is being placed again."
    if facts.in_flight:
        cluster = min(facts.in_flight)
        return f"{cluster}: {facts.in_flight[cluster]}."
    if facts.refusals:
        return f"{facts.refusals[0].cluster} refused it: {facts.refusals[0].message}"
    if facts.leftovers:
        return (
            f"{_names(facts.leftovers)} still {_verb(facts.leftovers, 'holds', 'hold')} copies"
            " that belong elsewhere."
        )
    if tally.finished and not (tally.stopped and (stopping := _stopping(facts))):
        return ""
    if tally.finished:
        return stopping
    if unheard := [row for row in facts.rows if not row.known]:
        return f"{_sentence(_not_heard(unheard))}."
    if behind := [row for row in facts.shared_rows if not row.caught_up]:
        return (
            f"{_names(behind)} {_verb(behind, 'has', 'have')} not observed generation"
            f" {wanted.generation} yet."
        )
    if not tally.exact:
        return f"{_progress(facts)}; {HALTED}." if wanted.halted else f"{_progress(facts)}."
    return ""


def _stopping(facts: Facts) -> str:
    """What still runs, or may, of shards that nobody waits for any more."""
    if unheard := [row for row in facts.shared_rows if not row.known and row.active]:
        return f"{_sentence(_not_heard(unheard))}: shards may still run there."
    if running := [row for row in facts.shared_rows if row.active]:
        return f"{_names(running)} {_verb(running, 'is', 'are')} still stopping shards."
    return ""


def _waiting_left_alone(facts: Facts) -> str:
    """Nothing is changed, so all there is to wait for is to be heard, and what runs to stand."""
    if unheard := [row for row in facts.rows if not row.known]:
        return f"{_sentence(_not_heard(unheard))}."
    as_decided = facts.tally.finished or facts.tally.exact or not facts.shared_rows
    return "" if as_decided else f"{_progress(facts)}."


def conditions_of(facts: Facts, waiting: str) -> tuple[Condition, ...]:
    """All conditions of the workload, the summary first."""
    stalled = _stalled(facts)
    reconciling = bool(waiting) and stalled.status != conditions.TRUE
    generation = facts.observed_generation
    result = [
        _ready(facts),
        _placed(facts),
        _applied(facts),
        _healthy(facts),
        Condition(
            "Reconciling",
            truth(reconciling),
            _reconciling_reason(facts)
            if reconciling
            else "Settled"
            if not waiting
            else stalled.reason,
            waiting if reconciling else "",
            generation,
        ),
        stalled,
        *_available(facts),
    ]
    result.extend(_notices(facts))
    return tuple(result)


def summary(facts: Facts) -> str:
    """One short line for tables, with numbers. Where the message of the decision is too long, its
    reason stands for it, and comes first where the line would be cut in the reason."""
    text, placing = _summary(facts), facts.placing
    reason = next((seen.reason for seen in facts.tally.unhealthy if seen.reason), "")
    if (
        len(text) > plaintext.STATUS_MAX
        and placing is not None
        and placing.reason is not Reason.CHOSEN
    ):
        if text == placing.message:
            text = f"placed {facts.placed} of {facts.placed + placing.shortfall}: {text}"
        reason = placing.reason.value
        if placing.message:
            text = text.replace(placing.message, reason)
    if len(text) > plaintext.STATUS_MAX and reason and text.endswith((reason, f"({reason})")):
        rest = text.removesuffix(f"({reason})").removesuffix(reason).rstrip(" :;")
        text = f"{reason}: {rest}"
    return plaintext.clipped(text, plaintext.STATUS_MAX)


def _ready(facts: Facts) -> Condition:
    wanted, placing, tally = facts.wanted, facts.placing, facts.tally

    def ready(value: bool | None, reason: str, message: str) -> Condition:
        return Condition("Ready", truth(value), reason, message, facts.observed_generation)

    if tally.finished:
        if tally.has_failed:
            return ready(False, "Failed", f"{_summary(facts)}.")
        return ready(True, "Completed", f"{_summary(facts)}.")
    if wanted.suspended and not facts.shared_rows:
        return ready(False, Reason.SUSPENDED.value, "It is suspended, and was not placed before.")
    if placing is None:
        return ready(None, Reason.PENDING_EVALUATION.value, UNPLACED)
    if placing.held_back:
        return ready(False, placing.reason.value, placing.message)
    short = placing.short
    if tally.current_lo >= tally.need and not short:
        return ready(True, "Ready", f"{_progress(facts)}.")
    if wanted.halted and not short and tally.current_hi < tally.need:
        return ready(False, HALTED_REASON, f"{_progress(facts)}; {HALTED}.")
    if tally.current_hi < tally.need or short:
        if short and (
            tally.ready_lo >= facts.placed or not facts.rows or wanted.unit is Unit.SHARDS
        ):
            return ready(False, placing.reason.value, placing.message)
        if tally.unhealthy and (seen := next((o for o in tally.unhealthy if o.reason), None)):
            return ready(False, seen.reason, f"{_progress(facts)}; {seen.cluster}: {seen.message}")
        return ready(False, "RollingOut" if tally.old else "Progressing", f"{_progress(facts)}.")
    unheard = [row for row in facts.rows if not row.known]
    return ready(None, "ClusterUnknown", f"{_progress(facts)}; {_not_heard(unheard)}.")


def _available(facts: Facts) -> list[Condition]:
    """Whether enough copies serve, of whatever template: what alerts are made from. Only for
    replicas that may take each other's place."""
    wanted, tally = facts.wanted, facts.tally
    if wanted.unit is not Unit.REPLICAS or wanted.every_node or facts.placing is None:
        return []
    count = wanted.count
    if wanted.scaled:
        count = sum(share.count for share in facts.placing.shares)
    floor = max(count - wanted.max_unavailable, 0)
    status = True if tally.ready_lo >= floor else False if tally.ready_hi < floor else None
    reason = {
        True: "MinimumReplicasAvailable",
        False: "MinimumReplicasUnavailable",
        None: "ClusterUnknown",
    }[status]
    ready, least = (max(n - tally.idle, 0) for n in (tally.ready_lo, floor))
    message = f"{ready} ready copies of at least {least}."
    return [Condition("Available", truth(status), reason, message, facts.observed_generation)]


def _placed(facts: Facts) -> Condition:
    placing, wanted = facts.placing, facts.wanted
    if placing is None:
        return Condition("Placed", conditions.UNKNOWN, Reason.PENDING_EVALUATION.value, UNPLACED)
    generation = wanted.generation if placing.current else facts.observed_generation
    if placing.held_back:
        return Condition(
            "Placed", conditions.FALSE, placing.reason.value, placing.message, generation
        )
    if placing.short:
        message = placing.message if placing.unreadable else _shortfall(facts, placing)
        return Condition("Placed", conditions.FALSE, placing.reason.value, message, generation)
    if placing.misplaced or placing.slower:
        return Condition(
            "Placed", conditions.FALSE, placing.reason.value, placing.message, generation
        )
    if wanted.suspended and not facts.placed:
        return Condition(
            "Placed", conditions.FALSE, Reason.SUSPENDED.value, "It is suspended.", generation
        )
    if placing.to_move:
        return Condition("Placed", conditions.TRUE, "MovesPending", placing.message, generation)
    if placing.surplus:
        return Condition("Placed", conditions.TRUE, "CopiesKept", placing.message, generation)
    if placing.scaling:
        return Condition("Placed", conditions.TRUE, "ScalingUp", placing.scaling, generation)
    clusters = len([share for share in placing.shares if share.count > 0])
    if wanted.every_node:
        message = f"Every cluster that admits it has it: {_clusters(clusters)}."
        return Condition("Placed", conditions.TRUE, "Placed", message, generation)
    message = (
        f"All {facts.placed} {_things(facts, facts.placed)} have a place, in {_clusters(clusters)}."
    )
    return Condition("Placed", conditions.TRUE, "Placed", message, generation)


def _applied(facts: Facts) -> Condition:
    def applied(value: bool | None, reason: str, message: str) -> Condition:
        return Condition("Applied", truth(value), reason, message, facts.observed_generation)

    if facts.refusals:
        worst = next(
            (refusal for refusal in facts.refusals if refusal.permanent), facts.refusals[0]
        )
        others = f" (and {len(facts.refusals) - 1} more)" if len(facts.refusals) > 1 else ""
        return applied(False, worst.reason, f"{worst.cluster} refused it{others}: {worst.message}")
    if facts.placing is None:
        return applied(None, Reason.PENDING_EVALUATION.value, UNPLACED)
    if facts.leftovers:
        return applied(False, "Leaving", f"{_names(facts.leftovers)} still to be emptied.")
    behind = [row for row in facts.shared_rows if not row.applied]
    total = len(facts.shared_rows)
    if behind and facts.placing.refused:
        return applied(False, facts.placing.reason.value, facts.placing.message)
    if any(row.known for row in behind):
        return applied(
            False,
            "Applying",
            f"{total - len(behind)} of {_clusters(total)} have the present generation and share.",
        )
    if behind:
        return applied(None, "ClusterUnknown", f"{_sentence(_not_heard(behind))}.")
    if not total:
        return applied(
            True, "NothingPlaced", "No cluster has a share, so there is nothing to apply."
        )
    return applied(
        True,
        "Applied",
        f"{_clusters(total)} {'has' if total == 1 else 'have'} the present generation and share.",
    )


def _healthy(facts: Facts) -> Condition:
    def healthy(value: bool | None, reason: str, message: str) -> Condition:
        return Condition("Healthy", truth(value), reason, message, facts.observed_generation)

    if facts.tally.finished:
        return healthy(not facts.tally.has_failed, "Finished", f"{_summary(facts)}.")
    if facts.tally.unhealthy:
        first = next(
            (seen for seen in facts.tally.unhealthy if seen.reason), facts.tally.unhealthy[0]
        )
        others = len(facts.tally.unhealthy) - 1
        more = f" ({_clusters(others)} more)" if others else ""
        return healthy(
            False,
            first.reason or "Progressing",
            f"{first.cluster}{more}: {first.message or 'not healthy yet.'}",
        )
    if facts.placing is None:
        return healthy(None, Reason.PENDING_EVALUATION.value, UNPLACED)
    unheard = [row for row in facts.rows if not row.known]
    if unheard:
        return healthy(None, "ClusterUnknown", f"{_sentence(_not_heard(unheard))}.")
    if not facts.shared_rows:
        return healthy(True, "NothingPlaced", "No cluster has a share, so nothing can be ill.")
    if not facts.tally.exact:
        return healthy(False, "Progressing", f"{_progress(facts)}.")
    return healthy(True, "Healthy", f"{_progress(facts)}.")


def _stalled(facts: Facts) -> Condition:
    def stalled(reason: str, message: str) -> Condition:
        return Condition("Stalled", conditions.TRUE, reason, message, facts.observed_generation)

    placing = facts.placing
    lacking = placing is not None and (placing.short or placing.misplaced or placing.held_back)
    if placing is not None and lacking and placing.reason in STALLING:
        return stalled(placing.reason.value, placing.message)
    permanent = next((refusal for refusal in facts.refusals if refusal.permanent), None)
    if permanent is not None:
        return stalled(permanent.reason, f"{permanent.cluster}: {permanent.message}")
    for seen in facts.tally.unhealthy:
        if seen.reason in STALLING_IN_MEMBER:
            return stalled(seen.reason, f"{seen.cluster}: {seen.message}")
    if late := timed_out(facts):
        return stalled(late[0].reason or DEADLINE_EXCEEDED, _deadline(late))
    if facts.tally.has_failed:
        return stalled("Failed", f"{_summary(facts)}.")
    return Condition("Stalled", conditions.FALSE, "NotStalled", "", facts.observed_generation)


def timed_out(facts: Facts) -> list[SliceObservation]:
    """Clusters in which a roll-out of the present template has made no progress for as long as it
    may. One that has a template before is about to be told the present one."""
    carrying = {row.cluster for row in facts.shared_rows if row.applied}
    return [seen for seen in facts.tally.unhealthy if seen.stalled and seen.cluster in carrying]


def _deadline(late: Sequence[SliceObservation]) -> str:
    others = f" ({_clusters(len(late) - 1)} more)" if len(late) > 1 else ""
    return (
        f"{late[0].cluster}{others} made no progress within the deadline:"
        f" {late[0].message or 'no reason is known.'}"
    )


def _notices(facts: Facts) -> list[Condition]:
    notices: list[Condition] = []
    generation = facts.observed_generation
    if facts.placing is not None:
        notices += _of_placing(facts.placing, generation)
    if (pin := facts.wanted.pin) is not None:
        status = conditions.TRUE if pin.holds else conditions.FALSE
        notices.append(Condition(RUNTIME_PINNED, status, pin.reason, pin.message, generation))
    if facts.wanted.paused is not None:
        message = (
            f"The federation is paused{facts.wanted.paused}: nothing is placed or changed; what"
            " runs goes on."
        )
        notices.append(Condition("Paused", conditions.TRUE, "Paused", message, generation))
    if facts.wanted.suspended:
        message = "spec.suspend is true: nothing is placed, moved or changed."
        notices.append(
            Condition("Suspended", conditions.TRUE, Reason.SUSPENDED.value, message, generation)
        )
    if (ended := facts.tally.ending) is not None:
        kind = "Complete" if ended.complete else "Failed"
        text = f"{_ended(facts, ended)}."
        notices.append(Condition(kind, conditions.TRUE, ended.reason, text, generation))
    return notices


def _of_placing(placing: DecisionInput, generation: int) -> list[Condition]:
    notices: list[Condition] = []
    if placing.unlimited_quota:
        project = placing.project
        message = (
            f"No FederatedQuota speaks for the project {project!r}: nothing limits what it takes."
        )
        notices.append(Condition("QuotaUnlimited", conditions.TRUE, "NoQuota", message, generation))
    if placing.decision_refused:
        why = placing.decision_refused
        message = (
            f"Its PlacementDecision on the host is not the hub's: {why}. The hub goes by its own."
        )
        notices.append(
            Condition("DecisionRefused", conditions.TRUE, "NotTheHubs", message, generation)
        )
    if placing.project_refused:
        message = f"It takes nothing more, and what runs stays: {placing.project_refused}."
        notices.append(
            Condition(
                "ProjectRefused", conditions.TRUE, Reason.NOT_ALLOWED.value, message, generation
            )
        )
    if placing.notice:
        message = f"{placing.notice}."
        notices.append(Condition("Reclaiming", conditions.TRUE, "NoticeGiven", message, generation))
    if placing.profile_held_back:
        reason, message = placing.reason.value, f"{placing.message}."
        notices.append(Condition("ProfileHeldBack", conditions.TRUE, reason, message, generation))
    if placing.without_room:
        notices.append(_without_room(placing.without_room, generation))
    if placing.violations:
        message = " ".join(placing.violations)
        notices.append(
            Condition(
                "SpreadViolated",
                conditions.TRUE,
                Reason.SPREAD_UNSATISFIABLE.value,
                message,
                generation,
            )
        )
    return notices


def _without_room(clusters: Sequence[str], generation: int) -> Condition:
    message = (
        "No cluster has room for the replacements of copies that move. Copies leave"
        f" {', '.join(clusters)} before their replacements are ready, up to maxUnavailable."
    )
    return Condition("MovesWithoutRoom", conditions.TRUE, "NoRoomToSurge", message, generation)


def _reconciling_reason(facts: Facts) -> str:
    placing = facts.placing
    if facts.wanted.deleting:
        return "Deleting"
    if facts.wanted.paused is not None and (
        placing is None or not placing.current or facts.in_flight
    ):
        return "Paused"
    if placing is None or not placing.current:
        return Reason.PENDING_EVALUATION.value
    if any(not row.known for row in facts.rows):
        return "ClusterUnknown"
    if facts.in_flight or facts.leftovers or any(not row.applied for row in facts.shared_rows):
        return "Applying"
    return HALTED_REASON if facts.wanted.halted else "Progressing"


def _summary(facts: Facts) -> str:
    wanted, placing, tally = facts.wanted, facts.placing, facts.tally
    if wanted.deleting:
        return f"being deleted from {_clusters(len([row for row in facts.rows if row.exists]))}"
    if tally.ending is not None:
        return _ended(facts, tally.ending)
    if wanted.suspended:
        return f"suspended; {_progress(facts)}" if facts.rows else "suspended"
    if placing is None:
        return "waiting to be placed"
    if placing.unreadable:
        return f"{'refused' if placing.refused else 'misconfigured'}: {placing.message}"
    if placing.held_back:
        return f"{_progress(facts)}; {placing.message}"
    if placing.shortfall > 0 and (tally.ready_lo >= facts.placed or facts.placed == 0):
        return _shortfall(facts, placing)
    text = _progress(facts)
    if placing.shortfall > 0:
        return f"{text}, {placing.shortfall} not placed: {placing.message}"
    if wanted.halted and not tally.exact:
        return f"{text} (spec.paused is true)"
    if reason := next((seen.reason for seen in tally.unhealthy if seen.reason), ""):
        return f"{text} ({reason})"
    if placing.misplaced:
        return f"{text}, {placing.held} held ({placing.reason})"
    if placing.slower:
        return f"{text}; {placing.message}"
    if placing.to_move:
        return f"{text}, {placing.to_move} still to move"
    if placing.surplus:
        return f"{text}, {placing.surplus} kept of a Duplicate policy"
    return text


def _ended(facts: Facts, ended: Ending) -> str:
    """How many shards came to what, and what made an end of the others."""
    tally, count = facts.tally, facts.wanted.count
    completed, failed = shards.size(tally.completed), shards.size(tally.failed)
    if ended.reason == ending.ALL_COMPLETED and completed == count:
        return f"all {completed} shards completed" if completed > 1 else "the only shard completed"
    text = f"{completed} of {count} shards completed"
    text += f", {failed} failed" if failed else ""
    text += f", {tally.stopped} stopped" if tally.stopped else ""
    if ended.reason in (ending.ALL_COMPLETED, ending.FAILED):
        return text
    if ended.complete:
        return f"{text}: that is enough"
    return f"{text}: {ended.message or ended.reason}"


def _shortfall(facts: Facts, placing: DecisionInput) -> str:
    figures = f"{facts.placed} of {facts.placed + placing.shortfall}"
    return (
        placing.message
        if placing.message.startswith(f"{figures} ")
        else f"placed {figures}: {placing.message}"
    )


def _progress(facts: Facts) -> str:
    tally = facts.tally
    where = _clusters(len(facts.shared_rows) or len(facts.rows))
    unknown = f", {tally.unknown} unknown" if tally.unknown else ""
    old = f", {tally.old} of an earlier template" if tally.old else ""
    if facts.wanted.every_node:
        return f"{_on_nodes(facts)} in {where}"
    if facts.wanted.unit is Unit.SHARDS:
        failed = f", {shards.size(tally.failed)} failed" if tally.failed else ""
        done = shards.size(tally.completed)
        return (
            f"{done}/{facts.wanted.count} completed{failed}, {tally.ready_lo} running{unknown} in"
            f" {where}"
        )
    ready, count = (max(n - tally.idle, 0) for n in (tally.ready_lo, facts.wanted.count))
    return f"{ready}/{count} ready{old}{unknown} in {where}"


def _on_nodes(facts: Facts) -> str:
    """How many nodes have the daemon; those of clusters that are not heard are unknown."""
    heard = [row.nodes for row in facts.rows if row.known and row.nodes is not None]
    unheard = [row.nodes for row in facts.rows if not row.known and row.nodes is not None]
    ready, unknown = sum(nodes.ready for nodes in heard), sum(nodes.desired for nodes in unheard)
    desired = sum(nodes.desired for nodes in heard) + unknown
    old = sum(nodes.current - nodes.updated for nodes in heard)
    return (
        f"{ready}/{desired} nodes ready"
        f"{f', {old} of an earlier template' if old else ''}"
        f"{f', {unknown} unknown' if unknown else ''}"
    )


def _things(facts: Facts, count: int) -> str:
    noun = "shard" if facts.wanted.unit is Unit.SHARDS else "replica"
    return noun if count == 1 else f"{noun}s"


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


def _verb(rows: Sequence[Row], singular: str, plural: str) -> str:
    return singular if len(rows) == 1 else plural


def _not_heard(rows: Sequence[Row]) -> str:
    """The missing reports: of clusters, or only of the processes that report for them."""
    clusters = [row for row in rows if not row.unheard]
    silent = [row for row in rows if row.unheard]
    reasons = [f"{_names(clusters)} {_verb(clusters, 'is', 'are')} not heard"] if clusters else []
    if silent:
        reasons.append(
            f"the member process{_verb(silent, '', 'es')} of {_names(silent)}"
            f" {_verb(silent, 'is', 'are')} not heard"
        )
    return "; ".join(reasons)


def _sentence(text: str) -> str:
    """With a capital letter, where it is not a name."""
    return f"The{text[3:]}" if text.startswith("the member process") else text


def _names(rows: Sequence[Row]) -> str:
    names = [row.cluster for row in rows]
    return (
        ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"
    )
