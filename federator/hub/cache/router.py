"""What changed -> which turns are due: a table in three parts, for workloads, for members, and for
slices in members.

The code that stores a change names its kind (`HubState.changed`, `Signals.member_changed`,
`slice_changed`); turns are queued in no other way. Each turn examines everything again: one turn
too many costs a look, one too few is a bug. Printed in docs/internals/router.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final


class Controller(StrEnum):
    """The controllers that handle the workload."""

    PLACE = "placing"
    """Decides where it runs."""
    DISPATCH = "dispatching"
    """Brings every member that has, or should have, a part of it to what is decided."""
    FINALIZE = "finalizing"
    """Checks whether its decisions are still needed."""
    AGGREGATE = "status"
    """Folds members' reports into its status; clusters that wait for others plan again."""


class Changed(StrEnum):
    """What changed about a workload."""

    ASKED = "it is new, or asks for other than before"
    GONE = "it is gone from the host"
    STATUS = "its status on the host, and nothing else"
    UNRECORDED = "the host records fewer of its shards as done than before"
    DECIDED = "it is recorded that it has ended before all its shards were done"
    NAMESPACE = "its namespace came or went, or has another Pod Security level"
    PROFILE = "the RuntimeProfile that its pods get"
    POLICY = "what may speak for it: a policy, the clusters there are"
    OVERRIDDEN = "what policies may change of it in single clusters"
    QUOTA = "an account of its project, or of the same tree of accounts"
    BINDING = "which namespaces may use its project"
    DECISION = "the host shows another decision on it"
    OTHERWISE = (
        "its decision was made for other inputs, or somebody changed it or asks for a rebalance"
    )
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
    LEFT_BEHIND = (
        "a slice of it is there, and the workload is gone or its decision is being deleted"
    )
    NUMBERED = "a slice of it bears a higher number than its decision says"
    COMPARED = "a slice of it was compared with what it should be"
    ANSWERED = "a member refused what was written of it, or does not any more"
    PARDONED = "a member that contradicted itself about it is to be trusted again"
    PAUSED = "a pause began or ended, or something else is said of it"
    RESUMED = "a pause is over"
    LEFT = "a cluster left the fleet"
    DROPPED = "a cluster that its decision names was abandoned"
    LEADING = "this hub leads from now on"
    REACHED = "a member that it has to do with came up, fell silent or was judged"
    ABANDONED = "a member that its decision names as leaving came up, fell silent or was judged"


ROUTES: Final[Mapping[Changed, tuple[Controller, ...]]] = {
    Changed.ASKED: (
        Controller.PLACE,
        Controller.DISPATCH,
        Controller.FINALIZE,
        Controller.AGGREGATE,
    ),
    Changed.GONE: (Controller.FINALIZE, Controller.AGGREGATE),
    Changed.STATUS: (Controller.AGGREGATE,),
    Changed.UNRECORDED: (Controller.PLACE, Controller.AGGREGATE),
    Changed.DECIDED: (Controller.PLACE,),
    Changed.NAMESPACE: (Controller.PLACE, Controller.DISPATCH, Controller.AGGREGATE),
    Changed.PROFILE: (Controller.DISPATCH, Controller.AGGREGATE),
    Changed.POLICY: (Controller.PLACE,),
    Changed.OVERRIDDEN: (Controller.PLACE, Controller.DISPATCH, Controller.AGGREGATE),
    Changed.QUOTA: (Controller.PLACE,),
    Changed.BINDING: (Controller.PLACE, Controller.AGGREGATE),
    # Not PLACE: the hub wrote it, or `observe_decision` refuses it and says so.
    Changed.DECISION: (Controller.FINALIZE, Controller.DISPATCH, Controller.AGGREGATE),
    Changed.OTHERWISE: (Controller.PLACE,),
    Changed.LOST: (Controller.PLACE,),
    Changed.ORPHANED: (Controller.FINALIZE,),
    Changed.ENDED: (Controller.PLACE,),
    Changed.REFUSED: (Controller.AGGREGATE,),
    Changed.STRUCK: (Controller.AGGREGATE,),
    Changed.WRITTEN: (Controller.DISPATCH, Controller.AGGREGATE),
    Changed.JUDGED: (Controller.AGGREGATE,),
    # Placing has judged an edit, so members may get it. The decision itself is the same.
    Changed.IN_FORCE: (Controller.DISPATCH,),
    Changed.STANDS: (Controller.AGGREGATE,),
    Changed.SERVED: (Controller.AGGREGATE,),
    Changed.UNDERCHARGED: (Controller.PLACE,),
    Changed.SLICE: (Controller.AGGREGATE,),
    Changed.UNLIKE: (Controller.DISPATCH,),
    Changed.LATER: (Controller.PLACE,),
    Changed.EMPTIED: (Controller.PLACE,),
    Changed.LEFT_BEHIND: (Controller.FINALIZE,),
    Changed.NUMBERED: (Controller.PLACE,),
    Changed.COMPARED: (Controller.AGGREGATE,),
    Changed.ANSWERED: (Controller.AGGREGATE,),
    Changed.PARDONED: (Controller.AGGREGATE,),
    Changed.PAUSED: (Controller.AGGREGATE,),
    Changed.RESUMED: (Controller.DISPATCH, Controller.FINALIZE),
    Changed.LEFT: (Controller.FINALIZE,),
    Changed.DROPPED: (Controller.PLACE,),
    Changed.LEADING: (
        Controller.PLACE,
        Controller.DISPATCH,
        Controller.AGGREGATE,
        Controller.FINALIZE,
    ),
    Changed.REACHED: (Controller.AGGREGATE,),
    Changed.ABANDONED: (Controller.PLACE,),
}


