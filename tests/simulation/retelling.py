"""Runs one world in the open: its whole story for a person, or the search for the smallest one that
fails alike.

What it was drawn from comes first and last. Nothing of this process or machine is in it.
"""

from collections.abc import Sequence

from tests.simulation import cases, running
from tests.simulation.cases import Case
from tests.simulation.shrink import Shrinking
from tests.simulation.story import Story


def replay(case: Case, plant: running.Plant, *, everything: bool) -> int:
    """Tells the story of one world, whether it ends well (0) or not (1). `everything`: also what
    went as expected.
    """
    drawn = case.parameters.text()
    print(drawn)
    try:
        report = cases.run(case, plant)
    except running.Broken as error:
        _tell(error.story, error.breaches, everything=everything)
        print(drawn)
        return 1
    _tell(report.story, [f"{report.digest}: no rule was broken"], everything=everything)
    print(drawn)
    return 0


def shrink(case: Case, plant: running.Plant, *, name: str, budget: int) -> int:
    """Prints the smallest world that breaks the same rule, how to replay it, and its story. 1: the
    seed is broken.
    """
    drawn = case.parameters.text()
    print(drawn)
    try:
        search = Shrinking(case, plant, budget=budget, say=lambda text: print(text, flush=True))
    except ValueError as error:
        print(f"{error}\n{drawn}")
        return 0
    print(f"breaks {search.rule!r} with {case.summary()}")
    smallest = search.search()
    planted = f" --plant {name!r}" if name else ""
    print(f"smallest after {search.runs} runs: {smallest.summary()}")
    _tell(search.broken.story, search.broken.breaches, everything=False)
    print(smallest.parameters.text())
    print(f"python -m tests.simulation.run{planted} --trace --world '{smallest.text()}'")
    print(drawn)
    return 1


def _tell(story: Story, ends: Sequence[str], *, everything: bool) -> None:
    print(*story.told(everything=everything), *ends, sep="\n")
