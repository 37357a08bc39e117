"""Runs of recurring objects: makes a workload on the host for each time that is due, and forgets
old ones.

What to do is decided by the kind's `plan`, first on what the watches tell; only when that asks for
something, object and runs are read again and it is decided anew, so that a leader which has just
taken over does not act on what it heard before. A run's name is its scheduled time: made twice it
is made once. The earlier of two clocks counts, the hub's and the host's, so that one that is ahead
begins nothing. Order of the effects: runs that give way, the new run, the status, and only then the
history, and the handover of the decision on runs (`handing`).
"""

import bisect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from federator.api import raw
from federator.hub.host.controller import Controller, Tools
from federator.hub.jobs.handing import Handing
from federator.hub.members.member_conditions import skew_s
from federator.hub.records.workloads import cascade
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kinds.recurring import Handover, Native, Plan, RecurringVerbs, Run
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from federator.model import names, plaintext
from federator.model.names import ObjectName, WorkloadKey
from federator.model.steps import Create, Delete, Patch, RequeueAfter
from federator.status import conditions

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 300.0
"""Longest wait until the times of an object are looked at again: a clock may have been set."""
OWNED = ("Ready", "Stalled")
Obj = Mapping[str, Any]
Age = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RecurringSeen:
    """One recurring object and its runs, as they were read."""

    obj: Obj
    runs: tuple[Run, ...]
    native: Native | None = None
    """The object by which its clusters run it, or somebody else's of that name."""


