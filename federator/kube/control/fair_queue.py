"""Fair queue: the order in which the keys of a work queue get their turns."""

import collections
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairQueue(Generic[K]):
    """Keys in the order of their turns: groups take turns, within a group first come, first served.

    A group is starved while keys of it wait and none is in work.
    """

    __slots__ = ("_count", "_group", "_groups", "_working")

    def __init__(self, group: Callable[[K], Hashable] | None) -> None:
        self._group = group
        self._groups: collections.OrderedDict[Hashable, collections.deque[K]] = (
            collections.OrderedDict()
        )
        self._working: dict[Hashable, int] = {}
        """Keys in work, by group."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def _group_of(self, key: K) -> Hashable:
        return self._group(key) if self._group is not None else None

    def append(self, key: K) -> None:
        group = self._group_of(key)
        keys = self._groups.get(group)
        if keys is None:
            keys = self._groups[group] = collections.deque()
        keys.append(key)
        self._count += 1

    def popleft(self, *, starved: bool = False) -> K:
        """The next key, which is in work from now on; `starved`: of those groups only. Raises
        StopIteration when there is none."""
        if starved:
            group = next(group for group in self._groups if group not in self._working)
        else:
            group = next(iter(self._groups))
        self._working[group] = self._working.get(group, 0) + 1
        return self._first_of(group)

    def take(self) -> K:
        """The next key, which is not in work. Raises StopIteration when there is none."""
        return self._first_of(next(iter(self._groups)))

    def _first_of(self, group: Hashable) -> K:
        keys = self._groups[group]
        key = keys.popleft()
        if keys:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        self._count -= 1
        return key

    def began(self, key: K) -> None:
        """The key is in work without having been queued."""
        group = self._group_of(key)
        self._working[group] = self._working.get(group, 0) + 1

    def ended(self, key: K) -> None:
        """The key is not in work any more."""
        group = self._group_of(key)
        left = self._working.pop(group, 0) - 1
        if left > 0:
            self._working[group] = left

    def is_starved(self, key: K) -> bool:
        """Whether keys of the group of `key` wait and none is in work."""
        group = self._group_of(key)
        return group in self._groups and group not in self._working

    def ready(self, *, starved: bool) -> bool:
        """Whether `popleft` would find a key."""
        if not starved:
            return self._count > 0
        return any(group not in self._working for group in self._groups)
