"""`python -m tests.simulation.run --seed 7 --shrink`: the smallest world that still breaks the same
rule.

Delta debugging: parts of the script, episodes, kinds of faults and single struck requests are left
out in ever smaller pieces, then members, the second hub, the quota, pauses and the shuffling; again
from the beginning until nothing can go or the budget of runs is spent. Every choice is made in a
fixed order, so a seed always shrinks to the same world.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tests.simulation import cases, running
from tests.simulation.cases import Case

T = TypeVar("T")
BUDGET = 150
"""Runs; each costs about as much as the seed itself."""


class Shrinking:
    """One search. `say` hears of every step that made the world smaller."""

    def __init__(
        self,
        case: Case,
        plant: running.Plant = running.NOTHING,
        *,
        budget: int = BUDGET,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.case = case
        self.runs = 0
        self._plant = plant
        self._budget = budget
        self._say = say
        self._tried: dict[str, running.Broken | None] = {}
        first = self._broken(case)
        if first is None:
            raise ValueError("this world breaks no rule: there is nothing to shrink")
        self.broken: running.Broken = first
        self.rule = first.breaches[0].partition(":")[0]
        """The rule that every smaller world must break as well."""

    def _broken(self, case: Case) -> running.Broken | None:
        """How the case fails; None when it does not, or when the budget is spent."""
        name = case.text()
        if name not in self._tried:
            if self.runs >= self._budget:
                return None
            self.runs += 1
            try:
                cases.run(case, self._plant)
            except running.Broken as error:
                self._tried[name] = error
            else:
                self._tried[name] = None
        return self._tried[name]

    def _take(self, case: Case) -> bool:
        """Whether the case breaks the same rule; then it is the one to go on from."""
        found = self._broken(case)
        if found is None or self.rule not in found.rules:
            return False
        if case != self.case:
            self.case, self.broken = case, found
            self._say(f"run {self.runs}: {case.summary()}")
        return True

    def search(self) -> Case:
        """Makes the case as small as it gets, and returns it."""
        while True:
            before = self.case
            self._without_faults()
            self._fewer_actions()
            self._fewer_episodes()
            self._fewer_single_faults()
            for simpler in _simpler(self.case):
                self._take(simpler(self.case))
            if self.case == before or self.runs >= self._budget:
                return self.case

    def _without_faults(self) -> None:
        drawn = self.case.parameters
        if not self._take(replace(self.case, parameters=drawn.without_faults(), strikes=None)):
            self._take(
                replace(self.case, parameters=replace(drawn, hub={}, member={}), strikes=None)
            )

    def _fewer_actions(self) -> None:
        members = self.case.parameters.members
        reduce(
            self.case.actions,
            lambda actions: self._take(
                replace(self.case, actions=cases.possible(actions, members))
            ),
        )

    def _fewer_episodes(self) -> None:
        reduce(
            self.case.parameters.turns,
            lambda turns: self._take(
                replace(self.case, parameters=replace(self.case.parameters, turns=tuple(turns)))
            ),
        )

    def _fewer_single_faults(self) -> None:
        """First kinds; then, if the same requests can be struck one by one, single requests."""
        if self.case.strikes is None and self.case.parameters.hub:
            reduce(sorted(self.case.parameters.hub), self._only_kinds)
            self._take(replace(self._only(()), strikes=tuple(self.broken.story.strikes)))
        if self.case.strikes is not None:
            reduce(
                self.case.strikes,
                lambda strikes: self._take(replace(self.case, strikes=tuple(strikes))),
            )

    def _only_kinds(self, kinds: Sequence[str]) -> bool:
        return self._take(self._only(kinds))

    def _only(self, kinds: Sequence[str]) -> Case:
        drawn = self.case.parameters
        hub = {name: chance for name, chance in drawn.hub.items() if name in kinds}
        member = {name: chance for name, chance in drawn.member.items() if name in kinds}
        return replace(self.case, parameters=replace(drawn, hub=hub, member=member))


def reduce(items: Sequence[T], keeps: Callable[[Sequence[T]], bool]) -> None:
    """Leaves out parts of `items` for as long as `keeps` says that the rest still shows what is
    looked for.
    """
    left = list(items)
    if left and keeps([]):
        return
    size = len(left) // 2
    while size and len(left) > 1:
        at = 0
        while at < len(left):
            rest = [*left[:at], *left[at + size :]]
            if rest and keeps(rest):
                left = rest
            else:
                at += size
        size //= 2


def _simpler(case: Case) -> Iterator[Callable[[Case], Case]]:
    """Ways to make the rest of a world simpler, each applied to the case as it is by then."""
    for members in range(1, case.parameters.members):
        yield lambda case, members=members: _members(case, members)  # type: ignore[misc]
    changes: list[dict[str, Any]] = [
        {"hubs": 1},
        {"shuffled": False},
        {"restart_s": 0.1},
        {"nodes": 1},
    ]
    if all(action.kind != "FederatedQuota" for action in case.actions):
        changes.append({"quota_cpu": 0})
    for change in changes:
        yield lambda case, change=change: replace(
            case, parameters=replace(case.parameters, **change)
        )  # type: ignore[misc]
    for pause_s in (0.0, 5.0):
        yield lambda case, pause_s=pause_s: _paced(case, pause_s)  # type: ignore[misc]


def _members(case: Case, members: int) -> Case:
    if members >= case.parameters.members:
        return case
    drawn = replace(case.parameters, members=members)
    return replace(case, parameters=drawn, actions=cases.possible(case.actions, members))


def _paced(case: Case, pause_s: float) -> Case:
    return replace(case, actions=tuple(replace(action, pause_s=pause_s) for action in case.actions))
