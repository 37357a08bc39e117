"""Releases: the hub takes its mark from a slice whose workload was deleted with the policy Orphan."""

from typing import TYPE_CHECKING

from federator.kinds import registry

if TYPE_CHECKING:
    from tests.simulation.invariants import Step


def is_release(step: "Step") -> bool:
    """Whether the decision says so: it is being deleted, and its workload is no owner of it. Where
    admission does not hold a tenant, his owner instead of the workload makes the same sign."""
    if step.old is None or not step.writer.startswith("hub"):
        return False
    mark = registry.verbs_of(step.kind).read_mark(step.old)
    return mark is not None and any(
        "deletionTimestamp" in (meta := decision["metadata"])
        and all(owner["uid"] != mark.workload_uid for owner in meta.get("ownerReferences") or ())
        for decision in step.all_of("PlacementDecision")
        if decision["spec"]["workload"]["uid"] == mark.workload_uid
    )
