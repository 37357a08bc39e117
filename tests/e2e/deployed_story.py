"""Everything that a federation does in its life, told with as few objects as will do: the RBAC test
compares what the accounts asked for meanwhile with what deploy/ grants them.

Each step waits for what came of it, so that the requests of one are not lost in the next.
"""

import json
from typing import Any

import yaml

from federator.kube import tokens
from federator.kube.login import kubeconfigs
from federator.model.kubernetes import pod_security
from tests.e2e import deployed_crons, deployed_guards, deployed_training, workloads
from tests.e2e.deployed import HUB, POOL, Deployed, user
from tests.e2e.federations import POLICIES_MAX, Fleet, Shell, until
from tests.house.sources import ROOT

SPACE = ("-n", "feed")
LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "600"}
PROFILE = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "RuntimeProfile",
    "metadata": {"name": "default"},
    "spec": {
        "version": "1",
        "env": [{"name": "PINTEREST_IDENTITY_DIR", "value": "/var/run/identity"}],
    },
}
QUOTA = {
    "apiVersion": "federation.pinterest.com/v1alpha1",
    "kind": "FederatedQuota",
    "metadata": {"name": "feed"},
    "spec": {
        "projects": ["feed"],
        "namespaces": ["feed"],
        "tiers": {"OnDemand": {"max": {"cpu": "40"}}},
        "serviceAccounts": ["page"],
        "iamRoles": ["role-*"],
    },
}
INVARIANT = {
    "apiVersion": "federation.pinterest.com/v1alpha1",
    "kind": "PlacementInvariant",
    "metadata": {"name": "spread"},
    "spec": {
        "workloads": {"matchLabels": {"spread": "wanted"}},
        "rule": {"maxShare": {"topologyKey": "zone", "percent": 60}},
        "enforcement": "Warn",
    },
}
DOOR = {"port": 80, "protocol": "http", "host": "web.example"}


def tell(deployed: Deployed) -> None:
    """The whole story. Raises AssertionError where something does not come about."""
    fleet = deployed.fleet
    fleet.host("create", "ns", "feed")
    fleet.host("apply", "-f", fleet.manifest(PROFILE, QUOTA, INVARIANT))
    _there_is_storage(fleet)
    _asked_before_there_is_a_report(deployed)
    _tokens_are_renewed(deployed)
    _a_service_grows_and_shrinks(fleet)
    _what_runs_is_looked_into(fleet)
    _ten_revisions_are_kept(fleet)
    _drift_is_repaired(fleet)
    _what_a_service_may_have_comes_and_goes(fleet)
    _what_a_service_gives_up_goes(fleet)
    _a_namespace_has_another_level(fleet)
    _an_edit_is_held_back(fleet)
    _more_policies_than_a_namespace_may_have(fleet)
    _a_plain_deployment(fleet)
    _a_daemon_comes_and_goes(fleet)
    _ordinals_come_back_to_their_claims(fleet)
    _a_jobset_that_goes_when_its_time_is_over(fleet)
    deployed_training.tell(fleet)
    _a_jobset_that_completes(fleet)
    deployed_guards.tell(fleet)
    deployed_crons.tell(fleet)
    _a_cluster_is_probed(fleet)
    _shards_are_withdrawn(deployed)
    _everything_goes(fleet)
    _clusters_leave(deployed)


def _there_is_storage(fleet: Fleet) -> None:
    """These clusters have no provisioner."""
    for shell in fleet.members.values():
        shell("apply", "-f", fleet.manifest(*workloads.volumes(12)))


