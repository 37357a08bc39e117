"""From wanted native objects and what lives under their names to the next steps. Decides; touches
nothing.

An object that the slice does not control is never written: it is a conflict. An object that was
found to be as it should is not compared again until its digest or the wish changes; one that keeps
changing back is left alone for a while (F45-F47).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from federator.api import raw
from federator.kinds.labels import MADE_OF_ANNOTATION, bounds_of
from federator.kinds.natives import NATIVES
from federator.kube.control.write_fights import WriteFightDetector
from federator.kube.store import version_number
from federator.member.cache import jobs, rows
from federator.member.cache.rows import NativeKey, NativeRow
from federator.member.cache.stores import native_ref
from federator.member.expansion import listkeys
from federator.member.options import MemberOptions
from federator.model import names
from federator.model.kubernetes import diffs, owned_fields
from federator.model.steps import Apply, Create, Delete, Patch, Step

CRON: Final = "CronJob"
STOPPED: Final = "stopped"
"""The wish for a Job that has to go and may still run."""


@dataclass(frozen=True, slots=True)
class Work:
    """One native object that needs a step."""

    key: NativeKey
    step: Step
    want: str
    """Digest of the wish, or `STOPPED`; "" for a removal."""
    body: Mapping[str, Any]
    hands_over: bool = False
    """Before the apply, the fields that were owned by Update are to be owned by Apply. The apply
    then names the uid of the object that was compared."""

    @property
    def takes_away(self) -> bool:
        """Whether the object is on its way out."""
        return self.want in ("", STOPPED)


@dataclass(slots=True)
class Plan:
    """What one turn of one slice found."""

    work: list[Work] = field(default_factory=list)
    conflicts: list[NativeKey] = field(default_factory=list)
    """Objects of our names that belong to others."""
    stubborn: list[NativeKey] = field(default_factory=list)
    """Objects that do not keep what we write."""
    ending: list[NativeKey] = field(default_factory=list)
    """Objects of ours that are being deleted and block their successors."""
    unrecorded: list[NativeKey] = field(default_factory=list)
    """Jobs that may go once their completed indexes are in the slice's status."""
    unseen: list[NativeKey] = field(default_factory=list)
    """Objects that were written or removed, while the caches do not show that yet."""
    postponed: dict[NativeKey, float] = field(default_factory=dict)
    """Objects that vanished again and again after they were made, and the seconds until the next
    attempt."""
    taken: list[NativeKey] = field(default_factory=list)
    """Objects that could not be created because their name is taken, while the caches do not show
    by what: maybe by an earlier write of ours with a lost answer."""
    drifted: dict[NativeKey, str] = field(default_factory=dict)
    """Objects among `work` that were as wished before another client changed or deleted them, and
    what it did."""
    remade: list[NativeKey] = field(default_factory=list)
    """Objects among `work` that were there before and are gone: maybe because the slice is."""

    @property
    def quiet(self) -> bool:
        """Nothing is on its way in or out."""
        expected = self.ending or self.unrecorded or self.unseen or self.postponed or self.taken
        return not (expected or any(work.takes_away for work in self.work))

    @property
    def clear(self) -> bool:
        """Once its work is done, each native is as wished and nothing else is there."""
        return self.quiet and not (self.conflicts or self.stubborn)


CHANGED_MAX: Final = 10
"""Fields of a changed object that are named."""
REMAKE_BASE_S = 0.5
REMAKE_CAP_S = 30.0
SHOWN_WITHIN_S = 30.0
"""So long caches are given to show what was made, before it counts as deleted again unseen: a list
that is made anew shows neither."""


@dataclass(slots=True)
class _Compared:
    """The last comparison of one object."""

    uid: str
    owner: str
    """uid of the slice that the object was made for."""
    live: str
    want: str
    version: int
    again_s: float
    """When it is written once more, because the server made something else of the wish; infinity
    when it did not."""
    shown: bool = False
    """The caches have shown it: only then does its absence there mean that it was deleted."""
    written_s: float = -math.inf
    """When our last write of it was answered."""
    stirred: bool = False
    """Since then an object of this name has come to the caches, or has left them."""


