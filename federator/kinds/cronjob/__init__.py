"""PinterestCronJob: a PinterestJobSet for each time that a schedule is due, placed with the room of
that moment; or, with runs Native, a native CronJob in each of its clusters.
"""

from typing import Final

from federator.kinds.cronjob import ask, handover, runs, schema, status
from federator.kinds.jobset.schema import KIND as RUN_KIND
from federator.kinds.kind import AGE, STATUS, Column, recurring
from federator.kinds.nativecron import KIND as NATIVE_KIND
from federator.kinds.recurring import RecurringVerbs

VERBS: Final = RecurringVerbs(
    run_kind=RUN_KIND,
    run_label=schema.RUN_LABEL,
    read=ask.recurrence,
    read_run=ask.read_run,
    plan=runs.plan,
    render_run=ask.render_run,
    native_kind=NATIVE_KIND.kind,
    read_native=handover.read,
    render_native=handover.render,
    status=status.status,
    conditions=status.conditions_of,
)

KIND: Final = recurring(
    "pinterestcronjobs",
    "pcj",
    schema.PinterestCronJob,
    VERBS,
    (
        Column("Schedule", ".spec.schedule", description="When runs are due."),
        Column("Zone", ".spec.timeZone", description="Time zone of the schedule; UTC when empty."),
        Column("Suspend", ".spec.suspend", "boolean", description="Whether no run begins."),
        Column("Active", ".status.activeRuns", "integer", description="Active runs."),
        Column(
            "Last",
            ".status.lastScheduleTime",
            "date",
            description="Scheduled time of the newest run.",
        ),
        Column("Next", ".status.nextScheduleTime", description="When the next run is due."),
        Column(
            "Missed",
            ".status.missedRuns",
            "integer",
            wide=True,
            description="Times that got no run.",
        ),
        STATUS,
        AGE,
        Column("Message", ".status.message", wide=True, description="Why it makes no runs."),
    ),
    longest_name=schema.LONGEST_NAME,
)
