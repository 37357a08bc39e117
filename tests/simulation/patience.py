"""15: a member that was heard a moment ago is not called unreachable: a blip flips nothing.

What counts as heard is what the process itself heard: an answer of an API server to its probe, once
it has read who that is. A new life counts from its birth, because it has nothing older to judge by;
until it has read once what a member serves, it need not have taken it for one that answers. A word
that a silent link held back is judged by the moment in which it was sent.
"""

import asyncio
import math
from http import HTTPStatus

import msgspec

from federator.kinds import registry
from federator.kube.clock import Clock
from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport
from tests.faults.requests import CannedResponse
from tests.simulation.conduct import resource_of
from tests.simulation.invariants import Obj, Step
from tests.simulation.reach import Reach

PATIENCE_S = 30.0
"""The product waits forty seconds from the last good probe; probes are ten seconds apart."""
PROBE_S = 10.0
"""A probe has ended so long after it began."""
LATE_S = 120.0
"""A write that nobody answered arrives so much later at most."""
PROBE = "/readyz"
IDENTITY = "/api/v1/namespaces/kube-system"
VERSION = "/version"
"""The last of what a first probe asks for."""
_BODY_MAX = 1 << 20
_SLICES = frozenset(kind.plural for kind in registry.WORKLOADS.values())
WELL = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE})
"""Refusals that a server gives when all is well."""


class Patience:
    """When each life last heard each member. `now_s` is virtual monotonic time."""

    name = "15 patience"

    def __init__(self) -> None:
        self.heard_s: dict[tuple[str, str], float] = {}
        """(life, member) -> when it was last heard."""
        self.born_s: dict[str, float] = {}
        self._met: set[tuple[str, str]] = set()
        self._learnt_s: dict[tuple[str, str], float] = {}
        """(life, member) -> when it had first read what that member serves."""
        self._probes_s: dict[tuple[str, str], list[float]] = {}
        self._words: dict[tuple[str, str], list[float]] = {}
        """(life, member) -> when words on that member were sent that nobody has answered yet."""

    def born(self, life: str, now_s: float) -> None:
        """A life begins."""
        self.born_s[life] = now_s

    def met(self, life: str, cluster: str, now_s: float) -> None:
        """A life read who a member is; from the first time on it hears that member."""
        if (life, cluster) not in self._met:
            self._met.add((life, cluster))
            self.heard(life, cluster, now_s)

    def heard(self, life: str, cluster: str, now_s: float) -> None:
        """A good probe was answered."""
        if (life, cluster) not in self._met:
            return
        self.heard_s[life, cluster] = now_s
        self._probes_s.setdefault((life, cluster), []).append(now_s)

    def doubted(self, life: str, cluster: str, now_s: float) -> None:
        """What answered the last good probe is no API server: asked who it is, it says what none
        says (F34).
        """
        probes_s = self._probes_s.get((life, cluster))
        if probes_s and probes_s[-1] >= now_s - PROBE_S:
            probes_s.pop()
            self.heard_s[life, cluster] = probes_s[-1] if probes_s else self.born_s.get(life, 0.0)

    def learnt(self, life: str, cluster: str, now_s: float) -> None:
        """A life read what a member serves."""
        self._learnt_s.setdefault((life, cluster), now_s)

    def sends(self, life: str, member: str, now_s: float) -> None:
        """A life says something of a member."""
        self._words.setdefault((life, member), []).append(now_s)

    def answered(self, life: str, member: str, sent_s: float) -> None:
        """What it said then was answered."""
        self._words[life, member].remove(sent_s)

    def first_heard_s(self, life: str, cluster: str, since_s: float) -> float | None:
        """When a good probe was first answered after a time; None while none was."""
        return next(
            (at_s for at_s in self._probes_s.get((life, cluster), ()) if at_s >= since_s), None
        )

    def breaches(self, step: Step, now_s: float) -> list[str]:
        """What a write to a MemberCluster says too early."""
        if (
            step.kind != "MemberCluster"
            or not step.same
            or not step.writer
            or step.old is None
            or step.new is None
        ):
            return []
        before, after = _ready(step.old), _ready(step.new)
        if (
            before.get("status") != "True"
            or after.get("status") == "True"
            or after.get("reason") != "Unreachable"
        ):
            return []
        member = step.new["metadata"]["name"]
        words = [
            at_s for at_s in self._words.get((step.writer, member), ()) if at_s >= now_s - LATE_S
        ]
        quiet_s = max(
            at_s - self._last_heard_s(step.writer, member, at_s) for at_s in (now_s, *words)
        )
        if quiet_s >= PATIENCE_S:
            return []
        return [
            f"{self.name}: {step.name}: {step.writer} calls it unreachable after {quiet_s:.1f} s"
        ]

    def _last_heard_s(self, life: str, member: str, by_s: float) -> float:
        """When that life had last heard the member, all that belongs to it, at a time, or was
        born.
        """
        from_s = self._learnt_s.get((life, member), math.inf)
        heard = (
            max(at_s, from_s)
            for at_s in self._probes_s.get((life, member), ())
            if max(at_s, from_s) <= by_s
        )
        return max((self.born_s.get(life, 0.0), *heard))


