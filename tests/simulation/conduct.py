"""What must hold of the requests that our processes send: one class per rule, told of every request
on the wire.

Each keeps its own small memory per life of a process and adds a sentence to `found` for every
breach.
"""

import collections
import json
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any, Protocol

from federator.api import raw
from federator.hub.leading.process import HubProcess
from federator.hub.metering import success
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube.leader.elector import Elector
from federator.kube.wire.transport import Request
from federator.model.fleet import Holding
from tests.faults.lives import Life
from tests.faults.rows import Sending, is_hub
from tests.simulation.story import Sent

REQUESTS_PER_MINUTE = 60
"""Of one process to one path: a status may be written once a second (rule 21). Runs see half of it.
"""
DECISIONS_PER_MINUTE = 120
"""Of one hub on one workload, written or not. Runs see half of it."""
LEFT, ARRIVED, DECIDED = "left", "arrived", "decided"
_HOST_LISTS = frozenset(
    {"placementdecisions", "memberclusters", *(kind.plural for kind in registry.WORKLOADS.values())}
)


_SLICES = frozenset({"pinterestservices", "pinterestjobsets"})
_OWNERS_OF = {
    "jobs": frozenset({"pinterestjobsets"}),
    "deployments": frozenset({"pinterestservices"}),
}
"""What a native of these kinds is expanded from; of the others, either. The other kind of slice may
not be served.
"""


def resource_of(path: str) -> tuple[str, bool]:
    """(plural, names one object) of a path of the API."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts and parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return (parts[0] if parts else ""), len(parts) > 1


class Watcher(Protocol):
    """A rule about requests. `found` are the breaches so far."""

    found: list[str]

    def __call__(self, sent: Sent) -> None: ...


class NoDeleteOnDoubt:
    """14: nothing is deleted before this life has listed what the judgement depends on; 5: and only
    by uid.

    What a member process takes away depends on the slice that it was made for, and on what is
    there.
    """

    name = "14 no delete on doubt"

    def __init__(self) -> None:
        self.found: list[str] = []
        self._listed: dict[tuple[str, str], set[str]] = collections.defaultdict(set)

    def __call__(self, sent: Sent) -> None:
        plural, one = resource_of(sent.request.path)
        if sent.request.method == "GET" and not one and not sent.watches and sent.status == 200:
            self._listed[sent.life.name, sent.cluster].add(plural)
        if sent.request.method != "DELETE":
            return
        if not _preconditions(sent.request.body).get("uid"):
            self.found.append(
                f"5 ownership: {sent.text()} deletes without the uid it was judged by"
            )
        missing = self._missing(sent, plural)
        if missing:
            self.found.append(
                f"{self.name}: {sent.text()} before {', '.join(sorted(missing))} had been listed"
            )

    def _missing(self, sent: Sent, plural: str) -> frozenset[str]:
        listed = self._listed[sent.life.name, sent.cluster]
        if not is_hub(sent.process):
            return (_OWNERS_OF.get(plural, _SLICES) | {"deployments", plural}) - listed
        on_host = _HOST_LISTS - self._listed[sent.life.name, "host"]
        return on_host | (set() if sent.cluster == "host" else {plural} - listed)


def _preconditions(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = (json.loads(body) if body else {}).get("preconditions") or {}
    return found


class NoHotLoop:
    """21: no life of a process asks for one object more than `REQUESTS_PER_MINUTE` times a virtual
    minute, and no hub decides on one workload more than `DECISIONS_PER_MINUTE` times, written or
    not.

    Counted where requests leave their process, so that what never arrives or is answered by
    something else on the way counts too, and once more where they arrive. A life, because one that
    is killed over and over begins over and over: how fast is not ours to say.
    """

    name = "21 no hot loop"

    def __init__(self, now: Callable[[], float]) -> None:
        """`now()`: virtual monotonic time in seconds."""
        self.found: list[str] = []
        self.most = collections.Counter[str]()
        """In a minute: requests for one object that left or arrived, decisions on one workload."""
        self._now = now
        self._recent: dict[tuple[str, ...], collections.deque[float]] = collections.defaultdict(
            collections.deque
        )

    @property
    def most_requests(self) -> int:
        """For one object in a minute."""
        return max(self.most[LEFT], self.most[ARRIVED])

    def meet(self, hub: HubProcess, life: Life) -> None:
        """From now on this hub's decisions count."""
        original = hub.controllers.placing.holdings

        def holdings(workload: Workload, record: Record | None) -> tuple[Holding, ...]:
            text = f"a decision of {life.name} on {workload.key}"
            self._count((DECIDED, life.name, str(workload.key)), self._now(), text)
            return original(workload, record)

        hub.controllers.placing.holdings = holdings  # type: ignore[method-assign]

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process."""
        what = life.name, sending.cluster, *_subject(sending.request)
        self._count((LEFT, *what), self._now(), f"{' '.join(what)} as it leaves")

    def __call__(self, sent: Sent) -> None:
        what = sent.life.name, sent.cluster, *_subject(sent.request)
        self._count((ARRIVED, *what), sent.at_s, sent.text())

    def _count(self, what: tuple[str, ...], at_s: float, text: str) -> None:
        recent = self._recent[what]
        recent.append(at_s)
        while recent[0] < at_s - 60:
            recent.popleft()
        allowed = DECISIONS_PER_MINUTE if what[0] == DECIDED else REQUESTS_PER_MINUTE
        self.most[what[0]] = max(self.most[what[0]], len(recent))
        if len(recent) == allowed + 1:
            self.found.append(f"{self.name}: {text} is one of {len(recent)} in a minute")


class OneLeader:
    """12: once a hub has sent a write of work, none that did so before it sends another.

    Judged as requests are sent: what an old leader had sent may arrive late, and is then for the
    other rules to judge.
    """

    name = "12 one leader"

    def __init__(self) -> None:
        self.found: list[str] = []
        self.leaders: list[str] = []
        """Lives in the order in which they acted."""

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process."""
        if not sending.writes or not is_hub(life.process) or "/leases" in sending.request.path:
            return
        if not self.leaders or self.leaders[-1] != life.name:
            if life.name in self.leaders:
                what = f"{life.name} sends {sending.request.method} {sending.request.path}"
                self.found.append(f"{self.name}: {what} after {self.leaders[-1]} has begun to lead")
            self.leaders.append(life.name)

    def __call__(self, sent: Sent) -> None:
        """Nothing is judged where requests arrive."""