class Verdicts:
    """What was compared and written so far. Forgotten with the process, and once object and slice
    are gone."""

    def __init__(self, options: MemberOptions) -> None:
        self._verdicts: dict[NativeKey, _Compared] = {}
        self._again_after_s = options.futile_pause_s
        self._tries: WriteFightDetector[NativeKey] = WriteFightDetector(
            writes=options.futile_writes,
            window_s=options.futile_window_s,
            pause_s=options.futile_pause_s,
        )

    def holds(self, row: NativeRow, want: str, now_s: float) -> bool:
        """Whether this very state was found good for this very wish, and is not to be tried again
        by now."""
        verdict = self._verdicts.get(row.key)
        judged = verdict is not None and (verdict.uid, verdict.live, verdict.want) == (
            row.uid,
            row.live,
            want,
        )
        if judged and verdict is not None:
            verdict.shown = True
        return judged and now_s < self.again_s(row.key)

    def holds_still(self, row: NativeRow, now_s: float) -> bool:
        """The same for the wish that was compared last."""
        verdict = self._verdicts.get(row.key)
        return verdict is not None and self.holds(row, verdict.want, now_s)

    def surely_differs(self, row: NativeRow, want: str) -> bool:
        """Whether this state was good for another wish, or is not what was wished: then there is a
        difference, no need to look for it."""
        verdict = self._verdicts.get(row.key)
        if verdict is None or (verdict.uid, verdict.live) != (row.uid, row.live):
            return False
        return verdict.want != want or verdict.again_s < math.inf

    def was_good(self, key: NativeKey, want: str) -> bool:
        """Whether the caches last showed the object just as this very wish makes it."""
        verdict = self._verdicts.get(key)
        return (
            verdict is not None
            and verdict.shown
            and verdict.want == want
            and verdict.again_s == math.inf
        )

    def again_s(self, key: NativeKey) -> float:
        """When the object is to be written again though nothing changes; infinity for never."""
        verdict = self._verdicts.get(key)
        return verdict.again_s if verdict is not None else math.inf

    def accept(
        self, row: NativeRow, want: str, again_s: float = math.inf, *, shown: bool = True
    ) -> None:
        """This state is what the wish leads to; the bytes are not needed until it changes. `shown`:
        it is from the caches."""
        self._verdicts[row.key] = _Compared(
            row.uid,
            row.owner_uid,
            row.live,
            want,
            version_number(row.resource_version),
            again_s,
            shown,
        )
        row.document = row.applied = None

    def answered(self, work: Work, answer: Mapping[str, Any], now_s: float) -> None:
        """Whatever the server made of a wish is what it leads to here, webhooks and older
        definitions included (F47). Where that lacks something, the wish is written once more after
        a while: they may be gone by then."""
        row = rows.native_row(work.key[0], answer)
        fixed = NATIVES[work.key[0]].changes is not None
        kept = fixed or diffs.covers(answer, _comparable(work.body))
        self.accept(row, work.want, math.inf if kept else now_s + self._again_after_s, shown=False)
        self._verdicts[work.key].written_s = now_s

    def just_made(self, key: NativeKey, now_s: float) -> bool:
        """Whether a server has lately answered our write, and the caches have not shown it yet."""
        verdict = self._verdicts.get(key)
        if verdict is None or verdict.shown or verdict.stirred:
            return False
        return now_s < verdict.written_s + SHOWN_WITHIN_S

    def stir(self, key: NativeKey) -> None:
        """An object of this name has come to the caches, or has left them: its absence there means
        that it does not exist."""
        if (verdict := self._verdicts.get(key)) is not None:
            verdict.stirred = True

    def knows(self, key: NativeKey) -> bool:
        """Whether the object of this name was compared or written before."""
        return key in self._verdicts

    def ahead(self, row: NativeRow) -> str | None:
        """The wish that our last write has fulfilled, when the caches show an older state than
        that; None when they show the newest that is known."""
        verdict = self._verdicts.get(row.key)
        behind = (
            verdict is not None
            and verdict.uid == row.uid
            and verdict.version > version_number(row.resource_version)
        )
        return verdict.want if verdict is not None and behind else None

    def shown(self, row: NativeRow | None) -> bool:
        """Whether the caches show the state that was last accepted."""
        verdict = self._verdicts.get(row.key) if row is not None else None
        return (
            row is not None
            and verdict is not None
            and (verdict.uid, verdict.live) == (row.uid, row.live)
        )

    def owner_of(self, key: NativeKey) -> str:
        """uid of the slice that the object of this name was last known to belong to; "" when
        nothing is known of it."""
        verdict = self._verdicts.get(key)
        return verdict.owner if verdict is not None else ""

    def release(self, key: NativeKey) -> None:
        """The object is gone, and so is its slice. Tries stay for as long as they count: deleting
        the slice each time is a fight as well."""
        self._verdicts.pop(key, None)

    def forget(self, key: NativeKey) -> None:
        self._verdicts.pop(key, None)
        self._tries.forget(key)

    def written(self, key: NativeKey, want: str, now_s: float) -> None:
        """Counts a write; the same wish again and again, soon after one another, is a fight."""
        self._tries.written(key, want, now_s)

    def paused_until_s(self, key: NativeKey, want: str, now_s: float) -> float:
        """Until when the object is left alone, 0.0 when it is not."""
        return self._tries.paused_until_s(key, want, now_s)

    def remake_wait_s(self, key: NativeKey, want: str, now_s: float) -> float:
        """Seconds until an object that is gone may be made again: none at first, then longer each
        time. It is deleted as fast as it is made, for example by the garbage collector when the
        slice is gone and this process has not seen that yet."""
        tries = self._tries.of(key, want)
        if tries is None or tries.count < 2:
            return 0.0
        return (
            tries.last_s
            + min(REMAKE_CAP_S, REMAKE_BASE_S * 2.0 ** min(tries.count - 2, 16))
            - now_s
        )


