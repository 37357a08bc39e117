"""What a kind that makes workloads again and again can be asked, and the values that it answers
with.

Such a kind is never placed. The hub makes a workload on the host for each time that is due
(`hub/cron`), and that workload is placed like any other. Functions are pure and total; time is an
argument, in seconds since 1970.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any

from federator.api.raw import Obj
from federator.model.schedule import Schedule
from federator.status.conditions import Condition


@dataclass(frozen=True, slots=True)
class Recurrence:
    """One recurring object, as a decision about its runs needs it."""

    schedule: Schedule | None
    """None when `reason` and `problem` say why it cannot be read."""
    zone: tzinfo = UTC
    reason: str = ""
    problem: str = ""
    suspended: bool = False
    concurrency: str = "Allow"
    deadline_s: int | None = None
    """A run that is later than this does not begin any more."""
    keep_completed: int = 3
    keep_failed: int = 1
    created_s: int = 0
    last_s: int = 0
    """Scheduled time of the newest run that the status records; 0 for none."""
    missed_s: int = 0
    """The newest time without a run that the status records; 0 for none."""
    since_s: int = 0
    """When schedule, time zone or deadline were last edited; 0 for never. Earlier times get no
    run."""
    native: bool = False
    """Its clusters are to run it by themselves."""


@dataclass(frozen=True, slots=True)
class Run:
    """One workload that was made for a scheduled time."""

    name: str
    uid: str
    owner_uid: str
    due_s: int
    deleting: bool = False
    finished: bool = False
    failed: bool = False
    finished_s: int = 0

    @property
    def active(self) -> bool:
        return not self.finished and not self.deleting


@dataclass(frozen=True, slots=True)
class Native:
    """The object by which clusters run a recurring object by themselves. While it is there, its
    `after_s` is the moment of the handover: times up to it are the hub's, later ones the
    clusters'."""

    name: str
    uid: str
    owner_uid: str
    after_s: int
    source: str = ""
    """Of which generation of the recurring object it is, and whether it is held."""
    deleting: bool = False
    stopped: bool = False
    """No cluster begins a run any more, by its status about what is asked of it now."""
    active: int = 0
    last_s: int = 0
    """Scheduled time of the newest run in any cluster."""
    done_s: int = 0
    clusters: int = 0
    ready: bool = False
    reason: str = ""
    """Why it is not ready, or not healthy, with `message` as a sentence."""
    message: str = ""


class Handover(StrEnum):
    """The step that hands over the decision on runs, between the hub and the clusters."""

    NOTHING = "nothing"
    MAKE = "make"
    """The clusters take what is due after now."""
    CHANGE = "change"
    """The object of the clusters is to say what is asked for now."""
    END = "end"
    """The clusters have stopped, and what they ran is known: their object goes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about the runs of one recurring object now."""

    due_s: int | None = None
    """Scheduled time of the run to make."""
    made_s: int = 0
    """Scheduled time of the newest run that there is or was; 0 for none."""
    missed: int = 0
    """Times up to now that got no run and are not recorded yet."""
    many: bool = False
    """They are more than were counted."""
    missed_s: int = 0
    """The newest of them."""
    replace: tuple[Run, ...] = ()
    """Runs that give way to the new one."""
    prune: tuple[Run, ...] = ()
    """Finished runs beyond the history limits."""
    waits: bool = False
    """A run is due and waits for the end of the active one."""
    next_s: int | None = None
    """The next scheduled time; None when suspended, or when none comes."""
    look_s: int | None = None
    """When there may be something else to do; None: not before something changes."""
    since_s: int = 0
    """When schedule, time zone or deadline were last edited; 0 for never."""
    native: Native | None = None
    """The object of the clusters, as it was read."""
    handover: Handover = Handover.NOTHING
    held: bool = False
    """The clusters are to begin no runs: the hub's still go, or the hub is to take over."""
    taken: bool = False
    """The object's name is taken by one of somebody else."""
    beyond: int = 0
    """It makes no runs, because so many older ones of its namespace do; 0 if it may."""

    @property
    def acts(self) -> bool:
        return (
            self.due_s is not None
            or self.handover is not Handover.NOTHING
            or bool(self.missed or self.replace or self.prune)
        )


@dataclass(frozen=True, slots=True)
class RecurringVerbs:
    """One row per recurring kind."""

    run_kind: str
    """The workload kind of its runs."""
    run_label: str
    """Label of the runs; its value is the name of the object that they belong to."""
    read: Callable[[Obj, float], Recurrence]
    """(object, now) -> its times."""
    read_run: Callable[[Obj], Run]
    plan: Callable[[Obj, Sequence[Run], Native | None, float], Plan]
    """(object, its own runs, the object of its clusters, now) -> what to do."""
    render_run: Callable[[Obj, int], dict[str, Any]]
    """(object, scheduled time) -> the workload to make. The same time gives the same name."""
    native_kind: str
    """The workload kind by which clusters run it by themselves; its object has the same name."""
    read_native: Callable[[Obj], Native]
    render_native: Callable[[Obj, int, bool], dict[str, Any]]
    """(object, moment of the handover, whether it is held) -> that object."""
    status: Callable[[Obj, Sequence[Run], Plan, str], Mapping[str, Any]]
    """(object, its runs once the plan was carried out, the plan, why its run was refused or "") ->
    `.status` without conditions.
    """
    conditions: Callable[[Obj, Plan, str], tuple[Condition, ...]]
    """The same arguments but the runs -> conditions."""
