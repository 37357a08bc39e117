"""Mutations of our own code, each with the rule that must catch it: what others shipped, and what
we might.

A mutation takes the place of one method while a run lasts. `planting` has the bugs that sit on the
wire, in one hub, or in a store; both are planted by the negative controls only.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from federator.api.placement import placementdecision
from federator.hub.cache.state import HubState
from federator.hub.deletion import finalizer
from federator.hub.deletion.absence import AbsenceProof
from federator.hub.deletion.departed import Departed
from federator.hub.deletion.finalizer import Finalizing
from federator.hub.deletion.removal import Removing
from federator.hub.dispatch.dispatcher import Dispatching
from federator.hub.jobs.recurring import Recurring
from federator.hub.leading import membership
from federator.hub.leading.process import HubProcess
from federator.hub.members import reachability
from federator.hub.members.member import Member
from federator.hub.members.reachability import ProbeResult, Reachability
from federator.hub.placing.placer import Due, Placing
from federator.hub.records.decisions import Record
from federator.hub.status.workload_status import StatusAggregation
from federator.kinds import registry
from federator.kinds.cronjob import runs as cron_runs
from federator.kinds.jobset import ask, natives
from federator.kinds.training import natives as training
from federator.kube import errors
from federator.kube.control.applier import Applier, StepResult
from federator.kube.leader.elector import Elector
from federator.kube.watch.reflector import Reflector
from federator.kube.wire.transport import Request, Response, Transport
from federator.member.cache.stores import native_ref
from federator.member.expansion.expanding import Expander
from federator.model import names
from federator.model.decision import Decision, Reason
from federator.model.names import WorkloadKey
from federator.model.steps import Delete, Patch, RequeueAfter
from federator.placement import ordinals, placing
from federator.placement.division import spread
from federator.placement.quota import tree as quota_tree
from federator.placement.room.charged import Charged
from federator.placement.room.sums import Sums
from federator.placement.selection import filters
from federator.placement.selection import leaving as engine_leaving
from tests.faults.rows import is_hub
from tests.simulation import departures, gangs, nativeruns, recurrences
from tests.simulation import ordinals as numbered
from tests.simulation.running import Plant

SLOW_S = 1.0
"""A list takes so long where a bug needs the time to act."""
SLOW = ("/pinterestservices", "/pinterestjobsets", "/deployments")
"""Ends of the paths of such lists."""
LATE_S = 60.0
Method = Callable[..., Any]
UNKNOWN = (errors.Unreachable, errors.ServerTrouble, errors.Malformed)
"""Nobody knows whether a write took effect."""
FOREVER_S = 3.0
"""A member process with that bug removes an object so often."""


def instead(owner: Any, name: str, make: Callable[[Method], Method]) -> Plant:
    """`owner.name` is what `make` builds around the original."""

    def patched() -> AbstractContextManager[Any]:
        return mock.patch.object(owner, name, make(getattr(owner, name)))

    return Plant(patched=patched)


def in_worlds_of(plant: Plant, *only: str) -> Plant:
    """The same bug, planted in worlds with these faults or acts of hostile actors and no others."""
    return dataclasses.replace(plant, only=only)


def together(*plants: Plant) -> Plant:
    """All of them at once."""

    @contextlib.contextmanager
    def patched() -> Any:
        with contextlib.ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant.patched())
            yield

    between = next((one.between for one in plants if one.between), None)
    return Plant(
        patched=patched, between=between, only=[name for one in plants for name in one.only]
    )


class SlowLists:
    """Every list of workloads of the host takes a while."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def request(self, request: Request) -> Response:
        """The answer, late for such a list."""
        if request.path.endswith(SLOW) and ("watch", "true") not in request.query:
            await asyncio.sleep(SLOW_S)
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def _slow_lists(process: str, cluster: str, inner: Transport) -> Transport:
    return SlowLists(inner) if is_hub(process) and cluster == "host" else inner


# -- starts and leaders ----------------------------------------------------------------------------


def _at_once(original: Method) -> Method:
    async def warm_up(self: HubProcess) -> None:
        self._warmed.set()

    return warm_up


def _unconfirmed(original: Method) -> Method:
    async def confirm(*_: object) -> None:
        return

    return confirm


def _never_looks(original: Method) -> Method:
    async def renew_until(self: Elector, task: Any) -> str:
        self._deadline = float("inf")
        await task
        return ""

    return renew_until


# -- decisions -------------------------------------------------------------------------------------


