"""One turn per slice: read it, make its native objects, write the difference. Level-triggered,
whatever the event was.

Only slices that carry our fleet's mark are expanded (standalone: unmarked Pinterest kinds too).
What a turn found out is left in `results` for the roll-up; failures of writes raise, so that the
queue tries again later.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from federator.api import raw, runtimeprofile
from federator.kinds import labels, verbs
from federator.kinds.natives import (
    CARRIES,
    NATIVES,
    OPTIONAL,
    POD_GROUP,
    RUNS_PODS,
    as_served,
    pod_templates,
)
from federator.kinds.verbs import LiveJob, Natives, PodRules, SliceMark
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier, StepResult
from federator.member.cache import jobs
from federator.member.cache.caches import Caches
from federator.member.cache.rows import NativeKey, SliceRow, account_of
from federator.member.cache.stores import native_ref
from federator.member.expansion import comparing, results, settled
from federator.member.expansion.comparing import Plan, Scene, Verdicts, Work
from federator.member.expansion.results import Judgement, Result
from federator.member.expansion.settled import Memory, Named
from federator.member.options import FIELD_MANAGER, MemberOptions
from federator.model import names
from federator.model.ask import Unit
from federator.model.errors import FieldError
from federator.model.kubernetes import accountlists, owned_fields, quantity
from federator.model.names import WorkloadKey
from federator.model.observation import MISSING, RepeatFigures
from federator.model.steps import Apply, Create, Patch, RequeueAfter


class ExpansionRefused(Exception):
    """The slice cannot be expanded as it is; says why, and which object's coming would change
    that."""

    def __init__(
        self,
        reason: str,
        message: str,
        waits_for: NativeKey | None = None,
        *,
        again: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.waits_for = waits_for
        self.again = again
        """No event says when that changes: it is looked at again after a while."""


@dataclass(slots=True)
class Restored:
    """What of one slice's natives was put back."""

    text: str = ""
    at_s: dict[NativeKey, float] = field(default_factory=dict)
    """When each was told last, in monotonic seconds."""


