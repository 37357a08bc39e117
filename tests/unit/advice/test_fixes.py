"""Every fix that is printed, made by its own line of kubectl, makes the engine place what it
promises.
"""

import copy
import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.advice import search, trials
from federator.cli.files import place
from federator.embedded.apply import patches
from federator.hub.placing import offline
from federator.kinds import read
from federator.model.names import WorkloadKey
from tests.examples import dear_examples
from tests.unit.cli.files import member, pjs, policy, psvc, quota

AS_OF = 1_790_000_000.0
PROFILE = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "RuntimeProfile",
    "metadata": {"name": "default"},
    "spec": {
        "sidecars": [
            {
                "name": "logs",
                "container": {
                    "image": "registry/logs:1",
                    "resources": {"requests": {"cpu": "20m"}},
                },
            }
        ],
    },
}
TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
PRICE = {"key": "price", "operator": "Lt", "value": "1"}
Objects = list[dict[str, Any]]


def rarely(one_in: int) -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * (one_in - 1) + [True])


@st.composite
def members(draw: st.DrawFn, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"cordoned": True} if draw(rarely(4)) else {}
    if draw(rarely(4)):
        spec["taints"] = [TAINT]
    if draw(rarely(5)):
        spec["usable"] = "50%"
    if draw(rarely(6)):
        spec["tiers"] = ["Reserved"]
    if draw(rarely(6)):
        spec["projects"] = ["ads"]
    found = member(
        name, draw(st.integers(0, 3)), cpu=draw(st.sampled_from(("2", "4", "7"))), **spec
    )
    if draw(rarely(3)):
        most = draw(st.integers(0, 2))
        shape = {"cpu": draw(st.sampled_from(("2", "4"))), "memory": "16Gi"}
        found["spec"]["scaleUp"] = [{"name": "m6i", "shape": shape, "max": most, "minutes": 5}]
    if draw(rarely(3)):
        found["spec"]["pricePerHour"] = draw(st.sampled_from(("0.5", "2")))
    found["metadata"]["labels"] = (
        {"zone": draw(st.sampled_from(("z1", "z2", "z3")))} if not draw(rarely(6)) else {}
    )
    if draw(rarely(6)):
        found["status"]["conditions"] = [
            {"type": "Ready", "status": draw(st.sampled_from(("False", "Unknown")))}
        ]
    return found


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    division: dict[str, Any] = {
        "strategy": draw(st.sampled_from(("Capacity", "Spread", "Weighted", "Pack")))
    }
    if draw(rarely(3)):
        division["maxPerCluster"] = draw(st.integers(1, 4))
    if draw(rarely(3)):
        division["maxClusters"] = draw(st.integers(1, 2))
    if draw(rarely(4)) and division.get("maxPerCluster", 9) >= 2:
        division["minPerCluster"] = 2
    if draw(rarely(2)) and division["strategy"] == "Weighted":
        division["weights"] = [
            {"weight": 2, "names": [draw(st.sampled_from(("east", "eats", "west")))]}
        ]
    spec: dict[str, Any] = {"division": division}
    if draw(rarely(4)):
        spec["clusters"] = draw(
            st.sampled_from(
                (
                    {"names": ["east", "wset"]},
                    {"exclude": ["west"]},
                    {"selector": {"matchLabels": {"zone": "z1"}}},
                    {"properties": [{"key": "labels.zone", "operator": "In", "value": "z1"}]},
                    {"properties": [PRICE, {"key": "cpu.free", "operator": "Gt", "value": "5"}]},
                    {"properties": [{"cel": "cluster.price < 1.0"}]},
                    {"anyOf": [{"names": ["wset"]}, {"properties": [PRICE]}]},
                )
            )
        )
    if draw(rarely(3)):
        hard = draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway")))
        skew, domains = draw(st.integers(0, 2)), draw(st.integers(1, 3))
        spec["spread"] = [
            {
                "topologyKey": "zone",
                "maxSkew": skew,
                "minDomains": domains,
                "whenUnsatisfiable": hard,
            }
        ]
    if draw(rarely(5)):
        spec["partial"] = "RequireAll"
    if draw(rarely(3)):
        spec["scaleUp"] = draw(st.sampled_from(("Never", "Never", "Prefer")))
    return spec