def _body(item: Due, decision: Decision, name: str) -> dict[str, Any]:
    kind = registry.KINDS["PlacementDecision"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": item.workload.key.namespace,
            "labels": {names.WORKLOAD_UID_LABEL: item.workload.uid},
            "finalizers": [names.DECISION_FINALIZER],
        },
        "spec": placementdecision.to_spec(decision, ("created",), item.ask, ()),
    }


def _name(item: Due) -> str:
    short = registry.KINDS[item.workload.key.kind].short_names[0]
    return names.decision_name(short, item.workload.key.name, item.workload.uid)


def _written_again(original: Method) -> Method:
    async def write(
        self: Placing, item: Due, decision: Decision, revision: str
    ) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await original(self, item, decision, revision)
        except UNKNOWN:
            name = f"{_name(item)}-2"
            ref = registry.KINDS["PlacementDecision"].ref(item.workload.key.namespace, name)
            body = _body(item, decision, name)
            # It is the hub's own: without the seal it would be removed as somebody else's.
            body["spec"]["seal"] = self.state.seals.of(ref.namespace, name, body["spec"])
            return await self.host.create(ref, body)
        return found

    return write


def _believed(original: Method) -> Method:
    async def write(
        self: Placing, item: Due, decision: Decision, revision: str
    ) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await original(self, item, decision, revision)
        except errors.ApiError:
            body = _body(item, decision, _name(item))
            namespace = body["metadata"]["namespace"]
            body["spec"]["seal"] = self.state.seals.of(namespace, _name(item), body["spec"])
            version = "1" if item.record is None else item.record.facts.resource_version
            uid = "unwritten" if item.record is None else item.record.uid
            return {
                **body,
                "metadata": {**body["metadata"], "uid": uid, "resourceVersion": version},
            }
        return found

    return write


def _all_charged(original: Method) -> Method:
    def beyond(self: Charged, cluster: str, includes_seq: int, **more: Any) -> Any:
        return original(self, cluster, -1, **more)

    return beyond


def _quota_twice(original: Method) -> Method:
    def count(self: Sums, commitment: Any, sign: int) -> None:
        original(self, commitment, sign * 2)

    return count


def _keeps_nothing(original: Method) -> Method:
    def bound(*given: Any, **more: Any) -> Any:
        return dataclasses.replace(original(*given, **more), kept=0)

    return bound


def overlooks(*reasons: Reason) -> Callable[[Method], Method]:
    """Placement's filters without the refusals for these reasons."""

    def make(original: Method) -> Method:
        def refusal(ask: Any, cluster: Any) -> Any:
            found = original(ask, cluster)
            return None if found is not None and found.reason in reasons else found

        return refusal

    return make


def _keeps_all(original: Method) -> Method:
    def admitted(ask: Any, cluster: Any) -> bool:
        return True

    return admitted


def _gives_nothing_back(original: Method) -> Method:
    def give_back(*args: Any) -> dict[str, int]:
        return {}

    return give_back


def _nobody_stays(original: Method) -> Method:
    def leavers(*args: Any, **rest: Any) -> list[Any]:
        return []

    return leavers


def _duplicates_nothing(original: Method) -> Method:
    def as_duplicated(*args: Any) -> dict[str, int]:
        return {}

    return as_duplicated


def _only_divides(original: Method) -> Method:
    def placed(job: Any, found: Any, *rest: Any) -> Any:
        return placing._divide(job, found), found

    return placed


def _divided_by_clusters(original: Method) -> Method:
    def divide(parties: Sequence[Any], total: int, *rest: Any) -> int:
        assert total // len(parties) >= 0
        found: int = original(parties, total, *rest)
        return found

    return divide


# -- slices and statuses ---------------------------------------------------------------------------


def _old_clusters(original: Method) -> Method:
    first: dict[str, Record] = {}

    def action(self: Dispatching, member: Any, workload: Any, record: Record, seen: Any) -> Any:
        return original(self, member, workload, first.setdefault(record.workload_uid, record), seen)

    return action


def _lets_go_at_once(original: Method) -> Method:
    async def empty(self: Finalizing, record: Record) -> tuple[tuple[str, ...], bool]:
        return (), False

    return empty


def _asks_nobody(original: Method) -> Method:
    async def unproven(self: AbsenceProof, record: Record) -> tuple[str, ...]:
        return ()

    return unproven


def _overwrites(original: Method) -> Method:
    async def apply(self: Applier, step: Any, key: Any = None) -> StepResult:
        outcome: StepResult = await original(self, step, key)
        if not isinstance(outcome.error, errors.Conflict) or not isinstance(step, Patch):
            return outcome
        ours = await self.client.get(step.ref)
        meta = ours["metadata"]
        for part in ("labels", "annotations"):
            meta[part] = {
                name: text
                for name, text in (meta.get(part) or {}).items()
                if names.FEDERATION in name
            }
        return StepResult(step, obj=await self.client.replace(step.ref, ours))

    return apply


