"""Why nodes do not have a daemon, grouped by reason and told on the slice."""

from federator.embedded.controllers import NodePool
from federator.member import everynode
from federator.member.cache.rows import Node, PodRow
from federator.model.ask import PodShape
from federator.model.kubernetes.taints import Taint
from federator.model.observation import NodesWithout
from federator.model.resources import ZERO
from federator.status.reasons import Trouble
from tests.unit.member.memberworld import MemberWorld, in_member
from tests.unit.member.test_startup_taints import daemon

KIND = "PinterestDaemon"


def node(name: str, *taints: Taint, **labels: str) -> Node:
    return Node(name, True, ZERO, labels, taints, "", "")


def pod(name: str, *, ready: bool, trouble: Trouble | None = None) -> PodRow:
    return PodRow("u", "ds", name, "", False, False, PodShape(ZERO), trouble, ready=ready)


def test_every_node_is_in_the_group_of_its_first_reason() -> None:
    spec = {
        "nodeSelector": {"pool": "general"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    own = {"pool": "general"}
    nodes = [
        node("a", **own),
        node("b", Taint("gpu"), **own),
        node("c", pool="other"),
        node("d", Taint("ads"), **own),
        node("e", Taint("ads"), **own),
        node("f", Taint("node.kubernetes.io/unschedulable"), **own),
    ]
    image = Trouble(0, "ImagePullFailed", "")
    there = {"a": pod("a", ready=True), "b": pod("b", ready=False, trouble=image)}

    assert everynode.without(spec, nodes, there) == (
        NodesWithout("has taint ads:NoSchedule, which its pods do not tolerate", 2, ("d", "e")),
        NodesWithout("has a pod of it: ImagePullFailed", 1, ("b",)),
        NodesWithout("has no pod of it yet", 1, ("f",)),
        NodesWithout("is not chosen by nodeSelector or node affinity of its pods", 1, ("c",)),
    )


def test_so_many_are_named_and_all_are_counted() -> None:
    nodes = [node(f"n-{number}", Taint("ads")) for number in range(40)]
    (group,) = everynode.without({}, nodes, {})
    assert (group.count, group.names) == (40, ("n-0", "n-1", "n-2"))


@in_member(
    nodes=(
        NodePool(count=2, allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"}),
        NodePool(
            name="ads",
            count=1,
            allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"},
            taints=[{"key": "ads", "effect": "NoSchedule"}],
        ),
    )
)
async def test_a_slice_says_which_nodes_do_not_have_it(world: MemberWorld) -> None:
    await world.create(daemon())
    status = await world.until_status(KIND, "agent", ready=2)
    (group,) = status["nodesWithout"]
    assert group["why"] == "has taint ads:NoSchedule, which its pods do not tolerate"
    assert (group["count"], len(group["names"])) == (1, 1)
