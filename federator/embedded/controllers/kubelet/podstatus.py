"""What a kubelet writes into pod status, from binding to the end. Pure but for two small caches.

Called by `kubelet` and, for the first report, by `scheduler`. Statuses are new dicts; parts that
are equal for all pods of a template in the same second are shared.
"""

from collections.abc import Sequence
from typing import Any, Final

from federator.embedded.controllers.kubelet.support import Standing
from federator.embedded.controllers.tools import condition
from federator.embedded.storage.revisions import JsonObject

Status = dict[str, Any]

_ORDER: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


class Addresses:
    """Pod addresses out of 10.128.0.0/9, each in use at most once."""

    __slots__ = ("_next", "_taken")

    def __init__(self) -> None:
        self._next = 1
        self._taken: set[str] = set()

    def take(self) -> str:
        while True:
            number, self._next = self._next, self._next % 8_000_000 + 1
            address = f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
            if address not in self._taken:
                self._taken.add(address)
                return address

    def reserve(self, address: str | None) -> None:
        if address:
            self._taken.add(address)

    def release(self, address: str | None) -> None:
        if address:
            self._taken.discard(address)


class Texts:
    """Shares the container statuses and conditions of pods that start in the same second."""

    __slots__ = ("_containers", "_second")

    def __init__(self) -> None:
        self._second = ""
        self._containers: dict[
            tuple[int, int, bool], tuple[Any, Any, list[Status], list[Status]]
        ] = {}

    def running(self, pod: JsonObject, now: str, *, address: str, host: str, ready: bool) -> Status:
        """Running, and Ready where readiness is not delayed."""
        if now != self._second:
            self._second = now
            self._containers.clear()
        spec = pod["spec"]
        containers, inits = spec.get("containers") or [], spec.get("initContainers") or []
        key = (id(containers), id(inits), ready)
        rendered = self._containers.get(key)
        if rendered is None:
            # The lists are kept with the result: an id means nothing once its object is gone.
            rendered = (
                containers,
                inits,
                running_containers(containers, now, ready),
                _init_statuses(inits, now),
            )
            self._containers[key] = rendered
        status = dict(pod.get("status") or {})
        if rendered[3]:
            status["initContainerStatuses"] = rendered[3]
        status.update(
            phase="Running",
            conditions=_conditions(pod, now, ready),
            containerStatuses=rendered[2],
            hostIP=host,
            hostIPs=[{"ip": host}],
            podIP=address,
            podIPs=[{"ip": address}],
        )
        status.setdefault("startTime", now)
        status.pop("reason", None)
        status.pop("message", None)
        return status


def bound(pod: JsonObject, host: str, now: str) -> Status:
    """Scheduled, images being pulled."""
    spec = pod["spec"]
    generation = pod["metadata"].get("generation", 1)
    inits = spec.get("initContainers") or ()
    reason = "PodInitializing" if inits else "ContainerCreating"
    status = dict(pod.get("status") or {})
    status.pop("nominatedNodeName", None)
    status.update(
        phase="Pending",
        observedGeneration=generation,
        conditions=[
            _entry("PodReadyToStartContainers", False, now, generation),
            _entry(
                "Initialized", not inits, now, generation, _INITIALIZING if inits else _NO_REASON
            ),
            _entry("Ready", False, now, generation, _unready(spec)),
            _entry("ContainersReady", False, now, generation, _unready(spec)),
            _entry("PodScheduled", True, now, generation),
        ],
        containerStatuses=[
            _waiting(container, reason) for container in spec.get("containers") or ()
        ],
        hostIP=host,
        hostIPs=[{"ip": host}],
        startTime=now,
    )
    if inits:
        status["initContainerStatuses"] = [_waiting(container, reason) for container in inits]
    return status


def pull_failed(pod: JsonObject, unpulled: Sequence[str], reason: str, now: str) -> Status:
    """ErrImagePull or ImagePullBackOff on the containers named; the others wait for them."""
    status = _begun(pod, unpulled, now)
    for field, group in (
        ("initContainerStatuses", "initContainers"),
        ("containerStatuses", "containers"),
    ):
        if field in status:
            statuses = {entry["name"]: entry for entry in status[field]}
            status[field] = [
                _waiting(container, reason, _unpulled_text(container.get("image", ""), reason))
                if container["name"] in unpulled
                else statuses[container["name"]]
                for container in pod["spec"].get(group) or ()
            ]
    return status


