"""Waiting for workloads: targets and durations from the command line, polling every second until a
deadline, and warnings when no hub can bring about what is waited for."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kinds.pods.progress import Progress
    from federator.kube.client import Client

LOOK_S: Final = 1.0
LEADER_EVERY_S: Final = 5.0
REFUSED_S: Final = 10.0
"""A refusal by an account has to last so long: the hub may not have seen an edit of the account
yet."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """A click type: `30s`, `5m`, `1h30m` or 0, read as by kubectl, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        if value == "0":
            return 0.0
        parts = _PART.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is not a duration such as 30s, 5m or 1h30m", param, ctx)
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True)
class Target:
    """One workload named on the command line."""

    kind: "Kind"
    name: str

    @property
    def text(self) -> str:
        return f"{self.kind.singular}.{self.kind.group}/{self.name}"


def targets(arguments: Sequence[str]) -> list[Target]:
    """The targets of `psvc/web pjs/index` or `psvc web api`. Exits with an error for other
    kinds."""
    from federator.cli import views

    first, *others = arguments
    if "/" not in first and not any("/" in argument for argument in others):
        pairs = [(first, name) for name in others]
        if not pairs:
            common.fail(f"name a workload, such as {first}/web")
    else:
        pairs = []
        for argument in arguments:
            kind, slash, name = argument.partition("/")
            if not slash or not name or "/" in name:
                common.fail(f"{argument!r} is not KIND/NAME, such as psvc/web")
            pairs.append((kind, name))
    result = [Target(views.kind_named(kind), name) for kind, name in pairs]
    for target in result:
        if target.kind.verbs is None:
            common.fail(f"a {target.kind.kind} is not a workload; name a {views.WORKLOADS}")
    return result


@dataclass
class Hub:
    """Watches whether a hub can bring about what is waited for. Prints banner lines that appear
    after the start, each once; those of the start were printed already."""

    client: "Client"
    halted: str = ""
    """Why nothing that is waited for can happen now: `banner.Banner.halted` of the last look."""
    _printed: frozenset[str] | None = None
    _looked_s: float = field(default=float("-inf"))

    async def look(self) -> None:
        """Reads the banner every `LEADER_EVERY_S` seconds and prints new lines on stderr."""
        from federator.hub.query import banner

        now_s = _now_s()
        if now_s - self._looked_s < LEADER_EVERY_S:
            return
        self._looked_s = now_s
        shown = await banner.read(self.client)
        for line in shown.lines if self._printed is not None else ():
            if line not in (self._printed or ()):
                common.say(line, err=True)
        self._printed, self.halted = frozenset(shown.lines), shown.halted


async def until(
    hub: Hub, timeout_s: float, look: Callable[[], Awaitable[bool]], *, once: bool = False
) -> bool:
    """Calls `look` every second until it returns True. Returns False on timeout (`timeout_s` 0:
    never).

    Transient errors of the host are printed once each and waited out; others are raised.
    """
    from federator.kube import errors

    deadline, complaint = _now_s() + timeout_s if timeout_s else float("inf"), ""
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
        if once or _now_s() >= deadline:
            return False
        await asyncio.sleep(min(LOOK_S, max(deadline - _now_s(), 0.0)))


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Refusals:
    """Which failures are final: all but refusals by an account that are younger than `REFUSED_S`.
    `once`: nobody looks again, so that every failure is final."""

    once: bool
    _since_s: dict[Target, float] = field(default_factory=dict)

    def judged(self, target: Target, state: "Progress") -> "Progress":
        """The progress, of a workload that is still to be waited for where its failure may pass."""
        if not state.failed or not state.passing or self.once:
            self._since_s.pop(target, None)
            return state
        now_s = _now_s()
        if now_s - self._since_s.setdefault(target, now_s) >= REFUSED_S:
            return state
        return replace(state, failed="", waits=state.failed)


def way_on(target: Target, namespace: str, state: "Progress") -> str:
    """The command that prints fixes, as the end of an error; "" where copies lack no place."""
    if not state.explained:
        return ""
    kind = (target.kind.short_names or (target.kind.singular,))[0]
    return f"; `federator explain {kind}/{target.name} -n {namespace}` prints fixes"