def native_key(obj: Mapping[str, Any]) -> NativeKey:
    meta = obj["metadata"]
    return (obj["kind"], meta.get("namespace", ""), meta["name"])


@dataclass(frozen=True, slots=True)
class Scene:
    """What a turn looks at. `live` finds any native object, ours or not; `owner_lives` returns
    whether a slice with that uid exists; `removable` whether a native that is not wanted any more
    has left nothing behind that only it knows."""

    slice_uid: str
    live: Callable[[NativeKey], NativeRow | None]
    verdicts: Verdicts
    now_s: float
    owner_lives: Callable[[str], bool]
    removable: Callable[[NativeRow], bool]


def plan(wanted: Sequence[Mapping[str, Any]], owned: Iterable[NativeRow], scene: Scene) -> Plan:
    """One slice's next steps: applies in the order of `wanted`, then removals of what it controls
    beyond that."""
    plan_so_far = Plan()
    kept: set[NativeKey] = set()
    for body in wanted:
        key = native_key(body)
        kept.add(key)
        _compare(key, body, scene, plan_so_far)
    for row in owned:
        if row.key in kept or not row.managed or row.deleting:
            continue
        if scene.verdicts.ahead(row) == STOPPED:
            plan_so_far.unseen.append(row.key)
            continue
        if row.key[0] == "Job" and not jobs.stopping(row):
            # Stopped first: while it runs, what it completes could not be recorded as fast as it
            # happens.
            plan_so_far.work.append(
                Work(
                    row.key,
                    Patch(native_ref(row.key), {"spec": {"suspend": True}}, uid=row.uid),
                    STOPPED,
                    {},
                )
            )
            continue
        if not scene.removable(row):
            plan_so_far.unrecorded.append(row.key)
            continue
        # A Job is removed only in the state that was looked at: it may have completed more since.
        seen = row.resource_version if row.key[0] == "Job" else ""
        plan_so_far.work.append(
            Work(row.key, Delete(native_ref(row.key), row.uid, resource_version=seen), "", {})
        )
    return plan_so_far


def _compare(key: NativeKey, body: Mapping[str, Any], scene: Scene, plan_so_far: Plan) -> None:
    row = scene.live(key)
    body = _left_to_autoscaler(body, row)
    want = rows.digest(body)
    if row is None:
        _make(key, body, want, scene, plan_so_far)
        return
    if _is_others(row, body, scene, plan_so_far):
        return
    if row.deleting:
        plan_so_far.ending.append(key)
        return
    if scene.verdicts.holds(row, want, scene.now_s):
        return
    fulfilled = scene.verdicts.ahead(row)
    if fulfilled == want:
        plan_so_far.unseen.append(key)
        return
    if (changes := NATIVES[key[0]].changes) is not None:
        step = _partial_step(body, row, changes, behind=fulfilled is not None)
    elif fulfilled is not None or scene.verdicts.surely_differs(row, want):
        step = _applied(body, row)
    elif row.document is None:
        # it was as it should be, and has been removed since: the event is on its way
        plan_so_far.unseen.append(key)
        return
    else:
        step = _step(body, row, row.document, first=not scene.verdicts.knows(key))
    if step is None:
        scene.verdicts.accept(row, want)
    elif scene.verdicts.paused_until_s(key, want, scene.now_s):
        plan_so_far.stubborn.append(key)
    else:
        applies = isinstance(step, Apply)
        plan_so_far.work.append(Work(key, step, want, body, hands_over=applies and row.created))
        if (
            fulfilled is None
            and scene.verdicts.was_good(key, want)
            and (changed := _changed(row, body))
        ):
            plan_so_far.drifted[key] = changed