def _begun(pod: JsonObject, waiting: Sequence[str], now: str) -> Status:
    """The status in which containers wait: when none of them is an init container, those have done
    their work."""
    status, spec = dict(pod.get("status") or {}), pod["spec"]
    inits = spec.get("initContainers") or []
    initialized = condition(status.get("conditions"), "Initialized") or {}
    if initialized.get("status") != "True" and not any(
        container["name"] in waiting for container in inits
    ):
        status["conditions"] = _conditions(pod, now, False)
        status["initContainerStatuses"] = _init_statuses(inits, now)
        status["containerStatuses"] = [
            _waiting(container, "ContainerCreating") for container in spec.get("containers") or ()
        ]
    return status


def _unpulled_text(image: str, reason: str) -> str:
    if reason == "ImagePullBackOff":
        return f'Back-off pulling image "{image}"'
    return (
        f'failed to pull and unpack image "{image}":'
        f' failed to resolve reference "{image}": not found'
    )


def image_of(pod: JsonObject, container: str) -> str:
    """The image of a container or init container; "" for none of that name."""
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return next((str(entry.get("image", "")) for entry in every if entry["name"] == container), "")


def config_failed(pod: JsonObject, container: str, text: str, now: str) -> Status:
    """CreateContainerConfigError on one container."""
    status = _begun(pod, (container,), now)
    for group in ("initContainerStatuses", "containerStatuses"):
        if group in status:
            waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": text}}
            status[group] = [
                {**entry, "state": waiting} if entry["name"] == container else entry
                for entry in status[group]
            ]
    return status


def serves(status: Status) -> bool:
    """Whether all containers of the application are ready."""
    return all(entry["ready"] for entry in status.get("containerStatuses") or ())


def supported(pod: JsonObject, status: Status, standing: Standing, now: str) -> Status:
    """A running pod that is ready while its sidecar is, too."""
    ready = serves(status) and (standing.ready or not standing.sidecar)
    return {
        **status,
        "conditions": _conditions(pod, now, ready),
        "initContainerStatuses": [
            {**entry, "ready": standing.ready} if entry["name"] == standing.sidecar else entry
            for entry in status.get("initContainerStatuses") or ()
        ],
    }


def unprepared(pod: JsonObject, standing: Standing, now: str) -> Status:
    """The init container that prepares the pod has ended with the reason why it cannot, and is
    started again later."""
    status = dict(pod.get("status") or {})
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off restarting {standing.init}"}
    entries = status.get("initContainerStatuses") or ()
    status["initContainerStatuses"] = [
        {
            **entry,
            "restartCount": standing.failures,
            "state": {"waiting": waiting},
            "lastState": {"terminated": {**_terminated(entry, 1, now), "message": standing.why}},
        }
        if entry["name"] == standing.init and standing.failures
        else entry
        for entry in entries
    ]
    return status


def with_ready(pod: JsonObject, now: str, *, ready: bool) -> Status:
    """The same containers, ready or not."""
    status = dict(pod.get("status") or {})
    status["conditions"] = _conditions(pod, now, ready)
    status["containerStatuses"] = [
        {**entry, "ready": ready} for entry in status.get("containerStatuses") or ()
    ]
    return status


def ended(pod: JsonObject, phase: str, code: int, now: str) -> Status:
    """Succeeded or Failed: all containers terminated."""
    status = dict(pod.get("status") or {})
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    status["phase"] = phase
    status["conditions"] = _conditions(pod, now, False, (why, ""))
    status["containerStatuses"] = [
        _stopped(entry, code, now) for entry in status.get("containerStatuses") or ()
    ]
    if "initContainerStatuses" in status:
        status["initContainerStatuses"] = [
            _stopped(entry, 0, now) if "running" in entry["state"] else entry
            for entry in status["initContainerStatuses"]
        ]
    return status


