"""Several seeds: what of an answer is chance, and when a difference is more than that."""

from itertools import product
from math import comb
from pathlib import Path

import pytest

from federator.simulate.report.figures import Better
from federator.simulate.sweep import seeds
from federator.simulate.sweep.seeds import Chance, Paired

SCENARIO = {
    "seed": 7,
    "fleet": {"clusters": [{"name": "a", "nodes": [{"count": 1, "cpu": 8}]}]},
    "demand": {
        "generate": [
            {
                "name": "job",
                "works": 20,
                "over": "6h",
                "tenants": {"ads": 1},
                "shard": {"cpu": 4},
                "runtime": {"median": "40m", "sigma": 1},
            }
        ]
    },
    "measures": {"never_started": {"most": 0}, "wait_max_s": {"most": "1s"}},
}


def chance(*values: float, better: Better = Better.LESS) -> Chance:
    return Chance("waited", "started late", better, values)


@pytest.mark.parametrize(
    ("count", "ends"),
    [(5, None), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (12, (3, 10)), (20, (6, 15))],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(
    count: int, ends: tuple[int, int] | None
) -> None:
    """The ranks of Conover's table A3 for 95 %."""
    assert seeds.interval(range(count, 0, -1)) == ends


@pytest.mark.parametrize("count", range(6, 13))
def test_the_interval_covers_the_median_in_95_of_100_cases_and_a_narrower_one_does_not(
    count: int,
) -> None:
    """Each value lies above the median of its distribution with one half: all ways are counted."""
    low, high = seeds.interval(range(count)) or (0, 0)

    def covered(inward: int) -> float:
        ways = (sum(above) for above in product((0, 1), repeat=count))
        below = [count - above for above in ways]
        inside = [low + inward < each <= high - inward for each in below]
        return inside.count(True) / len(inside)

    assert covered(0) >= 0.95 > covered(1)
    assert covered(0) == 1 - 2 * sum(comb(count, each) for each in range(int(low) + 1)) / 2**count


@pytest.mark.parametrize(
    ("differences", "better", "verdict"),
    [
        ((1, 2, 3, 4, 5, 6), Better.LESS, "worse"),
        ((-1, -2, -3, -4, -5, -6), Better.LESS, "better"),
        ((1, 2, 3, 4, 5, 6), Better.NEITHER, "other"),
        ((-1, 2, 3, 4, 5, 6), Better.LESS, ""),
        ((0, 2, 3, 4, 5, 6), Better.LESS, ""),
        ((2, 3, 4, 5, 6), Better.LESS, ""),  # too few to tell
        ((-1, 2, 3, 4, 5, 6, 7, 8, 9), Better.LESS, "worse"),
    ],
)
def test_better_and_worse_are_said_only_where_the_interval_leaves_out_zero(
    differences: tuple[int, ...], better: Better, verdict: str
) -> None:
    before = chance(*range(len(differences)), better=better)
    after = chance(*(at + by for at, by in enumerate(differences)), better=better)

    assert Paired(before, after).verdict == verdict


def test_figures_that_surely_differ_come_first_and_waiting_before_moves() -> None:
    def figure(key: str, by: int) -> tuple[Chance, Chance]:
        values = tuple(range(6))
        name = key
        return (
            Chance(key, name, Better.LESS, values),
            Chance(key, name, Better.LESS, tuple(value + by for value in values)),
        )

    rows = [figure("works", 0), figure("moves", 1), figure("wait_p99_s", 2), figure("waited", 0)]

    pairs = seeds.paired([row[0] for row in rows], [row[1] for row in rows])

    assert [pair.after.key for pair in pairs] == ["wait_p99_s", "moves", "works", "waited"]


def test_each_seed_is_the_simulation_of_the_scenario_with_that_seed() -> None:
    planned = seeds.tasks(SCENARIO, Path("two.yaml"), 3)
    results = {task.id: seeds.simulated(task) for task in planned}
    alone = seeds.simulated(seeds.tasks({**SCENARIO, "seed": 8}, Path("two.yaml"), 1)[0])

    assert [task.point for task in planned] == [(("seed", seed),) for seed in ("7", "8", "9")]
    assert results[planned[1].id]["figures"] == alone["figures"]
    waited = next(row for row in seeds.chances(planned, results) if row.key == "wait_max_s")
    assert len(set(waited.values)) > 1
    assert seeds.missed(planned, results) == {"wait_max_s": 3}


def test_a_comparison_measures_both_over_one_time() -> None:
    """Alone the second is measured for longer, and its means are others."""
    file = Path("two.yaml")
    longer = {**SCENARIO, "until": "30h"}
    planned = seeds.tasks({**SCENARIO, "until": "10h"}, file, 1, (file, longer))
    results = {task.id: seeds.simulated(task) for task in planned}
    (alone,) = (seeds.simulated(task) for task in seeds.tasks(longer, file, 1))

    def mean(row: object) -> object:
        return next(figure[2] for figure in row if figure[0] == "use_mean_cpu")  # type: ignore[attr-defined]

    first, second = results[planned[0].id]["figures"]
    assert mean(first) == mean(second) != mean(alone["figures"][0])


def test_a_seed_that_cannot_be_run_is_named() -> None:
    broken = {**SCENARIO, "events": [{"at": "1h", "lost": "nowhere"}]}
    planned = seeds.tasks(broken, Path("two.yaml"), 2)
    results = {task.id: seeds.simulated(task) for task in planned}

    with pytest.raises(seeds.Failed, match=r"seed 7: .*nowhere"):
        seeds.chances(planned, results)


def test_the_digest_of_a_task_tells_documents_apart() -> None:
    """Workers of a Dask cluster keep results by it."""
    other = {**SCENARIO, "warmUp": "1h"}
    (left,), (right,) = (seeds.tasks(given, Path("two.yaml"), 1) for given in (SCENARIO, other))

    assert left.id != right.id
