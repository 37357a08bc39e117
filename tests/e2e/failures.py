"""The failure tests at length: `python -m tests.e2e.failures [--placements 500] [--kills 50]
[--seed N] [--only NAME]`.

Real API servers and real processes; one line of figures for each story, and an error that names
what did not hold. A part of `make soak`; test_failures.py tells the same stories in short.
"""

import argparse
import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.controlplane import build
from tests.e2e import failures_fleet, failures_kills, failures_leaders, failures_members
from tests.e2e.failures_compare import Asked
from tests.e2e.failures_fleet import FailureFleet

REST_S = 30.0
PODS_OF_A_NODE = 110
Figures = dict[str, float]
Story = Callable[[FailureFleet, Asked], Figures]


def stories(placements: int, kills: int, seed: int, home: Path) -> dict[str, Story]:
    """Every story by its name, in the order in which they are told."""
    return {
        "leader-killed": lambda ground, asked: failures_leaders.leader_killed(
            ground, asked, count=100, seed=seed, rest_s=REST_S
        ),
        "leader-stopped": lambda ground, asked: failures_leaders.leader_stopped(
            ground, asked, stopped_s=30.0, seed=seed, rest_s=REST_S
        ),
        "random-kills": lambda ground, asked: failures_kills.random_kills(
            ground, asked, count=placements, kills=kills, seed=seed, rest_s=REST_S, within_s=600.0
        ),
        "server-away": lambda ground, asked: failures_members.server_away(
            ground, asked, count=30, away_s=60.0, rest_s=REST_S
        ),
        "server-restored": lambda ground, asked: failures_members.server_restored(
            ground, asked, home=home / "restored", count=24, seed=seed, rest_s=REST_S
        ),
        "server-restored-hub-killed": lambda ground, asked: failures_members.server_restored(
            ground,
            asked,
            home=home / "restored-hub-killed",
            count=24,
            seed=seed,
            rest_s=REST_S,
            restart_hub=True,
        ),
        "nodes-refuse": lambda ground, asked: failures_members.nodes_refuse(
            ground, asked, rest_s=REST_S
        ),
    }


def main() -> int:
    """Tells the stories; the exit status is the number of those that failed."""
    parser = argparse.ArgumentParser(description="Failures of real processes on real API servers.")
    parser.add_argument(
        "--placements", type=int, default=500, help="workloads of the story of random kills"
    )
    parser.add_argument("--kills", type=int, default=50, help="processes killed in it")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(1_000_000), help="default: drawn and printed"
    )
    parser.add_argument(
        "--only", action="append", default=[], help="name of a story; may be repeated"
    )
    given = parser.parse_args()
    binaries = build.find()
    if binaries is None:
        print("There is no real control plane on this machine: run `make kube`.", file=sys.stderr)
        return 1
    failed = 0
    with tempfile.TemporaryDirectory(prefix="federator-failures-") as directory:
        home = Path(directory)
        # A workload has three pods at most on average, and one of the two members may have to take
        # more than half.
        machines = max(2, given.placements * 3 // PODS_OF_A_NODE)
        print(f"seed {given.seed}, {given.placements} placements, {given.kills} kills", flush=True)
        with failures_fleet.started(home, binaries, machines=machines) as ground:
            for name, story in stories(given.placements, given.kills, given.seed, home).items():
                if not given.only or name in given.only:
                    failed += _told(ground, name, story)
    return failed


def _told(ground: FailureFleet, name: str, story: Story) -> int:
    """Tells one story; 1 when something in it did not hold. What it leaves does not harm the next
    one.
    """
    begun, asked = time.monotonic(), Asked(ground, name)
    try:
        ground.all_run()
        figures = story(ground, asked)
        _clear(asked)
    except (AssertionError, TimeoutError) as fault:
        print(f"{name}: FAILED after {time.monotonic() - begun:.0f} s: {fault}", flush=True)
        with contextlib.suppress(AssertionError, TimeoutError):
            _clear(asked)  # the next one needs the room
        return 1
    told = ", ".join(f"{what} {number:g}" for what, number in figures.items())
    print(f"{name}: ok in {time.monotonic() - begun:.0f} s: {told}", flush=True)
    return 0


def _clear(asked: Asked) -> None:
    """Mass deletions are spread over time: a hundred slices a minute, of which a workload has two
    here.
    """
    asked.clear(300.0 + 2 * len(asked.wanted))


if __name__ == "__main__":
    sys.exit(main())
