"""A pod's log. Nothing really runs here: what a container "said" follows from its state and two
annotations of the pod, so that the same pod has the same log whenever it is asked for.

The first line says when it was started and where. With `embedded.federator/log-every-seconds: "5"`
a numbered line follows at that pace until it ends; `embedded.federator/log-text` is what those
lines say.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.kubelet import behaviour
from federator.embedded.rest import reading
from federator.embedded.rest.context import Context
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target, text_answer
from federator.embedded.storage.revisions import JsonObject
from federator.kube import clock as clocks

LINES_MAX: Final = 100_000
"""Numbered lines of one log, the newest: as if the rest had been rotated away."""


def log(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """GET of pods/log, with container, previous, tailLines, sinceSeconds, sinceTime, limitBytes and
    timestamps."""
    pod = reading.existing(ctx.store, target).obj
    name = _container(pod, request.param("container"), target.name)
    begun, ended = _times(pod, name, target.name, previous=request.flag("previous"))
    now = ctx.clock.now()
    lines = _lines(pod, name, target.name, begun, min(ended, now))
    since = _since(request, now)
    shown = [(at, text) for at, text in lines if at >= since]
    tail = _number(request, "tailLines")
    if tail is not None:
        shown = shown[len(shown) - tail :] if tail < len(shown) else shown
    stamped = request.flag("timestamps")
    text = "".join((f"{_stamp(at)} {line}\n" if stamped else f"{line}\n") for at, line in shown)
    limit = _number(request, "limitBytes")
    return text_answer(text if limit is None else text.encode()[:limit].decode(errors="ignore"))


def _container(pod: JsonObject, asked: str, pod_name: str) -> str:
    """The container that is meant. Raises `Refusal` 400."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    if not asked and len(names) > 1:
        listed = " ".join(names)
        why = f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]"
        raise refusals.bad_request(why)
    name = asked or names[0]
    initial = [container["name"] for container in pod["spec"].get("initContainers") or ()]
    if name not in names + initial:
        raise refusals.bad_request(f"container {name} is not valid for pod {pod_name}")
    return str(name)


def _times(pod: JsonObject, name: str, pod_name: str, *, previous: bool) -> tuple[float, float]:
    """From when to when the container ran; without end, infinity. Raises `Refusal` 400 where it did
    not."""
    status = pod.get("status") or {}
    statuses = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    of_it: JsonObject = next((status for status in statuses if status["name"] == name), {})
    state: JsonObject = of_it.get("lastState" if previous else "state") or {}
    ran = state.get("terminated") or (None if previous else state.get("running")) or {}
    if not ran.get("startedAt"):
        if previous:
            raise refusals.bad_request(
                f'previous terminated container "{name}" in pod "{pod_name}" not found'
            )
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise refusals.bad_request(
            f'container "{name}" in pod "{pod_name}" is waiting to start: {reason}'
        )
    ended = ran.get("finishedAt")
    return clocks.parse(ran["startedAt"]), clocks.parse(ended) if ended else float("inf")


def _lines(
    pod: JsonObject, name: str, pod_name: str, begun: float, until: float
) -> Iterator[tuple[float, str]]:
    """(time, text) of every line, oldest first."""
    node = pod["spec"].get("nodeName", "")
    yield (
        begun,
        f"embedded container {name} of pod {pod_name} started on {node} at {clocks.stamp(begun)}",
    )
    annotations: dict[str, Any] = pod["metadata"].get("annotations") or {}
    pace = behaviour.span(annotations.get(f"{behaviour.PREFIX}log-every-seconds"))
    if pace is None or pace.low <= 0:
        return
    text = annotations.get(f"{behaviour.PREFIX}log-text", f"container {name} of pod {pod_name}")
    last = int((until - begun) / pace.low)
    for number in range(max(1, last - LINES_MAX + 1), last + 1):
        yield begun + number * pace.low, f"{number} {text}"


def _since(request: ApiRequest, now: float) -> float:
    """The earliest time that is shown. Raises `Refusal` 400."""
    seconds = _number(request, "sinceSeconds")
    stamp = request.param("sinceTime")
    if seconds is not None:
        return now - seconds
    try:
        return clocks.parse(stamp) if stamp else float("-inf")
    except ValueError:
        raise refusals.bad_request(f"sinceTime {stamp} is no time") from None


def _number(request: ApiRequest, name: str) -> int | None:
    """A count among the parameters. Raises `Refusal` 400."""
    text = request.param(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise refusals.bad_request(f"{name} {text} is no count")
    return int(text)


def _stamp(at: float) -> str:
    """As the kubelet writes it: nanoseconds, of which no clock here knows the last three."""
    return f"{clocks.stamp(at).removesuffix('Z')}.{int(at % 1 * 1e6):06d}000Z"
