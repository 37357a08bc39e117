"""Which workload has which host name: the first claim wins across namespaces, and names that
overlap count as one (`placement.policy.hostclaims`).

A claim is as old as its workload. If a workload takes a name by a later edit, the claim is as old
as the newest workload then. A workload that may not run as it is written has no claim while another
one may. So a name stays with its holder after a restart, too, and nobody keeps a name by asking for
what is refused. The age of an edit is only in memory; `rank` reads from the host's objects which
claims were judged before (decision 0175).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from federator.api import raw
from federator.hub.cache.router import Changed
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.decision import REFUSALS
from federator.model.names import WorkloadKey
from federator.placement.policy import hostclaims, permitted
from federator.placement.policy.hostclaims import HostClaims


@dataclass(slots=True)
class HostNames:
    """The claims of all workloads of the host."""

    _claims: HostClaims = field(default_factory=HostClaims)
    _newest_s: float = 0.0
    _number: int = 0

    def observe(
        self,
        old: Workload | None,
        new: Workload | None,
        changed: Callable[[Changed, WorkloadKey], None],
    ) -> None:
        """A workload came, changed or went. Calls `changed` for the others that ask for a name of
        which the claims have changed."""
        before, asked = _hosts(old), _hosts(new)
        if new is not None and new.wants is not None:
            self._newest_s = max(self._newest_s, new.created_s)
        if not before and not asked:
            return  # nearly always
        was, now = set(before), set(asked)
        same = old is not None and new is not None and old.uid == new.uid
        ask = new.ask if new is not None else None
        others: set[WorkloadKey] = set()
        for host in sorted(was - now if same else was):
            assert old is not None
            others |= self._claims.concerned(host)
            self._claims.drop(host, old.key)
        for host in sorted(now - was if same else now):
            assert ask is not None
            self._number += 1
            since_s = self._newest_s if same else ask.created_s
            others |= self._claims.concerned(host)
            self._claims.put(host, ask.key, (since_s, self._number))
        own = {each.key for each in (old, new) if each is not None}
        for other in sorted(others - own):
            changed(Changed.NAMESPACE, other)

    def concerned(self, workload: Workload) -> set[WorkloadKey]:
        """The other workloads that ask for one of its names, or for one that overlaps it."""
        others = {key for host in _hosts(workload) for key in self._claims.concerned(host)}
        return others - {workload.key}

    def refusal(
        self,
        workload: Workload,
        workloads: Mapping[WorkloadKey, Workload],
        record_of: Callable[[Workload], Record | None],
        barred: Callable[[Workload], permitted.NotPermitted | None],
    ) -> permitted.NotPermitted | None:
        """Why a workload may not run, if another namespace has one of its names. `barred`: why a
        workload may not run whichever workload has the name."""
        paths = workload.ask.privileges.hosts if workload.ask is not None else ()
        if not paths:
            return None
        ranks = _Ranks(workload, workloads, record_of, barred)
        taken = hostclaims.taken_by(
            paths, lambda host: self._claims.rival(host, workload.key, ranks.of)
        )
        return permitted.taken(*taken) if taken is not None else None

    def rivals(
        self,
        asked: Workload,
        workloads: Mapping[WorkloadKey, Workload],
        record_of: Callable[[Workload], Record | None],
        barred: Callable[[Workload], permitted.NotPermitted | None],
    ) -> dict[str, str]:
        """Each name of `asked` that another namespace has -> its overlapping name there. `asked`
        may be new or an edit: the names that it adds are claimed last. Others as in `refusal`."""
        key, claims, wanted = asked.key, self._claims, set(_hosts(asked))
        ages = {host: claims.age(host, key) for host in _hosts(workloads.get(key))}
        for host in ages.keys() - wanted:
            claims.drop(host, key)
        for host in wanted - ages.keys():
            claims.put(host, key, (math.inf, 0))
        ranks = _Ranks(asked, workloads, record_of, barred)
        rivals = {host: claims.rival(host, key, ranks.of) for host in wanted}
        for host in wanted - ages.keys():
            claims.drop(host, key)
        for host, age in ages.items():
            if age is not None and host not in wanted:
                claims.put(host, key, age)
        return {host: rival for host, rival in rivals.items() if rival}


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Ranks of claims for a question about one workload, which may be another version than the
    stored one."""

    asked: Workload
    workloads: Mapping[WorkloadKey, Workload]
    record_of: Callable[[Workload], Record | None]
    barred: Callable[[Workload], permitted.NotPermitted | None]

    def of(self, key: WorkloadKey) -> int | None:
        """None for a workload with claims that do not count."""
        workload = self.asked if key == self.asked.key else self.workloads.get(key)
        if workload is None or self.barred(workload) is not None:
            return None
        return rank(workload, self.record_of(workload))


def rank(workload: Workload, record: Record | None) -> int:
    """Which claims of host names go first, whatever their age: 0 if the hub has admitted the
    workload's present generation, 1 if it has not judged that yet, 2 if it has refused the
    workload. By objects of the host alone."""
    if record is None:
        return 1
    if record.terms.reason in REFUSALS:
        return 2
    placed = raw.condition({"status": workload.live_status()}, "Placed")
    return int(raw.integer(placed, "observedGeneration") < workload.generation)


def _hosts(workload: Workload | None) -> Sequence[str]:
    if workload is None or workload.wants is None:
        return ()
    return [host for _, host in workload.wants.privileges.hosts]
