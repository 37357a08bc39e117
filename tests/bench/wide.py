"""M3: memory of a hub with a thousand members, over HTTPS, with the watches that a decision needs
and no workloads.
"""

import asyncio
import contextlib
import functools
import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from federator.kube.clock import RealClock
from tests.bench import fleets, served, standins
from tests.bench.harness import Result

LINGER_S = 15.0
WITHIN_S = 300.0
"""All members are ready and reported by then, or there is no reading."""
OPTIONS = {
    **standins.PATIENT,
    "lease_duration_s": 120.0,
    "lease_renew_deadline_s": 90.0,
}
"""One process serves the host and all members. While it makes thousands of TLS connections on a
loaded machine it may stand still for 10 s: a hub with the usual renew deadline then ends."""


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(_run(max(3, round(1000 * scale)), Path(room)))
        yield result


async def _run(count: int, room: Path) -> Result:
    federation = fleets.federation(
        fleets.fleet(count, nodes=1), RealClock(), fleets.Ledger(), **standins.PATIENT
    )
    begun = time.perf_counter()
    async with served.serving(federation, room) as kubeconfigs:
        await federation.install(kubeconfigs)
        await standins.say(federation)
        gc.collect()
        gc.freeze()
        made_s = time.perf_counter() - begun
        hub = served.Hub(room, OPTIONS)
        begun = time.perf_counter()
        await hub.start()
        try:
            await hub.until_ready(WITHIN_S)
            ready_s = time.perf_counter() - begun
            everybody = functools.partial(standins.all_ready, federation)
            with contextlib.suppress(TimeoutError):
                await hub.until(everybody, within_s=WITHIN_S, said="in touch with all members")
            all_s = time.perf_counter() - begun
            await asyncio.sleep(LINGER_S)
            memory = hub.memory_mb
        finally:
            await hub.stop()
    heard = standins.ready_members(federation)
    notes = {
        "members": count,
        "members_ready": heard,
        "seconds_to_all_ready": round(all_s, 1),
        "seconds_to_ready": round(ready_s, 1),
        "seconds_to_set_up": round(made_s, 1),
    }
    failed = (
        ""
        if heard == count
        else f"only {heard} of {count} members were ready within {WITHIN_S:.0f} s"
    )
    return Result("M3", ours=memory, notes=notes, failed=failed)