class Recurring(Controller):
    """Keys of its queue are those of recurring objects."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[WorkloadKey] = self.new_queue("recurring", group=names.namespace_of)
        self._objects: dict[str, Reflector[dict[str, Any]]] = {}
        self._runs: dict[str, Reflector[Run]] = {}
        self._oldest = Oldest()
        self._by_owner: dict[WorkloadKey, dict[str, Run]] = {}
        """Runs by the object that their label names."""
        self.handing = Handing(tools, self.queue.add)
        for kind in registry.RECURRING.values():
            self._objects[kind.kind] = self._reflector_of(kind)
            self._runs[kind.kind] = self._reflector_of_runs(kind)
        self.state.signals.resumed.append(self.look_everywhere)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Read by a standby too, so that it knows what is due when it takes over."""
        return (*self._objects.values(), *self._runs.values(), *self.handing.reflectors)

    async def run(self) -> None:
        """Serves the queue until cancelled, while this hub leads."""
        self.look_everywhere()
        await self.queue.run(self.turn, workers=4)

    def look_everywhere(self) -> None:
        for kind, reflector in self._objects.items():
            for namespace, name in reflector.store.keys():  # noqa: SIM118 - sorted
                self.queue.add(names.key(kind, namespace, name))

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """One object: what is due, and its status. Raises ApiErrors."""
        objects, runs = self._objects[key.kind].store, self._runs[key.kind].store
        obj = objects.get((key.namespace, key.name))
        if obj is None or not self.state.ready or self.state.paused:
            return None
        if cascade(obj["metadata"]):
            self.state.signals.cascade(key)
        if not runs.synced or not self.handing.synced(key):
            return RequeueAfter(key, 1.0, "its runs have not been listed yet")
        own = _own(obj, self._by_owner.get(key, {}).values())
        seen = RecurringSeen(obj, own, self.handing.heard(key))
        now_s = self.clock.now()
        plan = self._plan(key, seen, now_s)
        if plan.acts or self._patch(seen, plan, "") is not None:
            read = await self._read(key)
            if read is None:
                return None
            seen = read
            if plan.due_s is not None or plan.missed or plan.handover is Handover.MAKE:
                now_s = min(now_s, await self._host_now_s())
            plan = self._plan(key, seen, now_s)
            await self._carry_out(key, seen, plan, now_s)
        wait_s = LOOK_AGAIN_S if plan.look_s is None else plan.look_s - now_s
        if unsettled_s := self.handing.unsettled_s(key, plan):
            wait_s = min(wait_s, unsettled_s)
        return RequeueAfter(key, min(max(wait_s, 0.0), LOOK_AGAIN_S), "its schedule")

    def _plan(self, key: WorkloadKey, seen: RecurringSeen, now_s: float) -> Plan:
        """What to do. One beyond the limit of its namespace makes no runs, as if it were
        suspended."""
        obj, limit = seen.obj, self.state.options.cron_jobs_per_namespace
        beyond = not self._oldest.holds(key, _age(obj), limit)
        if beyond:
            obj = {**obj, "spec": {**raw.mapping(obj, "spec"), "suspend": True}}
        plan = _verbs(key).plan(obj, seen.runs, seen.native, now_s)
        return replace(plan, beyond=limit) if beyond else plan

    async def _read(self, key: WorkloadKey) -> RecurringSeen | None:
        """The object and its runs as the host has them now; None when it is gone or going."""
        kind = registry.KINDS[key.kind]
        obj = await self.host.find(kind.ref(key.namespace, key.name))
        if obj is None:
            return None
        if "deletionTimestamp" in obj["metadata"]:
            return None
        verbs = _verbs(key)
        made = registry.KINDS[verbs.run_kind]
        chosen = f"{verbs.run_label}={key.name}"
        listing = await self.host.list(
            made.api_version, made.plural, key.namespace, label_selector=chosen
        )
        own = _own(obj, map(verbs.read_run, listing.items))
        return RecurringSeen(obj, own, await self.handing.read(key))

    async def _host_now_s(self) -> float:
        """The host's clock, where it is off by more than a member's may be; else ours."""
        asked_s = self.clock.now()
        date = await self.host.ready()
        answered_s = self.clock.now()
        ahead_s = skew_s(date, asked_s, answered_s)
        if ahead_s is None or abs(ahead_s) <= self.state.options.clock_skew_max_s:
            return answered_s
        return answered_s + ahead_s

    async def _carry_out(
        self, key: WorkloadKey, seen: RecurringSeen, plan: Plan, now_s: float
    ) -> None:
        runs, refused, failure = seen.runs, "", None
        if plan.due_s is not None:
            for run in plan.replace:
                await self._delete(key, run)
            runs = tuple(
                replace(run, deleting=True) if run in plan.replace else run for run in runs
            )
            made, failure = await self._make(key, seen.obj, plan.due_s)
            refused = str(failure) if failure is not None else ""
            if made is not None:
                runs = (*runs, made)
            elif failure is None:
                missed_s = plan.due_s
                plan = replace(plan, due_s=None, missed=plan.missed + 1, missed_s=missed_s)
        body = self._patch(replace(seen, runs=runs), plan, refused)
        if body is not None:
            meta = seen.obj["metadata"]
            await self._apply(
                Patch(
                    registry.KINDS[key.kind].ref(key.namespace, key.name),
                    body,
                    subresource="status",
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                )
            )
        if plan.missed:
            self._tell_missed(key, seen, plan)
        if failure is not None:
            raise failure
        for run in plan.prune:
            await self._delete(key, run)
        if not self.handing.unsettled_s(key, plan):
            await self.handing.carry_out(key, seen.obj, plan, now_s)

    async def _make(
        self, key: WorkloadKey, obj: Obj, due_s: int
    ) -> tuple[Run | None, errors.ApiError | None]:
        """(the run of this time, why the host will not have it). A name that is taken by somebody
        else's object leaves the time without a run: it is told, and passed over."""
        verbs, uid = _verbs(key), raw.text(obj, "metadata", "uid")
        body = verbs.render_run(obj, due_s)
        name = body["metadata"]["name"]
        ref = registry.KINDS[verbs.run_kind].ref(key.namespace, name)
        outcome = await self.applier.apply(Create(ref, body), key)
        if outcome.error is None:
            log.info("%s: made the run %s", key, name)
            self.events.tell(key, uid, "RunMade", f"Made {name}.", action="Run")
            return verbs.read_run(outcome.obj or body), None
        if isinstance(outcome.error, errors.AlreadyExists):
            existing = verbs.read_run(await self.host.get(ref))
            if existing.owner_uid == uid:
                return existing, None
            note = f"{name} is there already and belongs to somebody else: that time has no run."
            self.events.tell(key, uid, "RunNameTaken", note, action="Run", warning=True)
            return None, None
        if isinstance(outcome.error, errors.Denied | errors.Invalid):
            why = plaintext.clipped(str(outcome.error))
            if not self.events.repeats(uid, "RunRefused"):
                self.events.tell(key, uid, "RunRefused", why, action="Run", warning=True)
            return None, outcome.error
        raise outcome.error

    async def _delete(self, key: WorkloadKey, run: Run) -> None:
        ref = registry.KINDS[_verbs(key).run_kind].ref(key.namespace, run.name)
        await self._apply(Delete(ref, run.uid))

    async def _apply(self, step: Patch | Delete) -> None:
        outcome = await self.applier.apply(step)
        if outcome.error is not None:
            raise outcome.error

    def _patch(self, seen: RecurringSeen, plan: Plan, refused: str) -> dict[str, Any] | None:
        """The status as a merge patch; None when it says all that already."""
        verbs = _verbs_of(registry.KINDS[seen.obj["kind"]])
        live = raw.mapping(seen.obj, "status")
        wanted = dict(verbs.status(seen.obj, seen.runs, plan, refused))
        wanted["conditions"] = conditions.merge(
            raw.items(live, "conditions"),
            verbs.conditions(seen.obj, plan, refused),
            self.clock.rfc3339(),
            OWNED,
        )
        changed = {name: value for name, value in wanted.items() if live.get(name) != value}
        changed |= dict.fromkeys(sorted(live.keys() - wanted.keys()))
        return {"status": changed} if changed else None

    def _tell_missed(self, key: WorkloadKey, seen: RecurringSeen, plan: Plan) -> None:
        count = f"more than {plan.missed - 1}" if plan.many else str(plan.missed)
        times = "time has" if count == "1" else "times have"
        note = f"{count} {times} passed without a run."
        uid = raw.text(seen.obj, "metadata", "uid")
        self.events.tell(key, uid, "RunsMissed", note, action="Run", warning=True)

    # -- what the watches tell ------------------------------------------------

    def _reflector_of(self, kind: Kind) -> Reflector[dict[str, Any]]:
        def changed(key: ObjectName, old: Any, new: Any) -> None:
            if new is not None:
                self.queue.add(names.key(kind.kind, *key))
            limit = self.state.options.cron_jobs_per_namespace
            for moved in self._oldest.turn(
                names.key(kind.kind, *key),
                _age(old) if old is not None else None,
                _age(new) if new is not None else None,
                limit,
            ):
                self.queue.add(moved)

        def identity(obj: dict[str, Any]) -> dict[str, Any]:
            return {"kind": kind.kind, **obj}

        return self.reflector(
            kind.api_version,
            kind.plural,
            Store(f"host/{kind.plural}"),
            project=identity,
            on_change=changed,
        )

    def _reflector_of_runs(self, kind: Kind) -> Reflector[Any]:
        verbs = _verbs_of(kind)
        made = registry.KINDS[verbs.run_kind]

        def project(obj: dict[str, Any]) -> tuple[str, Run]:
            return raw.text(obj, "metadata", "labels", verbs.run_label), verbs.read_run(obj)

        def changed(
            key: ObjectName, old: tuple[str, Run] | None, new: tuple[str, Run] | None
        ) -> None:
            if old is not None:
                self._by_owner.get(names.key(kind.kind, key[0], old[0]), {}).pop(key[1], None)
            if new is not None:
                owner = names.key(kind.kind, key[0], new[0])
                self._by_owner.setdefault(owner, {})[key[1]] = new[1]
            if old != new:
                for label, _ in filter(None, (old, new)):
                    self.queue.add(names.key(kind.kind, key[0], label))

        return self.reflector(
            made.api_version,
            made.plural,
            Store(f"host/runs of {kind.plural}"),
            project=project,
            label_selector=verbs.run_label,
            on_change=changed,
        )