@st.composite
def hosts(draw: st.DrawFn) -> tuple[WorkloadKey, Objects]:
    objs: Objects = [
        draw(members(name)) for name in ("east", "west", "north")[: draw(st.integers(1, 3))]
    ]
    fields: dict[str, Any] = {"priority": 7} if draw(rarely(4)) else {}
    match draw(st.sampled_from(("default", "match", "inline"))):
        case "match":
            objs.append(policy(**draw(policies())))
        case "inline":
            fields["placement"] = draw(policies())
    if draw(rarely(2)):
        limits = quota(
            draw(st.sampled_from(("feed", "feed", "ads"))),
            OnDemand={
                draw(st.sampled_from(("guaranteed", "max"))): {"cpu": str(draw(st.integers(1, 8)))}
            },
        )
        if draw(rarely(4)):
            limits["spec"]["maxPriority"] = 5
        if draw(rarely(5)):
            limits["spec"]["namespaces"] = ["elsewhere"]
        objs.append(limits)
    if draw(rarely(2)):
        objs.append(PROFILE)
    if draw(st.booleans()):
        workload = psvc(
            replicas=draw(st.integers(1, 12)),
            cpu=draw(st.sampled_from(("1", "1500m", "3"))),
            **fields,
        )
    else:
        workload = pjs(shards=draw(st.integers(1, 12)), **fields)
    return WorkloadKey(workload["kind"], "feed", workload["metadata"]["name"]), [*objs, workload]


def situation(objs: Objects) -> offline.Situation:
    return offline.read(copy.deepcopy(objs), AS_OF)


def placed(found: offline.Situation, key: WorkloadKey) -> int:
    workload = found.workloads[key]
    ask = found.ask_of(workload)
    assert ask is not None
    return trials.placed(trials.decided(found, workload, ask, found.snapshot))


def advised(objs: Objects, key: WorkloadKey) -> tuple[int, search.Advice]:
    """(copies that have a place now, the advice)."""
    found = situation(objs)
    workload = found.workloads[key]
    ask = found.ask_of(workload)
    assert ask is not None
    decision = trials.decided(found, workload, ask, found.snapshot)
    missing = trials.missing(ask, decision, workload.progress().done)
    return trials.placed(decision), search.advise(found, key, decision, missing)


def done_by_hand(objs: Objects, text: str) -> None:
    """What no patch does: nodes that are added, a cluster that comes back."""
    by_name = {obj["metadata"]["name"]: obj for obj in objs if obj["kind"] == "MemberCluster"}
    for count, name in re.findall(r"(\d+) more empty nodes? in (\w+)", text):
        nodes = by_name[name]["status"]["capacity"]["nodes"]
        nodes.append({**nodes[0], "count": int(count), "free": nodes[0]["allocatable"]})
    for name in re.findall(r"(\w+) is ready again", text):
        by_name[name]["status"].pop("conditions")


def run_kubectl(objs: Objects, line: str) -> None:
    """A line that patches or creates, on objects, by the embedded API's own reading of patches;
    what it makes is valid.
    """
    if line.startswith("echo "):
        _, text, *words = shlex.split(line)
        assert words == ["|", "kubectl", "create", "-f", "-"]
        objs.append(json.loads(text))
        read.check(objs[-1])
        return
    _, verb, singular, name, *rest = shlex.split(line)
    assert verb == "patch"
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    body = json.loads(options["-p"])
    for index, obj in enumerate(objs):
        if (obj["kind"].lower(), obj["metadata"]["name"]) == (singular, name):
            assert obj["metadata"].get("namespace", "") == options.get("-n", "")
            apply = patches.merge if options["--type"] == "merge" else patches.json_patch
            objs[index] = apply(obj, body)
            read.check(objs[index])
            return
    raise AssertionError(f"nothing to patch: {line}")


