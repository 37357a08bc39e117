"""What is said of a cluster that is being emptied: conditions, reasons and messages. Pure."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.membercluster import DEAD, DRAINING, FAILING_OVER, DrainWish
from federator.hub.members.member import Member
from federator.model import plaintext
from federator.scheduling.evacuation import ORDINALS, REMOVED_ORDINALS, Rehearsed, Waits
from federator.status.conditions import Condition

SHOWN: Final = 3
"""Workloads that a message names."""

copies = functools.partial(plaintext.counted, noun="copy", plural="copies")
workloads = functools.partial(plaintext.counted, noun="workload", plural="workloads")


def condition(member: Member, status: str, reason: str, message: str) -> Condition:
    generation = raw.integer(member.obj, "metadata", "generation")
    kind = DEAD if member.dead else FAILING_OVER if member.unreachable else DRAINING
    return Condition(kind, status, reason, message, observed_generation=generation)


def timeless(figures: Mapping[str, Any] | None) -> dict[str, Any]:
    """Figures without the one that changes with the time alone."""
    return {name: value for name, value in (figures or {}).items() if name != "estimatedEnd"}


def forced(wish: DrainWish) -> str:
    """Why a drain begins although copies may have no other place, as the end of a sentence; "" when
    it is not forced."""
    if wish.deleted:
        return ", because the MemberCluster is deleted"
    return ", whether or not all of them have another place (force)" if wish.force else ""


def of_drained(
    left: int, total: int, under_way: int, held: Sequence[Waits], *, moving: bool
) -> tuple[str, str]:
    """Reason and message of a drain that goes on or is done."""
    if not left:
        ending = "Pods may still be ending, within their grace period"
        away = "new work keeps away until the drain is ended"
        return "Emptied", f"Nothing of {copies(total)} is left. {ending}; {away}."
    text = f"{left} of {copies(total)} are left"
    if under_way:
        text += f", {under_way} of them until their replacements are ready"
    if moving or not held:
        return "Emptying", f"{text}."
    return "Waiting", plaintext.clipped(f"{text}, and none moves now. {_listed(held)}.")


def of_deleted(
    left: int, total: int, under_way: int, held: Sequence[Waits], *, moving: bool
) -> tuple[str, str]:
    """The same of a cluster after its MemberCluster is deleted."""
    if not left:
        ending = "Pods may still be ending, within their grace period"
        return "Emptied", f"Nothing of {copies(total)} is left. {ending}."
    return of_drained(left, total, under_way, held, moving=moving)


def of_lost(
    left: int, total: int, under_way: int, held: Sequence[Waits], *, moving: bool
) -> tuple[str, str]:
    """The same of a cluster that is lost: its work fails over."""
    if not total:
        return "Moved", "Nothing was decided there."
    if not left:
        rest = "what it still holds is removed when it is reachable again"
        return "Moved", f"All of its {copies(total)} have got another place; {rest}."
    text = f"{left} of {copies(total)} have no other place yet"
    if moving or not held:
        return "Moving", f"{text}."
    return "Waiting", plaintext.clipped(f"{text}, and none gets one now. {_listed(held)}.")


def _listed(held: Sequence[Waits]) -> str:
    shown = "; ".join(f"{waits.key}: {waits.why}" for waits in held[:SHOWN])
    return f"{shown}; and {len(held) - SHOWN} more" if len(held) > SHOWN else shown


def of_unplaced(left: Sequence[Rehearsed], *, remove: bool = False) -> str:
    """Why a drain is refused: the workloads that would have no other place. `remove`: it is the
    drain of a cluster that is to be removed."""
    ordinals = REMOVED_ORDINALS if remove else ORDINALS
    shown = "; ".join(
        f"{unplaced.key} {unplaced.stays} of {unplaced.before} ({unplaced.why.removesuffix('.')})"
        for unplaced in left[:SHOWN]
    )
    more = f"; and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    lacking = copies(sum(unplaced.stays for unplaced in left))
    head = f"{lacking} of {workloads(len(left))} would have no other place: {shown}{more}."
    if all(unplaced.numbered for unplaced in left):
        return f"{head} No drain moves ordinals: {ordinals}."
    mixed = f" Ordinals: {ordinals}." if any(unplaced.numbered for unplaced in left) else ""
    return f"{head} Make room, or move what can be moved with --force.{mixed}"
