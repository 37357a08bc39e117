"""Who waits for what: workloads that a cycle could not give everything, which hints requeue them, and when each is
tried again without one. No task and no clock: whoever runs cycles keeps the time.
"""

from collections.abc import Iterable, Mapping

from federator.model.names import WorkloadKey
from federator.scheduling import queueing_hints
from federator.scheduling.queueing_hints import Hint, Waiting


class Queue:
    """The inadmissible workloads. Who is due, and in which order namespaces get their turns, is the work queue's."""

    def __init__(self) -> None:
        self._inadmissible: dict[WorkloadKey, Waiting] = {}
        self._attempts: dict[WorkloadKey, int] = {}
        """How often it was decided since it began to wait."""

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self._inadmissible

    def __len__(self) -> int:
        return len(self._inadmissible)

    def requeued_by(self, *hints: Hint) -> list[WorkloadKey]:
        """Those whom one of these hints may help, in order."""
        return queueing_hints.requeued(hints, self._inadmissible.values())

    def retry_after_s(self, key: WorkloadKey) -> float:
        """In how many seconds a workload that lacks something now is tried again: hints may be missed."""
        return queueing_hints.retry_after_s(self._attempts.get(key, 0))

    def settle(self, decided: Iterable[WorkloadKey], inadmissible: Mapping[WorkloadKey, Waiting]) -> None:
        """Files what a cycle found of those on whom it decided."""
        for key in decided:
            if key in inadmissible:
                self._attempts[key] = self._attempts.get(key, 0) + 1
                self._inadmissible[key] = inadmissible[key]
            else:
                self.forget(key)

    def forget(self, key: WorkloadKey) -> None:
        """It is gone, or lacks nothing."""
        self._inadmissible.pop(key, None)
        self._attempts.pop(key, None)
