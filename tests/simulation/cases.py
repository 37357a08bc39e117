"""One world in full: its parameters, what its user does, and what befalls it, as text that can be
replayed.

A seed is the short name of such a case; a case that was made smaller has no seed of its own, so it
is written out.
"""

import dataclasses
import json
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import table
from tests.faults.rows import HUB, RequestFault, Sending
from tests.simulation import running, script
from tests.simulation.drawing import Parameters, Turn, draw
from tests.simulation.script import Action
from tests.simulation.story import Strike
from tests.simulation.world import MEMBER

CLUSTERS = string.ascii_lowercase


class Strikes:
    """A schedule of single requests, each named by its sender, its path and its number among the
    like.
    """

    def __init__(self, strikes: Iterable[Strike]) -> None:
        self._due = {
            (one.process, one.cluster, one.method, one.path, one.nth): one.fault for one in strikes
        }
        self._seen: Counter[tuple[str, str, str, str]] = Counter()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def pick(self, sending: Sending) -> RequestFault | None:
        """The fault that is written down for this request."""
        where = (sending.process, sending.cluster, sending.request.method, sending.request.path)
        nth = self._seen[where]
        self._seen[where] += 1
        found = self._due.get((*where, nth))
        return table.REQUEST_FAULTS[found] if found is not None and not self._stopped else None


@dataclass(frozen=True, slots=True)
class Case:
    """A world and everything that happens in it."""

    parameters: Parameters
    actions: tuple[Action, ...]
    strikes: tuple[Strike, ...] | None = None
    """Faults of single requests, each by name; None where they come by the chances of the
    parameters.
    """

    @classmethod
    def of(cls, seed: int, only: Collection[str] = ()) -> "Case":
        """The case that a seed names. `only`: as in `drawing.draw`."""
        parameters = draw(seed, only)
        return cls(parameters, tuple(script.write(parameters)))

    def text(self) -> str:
        """All of it in one line of JSON."""
        found: dict[str, Any] = {
            "parameters": dataclasses.asdict(self.parameters),
            "actions": [list(dataclasses.astuple(action)) for action in self.actions],
        }
        if self.strikes is not None:
            found["strikes"] = [list(dataclasses.astuple(strike)) for strike in self.strikes]
        return json.dumps(found, separators=(",", ":"), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "Case":
        """The case that `text` writes out, or the file that it names."""
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text())
        drawn = found["parameters"]
        turns = tuple(Turn(**turn) for turn in drawn.pop("turns", ()))
        strikes = found.get("strikes")
        return cls(
            Parameters(**drawn, turns=turns),
            tuple(Action(*action) for action in found["actions"]),
            None if strikes is None else tuple(Strike(*strike) for strike in strikes),
        )

    def summary(self) -> str:
        """Its size in words."""
        drawn = self.parameters
        single = (
            f"{len(self.strikes)} struck requests"
            if self.strikes is not None
            else f"{len(drawn.hub)} kinds of faults"
        )
        return (
            f"{len(self.actions)} actions, {drawn.members} members, {drawn.hubs} hubs, "
            f"{len(drawn.turns)} episodes,"
            f" {single}, {'shuffled' if drawn.shuffled else 'in order'}"
        )


def run(case: Case, plant: running.Plant = running.NOTHING) -> running.Report:
    """The case under its faults, compared with the same script without. Raises `running.Broken`."""
    report = running.simulate(case.parameters, plant, _course(case))
    running.compare(report, running.reference(case.parameters, case.actions))
    return report


def _course(case: Case) -> running.Course:
    if case.strikes is None:
        return running.Course(case.actions)
    schedule = Strikes(case.strikes)
    return running.Course(case.actions, {HUB: schedule, MEMBER: schedule})


def possible(actions: Sequence[Action], members: int) -> tuple[Action, ...]:
    """The actions without those that speak of what is not there any more, once others were left
    out.
    """
    alive: set[tuple[str, str, str]] = {("MemberCluster", "", name) for name in CLUSTERS[:members]}
    found = []
    for action in actions:
        what = (action.kind, action.namespace, action.name)
        if (action.what == "create") == (what in alive):
            continue
        if action.what == "create":
            alive.add(what)
        elif action.what == "delete":
            alive.discard(what)
        found.append(action)
    return tuple(found)
