"""Keeps a store equal to one collection of an API server: list consistently, watch, survive, list
again.

One per (cluster, kind), owned by a supervisor. It never wipes the store: a new list is compared
with what is there and absence counts only when the whole list has been read. Every fault of reads
and watches (F11 to F21) ends here, in a counter.
"""

import asyncio
import collections
import contextlib
import logging
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from federator.kube import backoff, errors
from federator.kube import clock as clocks
from federator.kube.client import PAGE_SIZE, SILENCE_S, Client
from federator.kube.clock import Clock
from federator.kube.store import Flag, Key, Listing, Store, Version, version_number
from federator.kube.watch import gates, object_reader
from federator.kube.watch.read_budget import ReadBudget
from federator.kube.watchmeter import WatchMeter
from federator.kube.wire import decode
from federator.kube.wire.watch_stream import WatchStream

T = TypeVar("T")

log = logging.getLogger(__name__)

INSTANT_S = 1.0
"""A watch that ends sooner than this, in seconds, ended "at once"."""
HEALTHY_S = 5.0
"""A watch that lived this long, in seconds, clears the back-off."""
INSTANT_ENDS_MAX = 3
"""After so many watches in a row that ended at once, the watch counts as failing and the list is
read again: some servers close instead of answering 410."""
REWINDS_REFUSED = 3
"""So many lists in a row that are older than what we know are refused; the next one is believed."""
LISTED_MAX = 16
"""A list of more than so many times as many objects as are kept is not read to its end."""
LISTED_MORE = 50_000
"""Nor is one of more than twice as many and these: that costs a process some seconds."""
PAGES_FREE = 64
"""So many pages of such a list may come as they like; of more, each has a quarter of what was asked
for on average."""
ENDLESS_S = 60.0
"""Seconds until a list that had no end is tried again at first; twice as long each time."""
ENDLESS_MAX_S = 900.0
UNSERVED_S = 15.0
"""Seconds until an optional kind that is not served is looked for again at first; twice as long
each time. Operators that bring such a kind are installed once in the life of a cluster, and each
look at each kind is a request."""
UNSERVED_MAX_S = 60.0
LOOK_AGAIN_S = 600.0
"""Seconds between lists of a collection that is not watched, about."""
_TOMBSTONES = 4096
_JITTER_S = 2.0
_FIELDS = (
    "_bounds _budget _chosen _clock _doubt _dropped _endless _failing _instant_ends "
    "_metrics _namespace _number _on_change _on_rewind _open _optional _reader _refused "
    "_rewinds _rng _silence_s _stale _unserved _verify _wait _waits _wanted answered "
    "api_version client on_recovered on_served plural served store trouble troubles"
)
"""Of a reflector: a hub has eight for each member, and their dicts would take 1.5 KB each."""


