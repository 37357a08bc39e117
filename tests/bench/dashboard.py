"""D1, D1x and D1m: processor time of a dashboard process for pages over 10,000 and over 100,000
workloads, until their last byte, and its memory with the larger number. Notes have the time that
passed for the slowest page.

Objects are copies of what a real hub wrote, as in `commands`. The host is embedded and served over
HTTPS by this process; pages about lists ask it for nothing but rights, which the dashboard knows
for some seconds. Each page is read several times, and its fastest reading counts.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import uvloop

from federator.sandbox.federation import Federation
from tests.bench import commands, served
from tests.bench.harness import Result
from tests.bench.proc import resident_mb

COUNTS = (10_000, 100_000)
TIMES = 5
READY_S = 240.0
PAGES = (
    "/",
    "/workloads",
    "/workloads?q=w77",
    "/workloads?health=Ready&sort=-name",
    "/workloads?page=150",
    "/workloads/PinterestService/bench/w7",
    "/clusters",
    "/quota",
)


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="federator-bench-") as room,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        yield from runner.run(_run(wanted, scale, Path(room)))


async def _run(wanted: frozenset[str], scale: float, room: Path) -> list[Result]:
    federation = await commands.placed()
    found: list[Result] = []
    made = 0
    try:
        async with served.serving(federation, room):
            for row, count in zip(("D1", "D1x"), COUNTS, strict=True):
                if row not in wanted and not (row == "D1x" and "D1m" in wanted):
                    continue
                target = max(200, round(count * scale)) - 1
                commands.copied(federation, range(made, target))
                made = target
                seconds, memory_mb, notes = await _read(federation, room)
                notes["workloads"] = target + 1
                found += [
                    Result(row, ours=max(seconds.values()), notes={**notes, **seconds}),
                    *([Result("D1m", ours=memory_mb, notes=notes)] if row == "D1x" else []),
                ]
    finally:
        await federation.stop()
    return [result for result in found if result.id in wanted]


async def _read(
    federation: Federation, room: Path
) -> tuple[dict[str, float], float, dict[str, float]]:
    """Seconds by page, memory in MB after the pages were read, and notes."""
    begun = time.perf_counter()
    async with _running(room) as (base, pid):
        ready_s = time.perf_counter() - begun
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            await _sign_in(session, base, federation.host.token)
            seconds, passed_s = dict[str, float](), 0.0
            for page in PAGES:
                took = [await _timed(session, base + page, pid) for _ in range(TIMES)]
                seconds[page] = round(min(used for used, _ in took), 3)
                passed_s = max(passed_s, min(passed for _, passed in took))
        notes = {"ready_s": round(ready_s, 1), "passed_s": round(passed_s, 3)}
        return seconds, resident_mb(pid), notes


async def _timed(session: aiohttp.ClientSession, url: str, pid: int) -> tuple[float, float]:
    """(seconds of the processor, seconds that passed)."""
    begun, used = time.perf_counter(), _used_s(pid)
    async with session.get(url) as answer:
        await answer.read()
        assert answer.status == 200, (url, answer.status)
    return _used_s(pid) - used, time.perf_counter() - begun


def _used_s(pid: int) -> float:
    """Processor time of all threads of a process, to a nanosecond where the kernel says so."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e9


async def _sign_in(session: aiohttp.ClientSession, base: str, token: str) -> None:
    async with session.get(f"{base}/signin") as page:
        csrf = (await page.text()).partition('name="csrf" value="')[2].partition('"')[0]
    fields = {"csrf": csrf, "next": "/", "token": token}
    async with session.post(f"{base}/signin", data=fields, headers={"origin": base}) as answer:
        assert answer.status == 200, answer.status


@contextlib.asynccontextmanager
async def _running(room: Path) -> AsyncIterator[tuple[str, int]]:
    """Address and process of a dashboard that has read the host."""
    options = ("--kubeconfig", str(room / "host.kubeconfig"), "--listen", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "federator", "dashboard", *options),
        env={"FEDERATOR_LOG__FORMAT": "json", "HOME": str(room), "PYTHONPATH": str(served.ROOT)},
        cwd=room,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(READY_S):
            while "http://" not in (line := (await process.stderr.readline()).decode()):
                assert line, "the dashboard has ended"
            base = "http://" + str(json.loads(line)).partition("http://")[2].split("'")[0]
            drained = asyncio.create_task(process.stderr.read())
            async with aiohttp.ClientSession() as session:
                while True:
                    async with session.get(f"{base}/readyz") as ready:
                        if ready.status == 200:
                            break
                    await asyncio.sleep(0.2)
        yield base, process.pid
        process.terminate()
        await process.wait()
        await drained
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
