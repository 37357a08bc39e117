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
    FINALIZE = "finalizing"
    """Looks whether its decisions are still needed."""
    AGGREGATE = "status"
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
    Changed.ASKED: (Turn.PLACE, Turn.DISPATCH, Turn.FINALIZE, Turn.AGGREGATE),
    Changed.GONE: (Turn.FINALIZE, Turn.AGGREGATE),
    Changed.STATUS: (Turn.AGGREGATE,),
    Changed.UNRECORDED: (Turn.PLACE, Turn.AGGREGATE),
    Changed.NAMESPACE: (Turn.PLACE, Turn.DISPATCH, Turn.AGGREGATE),
    Changed.PROFILE: (Turn.DISPATCH,),
    Changed.POLICY: (Turn.PLACE,),
    Changed.BINDING: (Turn.PLACE, Turn.AGGREGATE),
    Changed.DECISION: (Turn.FINALIZE, Turn.DISPATCH, Turn.AGGREGATE),
    Changed.OTHERWISE: (Turn.PLACE,),
    Changed.LOST: (Turn.PLACE,),
    Changed.ORPHANED: (Turn.FINALIZE,),
    Changed.ENDED: (Turn.PLACE,),
    Changed.REFUSED: (Turn.AGGREGATE,),
    Changed.STRUCK: (Turn.AGGREGATE,),
    Changed.WRITTEN: (Turn.DISPATCH, Turn.AGGREGATE),
    Changed.JUDGED: (Turn.AGGREGATE,),
    Changed.IN_FORCE: (Turn.DISPATCH,),
    Changed.STANDS: (Turn.AGGREGATE,),
    Changed.SERVED: (Turn.AGGREGATE,),
    Changed.UNDERCHARGED: (Turn.PLACE,),
    Changed.SLICE: (Turn.AGGREGATE,),
    Changed.UNLIKE: (Turn.DISPATCH,),
    Changed.LATER: (Turn.PLACE,),
    Changed.EMPTIED: (Turn.PLACE,),
    Changed.LEFT_BEHIND: (Turn.FINALIZE,),
    Changed.NUMBERED: (Turn.PLACE,),
    Changed.COMPARED: (Turn.AGGREGATE,),
    Changed.ANSWERED: (Turn.AGGREGATE,),
    Changed.PARDONED: (Turn.AGGREGATE,),
    Changed.PAUSED: (Turn.AGGREGATE,),
    Changed.RESUMED: (Turn.DISPATCH, Turn.FINALIZE),
    Changed.LEFT: (Turn.FINALIZE,),
    Changed.DROPPED: (Turn.PLACE,),
    Changed.LEADING: (Turn.PLACE, Turn.DISPATCH, Turn.AGGREGATE, Turn.FINALIZE),
    Changed.REACHED: (Turn.AGGREGATE,),
    Changed.ABANDONED: (Turn.PLACE,),
}


def table() -> str:
    """The table as the documents show it."""
    turns = list(Turn)
    lines = [f"| what changed about a workload | {' | '.join(turns)} |", "|---|" + "---|" * len(turns)]
    for what, due in ROUTES.items():
        lines.append(f"| {what} | {' | '.join('x' if turn in due else '' for turn in turns)} |")
    return "\n".join(lines)
