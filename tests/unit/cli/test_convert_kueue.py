"""`federator convert` of Kueue's queues: accounts that have available what Kueue says that the
queues have.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest

from federator.api import federatedquota
from federator.kinds import read
from federator.model.ask import Tier
from federator.model.resources import Resources, cell
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from tests import casetables
from tests.unit.cli.files import run, write

API = "kueue.x-k8s.io/v1beta1"
Row = dict[str, Any]


def groups(flavor: str, **quotas: Row) -> list[Row]:
    rows = [{"name": resource, **quota} for resource, quota in quotas.items()]
    return [{"coveredResources": sorted(quotas), "flavors": [{"name": flavor, "resources": rows}]}]


def queue(
    name: str, cohort: str = "", flavor: str = "default", *, more: Row | None = None, **quotas: Row
) -> Row:
    spec = {
        "cohort": cohort,
        "namespaceSelector": {},
        "resourceGroups": groups(flavor, **quotas),
        **(more or {}),
    }
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def cohort(name: str, parent: str = "", flavor: str = "default", **quotas: Row) -> Row:
    spec = {"parentName": parent, "resourceGroups": groups(flavor, **quotas)}
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def local(name: str, namespace: str, of: str) -> Row:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": of}}


def converted(tmp_path: Path, *objs: Row) -> tuple[dict[str, Row], str]:
    """(accounts' specs by name, what is told)."""
    done = run("convert", write(tmp_path, "kueue.yaml", *objs))
    assert done.exit_code == 0, done.output
    made = read.load_yaml(done.stdout) if done.stdout else []
    return {obj["metadata"]["name"]: obj["spec"] for obj in made}, done.stderr


def test_queues_become_accounts_below_their_cohort_and_from_their_namespaces(
    tmp_path: Path,
) -> None:
    ads = queue(
        "ads",
        "company",
        more={"fairSharing": {"weight": "2"}, "preemption": {"reclaimWithinCohort": "Any"}},
        cpu={"nominalQuota": "10", "borrowingLimit": "5"},
        memory={"nominalQuota": "36Gi"},
    )
    feed = queue("feed", "company", cpu={"nominalQuota": 9, "lendingLimit": "4"})

    specs, told = converted(
        tmp_path, ads, feed, local("main", "team-ads", "ads"), local("x", "y", "gone")
    )

    assert specs["company"] == {
        "tiers": {"OnDemand": {"guaranteed": {"cpu": "19", "memory": "36Gi"}}},
        "ordering": "FairShare",
    }
    assert specs["ads"] == {
        "parent": "company",
        "projects": ["ads"],
        "namespaces": ["team-ads"],
        "weight": 2,
        "tiers": {
            "OnDemand": {
                "guaranteed": {"cpu": "10", "memory": "36Gi"},
                "borrowingLimit": {"cpu": "5"},
            }
        },
        "preemption": {"reclaim": "Any"},
    }
    limits = specs["feed"]["tiers"]["OnDemand"]
    assert limits["lendingLimit"] == {"cpu": "4"}
    assert limits["borrowingLimit"] == {"memory": "0"}, (
        "a queue has nothing of a resource that it does not cover"
    )
    assert "converted FederatedQuota/ads: from ClusterQueue/ads, LocalQueue/main" in told
    assert "left      LocalQueue/x: spec.clusterQueue: gone is not converted" in told
    assert told.splitlines()[-1] == "4 objects: 2 converted, 1 absorbed, 1 left alone"


def test_flavors_become_domains_of_clusters_with_room(tmp_path: Path) -> None:
    ads = queue("ads", cpu={"nominalQuota": "1"})
    ads["spec"]["resourceGroups"][0]["flavors"].append(
        {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    )
    ads["spec"]["flavorFungibility"] = {"whenCanBorrow": "TryNextFlavor"}
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    flavors = [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("default", {}), ("spot", {"nodeTaints": [taint]}))
    ]
    load = {"apiVersion": API, "kind": "Workload", "metadata": {"name": "w"}, "spec": {}}

    specs, _ = converted(tmp_path, ads, *flavors, load)

    assert [domain["name"] for domain in specs["ads"]["domains"]] == ["default", "spot"]
    assert specs["ads"]["domains"][1]["selector"] == {"matchLabels": {"flavor": "spot"}}
    assert specs["ads"]["domains"][1]["tiers"] == {"OnDemand": {"guaranteed": {"cpu": "2"}}}
    assert specs["ads"]["domainChoice"] == {"whenCanBorrow": "TryNextDomain"}
    assert specs["spot"]["taints"] == [taint]
    assert specs["default"] == {}


def test_a_job_of_a_queue_is_of_the_project_of_its_account(tmp_path: Path) -> None:
    container = {"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    specs, _ = converted(
        tmp_path, queue("ads", cpu={"nominalQuota": 1}), local("main", "team", "ads"), job
    )

    assert specs["train"]["project"] == "ads"
    assert specs["ads"]["namespaces"] == ["team"]


@pytest.mark.parametrize(
    ("objs", "told"),
    [
        (
            (cohort("a", "b", cpu={"nominalQuota": 1}), cohort("b", "a", cpu={"nominalQuota": 1})),
            "left      Cohort/a: spec.parentName: the cohorts a, b are above each other",
        ),
        (
            (queue("a"),),
            "left      ClusterQueue/a: spec.resourceGroups: it covers no resource",
        ),
        (
            (queue("a", more={"stopPolicy": "Hold"}, cpu={"nominalQuota": 1}),),
            (
                "left      ClusterQueue/a: spec.stopPolicy of ClusterQueue/a: a queue that is "
                "held cannot be said"
            ),
        ),
    ],
)
def test_what_cannot_be_said_is_left_with_its_field(
    tmp_path: Path, objs: tuple[Row, ...], told: str
) -> None:
    specs, text = converted(tmp_path, *objs)
    assert specs == {}
    assert told in text


@pytest.mark.parametrize("amount", ["lots", "-1", "1e30"])
def test_an_amount_that_is_none_is_refused_with_its_object(tmp_path: Path, amount: str) -> None:
    done = run("convert", write(tmp_path, "kueue.yaml", queue("a", cpu={"nominalQuota": amount})))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "ClusterQueue/a: spec.resourceGroups: nominalQuota of cpu" in done.stderr


def _objects(case: Row) -> list[Row]:
    """The queues of a recorded case as Kueue's objects."""
    objs = []
    for node in [*case["input"]["cohorts"], *case["input"]["queues"]]:
        made = [
            {
                "flavors": [
                    {
                        "name": flavor["flavor"],
                        "resources": [
                            {
                                "name": name,
                                **{
                                    "nominalQuota" if key == "nominal" else key: one
                                    for key, one in quotas.items()
                                },
                            }
                            for name, quotas in flavor["quotas"].items()
                        ],
                    }
                    for flavor in group
                ]
            }
            for group in node["groups"]
        ]
        is_queue = node in case["input"]["queues"]
        above = (
            {"cohort": (node.get("cohort") or "").lower()}
            if is_queue
            else {"parentName": (node.get("parent") or "").lower()}
        )
        kind = "ClusterQueue" if is_queue else "Cohort"
        spec = {**above, "resourceGroups": made}
        objs.append(
            {
                "apiVersion": API,
                "kind": kind,
                "metadata": {"name": node["name"].lower()},
                "spec": spec,
            }
        )
    return objs


def test_the_accounts_have_available_what_kueue_says(tmp_path: Path) -> None:
    for case in casetables.cases("kueue_quota_preemption"):
        if case["kind"] != "available":
            continue
        specs, _ = converted(tmp_path, *_objects(case))
        accounts = [
            federatedquota.to_account({"metadata": {"name": name, "uid": name}, "spec": spec})
            for name, spec in specs.items()
        ]
        used: dict[str, Row] = case["input"]["usageMilli"]

        def usage(project: str, tier: Tier, used: dict[str, Row] = used) -> Resources:
            amounts = used.get(project, {}) if tier is Tier.ON_DEMAND else {}
            in_flavors = {
                cell("cpu", at.partition("/")[0]): amount for at, amount in amounts.items()
            }
            return Resources({"cpu": sum(amounts.values())} | in_flavors)

        tree = Tree(accounts)
        uses = Uses(tree, usage)
        for name, expected in case["expected"]["availableMilli"].items():
            flat = "cpu" in tree.names(name, Tier.ON_DEMAND)
            cells = ["cpu" if flat else cell("cpu", at.partition("/")[0]) for at in expected]
            found = [uses.left(name, Tier.ON_DEMAND, one) or 0 for one in cells]
            available = found[0]
            if (case["name"], name) == ("available-002", "cq2"):
                assert available == 10_000, (
                    "what it does not lend is its own, though others are above their limits"
                )
            else:
                assert found == list(expected.values()), (case["name"], name)


def test_the_queues_of_the_recorded_cycles_are_converted(tmp_path: Path) -> None:
    for case in casetables.cases("kueue_cycle_half"):
        if case["input"]["queues"]:
            specs, _ = converted(tmp_path, *_objects(case))
            nodes = itertools.chain(case["input"]["cohorts"], case["input"]["queues"])
            assert {node["name"].lower() for node in nodes} <= specs.keys(), case["name"]


def test_cohorts_of_v1alpha1_are_read_as_later_ones(tmp_path: Path) -> None:
    older = {**cohort("team", cpu={"nominalQuota": "2"}), "apiVersion": "kueue.x-k8s.io/v1alpha1"}
    specs, told = converted(tmp_path, older, queue("ads", "team", cpu={"nominalQuota": "3"}))
    assert specs["team"]["tiers"] == {"OnDemand": {"guaranteed": {"cpu": "5"}}}
    assert specs["ads"]["parent"] == "team"
    assert "converted FederatedQuota/team: from Cohort/team" in told


def test_a_cohort_below_one_that_is_not_given_is_named(tmp_path: Path) -> None:
    specs, told = converted(
        tmp_path,
        cohort("team", "company"),
        queue("ads", "team", cpu={"nominalQuota": "3"}),
    )
    assert specs["team"]["parent"] == "company"
    assert specs["company"]["tiers"] == {"OnDemand": {"guaranteed": {"cpu": "3"}}}
    assert "spec.parentName of Cohort/team: no Cohort company is given" in told


def test_a_given_account_below_one_that_is_neither_given_nor_made_is_an_error(
    tmp_path: Path,
) -> None:
    account: Row = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": "feed"},
        "spec": {"parent": "company", "projects": ["feed"]},
    }
    ads = queue("ads", "company", cpu={"nominalQuota": "3"})
    assert converted(tmp_path, account, ads)[0]["feed"]["parent"] == "company"
    account["spec"]["parent"] = "compny"
    done = run("convert", write(tmp_path, "kueue.yaml", account, ads))
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        "FederatedQuota/feed: spec.parent: is compny, and no FederatedQuota of that" in done.stderr
    )


def test_what_a_workload_loses_is_named(tmp_path: Path) -> None:
    pods = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    sets = [{"name": name, "count": 2, "minCount": 1, "template": {"spec": pods}} for name in "ab"]
    assigned = [{"name": name, "flavors": {"cpu": "default"}, "count": 2} for name in "ab"]
    load = {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"queueName": "main", "podSets": sets},
        "status": {
            "admission": {"clusterQueue": "ads", "podSetAssignments": assigned},
            "conditions": [{"type": "Evicted", "status": "True"}],
        },
    }
    ads = queue("ads", cpu={"nominalQuota": "9"})
    _, told = converted(tmp_path, ads, local("main", "team", "ads"), load)
    assert "status.conditions: Evicted is not carried over" in told
    assert "spec.podSets[0].minCount is not carried over: the pod sets start together" in told