class Reflector(Generic[T]):
    """Feeds `store`. `on_change(key, old, new)` is called after each change (old or new is None);
    it must not wait. `on_rewind()`: the server's history went back for good, and
    remembered versions of it must be forgotten.

    `bounds` on how many lists run at once, the narrowest first (F37). Until `wanted` is set the
    collection is listed now and then, and not watched. `silence_s`: a watch that says nothing for
    so long is dropped. `budget`: of the server, for processor time of lists and events; None for no
    limit.
    """

    __slots__ = tuple(_FIELDS.split())

    def __init__(
        self,
        client: Client,
        api_version: str,
        plural: str,
        store: Store[T],
        *,
        project: Callable[[Any], T | None] | None = None,
        project_raw: Callable[[bytes], T | None] | None = None,
        shape: type[msgspec.Struct] | None = None,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        on_change: Callable[[Key, T | None, T | None], None] | None = None,
        on_rewind: Callable[[], None] | None = None,
        clock: Clock,
        rng: random.Random,
        bounds: Sequence[asyncio.Semaphore] = (),
        wanted: asyncio.Event | None = None,
        silence_s: float = SILENCE_S,
        metrics: WatchMeter | None = None,
        verify: Callable[[], Awaitable[None]] | None = None,
        optional: bool = False,
        budget: ReadBudget | None = None,
    ) -> None:
        self.served: bool | None = None
        """Whether the server has such a collection, by its last word on that; None before."""
        self.on_served: Callable[[], None] | None = None
        """Called when `served` has changed."""
        self.on_recovered: Callable[[], None] | None = None
        """Called when a watch has stood for a while after trouble."""
        self.client = client
        self.api_version = api_version
        self.plural = plural
        self.store = store
        self._failing = False
        self.trouble: errors.ApiError | None = None
        """The last error; None while all is well."""
        self.answered = Flag()
        """Set once the list was read, or the server said that it has no such collection."""
        self.troubles: collections.Counter[str] = collections.Counter()
        """What went wrong so far, by kind."""
        self._reader = object_reader.ObjectReader(api_version, project, project_raw, shape)
        self._namespace = namespace
        self._chosen = {"label_selector": label_selector, "field_selector": field_selector}
        self._on_change, self._on_rewind = on_change, on_rewind
        self._clock, self._rng = clock, rng
        self._bounds, self._wanted = bounds, wanted
        self._silence_s = silence_s
        self._metrics = metrics
        self._optional = optional
        self._budget = budget if budget is not None else ReadBudget(clock, math.inf)
        self._verify = verify
        """Raises an ApiError when another server answers than was meant. Before all is believed."""
        self._waits = backoff.Backoff(rng, base_s=0.25, cap_s=30.0)
        self._endless = backoff.Backoff(rng, base_s=ENDLESS_S, cap_s=ENDLESS_MAX_S)
        self._unserved = backoff.Backoff(rng, base_s=UNSERVED_S, cap_s=UNSERVED_MAX_S)
        self._wait, self._instant_ends, self._rewinds = gates.Wait(), 0, 0
        self._refused = -1  # the version of the last list, where that was refused
        self._number = version_number(store.resource_version)
        self._stale = True  # the next thing to do is a list
        self._doubt = False  # a watch broke: the next server may have another history
        self._open = False  # a watch is being read
        self._dropped: collections.OrderedDict[Key, int] = collections.OrderedDict()

    # -- the loop -------------------------------------------------------------

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        if self._failing:
            self._publish_failing(True)
        try:
            await self._go_on()
        finally:
            if self._failing:  # what has ended is not counted
                self._publish_failing(False)

    async def _go_on(self) -> None:
        while True:
            self._open = False
            try:
                if self._stale:
                    await self._list()
                    self._stale = self._doubt = False
                if self._wanted is None or self._wanted.is_set():
                    await self._watch()
                else:
                    self._recovered()
                    wait_s = LOOK_AGAIN_S * self._rng.uniform(0.9, 1.1)
                    self._stale = not await gates.set_within(self._wanted, wait_s)
            except errors.Expired as exc:
                self._note("expired", exc, failing=False)
                self._stale = True
                await asyncio.sleep(self._rng.uniform(0.0, _JITTER_S) + self._waits.next())
            except errors.Malformed as exc:
                self._note("malformed", exc)
                self._stale = True
                waits = self._endless if isinstance(exc, errors.Endless) else self._waits
                await asyncio.sleep(waits.next())
            except errors.ApiError as exc:
                self._note(type(exc).__name__.lower(), exc)
                # A server that was away may have been restored meanwhile, to versions above those
                # we know: only a whole list tells. One that is merely busy was there all the time.
                self._stale = self._stale or not (self._open or isinstance(exc, errors.Throttled))
                self._doubt = True
                wait_s = (self._unserved if self._is_absent(exc) else self._waits).next()
                if not exc.transient:
                    wait_s = max(wait_s, self._rng.uniform(2.0, 4.0))
                await self._wait.at_most(
                    max(wait_s, (exc.retry_after_s or 0.0) * self._rng.uniform(1.0, 1.25))
                )

    def hurry(self) -> None:
        """The server is known to answer again: a wait after a failure ends now. If the next try
        fails too, it waits as after a first failure."""
        self._waits.reset()
        self._wait.end()

    # -- listing --------------------------------------------------------------

    async def _list(self) -> None:
        async with gates.place_in(*self._bounds):
            rows, version = await self._read_list()
        if self._verify is not None:
            await self._verify()
        if self._is_rewind(version):
            raise errors.ServerTrouble(
                f"{self.client.cluster}: the list of {self.plural} is of version {version}, older"
                " than "
                f"{self.store.resource_version}, which was seen before."
            )
        self._publish(rows, version)
        self._heard()
        self._endless.reset()
        self._unserved.reset()
        self.store.mark_synced()
        self.answered.set()
        self._is_served(True)
        if self._metrics is not None:
            self._metrics.watch_lists(self.client.cluster, self.plural)

    async def _read_list(self) -> tuple[Listing[T], str]:
        """The whole list or an exception: a part of a list is worth nothing (F18)."""
        rows = self.store.listing()
        version, read, number = "", 0, 0
        most = self.store.bound.objects if self.store.bound is not None else 0
        self._budget.check_list(self.client.cluster, self.plural)
        pages = self._pages(PAGE_SIZE)
        async with contextlib.aclosing(pages):
            async for page in pages:
                number += 1
                version = page.metadata.resourceVersion
                kind = page.kind.removesuffix("List")
                items = page.items or []
                read += len(items)
                sparse = number - PAGES_FREE > 4 * read // PAGE_SIZE
                if most and (sparse or read > min(most * LISTED_MAX, 2 * most + LISTED_MORE)):
                    raise errors.Endless(
                        f"{self.client.cluster}: the list of {self.plural} has no end ({read})."
                    )
                for part in clocks.parts(items, self._clock):
                    with self._budget.measured():
                        for raw in part:
                            self._read_row(raw, kind, rows)
                    await asyncio.sleep(0)
                if page.metadata.continue_:
                    self._budget.check_list(self.client.cluster, self.plural)
        if not version:
            raise errors.Malformed(
                f"{self.client.cluster}: the list of {self.plural} has no resourceVersion."
            )
        return rows, version

    def _read_row(self, raw: Any, kind: str, rows: Listing[T]) -> None:
        try:
            obj = self._reader.item(raw, kind)
            identity = self._reader.identify(obj)
        except errors.Malformed as exc:
            self._count("bad object", exc)
            return
        key, version = identity.key, identity.version
        known = self.store.version(key) if self.store else None  # nothing is, in a first list
        if known == version and version.number >= 0:
            rows.put(key, self.store.get(key), version)
            return
        put = rows.put if known is not None else rows.add
        try:
            put(key, self._reader.project(obj), version)
        except Exception as exc:
            # a projection that breaks on one object must not cost the others (F21)
            self._count("bad object", exc)
            rows.put(key, self.store.get(key), version)

    def _pages(self, limit: int) -> AsyncGenerator[decode.Page, None]:
        return self.client.pages(
            self.api_version,
            self.plural,
            self._namespace,
            limit=limit,
            measured=self._budget.measured,
            **self._chosen,
        )

    async def _is_behind(self) -> bool:
        """Whether the server's history ends before what we know. A restored server takes a watch
        from such a version without a word and keeps silent about everything before it (measured on
        kube-apiserver 1.36)."""
        async with contextlib.aclosing(self._pages(1)) as pages:
            async for page in pages:
                return 0 <= version_number(page.metadata.resourceVersion) < self._number
        return False

    def _is_rewind(self, version: str) -> bool:
        now = version_number(version)
        if now < 0 or now >= self._number:
            self._rewinds = 0
            return False
        self._rewinds += 1
        self._refused = now
        self._count("went back in time", None)
        return self._rewinds <= REWINDS_REFUSED

    def _publish(self, rows: Listing[T], version: str) -> None:
        """Makes the store equal to a whole list and reports the differences, in order of keys."""
        believed_rewind = self._rewinds > REWINDS_REFUSED
        if not believed_rewind and version_number(version) >= self._number:
            believed_rewind = self.store.is_rewritten(rows, self._refused)
        if believed_rewind:
            self._rewinds = 0
            self._dropped.clear()
            self.store.rewinds += 1
            if self._on_rewind is not None:
                self._on_rewind()
        self._refused = -1
        self.store.left_out = rows.left_out
        self.store.resource_version = version
        self._number = version_number(version)
        listed = sorted(rows)
        if not self._dropped and self.store.adopt(rows):
            for key in listed:
                self._tell(key, None, self.store.get(key))
            return
        for key in self.store:
            if key not in rows:
                self._remove(key, version_number(version))
        for key in listed:
            row_version, row = rows.get(key)
            stored = self.store.version(key)
            if stored == row_version and stored.number >= 0:
                continue
            if (
                stored is not None
                and not believed_rewind
                and 0 <= row_version.number < stored.number
            ):
                continue
            self._set(key, row, row_version)

    # -- watching -------------------------------------------------------------

    async def _watch(self) -> None:
        """One watch, from its opening to its end; raises what ended it unless the server did."""
        stream = await self.client.open_watch(
            self.api_version,
            self.plural,
            self._namespace,
            resource_version=self.store.resource_version,
            lifetime_s=self._rng.randrange(300, 600),
            silence_s=self._silence_s,
            decoder=self._reader.event_decoder,
            **self._chosen,
        )
        self._open = True
        begun = self._clock.monotonic()
        healthy_s = HEALTHY_S
        if isinstance(self.trouble, errors.OverBudget):  # so that its condition does not flap
            healthy_s = max(HEALTHY_S, self._budget.recovers_in_s())
        healthy = asyncio.get_running_loop().call_later(healthy_s, self._recovered)
        try:
            if self._verify is not None:
                await self._verify()
            if self._doubt and await self._is_behind():
                raise errors.Expired(
                    f"{self.client.cluster}: the history of {self.plural} went back; listing anew."
                )
            self._doubt = False
            # what was asked besides is no time that the watch stood
            begun = self._clock.monotonic()
            while (batch := await stream.batch()) is not None:
                await self._take_in(stream, batch)
        except errors.ApiError:
            self._judge(begun)
            raise
        finally:
            healthy.cancel()
            await stream.close()
        self._judge(begun)
        self._stale = self._stale or self.store.left_out > 0  # what was left out may find room now
        await self._after_end()

    def _judge(self, begun: float) -> None:
        """Did the watch end as soon as it began?"""
        self._instant_ends = (
            self._instant_ends + 1 if self._clock.monotonic() - begun < INSTANT_S else 0
        )

    async def _after_end(self) -> None:
        """The server closed the stream: go on from the last version, patiently when it closes all
        the time (F19)."""
        if not self._instant_ends:
            return
        self._count("closed at once", None)
        if self._instant_ends >= INSTANT_ENDS_MAX:
            self._set_failing(True)
            self._stale = self._instant_ends % INSTANT_ENDS_MAX == 0
        await asyncio.sleep(self._waits.next())

    def _recovered(self) -> None:
        self._waits.reset()
        self._instant_ends = 0
        self._set_failing(False)
        recovered, self.trouble = self.trouble is not None, None
        if recovered and self.on_recovered is not None:
            self.on_recovered()

    async def _take_in(self, stream: WatchStream, batch: list[bytes]) -> None:
        if self._metrics is not None:
            self._metrics.watch_events(self.client.cluster, self.plural, len(batch))
        left = len(batch)
        for part in clocks.parts(batch, self._clock):
            with self._budget.watching():
                for line in part:
                    self._handle(stream.event(line))
                    left -= 1
            self._heard()
            self._budget.check_watch(self.client.cluster, self.plural)
            if left:  # other work gets its turn (F20)
                await asyncio.sleep(0)

    def _handle(self, event: decode.WatchEvent) -> None:
        kind = event.type
        if kind == "BOOKMARK":
            version = object_reader.bookmark_version(event.object)
            self._advance(version_number(version), version)
            return
        if kind == "ERROR":
            raise decode.event_error(event.object)
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            raise errors.Malformed(
                f"{self.client.cluster}: the watch of {self.plural} sent an event {kind[:40]!r}."
            )
        identity = self._reader.identify(event.object)
        self._advance(identity.version.number, identity.resource_version)
        if self._is_old(identity):
            return
        if kind == "DELETED":
            self._remove(identity.key, identity.version.number)
            return
        try:
            row = self._reader.project(event.object)
        except Exception as exc:  # what we knew stays; listing again could not read it either
            self._count("bad object", exc)
            return
        self._set(identity.key, row, identity.version)

    def _is_old(self, identity: object_reader.Identity) -> bool:
        """Whether an event is older than what is stored: repeated, or out of order (F17)."""
        number = identity.version.number
        if number < 0:
            return False
        stored = self.store.version(identity.key)
        if stored is None:
            return number <= self._dropped.get(identity.key, -1)
        return number < stored.number

    def _advance(self, number: int, version: str) -> None:
        """Moves on to a newer version; `number` is -1 where versions are no numbers and the last
        one told is newest."""
        if version and (number < 0 or number > self._number):
            self._number = number
            self.store.resource_version = version

    # -- changes --------------------------------------------------------------

    def _set(self, key: Key, row: T | None, version: Version) -> None:
        if row is None:
            self._remove(key, version.number)
            return
        if not self.store.takes(key, row):
            return  # what was known of it stays; it counts as left out
        stored = self.store.version(key)
        old = self.store.put(key, row, version)
        self._dropped.pop(key, None)
        if stored != version or version.number < 0:
            self._tell(key, old, row)

    def _remove(self, key: Key, number: int) -> None:
        if number >= 0:
            self._dropped[key] = max(number, self._dropped.get(key, -1))
            if len(self._dropped) > _TOMBSTONES:
                self._dropped.popitem(last=False)
        old = self.store.drop(key)
        if old is not None:
            self._tell(key, old, None)

    def _tell(self, key: Key, old: T | None, new: T | None) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(key, old, new)
        except Exception as exc:
            # one listener's bug must not end the only eyes we have on a cluster
            self._count("listener broke", exc)

    def _heard(self) -> None:
        self.store.heard_at = self._clock.monotonic()

    def _note(self, what: str, error: errors.ApiError, *, failing: bool = True) -> None:
        self.trouble = error
        if isinstance(error, errors.NotFound):
            self.answered.set()
            self._is_served(False)
        if self._is_absent(error):
            return
        if isinstance(error, errors.OwnShortage):
            failing = False  # no request was sent
        if failing and (
            not isinstance(error, errors.Unreachable) or self._waits.failures >= INSTANT_ENDS_MAX
        ):
            self._set_failing(True)
        self._count(what, error)

    @property
    def watch_failing(self) -> bool:
        """No watch can be opened, or each ends at once: the store may be out of date."""
        return self._failing

    def _set_failing(self, failing: bool) -> None:
        if failing is not self._failing:
            self._failing = failing
            self._publish_failing(failing)

    def _publish_failing(self, failing: bool) -> None:
        if self._metrics is not None:
            self._metrics.watch_failing(self.client.cluster, self.plural, failing)

    def _is_absent(self, error: errors.ApiError) -> bool:
        """Whether the server does not serve an optional kind, which is no trouble."""
        return self._optional and isinstance(error, errors.NotServed)

    def _is_served(self, served: bool) -> None:
        changed, self.served = served is not self.served, served
        if changed and self.on_served is not None:
            self.on_served()

    def _count(self, what: str, error: BaseException | None) -> None:
        self.troubles[what] += 1
        if self._metrics is not None:
            self._metrics.watch_trouble(self.client.cluster, self.plural, what.replace(" ", "_"))
        # the 1st, 2nd, 4th, 8th ...: told, yet no flood
        if self.troubles[what] & (self.troubles[what] - 1) == 0:
            shown = (self.plural, self.client.cluster, what, self.troubles[what], error)
            log.warning("reflector of %s at %s: %s (%d so far): %s", *shown)
