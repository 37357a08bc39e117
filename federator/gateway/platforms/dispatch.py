"""The platforms of one gateway together: which of them a submission is for, and what they answer.

The kind of an object says its platform. Before a workflow is read nobody knows its kinds, so
callers are admitted and keys are looked for at all platforms.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from federator.api import submissions
from federator.gateway.api.problems import Problem
from federator.gateway.callers import Caller
from federator.gateway.platforms.platform import Parts, Platform
from federator.gateway.platforms.searching import Searches
from federator.gateway.platforms.table import Row, Table

Obj = dict[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Target:
    """One platform, as this gateway uses it."""

    row: Row
    platform: Platform
    searches: Searches


@dataclass(frozen=True, slots=True)
class Admission:
    """What the platforms say of a caller in a namespace: at least one admits."""

    refused: Mapping[str, Problem]
    """By the name of the platform."""

    def check(self, name: str) -> None:
        """Raises the `Problem` of a platform that does not admit the caller."""
        if name in self.refused:
            raise self.refused[name]


class Platforms:
    """Of one gateway. `monotonic` reads a clock in seconds."""

    def __init__(self, table: Table, parts: Parts, monotonic: Callable[[], float]) -> None:
        self._targets: list[_Target] = []
        for row in table.rows:
            platform = row.build(parts)
            searches = Searches(platform, row.kinds, monotonic)
            self._targets.append(_Target(row, platform, searches))
        self._by_kind: Final = {
            each.kind: target.platform for target in self._targets for each in target.row.kinds
        }

    def of(self, obj: Mapping[str, Any]) -> Platform:
        """The platform of an object."""
        return self._by_kind[obj["kind"]]

    async def admit(self, caller: Caller, namespace: str) -> Admission:
        """Returns when at least one platform admits the caller there. Raises `Problem`."""
        answers = await self._asked(lambda target: target.platform.admit(caller, namespace))
        refused = _refused(answers)
        if len(refused) == len(answers):
            raise _most_hopeful(refused.values())
        return Admission(refused)

    async def find(
        self,
        caller: Caller,
        namespace: str,
        workflow: str,
        identity: str,
        without: Collection[str] = (),
    ) -> list[Obj]:
        """The objects that a submission has made, or changed, at any platform but those `without`.
        Raises `Problem` where none is found and a platform cannot say that it has none."""
        answers = await self._asked(
            lambda target: target.searches.find(caller, namespace, workflow, identity), without
        )
        return _together(answers, enough=any)

    async def listed(self, caller: Caller, namespace: str, workflow: str) -> list[Obj]:
        """The objects of all submissions of a workflow. Raises `Problem`."""
        selector = f"{submissions.WORKFLOW_LABEL}={workflow}"

        def of(target: _Target) -> Awaitable[list[Obj]]:
            selectors = dict.fromkeys((each.kind for each in target.row.kinds), selector)
            return target.platform.labelled(caller, namespace, selectors)

        return _together(await self._asked(of), enough=lambda _: False)

    async def _asked(
        self, ask: Callable[[_Target], Awaitable[Answer]], without: Collection[str] = ()
    ) -> dict[str, Answer | Problem]:
        """What each platform answers, or how it refuses."""

        async def asked(target: _Target) -> Answer | Problem:
            try:
                return await ask(target)
            except Problem as problem:
                return problem

        targets = [each for each in self._targets if each.row.name not in without]
        if len(targets) == 1:  # the usual case needs no tasks
            return {targets[0].row.name: await asked(targets[0])}
        answers = await asyncio.gather(*map(asked, targets))
        return {each.row.name: answer for each, answer in zip(targets, answers, strict=True)}


def _together(
    answers: Mapping[str, list[Obj] | Problem], enough: Callable[[list[Obj]], bool]
) -> list[Obj]:
    """The objects of all platforms that let the caller look. Raises `Problem` where none does, or
    where one is in trouble, unless the objects of the others are enough."""
    objs = [obj for each in answers.values() if not isinstance(each, Problem) for obj in each]
    refused = _refused(answers)
    trouble = [each for each in refused.values() if each.status != 403]
    if (trouble or len(refused) == len(answers)) and not enough(objs):
        raise _most_hopeful(refused.values())
    return objs


def _refused(answers: Mapping[str, Any]) -> dict[str, Problem]:
    return {name: each for name, each in answers.items() if isinstance(each, Problem)}


def _most_hopeful(refused: Iterable[Problem]) -> Problem:
    """The first refusal that may be another one later, or else the first."""
    listed = list(refused)
    return next((each for each in listed if each.status != 403), listed[0])