class MemberTurn(StrEnum):
    """The controllers that handle the member."""

    DUPLICATES = "duplicates"
    """Decides which other member it duplicates."""
    DEPARTED = "given-up clusters"
    """Checks whether it was removed as lost, and must be cleaned before it gets new work."""
    REPORT = "status"
    """Brings the status of its MemberCluster up to date."""
    FIGURES = "figures"
    """The same for capacity figures, at intervals."""
    ASK = "questions"
    """Writes into the member what the hub asks, and the host's claim."""
    ASK_SOON = "questions soon"
    """The same, once everything that changes together has changed."""
    CLAIM = "claim"
    """The same, for a workload that waits for it; at most once in a few seconds."""
    FORGOTTEN = "given-up deletions"
    """Removes what an operator did not want to wait for."""
    REMOVE = "removal"
    """Carries the removal of a deleted MemberCluster on."""
    DRAIN = "drain"
    """Moves what is there to other clusters, if that is wished or it is lost."""
    TIDY = "namespaces"
    """Updates or removes namespaces that the hub made there."""
    RENEW = "credentials"
    """Renews the hub's token."""
    ORPHANS = "orphans"
    """Checks all slices there that nothing on the host accounts for."""
    KINDS = "kinds"
    """Places all workloads again if it serves other kinds than before."""
    REQUEUE = "requeue all"
    """Places all workloads with changed inputs again."""
    HINT_CLUSTER = "cluster hint"
    """Requeues inadmissible workloads that a cluster may help."""
    HINT_ROOM = "room hint"
    """Requeues inadmissible workloads that room there may help."""
    RESYNC = "resync"
    """Queues all workloads that concern it."""
    PROBE = "workload probe"
    """Begins a probe with workloads if one is due, and goes on with the one that runs."""
    RELEASE = "held steps"
    """Plans the steps again that wait for what it reports."""


LEADERS: Final = frozenset(
    {
        MemberTurn.ORPHANS,
        MemberTurn.HINT_CLUSTER,
        MemberTurn.RESYNC,
        MemberTurn.DRAIN,
        MemberTurn.PROBE,
    }
)
"""Queued only while this hub leads."""


class MemberChanged(StrEnum):
    APPEARED = "its MemberCluster is new, or it is met anew"
    EDITED = "its MemberCluster"
    DISPUTED = "its MemberCluster, while another host is recorded there"
    REACHED = "it came up, fell silent or was judged"
    DOUBTED = "whether its word can be trusted"
    CLAIMED = "it was recorded there that it belongs to this host"
    OTHER_HOST = "the host that is recorded there"
    CLEANED = "what it held when it was given up is removed"
    ROOM = "its capacity report"
    COUNTED = "how many slices it holds"
    FOLLOWED = "a watch of it has recovered"
    UNCLAIMED = "something is to be written there, and the cluster records no owner"
    OPENED = "a maintenance window has ended, or was taken away"
    SAID = "something new is to be said of its credentials, of its removal or of its drain"
    LEADING = "this hub leads from now on"
    LEFT = "it has left the fleet"