class Expander:
    """Turns slices into native objects. One per process."""

    def __init__(
        self,
        caches: Caches,
        applier: Applier,
        *,
        fleet: str,
        cluster: str,
        standalone: bool,
        options: MemberOptions,
        clock: Clock,
    ) -> None:
        self.results: dict[WorkloadKey, Result] = {}
        self._caches = caches
        self._applier = applier
        self._fleet = fleet
        self._cluster = cluster
        self._standalone = standalone
        self._clock = clock
        self._options = options
        self.verdicts = Verdicts(options)
        self.memory = Memory(caches, self.verdicts)
        self._natives: dict[WorkloadKey, tuple[NativeKey, ...]] = {}
        """What each slice was last expanded to."""
        self._ran_s: dict[WorkloadKey, int] = {}
        """Of what the cluster repeats: the newest time that it ran, also before it is reported."""
        self._waiting: dict[NativeKey, set[WorkloadKey]] = {}
        """Slices by the object (kind, namespace, name) that they wait for, or that is in their
        way."""
        self._waits_for: dict[WorkloadKey, frozenset[NativeKey]] = {}
        self._restored: dict[WorkloadKey, Restored] = {}
        caches.signals.to_reference.append(self._on_reference)

    # -- ownership -------------------------------------------------------------

    def mark_of(self, row: SliceRow) -> SliceMark | None:
        """The mark under which we expand this slice; None for one that is not ours to touch."""
        if row.mark is not None:
            return row.mark if row.mark.fleet == self._fleet else None
        if not self._standalone or row.verbs.carried:
            return None
        obj = row.obj()
        count = row.verbs.count(obj)
        by_shards = row.verbs.unit is Unit.SHARDS
        return SliceMark(
            fleet=self._fleet,
            workload_uid=row.uid,
            origin_generation=row.generation,
            cluster=self._cluster,
            seq=0,
            ranges=((0, count - 1),) if by_shards and count else (),
            rules=PodRules((row.verbs.profile(obj), ""), verbs.BARE),
        )

    def profile_of(self, mark: SliceMark) -> dict[str, Any] | None:
        """The pinned RuntimeProfile; None when the slice names none. Raises `ExpansionRefused`
        while it is not here."""
        name, content = mark.rules.profile
        if not name:
            return None
        profile = self._caches.profile(name, content)
        if profile is None and content:
            pinned = f"{name} with content {content}"
            copy = runtimeprofile.member_name(name, content)
            message = f"The RuntimeProfile {pinned} is not in this cluster."
            raise ExpansionRefused(MISSING, message, ("RuntimeProfile", "", copy))
        return profile

    # -- the turn -------------------------------------------------------------

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """Brings one slice's natives into shape. Raises ApiErrors of writes."""
        row = self._caches.slice(key)
        mark = self.mark_of(row) if row is not None and not row.deleting else None
        if row is None or mark is None:
            self._forget(key)
            return None
        try:
            self._fence(row)
            profile = self._profile(row, mark)
            inputs = self.memory.inputs(row, profile)
            still = self.memory.still(row, inputs, self._clock.monotonic())
            if still is not None:
                named, unseen = still
                return self._conclude(row, Plan(unseen=unseen), self._missing(named), [])
            wanted = self._wanted(row, mark, profile)
        except ExpansionRefused as refused:
            self.memory.forget(key)
            self._refuse(row, refused)
            if refused.again:
                return RequeueAfter(key, self._options.recheck_s, refused.message)
            return None
        self.memory.forget(key)
        self._natives[key] = tuple(comparing.native_key(body) for body in wanted)
        wanted, unseeded = self._patiently(row, wanted)
        plan = self._plan(row, wanted)
        plan.unseen += unseeded
        if plan.remade and not await self._caches.confirm(row):
            # The slice is gone, and the garbage collector is deleting its objects. A new object of
            # the same name could hide from it that the old one is gone, and what the old one owned
            # would stay.
            return RequeueAfter(
                key,
                self._options.recheck_s,
                "the slice is gone, and the watch has not told of it yet",
            )
        named = settled.named(row, wanted)
        if named.account is not None and self._caches.native(named.account) is None:
            await self._make_account(named.account, mark)
        missing = self._missing(named)
        outcomes = await self._carry_out(row, plan)
        await self._tell(row, unseeded)
        if plan.clear and all(outcome.ok for _, outcome in outcomes):
            self.memory.keep(key, inputs, wanted, named)
        return self._conclude(row, plan, missing, outcomes)

    def _fence(self, row: SliceRow) -> None:
        """A late write of a leader of the past is not obeyed, whatever became of the slice
        meanwhile."""
        mark = row.mark
        if mark is None:
            return
        obeyed = row.observed or bool(self._caches.natives_of(row.uid))
        if newer := self._caches.highest.newer(mark.workload_uid, mark.seq, obeyed=obeyed):
            raise ExpansionRefused(
                "StaleSlice", f"Its seq {mark.seq} is not above {newer}, which was seen before."
            )
        self._caches.highest.hear(mark.workload_uid, mark.seq, obeyed=obeyed)

    def _profile(self, row: SliceRow, mark: SliceMark) -> dict[str, Any] | None:
        """The RuntimeProfile that its natives are made with. Raises `ExpansionRefused`."""
        if row.verbs.expand is None:
            return None
        if mark.rules.expander not in verbs.EXPANDERS:
            supported = f"this member process knows versions {', '.join(verbs.EXPANDERS)}"
            raise ExpansionRefused(
                "ExpansionFailed",
                f"It was made for expander version {mark.rules.expander!r}; {supported}.",
            )
        return self.profile_of(mark)

    def _wanted(
        self, row: SliceRow, mark: SliceMark, profile: dict[str, Any] | None
    ) -> tuple[dict[str, Any], ...]:
        """The native objects of the slice. Raises `ExpansionRefused`."""
        if row.verbs.expand is None:
            return ()
        obj = row.obj()
        if row.verbs.unit is Unit.SHARDS:
            own = [native for native in self._caches.natives_of(row.uid) if native.key[0] == "Job"]
            finished = jobs.done(raw.mapping(obj, "status"))
            mark = replace(mark, ranges=jobs.ranges_to_run(mark.ranges, own, finished))
        obj["spec"] = {**raw.mapping(obj, "spec"), "slice": verbs.encode_mark(mark)}
        try:
            made = self._grouped(row, obj, row.verbs.expand(obj, profile))
            made = as_served(made, self._caches.offers)
        except FieldError as bad:
            raise ExpansionRefused("ExpansionFailed", f"{bad}.") from bad
        for kind in dict.fromkeys(body["kind"] for body in made):
            if kind in OPTIONAL and not self._caches.offers(kind):
                raise ExpansionRefused(results.FAILED, self._not_served(kind), again=True)
        self._allowed(row, made)
        return tuple(_canonical(body) for body in made)

    def _allowed(self, row: SliceRow, made: Natives) -> None:
        """Raises `ExpansionRefused` if pods would run under a service account that the namespace
        does not list for the project of the slice. What runs under it keeps running, and may
        shrink."""
        namespace = row.key.namespace
        said = self._caches.account_lists(namespace)
        if not said:
            return
        project = raw.text(row.obj(), "spec", "project") or namespace
        for body in made:
            live = self._caches.native(comparing.native_key(body))
            kept = live.account if live is not None and live.owner_uid == row.uid else ""
            for account in {account_of(template) for template in pod_templates(body)}:
                own = account in ("", row.key.name, kept)
                if not own and not accountlists.allows(said, project, account):
                    raise ExpansionRefused(
                        results.NOT_ALLOWED,
                        f"spec.template.spec.serviceAccountName: is {account}; namespace"
                        f" {namespace} of cluster {self._cluster} lists for project {project}:"
                        f" {accountlists.listed(said, project)}. Add it to spec.serviceAccounts of"
                        " the project's FederatedQuotas, or use another one.",
                    )

    def _grouped(self, row: SliceRow, obj: raw.Obj, made: Natives) -> Natives:
        """The natives of a gang with its PodGroup, where the cluster has these."""
        if row.verbs.gang is None or not self._caches.offers(POD_GROUP):
            return made
        own = self._caches.natives_of(row.uid)
        live = {
            job.key[2]: LiveJob(job.group, raw.figure(job.status, "succeeded"))
            for job in own
            if job.key[0] == "Job"
        }
        there = any(native.key[0] == POD_GROUP for native in own)
        made = row.verbs.gang.grouped(obj, made, live, there)
        return tuple(body for body in made if there or not self._too_early(body))

    def _too_early(self, body: Mapping[str, Any]) -> bool:
        """Whether it is a PodGroup without its PriorityClass in the member: an API server refuses
        it. Its Jobs wait for that class too."""
        named = raw.text(body, "spec", "priorityClassName") if body["kind"] == POD_GROUP else ""
        return bool(named) and not self._exists(("PriorityClass", "", named))

    def _patiently(
        self, row: SliceRow, wanted: tuple[dict[str, Any], ...]
    ) -> tuple[tuple[dict[str, Any], ...], list[NativeKey]]:
        """What is wanted for now: CronJobs that have not been told where to begin wait, and are
        named."""
        seed_s = self._seed_s(row)
        unseeded = [
            key
            for body in wanted
            if body["kind"] == comparing.CRON
            and not comparing.has_seed(
                self._caches.native(key := comparing.native_key(body)), seed_s
            )
        ]
        patient = [
            comparing.unseeded(body) if comparing.native_key(body) in unseeded else body
            for body in wanted
        ]
        return tuple(patient), unseeded

    def ran(self, key: WorkloadKey, last_s: int) -> None:
        """The cluster has run what was due until then, by its CronJob's word."""
        self._ran_s[key] = max(self._ran_s.get(key, 0), last_s)

    def _seed_s(self, row: SliceRow) -> int:
        """Up to when all times have had their runs, in epoch seconds; 0 where nobody says so."""
        if row.verbs.repeats is None:
            return 0
        obj = row.obj()
        reported = row.verbs.observe(obj, "", True).repeats or RepeatFigures()
        return max(row.verbs.repeats.after(obj), reported.last_s, self._ran_s.get(row.key, 0))

    async def _tell(self, row: SliceRow, unseeded: Sequence[NativeKey]) -> None:
        """Tells CronJobs of this slice that wait where to begin. Raises ApiErrors."""
        for key in unseeded:
            native = self._caches.native(key)
            if native is None or native.owner_uid != row.uid or native.deleting:
                continue
            step = comparing.seeding(native, self._seed_s(row))
            outcome = await self._applier.apply(step, row.key)
            if outcome.error is not None and not outcome.gone:
                raise outcome.error

    def _not_served(self, kind: str) -> str:
        native = NATIVES[kind]
        named = f"{kind} ({native.api_version})"
        if isinstance(self._caches.reflectors[kind].trouble, errors.Denied):
            return (
                f"The member process may not list {native.plural}.{native.group} in cluster"
                f" {self._cluster}: its rights are those of an earlier release."
            )
        return f"Cluster {self._cluster} does not serve {named}, which the workload is to become."

    def _plan(self, row: SliceRow, wanted: Sequence[Mapping[str, Any]]) -> Plan:
        """What is next. No pods are made under an account of the slice's name that belongs to
        others."""
        owned = self._caches.natives_of(row.uid) if not row.verbs.carried else ()
        plan = comparing.plan(wanted, owned, self._scene(row))
        if any(key[0] == "ServiceAccount" for key in plan.conflicts):
            plan.work = [work for work in plan.work if not _makes_pods(work)]
        return plan

    def _scene(self, row: SliceRow) -> Scene:
        status = raw.mapping(row.obj(), "status") if row.verbs.unit is Unit.SHARDS else {}
        return Scene(
            slice_uid=row.uid,
            live=self._caches.native,
            verdicts=self.verdicts,
            now_s=self._clock.monotonic(),
            owner_lives=self._caches.lives,
            removable=lambda native: native.key[0] != "Job" or jobs.recorded(native, status),
        )

    async def _carry_out(self, row: SliceRow, plan: Plan) -> list[tuple[Work, StepResult]]:
        """Every step of the plan; one that fails does not keep the others from being tried. Only
        while the name of the slice's service account is taken, nothing that makes pods is written:
        the account may belong to others."""
        outcomes: list[tuple[Work, StepResult]] = []
        account_taken = False
        for work in plan.work:
            if account_taken and _makes_pods(work):
                continue
            outcome = await self._write(work, row.key)
            if isinstance(outcome.error, errors.AlreadyExists):
                account_taken |= _is_own_account(work)
                try:
                    live = await self._caches.read_native(work.key)
                except errors.ApiError as error:
                    outcome = StepResult(work.step, error=error)
                else:
                    comparing.name_is_taken(work, live, self._scene(row), plan)
                    continue
            outcomes.append((work, outcome))
            if outcome.ok and work.want and outcome.obj is not None:
                now_s = self._clock.monotonic()
                self.verdicts.written(work.key, work.want, now_s)
                self.verdicts.answered(work, outcome.obj, now_s)
            elif outcome.ok and not work.want:
                self.verdicts.forget(work.key)
            if isinstance(
                outcome.error, errors.Unreachable | errors.Throttled | errors.OwnShortage
            ):
                break
        self._note_drift(row.key, plan, [work.key for work, outcome in outcomes if outcome.ok])
        return outcomes

    async def _write(self, work: Work, key: WorkloadKey) -> StepResult:
        """One step, after the fields that it may take away were made ours to take away."""
        step = work.step
        if work.hands_over and isinstance(step, Apply):
            try:
                live = await self._caches.read_native(work.key)
            except errors.ApiError as error:
                return StepResult(step, error=error)
            meta = raw.mapping(live or {}, "metadata")
            version = raw.text(meta, "resourceVersion")
            if raw.text(meta, "uid") != step.uid or step.resource_version not in ("", version):
                why = f"{results.named(work.key)} has changed since it was compared."
                return StepResult(step, error=errors.Conflict(why))
            entries = owned_fields.handed_over(meta, FIELD_MANAGER)
            if entries is not None:
                handing = Patch(
                    native_ref(work.key),
                    {"metadata": {"managedFields": entries}},
                    uid=step.uid,
                    resource_version=version,
                )
                outcome = await self._applier.apply(handing, key)
                if not outcome.ok:
                    return outcome
                if step.resource_version:
                    # Of our own write: the version that the apply names has gone with it.
                    now = raw.text(outcome.obj, "metadata", "resourceVersion")
                    step = replace(step, resource_version=now)
        return await self._applier.apply(step, key)

    def _note_drift(self, key: WorkloadKey, plan: Plan, written: Sequence[NativeKey]) -> None:
        """Keeps in words what was put back, each object once in a while."""
        drifted = [native for native in written if native in plan.drifted]
        if drifted:
            said, now_s = self._restored.setdefault(key, Restored()), self._clock.monotonic()
            if news := [
                native
                for native in drifted
                if now_s - said.at_s.get(native, -math.inf) >= results.DRIFT_REPEAT_S
            ]:
                said.at_s |= dict.fromkeys(news, now_s)
                done = "; ".join(f"{results.named(key)} {plan.drifted[key]}" for key in news)
                said.text = f"{done}; put back at {self._clock.rfc3339()}."

    def _conclude(
        self,
        row: SliceRow,
        plan: Plan,
        missing: Sequence[NativeKey],
        outcomes: Sequence[tuple[Work, StepResult]],
    ) -> RequeueAfter | None:
        """Leaves the result for the roll-up and says when to look again. Raises the first failure
        of a write."""
        judged = results.judge(
            plan, missing, [(work.key, outcome.error) for work, outcome in outcomes]
        )
        # A write counts once the watch shows it: until then the cache still has the old state.
        arrived = all(self.verdicts.shown(self._caches.native(work.key)) for work, _ in outcomes)
        result = Result(
            row.uid,
            row.generation,
            judged,
            judged.final or (not judged.failure and arrived and plan.quiet),
            self._restored[row.key].text if row.key in self._restored else "",
        )
        before, self.results[row.key] = self.results.get(row.key), result
        self._wait_for(row.key, judged.waits_for)
        if result != before:
            self._caches.signals.roll_up(row.key)
        if judged.failure is not None:
            raise judged.failure
        if plan.stubborn:
            return RequeueAfter(
                row.key,
                self._options.futile_pause_s,
                "a native object does not keep what is written",
            )
        if plan.postponed:
            return RequeueAfter(
                row.key, min(plan.postponed.values()), "a native object keeps vanishing"
            )
        if any(self._caches.native(taken) is not None for taken in plan.taken):
            return RequeueAfter(row.key, 0.0, "the object of that name is known now")
        if not (plan.quiet and arrived):
            # Events of our own writes bring the next turn; this is for those that never come.
            return RequeueAfter(row.key, self._options.recheck_s, "native objects are on their way")
        again_s = min(
            (self.verdicts.again_s(native.key) for native in self._caches.natives_of(row.uid)),
            default=math.inf,
        )
        if again_s == math.inf:
            return None
        return RequeueAfter(
            row.key,
            max(again_s - self._clock.monotonic(), 0.0),
            "the cluster changed a native object",
        )

    def _refuse(self, row: SliceRow, refused: ExpansionRefused) -> None:
        """Natives stay as they are; the slice says why."""
        waits_for = frozenset({refused.waits_for} if refused.waits_for else ())
        judged = Judgement(refused.reason, refused.message, waits_for=waits_for, final=True)
        self.results[row.key] = Result(row.uid, row.generation, judged, True)
        self._wait_for(row.key, waits_for)
        self._caches.signals.roll_up(row.key)

    # -- what slices wait for -------------------------------------------------

    def _missing(self, named: Named) -> list[NativeKey]:
        return [key for key in named.others if not self._exists(key)]

    async def _make_account(self, key: NativeKey, mark: SliceMark) -> None:
        """A service account of its own right: other workloads may name it too, so it belongs to no
        slice."""
        own = {names.FLEET_LABEL: mark.fleet, labels.MANAGED_BY_LABEL: labels.MANAGED_BY}
        metadata = {"name": key[2], "namespace": key[1], "labels": own}
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        outcome = await self._applier.apply(Create(native_ref(key), body))
        if outcome.error is not None and not isinstance(outcome.error, errors.AlreadyExists):
            raise outcome.error

    def _exists(self, key: NativeKey) -> bool:
        kind, namespace, name = key
        if kind in self._caches.referenced:
            return (namespace, name) in self._caches.referenced[kind]
        return self._caches.native(key) is not None

    def _wait_for(self, key: WorkloadKey, wanted: frozenset[NativeKey]) -> None:
        for old in self._waits_for.pop(key, frozenset()) - wanted:
            waiting = self._waiting.get(old)
            if waiting is not None:
                waiting.discard(key)
                if not waiting:
                    del self._waiting[old]
        if wanted:
            self._waits_for[key] = wanted
        for native in wanted:
            self._waiting.setdefault(native, set()).add(key)

    def _on_reference(self, kind: str, namespace: str, name: str) -> None:
        self.verdicts.stir((kind, namespace, name))
        self._release((kind, namespace, name))
        for key in sorted(self._waiting.get((kind, namespace, name), ())):
            self._caches.signals.expand(key)

    def _forget(self, key: WorkloadKey) -> None:
        self.results.pop(key, None)
        self.memory.forget(key)
        self._ran_s.pop(key, None)
        self._restored.pop(key, None)
        self._wait_for(key, frozenset())
        if self._caches.slice(key) is None:
            for native in self._natives.pop(key, ()):
                self._release(native)

    def _release(self, native: NativeKey) -> None:
        """What is known of an object goes when the last of both has gone, it or its slice;
        whichever comes first says nothing: it may be made again."""
        owner_uid = self.verdicts.owner_of(native)
        if owner_uid and self._caches.native(native) is None and not self._caches.lives(owner_uid):
            self.verdicts.release(native)


def _makes_pods(work: Work) -> bool:
    return not work.takes_away and work.key[0] in (*RUNS_PODS, *CARRIES)


def _is_own_account(work: Work) -> bool:
    """Whether it is a service account that the slice owns; shared ones have no owner."""
    return work.key[0] == "ServiceAccount" and "ownerReferences" in work.body["metadata"]


def _canonical(value: Any, quantities: bool = False) -> Any:
    """The value with resource quantities in canonical form: what has none, as it is. `quantities`:
    `value` is itself a map of them."""
    if isinstance(value, dict):
        if quantities:
            return {name: _quantity(amount) for name, amount in value.items()}
        made = value
        for name, part in value.items():
            if type(part) is str:
                continue
            new = _canonical(part, name in ("requests", "limits"))
            if new is not part:
                if made is value:
                    made = dict(value)
                made[name] = new
        return made
    if isinstance(value, list):
        parts = [part if type(part) is str else _canonical(part) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else parts
    return value


def _quantity(amount: Any) -> Any:
    try:
        return str(quantity.from_json(amount))
    except FieldError:
        return amount
