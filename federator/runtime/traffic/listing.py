"""`federator runtime registered`: the entries of a service, and the weight of each cluster."""

import asyncio
from collections.abc import Sequence
from typing import Final

from federator.runtime.traffic.members import Member
from federator.runtime.traffic.registry import Registry, Unreachable

NOWHERE: Final = "-"


async def listed(registry: Registry, folder: str, within_s: float) -> Sequence[Member]:
    """All entries of a service. Raises Unreachable after `within_s`, and Refused."""
    moved = asyncio.Event()
    registry.watch(lambda _lost: moved.set())
    try:
        async with asyncio.timeout(within_s):
            while not registry.up:
                await moved.wait()
                moved.clear()
            return await registry.members(folder)
    except TimeoutError:
        raise Unreachable(f"the registry has not answered within {within_s:g} s") from None
    finally:
        await registry.close()


def table(members: Sequence[Member]) -> list[str]:
    """Lines for people: each entry, then each cluster with its entries and their weight."""
    rows = [("ADDRESS", "WEIGHT", "CLUSTER", "POD")]
    weights: dict[str, list[int]] = {}
    for member in members:
        cluster = member.metadata.get("cluster", NOWHERE)
        weights.setdefault(cluster, []).append(member.weight)
        pod = member.metadata.get("pod", NOWHERE)
        rows.append((member.endpoint, str(member.weight), cluster, pod))
    total = sum(sum(each) for each in weights.values()) or 1
    sums = [("CLUSTER", "ENTRIES", "WEIGHT", "SHARE")]
    sums += [
        (cluster, str(len(each)), str(sum(each)), f"{100 * sum(each) / total:.1f} %")
        for cluster, each in sorted(weights.items())
    ]
    return [*_aligned(rows), "", *_aligned(sums)]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    # Entries are written by others: nothing of them may reach a terminal as a control character.
    plain = [["".join(c if c.isprintable() else "?" for c in cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in plain) for at in range(len(plain[0]))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in plain
    ]
