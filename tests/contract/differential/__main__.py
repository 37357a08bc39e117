"""The long campaign: `python -m tests.contract.differential --seeds 0-4999`. Ends with 1 if
anything differs.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.contract.differential import campaign
from tests.contract.differential.campaign import Report
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.ranges import numbers

_PIECE = 25


def main() -> None:
    arguments = _arguments()
    seeds: list[int] = arguments.seeds
    print(f"seeds {seeds[0]}-{seeds[-1]}", flush=True)
    binaries = build.find()
    if binaries is None:
        raise SystemExit("There is no real control plane: run `make kube` first.")
    begun = time.monotonic()
    total = Report()
    with ControlPlane(binaries) as plane:
        cluster = plane.cluster("differential")
        asyncio.run(_install(cluster.url, cluster.token, cluster.ca_file.read_bytes()))
        pieces = [seeds[start : start + _PIECE] for start in range(0, len(seeds), _PIECE)]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
            access = (cluster.url, cluster.token, cluster.ca_file.read_bytes())
            work = [
                pool.submit(campaign.play, *access, piece, arguments.shrink) for piece in pieces
            ]
            for number, future in enumerate(work, start=1):
                report = future.result()
                total.add(report)
                for seed, told in report.failures:
                    print(f"\nseed {seed}:\n{told}", flush=True)
                if number % 4 == 0:
                    done = f"{total.sequences} of {len(seeds)} sequences"
                    print(
                        f"# {done}, {len(total.failures)} differ, {time.monotonic() - begun:.0f} s",
                        flush=True,
                    )
    print(f"\n{campaign.table(total.covered)}\n")
    for name, count in sorted(total.excused.items()):
        print(f"exception {name}: {count}")
    print(
        f"turn of a second, not seen again: {' '.join(map(str, sorted(total.passing))) or 'none'}"
    )
    spent = time.monotonic() - begun
    print(
        f"seeds {seeds[0]}-{seeds[-1]}: {total.sequences} sequences, {total.requests} "
        f"requests in {spent:.0f} s"
    )
    print(
        f"{len(total.failures)} sequences differ: "
        f"{' '.join(str(seed) for seed, _ in sorted(total.failures))}"
    )
    sys.exit(bool(total.failures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.contract.differential", description=__doc__
    )
    parser.add_argument(
        "--seeds", type=numbers, default="0-4999", help="as in 7,12-15 (default: 0-4999)"
    )
    parser.add_argument(
        "--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (default: 2)"
    )
    parser.add_argument(
        "--no-shrink", dest="shrink", action="store_false", help="show failing sequences as drawn"
    )
    return parser.parse_args()


async def _install(url: str, token: str, ca_pem: bytes) -> None:
    real = campaign.connected(url, token, ca_pem)
    await campaign.install(real)
    await real.close()


if __name__ == "__main__":
    main()