def _only_the_heard(original: Method) -> Method:
    def gathered(self: StatusAggregation, workload: Any, record: Any) -> Any:
        observations, *rest = original(self, workload, record)
        return [one for one in observations if one.known], *rest

    return gathered


def _no_placing(original: Method) -> Method:
    def placing(self: StatusAggregation, workload: Any, record: Any) -> Any:
        found = original(self, workload, record)
        if found is None:
            return None
        heard = [share for share in found.shares if self.state.members[share.cluster].heard]
        return dataclasses.replace(found, shares=tuple(heard))

    return placing


# -- reads and members -----------------------------------------------------------------------------


def _wiping(original: Method) -> Method:
    def note(
        self: Reflector[Any], what: str, error: errors.ApiError, *, failing: bool = True
    ) -> None:
        if what == "expired":
            for key in self.store:
                self._remove(key, -1)
        original(self, what, error, failing=failing)

    return note


def _impatient(original: Method) -> Method:
    def after(state: Any, sign: Any, why: str, now_s: float, grace_s: float) -> Any:
        return original(state, sign, why, now_s, 0.0)

    return after


def _believed_late(original: Method) -> Method:
    again_s: dict[float | None, float] = {}

    def after(state: Any, sign: Any, why: str, now_s: float, grace_s: float) -> Any:
        back = sign is ProbeResult.HEARD and state.state is Reachability.UNREACHABLE
        if back and now_s - again_s.setdefault(state.heard_at_s, now_s) < LATE_S:
            return state
        return original(state, sign, why, now_s, grace_s)

    return after


def _shared(original: Method) -> Method:
    lanes: dict[str, Any] = {}

    def lane(cluster: str, *, limit: int, **rest: Any) -> Any:
        whose = cluster if cluster == "host" else "members"
        return lanes.setdefault(
            whose, original(whose, limit=limit if cluster == "host" else 1, **rest)
        )

    return lane


def _all_shards(original: Method) -> Method:
    def pieces(obj: Any) -> Any:
        return ((0, ask.count(obj) - 1),)

    return pieces


def _to_and_fro(original: Method) -> Method:
    removed_s: dict[WorkloadKey, float] = {}

    async def turn(self: Expander, key: WorkloadKey) -> RequeueAfter | None:
        await original(self, key)
        now_s, row = self._clock.monotonic(), self._caches.slice(key)
        if row is None or row.verbs.carried or now_s - removed_s.get(key, 0.0) < FOREVER_S:
            return RequeueAfter(key, FOREVER_S, "planted") if row is not None else None
        for native in self._caches.natives_of(row.uid):
            if native.key[0] == "Service":
                removed_s[key] = now_s
                await self._applier.apply(Delete(native_ref(native.key), native.uid), key)
        return RequeueAfter(key, FOREVER_S, "planted")

    return turn


# -- clusters that leave ---------------------------------------------------------------------------


def _leaves_full(original: Method) -> Method:
    async def empty(self: Removing, member: Member, named: Sequence[Record]) -> None:
        if member.heard:
            await self._finish(member, "Removed", "planted")

    return empty


def _kept_in_decisions(original: Method) -> Method:
    async def abandon(self: Removing, member: Member, named: Sequence[Record]) -> Any:
        return await original(self, member, ())

    return abandon


def _not_cleaned(original: Method) -> Method:
    def look(self: Departed, member: Member) -> None:
        member.observe_cleaning("")

    return look


def _taken_for_ours(original: Method) -> Method:
    def is_ours(self: HubState, old: Record | None, new: Record) -> bool:
        return True

    return is_ours


def _only_said(make: Method) -> Method:
    async def said(self: Recurring, key: WorkloadKey, obj: Mapping[str, Any], due_s: int) -> Any:
        verbs = registry.RECURRING[key.kind].recurring
        assert verbs is not None
        return verbs.read_run(verbs.render_run(obj, due_s)), None

    return said


