"""Which claim of a host name counts: across namespaces the oldest one, also where names overlap.

Names overlap if they are the same, or if one is a wildcard that covers the other: `*.example`
covers every name that ends in `.example`, however many labels stand before it, as a Gateway reads
it. The name `*` (a door without a host) overlaps no other: every more exact name gets its requests
before it. Pure. Decision 0165.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from federator.model.names import WorkloadKey

Age = tuple[float, int]
"""Since when, in epoch seconds, and a number among those of the same second."""
Claim = tuple[int, Age, WorkloadKey, str]
"""Rank, age, its workload, and the name: the lesser goes first."""


@dataclass(slots=True)
class HostClaims:
    _claims: dict[str, dict[WorkloadKey, Age]] = field(default_factory=dict)
    _covered: dict[str, set[str]] = field(default_factory=dict)
    """Wildcard -> the claimed names that it would cover."""

    def put(self, host: str, key: WorkloadKey, age: Age) -> None:
        """A workload claims a name."""
        if host not in self._claims:
            for wildcard in wildcards_above(host):
                self._covered.setdefault(wildcard, set()).add(host)
        self._claims.setdefault(host, {})[key] = age

    def drop(self, host: str, key: WorkloadKey) -> None:
        """A workload claims a name no more."""
        claims = self._claims.get(host)
        if claims is None:
            return
        claims.pop(key, None)
        if not claims:
            del self._claims[host]
            for wildcard in wildcards_above(host):
                covered = self._covered[wildcard]
                covered.discard(host)
                if not covered:
                    del self._covered[wildcard]

    def age(self, host: str, key: WorkloadKey) -> Age | None:
        """How old the claim of this workload is; None if it has none."""
        return self._claims.get(host, {}).get(key)

    def concerned(self, host: str) -> set[WorkloadKey]:
        """Every workload with a claim of an overlapping name."""
        return {key for name in self._overlapping(host) for key in self._claims[name]}

    def rival(self, host: str, key: WorkloadKey, rank: Callable[[WorkloadKey], int | None]) -> str:
        """The name by which another namespace has a better claim; "" if this one counts, or if the
        workload does not claim the name.

        A claim counts unless one that counts goes before it, belongs to another namespace and
        overlaps it. Claims of a lower rank go first, then older ones. `rank`: None for workloads
        with claims that do not count at all.
        """
        age = self.age(host, key)
        if age is None or all(other.namespace == key.namespace for other in self.concerned(host)):
            return ""
        ranks = _Ranks(rank)
        mine: Claim = (ranks.of(key) or 0, age, key, host)
        counting: dict[str, list[WorkloadKey]] = {}
        # Whatever decides about mine, and about those that decide.
        for claim in sorted(self._before(mine, ranks)):
            if not self._beaten(claim, counting):
                counting.setdefault(claim[3], []).append(claim[2])
        return self._beaten(mine, counting)

    def _beaten(self, claim: Claim, counting: Mapping[str, list[WorkloadKey]]) -> str:
        for name in self._overlapping(claim[3]):
            if any(other.namespace != claim[2].namespace for other in counting.get(name, ())):
                return name
        return ""

    def _before(self, mine: Claim, ranks: "_Ranks") -> Iterator[Claim]:
        seen, waiting = {mine}, [mine]
        while waiting:
            after = waiting.pop()
            for name in self._overlapping(after[3]):
                for key, age in self._claims[name].items():
                    rank = ranks.of(key)
                    claim = (rank if rank is not None else 0, age, key, name)
                    if rank is not None and claim < after and claim not in seen:
                        seen.add(claim)
                        waiting.append(claim)
                        yield claim

    def _overlapping(self, host: str) -> Iterator[str]:
        """The claimed names that overlap this one, itself first."""
        if host in self._claims:
            yield host
        yield from (name for name in wildcards_above(host) if name in self._claims)
        yield from sorted(self._covered.get(host, ()))


class _Ranks:
    """The ranks of workloads, each asked for once."""

    def __init__(self, rank: Callable[[WorkloadKey], int | None]) -> None:
        self._rank = rank
        self._known: dict[WorkloadKey, int | None] = {}

    def of(self, key: WorkloadKey) -> int | None:
        if key not in self._known:
            self._known[key] = self._rank(key)
        return self._known[key]


def wildcards_above(host: str) -> Iterator[str]:
    """The wildcards that cover a name, the widest last.

    a.b.example -> *.b.example, *.example
    """
    labels = host.removeprefix("*.").split(".") if host != "*" else []
    start = 0 if host.startswith("*.") else 1
    for at in range(start, len(labels)):
        wildcard = "*." + ".".join(labels[at:])
        if wildcard != host:
            yield wildcard


def taken_by(
    hosts: Iterable[tuple[str, str]], rival: Callable[[str], str]
) -> tuple[str, str, str] | None:
    """(path, name, overlapping name of another namespace) of the first host that is taken."""
    for path, host in hosts:
        if other := rival(host):
            return path, host, other
    return None
