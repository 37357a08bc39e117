"""How a pod behaves on the stand-in kubelet, read from annotations of the pod, else of its node.

| annotation `embedded.federator/...` | value | meaning |
|---|---|---|
| `start-delay-seconds` | `2`, `0.5`, `1-5` | from bound to Running (image pull, init); a range is
drawn per pod |
| `ready-delay-seconds` | as above | from Running to Ready |
| `never-ready` | `true` | runs, never becomes Ready |
| `image-pull-error` | `true` | stays Pending with ErrImagePull, then ImagePullBackOff |
| `run-seconds` | as above | the containers exit after so long; without it only pods of Jobs exit |
| `exit-code` | integer | with which they exit (0); others make CrashLoopBackOff, or a failed pod |
| `fail-indexes` | `0,3-5` | only these completion indexes exit with `exit-code` (1 when that is 0
or absent) |
| `fail-attempts` | integer | a failing index fails so many times, then succeeds (always fails when
absent) |
| `index-base-env` | `SHARD_BASE` | a variable of the first container, added to the index for
`fail-indexes` |
| `reaches` | name of a Service | there is no traffic: containers that exit do so with 1 unless an
EndpointSlice of that Service, in the namespace of the pod, has a ready endpoint at that moment |
| `stop-seconds` | as above | from deletion to gone, at most the grace period |
| `log-every-seconds` | `5`, `0.5` | its log has a numbered line at this pace after the first
(`podlogs`) |
| `log-text` | any text | what those lines say |

Images of a registry with a name that ends with `.invalid` (no such host exists, RFC 2606) cannot be
pulled either. Only the containers that name them wait.

Pure: the generator for ranges is an argument. A value that cannot be read counts as absent.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PREFIX: Final = "embedded.federator/"
INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
ATTEMPT_ANNOTATION: Final = "embedded.federator/attempt"
"""How many pods of this completion index failed before; written by the stand-in Job controller for
`fail-attempts`."""

_SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:-\s*(\d+(?:\.\d+)?)\s*)?", re.ASCII)
_SECONDS_MAX: Final = 10.0 * 365 * 86400


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds, drawn evenly between `low` and `high`."""

    low: float
    high: float

    def draw(self, rng: random.Random) -> float:
        return self.low if self.low == self.high else rng.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where no annotation says otherwise, in seconds."""

    start: Span = Span(1.0, 2.0)
    ready: Span = Span(0.0, 0.0)
    stop: Span = Span(1.0, 1.0)
    job_run: Span = Span(5.0, 5.0)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one pod will do. `run` None: for ever. `exit_code` holds for every run of it."""

    start: float
    ready: float
    stop: float
    run: float | None
    exit_code: int
    never_ready: bool
    unpulled: tuple[str, ...] = ()
    """Names of the containers with an image that cannot be pulled; of init containers if they fail
    first."""
    reaches: str = ""
    """Name of a Service that must have a ready endpoint when the containers exit; "" for none."""


def of(
    pod: Mapping[str, Any],
    node_annotations: Mapping[str, str],
    defaults: Defaults,
    rng: random.Random,
) -> Behaviour:
    """The behaviour of a pod object on a node. Draws from `rng` only for ranges."""
    annotations = pod["metadata"].get("annotations") or {}

    def text(name: str) -> str | None:
        value = annotations.get(PREFIX + name)
        return node_annotations.get(PREFIX + name) if value is None else value

    def seconds(name: str, default: Span) -> float:
        return (span(text(name)) or default).draw(rng)

    run = span(text("run-seconds"))
    if run is None and _of_a_job(pod):
        run = defaults.job_run
    return Behaviour(
        start=seconds("start-delay-seconds", defaults.start),
        ready=seconds("ready-delay-seconds", defaults.ready),
        stop=seconds("stop-seconds", defaults.stop),
        run=None if run is None else run.draw(rng),
        exit_code=_exit_code(
            pod, annotations, text("exit-code"), text("fail-indexes"), text("fail-attempts")
        ),
        never_ready=text("never-ready") == "true",
        unpulled=_unpulled(pod["spec"], everything=text("image-pull-error") == "true"),
        reaches=text("reaches") or "",
    )


def _unpulled(spec: Mapping[str, Any], *, everything: bool) -> tuple[str, ...]:
    for group in (spec.get("initContainers") or (), spec.get("containers") or ()):
        if unpulled := tuple(
            container["name"]
            for container in group
            if everything or _nowhere(container.get("image") or "")
        ):
            return unpulled
    return ()


def _nowhere(image: str) -> bool:
    registry, slash, _ = image.partition("/")
    return bool(slash) and registry.partition(":")[0].endswith(".invalid")


def span(text: str | None) -> Span | None:
    """Reads `2`, `0.5` or `1-5`; None when absent or unreadable."""
    match = _SPAN.fullmatch(text) if text else None
    if match is None:
        return None
    low = min(float(match[1]), _SECONDS_MAX)
    return Span(low, max(low, min(float(match[2]), _SECONDS_MAX)) if match[2] else low)


def holds(indexes: str, index: int) -> bool:
    """Whether `0,3-5` holds an index; parts that cannot be read hold nothing."""
    for part in indexes.split(","):
        first, dash, last = part.strip().partition("-")
        if (
            first.isdecimal()
            and (last.isdecimal() or not dash)
            and int(first) <= index <= int(last if dash else first)
        ):
            return True
    return False


def _exit_code(
    pod: Mapping[str, Any],
    annotations: Mapping[str, str],
    code_text: str | None,
    failing: str | None,
    attempts: str | None,
) -> int:
    code = int(code_text) % 256 if code_text and code_text.isdecimal() else 0
    if failing is None:
        return code
    index_text = annotations.get(INDEX_ANNOTATION, "")
    if not index_text.isdecimal() or not holds(failing, int(index_text) + _base(pod, annotations)):
        return 0
    before = annotations.get(ATTEMPT_ANNOTATION, "0")
    if attempts and attempts.isdecimal() and before.isdecimal() and int(before) >= int(attempts):
        return 0
    return code or 1


def _base(pod: Mapping[str, Any], annotations: Mapping[str, str]) -> int:
    wanted = annotations.get(PREFIX + "index-base-env")
    if not wanted:
        return 0
    for variable in pod["spec"]["containers"][0].get("env") or ():
        if variable.get("name") == wanted and str(variable.get("value", "")).isdecimal():
            return int(variable["value"])
    return 0


def _of_a_job(pod: Mapping[str, Any]) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(
        reference.get("controller") and reference["kind"] == "Job" for reference in references
    )
