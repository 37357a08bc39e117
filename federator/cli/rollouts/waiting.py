"""Waiting for workloads: targets as people type them, durations, a look every second until a deadline, and whether any
hub is there to bring about what is waited for."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

LOOK_S: Final = 1.0
LEADER_EVERY_S: Final = 5.0
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """`30s`, `5m`, `1h30m`, as kubectl reads them; a bare 0 too. In seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if value == "0":
            return 0.0
        parts = _PART.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is no duration such as 30s, 5m or 1h30m", param, ctx)
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True)
class Target:
    """One workload that was named."""

    kind: "Kind"
    name: str

    @property
    def text(self) -> str:
        return f"{self.kind.singular}.{self.kind.group}/{self.name}"


def targets(arguments: Sequence[str]) -> list[Target]:
    """Of `psvc/web pjs/index`, or `psvc web api`. Ends the command for what is no workload."""
    from federator.cli import views

    first, *others = arguments
    if "/" not in first and not any("/" in one for one in others):
        pairs = [(first, name) for name in others]
        if not pairs:
            common.fail(f"name a workload, such as {first}/web")
    else:
        pairs = []
        for one in arguments:
            kind, slash, name = one.partition("/")
            if not slash or not name or "/" in name:
                common.fail(f"{one!r} is no KIND/NAME, such as psvc/web")
            pairs.append((kind, name))
    found = [Target(views.kind_named(kind), name) for kind, name in pairs]
    for target in found:
        if target.kind.verbs is None:
            common.fail(f"a {target.kind.kind} is no workload; name a {views.WORKLOADS}")
    return found


@dataclass
class Hub:
    """Whether a hub is there to bring about what is waited for. What the banner said at the beginning is not said
    again; what comes later is, once."""

    client: "Client"
    _told: frozenset[str] | None = None
    _looked_s: float = field(default=float("-inf"))

    async def look(self) -> None:
        """Reads the Lease and the pause from time to time, and tells on stderr what is new."""
        from federator.cli import banner

        if time.monotonic() - self._looked_s < LEADER_EVERY_S:
            return
        self._looked_s = time.monotonic()
        lines = await banner.lines(self.client)
        for line in lines if self._told is not None else ():
            if line not in (self._told or ()):
                common.say(line, err=True)
        self._told = frozenset(lines)


async def until(hub: Hub, timeout_s: float, look: Callable[[], Awaitable[bool]], *, once: bool = False) -> bool:
    """Looks every second until there is nothing to wait for; False when the time is over before. A host that does not
    answer for a while is told of once, and waited for too."""
    from federator.kube import errors

    deadline, complaint = time.monotonic() + timeout_s if timeout_s else float("inf"), ""
    while True:
        try:
            if await look():
                return True
            await hub.look()
        except errors.ApiError as trouble:
            if not trouble.transient:
                raise
            if complaint != str(trouble):
                complaint = str(trouble)
                common.say(f"warning: {complaint}", err=True)
        if once or time.monotonic() >= deadline:
            return False
        await asyncio.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0.0)))
