"""So many times a demand: 1.3 times its core-hours, GiB-hours and GPU-hours.

Services ask for so many times the copies. Of jobs some are there once more, or are left out: which
ones is drawn by the seed and their ids, the largest first, so that the sums of all resources and
the number of works stay near what is asked for.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

from federator.simulate.demand import Work
from federator.simulate.engine.asks import SERVICE
from federator.simulate.scenario import recorded

_UNITS: Final = (("core-hours", 1000), ("GiB-hours", 1024), ("GPU-hours", 1))
"""Of sums in sentences, and how many units of a work make one."""
_WORKS: Final = 0.25
"""How much the number of works counts beside a resource."""
_NEAR: Final = 0.01
_Amounts = tuple[int, ...]
"""Milli-cores, MiB and GPUs, each times seconds, and works."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A demand, and what it asks for, in a sentence."""

    works: tuple[Work, ...]
    sentence: str


def scaled(
    works: Sequence[Work],
    scale: Fraction,
    seed: int,
    end_s: int | None,
    kept: frozenset[str] = frozenset(),
) -> Scaled:
    """So many times the works, by submission. Works without a run time count until `end_s`, without
    it until the last submission or edit. Where few large jobs are most of the demand, these run for
    a part of their time, as few as bring every resource within 1 %. `kept`: ids of services that
    stay also where they ask for nothing at first, because events scale them."""
    until_s = _last_s(works) if end_s is None else end_s
    asked = [_asked(work, until_s) for work in works]
    totals = _summed(asked)
    turns = sorted(range(len(works)), key=lambda at: _turn(works[at], asked[at], totals, seed))
    cut = 0
    while True:
        balance = _Balance(totals, scale)
        made: list[Sequence[Work]] = [()] * len(works)
        for number, at in enumerate(turns):
            options = _options(works[at], scale, cut=number < cut, kept=works[at].id in kept)
            gets = [_summed(_asked(work, until_s) for work in option) for option in options]
            made[at] = options[balance.choose(asked[at], gets)]
        every = tuple(work for option in made for work in option)
        sums = _summed(_asked(work, until_s) for work in every)
        if cut >= len(works) or not _is_far(scale, totals, sums):
            return Scaled(every, _sentence(scale, totals, sums, min(cut, len(works))))
        cut = max(2 * cut, 1)


class _Balance:
    """How far what was chosen is from what is asked for, as parts of all."""

    def __init__(self, totals: _Amounts, scale: Fraction) -> None:
        self._scale = float(scale)
        self._parts = [1 / total if total else 0.0 for total in totals]
        self._parts[-1] *= _WORKS
        self._off = [0.0] * len(totals)

    def choose(self, asked: _Amounts, options: Sequence[_Amounts]) -> int:
        """The option that brings the sums nearest to what is asked for."""
        best, chosen, least = 0, self._off, math.inf
        for at, option in enumerate(options):
            off = [
                before + (gets - each * self._scale) * part
                for before, gets, each, part in zip(
                    self._off, option, asked, self._parts, strict=True
                )
            ]
            distance = sum(part * part for part in off)
            if distance < least:
                best, chosen, least = at, off, distance
        self._off = chosen
        return best


def _turn(work: Work, asked: _Amounts, totals: _Amounts, seed: int) -> tuple[int, bytes]:
    """The largest go first, so that the others make up for what is too much or too little; those of
    about one size by chance."""
    part = max((each / total for each, total in zip(asked, totals, strict=True) if total))
    draw = hashlib.blake2b(f"scale:{seed}:{work.id}".encode(), digest_size=8).digest()
    return -math.frexp(part)[1], draw


def _options(work: Work, scale: Fraction, *, cut: bool, kept: bool) -> list[tuple[Work, ...]]:
    """What the work may become: rounded down, and rounded up; with `cut` neither: the last copy of
    a job runs for a part of its time."""
    if work.kind == SERVICE:
        fewer, more = _resized(work, scale, math.floor), _resized(work, scale, math.ceil)
        return [(fewer,) if kept or _asks(fewer) else (), (more,)]
    every = [
        work if copy == 0 else recorded.renamed(work, f"-copy{copy}")
        for copy in range(math.ceil(scale))
    ]
    rest = scale - math.floor(scale)
    if cut and work.runtime_s is not None and rest:
        part_s = max(round(work.runtime_s * rest), 1)
        return [(*every[:-1], replace(every[-1], runtime_s=part_s))]
    return [tuple(every[: math.floor(scale)]), tuple(every)]


def _resized(work: Work, scale: Fraction, rounded: Callable[[Fraction], int]) -> Work:
    """The service with so many times the copies, later ones too."""
    first = rounded(work.shards * scale)
    curve = tuple(replace(step, copies=rounded(step.copies * scale)) for step in work.curve)
    given = work.recorded
    if given is not None:
        given = replace(given, ask=replace(given.ask, count=first, slots=first))
    return replace(work, shards=first, curve=curve, recorded=given)


def _asks(work: Work) -> bool:
    return work.shards > 0 or any(step.copies for step in work.curve)


def _last_s(works: Sequence[Work]) -> int:
    return max(
        (at_s for work in works for at_s in (work.submit_s, *(step.at_s for step in work.curve))),
        default=0,
    )


def _asked(work: Work, until_s: int) -> _Amounts:
    """What the work asks for in all, if it never waits."""
    copy_s = sum(copies * lasted_s for copies, lasted_s in _spans(work, until_s))
    return (
        (work.cpu_milli or 0) * copy_s,
        (work.memory_mib or 0) * copy_s,
        (work.gpu or 0) * copy_s,
        1,
    )


def _spans(work: Work, until_s: int) -> Iterator[tuple[int, int]]:
    """(copies, for how long) one after the other. What has no run time counts for a second at
    least."""
    if work.runtime_s is not None:
        yield work.shards, work.runtime_s
        return
    last_s = max(until_s, work.submit_s + 1)
    steps = [(work.submit_s, work.shards), *((step.at_s, step.copies) for step in work.curve)]
    for (at_s, copies), (next_s, _) in pairwise([*steps, (last_s, 0)]):
        yield copies, max(min(next_s, last_s) - at_s, 0)


def _summed(amounts: Iterable[_Amounts]) -> _Amounts:
    sums = [0] * (len(_UNITS) + 1)
    for each in amounts:
        sums = [have + more for have, more in zip(sums, each, strict=True)]
    return tuple(sums)


def _is_far(scale: Fraction, before: _Amounts, after: _Amounts) -> bool:
    """Whether a resource is off by more than 1 %."""
    return any(
        had and abs(sums / had / float(scale) - 1) > _NEAR
        for had, sums in zip(before[:-1], after, strict=False)
    )


def _sentence(scale: Fraction, before: _Amounts, after: _Amounts, cut: int) -> str:
    parts = [
        f"{sums / unit / 3600:,.0f} {name} ({sums / had:.3f} times)"
        for (name, unit), had, sums in zip(_UNITS, before, after, strict=False)
        if had
    ]
    far = "; its works are too few or too unlike for less than 1 %"
    return (
        f"Demand is scaled by {float(scale):g}: {after[-1]:,} works ask for "
        f"{', '.join(parts) or 'nothing'}"
        + (f"; of the largest {cut:,}, jobs run for a part of their time" if cut else "")
        + (far if _is_far(scale, before, after) else "")
        + "."
    )
