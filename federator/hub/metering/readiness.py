"""Copies that are not ready, by project and kind: counted as workloads are folded, so that a
reading of all of them costs nothing.

Only workloads that lack ready copies are remembered. Called on the event loop.
"""

from collections import Counter
from collections.abc import Mapping

from federator.hub.records.workloads import Workload
from federator.model.ask import Unit
from federator.model.decision import Reason
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import BY_QUOTA
from federator.status.fold import Fold

Group = tuple[str, str]
"""(project, kind)."""


class Readiness:
    """How many copies are not ready, and how many of them no workload's `maxUnavailable` allows."""

    def __init__(self) -> None:
        self._short: dict[WorkloadKey, tuple[Group, int, int]] = {}
        self._missing, self._beyond = Counter[Group](), Counter[Group]()

    def note(self, workload: Workload, reason: Reason | None, result: Fold) -> None:
        """The workload was folded. `reason` is that of its decision, None before the first one.

        Copies that its own quota does not admit are not missing: the account is asked for more than
        it may have. Shards count as little: that they wait is the nature of a queue.
        """
        self.forget(workload.key)
        ask = workload.ask
        if ask is None or ask.suspended or workload.deleting or result.unit is Unit.SHARDS:
            return
        refused = result.shortfall if reason in BY_QUOTA else 0
        missing = result.desired - refused - result.ready_lo
        if missing > 0:
            group = ask.project, workload.key.kind
            beyond = max(missing - workload.max_unavailable, 0)
            self._short[workload.key] = group, missing, beyond
            self._missing[group] += missing
            self._beyond[group] += beyond

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone, or is folded anew."""
        if (noted := self._short.pop(key, None)) is not None:
            group, missing, beyond = noted
            self._missing[group] -= missing
            self._beyond[group] -= beyond
            if not self._missing[group]:
                del self._missing[group], self._beyond[group]

    def clear(self) -> None:
        """This hub no longer leads."""
        self._short.clear()
        self._missing.clear()
        self._beyond.clear()

    @property
    def missing(self) -> Mapping[Group, int]:
        """(project, kind) -> copies that are not ready; only groups that lack some."""
        return self._missing

    @property
    def beyond(self) -> Mapping[Group, int]:
        """The same without those that `maxUnavailable` of their workloads allows."""
        return self._beyond