def applied(objs: Objects, fix: search.Fix) -> Objects:
    made = copy.deepcopy(objs)
    done_by_hand(made, fix.text)
    for line in fix.commands:
        if line.startswith(("kubectl patch ", "echo ")):
            run_kubectl(made, line)
    return made


@dear_examples()
@given(hosts())
def test_each_fix_applied_places_at_least_what_it_promises(
    host: tuple[WorkloadKey, Objects],
) -> None:
    key, objs = host
    before, advice = advised(objs, key)
    for fix in advice.fixes:
        assert fix.gains > 0
        assert placed(situation(applied(objs, fix)), key) >= before + fix.gains, fix
    assert advice.trials <= trials.MAX_TRIALS + 50


def fixes(*objs: dict[str, Any]) -> dict[str, search.Fix]:
    (workload,) = (obj for obj in objs if obj["kind"].startswith("Pinterest"))
    key = WorkloadKey(workload["kind"], "feed", workload["metadata"]["name"])
    before, advice = advised(list(objs), key)
    for fix in advice.fixes:
        assert placed(situation(applied(list(objs), fix)), key) >= before + fix.gains
    return {fix.text: fix for fix in advice.fixes}


def test_a_request_is_lowered_in_the_template_whatever_the_profile_adds() -> None:
    found = fixes(psvc(replicas=6, cpu="1"), member("a", 1, cpu="4"), PROFILE)

    fix = found["cpu request of container main 1 -> 646m"]  # 6 x (646m + 20m) = 3996m of 4
    assert (fix.gains, fix.left) == (3, 0)
    assert fix.commands == (
        'kubectl patch pinterestservice web -n feed --type json -p \'[{"op":"replace","path":'
        '"/spec/template/spec/containers/0/resources/requests/cpu","value":"646m"}]\'',
    )


def test_a_required_term_is_left_out_and_a_cluster_labelled_as_it_asks() -> None:
    zone = {"key": "labels.zone", "operator": "In", "value": "z1"}
    found = fixes(
        policy(clusters={"properties": [zone]}), member("a", 2), psvc(replicas=4, cpu="1")
    )
    assert {
        "label a zone=z1",
        "without clusters.properties[0] (labels.zone in (z1))",
    } <= found.keys()


def test_terms_over_reports_and_in_cel_are_left_out() -> None:
    free = {"key": "cpu.free", "operator": "Gt", "value": "100"}
    found = fixes(policy(clusters={"properties": [free]}), member("a", 2), psvc(replicas=4))
    assert "without clusters.properties[0] (cpu.free > 100)" in found
    cheap = {"cel": "cluster.price < 1.0"}
    two = policy(clusters={"properties": [free, cheap]})
    found = fixes(two, member("a", 2, pricePerHour="3"), psvc(replicas=4))
    assert any(
        "properties[0] (cpu.free > 100)" in text and "(cluster.price < 1.0)" in text
        for text in found
    )


def test_a_cluster_is_added_to_the_alternatives() -> None:
    either = {"anyOf": [{"names": ["b"]}, {"properties": [PRICE]}]}
    found = fixes(policy(clusters=either), member("a", 2, pricePerHour="3"), psvc(replicas=4))
    assert "add a to clusters.anyOf" in found


def test_nodes_that_a_policy_does_not_count_are_counted() -> None:
    grows = [{"name": "m6i", "shape": {"cpu": "4", "memory": "16Gi"}, "max": 9, "minutes": 5}]
    found = fixes(policy(scaleUp="Never"), member("a", 1, cpu="2", scaleUp=grows), psvc(replicas=6))
    assert found["scaleUp Never -> WhenShort"].gains == 4


def test_the_most_nodes_of_a_class_are_raised_by_as_few_as_do() -> None:
    grows = [{"name": "m6i", "shape": {"cpu": "4", "memory": "16Gi"}, "max": 1, "minutes": 5}]
    found = fixes(member("a", 1, cpu="2", scaleUp=grows), psvc(replicas=13))
    assert found["scaleUp of a: max of m6i 1 -> 3"].gains == 7


