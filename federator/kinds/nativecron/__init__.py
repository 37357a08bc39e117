"""PinterestNativeCronJob: a CronJob in each cluster of its policy, run there by the cluster's own
controller.
"""

from typing import Final

from federator.kinds.jobset import ask as jobset
from federator.kinds.kind import Column, workload
from federator.kinds.nativecron import ask, natives, schema, status
from federator.kinds.pods import lookup
from federator.kinds.shared import workloads
from federator.kinds.verbs import PodLookup, RepeatVerbs
from federator.model.ask import Unit

VERBS: Final = workloads.verbs_of(
    unit=Unit.REPLICAS,
    count=ask.count,
    slots=ask.count,
    pod_template=jobset.pod_template,
    max_unavailable=ask.max_unavailable,
    render_slice=ask.render_slice,
    amount="parallelism",
    observe=status.observe,
    slice_status=status.slice_status,
    host_status=status.host_status,
    lookup=PodLookup(lookup.by_label(schema.SELECTOR_LABEL), lookup.of_job),
    repeats=RepeatVerbs(ask.after, ask.last, ask.due_of),
    expand=natives.expand,
    refusal=ask.refusal,
)

KIND: Final = workload(
    "pinterestnativecronjobs",
    "pncj",
    schema.PinterestNativeCronJob,
    VERBS,
    (
        Column("Schedule", ".spec.cron.schedule", description="When runs are due."),
        Column("Suspend", ".spec.cron.suspend", "boolean", description="Whether no run begins."),
        Column("Active", ".status.activeRuns", "integer", description="Active runs."),
        Column(
            "Last",
            ".status.lastScheduleTime",
            "date",
            description="Scheduled time of the newest run in any cluster.",
        ),
        Column("Clusters", ".status.clusters", "integer", description="Clusters that run it."),
    ),
    longest_name=schema.LONGEST_NAME,
)
