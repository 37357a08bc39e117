"""The first useful reason why something is not ready, from the state of its pods.

Used by the member for every pod event (`of_pod`) and every status report (`first`). The pod's phase
says too little; the states of its containers and the scheduler's condition say more. No clock:
times are strings of the API.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

UNSCHEDULABLE: Final = "Unschedulable"
MISSING: Final = "MissingDependency"
PREEMPTED: Final = "Preempted"
"""What its member's scheduler did: the same word as where the federation does it."""
ABSENT: Final = re.compile(r'(?:secret|configmap|persistentvolumeclaim) "[^"]+" not found')
"""How kubelets and schedulers report that an object which a pod references does not exist."""

_WAITING: Final[Mapping[str, tuple[int, str]]] = {
    "InvalidImageName": (1, "ImagePullFailed"),
    "ErrImagePull": (1, "ImagePullFailed"),
    "ImagePullBackOff": (1, "ImagePullFailed"),
    "ErrImageNeverPull": (1, "ImagePullFailed"),
    "ImageInspectError": (1, "ImagePullFailed"),
    "RegistryUnavailable": (1, "ImagePullFailed"),
    "CreateContainerConfigError": (2, "ContainerConfigError"),
    "CreateContainerError": (2, "ContainerConfigError"),
    "RunContainerError": (3, "ContainerStartFailed"),
    "PostStartHookError": (3, "ContainerStartFailed"),
    "CrashLoopBackOff": (4, "CrashLooping"),
}
"""`state.waiting.reason` of a kubelet -> (rank, our reason). Others (ContainerCreating) are no
trouble."""

_RANK_MISSING: Final = 2
_RANK_UNSCHEDULABLE: Final = 5
_RANK_FAILED: Final = 6
DETAIL_LIMIT: Final = 200
REFUSED: Final = "FailedCreate"
_NAMED_POD: Final = re.compile(r'^pods "[^"]*" is forbidden: ')
REFUSAL_LIMIT: Final = 1024
"""In characters. A refusal by Pod Security lists every control and container."""


@dataclass(frozen=True, slots=True, order=True)
class Trouble:
    """What is wrong with one pod. A lower `rank` is more useful: a wrong image must be fixed before
    capacity matters."""

    rank: int
    reason: str
    detail: str
    since: str = ""
    """RFC 3339 from the API; "" when it has none."""
    over: bool = False
    """The pod has ended: it may explain what is missing, but does not change any more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The first useful reason over many pods, and how many of them the scheduler cannot place."""

    reason: str = ""
    message: str = ""
    count: int = 0
    unschedulable: int = 0
    unschedulable_since: str = ""


NOTHING: Final = Finding()


def of_pod(pod: Mapping[str, Any]) -> Trouble | None:
    """The trouble of one pod object; None when there is none (yet)."""
    status = pod.get("status")
    if not isinstance(status, Mapping):
        return None
    if (preempted := _preempted(status)) is not None:
        return preempted
    if get(pod, "metadata", "deletionTimestamp"):
        return None
    troubles = [*_container_troubles(status)]
    if status.get("phase") == "Pending":
        for condition in listed(status.get("conditions")):
            if (
                get(condition, "type") == "PodScheduled"
                and get(condition, "status") == "False"
                and get(condition, "reason") == UNSCHEDULABLE
            ):
                since = str(get(condition, "lastTransitionTime") or "")
                troubles.append(
                    Trouble(
                        _RANK_UNSCHEDULABLE, UNSCHEDULABLE, _text(get(condition, "message")), since
                    )
                )
    if status.get("phase") == "Failed":
        reason = str(status.get("reason") or "PodFailed")
        troubles.append(Trouble(_RANK_FAILED, reason, _text(status.get("message"))))
        return replace(min(troubles), over=True)
    return min(troubles, default=None)