class StaticStability:
    """16: a member process takes no running work away on its own.

    It deletes a Deployment or a Service only when somebody else has written a workload or a native
    in that cluster not long before: hubs, users, the cluster's own controllers. Hubs and host being
    away is nothing of the kind.
    """

    name = "16 static stability"
    LATELY_S = 120.0
    TAKEN_AWAY = frozenset({"deployments", "services"})

    def __init__(self) -> None:
        self.found: list[str] = []
        self._moved: dict[str, float] = {}

    def moved(self, cluster: str, now_s: float) -> None:
        """Somebody other than the member process wrote a workload or a native there."""
        self._moved[cluster] = now_s

    def __call__(self, sent: Sent) -> None:
        if sent.request.method != "DELETE" or is_hub(sent.process) or sent.status >= 300:
            return
        idle_s = sent.at_s - self._moved.get(sent.cluster, 0.0)
        if resource_of(sent.request.path)[0] in self.TAKEN_AWAY and idle_s > self.LATELY_S:
            self.found.append(
                f"{self.name}: {sent.text()} though nothing else moved there for {idle_s:.0f} s"
            )


class Quiet:
    """10: counts writes while `listening`; a world at rest has none. Heartbeats are no writes of
    work.

    The success rate of a cluster is the one figure that time alone changes: it forgets, with a
    half-life of 15 minutes, while a failed job stays as it is. Each look may change it, so one
    write a look is allowed that says nothing else. A write waits for others of its kind: two are of
    one look when less than half of the time between looks is between them.
    """

    name = "10 stays at rest"

    def __init__(self) -> None:
        self.found: list[str] = []
        self.listening = False
        self._rated_s: dict[str, float] = {}
        """Path of a MemberCluster's status -> when its success rate alone was last written."""

    def __call__(self, sent: Sent) -> None:
        if not self.listening or not sent.writes or sent.heartbeat or self._only_rates(sent):
            return
        self.found.append(f"{self.name}: {sent.text()} {sent.request.body[:300]!r}")

    def _only_rates(self, sent: Sent) -> bool:
        """Whether it writes a success rate and nothing else, once a look."""
        path = sent.request.path
        if resource_of(path)[0] != "memberclusters" or sent.request.method != "PATCH":
            return False
        if raw.mapping(json.loads(sent.request.body), "status").keys() != {"success"}:
            return False
        before_s = self._rated_s.get(path)
        self._rated_s[path] = sent.at_s
        return before_s is None or sent.at_s - before_s >= success.LOOK_S / 2


class Conditional:
    """39: a status is written on the condition that nobody wrote since it was read: API servers do
    not compare the uid of a status, so without a version it may land on another object of the same
    name, or undo what came meanwhile.
    """

    name = "39 statuses are conditional"

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, sent: Sent) -> None:
        if sent.request.method != "PATCH" or not sent.request.path.endswith("/status"):
            return
        plural = resource_of(sent.request.path)[0]
        if plural in _HOST_LISTS and b'"resourceVersion"' not in sent.request.body:
            self.found.append(
                f"{self.name}: {sent.text()} names no version of what it was computed from"
            )


