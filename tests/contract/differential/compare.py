"""Plays a sequence on both servers and says where their answers differ; makes a failing sequence
shorter.
"""

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import RealClock
from federator.kube.wire.transport import Transport
from tests.contract.differential import exceptions
from tests.contract.differential.kinds import Object
from tests.contract.differential.masks import Masker
from tests.contract.differential.sides import Side
from tests.contract.differential.steps import Step
from tests.contract.speaking import Speaker

_TRIES = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """One step with two answers, and the paths at which they differ: (path, real, embedded)."""

    step: Step
    paths: tuple[tuple[str, Any, Any], ...]

    def __str__(self) -> str:
        lines = [
            f"    {path or '(body)'}:\n      real:     {real!r}\n      embedded: {mine!r}"
            for path, real, mine in self.paths
        ]
        return "\n".join([str(self.step)[:1500], *lines[:12]])


MISSING = "(nothing)"


def paths(real: Any, mine: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """The deepest paths at which two trees differ."""
    if isinstance(real, dict) and isinstance(mine, dict):
        found = []
        for key in sorted({*real, *mine}):
            found += paths(
                real.get(key, MISSING), mine.get(key, MISSING), f"{path}.{key}" if path else key
            )
        return found
    if isinstance(real, list) and isinstance(mine, list) and len(real) == len(mine):
        return [
            each
            for index, pair in enumerate(zip(real, mine, strict=True))
            for each in paths(*pair, f"{path}[{index}]")
        ]
    if type(real) is type(mine) and real == mine:
        return []
    return [(path, real, mine)]


class Arena:
    """A real server and an embedded one. Every sequence, and every shorter one, has a namespace of
    its own on both.
    """

    def __init__(self, real: Transport, prefix: str) -> None:
        self._real = real
        self._prefix = prefix
        cluster = EmbeddedCluster(
            "difference", clock=RealClock(), rng=random.Random(prefix), controllers=False
        )
        self._embedded = cluster.transport()
        self._numbers = itertools.count(1)
        self.excused: dict[str, int] = {}

    async def prepare(self, definitions: Sequence[Object]) -> None:
        """Makes the embedded server serve these kinds; the real one does already."""
        for definition in definitions:
            await Speaker(self._embedded, "").post(_DEFINITIONS, definition)

    async def differences(self, steps: Sequence[Step]) -> list[Difference]:
        """What differs and is no exception, in the order of the steps."""
        namespace = f"{self._prefix}{next(self._numbers):05d}"
        sides = [Side(self._real, namespace), Side(self._embedded, namespace)]
        real, mine = await asyncio.gather(*(side.play(steps) for side in sides))
        found = []
        pairs = zip(
            Masker(namespace).transcript(real), Masker(namespace).transcript(mine), strict=True
        )
        for step, (theirs, ours) in zip(steps, pairs, strict=True):
            left, is_over = [], False
            for each in paths(theirs, ours):
                row = self._excuse(step, each, theirs, ours)
                is_over = is_over or (row is not None and row.ends)
                if row is None:
                    left.append(each)
            if left:
                found.append(Difference(step, tuple(left)))
            if is_over:
                break
        return found

    def _excuse(
        self, step: Step, path: tuple[str, Any, Any], theirs: Object, ours: Object
    ) -> exceptions.Row | None:
        for row in exceptions.ROWS:
            if row.covers(step, path, theirs, ours):
                self.excused[row.name] = self.excused.get(row.name, 0) + 1
                return row
        return None

    async def shrunk(
        self, steps: Sequence[Step], first: Difference
    ) -> tuple[list[Step], Difference]:
        """The shortest part of the sequence found that still ends with a difference in the same
        cell.
        """
        kept = [step for step in steps if step.number <= first.step.number]
        position = len(kept) - 2
        for _ in range(_TRIES):
            if position < 0:
                break
            shorter = kept[:position] + kept[position + 1 :]
            again = [
                each
                for each in await self.differences(shorter)
                if each.step.number == kept[-1].number
            ]
            if again and again[0].paths[0][0] == first.paths[0][0]:
                kept, first = shorter, again[0]
            position -= 1
        return kept, first


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
