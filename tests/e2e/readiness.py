"""What a monitoring system would see of services: their ready copies, over all members, followed by
watches of its own at the API servers, every change of them and not samples.

Used by the tests of drains. Runs in a thread of its own, so that a test may block in a command.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from federator.api import raw
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.login import connect

DEPLOYMENT = registry.KINDS["Deployment"]
STARTS_S = 60.0
AGAIN_S = 0.1


@dataclass(slots=True)
class Watched:
    """What was seen so far of the services of one namespace."""

    namespace: str
    promised: Mapping[str, int]
    """Service -> copies that must be ready at any time."""
    ready: dict[str, Counter[str]] = field(default_factory=dict)
    """Member -> ready copies by service."""
    lowest: dict[str, int] = field(default_factory=dict)
    """Fewest copies of each service that were ready at once."""
    broken: list[str] = field(default_factory=list)
    """Sentences about moments in which fewer were ready than are promised."""
    changes: int = 0

    def total(self, service: str) -> int:
        return sum(counts[service] for counts in self.ready.values())


@contextlib.contextmanager
def watching(
    kubeconfigs: Mapping[str, Path], namespace: str, promised: Mapping[str, int]
) -> Iterator[Watched]:
    """Follows the services of these members until the block ends. An error in the thread is raised
    there.
    """
    seen = Watched(namespace, promised)
    begun, stop, failures = threading.Event(), threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            asyncio.run(_follow(seen, kubeconfigs, begun, stop))
        except BaseException as error:
            failures.append(error)
            begun.set()

    thread = threading.Thread(target=work, name="ready copies", daemon=True)
    thread.start()
    try:
        if not begun.wait(STARTS_S):
            raise TimeoutError(f"the members were not listed within {STARTS_S:.0f} s")
        yield seen
    finally:
        stop.set()
        thread.join(10)
    if failures:
        raise failures[0]


async def _follow(
    seen: Watched,
    kubeconfigs: Mapping[str, Path],
    begun: threading.Event,
    stop: threading.Event,
) -> None:
    clients = {
        name: Client(await connect.from_kubeconfig(str(path)), name)
        for name, path in kubeconfigs.items()
    }
    versions = {name: await _list(seen, client) for name, client in clients.items()}
    for service in seen.promised:
        seen.lowest[service] = seen.total(service)
    begun.set()
    tasks = [
        asyncio.create_task(_watch(seen, clients, name, version), name=f"watch {name}")
        for name, version in versions.items()
    ]
    try:
        while not stop.is_set() and not any(task.done() for task in tasks):  # noqa: ASYNC110 - another thread stops us
            await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients.values():
            await client.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _list(seen: Watched, client: Client) -> str:
    found = await client.list(DEPLOYMENT.api_version, DEPLOYMENT.plural, namespace=seen.namespace)
    seen.ready[client.cluster] = Counter(
        {obj["metadata"]["name"]: _ready(obj) for obj in found.items}
    )
    return found.resource_version


async def _watch(seen: Watched, clients: Mapping[str, Client], name: str, version: str) -> None:
    """Goes on from where it was whenever the server ends the watch."""
    client = clients[name]
    while True:
        try:
            async for event in client.watch(
                DEPLOYMENT.api_version,
                DEPLOYMENT.plural,
                seen.namespace,
                resource_version=version,
            ):
                version = event.object["metadata"]["resourceVersion"]
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    there = 0 if event.type == "DELETED" else _ready(event.object)
                    await _changed(seen, clients, name, event.object["metadata"]["name"], there)
        except errors.ApiError as error:
            if not error.transient:
                raise
            await asyncio.sleep(AGAIN_S)


async def _changed(
    seen: Watched, clients: Mapping[str, Client], member: str, service: str, ready: int
) -> None:
    seen.changes += 1
    seen.ready[member][service] = ready
    if service not in seen.promised:
        return
    total = seen.total(service)
    if total < seen.promised[service]:
        # The streams of two members keep no order between them: what has become ready elsewhere
        # before this may not have come yet.
        total = ready + await _elsewhere(seen, clients, member, service)
    seen.lowest[service] = min(seen.lowest[service], total)
    if total < seen.promised[service]:
        by_member = {name: counts[service] for name, counts in seen.ready.items()}
        seen.broken.append(f"{total} of {service} are ready, by {by_member} after {member}")


async def _elsewhere(
    seen: Watched, clients: Mapping[str, Client], member: str, service: str
) -> int:
    """Ready copies of a service in the other members, as these say when they are asked."""
    ref = DEPLOYMENT.ref(seen.namespace, service)
    total = 0
    for name, client in clients.items():
        if name == member:
            continue
        with contextlib.suppress(errors.NotFound):
            total += _ready(await client.get(ref))
    return total


def _ready(obj: Mapping[str, Any]) -> int:
    return raw.integer(obj, "status", "readyReplicas")
