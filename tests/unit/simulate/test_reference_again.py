"""The reference policies beside a second program, written from the published definition alone: a
list of all jobs, and at every instant a scan of everything. Traces with ties, jobs without run
time, gangs wider than a cluster, unsorted rows; other capacities.
"""

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

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
    found = pools.read(casetables.data("lcg-20-sites-6h"), policy)
    jobs = found.jobs[:JOBS]

    made = reference.run(jobs, found.capacity, policy, scale).as_dict()

    assert made["waited"] or scale > Fraction(1, 2)
    assert made == again(jobs, found.capacity, policy.value, scale)


def swf(seed: int) -> str:
    """A log of the Parallel Workloads Archive: jobs on one machine, some cancelled, some with what
    they got beside what they asked for, one out of order.
    """
    chance = random.Random(seed)
    lines = [
        "; Version: 2.2",
        "; UnixStartTime: 1132444805",
        f"; MaxProcs: {chance.choice((16, 64))}",
    ]
    at_s = 0
    for number in range(1, 120):
        at_s += chance.choice((0, 0, 1, 7, 40))
        cancelled = chance.random() < 0.1
        run_s = "-1" if cancelled else chance.choice(("0", "1", "35", "7.5", "12.4", "200"))
        got, asked = chance.choice((1, 2, 5, 16, 40)), chance.choice((-1, 1, 3, 16))
        submit_s = at_s - 3 if number == 60 and at_s > 3 else at_s
        rest = f"-1 -1 {asked} 3600 -1 {5 if cancelled else 1} 1 {number % 4} -1 0 -1 -1 -1"
        lines.append(f"{number} {submit_s} {chance.randint(0, 9)} {run_s} {got} {rest}")
    return "\n".join([*lines, ""])


def parsed(text: str) -> tuple[list[ReferenceJob], dict[str, int]]:
    """Reads a log from the format's definition alone: fields 2, 4, 5 and 8, and the header."""
    size, jobs = 0, []
    for line in text.splitlines():
        cells = line.split()
        if cells[0] == ";":
            size = int(cells[2]) if cells[1] == "MaxProcs:" else size
        elif float(cells[3]) >= 0:
            asked, got = int(cells[7]), int(cells[4])
            units = asked if asked > 0 else got
            jobs.append(ReferenceJob(int(cells[1]), round(float(cells[3])), units, "swf"))
    return jobs, {"swf": size}


@pytest.mark.parametrize("policy", ReferencePolicy)
def test_a_log_of_the_archive_comes_out_as_the_definition_says(
    policy: ReferencePolicy, tmp_path: Path
) -> None:
    waited = rejected = 0
    for seed in range(12):
        text = swf(seed)
        path = tmp_path / f"log-{seed}.swf"
        path.write_text(text)
        found = pools.read(path, policy)
        jobs, capacity = parsed(text)
        for scale in SCALES:
            made = reference.run(found.jobs, found.capacity, policy, scale).as_dict()
            assert made == again(jobs, capacity, policy.value, scale), (seed, scale)
            waited += made["waited"]
            rejected += made["rejected_too_wide"]
    assert waited > 500
    assert rejected > 20
