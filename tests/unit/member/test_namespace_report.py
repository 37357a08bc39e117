"""What a member reports of ResourceQuotas and LimitRanges of its namespaces."""

from typing import Any

import pytest

from federator.api import capacityfields
from federator.api.namespacefields import MAX_NAMESPACES, MAX_PER_NAMESPACE
from federator.embedded.controllers import NodePool
from federator.member.cache import limits
from federator.model.fleet import Capacity
from federator.model.rules.namespaces import LimitRange, QuotaLeft
from tests.faults import boxes
from tests.unit.member.memberworld import MemberWorld, block, in_member, service, template

KIND = "ClusterCapacity"
NODES = (NodePool(count=4, allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"}),)


def quota(name: str = "compute", namespace: str = "feed", **hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": hard},
    }


def range_of(*entries: dict[str, Any], name: str = "sizes") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "feed"},
        "spec": {"limits": list(entries)},
    }


async def reported(world: MemberWorld) -> Capacity:
    obj = await world.find(KIND, "cluster")
    return capacityfields.to_capacity((obj or {}).get("status") or {})


async def until_left(world: MemberWorld, *left: QuotaLeft) -> None:
    async def holds() -> bool:
        return (await reported(world)).quotas.get("feed", ()) == left

    await world.until(holds)


async def count(world: MemberWorld, **used: str) -> None:
    """What the quota controller of a real cluster does."""
    await world.patch("ResourceQuota", "compute", {"status": {"used": used}}, subresource="status")


@in_member(nodes=NODES)
async def test_a_member_without_quotas_reports_no_namespace(world: MemberWorld) -> None:
    await world.until_status(KIND, "cluster", nodeCount=4)
    await world.create(service(replicas=2, template=template("1"), slice=block(seq=7)))
    await world.until_status(KIND, "cluster", includesSeq=7)
    assert "namespaces" not in (await world.get(KIND, "cluster"))["status"]


@in_member(nodes=NODES)
async def test_what_a_quota_leaves_follows_its_controller(world: MemberWorld) -> None:
    await world.create(quota(cpu="10", pods="20", **{"limits.memory": "4Gi", "services": "3"}))
    await until_left(
        world,
        QuotaLeft("compute", (("cpu", 10_000), ("pods", 20)), (("memory", 4 << 30),)),
    )
    await count(world, cpu="9500m", pods="21", **{"limits.memory": "1Gi"})
    await until_left(
        world, QuotaLeft("compute", (("cpu", 500), ("pods", 0)), (("memory", 3 << 30),))
    )
    await world.delete("ResourceQuota", "compute")
    await until_left(world)


@in_member(nodes=NODES)
async def test_copies_of_slices_are_subtracted_until_the_quota_counts_their_pods(
    world: MemberWorld,
) -> None:
    await world.create(quota(pods="20"))
    await world.create(service(replicas=6, template=template("1"), slice=block(seq=7)))
    await world.until_status("PinterestService", "web", ready=6)
    # Nobody counts pods here as the controller of a real cluster does.
    await until_left(world, QuotaLeft("compute", (("pods", 14),)))
    await count(world, pods="6")
    await until_left(world, QuotaLeft("compute", (("pods", 14),)))
    await world.stop_controllers()
    await world.patch("PinterestService", "web", {"spec": {"replicas": 9}})
    await until_left(world, QuotaLeft("compute", (("pods", 11),)))


@in_member(nodes=NODES)
async def test_limit_ranges_are_reported_as_they_are_stored(world: MemberWorld) -> None:
    await world.create(
        range_of(
            {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        )
    )

    async def holds() -> bool:
        return "feed" in (await reported(world)).rules

    await world.until(holds)
    (entry,) = (await reported(world)).rules["feed"].limit_ranges
    # The API server takes a max for the default limit, and that for the default request.
    assert entry == LimitRange(
        "sizes",
        least=(("cpu", 100),),
        most=(("cpu", 2000),),
        default_requests=(("cpu", 2000),),
        default_limits=(("cpu", 2000),),
    )


@in_member(nodes=NODES)
async def test_a_member_that_may_not_read_quotas_reports_its_room(world: MemberWorld) -> None:
    """Its rights may be those of a release that did not read them."""
    await world.stop_member()
    denied = boxes.answering(
        lambda sending: sending.request.path.endswith(("/resourcequotas", "/limitranges")),
        boxes.forbidden,
    )
    with world.boxes.standing(denied):
        world.start_member()
        await world.create(service(replicas=2, template=template("1"), slice=block(seq=9)))
        await world.until_status(KIND, "cluster", includesSeq=9)


def test_only_quotas_of_pods_of_the_federation_are_read() -> None:
    obj = quota(**{"count/pods": "5", "requests.nvidia.com/gpu": "2", "requests.storage": "1Ti"})
    row = limits.quota_row(obj)
    assert row is not None
    assert row.left == QuotaLeft("compute", (("nvidia.com/gpu", 2), ("pods", 5)))
    assert not row.counted
    assert limits.quota_row(quota(services="5", configmaps="3")) is None
    selected = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
    for spec in ({"scopes": ["BestEffort"]}, {"scopeSelector": selected}):
        scoped = quota(pods="5")
        scoped["spec"] |= spec
        assert limits.quota_row(scoped) is None, spec
    follows = quota(pods="5")
    follows["spec"]["scopes"] = ["NotBestEffort"]
    assert limits.quota_row(follows) is not None


@pytest.mark.parametrize("broken", ["", "-3", "much", None, [], {"cpu": 1}])
def test_an_amount_that_cannot_be_read_bounds_nothing(broken: Any) -> None:
    obj = quota(pods="5")
    obj["spec"]["hard"]["cpu"] = broken
    read = limits.quota_row(obj)
    assert read is not None
    assert dict(read.left.requests)["pods"] == 5


@in_member(nodes=NODES)
async def test_namespaces_beyond_the_bound_are_left_out_with_a_word(world: MemberWorld) -> None:
    """Those with slices stay in; those of Kubernetes itself and of the process are no part."""
    await world.create(service(replicas=2, template=template("1"), slice=block(seq=7)))
    for at in range(MAX_NAMESPACES + 4):
        name = {0: "kube-system", 1: "federator-system", 2: "feed"}.get(at, f"a{at:03}")
        if name not in ("kube-system", "feed"):
            meta = {"name": name}
            await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        await world.create(quota(namespace=name, pods="5"))

    async def holds() -> bool:
        return len((await reported(world)).quotas) == MAX_NAMESPACES

    await world.until(holds)
    names = (await reported(world)).quotas.keys()
    assert "feed" in names
    assert not {"kube-system", "federator-system", "a259"} & names
    assert (await world.get(KIND, "cluster"))["status"]["error"] == (
        "ResourceQuotas and LimitRanges of 2 namespaces are beyond what is reported."
    )


@in_member(nodes=NODES)
async def test_of_many_quotas_of_one_namespace_the_first_are_reported(world: MemberWorld) -> None:
    for at in range(MAX_PER_NAMESPACE + 1):
        await world.create(quota(name=f"q{at}", pods=str(9 - at)))

    async def holds() -> bool:
        return len((await reported(world)).quotas.get("feed", ())) == MAX_PER_NAMESPACE

    await world.until(holds)
    assert (await world.get(KIND, "cluster"))["status"]["error"] == (
        "Namespace feed has more than 4 ResourceQuotas or entries of LimitRanges: the others are not"
        " reported."
    )
