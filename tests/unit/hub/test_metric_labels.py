"""The labelled metrics of the leading hub, label by label, against counts of their own: of the
decisions that it wrote, of those on the host, and of what the fleet has. A swapped label, or a
count under another label, is a difference. Those of the layer below: `tests/unit/kube/test_metrics`.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from prometheus_client import Histogram

from federator.hub.metering import figures
from federator.kube import metrics
from federator.kube.metrics import Metrics
from federator.kube.wire.transport import Request
from tests.unit.hub.world import World, jobset, play, service

PSVC, PJS = "PinterestService", "PinterestJobSet"
Labels = tuple[tuple[str, str], ...]
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')
GI = float(2**30)
SLOT = 200.0 * 2**20
"""What a container that asks for no memory is charged."""


class Metered(World):
    """A federation whose hub has metrics from its start, and a list of the decisions it wrote."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.federation.metrics = Metrics()
        self.decided: list[Mapping[str, Any]] = []
        """The spec of each decision, in order."""

    def heard(self, process: str, cluster: str, request: Request, status: int) -> None:
        super().heard(process, cluster, request, status)
        if "/placementdecisions" not in request.path or status >= 300:
            return
        if request.method == "POST":
            self.decided.append(json.loads(request.body)["spec"])
        elif request.method == "PATCH" and request.body.startswith(b"["):
            changed = {one["path"]: one["value"] for one in json.loads(request.body)}
            self.decided += [changed["/spec"]] if "/spec" in changed else []

    def family(self, name: str) -> dict[Labels, float]:
        """The samples of a metric that are not zero, by their labels; of a histogram its counts."""
        assert self.federation.metrics is not None
        row = next(one for one in (*metrics.TABLE, *metrics.FIGURES) if one.name == name)
        sample = f"{name}_count" if row.kind is Histogram else name
        found: dict[Labels, float] = {}
        for line in self.federation.metrics.render().decode().splitlines():
            if (match := SAMPLE.match(line)) and match[1] == sample and float(match[3]):
                found[labels(**dict(LABEL.findall(match[2])))] = float(match[3])
        return found


def labels(**values: str) -> Labels:
    return tuple(sorted(values.items()))


def decisions_written(world: Metered) -> tuple[Counter[Labels], Counter[Labels]]:
    """(decisions by kind and reason, copies that changed clusters by kind)."""
    written, moved, before = Counter[Labels](), Counter[Labels](), dict[str, dict[str, int]]()
    for spec in world.decided:
        kind, uid = spec["workload"]["kind"], spec["workload"]["uid"]
        written[labels(kind=kind, reason=spec["reason"])] += 1
        shares = {one["cluster"]: one.get("replicas", 0) for one in spec.get("shares", ())}
        former = before.get(uid, {})
        less = sum(max(count - shares.get(name, 0), 0) for name, count in former.items())
        more = sum(max(count - former.get(name, 0), 0) for name, count in shares.items())
        if former and min(less, more):
            moved[labels(kind=kind)] += min(less, more)
        before[uid] = shares
    return written, moved


async def on_the_host(world: Metered) -> dict[str, Counter[Labels]]:
    """Copies by cluster and kind, and those without a place by kind and reason, by decisions."""
    copies, short = Counter[Labels](), Counter[Labels]()
    for obj in await world.decisions():
        spec = obj["spec"]
        kind = spec["workload"]["kind"]
        for one in spec.get("shares", ()):
            copies[labels(cluster=one["cluster"], kind=kind)] += one.get(
                "slots", one.get("replicas", 0)
            )
        if spec.get("shortfall"):
            short[labels(kind=kind, reason=spec["reason"])] += spec["shortfall"]
    return {"federator_copies": copies, "federator_copies_short": short}


def resources(name: str, values: Mapping[str, tuple[float, float, float]]) -> dict[Labels, float]:
    """Cluster -> (cpu, memory, pods), as samples."""
    return {
        labels(cluster=cluster, resource=resource): amount
        for cluster, amounts in values.items()
        for resource, amount in zip(("cpu", "memory", "pods"), amounts, strict=True)
        if amount
    }