def _asked_before_there_is_a_report(deployed: Deployed) -> None:
    """A workload is there before the member process of b: the hub itself makes the ClusterCapacity
    that asks.
    """
    fleet = deployed.fleet
    web = workloads.service("web", "feed", 12, project="feed", loadBalancers=[DOOR])
    web["spec"]["template"]["spec"]["nodeSelector"] = (
        POOL  # a histogram of free room cannot answer that
    )
    fleet.host("apply", "-f", fleet.manifest(web))
    fleet.ready("feed", "psvc/web")
    until(
        lambda: fleet.members["b"].items("clustercapacities") != [],
        lambda: "the hub has asked nothing of b",
    )
    deployed.start_member("b")
    deployed.ready("a", "b")


def _token(fleet: Fleet, member: str) -> tuple[str, tokens.Token]:
    """The hub's token in a member as the host has it, and what it says of itself."""
    secret = fleet.host.json("get", "secret", member, "-n", "federator-clusters")
    text = kubeconfigs.member_access(
        kubeconfigs.in_secret(secret, member), allow_loopback=True
    ).token
    found = tokens.read(text)
    assert found is not None
    return text, found


def _tokens_are_renewed(deployed: Deployed) -> None:
    """By the hub, which may make a token of its own account and of no other, and use the Secrets of
    members by name.
    """
    fleet = deployed.fleet
    first, said = _token(fleet, "a")
    assert said.ends_s is not None, "a member that joins gets no token without end"
    until(
        lambda: _token(fleet, "a")[0] != first, lambda: "the hub's token in a was not renewed", 90
    )
    for shell, words, allowed in (
        (
            fleet.members["a"],
            ("create", "serviceaccounts/federator-hub", "--subresource=token"),
            True,
        ),
        (
            fleet.members["a"],
            ("create", "serviceaccounts/federator-member", "--subresource=token"),
            False,
        ),
        (fleet.members["a"], ("create", "serviceaccounts", "--subresource=token"), False),
        (fleet.host, ("patch", "secrets/a"), True),
        (fleet.host, ("get", "secrets/b"), True),
        (fleet.host, ("get", "secrets/another"), False),
        (fleet.host, ("list", "secrets"), False),
        (fleet.host, ("get", "secrets"), False),
    ):
        space = "federator-clusters" if shell is fleet.host else "federator-system"
        answer = shell.run("auth", "can-i", *words, "-n", space, f"--as={user(HUB)}").out.strip()
        assert answer == ("yes" if allowed else "no"), words
    deployed.ready("a", "b")


def _scaled(fleet: Fleet, what: str, replicas: int) -> None:
    fleet.host("scale", what, f"--replicas={replicas}", *SPACE)
    fleet.host(
        "wait", f"--for=jsonpath={{.status.ready}}={replicas}", what, *SPACE, "--timeout=90s"
    )