def _is_others(row: NativeRow, body: Mapping[str, Any], scene: Scene, plan_so_far: Plan) -> bool:
    """Whether the object is not the slice's to write; the plan then says what it is."""
    if row.owner_uid == scene.slice_uid or _orphaned(row, body):
        return False
    if row.managed and row.owner_uid and not scene.owner_lives(row.owner_uid):
        # left by an earlier slice of this name; the garbage collector is on its way
        plan_so_far.ending.append(row.key)
    # What several workloads may name alike (a service account) has no owner: once there, it is
    # left as it is.
    elif "ownerReferences" in body["metadata"]:
        plan_so_far.conflicts.append(row.key)
    return True


def name_is_taken(work: Work, live: raw.Obj | None, scene: Scene, plan_so_far: Plan) -> None:
    """An object could not be created because its name is taken, by `live` as the server shows it
    now. It is waited for until the caches show it; one of others is a conflict at once."""
    plan_so_far.taken.append(work.key)
    if live is not None:
        _is_others(rows.native_row(work.key[0], live), work.body, scene, plan_so_far)


def _make(
    key: NativeKey, body: Mapping[str, Any], want: str, scene: Scene, plan_so_far: Plan
) -> None:
    """Nothing of that name is there."""
    if scene.verdicts.just_made(key, scene.now_s):
        # Made again it would be refused. And an autoscaler may have chosen already: the count of
        # another wish is none for it.
        plan_so_far.unseen.append(key)
        return
    if (wait_s := scene.verdicts.remake_wait_s(key, want, scene.now_s)) > 0:
        plan_so_far.postponed[key] = wait_s
        return
    if scene.verdicts.knows(key):
        plan_so_far.remade.append(key)
    if scene.verdicts.was_good(key, want):
        plan_so_far.drifted[key] = "was deleted"
    # Should a foreign object of this name have come meanwhile, its owner wins, and the caches show
    # it.
    plan_so_far.work.append(Work(key, _made(body, want), want, body))


def _left_to_autoscaler(body: Mapping[str, Any], row: NativeRow | None) -> Mapping[str, Any]:
    """The wish for a Deployment that an autoscaler scales. It begins with the fewest copies; after
    the Deployment exists, the wish leaves out `replicas`.

    Not while we are the only field manager of it: an apply without a field that no other manager
    owns takes the field away, and a Deployment without replicas has one. Such a number is kept,
    within the bounds. Nor at none, where the fewest are more: that switches an autoscaler off, and
    it would stay so.
    """
    bounds = bounds_of(raw.mapping(body, "metadata", "annotations"))
    if bounds is None or row is None:
        return body
    spec = {name: value for name, value in body["spec"].items() if name != "replicas"}
    low, high = bounds
    now = raw.integer(row.spec, "replicas", default=low)
    if row.replicas_ours or (now == 0 and low > 0):
        spec["replicas"] = min(max(now, low), high)
    return {**body, "spec": spec}


def _changed(row: NativeRow, body: Mapping[str, Any]) -> str:
    """What another client changed in an object, in words: the fields of ours that differ, two
    levels deep. "" when all are there: what a webhook added in our name is no drift."""
    live = msgspec.json.decode(row.document) if row.document is not None else {"spec": row.spec}
    differ = [
        f"{part}.{name}"
        for part, fields in _comparable(body).items()
        if isinstance(fields, Mapping)
        for name, value in fields.items()
        if not diffs.covers((live.get(part) or {}).get(name), value)
    ]
    return f"was changed ({', '.join(sorted(differ)[:CHANGED_MAX])})" if differ else ""


def _orphaned(row: NativeRow, body: Mapping[str, Any]) -> bool:
    """Whether we made it for this very workload and it has no controller any more: the slice was
    deleted, and its objects were left behind on purpose (`kubectl delete --cascade=orphan`)."""
    mine = body["metadata"].get("labels", {}).get(names.WORKLOAD_UID_LABEL, "")
    return row.managed and not row.owner_uid and bool(mine) and row.workload_uid == mine


def _step(body: Mapping[str, Any], row: NativeRow, document: bytes, *, first: bool) -> Step | None:
    """What makes the object as wanted; None when it is so already. `first`: nothing was compared
    with it before."""
    live = msgspec.json.decode(document)
    left = (
        row.made_of != rows.digest(body) if row.created else _leftover(row, live, body, first=first)
    )
    if diffs.covers(live, _comparable(body)) and not left:
        return None
    return _applied(body, row)


