"""PinterestTrainingJob: pods of several roles that train together in one cluster."""

from typing import Final

from federator.kinds.kind import Column, workload
from federator.kinds.pods import lookup
from federator.kinds.shared import workloads
from federator.kinds.training import ask, natives, podgroups, schema, status
from federator.kinds.verbs import GangVerbs, PodLookup
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.SHARDS,
    count=ask.count,
    slots=ask.count,
    pod_template=ask.pod_template,
    pods=ask.pods,
    max_unavailable=ask.count,
    render_slice=ask.render_slice,
    amount="",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_job),
    gang=GangVerbs(
        roles=ask.roles,
        completes=ask.completes,
        timeout_s=ask.timeout_s,
        grouped=podgroups.grouped,
        ungrouped=podgroups.ungrouped,
    ),
    expand=natives.expand,
    refusal=ask.refusal,
    needs=ask.needs,
)

KIND: Final = workload(
    "pinteresttrainingjobs",
    "ptj",
    schema.PinterestTrainingJob,
    VERBS,
    (
        Column("Framework", ".spec.framework", description="By what its pods find each other."),
        Column("Pods", ".status.wanted", "integer", description="Pods that it was given."),
        Column("Running", ".status.running", "integer", description="Pods that run."),
    ),
)
