"""The decision of a gang: pods of several components, all in one cluster or none at all.

To the engine a gang is one copy with a room of 1 or 0 (`room.gangs`). What is left to decide here
is how many pods an elastic gang gets: as many as some cluster has room for and quota admits, at
least the minimum of each component. What it was given stays as it is until it is placed again,
since its pods have found each other by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from federator.model import decision as decisions
from federator.model.ask import Ask, PodShape
from federator.model.decision import Decision, Grouped, Reason, Verdict, Verdicts
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.kubernetes import quantity
from federator.model.resources import PODS
from federator.placement import inputs
from federator.placement.request import Divide, Request
from federator.placement.room.gangs import GangFit
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates

KEPT: Final = "has the room, which is kept for others"


def decide(ask: Ask, request: Request, divide: Divide) -> Decision:
    """Divides as an ask without a choice of counts, and says why where there is no room. Charges
    the ledger as `divide` does."""
    snapshot, ledger, previous_hash = request.snapshot, request.ledger, request.previous_hash
    counts = _counts(ask, request.held, snapshot, ledger)
    sized = replace(ask, shape=ask.shape.granted(counts))
    trial = ledger.trial(sized.shape)
    hashed = inputs.inputs_hash(ask, snapshot, ledger.memo)
    if inputs.unchanged(previous_hash, hashed, ask, snapshot, ledger.memo):
        previous_hash = inputs.inputs_hash(sized, snapshot, ledger.memo)
    made = divide(sized, replace(request, previous_hash=previous_hash))
    made = replace(made, inputs_hash=hashed)
    if any(count < part.count for count, part in zip(counts, ask.shape.parts, strict=True)):
        shares = tuple(structs.replace(share, pods=tuple(counts)) for share in made.shares)
        made = replace(made, shares=shares)
    shortage = Shortage(sized.shape, ledger, trial)
    if made.reason is not Reason.INSUFFICIENT_CAPACITY or made.shares:
        return replace(made, verdicts=shortage.worded(made.verdicts))
    return shortage.of(made)


def _counts(
    ask: Ask, held: Sequence[Holding], snapshot: FleetSnapshot, ledger: Ledger
) -> Sequence[int]:
    """How many pods of each component it is to have."""
    parts = ask.shape.parts
    most, least = [part.count for part in parts], [part.min for part in parts]
    if most == least:
        return most
    # Its pods have found each other: another number would restart them all.
    given = next((holding.pods or most for holding in held if holding.count), None)
    if given is not None:
        clamped = zip(given, parts, strict=False)
        counts = [min(max(count, part.min), part.count) for count, part in clamped]
        return counts if len(counts) == len(parts) else most
    open_to = [
        at
        for at, place in enumerate(candidates.places(ask, snapshot, ledger).values())
        if place.refusal is None
    ]

    def possible(extra: int) -> bool:
        tried = replace(ask, shape=ask.shape.granted(_with(extra, most, least)))
        if ledger.admission(tried, 1, held=0).copies < 1:
            return False
        fits = ledger.rooms(tried.shape)
        return any(fits[at] != 0 for at in open_to)

    # Bisection: each question charges a whole gang for trial in a copy of the world.
    low, high = 0, sum(most) - sum(least)
    while low < high:  # more pods never fit where fewer do not
        middle = (low + high + 1) // 2
        low, high = (middle, high) if possible(middle) else (low, middle - 1)
    return _with(low, most, least)


def _with(extra: int, most: Sequence[int], least: Sequence[int]) -> list[int]:
    """The minimum and `extra` pods beyond it, given to the components in their order."""
    counts: list[int] = []
    # Components in their order: the first ones are the ones that the user put first.
    for high, low in zip(most, least, strict=True):
        more = min(extra, high - low)
        counts.append(low + more)
        extra -= more
    return counts


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a gang does not fit, by component and resource. Read before anything else is charged."""

    shape: PodShape
    ledger: Ledger
    trial: GangFit

    def of(self, made: Decision) -> Decision:
        """A decision that gives it nothing for want of room, with the reasons."""
        full = [
            verdict.cluster
            for verdict in made.verdicts
            if verdict.reason is Reason.INSUFFICIENT_CAPACITY
        ]
        if not full:
            return made
        # The cluster in which most components fit, and then most pods of the next, helps a user
        # most.
        best = max(full, key=self._nearness)
        pods = sum(count for _, count in self.shape.pods)
        message = (
            f"no cluster has room for all {pods} pods at once; nearest: {best}"
            f" {self.why(best) or KEPT}"
        )
        every = tuple(
            replace(verdict, message=f"cluster {name} {self.why(name) or KEPT}")
            if verdict.reason is Reason.INSUFFICIENT_CAPACITY
            else verdict
            for verdict in made.verdicts
            for name in (verdict.cluster,)
        )
        return replace(made, message=message, verdicts=every)

    def worded(self, verdicts: Sequence[Verdict]) -> Verdicts:
        """The same, in which clusters without room say which component has none. Read when other
        things may have been charged since, so nothing is said of resources."""
        places = self.ledger.world.at

        def said(verdict: Verdict) -> Verdict:
            if verdict.reason is not Reason.INSUFFICIENT_CAPACITY:
                return verdict
            text = self._component(places[verdict.cluster]) or KEPT
            return replace(verdict, message=f"cluster {verdict.cluster} {text}")

        def grouped() -> Grouped:
            groups = decisions.grouped(verdicts)
            rejected = tuple(
                replace(group, message=f"cluster {group.clusters[0]} {text}")
                if group.reason is Reason.INSUFFICIENT_CAPACITY
                and (text := self._component(places[group.clusters[0]]))
                else group
                for group in groups.rejected
            )
            return replace(groups, rejected=rejected)

        return Verdicts(
            len(verdicts),
            lambda: tuple(map(said, verdicts)),
            grouped,
            lambda: decisions.reasons(verdicts),
            lambda closed: decisions.but(verdicts, closed),
        )

    def why(self, cluster: str) -> str:
        """What of the gang has no room in the cluster, as a part of a sentence; "" when all has."""
        at = self.ledger.world.at[cluster]
        text = self._component(at)
        if not text:
            return ""
        lacking = self._lacking(cluster, *self.shape.pods[int(self.trial.short[at])])
        return f"{text}, short of {', '.join(lacking)}" if lacking else text

    def _component(self, at: int) -> str:
        """The first component without room for all its pods; "" when all have."""
        short = int(self.trial.short[at])
        if short < 0:
            return ""
        pod, count = self.shape.pods[short]
        name = next(
            part.name for part in self.shape.parts if (part.shape, part.count) == (pod, count)
        )
        each = ", ".join(f"{key} {text}" for key, text in quantity.render(pod.requests).items())
        return f"has room for {int(self.trial.room[at])} of {count} pods of {name} ({each} each)"

    def _nearness(self, cluster: str) -> tuple[int, int]:
        at = self.ledger.world.at[cluster]
        return int(self.trial.short[at]), int(self.trial.room[at])

    def _lacking(self, cluster: str, pod: PodShape, count: int) -> list[str]:
        """The resources of which the nodes have too little for these pods, each taken alone."""
        nodes, _ = self.ledger.left(cluster)
        if nodes is None:
            return []
        lacking: list[str] = []
        for name, need in pod.requests.items():
            if name not in nodes.names:
                if name != PODS:
                    lacking.append(f"{name} (no node has it)")
                continue
            at = nodes.names.index(name)
            fits = sum(rows * max(free[at] // need, 0) for rows, free, _ in nodes.rows)
            if fits < count:
                lacking.append(f"{name} (enough for {fits})")
        return lacking