def _made(body: Mapping[str, Any], want: str) -> Create | Apply:
    """The first write of an object. A create costs an API server two thirds of an apply; what it
    leaves in managedFields is handed over with the first apply. It is strict: as with an apply, the
    server refuses unknown fields instead of dropping them.

    Two kinds are applied from the start, because their wishes depend on their state: Deployments
    that an autoscaler scales, and CronJobs, which begin suspended. So are objects that name a list
    item twice: the server refuses the apply, while a create would leave an object that no apply
    can change.
    """
    kind = NATIVES[body["kind"]]
    if listkeys.repeated(body):
        return Apply(native_ref(native_key(body)), body, force=False)
    if kind.changes is not None:
        return Create(native_ref(native_key(body)), body, strict=True)  # never applied
    if _autoscaled(body) or body["kind"] == CRON:
        return Apply(native_ref(native_key(body)), body, force=False)
    meta = body["metadata"]
    notes = {**meta.get("annotations", {}), MADE_OF_ANNOTATION: want}
    whole = {**body, "metadata": {**meta, "annotations": notes}}
    return Create(native_ref(native_key(body)), whole, strict=True)


def _autoscaled(body: Mapping[str, Any]) -> bool:
    return bounds_of(raw.mapping(body, "metadata", "annotations")) is not None


def _applied(body: Mapping[str, Any], row: NativeRow) -> Apply:
    """Where it says a number of copies that an autoscaler chooses, only while nobody has changed
    the object since: the number is from what we have heard of it. One whose fields are handed over
    first is named by its uid: another object of that name is not ours to write."""
    heard = row.resource_version if _autoscaled(body) and "replicas" in body["spec"] else ""
    uid = row.uid if row.created else ""
    return Apply(native_ref(row.key), body, force=True, resource_version=heard, uid=uid)


def _leftover(row: NativeRow, live: Any, body: Mapping[str, Any], *, first: bool) -> bool:
    """Whether an earlier wish of ours set a field that this one has not. Only an apply takes it
    away.

    Where that can only be suspected it is applied on the first look, and whatever comes of that is
    accepted: at most one request for each object in the life of a process, which changes nothing
    where the suspicion was wrong.
    """
    fields = msgspec.json.decode(row.applied) if row.applied else {}
    if owned_fields.removals(fields, live, body, complete=False):
        return True
    return first and owned_fields.surplus(fields, live, body)


def _partial_step(
    body: Mapping[str, Any], row: NativeRow, changes: Sequence[str], *, behind: bool
) -> Step | None:
    """What runs once keeps the template it was made with; only what an API server lets change is
    changed. `behind`: the row is older than our last write, so all of that is said again."""
    spec = {name: value for name, value in body.get("spec", {}).items() if name in changes}
    want: dict[str, Any] = {"spec": spec}
    if labels := body["metadata"].get("labels"):
        want["metadata"] = {"labels": labels}
    live: dict[str, Any] = {}
    if not behind and row.document is not None:
        live = msgspec.json.decode(row.document)
    elif not behind:
        live = {"spec": row.spec}
        want = {"spec": {name: value for name, value in spec.items() if name in row.spec}}
    if not row.owner_uid and (owners := body["metadata"].get("ownerReferences")):
        want["metadata"] = {**want.get("metadata", {}), "ownerReferences": owners}
    patch = diffs.merge_patch(live, want)
    return Patch(native_ref(row.key), patch, uid=row.uid) if patch else None


def _comparable(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared: everything but the identity, which is equal by construction."""
    compared = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
    meta = body["metadata"]
    compared["metadata"] = {
        name: meta[name] for name in ("labels", "annotations", "ownerReferences") if name in meta
    }
    return compared


# -- CronJobs -----------------------------------------------------------------
#
# Their controller looks for times from `status.lastScheduleTime` on, and from the making of the
# CronJob where that says nothing. So one that takes over from somebody else, or is made again, is
# suspended until its status says where to begin: no time is run twice, and none is left out.


def has_seed(row: NativeRow | None, seed_s: int) -> bool:
    """Whether its status says that the times up to `seed_s` have had their runs; 0: nobody asks."""
    return seed_s == 0 or (row is not None and last_s(row) >= seed_s)


def last_s(row: NativeRow) -> int:
    """The time from which its controller looks on, in epoch seconds; 0 for none."""
    return int(raw.epoch_s(raw.text(row.status, "lastScheduleTime")))


def unseeded(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same CronJob, which begins no run."""
    return {**body, "spec": {**body["spec"], "suspend": True}}


def seeding(row: NativeRow, seed_s: int) -> Patch:
    """Tells it. By version: its controller may just have written a later time."""
    return Patch(
        native_ref(row.key),
        {"status": {"lastScheduleTime": raw.second(seed_s)}},
        "status",
        uid=row.uid,
        resource_version=row.resource_version,
    )
