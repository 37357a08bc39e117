"""Mutations of what job sets give back when they are done, each with the rule that must catch
it.
"""

from collections.abc import Mapping

from federator.hub.cache import progress
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.shards import Ranges
from federator.placement.room.commitments import Commitments
from tests.simulation import charges, once
from tests.simulation.mutations import Method, instead
from tests.simulation.running import Plant


def _frees_nothing(original: Method) -> Method:
    def progressed(self: Commitments, uid: str, done: Ranges) -> bool:
        return False

    return progressed


def _only_changes(original: Method) -> Method:
    def observe_workload(self: HubState, new: Workload) -> None:
        if new.key in self.workloads:
            original(self, new)
        else:
            self.workloads[new.key] = new

    return observe_workload


def _tells_nobody(original: Method) -> Method:
    def progressed(self: Commitments, uid: str, done: Ranges) -> bool:
        original(self, uid, done)
        return False

    return progressed


def _whoever_has_a_decision(original: Method) -> Method:
    def placed(self: Commitments, project: str) -> int:
        return sum(one.project == project and bool(one.holdings) for one in self)

    return placed


def _only_the_recorded(original: Method) -> Method:
    def done(state: HubState, workload: Workload, record: Record | None) -> Ranges:
        return workload.progress().done

    return done


UNRELEASED: Mapping[str, tuple[str, Plant]] = {
    "what job sets have done frees nothing": (
        charges.NAME,
        instead(Commitments, "progressed", _frees_nothing),
    ),
    "what was done before a hub began frees nothing": (
        charges.NAME,
        instead(HubState, "observe_workload", _only_changes),
    ),
    "a finished job set counts as a workload": (
        charges.NAME,
        instead(Commitments, "placed", _whoever_has_a_decision),
    ),
    "who waits is not told that a job set is done": (
        charges.SERVED,
        instead(Commitments, "progressed", _tells_nobody),
    ),
    "what a member has done counts only when it is recorded": (
        once.Once.name,
        instead(progress, "done", _only_the_recorded),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""
