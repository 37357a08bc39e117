"""Trails: how one workload's copies in one cluster changed, and what of that a summary does not
include.

Kept by `commitments` for each workload and cluster. Pure values.
"""

import bisect

from federator.model.ask import PodShape
from federator.model.decision import Share
from federator.model.fleet import Commitment, Holding, copies_of

Step = tuple[int, PodShape, int]
"""(seq, shape, copies)."""
Trail = tuple[Step, ...]
"""Steps that rise in seq."""


def steps(commitment: Commitment | None) -> dict[str, Step]:
    """What a commitment says of each cluster."""
    if commitment is None:
        return {}
    return {holding.cluster: step(commitment, holding) for holding in commitment.holdings}


def step(commitment: Commitment, holding: Holding | Share) -> Step:
    """What it says of the cluster of this holding."""
    return holding.seq, commitment.shape, copies_of(holding)


def after(trail: Trail, step: Step) -> Trail:
    """The trail once a decision says `step`. One that is not newer corrects the last step.

    steps of seq 5 and 7, then 9 copies by seq 8: 5, 7, 8
    steps of seq 5 and 7, then 9 copies by seq 6: 5, 7 with 9 copies
    """
    if trail and trail[-1][0] >= step[0]:
        return (*trail[:-1], (trail[-1][0], *step[1:]))
    return (*trail, step)


def needless(trail: Trail, includes_seq: int) -> int:
    """How many of its first steps no summary after one up to `includes_seq` needs: those before the
    last that it includes."""
    return max(bisect.bisect_right(trail, includes_seq, key=lambda step: step[0]) - 1, 0)


def beyond(trail: Trail, includes_seq: int) -> dict[PodShape, int]:
    """Shape -> copies that a summary up to `includes_seq` does not include: the most there were
    since, minus what it saw."""
    seen: dict[PodShape, int] = {}
    peaks: dict[PodShape, int] = {}
    for seq, shape, copies in trail:
        there = _pods(shape, copies)
        if seq <= includes_seq:
            seen = there
        else:
            for pod, count in there.items():
                peaks[pod] = max(peaks.get(pod, 0), count)
    return {pod: peak - seen.get(pod, 0) for pod, peak in peaks.items() if peak > seen.get(pod, 0)}


def _pods(shape: PodShape, copies: int) -> dict[PodShape, int]:
    """The pods of so many copies; those of a gang one by one."""
    if not shape.parts:
        return {shape: copies}
    pods: dict[PodShape, int] = {}
    for pod, each in shape.pods:
        pods[pod] = pods.get(pod, 0) + each * copies
    return pods
