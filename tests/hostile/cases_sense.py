"""Objects that are formed well and ask for what cannot be (F62): taken by every channel, and told
in a condition.
"""

from dataclasses import dataclass
from typing import Any

from tests.hostile.cases_objects import placed, spec
from tests.hostile.table import Case
from tests.unit.cli.files import pjs, psvc, quota


@dataclass(frozen=True)
class SenseCase(Case):
    """The workload is `given`; `words` stand in the decision's message."""

    reason: str = ""
    """Why copies are missing."""
    beside: tuple[Any, ...] = ()
    """Objects that stand beside the workload."""


def divided(**division: Any) -> dict[str, Any]:
    obj = placed(division=division)
    obj["spec"]["replicas"] = 4
    return obj


def account(name: str, parent: str, **tiers: Any) -> dict[str, Any]:
    obj = quota(name, **tiers)
    obj["spec"]["parent"] = parent
    return obj


def resources(**requests: str) -> dict[str, Any]:
    obj = psvc("evil", 4)
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return obj


GROUPS = [
    {"name": "first", "names": ["atlantis"]},
    {"name": "second", "selector": {"matchLabels": {"zone": "moon"}}},
]
ZEROS = [{"weight": 0, "names": ["a"]}, {"weight": 0, "names": ["b"]}]

SENSE: tuple[SenseCase, ...] = (
    SenseCase(
        "weights that are all zero",
        "F62",
        divided(strategy="Weighted", weights=ZEROS),
        words="spec.placement.division.weights are 0",
        reason="Misconfigured",
    ),
    SenseCase(
        "weights for clusters that are not there",
        "F62",
        divided(strategy="Weighted", weights=[{"weight": 5, "names": ["atlantis"]}]),
        words="no cluster with room has a weight",
        reason="NotSelected",
    ),
    SenseCase(
        "only clusters that are not there",
        "F62",
        placed(clusters={"names": ["atlantis"]}),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "every cluster excluded",
        "F62",
        placed(clusters={"exclude": ["a", "b"]}),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "named and excluded",
        "F62",
        placed(clusters={"names": ["a"], "exclude": ["a"]}),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "a selector that selects nothing",
        "F62",
        placed(clusters={"selector": {"matchLabels": {"zone": "moon"}}}),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "a selector that contradicts itself",
        "F62",
        placed(
            clusters={
                "selector": {
                    "matchExpressions": [
                        {"key": "zone", "operator": "Exists"},
                        {"key": "zone", "operator": "DoesNotExist"},
                    ]
                }
            }
        ),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "least per cluster above all room",
        "F62",
        divided(minPerCluster=1000),
        words="minPerCluster 1000 keeps clusters out",
        reason="BelowMinimum",
    ),
    SenseCase(
        "most per cluster is none",
        "F62",
        divided(maxPerCluster=0),
        words="maxPerCluster 0 is reached",
        reason="AtMaximum",
    ),
    SenseCase(
        "groups of no cluster",
        "F62",
        divided(groups=GROUPS),
        words="selects none of the 2 clusters",
        reason="NoMatchingCluster",
    ),
    SenseCase(
        "spread by a label nobody has",
        "F62",
        placed(
            spread=[
                {"topologyKey": "planet", "minDomains": 2, "whenUnsatisfiable": "DoNotSchedule"}
            ]
        ),
        words="lack the label of a DoNotSchedule spread rule",
        reason="SpreadUnsatisfiable",
    ),
    SenseCase(
        "all or nothing beyond all room",
        "F62",
        {**spec(replicas=1000, placement={"partial": "RequireAll"})},
        words="spec.partial is RequireAll",
        reason="InsufficientCapacity",
    ),
    SenseCase(
        "a policy that is not there",
        "F62",
        placed(policyRef="atlantis"),
        words="there is no PlacementPolicy atlantis",
        reason="Misconfigured",
    ),
    SenseCase(
        "a copy larger than any machine",
        "F57",
        resources(cpu="10k"),
        words="could hold 0 in all copies of cpu 10k",
        reason="InsufficientCapacity",
    ),
    SenseCase(
        "a copy of 10Ei",
        "F57",
        resources(memory="10Ei"),
        words="10Ei is larger than anything a cluster can hold",
        reason="Misconfigured",
    ),
    SenseCase(
        "a copy of a resource nobody has",
        "F57",
        resources(**{"example.com/unicorn": "1"}),
        words="example.com/unicorn 1",
        reason="InsufficientCapacity",
    ),
    SenseCase(
        "a million copies",
        "F60",
        spec(replicas=1_000_000),
        words="of 1000000 copies are placed",
        reason="InsufficientCapacity",
    ),
    SenseCase(
        "a million copies everywhere",
        "F60",
        spec(replicas=1_000_000, placement={"division": {"strategy": "Duplicate"}}),
        words="of 2000000 copies are placed",
        reason="InsufficientCapacity",
    ),
    SenseCase(
        "a hundred thousand shards and no slot",
        "F62",
        pjs("evil", 100_000, parallelism=0),
        words="spec.parallelism is 0",
        reason="Suspended",
    ),
    SenseCase(
        "quota of nothing",
        "F62",
        psvc("evil", 4),
        beside=(quota("feed", OnDemand={"max": {"cpu": "0"}}),),
        words="FederatedQuota feed allows 0 cpu",
        reason="ExceedsMaxQuota",
    ),
    SenseCase(
        "quotas that are parents of each other",
        "F62",
        psvc("evil", 400),
        beside=(
            account("feed", "other", OnDemand={"guaranteed": {"cpu": "1"}}),
            account("other", "feed", OnDemand={"guaranteed": {"cpu": "1"}}),
        ),
        words="FederatedQuota feed allows 1 cpu",
        reason="ExceedsMaxQuota",
    ),
)
