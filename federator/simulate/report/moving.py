"""Copies that moved: the one definition that all figures, charts and sweeps share.

A copy has moved when it stood in one cluster, was ended there by a decision (a drain, a policy,
another's quota), and was started in another one. Copies that are lost with their cluster have not:
they are counted as displaced. A copy for which a service no longer asks has not moved either.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from federator.simulate.outcome import Life


def moves(life: Life) -> Iterator[tuple[int, int]]:
    """(second, copies that were started then and had been ended by a decision elsewhere)."""
    if len(life.stays) < 2:
        return
    changes: dict[int, Counter[str]] = defaultdict(Counter)
    lost = set()
    for stay in life.stays:
        changes[stay.start_s][stay.cluster] += stay.copies
        if stay.end_s is not None:
            changes[stay.end_s][stay.cluster] -= stay.copies
            if stay.lost:
                lost.add((stay.end_s, stay.cluster))
    ended: Counter[str] = Counter()
    for at_s in sorted(changes):
        net = changes[at_s]
        for cluster, by in net.items():
            if by < 0 and (at_s, cluster) not in lost:
                ended[cluster] -= by
        if not ended:
            continue
        moved = sum(_started(ended, cluster, by) for cluster, by in sorted(net.items()) if by > 0)
        if moved:
            yield at_s, moved
        _take(ended, sum(ended.values()) - _missing(life, at_s))


def displaced(life: Life) -> Iterator[tuple[int, int]]:
    """(second, copies that were lost with their cluster, or its nodes, then)."""
    return (
        (stay.end_s, stay.copies) for stay in life.stays if stay.lost and stay.end_s is not None
    )


def _started(ended: Counter[str], cluster: str, copies: int) -> int:
    """How many of the copies that are started in the cluster were ended in another one."""
    back = ended.pop(cluster, 0)
    moved = _take(ended, copies)
    if back > copies - moved:
        ended[cluster] = back - (copies - moved)
    return moved


def _take(ended: Counter[str], copies: int) -> int:
    """Takes so many, or all that there are. Returns how many."""
    left = copies
    for cluster in sorted(ended):
        some = min(max(left, 0), ended[cluster])
        left -= some
        ended[cluster] -= some
        if not ended[cluster]:
            del ended[cluster]
    return max(copies, 0) - max(left, 0)


def _missing(life: Life, at_s: int) -> int:
    return sum(
        wait.copies
        for wait in life.waits
        if wait.start_s <= at_s and (wait.end_s is None or at_s < wait.end_s)
    )
