"""The works that lack copies, counted by kind while they come and go: thousands may wait, of few
kinds, and a sample looks at the kinds only.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from federator.model.ask import Ask, PodShape
from federator.model.names import WorkloadKey
from federator.simulate.engine.running import Running
from federator.simulate.outcome import FOR_CAPACITY

_Kind = tuple[int, int, int, str]
"""(identity of the shape, copies that each lacks, identity of the policy, reason): shapes are told
apart by identity, which costs less than their hashes."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Works that lack the same number of the same copies."""

    shape: PodShape
    missing: int
    """Of each work."""
    together: int
    """Of these so many need a place at once."""
    for_room: bool
    """Whether more capacity would help them."""
    copies: int
    """That all of them lack."""


class Lacking:
    """Those that lacked copies after the last decision about them."""

    def __init__(self) -> None:
        self._works: dict[WorkloadKey, tuple[Running, _Kind]] = {}
        self._counts: dict[_Kind, int] = {}
        self._asks: dict[_Kind, Ask] = {}
        """An ask of each kind that is counted. It keeps what has the identities of the kind."""

    def __len__(self) -> int:
        return len(self._works)

    def put(self, running: Running) -> None:
        """The work lacks copies, as many as it says, for the reason that it says."""
        ask = running.ask
        kind = (id(ask.shape), running.missing, id(ask.policy), running.waiting_for)
        former = self._works.get(ask.key)
        if former is not None:
            if former[1] == kind:
                return
            self._discount(former[1])
        self._works[ask.key] = (running, kind)
        count = self._counts.get(kind, 0)
        if not count:
            self._asks[kind] = ask
        self._counts[kind] = count + 1

    def drop(self, key: WorkloadKey) -> None:
        """The work lacks nothing, or is over. Unknown ones are allowed."""
        former = self._works.pop(key, None)
        if former is not None:
            self._discount(former[1])

    def renew(self, *keys: WorkloadKey) -> None:
        """These works may lack something else now, by something else than a decision; without any,
        all of them."""
        for key in keys or [*self._works]:
            if key in self._works:
                self.put(self._works[key][0])

    def _discount(self, kind: _Kind) -> None:
        if self._counts[kind] == 1:
            del self._counts[kind], self._asks[kind]
        else:
            self._counts[kind] -= 1

    def grouped(self) -> Iterator[Lack]:
        """What is lacking, by kind."""
        works: Counter[tuple[int, int, bool, bool]] = Counter()
        shapes: dict[int, PodShape] = {}
        for kind, count in self._counts.items():
            shape, missing, _, reason = kind
            shapes[shape] = self._asks[kind].shape
            gang = self._asks[kind].policy.division.max_clusters == 1
            works[shape, missing, gang, reason in FOR_CAPACITY] += count
        for (shape, missing, gang, for_room), count in works.items():
            yield Lack(shapes[shape], missing, missing if gang else 1, for_room, missing * count)
