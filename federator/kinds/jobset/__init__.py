"""PinterestJobSet: many equal, independent jobs, each taking one numbered shard of the work."""

from typing import Final

from federator.kinds.jobset import ask, natives, schema, status
from federator.kinds.kind import Column, workload
from federator.kinds.pods import lookup
from federator.kinds.shared import workloads
from federator.kinds.verbs import PodLookup
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.SHARDS,
    count=ask.count,
    slots=ask.slots,
    pod_template=ask.pod_template,
    max_unavailable=ask.count,
    render_slice=ask.render_slice,
    amount="parallelism",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_job, natives.shards_of_pods),
    overlaps=True,
    exclusive=ask.exclusive,
    guarded=ask.guarded,
    end_rules=ask.end_rules,
    expand=natives.expand,
    refusal=ask.refusal,
)

KIND: Final = workload(
    "pinterestjobsets",
    "pjs",
    schema.PinterestJobSet,
    VERBS,
    (
        Column("Shards", ".spec.shards", "integer", description="Shards in all."),
        Column("Running", ".status.running", "integer", description="Shards that run."),
        Column("Done", ".status.done", "integer", description="Shards that are completed."),
        Column(
            "Failed", ".status.failed", "integer", description="Shards that have failed for good."
        ),
        Column("Clusters", ".status.clusters", "integer", description="Clusters with a share."),
    ),
)
