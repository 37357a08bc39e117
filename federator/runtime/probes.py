"""The probes of a pod's containers as a program of the same pod asks them. A table of what a
kubelet does with the same fields; the thresholds are counted here.

The guard asks liveness and startup probes in the kubelet's place (`Asked`); the traffic part asks
readiness probes in addition to the kubelet (`Readiness`). Pure; `asking` reaches the pod's
addresses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WAYS: Final = frozenset({"httpGet", "tcpSocket", "grpc"})
"""The probes that a program of the same pod can ask. An exec probe runs in its container, which is
another one."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe, with Kubernetes' defaults. Times in seconds."""

    how: Mapping[str, Any]
    delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    failures: int = 3
    successes: int = 1

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> "Probe":
        return cls(
            how=written,
            delay_s=_number(written, "initialDelaySeconds", 0),
            period_s=max(_number(written, "periodSeconds", 10), 1),
            timeout_s=max(_number(written, "timeoutSeconds", 1), 1),
            failures=int(max(_number(written, "failureThreshold", 3), 1)),
            successes=int(max(_number(written, "successThreshold", 1), 1)),
        )


def _number(written: Mapping[str, Any], name: str, default: float) -> float:
    value = written.get(name)
    return float(value) if type(value) is int else default


@dataclass(slots=True)
class Asked:
    """One container's probes, and what they said. Begins when the kubelet asks for it the first
    time, which is when the container has started."""

    liveness: Probe | None = None
    startup: Probe | None = None
    due_s: float | None = None
    """When it is asked next; None before the container has started."""
    started: bool = False
    failed: int = 0
    bad: str = ""
    """Why the container is to be stopped; "" while it may run."""
    reports: int = 0
    """How often the kubelet has heard that."""

    @property
    def present(self) -> Probe | None:
        """The probe that is asked now."""
        return self.startup if self.startup is not None and not self.started else self.liveness

    def begins(self, now_s: float) -> None:
        if self.due_s is None and (probe := self.present) is not None:
            self.due_s = now_s + probe.delay_s

    def answered(self, why: str, now_s: float) -> None:
        """Takes one answer: why it failed, "" for success."""
        probe = self.present
        if probe is None:
            return
        self.failed = self.failed + 1 if why else 0
        if self.failed >= probe.failures:
            self.bad = self.bad or why
        elif not why and probe is self.startup:
            self.started = True
            after = self.liveness
            self.due_s = now_s + (after.delay_s if after is not None else 0.0)
            return
        self.due_s = now_s + probe.period_s

    def heard(self, threshold: int) -> None:
        """The kubelet was told that it is to be stopped. After `threshold` times it stops it; one
        that is started again (a native sidecar) is asked as from the beginning."""
        self.reports += 1
        if self.reports >= threshold:
            self.due_s, self.started, self.failed, self.bad, self.reports = None, False, 0, "", 0


@dataclass(slots=True)
class Probes:
    """All guarded containers by name."""

    asked: dict[str, Asked] = field(default_factory=dict)

    @classmethod
    def of(cls, written: Mapping[str, Mapping[str, Any]]) -> "Probes":
        def probe(container: Mapping[str, Any], name: str) -> Probe | None:
            return Probe.of(container[name]) if container.get(name) else None

        return cls(
            {
                name: Asked(probe(container, "livenessProbe"), probe(container, "startupProbe"))
                for name, container in written.items()
            }
        )


@dataclass(slots=True)
class Readiness:
    """The readiness probe of one container, and what it said."""

    probe: Probe
    ready: bool = False
    why: str = "its readiness probe was not asked yet"
    """Why it is not ready; "" while it is."""
    run: int = 0
    """Equal answers in a row that speak against `ready`."""

    def answered(self, why: str) -> None:
        """Takes one answer: why it failed, "" for success."""
        if (not why) == self.ready:
            self.run = 0
        else:
            self.run += 1
            if self.run >= (self.probe.failures if self.ready else self.probe.successes):
                self.ready, self.run = not why, 0
        if not self.ready:
            self.why = why or self.why
        else:
            self.why = ""
