"""Answers the question of a scenario: simulates what may be chosen, and says in one sentence which
choice meets the measures.

The measures are those of the scenario that have bounds; without any 99 of 100 works wait at most 10
minutes. Beside these every work has to start where the scenario does not bound how many never do:
waiting is of those that started, and a fleet that starts nothing would not wait. With several seeds
a choice meets them when it does with each.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from federator.model.errors import FieldError
from federator.simulate.engine import run as engine
from federator.simulate.outcome import WAITING_KEYS, Life, Measure, SimulationResult
from federator.simulate.report import amounts, figures, measures
from federator.simulate.report.figures import Judged
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import Document, InvalidScenario
from federator.simulate.scenario.question import Question
from federator.simulate.sweep import search
from federator.simulate.sweep.plan import SEED, Task
from federator.simulate.sweep.running import Result, Runner
from federator.simulate.traces.problems import TraceError

DAY_S: Final = 86400
NEVER_STARTED: Final = "never_started"
ALL_START: Final = {"number of works never started": {"figure": NEVER_STARTED, "most": 0}}
DEFAULT: Final = {"waiting of 99 of 100 works": {"figure": "wait_p99_s", "most": "10m"}}
"""Measures of a scenario that bounds none."""
WHOLE: Final = 100
PARTS_MOST: Final = 800
"""Per cent of every cluster."""
NODES_MOST: Final = 4096
SHOWN: Final = ("never_started", "wait_p99_s", "missing_copy_s", "moves", "cost")
"""Figures of a row of the table."""


class Failed(ValueError):
    """A simulation could not be run, or the question does not fit the scenario."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice over its seeds."""

    title: str
    met: bool
    missed: str
    """The first measure that is out of its bounds, with its value; "" for none."""
    figures: Mapping[str, float]
    """Of the worst seed: one that misses, else the first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question comes to."""

    sentence: str
    tried: tuple[Tried, ...]
    """In the order in which they were tried."""


# -- one simulation --------------------------------------------------------------------------------


def judged(task: Task) -> Result:
    """Whether one simulation meets its measures; what is wrong with its input is a result too. Runs
    anywhere."""
    try:
        inputs = loading.inputs(json.loads(task.document), Path(task.file), os.environ)
        outcome = engine.run(inputs)
    except (InvalidScenario, TraceError, FieldError, ValueError) as bad:
        return {"id": task.id, "error": str(bad)}
    measured = measures.measure(outcome)
    missed = figures.missed(measured)
    day = _day_of_shortage(outcome)
    return {
        "id": task.id,
        "missed": [_miss(measure) for measure in missed],
        "figures": figures.values(measured),
        "shortage": None if day is None else _when(day * DAY_S, inputs.origin_s),
        "end": _when(outcome.end_s - 1, inputs.origin_s),
        "lacking": _lacking(outcome, measured, day),
        "peak_s": _peak_s(outcome, measured),
        "peak": _when(_peak_s(outcome, measured), inputs.origin_s),
        "clusters": list(inputs.clusters),
    }


def _miss(measure: Judged) -> str:
    return f"{measure.wanted.name} is {measure.shown}, {measure.bounds} is wanted"


def _when(at_s: int, origin_s: int) -> str:
    """A date where there is one, else the day of the simulation."""
    if origin_s:
        return datetime.fromtimestamp(origin_s + at_s, UTC).strftime("%Y-%m-%d %H:%M")
    return f"day {at_s // DAY_S + 1}"


