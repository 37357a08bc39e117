"""A key of a batch that needs a decision."""

import dataclasses

from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask
from federator.placement.policy.permitted import Refused
from federator.scheduling.entry import as_charged


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """A key of a batch that needs a decision."""

    workload: Workload
    asked: Ask
    record: Record | None
    inputs: str
    refused: Refused | None = None
    """Why it may not run as it is written."""

    @property
    def ask(self) -> Ask:
        """What is charged: for a refused workload what runs of it, not what it asks for now."""
        if self.refused is None or self.record is None:
            return self.asked
        return as_charged(self.asked, self.record.terms.charged)
