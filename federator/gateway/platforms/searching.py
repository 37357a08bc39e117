"""Looks for the objects of submissions, of many submissions in one list.

Before anything is created under a key, the objects of the host tell whether the key has been used:
one list for each kind. A CI system sends many submissions of one workflow at a time, so those that
come while a search runs share the next one. Each search begins after the requests that it serves
have come, and with the rights of their caller.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from federator.api import submissions
from federator.gateway.api.problems import Problem
from federator.gateway.callers import Caller
from federator.gateway.platforms.kinds import SubmittedKind

Obj = dict[str, Any]
GATHER_S: Final = 0.25
"""A search that comes while another of its key runs begins at least so much later than that one.
Where none runs it begins immediately: a caller that submits one after the other never waits."""
IDS_MAX: Final = 100
"""Submissions of one search: their identifiers are in the address of its requests."""
Key = tuple[bytes, str, str]
"""The digest of what a caller shows to the host, the namespace, and the workflow. Nothing that
outlives a request holds a token."""


class Lists(Protocol):
    """What lists objects (`platform.Platform`)."""

    async def labelled(
        self, caller: Caller, namespace: str, selectors: Mapping[str, str]
    ) -> list[Obj]:
        """Objects that the caller may list, by the selector of labels of each kind. Raises
        `Problem`."""
        ...


@dataclass(slots=True)
class _Search:
    """One list of each kind. `done` has the objects, a problem, or None where the request that ran
    it has gone away."""

    done: "asyncio.Future[list[Obj] | Problem | None]"
    identities: set[str] = field(default_factory=set)


class Searches:
    """Of one platform in one gateway. `monotonic` reads a clock in seconds."""

    def __init__(
        self, lists: Lists, kinds: Iterable[SubmittedKind], monotonic: Callable[[], float]
    ) -> None:
        self._lists = lists
        # What it made comes first.
        self._kinds = sorted(kinds, key=lambda each: each.ends, reverse=True)
        self._monotonic = monotonic
        self._gathering: dict[Key, _Search] = {}
        """Searches that have not begun."""
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        """Held by the search that runs. Others of its key wait for it in their order."""
        self._begun_s: OrderedDict[Key, float] = OrderedDict()
        """When the last one of a key has begun, while that makes the next one wait."""

    async def find(self, caller: Caller, namespace: str, workflow: str, identity: str) -> list[Obj]:
        """The objects that a submission has made, or changed. Raises `Problem`."""
        shown = hashlib.sha256(repr(caller.headers).encode()).digest()
        key = shown, namespace, workflow
        while True:
            search = self._gathering.get(key)
            if search is None:
                search = _Search(asyncio.get_running_loop().create_future(), {identity})
                self._gathering[key] = search
                objs: list[Obj] | Problem | None = await self._run(search, key, caller)
            else:
                search.identities.add(identity)
                if len(search.identities) >= IDS_MAX:
                    del self._gathering[key]  # it begins as it is
                objs = await asyncio.shield(search.done)
            if isinstance(objs, Problem):
                raise objs
            if objs is not None:
                return [obj for obj in objs if _is_of(obj, identity, workflow)]

    async def _run(self, search: _Search, key: Key, caller: Caller) -> list[Obj] | Problem:
        """Waits until it is time, and searches; others wait for `search.done`."""
        objs: list[Obj] | Problem | None = None
        turn = self._turns.setdefault(key, asyncio.Lock())
        gathers = turn.locked()
        try:
            async with turn:
                wait_s = self._begun_s.get(key, float("-inf")) + GATHER_S - self._monotonic()
                if gathers and wait_s > 0:
                    await asyncio.sleep(wait_s)
                self._begin(search, key)
                _, namespace, workflow = key
                try:
                    objs = await self._lists.labelled(
                        caller, namespace, self._selectors(workflow, search.identities)
                    )
                except Problem as problem:
                    objs = problem
                return objs
        finally:
            if self._gathering.get(key) is search:
                del self._gathering[key]
            if not search.done.done():
                search.done.set_result(objs)

    def _begin(self, search: _Search, key: Key) -> None:
        """From now on, no further request joins it."""
        if self._gathering.get(key) is search:
            del self._gathering[key]
        now_s = self._monotonic()
        self._begun_s[key] = now_s
        self._begun_s.move_to_end(key)
        while next(iter(self._begun_s.values())) <= now_s - GATHER_S:
            self._begun_s.popitem(last=False)

    def _selectors(self, workflow: str, identities: set[str]) -> dict[str, str]:
        """A kind that ends has an object for each submission, labelled with it. On any other kind
        the label names the last submission, and the annotation some before it."""
        made = f"{submissions.ID_LABEL} in ({','.join(sorted(identities))})"
        changed = f"{submissions.WORKFLOW_LABEL}={workflow}"
        return {each.kind: made if each.ends else changed for each in self._kinds}


def _is_of(obj: Mapping[str, Any], identity: str, workflow: str) -> bool:
    return any(each.id == identity and each.workflow == workflow for each in submissions.read(obj))
