"""Bugs that nothing had caught before they were planted here: of versions, of shards, of leases, of
what is deleted when. Each takes the place of one method, with the rule that must catch it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from federator.hub.cache.rollout_view import RolloutView
from federator.hub.dispatch import slice_writer
from federator.hub.host import decision_writer
from federator.hub.records import decisions
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control import applier
from federator.kube.leader.elector import Elector
from federator.kube.leader.lease import LeaseEvent
from federator.kube.watch.reflector import Reflector
from federator.kube.wire.transport import Request, Response, Transport
from federator.member.cache import jobs
from federator.model import shards
from federator.model.shards import Ranges
from federator.model.steps import Delete, Patch
from federator.placement.division import shards as dividing
from federator.placement.room.ledger import Ledger
from federator.scheduling import rollout
from federator.status import given
from tests.faults.rows import is_hub
from tests.simulation import availability, booked, conduct, shardruns
from tests.simulation.mutations import Method, in_worlds_of, instead
from tests.simulation.running import Plant


def _without_version(original: Method) -> Method:
    def conditioned(step: Patch) -> Any:
        return original(
            dataclasses.replace(step, resource_version="") if step.subresource == "status" else step
        )

    return conditioned


def _loses_the_rest(original: Method) -> Method:
    def extend(mine: Ranges, loose: Ranges, count: int) -> tuple[Ranges, Ranges]:
        ends = {high + 1 for _, high in mine}
        for low, high in loose:
            if count > 0 and low in ends:
                taken = (low, min(high, low + count - 1))
                mine, loose = shards.union(mine, (taken,)), shards.minus(loose, ((low, high),))
                count -= taken[1] - taken[0] + 1
        taken_ranges, loose = shards.take(loose, count)
        return shards.union(mine, taken_ranges), loose

    return extend


def _from_the_answer(original: Method) -> Method:
    def move(self: Elector, sign: LeaseEvent) -> None:
        if sign is LeaseEvent.WON:
            self._deadline = self._clock.elapsed() + self.options.renew_deadline_s
        original(self, sign)

    return move


def _again_as_it_was(original: Method) -> Method:
    async def write(host: Any, key: Any, uid: str, before: Any, spec: Any) -> Any:
        try:
            return await original(host, key, uid, before, spec)
        except errors.Conflict:
            if before is None:
                raise
            live = decisions.summarise(await host.get(_ref(key, before)))
            return await original(host, key, uid, live, spec)

    return write


class Rivalled:
    """Somebody notes something on every decision just before it is written for the first time."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.met: set[str] = set()

    async def request(self, request: Request) -> Response:
        """The answer, a conflict where it was the first."""
        decision = conduct.resource_of(request.path)[0] == "placementdecisions"
        if decision and request.method == "PATCH" and request.path not in self.met:
            self.met.add(request.path)
            headers = {**request.headers, "content-type": "application/merge-patch+json"}
            body = b'{"metadata":{"annotations":{"example.com/note":"somebody"}}}'
            await (
                await self.inner.request(Request("PATCH", request.path, headers=headers, body=body))
            ).close()
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def _rivalled(process: str, cluster: str, inner: Transport) -> Transport:
    return Rivalled(inner) if is_hub(process) and cluster == "host" else inner


def _ref(key: Any, before: Any) -> Any:
    return registry.KINDS["PlacementDecision"].ref(key.namespace, before.name)


def _unversioned(original: Method) -> Method:
    async def done(member: Any, step: Any, key: Any) -> Any:
        return await original(
            member,
            dataclasses.replace(step, resource_version="") if type(step) is Delete else step,
            key,
        )

    return done


def _always_safe(original: Method) -> Method:
    return lambda self, workload, seen: True


def _nothing(original: Method) -> Method:
    return lambda *_, **__: None


def _as_told(original: Method) -> Method:
    return lambda seen, given: (seen, ())


def _whatever_is_done(original: Method) -> Method:
    return lambda wanted, jobs, finished: wanted


def _without_end(original: Method) -> Method:
    def rooms(self: Ledger, shape: Any) -> Any:
        counted = original(self, shape)
        return np.where(counted >= 0, 1_000, counted)

    return rooms


def _all_at_once(original: Method) -> Method:
    return lambda *_, **__: 1_000_000


UNSEEN: Mapping[str, tuple[str, Plant]] = {
    "a status is written without the version it was computed from": (
        conduct.Conditional.name,
        instead(applier, "_conditioned", _without_version),
    ),
    "shards are lost when a range is extended from a longer one": (
        shardruns.GIVEN,
        instead(dividing, "_extend", _loses_the_rest),
    ),
    "a lease's deadline is counted from the answer": (
        conduct.AsGranted.name,
        in_worlds_of(instead(Elector, "_move", _from_the_answer), "slow-host"),
    ),
    "a decision is sent again as it was after a conflict": (
        conduct.NoReplay.name,
        dataclasses.replace(instead(decision_writer, "write", _again_as_it_was), between=_rivalled),
    ),
    "shards' slices go before the host has their completions": (
        shardruns.FIRST,
        in_worlds_of(instead(RolloutView, "_safe", _always_safe), "statuses-refused"),
    ),
    "shards' slices go by what was heard of them long ago": (
        shardruns.FIRST,
        instead(slice_writer, "_done", _unversioned),
    ),
    "a watch loses deletions": ("10 settles", instead(Reflector, "_remove", _nothing)),
    "Jobs are made for shards that are done": (
        shardruns.AGAIN,
        in_worlds_of(instead(jobs, "ranges_to_run", _whatever_is_done), "deleted-by-hand"),
    ),
    "a member's word counts beyond its share": (
        shardruns.CUT,
        in_worlds_of(instead(given, "cut", _as_told), "others-shards-done"),
    ),
    "all ready copies may go at once": (
        availability.NAME,
        instead(rollout, "_shrink_allowance", _all_at_once),
    ),
    "clusters have room without end": (
        booked.ROOM,
        dataclasses.replace(instead(Ledger, "rooms", _without_end), machines=1),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
