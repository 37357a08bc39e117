"""Searches the smallest changes that place what is missing, and keeps those that work by the
engine's own decision.

First every change alone; if none places all (other than by asking for less), pairs. The number of
trials is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from federator.advice import changes, trials
from federator.advice.trials import Change, HostState, Stop, Trials
from federator.hub.placing.offline import Situation
from federator.kinds import registry
from federator.model.decision import Decision
from federator.model.names import WorkloadKey
from federator.placement.room import setaside
from federator.placement.selection import filters

MAX_SINGLE: Final = 250
"""Trials of single changes; the rest of `trials.MAX_TRIALS` is for pairs."""
MAX_FIRST: Final = 24
"""First changes that are tried in pairs."""
MAX_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Fix:
    """A tried change that places `gains` more; `left` are still missing. `commands` make the
    changes."""

    text: str
    commands: tuple[str, ...]
    gains: int
    left: int
    by_operator: bool
    """It changes an object outside the workload's namespace: a quota, a cluster, a
    ClusterPlacementPolicy."""


@dataclass(frozen=True, slots=True)
class Advice:
    fixes: tuple[Fix, ...]
    tried: tuple[str, ...]
    """Classes of changes that were tried."""
    trials: int


def advise(
    situation: Situation,
    key: WorkloadKey,
    decision: Decision,
    missing: int,
    stop: Stop = trials.never,
    *,
    singles: int = MAX_SINGLE,
    enough: int = MAX_SINGLE,
) -> Advice:
    """Fixes for a workload that lacks something, the best first; of an edit that is held back, what
    admits it, with the copies that are then as it says. `singles`: single changes that are tried;
    pairs only where that is all of them. `enough`: single changes that place all that is missing,
    after which no more are tried. Raises `trials.Stopped` once `stop` returns True."""
    edited = bool(decision.held_back)
    world, asked = trials.present(situation, key), Trials(stop=stop, admitting=edited)
    now = trials.placed(decision)
    if edited:
        missing, now = missing + now, 0
    if missing <= 0 or world.ask is None:
        return Advice((), (), 0)
    seen: list[tuple[Change, int]] = []
    fixes: list[Fix] = []
    full = 0
    for change in _all(world, asked, decision, singles):
        gains = asked.placed(change.world) - now
        seen.append((change, gains))
        if gains > 0:
            fewer = max(world.ask.slots - _slots(change.world), 0)
            fixes.append(_fix((change,), gains, missing - fewer))
        full += gains >= missing and not change.shrinks
        if full >= enough:
            break
    if singles == MAX_SINGLE and not full:
        fixes += _pairs(seen, asked, now, missing)
    order = sorted(fixes, key=lambda fix: (-fix.gains, len(fix.commands), fix.text))
    return Advice(tuple(order[:MAX_SHOWN]), tuple(changes.SOURCES), asked.made)


def _slots(world: HostState) -> int:
    return world.ask.slots if world.ask is not None else 0


def _pairs(seen: list[tuple[Change, int]], asked: Trials, now: int, missing: int) -> Iterator[Fix]:
    """Two changes that together gain more than either alone."""
    alone = {change.text: gains for change, gains in seen}
    pairs: set[frozenset[str]] = set()
    firsts = [(change, gains) for change, gains in seen if not change.shrinks]
    for first, gained in sorted(firsts, key=lambda candidate: -candidate[1])[:MAX_FIRST]:
        decision = asked.decide(first.world)
        if decision is None:
            continue
        for second in _all(first.world, asked, decision, trials.MAX_TRIALS):
            both = frozenset({first.text, second.text})
            if both in pairs or len(both) < 2 or second.shrinks:
                continue
            gains = asked.placed(second.world) - now
            if gains > max(gained, alone.get(second.text, 0), 0):
                pairs.add(both)
                yield _fix((first, second), gains, missing)


def _all(world: HostState, asked: Trials, decision: Decision, limit: int) -> Iterator[Change]:
    for source in changes.SOURCES.values():
        for change in source(world, asked, decision):
            yield change
            if asked.made >= limit:
                return


def openings(situation: Situation, key: WorkloadKey, cluster: str) -> tuple[str, str] | None:
    """(change, command) that opens a cluster to the workload: the first after which the cluster
    takes part and has room for a copy; None for none."""
    world = trials.present(situation, key)
    ask = world.ask
    if ask is None:
        return None
    for change in changes.opened(world, ask, world.snapshot.clusters[cluster]):
        then = change.world.ask
        view = change.world.snapshot.clusters[cluster]
        if then is None or filters.refusal(then, view) is not None:
            continue
        ledger = situation.commitments.open(change.world.snapshot)
        setaside.keep(then, ledger)
        if ledger.room(cluster, then.shape) > 0:
            commands = [patch.command for patch in change.world.patches]
            return change.text, change.advice or " && ".join(commands)
    return None


def _fix(made: tuple[Change, ...], gains: int, missing: int) -> Fix:
    commands = [patch.command for patch in made[-1].world.patches]
    commands += [change.advice for change in made if change.advice]
    return Fix(
        " and ".join(change.text for change in made),
        tuple(commands),
        gains,
        max(missing - gains, 0),
        any(not registry.KINDS[kind].namespaced for kind, _, _ in made[-1].world.changed),
    )