class Oldest:
    """The cron jobs of each namespace by age: only the oldest ones make runs."""

    def __init__(self) -> None:
        self._ages: dict[tuple[str, str], list[tuple[Age, WorkloadKey]]] = {}

    def turn(
        self, key: WorkloadKey, was: Age | None, now: Age | None, limit: int
    ) -> Iterator[WorkloadKey]:
        """One has come, gone, or been replaced. Returns those that have a place now or lost it."""
        if was == now:
            return
        ages = self._ages.setdefault((key.kind, key.namespace), [])
        for age, change in ((was, -1), (now, 1)):
            if age is None:
                continue
            at = bisect.bisect_left(ages, (age, key))
            if change < 0:
                del ages[at : at + 1]
            else:
                ages.insert(at, (age, key))
            edge = limit - 1 if change < 0 else limit
            if at <= edge < len(ages):
                yield ages[edge][1]
        if not ages:
            del self._ages[key.kind, key.namespace]

    def holds(self, key: WorkloadKey, age: Age, limit: int) -> bool:
        """Whether it is one of the `limit` oldest of its namespace."""
        ages = self._ages.get((key.kind, key.namespace), [])
        return len(ages) <= limit or (age, key) < ages[limit]


def _age(obj: Obj) -> Age:
    """What is smaller is older."""
    return raw.text(obj, "metadata", "creationTimestamp"), raw.text(obj, "metadata", "uid")


def _verbs_of(kind: Kind) -> RecurringVerbs:
    if kind.recurring is None:
        raise KeyError(f"{kind.kind} does not recur")
    return kind.recurring


def _verbs(key: WorkloadKey) -> RecurringVerbs:
    return _verbs_of(registry.KINDS[key.kind])


def _own(obj: Obj, runs: Any) -> tuple[Run, ...]:
    """Those that this object controls, whatever else has its label."""
    uid = raw.text(obj, "metadata", "uid")
    return tuple(run for run in runs if run.owner_uid == uid)