def _day_of_shortage(outcome: SimulationResult) -> int | None:
    """The first day from which on the measures of waiting are missed to the end, each judged on the
    works submitted until the end of that day; None where they are met at the end."""
    lives = [life for life in outcome.lives if life.work.submit_s >= outcome.warm_up_s]
    if not lives:
        return None
    days = range(lives[-1].work.submit_s // DAY_S, outcome.warm_up_s // DAY_S - 1, -1)
    shortage = None
    for day in days:
        until = [life for life in lives if life.work.submit_s < (day + 1) * DAY_S]
        if not any(_missed_by(wanted, until) for wanted in outcome.wanted):
            break
        shortage = day
    return shortage


def _missed_by(wanted: Measure, lives: Sequence[Life]) -> bool:
    if wanted.figure not in WAITING_KEYS:
        return False
    own = [
        life
        for life in lives
        if wanted.project in ("", life.work.project) and wanted.tier in ("", life.work.tier.value)
    ]
    value = float(getattr(measures.waits("", own), figures.WAITING_FIELDS[wanted.figure]))
    return value > wanted.most if wanted.most is not None else False


def _lacking(outcome: SimulationResult, measured: measures.Measures, day: int | None) -> str:
    """What was scarce: the resource, with the GPU model where all that waited need one."""
    what = measured.scarce[0].what if measured.scarce else ""
    what = what or (measured.lacks[0].reason if measured.lacks else "capacity")
    if what != "gpu":
        return what
    models = Counter(
        life.work.gpu_models
        for life in outcome.lives
        if life.wait_s != 0 and life.work.submit_s >= (day or 0) * DAY_S and life.work.gpu
    )
    only = next(iter(models), ()) if len(models) == 1 else ()
    return f"{only[0]} GPUs" if len(only) == 1 else "GPUs"


def _peak_s(outcome: SimulationResult, measured: measures.Measures) -> int:
    """When most of the resource is in use that is in use most."""
    if not measured.fleet or not outcome.samples:
        return 0
    busiest = max(measured.fleet, key=lambda use: (use.mean, use.resource)).resource
    at = outcome.resources.index(busiest)
    return max(
        outcome.samples, key=lambda sample: sum(row[at] for row in sample.used.values())
    ).at_s


# -- choices ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bench:
    """Simulates choices, each once."""

    document: Document
    file: Path
    runner: Runner
    seeds: int
    tried: dict[str, Tried] = field(default_factory=dict)
    results: dict[str, list[Result]] = field(default_factory=dict)

    def run(self, choices: Mapping[str, Document]) -> None:
        """Simulates each choice (title -> document) that was not tried. Raises Failed."""
        fresh = {title: doc for title, doc in choices.items() if title not in self.tried}
        tasks = {title: self._tasks(doc) for title, doc in fresh.items()}
        results = {
            str(result["id"]): result
            for result in self.runner([task for own in tasks.values() for task in own])
        }
        for title, own in tasks.items():
            rows = [results[task.id] for task in own]
            bad = next((row["error"] for row in rows if "error" in row), None)
            if bad is not None:
                raise Failed(f"{title}: {bad}")
            worst = next((row for row in rows if row["missed"]), rows[0])
            missed = worst["missed"][0] if worst["missed"] else ""
            self.results[title] = [worst, *(row for row in rows if row is not worst)]
            self.tried[title] = Tried(title, not missed, missed, worst["figures"])

    def _tasks(self, document: Document) -> list[Task]:
        first = int(document.get(SEED) or 0)
        planned = []
        for seed in range(first, first + self.seeds):
            text = json.dumps({**document, SEED: seed}, default=str)
            digest = hashlib.sha256(f"{self.file}\n{text}".encode()).hexdigest()
            planned.append(Task(digest, ((SEED, str(seed)),), text, str(self.file)))
        return planned

    def judge(self, choice: Callable[[int], tuple[str, Document]]) -> search.Judge:
        """Of numbers, each of which makes a choice."""

        def judge(numbers: Sequence[int]) -> dict[int, bool]:
            made = {number: choice(number) for number in numbers}
            self.run(dict(made.values()))
            return {number: self.tried[title].met for number, (title, _) in made.items()}

        return judge

    def worst(self, title: str) -> Result:
        return self.results[title][0]


AS_IT_IS: Final = "as it is"


def answer(document: Document, file: Path, runner: Runner, seeds: int = 1) -> Answer:
    """The answer to the question of a scenario. Raises InvalidScenario and Failed."""
    scenario = loading.scenario(document, str(file))
    question = scenario.question
    if question is None:
        raise Failed(f"{file}: the scenario has no question")
    bounded = {
        wanted.figure or name
        for name, wanted in scenario.measures.items()
        if wanted.most is not None or wanted.least is not None
    }
    given = {key: value for key, value in document.items() if key != "question"}
    given["measures"] = {
        **(document.get("measures") or {}),
        **({} if bounded else DEFAULT),
        **({} if NEVER_STARTED in bounded else ALL_START),
    }
    bench = _Bench(given, file, runner, seeds)
    sentence = _ANSWERS[question.kind](bench, question)
    if not bounded:
        sentence += (
            " The scenario bounds no measure; judged was that every work starts, and 99 of 100"
            " within 10 min."
        )
    if seeds > 1:
        sentence += f" Met means met with each of {seeds} seeds."
    elif scenario.drawn:
        sentence += " This is one seed; --seeds 8 tells whether the answer holds with others."
    return Answer(sentence, tuple(bench.tried.values()))


def _runs_out(bench: _Bench, question: Question) -> str:
    bench.run({AS_IT_IS: bench.document})
    base = bench.worst(AS_IT_IS)
    if bench.tried[AS_IT_IS].met:
        return f"The fleet does not run out before {base['end']}."
    if base["shortage"] is None:
        return f"The measures are missed, but not for waiting: {base['missed'][0]}."
    text = (
        f"The fleet runs out of {base['lacking']} on {base['shortage']}: from then on the measures"
        f" are missed ({base['missed'][0]})"
    )
    if not question.cluster:
        return f"{text}."

    def grown(number: int) -> tuple[str, Document]:
        title = f"{amounts.counted(number, 'more node')} in {question.cluster}"
        return title, loading.adding(bench.document, f"{question.cluster}={number}")

    size = search.enough_above(1, NODES_MOST, bench.judge(grown))
    if size.number is None:
        return f"{text}; {NODES_MOST:,} more nodes in {question.cluster} do not help."
    return f"{text}; {grown(size.number)[0]} carry it to {base['end']}."


def _how_much_smaller(bench: _Bench, _question: Question) -> str:
    def part(number: int) -> tuple[str, Document]:
        return f"{number} % of every cluster", loading.changed(
            bench.document, [f"fleet.capacity={number}%"]
        )

    judge = bench.judge(part)
    if not judge([WHOLE])[WHOLE]:
        size = search.enough_above(WHOLE + 1, PARTS_MOST, judge)
        miss = bench.tried[part(WHOLE)[0]].missed
        if size.number is None:
            return f"The fleet does not meet the measures ({miss}), nor does {PARTS_MOST} % of it."
        return (
            f"The fleet is too small ({miss}); {size.number} % of every cluster is the least that"
            f" meets the measures{_below(bench, size, part)}."
        )
    size = search.smallest(1, WHOLE, judge)
    assert size.number is not None
    if size.number == WHOLE:
        return f"The fleet cannot be smaller{_below(bench, size, part)}."
    return (
        f"The fleet can be {WHOLE - size.number} % smaller: {size.number} % of every cluster is"
        f" the least that meets the measures{_below(bench, size, part)}."
    )


def _below(
    bench: _Bench, size: search.Smallest, choice: Callable[[int], tuple[str, Document]]
) -> str:
    """What happens with the next smaller number, and which still smaller ones are enough."""
    if size.below is None:
        return ""
    title = choice(size.below)[0]
    text = f" (with {title} {bench.tried[title].missed})"
    if size.islands:
        smaller = ", ".join(choice(number)[0] for number in size.islands[-3:])
        text += f"; {smaller} would do again, because waiting is not monotone"
    return text


def _which_shape(bench: _Bench, question: Question) -> str:
    choices: dict[str, Document] = {}
    for name, given in question.shapes.items():
        settings = [f"{path}={json.dumps(value)}" for path, value in given.items()]
        choices[name] = loading.changed(bench.document, settings)
    bench.run(choices)
    priced = all("cost" in tried.figures for tried in bench.tried.values())
    key = "cost" if priced else "missing_copy_s"
    ranked = sorted(bench.tried.values(), key=lambda tried: (not tried.met, tried.figures[key]))
    best, others = ranked[0], ranked[1:]
    if not best.met:
        best = min(ranked, key=lambda tried: tried.figures["missing_copy_s"])
        return f"No shape meets the measures; least is missing with {best.title} ({best.missed})."
    what = f"cost {figures.shown(key, best.figures[key])}" if priced else "least waiting"
    rest = [
        f"{tried.title}: {figures.shown(key, tried.figures[key])}"
        if tried.met
        else f"{tried.title}: {tried.missed}"
        for tried in others
    ]
    beside = f" ({'; '.join(rest)})" if rest else ""
    return f"{best.title} meets the measures with {what}{beside}."


def _survives(bench: _Bench, question: Question) -> str:
    bench.run({AS_IT_IS: bench.document})
    base = bench.worst(AS_IT_IS)
    if not bench.tried[AS_IT_IS].met:
        return f"The fleet misses the measures before anything is lost: {base['missed'][0]}."
    at_s = int(base["peak_s"]) if question.at is None else question.at
    lost = question.lose or [str(name) for name in base["clusters"]]
    choices = {}
    for name in lost:
        events = [{"at": at_s, "lost": name}]
        if question.lasting is not None:
            events.append({"at": at_s + question.lasting, "returned": name})
        before = bench.document.get("events") or []
        choices[f"without {name}"] = {**bench.document, "events": [*before, *events]}
    bench.run(choices)
    fatal = [bench.tried[title] for title in choices if not bench.tried[title].met]
    when = "at the peak of use" if question.at is None else f"after {amounts.length(at_s)}"
    if not fatal:
        named = "each of them" if len(lost) > 1 else lost[0]
        tried = amounts.counted(len(lost), "loss", "losses")
        return f"The fleet survives the loss of {named} {when} ({tried} tried)."
    worst = max(fatal, key=lambda tried: tried.figures["missing_copy_s"])
    others = len(lost) - len(fatal)
    rest = (
        f"; it survives {amounts.counted(others, 'other loss', 'other losses')}" if others else ""
    )
    names = ", ".join(tried.title.removeprefix("without ") for tried in fatal)
    return (
        f"The fleet does not survive the loss of {names} {when}; worst is {worst.title}"
        f" ({worst.missed}){rest}."
    )


def _quota(bench: _Bench, question: Question) -> str:
    quotas = bench.document.get("quotas") or []
    place = next(
        (
            at
            for at, quota in enumerate(quotas)
            if isinstance(quota, dict)
            and (quota.get("metadata") or {}).get("name") == question.account
        ),
        None,
    )
    if place is None:
        raise Failed(
            f"question.account: quotas of the scenario write no FederatedQuota {question.account!r}"
            " (one in a file of its own cannot be changed)"
        )

    def guaranteed(number: int) -> tuple[str, Document]:
        title = f"{number:,} {question.resource} guaranteed to {question.account}"
        document: Document = json.loads(json.dumps(bench.document, default=str))
        tiers = document["quotas"][place].setdefault("spec", {}).setdefault("tiers", {})
        tier = tiers.setdefault(question.tier, {})
        tier.setdefault("guaranteed", {})[question.resource] = str(number)
        return title, document

    size = search.smallest(0, question.most, bench.judge(guaranteed))
    if size.number is None:
        title = guaranteed(question.most)[0]
        return f"{title} do not meet the measures: {bench.tried[title].missed}."
    return (
        f"{guaranteed(size.number)[0]} are the least that meet the measures"
        f"{_below(bench, size, guaranteed)}."
    )


_ANSWERS: Final[Mapping[str, Callable[[_Bench, Question], str]]] = {
    "RunsOut": _runs_out,
    "HowMuchSmaller": _how_much_smaller,
    "WhichShape": _which_shape,
    "Survives": _survives,
    "Quota": _quota,
}


def document_of(answered: Answer) -> dict[str, Any]:
    return {
        "answer": answered.sentence,
        "tried": [
            {
                "choice": tried.title,
                "met": tried.met,
                "missed": tried.missed,
                "figures": dict(tried.figures),
            }
            for tried in answered.tried
        ],
    }