def _stopped(entry: Status, code: int, now: str) -> Status:
    state = {"terminated": _terminated(entry, code, now)}
    return {**entry, "ready": False, "started": False, "state": state}


def crashed(pod: JsonObject, code: int, wait_s: float, now: str) -> Status:
    """Waiting in CrashLoopBackOff; the exit is in lastState."""
    spec, status = pod["spec"], dict(pod.get("status") or {})
    name = f"{pod['metadata']['name']}_{pod['metadata']['namespace']}({pod['metadata']['uid']})"
    statuses = []
    for entry in status.get("containerStatuses") or ():
        text = (
            f"back-off {_duration(wait_s)} restarting failed container={entry['name']} pod={name}"
        )
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        last = {"terminated": _terminated(entry, code, now)}
        statuses.append(
            {**entry, "ready": False, "started": False, "state": waiting, "lastState": last}
        )
    status["containerStatuses"] = statuses
    status["conditions"] = _conditions(pod, now, False, _unready(spec))
    return status


def restarted(pod: JsonObject, now: str, *, ready: bool) -> Status:
    """Running again, one restart more."""
    status = dict(pod.get("status") or {})
    status["containerStatuses"] = [
        {
            **entry,
            "ready": ready,
            "started": True,
            "restartCount": entry["restartCount"] + 1,
            "state": {"running": {"startedAt": now}},
        }
        for entry in status.get("containerStatuses") or ()
    ]
    status["conditions"] = _conditions(pod, now, ready, _unready(pod["spec"]))
    return status


def restarts(pod: JsonObject) -> int:
    """The highest restart count of the pod's containers."""
    return max(
        (
            status["restartCount"]
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
        ),
        default=0,
    )


def running_containers(containers: list[JsonObject], now: str, ready: bool) -> list[Status]:
    return [
        {
            "name": container["name"],
            "state": {"running": {"startedAt": now}},
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": container.get("image", ""),
            "started": True,
        }
        for container in containers
    ]


def _init_statuses(inits: list[JsonObject], now: str) -> list[Status]:
    statuses = running_containers(inits, now, True)
    for container, status in zip(inits, statuses, strict=True):
        if container.get("restartPolicy") != "Always":
            status["state"] = {"terminated": _terminated(status, 0, now)}
            status["started"] = False
    return statuses


def _waiting(container: JsonObject, reason: str, message: str = "") -> Status:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    return {
        "name": container["name"],
        "state": {"waiting": waiting},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
        "started": False,
    }


def _terminated(container: Status, code: int, now: str) -> Status:
    running = (container.get("state") or {}).get("running") or {}
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": running.get("startedAt") or now,
        "finishedAt": now,
    }


_NO_REASON: Final = ("", "")
_INITIALIZING: Final = ("ContainersNotInitialized", "containers with incomplete status")


def _unready(spec: JsonObject) -> tuple[str, str]:
    names = " ".join(container["name"] for container in spec.get("containers") or ())
    return "ContainersNotReady", f"containers with unready status: [{names}]"


def _conditions(
    pod: JsonObject, now: str, ready: bool, why: tuple[str, str] | None = None
) -> list[Status]:
    """All five conditions, keeping the transition time of those that did not change."""
    have = (pod.get("status") or {}).get("conditions") or []
    generation = pod["metadata"].get("generation", 1)
    conditions = []
    for type_ in _ORDER:
        value = ready or type_ not in ("Ready", "ContainersReady")
        old = condition(have, type_)
        since = old["lastTransitionTime"] if old and (old["status"] == "True") is value else now
        conditions.append(
            _entry(
                type_,
                value,
                since,
                generation,
                _NO_REASON if value else why or _unready(pod["spec"]),
            )
        )
    return conditions


def _entry(
    type_: str, value: bool, since: str, generation: int, why: tuple[str, str] = _NO_REASON
) -> Status:
    entry: Status = {
        "type": type_,
        "observedGeneration": generation,
        "status": "True" if value else "False",
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    if why[0]:
        entry["reason"] = why[0]
    if why[1]:
        entry["message"] = why[1]
    return entry


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
