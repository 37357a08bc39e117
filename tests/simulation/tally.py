"""What a campaign adds up to: one outcome per seed, kept as a line of JSON, and the tables made
from all of them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.hostile import NUMBERS
from tests.simulation.reasons import ELSEWHERE, EXPECTED
from tests.simulation.running import Report

CAMPAIGN = 1000
"""In so many seeds every fault must fire, and every reason appear."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of one seed once it has been run."""

    seed: int
    breaches: tuple[str, ...] = ()
    """Empty when every rule was kept."""
    fired: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How often each reason was newly given."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """How often some rules had anything to judge."""
    writes: int = 0
    deaths: int = 0
    leaders: int = 0
    """How often the lead went from one life of a hub to another."""
    most_per_minute: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    digest: str = ""

    @classmethod
    def of(cls, seed: int, report: Report, cpu_s: float) -> "Outcome":
        """Of a run that kept every rule."""
        return cls(
            seed,
            fired=dict(sorted(report.fired.items())),
            reasons=dict(sorted(report.reasons.items())),
            judged=dict(sorted(report.judged.items())),
            writes=report.steps,
            deaths=report.deaths,
            leaders=report.leaders,
            most_per_minute=report.most_per_minute,
            virtual_s=round(report.virtual_s, 1),
            cpu_s=round(cpu_s, 2),
            digest=report.digest,
        )

    def line(self) -> str:
        """What happened, in one line; the failure when there was one."""
        if self.breaches:
            return "\n".join(
                [
                    f"seed {self.seed} is broken",
                    *(f"    {text[:600]}" for text in self.breaches[:3]),
                ]
            )
        return (
            f"seed {self.seed}: {self.writes} writes, {self.deaths} crashes, {self.leaders} "
            "changes of the leader,"
            f" {sum(self.fired.values())} faults, at most {self.most_per_minute} requests a "
            f"minute, {self.digest},"
            f" {self.virtual_s:.0f} virtual seconds in {self.cpu_s:.2f} s of processor"
        )


def keep(path: Path, outcome: Outcome) -> None:
    """Adds one line."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(outcome), sort_keys=True) + "\n")


def kept(path: Path) -> dict[int, Outcome]:
    """The outcomes in a file, by seed; none where there is no file yet."""
    if not path.exists():
        return {}
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["seed"]: Outcome(**{**row, "breaches": tuple(row["breaches"])}) for row in rows}


def fault_table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line per fault."""
    for name, number in NUMBERS.items():
        times = sum(one.fired.get(name, 0) for one in outcomes)
        seeds = sum(1 for one in outcomes if one.fired.get(name))
        yield f"{number:4} {name:28} fired {times:6} times in {seeds:5} seeds"


def never_fired(outcomes: Sequence[Outcome]) -> list[str]:
    """Faults that a campaign of this size should have seen."""
    seen = {name for one in outcomes for name, times in one.fired.items() if times}
    return sorted(NUMBERS.keys() - seen) if len(outcomes) >= CAMPAIGN else []


def reason_table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line per reason that must appear, and per one that nobody expected."""
    seeds = Counter(name for one in outcomes for name in one.reasons)
    for name in sorted({*EXPECTED, *seeds}):
        said = (
            ""
            if name in EXPECTED
            else " (not expected in these worlds)"
            if name in ELSEWHERE
            else " (in no table)"
        )
        yield f"{name:44} appeared in {seeds[name]:5} seeds{said}"


def never_appeared(outcomes: Sequence[Outcome]) -> list[str]:
    """Reasons that a campaign of this size should have seen."""
    seen = {name for one in outcomes for name in one.reasons}
    return sorted(EXPECTED - seen) if len(outcomes) >= CAMPAIGN else []


def never_divided(outcomes: Sequence[Outcome]) -> bool:
    """Whether a campaign of this size gave no cluster's shards to two others or more."""
    return len(outcomes) >= CAMPAIGN and not any(one.judged.get("divided") for one in outcomes)


def in_no_table(outcomes: Sequence[Outcome]) -> list[str]:
    """Reasons that were given and stand in neither table."""
    return sorted({name for one in outcomes for name in one.reasons} - EXPECTED - ELSEWHERE.keys())


def sums(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What all seeds come to. The last line is equal for two campaigns that saw the same."""
    good = [one for one in outcomes if not one.breaches]
    total: Counter[str] = Counter()
    for one in good:
        total.update(writes=one.writes, deaths=one.deaths, leaders=one.leaders)
    cpu_s = sum(one.cpu_s for one in good)
    longest = max((one.most_per_minute for one in good), default=0)
    yield (
        f"{total['writes']} writes, {total['deaths']} crashes, {total['leaders']} changes of "
        "the leader,"
        f" at most {longest} requests a minute for one path"
    )
    judged = sum((Counter(one.judged) for one in good), Counter[str]())
    yield (
        f"{judged['decisions']} decisions beside what their hub had heard, "
        f"{judged['shares']} shares in time in their"
        f" members, {judged['shares_beside']} of them while another member was in trouble"
    )
    divided = [one.judged["divided"] for one in good if one.judged.get("divided")]
    yield (
        f"re-divided over several receivers: {sum(divided)} times in {len(divided)} of "
        f"{len(good)} seeds;"
        f" {judged['spared']} writes that took copies away beside what was ready, "
        f"{judged['2 room is not over-booked']}"
        " shares that grew beside the room of their cluster, "
        f"{judged['6 what runs was admitted']} natives beside what"
        f" was admitted; of shards {judged['1 every shard is given']} decisions, "
        f"{judged['27 words are cut']} words,"
        f" {judged['1 nothing runs again']} Jobs, {judged['14 completions first']} slices that went"
    )
    yield (
        f"{judged['charges']} charges of job sets beside the host's objects, "
        f"{judged['served']} that waited and had"
        f" room; {judged['divisions']} divisions of shards beside what was done, "
        f"{judged['divided']} of"
        f" one cluster's over several, {judged['unrecorded']} with some that the host had "
        "not recorded"
    )
    if good:
        yield (
            f"{sum(one.virtual_s for one in good) / len(good) / 60:.1f} virtual minutes and"
            f" {cpu_s / len(good):.2f} s of processor a seed, with its run without faults"
        )
    digest = hashlib.blake2b(
        "".join(one.digest for one in good).encode(), digest_size=12
    ).hexdigest()
    yield (
        f"{len(outcomes)} seeds, {len(good)} kept every rule, wrote nothing at rest and ended as "
        f"asked: {digest}"
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "seeds": len(outcomes),
        "broken": [one.seed for one in outcomes if one.breaches],
        "never_fired": never_fired(outcomes),
        "faults": {
            name: {
                "number": number,
                "times": sum(one.fired.get(name, 0) for one in outcomes),
                "seeds": sum(1 for one in outcomes if one.fired.get(name)),
            }
            for name, number in NUMBERS.items()
        },
        "never_appeared": never_appeared(outcomes),
        "reasons": dict(sorted(Counter(name for one in outcomes for name in one.reasons).items())),
        "text": list(sums(outcomes)),
    }