def _preempted(status: Mapping[str, Any]) -> Trouble | None:
    """Of a pod that its scheduler evicted for one of a higher priority: that is no failure of its
    own, however it ends."""
    for condition in listed(status.get("conditions")):
        if (
            get(condition, "type") == "DisruptionTarget"
            and get(condition, "status") == "True"
            and get(condition, "reason") == "PreemptionByScheduler"
        ):
            since = str(get(condition, "lastTransitionTime") or "")
            detail = _text(get(condition, "message"))
            return Trouble(_RANK_UNSCHEDULABLE, PREEMPTED, detail, since, over=True)
    return None


def of_mount(message: str) -> Trouble | None:
    """The trouble in an Event FailedMount of a pod while its containers are being created; None
    when the mount is only slow. Kubelets report it nowhere else."""
    match = ABSENT.search(message)
    return (
        None
        if match is None
        else Trouble(_RANK_MISSING, MISSING, _text(message.partition("failed for ")[2] or message))
    )


def of_refusal(message: str) -> str:
    """The text of an Event FailedCreate about pods that the API server refused, without its
    variable parts: the recorder's prefix and the generated pod name."""
    text = " ".join(message.partition("Error creating: ")[2].split())
    return _NAMED_POD.sub("its pods are forbidden: ", text)[:REFUSAL_LIMIT]


def _container_troubles(status: Mapping[str, Any]) -> Iterable[Trouble]:
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in listed(status.get(group)):
            waiting = get(container, "state", "waiting")
            row = _WAITING.get(str(get(waiting, "reason")))
            if row is None:
                continue
            rank, reason = row
            name = str(get(container, "name") or "?")
            if reason == "ContainerConfigError" and ABSENT.search(str(get(waiting, "message"))):
                reason = MISSING
            text = _text(get(waiting, "message")) or str(get(waiting, "reason"))
            if reason == "CrashLooping":
                text = _crash(container, text)
            elif reason == "ImagePullFailed" and get(container, "image"):
                text = f"{get(container, 'image')}: {text}"
            yield Trouble(rank, reason, _text(f"container {name}: {text}"))


def _crash(container: Any, text: str) -> str:
    ended = get(container, "lastState", "terminated")
    if not isinstance(ended, Mapping):
        return text
    restarts = get(container, "restartCount") or 0
    why = f"{ended.get('reason') or 'Error'} with exit code {ended.get('exitCode', 0)}"
    ended_so = f"ended {why} after {restarts} restart{'' if restarts == 1 else 's'}"
    said = _text(ended.get("message"))  # the termination message: the runtime leaves its reason so
    return f"{ended_so}: {said}" if said else ended_so


def first(troubles: Iterable[Trouble | None], *, complete: bool = False) -> Finding:
    """The most useful reason with the number of pods that share it; ties are broken by the detail.

    `complete`: nothing is missing. Then a pod that has ended explains nothing: it was replaced long
    ago and only waits to be removed.
    """
    counts: dict[str, int] = {}
    worst: Trouble | None = None
    since = ""
    for trouble in troubles:
        if trouble is None or (complete and trouble.over):
            continue
        counts[trouble.reason] = counts.get(trouble.reason, 0) + 1
        if worst is None or trouble < worst:
            worst = trouble
        if trouble.reason == UNSCHEDULABLE:
            since = min(since, trouble.since) if since and trouble.since else since or trouble.since
    if worst is None:
        return NOTHING
    count = counts[worst.reason]
    message = (
        f"{count} pod{'' if count == 1 else 's'}: {worst.detail}"
        if worst.detail
        else f"{count} pods"
    )
    return Finding(
        reason=worst.reason,
        message=message,
        count=count,
        unschedulable=counts.get(UNSCHEDULABLE, 0),
        unschedulable_since=since,
    )


def _text(value: Any) -> str:
    text = " ".join(str(value or "").split())
    return text if len(text) <= DETAIL_LIMIT else text[: DETAIL_LIMIT - 3] + "..."


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def get(obj: Any, *path: str) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj
