"""What changed -> whose turn it is: one table for all that is heard, decided or written about a workload.

Whoever files a change says which of these it is (`HubState.changed`), and nobody gives turns by other ways. Each turn
looks at everything anew, so that a turn too many costs a look and one too few is a bug. Printed in
docs/internals/router.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Turn(StrEnum):
    """Who looks at the workload."""

    PLACE = "placing"
    """Decides where it goes."""
    DISPATCH = "dispatching"
    """Brings every member that has, or should have, a part of it to what is decided."""
    BURY = "finalizing"
    """Looks whether its decisions are still needed."""
    FOLD = "status"
    """Folds what members say into its status; clusters that wait for others of it plan again."""


class Changed(StrEnum):
    """What changed about a workload."""

    ASKED = "it is new, or asks for other than before"
    GONE = "it is gone from the host"
    STATUS = "its status on the host, and nothing else"
    UNRECORDED = "the host records fewer of its shards as done than before"
    NAMESPACE = "its namespace came or went, or has another Pod Security level"
    PROFILE = "the RuntimeProfile that its pods get"
    POLICY = "what may speak for it: a policy, a quota, the clusters there are"
    BINDING = "who may use its project"
    DECISION = "the host shows another decision on it"
    OTHERWISE = "its decision was made for other inputs, or somebody changed it or asks for a rebalance"
    LOST = "the object of its decision is gone, and the workload is not"
    ORPHANED = "the object of its decision is gone, and so is the workload"
    ENDED = "its decision is gone"
    REFUSED = "a decision on it was refused: no hub of this fleet made it"
    STRUCK = "a cluster was struck from its decision"
    WRITTEN = "its new decision was written"
    JUDGED = "placing has looked at what it asks for"
    IN_FORCE = "its decision in force was made for what it asks for now"
    STANDS = "placing decided, and the decision stands as it is"
    SERVED = "what its members are to have while an edit is held back was read"
    UNDERCHARGED = "what is in force of it asks for more than its decision charges"
    SLICE = "a slice of it, as a member shows it"
    UNLIKE = "a slice of it is not as was decided"
    LATER = "a slice of it is of a later decision than the host has"
    EMPTIED = "a cluster that it leaves holds nothing of it any more"
    LEFT_BEHIND = "a slice of it is there, and the workload is gone or its decision is being deleted"
    NUMBERED = "a slice of it bears a higher number than its decision says"
    COMPARED = "a slice of it was compared with what it should be"
    ANSWERED = "a member refused what was written of it, or does not any more"
    PARDONED = "a member that contradicted itself about it is to be trusted again"
    PAUSED = "a pause began or ended, or something else is said of it"
    RESUMED = "a pause is over"
    LEFT = "a cluster left the fleet"
    DROPPED = "a cluster that its decision names was let go"
    LEADING = "this hub leads from now on"
    REACHED = "a member that it has to do with came up, fell silent or was judged"
    ABANDONED = "a member that its decision names as leaving came up, fell silent or was judged"


ROUTES: Final[Mapping[Changed, tuple[Turn, ...]]] = {
    Changed.ASKED: (Turn.PLACE, Turn.DISPATCH, Turn.BURY, Turn.FOLD),
    Changed.GONE: (Turn.BURY, Turn.FOLD),
    Changed.STATUS: (Turn.FOLD,),
    Changed.UNRECORDED: (Turn.PLACE, Turn.FOLD),
    Changed.NAMESPACE: (Turn.PLACE, Turn.DISPATCH, Turn.FOLD),
    Changed.PROFILE: (Turn.DISPATCH,),
    Changed.POLICY: (Turn.PLACE,),
    Changed.BINDING: (Turn.PLACE, Turn.FOLD),
    Changed.DECISION: (Turn.BURY, Turn.DISPATCH, Turn.FOLD),
    Changed.OTHERWISE: (Turn.PLACE,),
    Changed.LOST: (Turn.PLACE,),
    Changed.ORPHANED: (Turn.BURY,),
    Changed.ENDED: (Turn.PLACE,),
    Changed.REFUSED: (Turn.FOLD,),
    Changed.STRUCK: (Turn.FOLD,),
    Changed.WRITTEN: (Turn.DISPATCH, Turn.FOLD),
    Changed.JUDGED: (Turn.FOLD,),
    Changed.IN_FORCE: (Turn.DISPATCH,),
    Changed.STANDS: (Turn.FOLD,),
    Changed.SERVED: (Turn.FOLD,),
    Changed.UNDERCHARGED: (Turn.PLACE,),
    Changed.SLICE: (Turn.FOLD,),
    Changed.UNLIKE: (Turn.DISPATCH,),
    Changed.LATER: (Turn.PLACE,),
    Changed.EMPTIED: (Turn.PLACE,),
    Changed.LEFT_BEHIND: (Turn.BURY,),
    Changed.NUMBERED: (Turn.PLACE,),
    Changed.COMPARED: (Turn.FOLD,),
    Changed.ANSWERED: (Turn.FOLD,),
    Changed.PARDONED: (Turn.FOLD,),
    Changed.PAUSED: (Turn.FOLD,),
    Changed.RESUMED: (Turn.DISPATCH, Turn.BURY),
    Changed.LEFT: (Turn.BURY,),
    Changed.DROPPED: (Turn.PLACE,),
    Changed.LEADING: (Turn.PLACE, Turn.DISPATCH, Turn.FOLD, Turn.BURY),
    Changed.REACHED: (Turn.FOLD,),
    Changed.ABANDONED: (Turn.PLACE,),
}


def table() -> str:
    """The table as the documents show it."""
    turns = list(Turn)
    lines = [f"| what changed about a workload | {' | '.join(turns)} |", "|---|" + "---|" * len(turns)]
    for what, due in ROUTES.items():
        lines.append(f"| {what} | {' | '.join('x' if turn in due else '' for turn in turns)} |")
    return "\n".join(lines)