QUOTA = {
    ("company", "Reserved", "cpu", "guaranteed"): 4.0,
    ("company", "Reserved", "cpu", "used"): 4.0,
    ("company", "Reserved", "memory", "used"): 2 * GI,
    ("company", "Reserved", "pods", "used"): 8.0,
    ("company", "OnDemand", "cpu", "used"): 7.0,
    ("company", "OnDemand", "memory", "guaranteed"): 4 * GI,
    ("company", "OnDemand", "memory", "used"): 2 * GI + 3 * SLOT,
    ("company", "OnDemand", "pods", "used"): 11.0,
    ("ads", "Reserved", "cpu", "guaranteed"): 4.0,
    ("ads", "Reserved", "cpu", "used"): 4.0,
    ("ads", "Reserved", "memory", "used"): 2 * GI,
    ("ads", "Reserved", "pods", "used"): 8.0,
    ("ads", "OnDemand", "cpu", "used"): 4.0,
    ("ads", "OnDemand", "memory", "guaranteed"): 1 * GI,
    ("ads", "OnDemand", "memory", "used"): 2 * GI,
    ("ads", "OnDemand", "memory", "borrowed"): 1 * GI,
    ("ads", "OnDemand", "pods", "used"): 8.0,
    ("shop", "OnDemand", "memory", "guaranteed"): 3 * GI,
    ("shop", "OnDemand", "memory", "lent"): 1 * GI,
    ("shop", "OnDemand", "cpu", "used"): 3.0,
    ("shop", "OnDemand", "memory", "used"): 3 * SLOT,
    ("shop", "OnDemand", "pods", "used"): 3.0,
}
"""(account, tier, resource, figure) -> what 8 copies of 500m and 256Mi in each tier, and three
slots of a cpu, make of it."""


async def filled(world: Metered) -> None:
    """Two of Reserved within a quota and six beyond it, eight of OnDemand that borrow, a job set
    without tasks, and one that runs."""
    mine = {
        "Reserved": {"guaranteed": {"cpu": "4"}, "max": {"cpu": "4"}},
        "OnDemand": {"guaranteed": {"memory": "1Gi"}},
    }
    await world.create(
        "FederatedQuota", "", "company", {"tiers": {"OnDemand": {"guaranteed": {"memory": "4Gi"}}}}
    )
    for name, tiers in (("ads", mine), ("shop", {"OnDemand": {"guaranteed": {"memory": "3Gi"}}})):
        spec = {"parent": "company", "projects": [name], "namespaces": [name], "tiers": tiers}
        await world.create("FederatedQuota", "", name, spec)
    reserved = {"project": "ads", "tier": "Reserved"}
    await world.create(PSVC, "ads", "small", service(2, **reserved))
    await world.settle()
    await world.create(PSVC, "ads", "large", service(10, **reserved))
    await world.create(PSVC, "ads", "lent", service(8, project="ads"))
    await world.create(PJS, "ads", "off", {**jobset(4, 4), **reserved, "suspend": True})
    await world.settle()
    long = {"embedded.federator/run-seconds": "3600"}
    await world.create(PJS, "shop", "run", jobset(6, 3, "1", annotations=long))
    await asyncio.sleep(15)


def test_metrics_of_workloads_quota_and_room_have_the_labels_of_what_they_count() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        await filled(world)
        await world.patch("MemberCluster", "", "a", {"spec": {"cordoned": True}})
        await asyncio.sleep(figures.PASS_S + 15)

        copies = await on_the_host(world)
        for name, expected in copies.items():
            assert world.family(name) == dict(expected), name
        assert sum(copies["federator_copies"].values()) == 8 + 8 + 3
        short = {labels(kind=PSVC, reason="ExceedsMaxQuota"): 4.0}
        assert world.family("federator_copies_short") == short
        assert world.family("federator_workloads") == {
            labels(kind=PSVC, state="placed", reason="Chosen"): 2.0,
            labels(kind=PSVC, state="short", reason="ExceedsMaxQuota"): 1.0,
            labels(kind=PJS, state="placed", reason="Chosen"): 1.0,
            labels(kind=PJS, state="suspended", reason="Suspended"): 1.0,
        }
        assert world.family("federator_quota") == {
            labels(account=account, tier=tier, resource=resource, figure=figure): amount
            for (account, tier, resource, figure), amount in QUOTA.items()
        }
        assert world.family("federator_cluster_capacity") == resources(
            "capacity", dict.fromkeys("abc", (32.0, 128 * GI, 440.0))
        )
        free: dict[str, tuple[float, float, float]] = {}
        for cluster in "abc":
            services = copies["federator_copies"][labels(cluster=cluster, kind=PSVC)]
            jobs = copies["federator_copies"][labels(cluster=cluster, kind=PJS)]
            free[cluster] = (
                32.0 - 0.5 * services - jobs,
                128 * GI - services * GI / 4,
                440.0 - services - jobs,
            )
        assert world.family("federator_cluster_free") == resources("free", free)

    play(scenario, world_of=Metered)