def _ready(obj: Obj) -> dict[str, str]:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == "Ready"), {})


def _tells(body: bytes, *path: str) -> bool:
    """A whole answer to the question who that is, or what."""
    try:
        found = msgspec.json.decode(body)
        for name in path:
            found = found[name]
    except (msgspec.DecodeError, LookupError, TypeError):
        return False
    return bool(found)


def _spoken_of(request: Request) -> str:
    """The member whose status this request writes, "" for all others."""
    _, found, rest = request.path.partition("/memberclusters/")
    name, _, below = rest.partition("/")
    return name if found and request.method == "PATCH" and below == "status" else ""


def _unserved(request: Request) -> bool:
    """Whether a refusal of this request may mean that a kind is not served (F48): slices are asked
    for by name only where they were seen.
    """
    return request.method != "DELETE" and resource_of(request.path)[0] in _SLICES


class Hearing:
    """The topmost transport of a process: tells `patience` of good probes, `reach` how everything
    is answered.
    """

    def __init__(  # noqa: PLR0917 made in one place
        self,
        inner: Transport,
        patience: Patience,
        reach: Reach,
        life: str,
        cluster: str,
        clock: Clock,
    ) -> None:
        self._inner = inner
        self._patience = patience
        self._reach = reach
        self._life = life
        self._cluster = cluster
        self._clock = clock

    async def request(self, request: Request) -> Response:
        """The inner answer."""
        if member := _spoken_of(request):
            sent_s = self._clock.monotonic()
            self._patience.sends(self._life, member, sent_s)
            response = await self._answer(request)
            self._patience.answered(self._life, member, sent_s)
            return response
        response = await self._answer(request)
        if request.path == IDENTITY and 200 < response.status < HTTPStatus.TOO_MANY_REQUESTS:
            self._patience.doubted(self._life, self._cluster, self._clock.monotonic())
        if request.path not in (PROBE, IDENTITY, VERSION) or response.status != 200:
            return response
        body = await response.read(_BODY_MAX)
        await response.close()
        now_s = self._clock.monotonic()
        if request.path == IDENTITY:
            if _tells(body, "metadata", "uid"):
                self._patience.met(self._life, self._cluster, now_s)
            else:
                self._patience.doubted(self._life, self._cluster, now_s)
        elif request.path == VERSION and _tells(body, "gitVersion"):
            self._patience.learnt(self._life, self._cluster, now_s)
        elif request.path == PROBE and body.strip() == b"ok":
            self._patience.heard(self._life, self._cluster, now_s)
        return CannedResponse(response.status, body, response.headers)

    async def _answer(self, request: Request) -> Response:
        """The inner answer, of which `reach` is told how it came."""
        if "/leases" in request.path:  # an election is no sign of how work is answered
            return await self._inner.request(request)
        number, well = self._reach.asks(self._life, self._cluster, self._clock.monotonic()), False
        try:
            response = await self._inner.request(request)
            well = response.status < HTTPStatus.BAD_REQUEST or (
                response.status in WELL and not _unserved(request)
            )
        except asyncio.CancelledError:
            # it ended because its process did, or because it took too long, which is seen all the
            # same
            well = True
            raise
        finally:
            self._reach.ends(self._life, self._cluster, number, self._clock.monotonic(), well=well)
        return response

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return (
            isinstance(self._inner, RefreshesCredentials)
            and await self._inner.refresh_credentials()
        )

    async def close(self) -> None:
        await self._inner.close()
