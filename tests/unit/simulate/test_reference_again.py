"""The reference policies beside a second program, written from the published definition alone: a
list of all jobs, and at every instant a scan of everything. Traces with ties, jobs without run
time, gangs wider than a cluster, unsorted rows; other capacities.
"""

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from federator.simulate import reference
from federator.simulate.reference import ReferenceJob, ReferencePolicy
from federator.simulate.traces import pools
from tests import casetables

SEEDS = range(60)
JOBS = 2000
"""Of the real trace: the second program scans all that wait at every instant."""
SCALES = (Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(3, 4), Fraction(5, 4))


def again(
    jobs: Sequence[ReferenceJob], capacity: dict[str, int], policy: str, scale: Fraction
) -> dict[str, object]:
    """The keys of reference.json."""
    size = {name: max(1, int(units * scale)) for name, units in sorted(capacity.items())}
    free, at_home = dict(size), policy.startswith("home")
    ends: dict[int, list[tuple[str, int]]] = {}
    coming = sorted(jobs, key=lambda job: job.submit_s)
    queues: dict[str, list[ReferenceJob]] = {name: [] for name in (size if at_home else [""])}
    waits: list[int] = []
    home = rejected = area = last = 0
    instants = sorted({job.submit_s for job in coming})
    while instants:
        now = instants.pop(0)
        for cluster, units in ends.pop(now, []):
            free[cluster] += units
        while coming and coming[0].submit_s == now:
            job = coming.pop(0)
            if job.units > (size[job.home] if at_home else max(size.values())):
                rejected += 1
            else:
                queues[job.home if at_home else ""].append(job)
        for queue in queues.values():
            kept: list[ReferenceJob] = []
            for at, job in enumerate(queue):
                wished = job.home
                if not at_home and (policy == "fed-fifo" or free[wished] < job.units):
                    wished = min(free, key=lambda name: (-free[name], name))
                if free[wished] < job.units:
                    if policy != "home-backfill":
                        kept = queue[at:]
                        break
                    kept.append(job)
                    continue
                waits.append(now - job.submit_s)
                home += wished == job.home
                area += job.units * job.runtime_s
                last = max(last, now + job.runtime_s)
                if job.runtime_s:
                    free[wished] -= job.units
                    if now + job.runtime_s not in ends:
                        ends[now + job.runtime_s] = []
                        instants = sorted({*instants, now + job.runtime_s})
                    ends[now + job.runtime_s].append((wished, job.units))
            queue[:] = kept
    waits.sort()
    count = len(waits)
    return {
        "policy": policy,
        "capacity_scale": f"{scale.numerator}/{scale.denominator}",
        "capacity_units": sum(size.values()),
        "started": count,
        "rejected_too_wide": rejected,
        "waited": sum(wait > 0 for wait in waits),
        "wait_sum_s": sum(waits),
        "wait_max_s": max(waits, default=0),
        "wait_p50_s": waits[count // 2] if waits else 0,
        "wait_p99_s": waits[count * 99 // 100] if waits else 0,
        "last_end_s": last,
        "started_in_home_cluster": home,
        "unit_seconds": area,
    }


def drawn(seed: int) -> tuple[list[ReferenceJob], dict[str, int]]:
    chance = random.Random(seed)
    capacity = {
        name: chance.randint(1, 12) for name in chance.sample("abcdefgh", chance.randint(1, 5))
    }
    span = chance.choice((5, 40, 400))
    jobs = [
        ReferenceJob(
            chance.randrange(span),
            chance.choice((0, 0, 1, 2, chance.randrange(60))),
            chance.choice((0, 1, 1, 2, 4, chance.randint(1, 16))),
            chance.choice(sorted(capacity)),
        )
        for _ in range(chance.randint(0, 80))
    ]
    return jobs, capacity


@pytest.mark.parametrize("policy", ReferencePolicy)
def test_traces_of_any_kind_come_out_as_the_definition_says(policy: ReferencePolicy) -> None:
    rejected = waited = 0
    for seed in SEEDS:
        jobs, capacity = drawn(seed)
        for scale in SCALES:
            found = reference.run(jobs, capacity, policy, scale).as_dict()
            assert found == again(jobs, capacity, policy.value, scale), (seed, scale)
            rejected += found["rejected_too_wide"]
            waited += found["waited"]
    assert rejected > 100
    assert waited > 1000


@pytest.mark.parametrize("policy", ReferencePolicy)
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1, 3), Fraction(3, 4)])
def test_a_real_trace_at_capacities_that_nobody_published(
    policy: ReferencePolicy, scale: Fraction
) -> None:
    found = pools.read(casetables.data("lcg-20-sites-6h"))
    jobs = found.jobs[:JOBS]

    made = reference.run(jobs, found.capacity, policy, scale).as_dict()

    assert made["waited"] or scale > Fraction(1, 2)
    assert made == again(jobs, found.capacity, policy.value, scale)