def test_metrics_of_decisions_moves_and_failovers_have_the_labels_of_what_they_count() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        await filled(world)
        assert world.family("federator_clusters") == {labels(health="Live"): 3.0}
        assert world.family("federator_failover_brake") == {labels(brake="Normal"): 1.0}
        there = sum(
            one["replicas"]
            for obj in await world.decisions()
            for one in obj["spec"].get("shares", ())
            if one["cluster"] == "a" and obj["spec"]["workload"]["kind"] == PSVC
        )
        await world.patch("MemberCluster", "", "a", {"spec": {"drain": {"finishSeconds": 3600}}})
        await asyncio.sleep(60)
        await world.cut("b")
        await asyncio.sleep(60)

        written, moved = decisions_written(world)
        assert world.family("federator_decisions_total") == dict(written)
        assert world.family("federator_moves_total") == dict(moved)
        assert there > 0
        assert world.family("federator_evacuated_copies_total") == {
            labels(reason="Drained"): float(there)
        }
        assert world.family("federator_clusters") == {
            labels(health="Live"): 2.0,
            labels(health="Unreachable"): 1.0,
        }

    play(scenario, world_of=Metered)


SLOW = {"embedded.federator/start-delay-seconds": "3600"}


def slow(replicas: int, **more: Any) -> dict[str, Any]:
    """A service of copies that take an hour to become ready; two of them may be missing."""
    spec = service(replicas, **more, updateStrategy={"maxUnavailable": 2})
    spec["template"]["metadata"] = {"annotations": SLOW}
    return spec


def test_metrics_of_copies_that_are_not_ready_name_the_account_and_its_owner() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        tiers = {"OnDemand": {"guaranteed": {"cpu": "4"}, "max": {"cpu": "4"}}}
        owned = {"owner": {"team": "ads-team"}, "tiers": {"OnDemand": {"guaranteed": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "company", owned)
        below = {"parent": "company", "projects": ["ads"], "namespaces": ["ads"], "tiers": tiers}
        await world.create("FederatedQuota", "", "ads", below)
        alone = {"projects": ["shop"], "namespaces": ["shop"], "unknownProjects": "Allow"}
        await world.create("FederatedQuota", "", "shop", alone)
        # eight of ten copies are admitted: what the quota refuses is not missing
        await world.create(PSVC, "ads", "slow", slow(10, project="ads"))
        await world.create(PSVC, "ads", "off", {**slow(5, project="ads"), "suspend": True})
        await world.create(PSVC, "feed", "free", slow(3, project="feed"))
        await world.create(PSVC, "shop", "well", service(4, project="shop"))
        await world.create(PJS, "shop", "run", {**jobset(6, 3, "1", SLOW), "project": "shop"})
        await asyncio.sleep(figures.PASS_S + 30)

        assert world.family("federator_copies_not_ready") == {
            labels(account="ads", kind=PSVC): 8.0,
            labels(account="", kind=PSVC): 3.0,
        }
        assert world.family("federator_copies_beyond_budget") == {
            labels(account="ads", kind=PSVC): 6.0,
            labels(account="", kind=PSVC): 1.0,
        }
        assert world.family("federator_account_owner_info") == {
            labels(account="company", owner="ads-team"): 1.0,
            labels(account="ads", owner="ads-team"): 1.0,
            labels(account="shop", owner="platform"): 1.0,
            labels(account="", owner="platform"): 1.0,
        }
        await world.patch(PSVC, "ads", "slow", {"spec": {"replicas": 3}})
        await world.delete(PSVC, "feed", "free")
        await asyncio.sleep(figures.PASS_S + 30)
        assert world.family("federator_copies_not_ready") == {labels(account="ads", kind=PSVC): 3.0}
        assert world.family("federator_copies_beyond_budget") == {
            labels(account="ads", kind=PSVC): 1.0
        }

    play(scenario, world_of=Metered)


def test_metrics_of_lost_clusters_silent_processes_and_promises_name_what_they_count() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        promised = {
            "Reserved": {"guaranteed": {"cpu": "40"}},
            "OnDemand": {"guaranteed": {"cpu": "40"}},
        }
        await world.create("FederatedQuota", "", "company", {"tiers": promised})
        await asyncio.sleep(figures.PASS_S + 15)
        names = (
            "federator_cluster_lost",
            "federator_member_process_silent",
            "federator_quota_uncovered",
        )
        assert [world.family(name) for name in names] == [{}, {}, {}]

        await world.cut("b")
        await world.federation.kill("member c")
        await asyncio.sleep(180)
        assert [world.family(name) for name in names] == [
            {labels(cluster="b"): 1.0},
            {labels(cluster="c"): 1.0},
            {labels(account="company", resource="cpu"): 80.0 - 64.0},
        ]
        world.heal()
        world.federation.start_member("c")
        await asyncio.sleep(120)
        assert [world.family(name) for name in names] == [{}, {}, {}]

    play(scenario, world_of=Metered)