def test_a_term_about_other_workloads_is_left_out() -> None:
    near = {"affinity": [{"selector": {"matchLabels": {"app": "cache"}}, "topologyKey": "zone"}]}
    found = fixes(policy(workloadAffinity=near), member("a", 2), psvc(replicas=4))
    assert found["without workloadAffinity.affinity[0]"].gains == 4


def test_two_causes_that_bind_together_are_lifted_together() -> None:
    limits = quota(OnDemand={"max": {"cpu": "4"}})
    found = fixes(psvc(replicas=8, cpu="1"), member("a", 1), member("b", 1, cordoned=True), limits)

    fix = found["uncordon b and FederatedQuota feed tiers.OnDemand.max.cpu 4 -> 8"]
    assert (fix.gains, fix.left, len(fix.commands)) == (4, 0, 2)


def test_the_limits_of_an_account_and_of_the_one_above_it_are_raised_together() -> None:
    company = quota("company", OnDemand={"guaranteed": {"cpu": "3"}})
    feed = quota(OnDemand={"guaranteed": {"cpu": "1"}, "borrowingLimit": {"cpu": "1"}})
    feed["spec"]["parent"] = "company"
    found = fixes(psvc(replicas=5, cpu="1"), member("a", 2), company, feed)

    fix = found[
        "FederatedQuota feed tiers.OnDemand.borrowingLimit.cpu 1 -> 4, "
        "FederatedQuota company tiers.OnDemand.guaranteed.cpu 3 -> 5"
    ]
    assert (fix.gains, fix.left, len(fix.commands)) == (3, 0, 2)


@pytest.mark.parametrize("free", ["0", "4"])
def test_more_nodes_are_as_many_as_the_engine_needs(free: str) -> None:
    small = member("a", 1, cpu="4", usable="50%")
    small["status"]["capacity"]["nodes"][0]["free"] = {"cpu": free, "memory": "16Gi", "pods": "110"}
    found = fixes(psvc(replicas=8, cpu="1"), small)

    assert any("more empty node" in text for text in found)


def test_a_bound_is_loosened_by_as_little_as_does() -> None:
    found = fixes(
        psvc(replicas=10), member("a", 3), member("b", 3), policy(division={"maxPerCluster": 3})
    )

    assert "maxPerCluster 3 -> 5" in found
    assert found["maxPerCluster 3 -> 5"].commands == (
        """kubectl patch placementpolicy rules -n feed --type merge -p '{"spec":{"division":{"maxPerCluster":5}}}'""",
    )


def test_nothing_is_advised_inside_a_policy_that_does_not_exist() -> None:
    found = fixes(
        psvc(replicas=10, placement={"policyRef": "nosuch"}), member("a", 1, taints=[TAINT])
    )

    assert found == {}


def test_what_is_asked_whole_may_be_asked_smaller() -> None:
    found = fixes(psvc(replicas=10, placement={"partial": "RequireAll"}), member("a", 1))

    assert (found["replicas 10 -> 4"].gains, found["partial RequireAll -> Allow"].gains) == (4, 4)


def test_objects_as_files_are_what_placing_reads(tmp_path: Any) -> None:
    """The objects of these tests are valid input of `federator place`."""
    path = tmp_path / "all.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [psvc(), member("a"), PROFILE]})
    )

    assert len(place.load([str(path)], "feed")) == 3


def test_a_project_without_an_account_gets_one_or_is_allowed() -> None:
    found = fixes(psvc(), member("a"), quota("ads"))

    assert found.keys() == {
        "new FederatedQuota feed, without limits, for project feed",
        "FederatedQuota ads unknownProjects -> Allow",
    }
    assert {(fix.gains, fix.left) for fix in found.values()} == {(4, 0)}


def test_a_project_whose_name_an_account_has_is_added_to_that_account() -> None:
    account = quota("feed")
    account["spec"] = {"projects": ["other"]}
    refusing = quota("ads")
    refusing["spec"]["unknownProjects"] = "Refuse"

    assert fixes(psvc(), member("a"), account, refusing).keys() == {
        "FederatedQuota feed also for project feed",
        "FederatedQuota ads unknownProjects -> Allow",
    }
