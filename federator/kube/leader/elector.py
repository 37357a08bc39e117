"""Stands for election on a Lease, and runs the leader's work only while we lead.

The rules are in `lease`; this shell reads, writes and waits. Every try has its own deadline, the
time left to lead is measured from the sending of the last renewal that was taken, and `leading`
looks at the clock itself, so that a loop that was blocked for too long finds the gate shut before
it can send anything (F10).
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.leader import lease
from federator.kube.leader.lease import Leadership, LeaseEvent, LeaseOptions, ObservedLease
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

MARGIN_S = 0.1
"""The work is cancelled so long before the deadline; no try is begun that has less time."""
HURRY_S = 0.1
"""Renewals that are asked for come at most this often."""
END_S = 3.0
"""How long cancelled work may take to end. After that the lease is not released but left to run
out."""

Work = Callable[[int], Awaitable[None]]
"""What a leader does, given its term."""


class LeaseMeter(Protocol):
    """Where elections are reported; `metrics.Metrics` is one."""

    def leading(self, leads: bool) -> None: ...
    def lease_try(self, result: str) -> None: ...


class LeaseLost(Exception):
    """We led and may not any more. The message says why. `stuck`: the work has not even ended."""

    def __init__(self, message: str, *, stuck: bool = False) -> None:
        super().__init__(message)
        self.stuck = stuck


class Elector:
    """One candidate for one Lease. `identity` must be unlike that of every other process, also of
    our own next life.

    `client` must not be behind the gate of this elector. `recampaign`: a lost lease is stood for
    again; otherwise `lead` raises `LeaseLost`, which ends the process.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        options: LeaseOptions,
        clock: Clock,
        rng: random.Random,
        recampaign: bool = False,
        metrics: LeaseMeter | None = None,
    ) -> None:
        self.identity = identity
        self.options = options
        self.leadership = Leadership.OBSERVING
        self.term = 0
        """The term in which this process led last; 0 before. Rises with every change of the
        leader."""
        self.seen: ObservedLease | None = None
        """The Lease as last read while observing."""
        self.looked = asyncio.Event()
        """The first try on the Lease is over, whatever it showed."""
        self.vacant_s = float("inf")
        """From when on, on `Clock.elapsed()`, no other candidate can have led before this process
        began to lead."""
        self._client = client
        self._ref = ObjectRef(lease.API_VERSION, "leases", namespace, name, "Lease")
        self._clock = clock
        self._rng = rng
        self._recampaign = recampaign
        self._metrics = metrics
        self._deadline = float("-inf")
        self._first_look = True
        """No Lease was ever there for us to see."""
        self._held: Mapping[str, Any] | None = None
        """The Lease as the last answer showed it to be ours; None when it may be another by now."""
        self._untouched: Callable[[], bool] = lambda: False
        self._claimed: str | None = None
        """The time in the last claim that we sent."""
        self.notes: Callable[[], Mapping[str, str]] = dict
        """Annotations that the next leader should find on the Lease; written with every renewal."""
        self.inherited: Mapping[str, str] = {}
        """Annotations of the Lease as it was taken."""
        self._asking: list[asyncio.Future[bool]] = []
        """Tasks that wait for a renewal with the present notes."""
        self._asked = asyncio.Event()
        if metrics is not None:
            metrics.leading(False)

    @property
    def leading(self) -> bool:
        """Whether anything may be written at this very moment."""
        return (
            self.leadership in (Leadership.LEADING, Leadership.DOUBTFUL)
            and self._clock.elapsed() < self._deadline
        )

    def leader(self) -> str:
        """The hub that leads, as far as is known; "" for none."""
        if self.leading:
            return self.identity
        return self.seen.holder if self.seen is not None else ""

    def raise_term(self, term: int) -> None:
        """Terms up to this one are used: a Lease that was wiped says so again from the next renewal
        on."""
        self.term = max(self.term, min(term, lease.TRANSITIONS_MAX))

    async def note(self) -> bool:
        """Renews without delay so that the Lease carries `notes` as they are now, for the next
        leader to find. False when nothing says so yet; what is noted then may be on the Lease all
        the same."""
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asking.append(taken)
        self._asked.set()
        done, _ = await asyncio.wait([taken], timeout=self.options.retry_s)
        return bool(done) and taken.result()

    async def lead(
        self,
        work: Work,
        *,
        candidate: Callable[[], bool] = lambda: True,
        untouched: Callable[[], bool] = lambda: False,
    ) -> None:
        """Runs `work(term)` whenever we lead, until it ends; it is cancelled as soon as we may not
        act any more.

        `candidate`: whether we would be able to lead; until then the Lease is only looked at.
        `untouched`: no hub can have led here before, so that a Lease that is not there need not be
        waited for. Cancelling this releases the lease. Raises what `work` raises, and `LeaseLost`.
        """
        self._untouched = untouched
        while True:
            await self._campaign(candidate)
            try:
                await self._hold(work)
                return
            except LeaseLost as lost:
                if lost.stuck or not self._recampaign:
                    raise
                log.warning("%s; standing for election again", lost)
                self._move(LeaseEvent.STOPPED)

    # -- becoming leader ------------------------------------------------------

    async def _campaign(self, candidate: Callable[[], bool]) -> None:
        """Returns as leader."""
        failed = 0
        while True:
            begun = self._clock.elapsed()
            event = await self._try(lambda: self._stand(candidate), self.options.standing_s(failed))
            failed = failed + 1 if event is LeaseEvent.FAILED else 0
            self.looked.set()
            if (
                event is LeaseEvent.WON
                and self._clock.elapsed() < begun + self.options.renew_deadline_s
            ):
                self._deadline = begun + self.options.renew_deadline_s
                self._move(event)
                log.info("%s leads: %s, term %d", self.identity, self._ref.name, self.term)
                return
            await asyncio.sleep(
                self._pause(begun, expectant=event is not LeaseEvent.FAILED and candidate())
            )

    def _pause(self, begun: float, *, expectant: bool) -> float:
        """Until the next look: sooner when the Lease becomes free before that."""
        now, wait_s = self._clock.elapsed(), self._period()
        if self.seen is not None and expectant:
            wait_s = min(wait_s, max(self.options.retry_s / 10, self._free_at(self.seen) - now))
        return max(0.0, begun + wait_s - now)

    def _free_at(self, seen: ObservedLease) -> float:
        if not seen.version and self._first_look and self._untouched():
            return seen.since_s
        return lease.free_at(seen, self.identity, self._claimed, self.options)

    async def _stand(self, candidate: Callable[[], bool]) -> LeaseEvent:
        """Looks at the Lease, and takes it when it is free."""
        obj = await self._read()
        self._first_look = self._first_look and obj is None
        self.seen = lease.notice(self.seen, obj, self._clock.elapsed())
        if not candidate():
            return LeaseEvent.TAKEN
        stamp = self._clock.rfc3339_micro()
        if self._clock.elapsed() < self._free_at(self.seen):
            return await self._mark(obj, stamp) if lease.unheld(self.seen) else LeaseEvent.TAKEN
        self._claimed, self.vacant_s = stamp, self._free_at(self.seen)
        body, term = lease.claim(
            obj, self._ref, identity=self.identity, stamp=stamp, options=self.options
        )
        self._held = await self._put(obj, body)
        self.inherited = lease.notes_of(self._held)
        # One that a hand wrote may be the last there is: then the count of the Lease begins anew.
        self.term = max(term, self.term + 1) if self.term < lease.TRANSITIONS_MAX else term
        return LeaseEvent.WON

    async def _mark(self, obj: Mapping[str, Any] | None, stamp: str) -> LeaseEvent:
        """Puts our name on a Lease without a holder. If the present leader releases it afterwards,
        that is refused."""
        body = lease.mark(obj, self._ref, identity=self.identity, stamp=stamp, options=self.options)
        self.seen = lease.notice(self.seen, await self._put(obj, body), self._clock.elapsed())
        return LeaseEvent.CLAIMED

    async def _put(
        self, obj: Mapping[str, Any] | None, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Writes the Lease if it still is as it was read."""
        return await (self._create(body) if obj is None else self._client.replace(self._ref, body))

    async def _read(self) -> Mapping[str, Any] | None:
        """The Lease; None when it is proven not to exist."""
        return await self._client.find(self._ref)

    async def _create(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Makes the Lease, and the namespace that it lives in."""
        try:
            return await self._client.create(self._ref, body)
        except errors.NotServed:
            raise
        except errors.NotFound:
            name = self._ref.namespace
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self._client.create(
                ObjectRef("v1", "namespaces", "", name, "Namespace"), namespace
            )
            return await self._client.create(self._ref, body)

    # -- being leader ---------------------------------------------------------

    async def _hold(self, work: Work) -> None:
        """Runs the work and renews beside it. Raises `LeaseLost` and what the work raises."""
        task = asyncio.ensure_future(work(self.term))
        lost = ""
        try:
            lost = await self._renew_until(task)
        finally:
            # The gate shuts first: nothing that the work does on its way out is sent.
            if not lost:
                self._move(LeaseEvent.STOPPED)
            await self._end(task, release=not lost)
        if lost:
            raise LeaseLost(lost, stuck=not task.done())
        await task

    async def _end(self, task: "asyncio.Future[None]", *, release: bool) -> None:
        """Cancels the work, waits for its end, and gives the lease up if it is still ours to
        give."""
        task.cancel()
        await asyncio.wait([task], timeout=END_S)
        if not task.done():
            log.error(
                "the leader's work did not end within %g s; the lease is left to run out", END_S
            )
        elif release:
            await self._try(self._release, self.options.try_timeout_s)
        if task.done() and not task.cancelled():
            task.exception()  # seen; `_hold` raises it unless the lease was lost besides

    async def _renew_until(self, task: "asyncio.Future[None]") -> str:
        """Renews until the work ends (returns "") or we may not lead any more (returns why)."""
        begun = self._deadline - self.options.renew_deadline_s
        while True:
            pause_s = min(begun + self._period(), self._deadline - MARGIN_S) - self._clock.elapsed()
            if not task.done():
                await self._rest(task, max(0.0, pause_s))
            if task.done():
                return ""
            begun = self._clock.elapsed()
            left_s = self._deadline - MARGIN_S - begun
            if left_s < MARGIN_S:
                return self._lose(LeaseEvent.OVERDUE)
            event = await self._try(self._renew, self.options.renewing_s(left_s))
            if self._clock.elapsed() >= self._deadline:
                return self._lose(LeaseEvent.OVERDUE)
            if event is LeaseEvent.TAKEN:
                return self._lose(event)
            if event is LeaseEvent.WON:
                self._deadline = begun + self.options.renew_deadline_s
            self._move(event)

    async def _rest(self, task: "asyncio.Future[None]", pause_s: float) -> None:
        """Until the work ends, the next renewal is due, or a caller asks for one."""
        await asyncio.wait([task], timeout=min(pause_s, HURRY_S))
        if task.done() or pause_s <= HURRY_S:
            return
        asked = asyncio.ensure_future(self._asked.wait())
        either: tuple[asyncio.Future[Any], ...] = (task, asked)
        try:
            await asyncio.wait(
                either, timeout=pause_s - HURRY_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            asked.cancel()

    async def _renew(self) -> LeaseEvent:
        """Renews the lease, and passes the result to the tasks that asked for a renewal."""
        asking, self._asking = self._asking, []
        self._asked.clear()
        event = LeaseEvent.FAILED
        try:
            event = await self._write_renewal()
        finally:
            for taken in asking:
                if not taken.done():
                    taken.set_result(event is LeaseEvent.WON)
        return event

    async def _write_renewal(self) -> LeaseEvent:
        """Reads the lease first when we cannot know what it is now."""
        held = self._held
        self._held = None
        if held is None:
            held = await self._read()
            if lease.holder_of(held) != self.identity:
                return LeaseEvent.TAKEN
        assert held is not None
        stamp = self._clock.rfc3339_micro()
        body = lease.renewal(
            held, term=self.term, stamp=stamp, options=self.options, notes=self.notes()
        )
        try:
            self._held = await self._client.replace(self._ref, body)
        except errors.NotServed:
            raise
        except errors.NotFound:
            return LeaseEvent.TAKEN
        except errors.Conflict:
            # A hand that set a label, or another leader: to be known now, not a retry later.
            if lease.holder_of(await self._read()) != self.identity:
                return LeaseEvent.TAKEN
            raise
        return LeaseEvent.WON

    async def _release(self) -> LeaseEvent:
        """Gives the lease up, unless another has it already."""
        held = self._held if self._held is not None else await self._read()
        if held is None or lease.holder_of(held) != self.identity:
            return LeaseEvent.TAKEN
        body = lease.release(held, term=self.term, stamp=self._clock.rfc3339_micro())
        await self._client.replace(self._ref, body)
        log.info("%s released %s", self.identity, self._ref.name)
        return LeaseEvent.WON

    # -- both -----------------------------------------------------------------

    async def _try(self, act: Callable[[], Awaitable[LeaseEvent]], timeout_s: float) -> LeaseEvent:
        """One try within its time. Whatever keeps it from an answer is a failed try."""
        try:
            async with asyncio.timeout(timeout_s):
                event = await act()
        except errors.ApiError as trouble:
            self._held = None
            self._count(
                "conflict"
                if isinstance(trouble, errors.Conflict | errors.AlreadyExists)
                else "failed"
            )
            log.info("%s: a try on the lease %s failed: %s", self.identity, self._ref.name, trouble)
            return LeaseEvent.FAILED
        except TimeoutError:
            self._held = None
            self._count("failed")
            log.info(
                "%s: no answer about the lease %s within %.1f s",
                self.identity,
                self._ref.name,
                timeout_s,
            )
            return LeaseEvent.FAILED
        self._count(
            {LeaseEvent.WON: "won", LeaseEvent.CLAIMED: "claimed"}.get(event, "held by another")
        )
        return event

    def _lose(self, event: LeaseEvent) -> str:
        self._move(event)
        if event is LeaseEvent.TAKEN:
            return (
                f"{self.identity} lost the lease {self._ref.name}: it is gone or names another"
                " holder"
            )
        return (
            f"{self.identity} lost the lease {self._ref.name}: it could not be renewed within"
            f" {self.options.renew_deadline_s:g} s"
        )

    def _move(self, event: LeaseEvent) -> None:
        self.leadership = lease.after(self.leadership, event)
        if self._metrics is not None:
            self._metrics.leading(self.leadership in (Leadership.LEADING, Leadership.DOUBTFUL))

    def _period(self) -> float:
        """From one try to the next. Jitter only shortens it: take-over times are stated with the
        longest."""
        return self.options.retry_s * self._rng.uniform(0.8, 1.0)

    def _count(self, result: str) -> None:
        if self._metrics is not None:
            self._metrics.lease_try(result)
