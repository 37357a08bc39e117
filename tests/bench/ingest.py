"""I1: watch events of 4 KB objects from bytes to the store, as the hub hears its members; the floor
decodes them only.

The stream is captured from an embedded API server first and then played, so that no server runs
while it is timed.
"""

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec

from federator.embedded.server import EmbeddedCluster
from federator.hub.records import slices
from federator.hub.records.slices import SliceSeen, SliceShape
from federator.kinds import registry
from federator.kinds.verbs import SliceMark
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from federator.kube.wire.transport import Request, Response
from federator.model.decision import Share
from federator.sandbox.federation import ensure
from tests.bench import fleets, harness
from tests.bench.harness import Result

OBJECTS = 400
PADDING = 500
"""Makes an object with its managed fields about 4 KB."""
CHUNK = 64 * 1024
REPEATS = 5


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    yield asyncio.run(_run(max(1000, round(20_000 * scale))))


async def _run(events: int) -> Result:
    lines = await _captured()
    stream = [lines[index % len(lines)] for index in range(events)]
    data = b"".join(stream)
    await _ingested(stream[:1000], b"".join(stream[:1000]))
    gc.collect()
    gc.freeze()
    ours, floors = [], []
    for _ in range(REPEATS):
        floors.append(_decoded(data))
        ours.append(await _ingested(stream, data))
    notes = {
        "events": events,
        "bytes_per_event": round(len(data) / events),
        "events_per_second": round(events / harness.middle(ours)),
    }
    return Result(
        "I1",
        ours=harness.middle(ours) / events * 1e6,
        floor=harness.middle(floors) / events * 1e6,
        notes=notes,
    )


async def _captured() -> list[bytes]:
    """Watch events of slices with a status, as a server sends them."""
    cluster = EmbeddedCluster("m", clock=RealClock(), rng=random.Random(1), controllers=False)
    client = Client(cluster.transport(), "m")
    await ensure(
        client,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}},
        "namespaces",
    )
    verbs = registry.verbs_of("Deployment")
    for index in range(OBJECTS):
        obj = fleets.deployment(f"d{index}", "bench", 6, padding=PADDING)
        obj["metadata"] |= {"uid": "6d0a8c8e-0000-4000-8000-000000000000", "generation": 1}
        mark = SliceMark("federator", obj["metadata"]["uid"], 1, "m", 4294967297 + index, ())
        body = verbs.render_slice(obj, Share("m", 2, 2, mark.seq), mark)
        await ensure(client, body, "deployments")
        status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2}
        ref = registry.KINDS["Deployment"].ref("bench", f"d{index}")
        await client.patch(ref, {"status": status}, subresource="status")
    answer = await cluster.transport().request(
        Request("GET", "/apis/apps/v1/deployments", (("watch", "true"),), total_timeout_s=None)
    )
    lines: list[bytes] = []
    rest = b""
    async for chunk in answer.chunks():
        *whole, rest = (rest + chunk).split(b"\n")
        lines += [line + b"\n" for line in whole if line]
        if len(lines) >= OBJECTS:
            break
    await answer.close()
    return lines


def _decoded(data: bytes) -> float:
    """Seconds to decode every event, and nothing else."""
    decoder = msgspec.json.Decoder()
    begun = time.perf_counter()
    for line in data.split(b"\n"):
        if line:
            decoder.decode(line)
    return time.perf_counter() - begun


async def _ingested(stream: list[bytes], data: bytes) -> float:
    """Seconds until the last event of the stream is in the store of a reflector that lists nothing
    at first.
    """
    store: Store[SliceSeen] = Store("bench")
    left = len(stream)
    done = asyncio.Event()

    def project(shown: SliceShape) -> SliceSeen:
        nonlocal left
        left -= 1
        if not left:
            done.set()
        return slices.summarise("Deployment", "m", shown.as_object())

    reflector = Reflector(
        Client(Played(data), "m"),
        "apps/v1",
        "deployments",
        store,
        project=project,
        shape=SliceShape,
        clock=RealClock(),
        rng=random.Random(1),
    )
    begun = time.perf_counter()
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(120.0):
        await done.wait()
    took = time.perf_counter() - begun
    task.cancel()
    await asyncio.wait([task])
    assert len(store) == min(OBJECTS, len(stream)), "the store has not taken all objects"
    return took


class Played:
    """A server that has nothing to list and plays one watch."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def request(self, request: Request) -> Response:
        if ("watch", "true") in request.query:
            return Answer(self._data, last=False)
        listing = {
            "kind": "DeploymentList",
            "apiVersion": "apps/v1",
            "metadata": {"resourceVersion": "1"},
            "items": [],
        }
        return Answer(msgspec.json.encode(listing), last=True)

    async def close(self) -> None:
        return


class Answer:
    """A body in chunks; a watch stays open after its end."""

    status = 200

    def __init__(self, data: bytes, *, last: bool) -> None:
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._data = data
        self._last = last

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), CHUNK):
            yield self._data[start : start + CHUNK]
        if not self._last:
            await asyncio.Event().wait()

    async def read(self, limit: int) -> bytes:
        return self._data[:limit]

    async def close(self) -> None:
        return
