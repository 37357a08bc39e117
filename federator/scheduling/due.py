"""When a workload is due to be decided, and when the decision in force stands. Two tables of
conditions, both pure.

The caller that runs cycles fills in what it knows and acts on the answer: it forgets what is gone,
looks again when a cap ends, and makes an `Entry` of what is due. Nothing here looks anything up.
"""

from enum import StrEnum
from typing import NamedTuple


class Presence(NamedTuple):
    """What is known of a workload before its inputs are looked at."""

    there: bool = True
    """It is on the host, is not being deleted, and what it asks for can be read."""
    suspended: bool = False
    decision_deleting: bool = False
    """A decision on it is being deleted: its slices go first."""
    place_taken: bool = False
    """An object that no hub of the fleet wrote stands where its decision is written."""
    hosts_own: bool = False
    """The host runs this kind itself, and no policy asks to have it federated."""
    namespace_known: bool = True
    """What may run in its namespace has been heard."""


class TurnAction(StrEnum):
    FORGET = "Forget"
    """There is nothing to decide on it, and nothing to remember of it."""
    LEAVE = "Leave"
    """It stays exactly as it is until something else has happened: nothing of it is brought up to
    date."""
    WAIT = "Wait"
    """Its caps are brought up to date; it is not the hub's, or not yet, to decide."""
    LOOK = "Look"
    """Whether anything has to be decided follows from its inputs (`is_settled`)."""


def look(now: Presence) -> TurnAction:
    """The first that applies."""
    if not now.there:
        return TurnAction.FORGET
    if now.suspended or now.decision_deleting or now.place_taken:
        return TurnAction.LEAVE
    if now.hosts_own or not now.namespace_known:
        return TurnAction.WAIT
    return TurnAction.LOOK


class Comparison(NamedTuple):
    """The decision in force beside what is asked for now. The defaults are those of one that
    stands."""

    decided: bool = True
    """There is a decision on this very workload."""
    same_inputs: bool = True
    """It was made for what is asked for now, under the policies and clusters that there are."""
    inadmissible: bool = False
    """It lacked something, and was requeued because that may be there now."""
    chosen: bool = True
    """It gives all that is asked for."""
    for_all: bool = False
    """Every cluster is to have the workload: the next cluster that opens, too."""
    moving: bool = False
    """Copies are still to move, or somebody asked for a rebalance."""
    overtaken: bool = False
    """Members hold slices of later decisions than the host knows: the host was restored."""
    lost: bool = False
    """Its object is gone, and has to be written anew."""
    refused: bool = False
    """The workload may not run as it is written now."""
    unstopped: bool = False
    """It has ended, and clusters may still run shards of it."""
    open_shards: bool = False
    """Shards are left that no cluster has."""
    capped: bool = False
    """A scheduler could not bind all that its cluster was given."""
    leaves: bool = False
    """Its turn has come to leave a cluster that is being emptied."""
    vacated: bool = False
    """It still names clusters that hold nothing of the workload any more, or have left."""
    stopped: bool = False
    """Shards that it says may still run somewhere do not any more."""
    frees: bool = False
    """It charges for what was in force before, of which no copy is left."""


STANDS = Comparison()


def is_settled(now: Comparison) -> bool:
    """Whether the decision in force stands as it is: anything that differs from one that stands
    makes the workload due."""
    return now == STANDS