MUTATIONS: Mapping[str, tuple[str, Plant]] = {
    "a delete comes before caches are synced": (
        "14 no delete on doubt",
        together(
            Plant(between=_slow_lists),
            instead(HubProcess, "_warm_up", _at_once),
            instead(finalizer, "confirm_ending", _unconfirmed),
        ),
    ),
    "an old leader goes on writing": (
        "12 leads as granted",
        instead(Elector, "_renew_until", _never_looks),
    ),
    "a lost reply is counted twice": (
        "1 decided as asked",
        instead(Placing, "_write", _written_again),
    ),
    "a decision counts although it was not written": (
        "4 intent first",
        instead(Placing, "_write", _believed),
    ),
    "a cordon keeps nobody away": (
        "2 feasibility",
        instead(filters, "refusal", overlooks(Reason.CORDONED)),
    ),
    "a policy's choice of clusters is not looked at": (
        "2 feasibility",
        together(
            instead(filters, "refusal", overlooks(Reason.NOT_SELECTED)),
            instead(filters, "admitted", _keeps_all),
        ),
    ),
    "copies that a policy admits nowhere are taken away": (
        departures.NAME,
        instead(engine_leaving, "give_back", _gives_nothing_back),
    ),
    "a policy that narrows takes everything away at once": (
        departures.NAME,
        instead(engine_leaving, "leavers", _nobody_stays),
    ),
    "copies of a Duplicate policy that goes are taken away": (
        departures.NAME,
        instead(engine_leaving, "as_duplicated", _duplicates_nothing),
    ),
    "an incomplete gang takes away what runs": (
        departures.NAME,
        instead(placing, "placed", _only_divides),
    ),
    "capacity is charged twice": (
        "2 room is used",
        dataclasses.replace(instead(Charged, "beyond", _all_charged), machines=1),
    ),
    "a forged decision is obeyed": (
        "27 no forgery is obeyed",
        in_worlds_of(instead(HubState, "_is_ours", _taken_for_ours), "decision-forged"),
    ),
    "quota is charged twice": ("6 quota", instead(Sums, "count", _quota_twice)),
    "a borrower takes a guarantee that is not lent": (
        "6 quota",
        instead(quota_tree, "_bound", _keeps_nothing),
    ),
    "a fleet without a fitting cluster divides by zero": (
        "20 total functions",
        instead(spread, "divide", _divided_by_clusters),
    ),
    "slices follow the clusters of an old decision": (
        "10 settles",
        instead(Dispatching, "_action", _old_clusters),
    ),
    "a finalizer is dropped early": (
        "8 tombstones last",
        together(
            instead(Finalizing, "_empty", _lets_go_at_once),
            instead(AbsenceProof, "unproven", _asks_nobody),
        ),
    ),
    "a removed cluster is not emptied": (
        "8 clusters leave clean",
        in_worlds_of(instead(Removing, "_empty", _leaves_full), "left-and-back"),
    ),
    "decisions go on naming a lost cluster": (
        "8 clusters leave clean",
        in_worlds_of(instead(Removing, "_abandon", _kept_in_decisions), "lost-and-back"),
    ),
    "what a lost cluster held is taken for running": (
        "8 clusters leave clean",
        in_worlds_of(instead(Departed, "look", _not_cleaned), "lost-and-back"),
    ),
    "a retry overwrites somebody else's annotation": (
        "18 field respect",
        instead(Applier, "apply", _overwrites),
    ),
    "a status forgets a member that is not heard": (
        "19 nobody is forgotten",
        together(
            instead(StatusAggregation, "_gathered", _only_the_heard),
            instead(StatusAggregation, "_placing", _no_placing),
        ),
    ),
    "a 410 wipes a cache": (
        "14 no delete on doubt",
        together(
            Plant(between=_slow_lists),
            instead(Reflector, "_note", _wiping),
            instead(finalizer, "confirm_ending", _unconfirmed),
        ),
    ),
    "one failed probe makes a cluster NotReady": (
        "15 patience",
        instead(reachability, "after", _impatient),
    ),
    "a member that is back is believed a minute later": (
        "11 unknown resolves",
        instead(reachability, "after", _believed_late),
    ),
    "all members share one lane": ("22 bulkhead", instead(membership, "Lane", _shared)),
    "each cluster counts its ordinals from 0": (
        numbered.TWICE,
        instead(ordinals._Plan, "pieces", numbered.from_zero),
    ),
    "the hub goes on deciding what its clusters decide": (
        nativeruns.ONE_DECIDER,
        instead(cron_runs, "of_hub", nativeruns.without_end),
    ),
    "a run is recorded and not made": (recurrences.LOST, instead(Recurring, "_make", _only_said)),
    "the Jobs of a gang begin as they are made": (
        gangs.ALONE,
        instead(training, "suspended", lambda _: lambda obj: False),
    ),
    "every cluster runs all shards": (
        "1 shards have Jobs",
        instead(natives, "pieces", _all_shards),
    ),
    "dependent objects are removed and made for ever": (
        "10 stays at rest",
        instead(Expander, "turn", _to_and_fro),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""