class NoReplay:
    """39: a decision is computed anew after a conflict; the body that was refused is not sent once
    more with another version. Judged as requests leave: a conflict may come from something on the
    way.
    """

    name = "39 nothing is replayed"

    def __init__(self) -> None:
        self.found: list[str] = []
        self._sent: dict[tuple[str, str], tuple[str, bytes]] = {}
        """(life, path) -> (version, all else) of the last decision that it sent there."""

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process."""
        request = sending.request
        if request.method != "PATCH" or resource_of(request.path)[0] != "placementdecisions":
            return
        body = json.loads(request.body)
        if not isinstance(body, list):
            return
        version = next(
            (part["value"] for part in body if part["path"] == "/metadata/resourceVersion"), ""
        )
        rest = json.dumps(
            [part for part in body if part["path"] != "/metadata/resourceVersion"]
        ).encode()
        before = self._sent.get((life.name, request.path))
        self._sent[life.name, request.path] = version, rest
        if before is not None and before[1] == rest and before[0] != version:
            what = f"{life.name} sends {request.path} again as it was"
            self.found.append(
                f"{self.name}: {what}, over version {version!r} instead of {before[0]!r}"
            )

    def __call__(self, sent: Sent) -> None:
        """Nothing is judged where requests arrive."""


class AsGranted:
    """12: no hub believes that it leads for longer than the renew deadline after it *sent* the last
    write of the lease that was taken: the answer may have been long on its way, and others count
    from what they saw.
    """

    name = "12 leads as granted"

    def __init__(self, elector: Callable[[str], Elector | None], now: Callable[[], float]) -> None:
        """`elector(process)`: of a hub that lives; `now()`: virtual monotonic time in seconds."""
        self.found: list[str] = []
        self._elector = elector
        self._now = now
        self._asked_s: dict[str, float] = {}
        """Life -> when it let go of its last write of the lease."""
        self._granted_s: dict[str, float] = {}
        self._judged: set[str] = set()

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process."""
        if not is_hub(life.process):
            return
        elector = self._elector(life.process)
        if (
            elector is not None
            and elector.leading
            and life.name in self._granted_s
            and life.name not in self._judged
        ):
            until_s = self._granted_s[life.name] + elector.options.renew_deadline_s
            if elector._deadline > until_s + 0.001:
                self._judged.add(life.name)
                late_s = elector._deadline - until_s
                self.found.append(
                    f"{self.name}: {life.name} means to lead {late_s:.3f} s longer than it "
                    "was granted"
                )
        if sending.cluster == "host" and sending.writes and "/leases" in sending.request.path:
            self._asked_s[life.name] = self._now()

    def __call__(self, sent: Sent) -> None:
        if (
            sent.heartbeat
            and sent.cluster == "host"
            and sent.writes
            and sent.status < HTTPStatus.BAD_REQUEST
        ):
            self._granted_s[sent.life.name] = self._asked_s.get(sent.life.name, sent.at_s)


class OnlyWhomWeKnow:
    """17: a life of a hub sends nothing with a body to a member before it has read who that is, nor
    once it has read another identity there than the host has recorded.

    Only what a hub can know is judged: it asks at every probe, and whenever a list or a watch
    begins. A cluster that takes another's place behind connections that do not break is found out
    by the next probe (10 s).
    """

    name = "17 identity"
    SETTLE_S = 1.0
    """What was under way when it learned."""

    def __init__(
        self, answering: Callable[[str], str], recorded: Callable[[str], Collection[str]]
    ) -> None:
        """`answering(cluster)`: the uid of what stands at the address; `recorded`: those of its
        MemberClusters.
        """
        self.found: list[str] = []
        self._answering = answering
        self._recorded = recorded
        self._knows_since: dict[tuple[str, str, str], float] = {}
        self._met: set[tuple[str, str]] = set()

    def __call__(self, sent: Sent) -> None:
        if not is_hub(sent.process) or sent.cluster == "host":
            return
        asked = sent.request.path == "/api/v1/namespaces/kube-system" and sent.status == 200
        if asked:
            self._met.add((sent.life.name, sent.cluster))
        elif sent.request.body and (sent.life.name, sent.cluster) not in self._met:
            self.found.append(f"{self.name}: {sent.text()} before it has asked who that is")
        answering, recorded = self._answering(sent.cluster), self._recorded(sent.cluster)
        if not recorded or answering in recorded or "" in recorded:
            return  # whoever joins an address may find anybody there
        known = sent.life.name, sent.cluster, answering
        if asked:
            self._knows_since.setdefault(known, sent.at_s)
        elif (
            sent.request.body
            and sent.at_s > self._knows_since.get(known, sent.at_s) + self.SETTLE_S
        ):
            self.found.append(
                f"{self.name}: {sent.text()} goes to {answering}, "
                f"{' '.join(sorted(recorded))} was joined"
            )


def _subject(request: Request) -> tuple[str, ...]:
    """What a request is about. Events of twenty objects are made at one path, and are no loop."""
    subject = request.method, request.path
    if request.method != "POST" or not request.path.endswith("/events"):
        return subject
    event = json.loads(request.body)
    regarding = raw.mapping(event, "regarding")
    return *subject, raw.text(regarding, "name"), raw.text(event, "reason")