def _a_service_grows_and_shrinks(fleet: Fleet) -> None:
    """Twice the same, so that the second telling of it is counted in the Event of the first."""
    spread = {"division": {"strategy": "Spread"}}
    everywhere = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "nobodys"},
        "spec": {"workloads": {"projects": ["nobody"]}},
    }
    even = workloads.policy("even", "feed", "web", **spread)
    fleet.host("apply", "-f", fleet.manifest(even, everywhere))
    for replicas in (24, 12, 24, 12):
        _scaled(fleet, "psvc/web", replicas)
    for policy, matched in (("pp/even", 1), ("cpp/nobodys", 0)):
        fleet.host(
            "wait", f"--for=jsonpath={{.status.matched}}={matched}", policy, *SPACE, "--timeout=90s"
        )
    fleet.host("delete", "cpp", "nobodys")
    until(
        lambda: sorted(fleet.spread("psvc", "feed", "web")) == ["a", "b"],
        lambda: "b has no part of the service",
    )
    image = [
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/image",
            "value": "registry.example/app:2",
        }
    ]
    fleet.host("patch", "psvc", "web", *SPACE, "--type=json", "-p", _json(image))

    def rolled_out() -> bool:
        found = fleet.spread("deploy", "feed", "web").values()
        return all(
            obj["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/app:2"
            and obj["status"].get("updatedReplicas") == obj["spec"]["replicas"]
            for obj in found
        )

    until(rolled_out, lambda: "the new image has not been rolled out")
    series = "jsonpath={.items[*].series.count}"
    until(
        lambda: fleet.host("get", "events.events.k8s.io", *SPACE, "-o", series) != "",
        lambda: "no Event was counted",
    )


def _what_runs_is_looked_into(fleet: Fleet) -> None:
    """Through the hub's query port, with its rights in the members. Stand-in kubelets serve no
    logs: that is said.
    """
    replicas = int(fleet.host.json("get", "psvc", "web", *SPACE)["spec"]["replicas"])

    def rows() -> list[list[str]]:
        return fleet.federator.run("pods", "psvc/web", *SPACE, "--no-headers").rows

    # Pods of the former image are listed until their kubelet has let them end.
    until(
        lambda: len(rows()) == replicas, lambda: f"{replicas} pods are not what is listed: {rows()}"
    )
    assert sorted({row[0] for row in rows()}) == ["a", "b"]
    logs = fleet.federator.run("logs", "psvc/web", *SPACE)
    assert logs.code == 1
    assert logs.err.count(": no log, ") == replicas


def _ten_revisions_are_kept(fleet: Fleet) -> None:
    """More roll-outs than are remembered, and then the one before the last again."""

    def kept() -> list[int]:
        return sorted(
            found["revision"] for found in fleet.host.items("controllerrevisions", *SPACE)
        )

    last = max(kept())
    for number, tag in enumerate([*range(3, 13), 11], last + 1):
        image = {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/image",
            "value": f"registry.example/app:{tag}",
        }
        fleet.host("patch", "psvc", "web", *SPACE, "--type=json", "-p", _json([image]))
        until(lambda: number in kept(), lambda: f"revision {number} is not kept: {kept()}")  # noqa: B023
    # The last but one was used again, under the new number.
    assert kept() == [*range(last + 1, last + 9), last + 10, last + 11]
    fleet.ready("feed", "psvc/web")


def _drift_is_repaired(fleet: Fleet) -> None:
    """Somebody scales the native Deployment with the hub's token. Nobody else may, nor may anybody
    scale the slice."""
    shell = fleet.members["a"]
    share = int(fleet.spread("psvc", "feed", "web")["a"]["spec"]["replicas"])
    ran = shell.run("scale", "psvc/web", "--replicas=1", *SPACE)
    assert ran.code != 0
    assert "Only the hub scales a slice" in ran.err
    ran = shell.run("scale", "deploy/web", "--replicas=1", *SPACE)
    assert ran.code != 0
    assert "part of a federated workload" in ran.err
    _scale_as_the_hub(shell, "web", 1)
    shell(
        "wait", f"--for=jsonpath={{.spec.replicas}}={share}", "deploy/web", *SPACE, "--timeout=60s"
    )


def _scale_as_the_hub(shell: Shell, name: str, replicas: int) -> None:
    count = _json({"spec": {"replicas": replicas}})
    shell("patch", f"deploy/{name}", *SPACE, "--type=merge", "-p", count, f"--as={user(HUB)}")


def _what_a_service_may_have_comes_and_goes(fleet: Fleet) -> None:
    """A budget for disruptions, an HTTPRoute instead of the Ingress, an export, and an autoscaler,
    of which only the bounds count without metrics: each comes and goes in every member.
    """
    parent = "{.spec.parentRefs[0].name}=inner"
    bounds, memory = {"min": 6, "max": 12}, [{"resource": "memory", "averageUtilization": 70}]
    percent, measured = "{.spec.maxUnavailable}=10%", "{.spec.metrics[0].resource.name}=memory"
    for field, native, wish, state in (
        ("disruptionBudget", "pdb/web", {"maxUnavailable": 1}, "--for=create"),
        ("disruptionBudget", "pdb/web", {"maxUnavailable": "10%"}, f"--for=jsonpath={percent}"),
        ("disruptionBudget", "pdb/web", None, "--for=delete"),
        ("gateway", "httproute/web", {"name": "edge"}, "--for=create"),
        ("gateway", "httproute/web", {"name": "inner"}, f"--for=jsonpath={parent}"),
        ("gateway", "httproute/web", None, "--for=delete"),
        ("service", "serviceexport/web", {"export": True}, "--for=create"),
        ("service", "serviceexport/web", {"export": None}, "--for=delete"),
        ("autoscaling", "hpa/web", bounds, "--for=create"),
        ("autoscaling", "hpa/web", {**bounds, "metrics": memory}, f"--for=jsonpath={measured}"),
        ("autoscaling", "hpa/web", None, "--for=delete"),
    ):
        body = _json({"spec": {field: wish}})
        fleet.host("patch", "psvc", "web", *SPACE, "--type=merge", "-p", body)
        for name in fleet.spread("psvc", "feed", "web"):
            fleet.members[name]("wait", state, native, *SPACE, "--timeout=60s")
    fleet.ready("feed", "psvc/web")


def _what_a_service_gives_up_goes(fleet: Fleet) -> None:
    """Without ports, doors and configuration the Service, the Ingress and the ConfigMap go; the
    role changes.
    """
    less = {
        "spec": {"service": None, "loadBalancers": None, "config": None, "iamRole": "role-other"}
    }
    fleet.host("patch", "psvc", "web", *SPACE, "--type=merge", "-p", _json(less))
    for shell in fleet.members.values():
        shell(
            "wait", "--for=delete", "svc/web", "ing/web", "cm/web-config", *SPACE, "--timeout=60s"
        )
    fleet.ready("feed", "psvc/web")


def _a_namespace_has_another_level(fleet: Fleet) -> None:
    """The hub made the members' namespaces with the default; what the host says now reaches
    them.
    """
    levels = pod_security.Enforced(pod_security.Level.BASELINE, "v1.35").labels
    fleet.host("label", "ns", "feed", *(f"{name}={value}" for name, value in levels.items()))

    def reached() -> bool:
        spaces = [
            shell("get", "ns", "feed", "-o", "jsonpath={.metadata.labels}")
            for shell in fleet.members.values()
        ]
        return all(found in space for space in spaces for found in ('"baseline"', '"v1.35"'))

    until(reached, lambda: "the level of a namespace has not reached the members")


def _an_edit_is_held_back(fleet: Fleet) -> None:
    """More than the quota has: what runs stays as it is, and what keeps that goes with the edit."""
    small, large = ({"cpu": cpu, "memory": "64Mi"} for cpu in ("100m", "30"))
    held = workloads.service("held", "feed", 2, project="feed")
    held["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": small}
    fleet.host("apply", "-f", fleet.manifest(held))
    fleet.ready("feed", "psvc/held")
    container = "/spec/template/spec/containers/0/resources/requests"
    edit = [{"op": "replace", "path": container, "value": large}]
    fleet.host("patch", "psvc", "held", *SPACE, "--type=json", "-p", _json(edit))
    fleet.host(
        "wait",
        "--for=jsonpath={.status.conditions[?(@.type=='Placed')].reason}=QuotaExceeded",
        "psvc/held",
        *SPACE,
    )
    (decision,) = [
        one for one in fleet.host.items("pd", *SPACE) if one["spec"]["workload"]["name"] == "held"
    ]
    assert decision["spec"]["inForce"]["heldBack"] == 2
    for slice_ in fleet.spread("psvc", "feed", "held").values():
        assert (
            slice_["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            == "100m"
        )
    edit = [{"op": "replace", "path": container, "value": small}]
    fleet.host("patch", "psvc", "held", *SPACE, "--type=json", "-p", _json(edit))
    fleet.host("wait", "--for=condition=Placed", "psvc/held", *SPACE)

    def dropped() -> bool:
        revisions = fleet.host.items("controllerrevisions", *SPACE)
        return all(
            one["metadata"]["ownerReferences"][0]["kind"] != "PlacementDecision"
            for one in revisions
        )

    until(dropped, lambda: "the revision of an edit that was held back stays")
    fleet.host("delete", "psvc", "held", *SPACE)


def _more_policies_than_a_namespace_may_have(fleet: Fleet) -> None:
    """Those beyond the bound are told that they are not in force."""
    names = [f"crowd-{number:02}" for number in range(POLICIES_MAX + 1)]
    policies = [
        {
            "apiVersion": "federation.pinterest.com/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": name, "namespace": "feed"},
            "spec": {"workloads": {"projects": ["nobody"]}},
        }
        for name in names
    ]
    fleet.host("apply", "-f", fleet.manifest(*policies))

    def told() -> bool:
        return "TooManyPolicies" in fleet.host("get", "placementpolicies", *SPACE, "-o", "json")

    until(told, lambda: "no policy is told that it is not in force")
    fleet.host("delete", "placementpolicies", *SPACE, *names)


def _a_plain_deployment(fleet: Fleet) -> None:
    """Carried, changed, drifted, and with pods that find no node: what the native status cannot say
    is noted.
    """
    page = workloads.deployment("page", "feed", 6)
    page["spec"]["template"]["spec"]["serviceAccountName"] = "page"
    fleet.host("apply", "-f", fleet.manifest(page))
    fleet.host(
        "wait", "--for=jsonpath={.status.readyReplicas}=6", "deploy/page", *SPACE, "--timeout=90s"
    )
    name = min(fleet.spread("deploy", "feed", "page"))
    _scale_as_the_hub(fleet.members[name], "page", 0)
    fleet.host("scale", "deploy/page", "--replicas=8", *SPACE)
    fleet.host(
        "wait", "--for=jsonpath={.status.readyReplicas}=8", "deploy/page", *SPACE, "--timeout=90s"
    )
    path = "/spec/template/metadata/annotations/embedded.federator~1image-pull-error"
    fleet.host(
        "patch",
        "deploy",
        "page",
        *SPACE,
        "--type=json",
        "-p",
        _json([{"op": "add", "path": path, "value": "true"}]),
    )
    note = "federation.pinterest.com/member-status"

    def noted() -> bool:
        found = fleet.spread("deploy", "feed", "page").values()
        return any(note in obj["metadata"].get("annotations", {}) for obj in found)

    until(noted, lambda: "no member has noted why pods are not ready")


def _ordinals_come_back_to_their_claims(fleet: Fleet) -> None:
    """Scaled away whole, a block goes with its StatefulSet; scaled back, it finds its claims."""
    fleet.host("apply", "-f", fleet.manifest(workloads.stateful("kv", "feed", 4, project="feed")))
    _has_ready(fleet, "psts/kv", 4)
    blocks = {member: len(_sets(fleet, member)) for member in ("a", "b")}
    assert blocks == {"a": 1, "b": 1}
    claims = {member: _claims(fleet, member) for member in ("a", "b")}
    fleet.host("scale", "psts/kv", *SPACE, "--replicas=1")
    until(lambda: _sets(fleet, "b") == [], lambda: "b still has a block")
    assert _claims(fleet, "b") == claims["b"]
    fleet.host("scale", "psts/kv", *SPACE, "--replicas=4")
    _has_ready(fleet, "psts/kv", 4)
    assert {member: _claims(fleet, member) for member in ("a", "b")} == claims
    fleet.host("delete", "psts", "kv", *SPACE)
    until(
        lambda: _sets(fleet, "a") == _sets(fleet, "b") == [], lambda: "a StatefulSet is still there"
    )
    for shell in fleet.members.values():
        shell("delete", "pvc", *SPACE, "--all", "--wait=false")


def _has_ready(fleet: Fleet, workload: str, ready: int) -> None:
    wanted = f"--for=jsonpath={{.status.ready}}={ready}"
    fleet.host("wait", wanted, workload, *SPACE, "--timeout=120s")


def _sets(fleet: Fleet, member: str) -> list[str]:
    return [one["metadata"]["name"] for one in fleet.members[member].items("sts", *SPACE)]


def _claims(fleet: Fleet, member: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in fleet.members[member].items("pvc", *SPACE))


def _a_daemon_comes_and_goes(fleet: Fleet) -> None:
    """On every node of both members; a new image and configuration reach them one after the
    other.
    """
    fleet.host("apply", "-f", fleet.manifest(workloads.daemon("agent", "feed", project="feed")))
    nodes = sum(len(shell.items("nodes")) for shell in fleet.members.values())
    fleet.host(
        "wait", f"--for=jsonpath={{.status.ready}}={nodes}", "pdm/agent", *SPACE, "--timeout=90s"
    )
    assert sorted(fleet.spread("ds", "feed", "agent")) == ["a", "b"]
    image = {
        "op": "replace",
        "path": "/spec/template/spec/containers/0/image",
        "value": "registry.example/agent:2",
    }
    config = {"op": "replace", "path": "/spec/config", "value": {"agent.conf": "interval=5s\n"}}
    fleet.host("patch", "pdm", "agent", *SPACE, "--type=json", "-p", _json([image, config]))

    def rolled_out() -> bool:
        return all(
            obj["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/agent:2"
            and obj["status"].get("updatedNumberScheduled")
            == obj["status"]["desiredNumberScheduled"]
            for obj in fleet.spread("ds", "feed", "agent").values()
        )

    until(rolled_out, lambda: "the new image of the daemon has not been rolled out")
    fleet.ready("feed", "pdm/agent")
    _a_startup_taint_goes(fleet)
    fleet.host("delete", "pdm", "agent", *SPACE)
    until(lambda: not fleet.spread("ds", "feed", "agent"), lambda: "a member still has the daemon")


def _a_startup_taint_goes(fleet: Fleet) -> None:
    """The daemon is ready on the node, so its start-up taint is taken away there."""
    member, key = fleet.members["a"], "feed.example/starting"
    patch = _json({"spec": {"startupTaint": {"key": key}}})
    fleet.host("patch", "pdm", "agent", *SPACE, "--type=merge", "-p", patch)
    until(lambda: key in _json(member.items("ds", *SPACE)), lambda: "its pods do not tolerate it")
    name = member.items("nodes")[0]["metadata"]["name"]
    member("taint", "node", name, f"{key}=:NoSchedule")

    def tainted() -> bool:
        return key in _json([node["spec"] for node in member.items("nodes")])

    until(lambda: not tainted(), lambda: "the node still has the start-up taint of the daemon")


def _a_jobset_that_completes(fleet: Fleet) -> None:
    fleet.host("apply", "-f", fleet.manifest(workloads.jobset("crunch", "feed", 12, 6)))
    fleet.host("patch", "pjs", "crunch", *SPACE, "--type=merge", "-p", '{"spec":{"parallelism":8}}')
    fleet.host("wait", "--for=jsonpath={.status.done}=12", "pjs/crunch", *SPACE, "--timeout=90s")


def _a_jobset_that_goes_when_its_time_is_over(fleet: Fleet) -> None:
    brief = workloads.jobset("brief", "feed", 4, 4)
    brief["spec"] |= {"completion": "Any", "ttlSecondsAfterFinished": 2}
    fleet.host("apply", "-f", fleet.manifest(brief))
    fleet.host("wait", "--for=delete", "pjs/brief", *SPACE, "--timeout=90s")


def _a_cluster_is_probed(fleet: Fleet) -> None:
    """By workloads of the hub's own, in the namespace where it may make them."""
    account = yaml.safe_load_all((ROOT / "config/examples/probes.yaml").read_text())
    fleet.host("apply", "-f", fleet.manifest(next(account)))
    out = fleet.federator("probe", "run", "a", "--wait", "--timeout=120s", "-o", "json")
    (probe,) = json.loads(out)
    assert (probe["cluster"], probe["result"]) == ("a", "Passed")
    for shell in (fleet.host, fleet.members["a"]):
        assert shell.items("psvc,pjs", "-n", "federator-probes") == []


def _shards_are_withdrawn(deployed: Deployed) -> None:
    """While no hub runs, a slice loses half of its shards, as a hub of another version might
    decide: the Job is stopped, and replaced by one for what is left. The next life of the hub reads
    every slice, and repairs that one.
    """
    fleet, shell = deployed.fleet, deployed.fleet.members["a"]
    slow = workloads.jobset("slow", "feed", 20, 10)
    slow["spec"]["template"]["metadata"]["annotations"] = LONG
    slow["spec"]["placement"] = {"clusters": {"names": ["a"]}}
    fleet.host("apply", "-f", fleet.manifest(slow))
    fleet.host("wait", "--for=jsonpath={.status.running}=10", "pjs/slow", *SPACE, "--timeout=90s")
    deployed.stop_hub()
    before = _jobs(fleet)
    half = _json({"spec": {"slice": {"ranges": "0-9"}}})
    shell("patch", "pjs", "slow", *SPACE, "--type=merge", "-p", half, f"--as={user(HUB)}")
    until(lambda: not before & _jobs(fleet), lambda: f"the Jobs are still {_jobs(fleet)}")
    deployed.start_hub()
    deployed.ready("a", "b")
    shell("wait", "--for=jsonpath={.spec.slice.ranges}=0-19", "pjs/slow", *SPACE, "--timeout=60s")
    _scaled(fleet, "psvc/web", 15)


def _jobs(fleet: Fleet) -> set[str]:
    """Jobs of the job set `slow` in a."""
    found = {job["metadata"]["name"] for job in fleet.members["a"].items("jobs", *SPACE)}
    return {name for name in found if name.startswith("slow-")}


def _everything_goes(fleet: Fleet) -> None:
    fleet.host("delete", "psvc,pjs,deploy,pp", "--all", *SPACE)
    fleet.host("wait", "--for=delete", "pd", "--all", *SPACE, "--timeout=90s")
    for shell in fleet.members.values():
        assert shell.items("psvc,pjs", *SPACE) == []
        until(
            lambda: shell.items("deploy,jobs", *SPACE) == [],  # noqa: B023
            lambda: "natives are left in a member",
        )


def _clusters_leave(deployed: Deployed) -> None:
    """One member is emptied of what the hub made there; the other is given up, whose credentials
    are gone.
    """
    fleet = deployed.fleet
    assert fleet.federator("cluster", "remove", "b").endswith("/b removed\n")
    left = fleet.host(
        "get", "secrets,roles,rolebindings", "-n", "federator-clusters", "-o", "name"
    ).split()
    assert [name for name in left if name.endswith(("/b", "-b"))] == []
    assert "role.rbac.authorization.k8s.io/federator-hub-a" in left
    assert fleet.members["b"].items("rp") == []
    fleet.host("delete", "secret", "a", "-n", "federator-clusters")
    deployed.stop_hub()
    deployed.start_hub()
    until(
        lambda: _ready(fleet, "a") not in ("True", ""),
        lambda: "a is called well without credentials",
        120,
    )
    assert fleet.federator("cluster", "remove", "a", "--lost").endswith("/a removed\n")


def _ready(fleet: Fleet, name: str) -> str:
    """The status of a member's condition Ready; "" while there is none."""
    found = next(obj for obj in fleet.host.items("mc") if obj["metadata"]["name"] == name)
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def _json(value: Any) -> str:
    return json.dumps(value)
