"""Runs many sequences, counts what they covered and collects what differs. Used by the soak and by
the test.
"""

import asyncio
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from federator.kinds import crds as our_crds
from federator.kube.login import tls
from federator.kube.wire import http
from federator.kube.wire.transport import Transport
from tests.contract import crds as widget_crds
from tests.contract.differential import compare, exceptions, generate
from tests.contract.differential.kinds import Object
from tests.contract.differential.steps import Step
from tests.contract.speaking import Speaker

_AT_ONCE = 3
"""Sequences beside each other in one process: much of the time of each is waiting for a watch to
stay silent.
"""


@dataclass(slots=True)
class Report:
    """What came of a range of seeds."""

    sequences: int = 0
    requests: int = 0
    covered: Counter[tuple[str, str]] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    """(seed, the shortest sequence found and its first difference)."""

    passing: list[int] = field(default_factory=list)
    """Seeds that differed by the turn of a second, and not when played again."""

    def add(self, other: "Report") -> None:
        self.sequences += other.sequences
        self.requests += other.requests
        self.covered += other.covered
        self.excused += other.excused
        self.failures += other.failures
        self.passing += other.passing


def definitions() -> list[Object]:
    """The CRDs that every sequence finds."""
    return [*our_crds.all_crds(), widget_crds.definition()]


def connected(url: str, token: str, ca_pem: bytes) -> Transport:
    """A way to a server with a bearer token."""
    endpoint = http.Endpoint(
        url, tls=tls.client_context(ca_pem=ca_pem), credentials=http.StaticToken(token)
    )
    return http.HttpTransport(endpoint)


async def install(real: Transport) -> None:
    """Makes the real server serve our kinds."""
    speaker = Speaker(real, "default")
    for definition in definitions():
        answer = await speaker.post(widget_crds.DEFINITIONS, definition)
        assert answer.status in (201, 409), answer.body
    for definition in definitions():
        spec = definition["spec"]
        await until_served(
            speaker,
            f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}",
        )


async def until_served(speaker: Speaker, path: str) -> None:
    """Waits until a collection can be listed."""
    async with asyncio.timeout(60):
        while (await speaker.get(path)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def run(
    real: Transport,
    seeds: Iterable[int],
    *,
    shrink: bool = True,
    label: str = "d",
    at_once: int = 1,
) -> Report:
    """Plays the sequences of these seeds, `at_once` of them beside each other."""
    report, waiting = Report(), iter(seeds)

    async def play_some(arena: compare.Arena) -> None:
        for seed in waiting:
            await _played(arena, seed, report, shrink=shrink)

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            arena = compare.Arena(real, f"{label}{number}-")
            await arena.prepare(definitions())
            group.create_task(play_some(arena))
    return report


async def _played(arena: compare.Arena, seed: int, report: Report, *, shrink: bool) -> None:
    steps = generate.sequence(seed)
    try:
        found = await arena.differences(steps)
    except Exception:
        # One of the two broke down, which is the worst difference of all.
        found = []
        report.failures.append((seed, traceback.format_exc()))
    if found and exceptions.is_passing(path for each in found for path, _, _ in each.paths):
        again = await arena.differences(steps)
        report.passing += [seed] if not again else []
        found = again
    report.sequences += 1
    report.requests += len(steps)
    report.covered.update((step.kind, step.verb) for step in steps)
    report.excused.update(arena.excused)
    arena.excused.clear()
    if found:
        report.failures.append((seed, await _told(arena, steps, found, shrink=shrink)))


def play(url: str, token: str, ca_pem: bytes, seeds: list[int], shrink: bool) -> Report:
    """The sequences of some seeds, in a process of their own."""

    async def played() -> Report:
        real = connected(url, token, ca_pem)
        try:
            return await run(real, seeds, shrink=shrink, label=f"d{seeds[0]}-", at_once=_AT_ONCE)
        finally:
            await real.close()

    return asyncio.run(played())


async def _told(
    arena: compare.Arena,
    steps: Sequence[Step],
    found: Sequence[compare.Difference],
    *,
    shrink: bool,
) -> str:
    first = found[0]
    kept = list(steps)
    if shrink:
        kept, first = await arena.shrunk(steps, first)
        before = "\n".join(f"  {str(step)[:1500]}" for step in kept[:-1])
        return f"{before}\n  {first}"
    return "\n  ".join(str(each) for each in found)


def table(covered: Counter[tuple[str, str]]) -> str:
    """How often each verb met each kind."""
    verbs = generate.VERBS
    width = max(len(kind.plural) for kind in generate.KINDS)
    lines = [" " * width + "".join(f"{verb[:9]:>10}" for verb in verbs)]
    for kind in sorted(generate.KINDS, key=lambda each: each.plural):
        cells = "".join(f"{covered[(kind.plural, verb)] or '-':>10}" for verb in verbs)
        lines.append(f"{kind.plural:<{width}}{cells}")
    return "\n".join(lines)
