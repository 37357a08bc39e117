"""The inadmissible workloads of a queue: which hints requeue them, and when each is retried without
one. It has no task and no clock; the caller keeps the time."""

from collections.abc import Iterable, Mapping

from federator.model.names import WorkloadKey
from federator.scheduling import queueing_hints
from federator.scheduling.queueing_hints import Hint, Waiting


class Queue:
    """The inadmissible workloads. The work queue decides which keys are due, and in which order
    namespaces take turns."""

    def __init__(self) -> None:
        self._inadmissible: dict[WorkloadKey, Waiting] = {}
        self._attempts: dict[WorkloadKey, int] = {}
        """How often each was decided since it began to wait."""

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self._inadmissible

    def __len__(self) -> int:
        return len(self._inadmissible)

    def requeued_by(self, *hints: Hint) -> list[WorkloadKey]:
        """The workloads that one of these hints may help, in order."""
        return queueing_hints.requeued(hints, self._inadmissible.values())

    def retry_after_s(self, key: WorkloadKey) -> float:
        """Seconds until an inadmissible workload is retried: hints may be missed."""
        return queueing_hints.retry_after_s(self._attempts.get(key, 0))

    def settle(
        self, decided: Iterable[WorkloadKey], inadmissible: Mapping[WorkloadKey, Waiting]
    ) -> None:
        """Records the result of a cycle for the workloads that it decided."""
        for key in decided:
            if key in inadmissible:
                self._attempts[key] = self._attempts.get(key, 0) + 1
                self._inadmissible[key] = inadmissible[key]
            else:
                self.forget(key)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone, or lacks nothing."""
        self._inadmissible.pop(key, None)
        self._attempts.pop(key, None)
