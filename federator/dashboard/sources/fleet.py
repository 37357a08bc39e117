"""What the dashboard knows of the host: rows of all workloads, decisions, clusters and accounts,
kept by list and watch.

Pages read it without waiting, so that the first page of 100,000 workloads takes no request to the
host. Filled with the dashboard's own account; what a reader sees of it is decided by `rights`.
"""

import asyncio
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from federator.dashboard.sources import rows
from federator.dashboard.sources.changes import Changes
from federator.dashboard.sources.rows import (
    AccountRow,
    ClusterRow,
    CronRow,
    DecisionRow,
    WorkloadRow,
)
from federator.hub.query import banner
from federator.hub.query.banner import Banner
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector

BANNER_S: Final = 2.0
"""The banner is read again after so many seconds."""
SILENT_S: Final = 90.0
"""A host that was not heard for so long is reported on every page: it sends bookmarks each minute.
"""


class FleetCache:
    """Kept while `run` runs."""

    def __init__(self, host: Client, clock: Clock, rng: random.Random) -> None:
        self._host = host
        self._clock = clock
        self._rng = rng
        self.reflectors: list[Reflector[Any]] = []
        self._workloads: dict[str, Store[WorkloadRow]] = {}
        self._spaces: Counter[tuple[str, str]] = Counter()
        """Workloads by kind and namespace."""
        self._decisions: dict[str, DecisionRow] = {}
        """By uid of the workload."""
        for kind in registry.WORKLOADS.values():
            project = functools.partial(rows.workload, kind)
            changed = functools.partial(self._count, kind.kind)
            self._workloads[kind.kind] = self._watched(kind, project, changed)
        self._crons = [
            self._watched(kind, functools.partial(rows.cron, kind))
            for kind in registry.RECURRING.values()
        ]
        kinds = registry.KINDS
        self._clusters = self._watched(kinds["MemberCluster"], rows.cluster)
        self._accounts = self._watched(kinds["FederatedQuota"], rows.account)
        self._watched(kinds["PlacementDecision"], rows.decision, self._decide)
        self.changes = Changes()
        self._banner = Banner()
        self._banner_at = -BANNER_S

    def _watched(
        self,
        kind: Kind,
        project: Callable[[Any], Any],
        changed: Callable[[Key, Any, Any], None] | None = None,
    ) -> Store[Any]:
        store: Store[Any] = Store(f"host/{kind.plural}")

        def noted(key: Key, old: Any, new: Any) -> None:
            if changed is not None:
                changed(key, old, new)
            self.changes.note(kind.kind, *key)

        self.reflectors.append(
            Reflector(
                self._host,
                kind.api_version,
                kind.plural,
                store,
                project=project,
                on_change=noted,
                clock=self._clock,
                rng=self._rng,
                optional=True,
            )
        )
        return store

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"watch of {reflector.plural}")

    def _count(self, kind: str, key: Key, old: object, new: object) -> None:
        pair = kind, key[0]
        self._spaces[pair] += (new is not None) - (old is not None)
        if not self._spaces[pair]:
            del self._spaces[pair]

    def _decide(self, key: Key, old: DecisionRow | None, new: DecisionRow | None) -> None:
        if new is not None:
            self._decisions[new.uid] = new
        elif old is not None and self._decisions.get(old.uid) is old:
            del self._decisions[old.uid]

    # -- reading --------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return all(reflector.answered.is_set() for reflector in self.reflectors)

    @property
    def troubles(self) -> list[str]:
        """Why what is shown may be old, as sentences."""
        if not self.ready:
            return ["The dashboard is still reading the host: not everything is shown yet."]
        late = sorted(
            reflector.plural
            for reflector in self.reflectors
            if reflector.trouble is not None and reflector.served is not False
        )
        if not late:
            return []
        heard_at = min(
            reflector.store.heard_at for reflector in self.reflectors if reflector.plural in late
        )
        age_s = self._clock.monotonic() - heard_at
        return [
            f"The host was not heard for {age_s:.0f} s ({', '.join(late)}): what is shown is from"
            " before."
        ]

    def present(self) -> list[tuple[Kind, str]]:
        """(kind, namespace) of which there are workloads."""
        return [(registry.WORKLOADS[kind], space) for kind, space in self._spaces]

    def workloads(self) -> Iterator[WorkloadRow]:
        for store in self._workloads.values():
            yield from store.items().values()

    def decision(self, uid: str) -> DecisionRow | None:
        """What is decided about a workload; None while nothing is."""
        return self._decisions.get(uid)

    def crons(self) -> Iterator[CronRow]:
        """What makes workloads on a schedule."""
        for store in self._crons:
            yield from store.items().values()

    def clusters(self) -> list[ClusterRow]:
        """By name."""
        return sorted(self._clusters.items().values(), key=lambda row: row.name)

    def accounts(self) -> list[AccountRow]:
        """By name."""
        return sorted(self._accounts.items().values(), key=lambda row: row.name)

    async def banner(self) -> Banner:
        """What applies to everything that is shown: a pause, no leader."""
        now = self._clock.monotonic()
        if now - self._banner_at >= BANNER_S:
            self._banner_at = now
            self._banner = await banner.read(self._host)
        return self._banner
