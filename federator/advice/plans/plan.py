"""A plan: what edits come to, and whether that is what its author may want."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from federator.advice import overridden
from federator.advice.drills import Each
from federator.advice.plans import edits as editing
from federator.advice.plans import invariants, outcome, pacing, settling
from federator.advice.plans.edits import Edits
from federator.advice.plans.invariants import Broken
from federator.advice.plans.outcome import AccountChange, Change, Uncovered
from federator.advice.plans.pacing import Pace
from federator.advice.trials import Stop, never
from federator.hub.options import HubOptions
from federator.hub.placing.offline import Situation


class PlanVerdict(IntEnum):
    """What a plan comes to in a word: the exit code of `federator plan`. The highest counts."""

    NOTHING = 0
    """No decision changes."""
    MOVES = 10
    SHORT = 11
    """A workload ends shorter than it is now, the hub refuses an edit or holds it back, the loss of
    a cluster is no longer covered, or an invariant breaks."""
    TOO_MANY = 12
    """More copies move than `--max-moves`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a set of edits comes to."""

    situation: Situation
    """The fleet once nothing changes any more."""
    changes: tuple[Change, ...]
    """The largest first."""
    accounts: tuple[AccountChange, ...]
    uncovered: tuple[Uncovered, ...] | None
    """None where losses were not asked about."""
    paces: tuple[Pace, ...]
    broken: tuple[Broken, ...] = ()
    """The invariants that do not hold then."""
    refused: tuple[str, ...] = ()
    """Edits that the hub does not carry out, each as a sentence."""
    warnings: tuple[str, ...] = ()
    unsettled: bool = False
    workloads: int = 0
    """Workloads that were looked at."""
    clusters: int = 0
    rounds: int = field(default=0)
    """Cycles until nothing changed."""
    undecided: int = 0
    """Workloads without a decision at present: they are placed before the edits are made."""

    @property
    def moves(self) -> int:
        """Copies that leave one cluster and start in another."""
        return sum(change.moves for change in self.changes)

    @property
    def seconds(self) -> float:
        """Until the last copy may move."""
        return max((pace.seconds for pace in self.paces), default=0.0)

    def verdict(self, max_moves: int | None = None) -> PlanVerdict:
        if max_moves is not None and self.moves > max_moves:
            return PlanVerdict.TOO_MANY
        if self.refused or self.uncovered or any(change.worse for change in self.changes):
            return PlanVerdict.SHORT
        if any(each.worse for each in self.broken):
            return PlanVerdict.SHORT
        return PlanVerdict.MOVES if self.changes else PlanVerdict.NOTHING


def plan(
    present: Situation,
    edits: Edits,
    *,
    losses: bool = True,
    each: Each = map,
    stop: Stop = never,
    options: HubOptions | None = None,
) -> Plan:
    """What the edits come to. `losses`: whether each cluster's loss is asked about before and
    after, which takes as long as two drills. `each`: as in `drills`. Raises `edits.Unplanned` for
    an edit that cannot be planned, and `trials.Stopped` once `stop` returns True."""
    options = options or HubOptions()
    undecided = settling.undecided(present)
    base = settling.unedited(present, stop)
    present = base.situation
    edited = editing.after(present, edits)
    settled = settling.settle(base, edited, stop)
    changed = outcome.changes(present, edited, settled)
    gone = [view.name for view in settled.situation.snapshot.clusters.values() if view.empties]
    return Plan(
        settled.situation,
        tuple(changed),
        tuple(outcome.accounts(present, settled.situation)),
        tuple(_uncovered(present, settled.situation, gone, each, options)) if losses else None,
        tuple(pacing.paces(settled.situation, changed, options)),
        tuple(_broken(present, settled.situation, losses=losses, each=each, options=options)),
        (
            *edited.refused,
            *edited.held_drains.values(),
            *overridden.refusals(present, settled.situation),
        ),
        tuple(edited.warnings),
        settled.unsettled,
        len(settled.situation.workloads),
        len(settled.situation.snapshot.clusters),
        settled.rounds,
        len(undecided),
    )


def _broken(
    present: Situation, final: Situation, *, losses: bool, each: Each, options: HubOptions
) -> list[Broken]:
    rate = options.evacuated_copies_a_minute
    return invariants.broken(present, final, rate, losses=losses, each=each)


def _uncovered(
    present: Situation,
    final: Situation,
    gone: Sequence[str],
    each: Each,
    options: HubOptions,
) -> list[Uncovered]:
    rate = options.evacuated_copies_a_minute
    return outcome.uncovered(present, final, rate, gone, each)