_ALL_BUT_ROOM: Final = (
    MemberTurn.DUPLICATES,
    MemberTurn.DEPARTED,
    MemberTurn.REPORT,
    MemberTurn.ASK_SOON,
    MemberTurn.FORGOTTEN,
    MemberTurn.REMOVE,
    MemberTurn.TIDY,
    MemberTurn.RENEW,
    MemberTurn.ORPHANS,
    MemberTurn.KINDS,
    MemberTurn.HINT_CLUSTER,
    MemberTurn.RESYNC,
)

MEMBER_ROUTES: Final[Mapping[MemberChanged, tuple[MemberTurn, ...]]] = {
    MemberChanged.APPEARED: (MemberTurn.REMOVE,),
    MemberChanged.EDITED: (
        MemberTurn.REMOVE,
        MemberTurn.DRAIN,
        MemberTurn.REPORT,
        MemberTurn.PROBE,
    ),
    MemberChanged.DISPUTED: (MemberTurn.ASK,),
    MemberChanged.REACHED: (*_ALL_BUT_ROOM, MemberTurn.DRAIN),
    MemberChanged.DOUBTED: _ALL_BUT_ROOM,
    MemberChanged.CLAIMED: _ALL_BUT_ROOM,
    MemberChanged.OTHER_HOST: _ALL_BUT_ROOM,
    MemberChanged.CLEANED: _ALL_BUT_ROOM,
    # Not RESYNC: every member reports room often, and its slices do not depend on it.
    MemberChanged.ROOM: (MemberTurn.REPORT, MemberTurn.ASK, MemberTurn.HINT_ROOM),
    MemberChanged.COUNTED: (MemberTurn.FIGURES,),
    MemberChanged.FOLLOWED: (MemberTurn.RELEASE,),
    MemberChanged.UNCLAIMED: (MemberTurn.CLAIM,),
    MemberChanged.OPENED: (MemberTurn.REPORT, MemberTurn.HINT_CLUSTER),
    MemberChanged.SAID: (MemberTurn.REPORT,),
    MemberChanged.LEADING: (
        MemberTurn.REPORT,
        MemberTurn.ORPHANS,
        MemberTurn.DRAIN,
        MemberTurn.PROBE,
    ),
    MemberChanged.LEFT: (MemberTurn.DUPLICATES, MemberTurn.REQUEUE),
}


class SliceTurn(StrEnum):
    """The controllers that handle one slice in one member."""

    CAPS = "unschedulable caps"
    """How many replicas its scheduler could bind."""
    DRIFT = "drift"
    """What was restored there after somebody else changed it."""
    ORPHANS = "orphans"
    """Whether nothing on the host accounts for it."""
    DISPATCH = "dispatching there"
    """Brings this member alone to what is decided."""


class SliceChanged(StrEnum):
    HEARD = "it, as its member shows it"
    LACKING = "it is as decided and says that it misses something"
    RESYNCED = "its member came up, fell silent or was judged"


SLICE_ROUTES: Final[Mapping[SliceChanged, tuple[SliceTurn, ...]]] = {
    SliceChanged.HEARD: (SliceTurn.CAPS, SliceTurn.DRIFT, SliceTurn.ORPHANS),
    SliceChanged.LACKING: (SliceTurn.DISPATCH,),
    SliceChanged.RESYNCED: (SliceTurn.DISPATCH,),
}


Routes = Mapping[Any, Sequence[StrEnum]]


def tables() -> tuple[str, str, str]:
    """The parts of the table as in the documents: workloads, members, slices in members."""
    return (
        _table("what changed about a workload", Controller, ROUTES),
        _listing("what changed about a member", MEMBER_ROUTES),
        _listing("what changed about a slice in a member", SLICE_ROUTES),
    )


def _table(title: str, turns: Iterable[StrEnum], routes: Routes) -> str:
    """One column per turn."""
    columns = list(turns)
    lines = [f"| {title} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for what, due in routes.items():
        lines.append(f"| {what} | {' | '.join('x' if turn in due else '' for turn in columns)} |")
    return "\n".join(lines)


def _listing(title: str, routes: Routes) -> str:
    """The turns of each row in one cell, in the order in which they are queued."""
    lines = [f"| {title} | turns |", "|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {', '.join(due)} |" for what, due in routes.items())])
