"""S4, S4m: how many writes one workload costs, from its creation until it has settled, on an embedded
federation.

The budget is P + 2 (a decision, P slices, one settled status) for a workload whose copies come up
at once. Counted by a transport, by (resource, subresource), with Events and without leases.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from federator.kube.clock import Clock
from federator.sandbox.federation import Federation, ensure
from tests import virtual_time
from tests.bench import fleets
from tests.bench.harness import Result

CLUSTERS = 3
NATIVES = 4
"""Of each service in each member."""
STATUSES = 1.3
"""Of each slice, on the way of copies that come up at once."""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    found = virtual_time.run(_run(max(1, round(100 * scale))))
    yield from (result for result in found if result.id in wanted)


async def _run(count: int) -> list[Result]:
    ledger = fleets.Ledger()
    federation = fleets.federation(fleets.fleet(CLUSTERS), Clock(fleets.EPOCH_S), ledger)
    await federation.start()
    host = federation.client("host")
    await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
    await ensure(
        host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, "namespaces"
    )
    await federation.until_settled(120.0)
    await _first_of_their_kind(federation)
    before, of_before = ledger.by_resource("hub"), dict(ledger.of)
    members_before = _of_members(ledger)
    for index in range(count):
        await ensure(host, fleets.deployment(f"d{index}", "bench", 6), "deployments")
        await ensure(host, fleets.service(f"s{index}", "bench", 6), "pinterestservices")
    await federation.until_settled(300.0)
    per = {
        what: (number - before.get(what, 0)) / (2 * count)
        for what, number in ledger.by_resource("hub").items()
        if number != before.get(what, 0)
    }
    of = {
        name: ledger.of["hub", name]
        for index in range(count)
        for name in (f"d{index}", f"s{index}")
    }
    assert not set(of) & {name for _, name in of_before}
    worst = max(of.values())
    ours = ledger.total("hub", events=True) - sum(before.values())
    notes: dict[str, Any] = {
        "clusters": CLUSTERS,
        "hub_writes_per_workload": {what: round(number, 3) for what, number in per.items()},
        "worst_workload": worst,
        "mean": round(sum(of.values()) / len(of), 3),
        "other_hub_writes": ours - sum(of.values()),
    }
    by_members = {
        what: round(number / count, 3)
        for what, number in (_of_members(ledger) - members_before).items()
    }
    await federation.stop()
    # Reports of room are counted apart: they come by the second, not by the workload.
    of_services = sum(
        number for what, number in by_members.items() if "clustercapacities" not in what
    )
    return [
        Result("S4", ours=worst, floor=CLUSTERS + 2, notes=notes),
        Result(
            "S4m",
            ours=round(of_services, 3),
            floor=CLUSTERS * (NATIVES + STATUSES),
            notes={"writes_per_service": by_members},
        ),
    ]


def _of_members(ledger: fleets.Ledger) -> Counter[str]:
    """What member processes have written, by "METHOD resource/subresource". The Deployments that
    are carried cost them nothing: all is counted for the services."""
    found: Counter[str] = Counter()
    for (process, _, method, resource), count in ledger.writes.items():
        if process not in ("hub", "user"):
            found[f"{method} {resource}"] += count
    return found


async def _first_of_their_kind(federation: Federation) -> None:
    """Namespaces and questions to members are paid for once, not by every workload."""
    host = federation.client("host")
    await ensure(host, fleets.deployment("first-d", "bench", 6), "deployments")
    await ensure(host, fleets.service("first-s", "bench", 6), "pinterestservices")
    await federation.until_settled(120.0)
