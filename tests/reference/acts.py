"""What becomes of the copies of each kind when something is done to the cluster where they run, or
to the workload: the table of kinds and acts, from the verbs of the kinds.

`docs/reference/kinds.md` is generated from it; `tests/unit/kinds/test_acts.py` asks the engine for
every cell.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from federator.kinds.verbs import WorkloadVerbs
from federator.model.ask import Unit


class Act(StrEnum):
    DRAIN = "drain"
    FAILOVER = "failover"
    DECLARED_DEAD = "declared dead"
    REBALANCE = "rebalance"
    PREEMPT = "preempt"
    ROLL_OUT = "roll out"


class Outcome(StrEnum):
    """The sentence is what people read."""

    MOVES = "moves: each copy when another place has it, at a pace"
    MOVES_WHOLE = "moves: what one cluster has goes together, and begins again elsewhere"
    LEAVES = "leaves the cluster; no other could run its pods instead"
    ENDS = "leaves the cluster with its active run; the other clusters go on with theirs"
    STAYS = "stays where it is, and says so"
    GIVES_COPIES = "gives up as many copies as are needed; they come back when there is quota again"
    GIVES_ORDINALS = (
        "gives up its highest ordinals, as many as are needed; they come back to their claims"
    )
    GIVES_SLOTS = "runs as many fewer shards at once as are needed; completed shards stay so"
    GIVES_LATER = (
        "its later runs have as many fewer shards at once as are needed; one that is active goes on"
    )
    STOPS = "stops as a whole, and begins again when there is quota"
    KEEPS = "keeps what it has; others are told to leave"
    AS_BOUND = "in as many clusters at once as the policy says, in all when it says nothing"
    IN_TURN = "in one cluster after the other, in more at once when the policy says so"
    NEVER = "never: what has begun keeps its template, what begins later has the new one"


def _drain(verbs: WorkloadVerbs) -> Outcome:
    if verbs.every_node:
        return Outcome.LEAVES
    if verbs.ordinals is not None:
        return Outcome.STAYS
    if verbs.repeats is not None:
        return Outcome.ENDS
    return Outcome.MOVES_WHOLE if verbs.unit is Unit.SHARDS else Outcome.MOVES


def _failover(verbs: WorkloadVerbs) -> Outcome:
    """A cluster that is merely silent may run on: only copies that may overlap begin elsewhere."""
    return _drain(verbs) if verbs.overlaps else Outcome.STAYS


def _declared_dead(verbs: WorkloadVerbs) -> Outcome:
    return Outcome.STAYS if verbs.every_node else _drain(verbs)


def _rebalance(verbs: WorkloadVerbs) -> Outcome:
    return _drain(verbs)


def _preempt(verbs: WorkloadVerbs) -> Outcome:
    if verbs.every_node:
        return Outcome.KEEPS
    if verbs.gang is not None:
        return Outcome.STOPS
    if verbs.unit is Unit.SHARDS:
        return Outcome.GIVES_SLOTS
    if verbs.repeats is not None:
        return Outcome.GIVES_LATER
    return Outcome.GIVES_COPIES if verbs.ordinals is None else Outcome.GIVES_ORDINALS


def _roll_out(verbs: WorkloadVerbs) -> Outcome:
    if verbs.unit is Unit.SHARDS:
        return Outcome.NEVER
    alone = verbs.every_node or verbs.ordinals is not None
    return Outcome.IN_TURN if alone else Outcome.AS_BOUND


ACTS: Final[Mapping[Act, Callable[[WorkloadVerbs], Outcome]]] = {
    Act.DRAIN: _drain,
    Act.FAILOVER: _failover,
    Act.DECLARED_DEAD: _declared_dead,
    Act.REBALANCE: _rebalance,
    Act.PREEMPT: _preempt,
    Act.ROLL_OUT: _roll_out,
}
MEANING: Final[Mapping[Act, str]] = {
    Act.DRAIN: "`spec.drain` of the MemberCluster asks for the cluster to be emptied.",
    Act.FAILOVER: "The cluster is silent for longer than the policy's `failover` bears.",
    Act.DECLARED_DEAD: "A person says that nothing runs in the silent cluster any more.",
    Act.REBALANCE: "The policy does not admit the cluster any more, and moves are asked for.",
    Act.PREEMPT: "Another workload is to have its quota (`spec.preemption` of a FederatedQuota).",
    Act.ROLL_OUT: "What the pods are made from changes.",
}
