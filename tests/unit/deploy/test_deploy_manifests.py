"""The manifests in deploy/ ask for no more than they must, and say the same as the code that needs
them.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator import settings
from federator.cli.clusters import granting, joining
from federator.cli.leader import asking
from federator.gateway.options import GatewayOptions
from federator.hub.deletion import departed
from federator.hub.host import collector
from federator.hub.options import HubOptions
from federator.hub.query import access, serving
from federator.hub.records import pauses, seals
from federator.hub.security import hardening
from federator.kinds import registry, rights
from federator.kinds.labels import MEMBER_STATUS_ANNOTATION
from federator.kinds.pods import priorities
from federator.member.heartbeat import LEASE
from federator.model import names
from federator.runtime import fencing
from tests.unit.deploy import manifests

HUB = "system:serviceaccount:federator-system:federator-hub"
MEMBER = "system:serviceaccount:federator-system:federator-member"


def test_nothing_that_is_shipped_has_a_fault() -> None:
    assert manifests.all_faults(manifests.written()) == []


def test_the_hub_has_in_members_exactly_the_rights_that_joining_makes_and_checks() -> None:
    found = manifests.load((manifests.DEPLOY / "member" / "hub-account.yaml").read_text())
    made = {
        ("", group, resource, verb, "")
        for group, resource, verbs in joining.HUB_RULES
        for verb in verbs
    }
    own = {
        (granting.SYSTEM_NAMESPACE, group, resource, verb, name)
        for group, resource, name, verb in joining.OWN_RULES
    }
    made |= own
    assert manifests.grants(found, granting.HUB_ACCOUNT) == made


def test_the_member_process_has_exactly_the_rights_of_the_table() -> None:
    found = manifests.load((manifests.DEPLOY / "member" / "member-account.yaml").read_text())
    roles = {"": rights.MEMBER, granting.SYSTEM_NAMESPACE: rights.MEMBER_OWN}
    assert manifests.grants(found, "federator-member") == {
        (space, right.group, right.resource, verb, right.name)
        for space, role in roles.items()
        for right in rights.of(role)
        for verb in right.verbs
    }


def test_a_right_to_write_says_whether_its_objects_have_pods() -> None:
    """So a kind cannot be added to a role and stay unknown to `federator-pods`."""
    with pytest.raises(ValueError, match=r"Right\.pods of cronjobs.*NO_PODS"):
        rights.Right("batch", "v1", "cronjobs", ("list", "create"))


def test_our_accounts_change_only_labelled_objects_with_named_exceptions() -> None:
    open_ = {
        right.resource
        for right in rights.of(rights.HUB, rights.MEMBER)
        if right.changes and not right.labelled
    }
    slices = {f"{row.plural}/status" for row in registry.EXPANDED}
    assert open_ == slices | {
        "clustercapacities",
        "clustercapacities/status",
        "events",
        "nodes",
        "priorityclasses",
    }
    (policy,) = (
        _named("ValidatingAdmissionPolicy", "federator-accounts")["spec"]["matchConstraints"],
    )
    held = {plural for rule in policy["resourceRules"] for plural in rule["resources"]}
    every = {right.resource for right in rights.of(rights.HUB, rights.MEMBER) if right.changes}
    assert held == every - open_


def test_pods_of_every_account_may_read_the_lease_of_guarded_shards_and_nothing_else() -> None:
    found = manifests.load((manifests.DEPLOY / "member" / "guard-access.yaml").read_text())
    (role,) = manifests.of_kind(found, "Role")
    (binding,) = manifests.of_kind(found, "RoleBinding")
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    assert role["rules"] == [{**lease, "resourceNames": [fencing.LEASE]}]
    (subject,) = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "system:serviceaccounts")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"]


def test_no_manifest_holds_a_token_or_lets_the_hub_read_every_secret() -> None:
    found = manifests.written()
    kinds = {secret.get("type") for secret in manifests.of_kind(found, "Secret")}
    assert "kubernetes.io/service-account-token" not in kinds
    named = {row[4] for row in manifests.grants(found, "federator-hub") if row[2] == "secrets"}
    assert named == {"federator-decisions"}
    role, binding = granting.objects("us-east-1a")
    assert manifests.grants([role, binding], granting.HUB_ACCOUNT) == {
        ("federator-clusters", "", "secrets", verb, "us-east-1a") for verb in granting.VERBS
    }
    assert list(manifests.role_faults([role])) == []


def test_names_in_the_manifests_are_those_of_the_code() -> None:
    found, options = manifests.written(), HubOptions()
    spaces = {each["metadata"]["name"] for each in manifests.of_kind(found, "Namespace")}
    assert spaces == {
        options.system_namespace,
        options.credentials_namespace,
        names.PROBES,
        GatewayOptions().secrets_namespace,
    }
    assert (options.system_namespace, options.credentials_namespace) == (
        granting.SYSTEM_NAMESPACE,
        granting.CREDENTIALS_NAMESPACE,
    )
    named = {
        row[4]
        for account in ("federator-hub", "federator-member")
        for row in manifests.grants(found, account)
    }
    others = (
        "federator",
        "kube-system",
        collector.PROBE,
        serving.CLIENT_CA.name,
        seals.SECRET,
        *hardening.HOST_POLICIES,
    )
    mine = {options.lease_name, granting.HUB_ACCOUNT, departed.OBJECT, *others}
    assert named == {"", LEASE, fencing.LEASE, *mine}


def test_the_dashboard_reads_every_kind_of_workload_and_writes_nothing() -> None:
    found = manifests.load((manifests.DEPLOY / "dashboard" / "account.yaml").read_text())
    given = manifests.grants(found, "federator-dashboard")
    read = {(row[1], row[2]) for row in given if row[3] == "watch"}
    assert {(kind.group, kind.plural) for kind in registry.WORKLOADS.values()} <= read
    verbs = {row[3] for row in given if not row[2].endswith("reviews")}
    assert verbs == {"get", "list", "watch", access.FOR_READERS.verb}
    right = access.FOR_READERS
    assert ("", right.group, right.resource, right.verb, "") in given


def test_everybody_may_read_of_the_hub_who_leads_and_whether_it_is_paused_and_no_more() -> None:
    found = manifests.written()
    asked = {
        ("federator-system", "coordination.k8s.io", "leases", "get", HubOptions().lease_name),
        ("federator-system", "", "configmaps", "get", pauses.PAUSE_OBJECT),
    }
    assert manifests.grants(found, "system:authenticated") == asked
    assert HubOptions().lease_name == asking.LEASE_NAME
    assert HubOptions().system_namespace == asking.LEASE_NAMESPACE


def test_admission_policies_name_our_accounts_and_marks() -> None:
    for policy in manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicy"):
        text = str(policy["spec"])
        assert HUB in text or MEMBER in text or policy["metadata"]["name"] in _FOR_EVERYBODY
        advises = policy["metadata"]["name"] == "federator-autoscalers"
        assert policy["spec"]["failurePolicy"] == ("Ignore" if advises else "Fail")
        assert "*" not in str(policy["spec"]["matchConstraints"])
    marks = {
        "federator-slices": (names.FLEET_LABEL, names.WORKLOAD_UID_LABEL),
        "federator-carried": (names.FLEET_LABEL, names.WORKLOAD_UID_LABEL, names.SLICE_ANNOTATION),
        "federator-accounts": (names.FLEET_LABEL,),
        "federator-decisions": (names.REBALANCE_ANNOTATION, names.FORCE_FORGET_ANNOTATION),
        "federator-marks": (
            f"{names.FEDERATION}/",
            names.SLICE_ANNOTATION,
            MEMBER_STATUS_ANNOTATION,
        ),
        "federator-clusters": (names.CLUSTER_FINALIZER,),
        "federator-hub-writes": (names.FLEET_LABEL,),
    }
    for name, texts in marks.items():
        found = str(_named("ValidatingAdmissionPolicy", name))
        assert [text for text in texts if text not in found] == [], name
    bound = {
        each["spec"]["policyName"] for each in manifests.of_kind(manifests.written(), _BINDING)
    }
    made = manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicy")
    assert (
        bound
        == {policy["metadata"]["name"] for policy in made}
        >= {*marks, *_WITHOUT_MARKS, *_FOR_EVERYBODY}
    )


def test_the_scale_of_every_kind_of_slice_is_held() -> None:
    (rule,) = _named("ValidatingAdmissionPolicy", "federator-scales")["spec"]["matchConstraints"][
        "resourceRules"
    ]
    scaled = [row for row in registry.EXPANDED if row.scale]
    assert rule["resources"] == [f"{row.plural}/scale" for row in scaled] != []


def test_priority_classes_come_from_the_member_process_alone() -> None:
    assert manifests.of_kind(manifests.written(), "PriorityClass") == []
    values = {each["metadata"]["name"]: each["value"] for each in priorities.PRIORITY_CLASSES}
    (said,) = _named("ValidatingAdmissionPolicy", "federator-priorities")["spec"]["variables"]
    assert yaml.safe_load(said["expression"]) == values


@pytest.mark.parametrize(
    "path", sorted(manifests.DEPLOY.rglob("federator.yaml")), ids=lambda path: path.parent.name
)
def test_settings_files_load_and_listen_where_the_probes_ask(path: Path) -> None:
    found = settings.load(str(path), {})
    if path.parent.name != "dashboard":  # its probes ask the port of the pages
        assert (found.serve.host, found.serve.port) == ("0.0.0.0", 8080)


@pytest.mark.parametrize("of", ["crd", "crd/member"])
def test_the_crds_of_the_base_are_all_there_are(of: str) -> None:
    folder = manifests.ROOT / "config" / of
    (kustomization,) = manifests.load((folder / "kustomization.yaml").read_text())
    assert kustomization["resources"] == sorted(
        path.name for path in folder.glob("*.pinterest.com.yaml")
    )


_WITHOUT_MARKS = (
    "federator-statuses",
    "federator-slice-statuses",
    "federator-pods",
    "federator-levels",
    "federator-priorities",
    "federator-scales",
    "federator-service-accounts",
)
_FOR_EVERYBODY = ("federator-autoscalers", "federator-namespace-levels")
_BINDING = "ValidatingAdmissionPolicyBinding"


def _named(kind: str, name: str) -> Any:
    return next(
        each
        for each in manifests.of_kind(manifests.written(), kind)
        if each["metadata"]["name"] == name
    )


def _spoil(path: tuple[str | int, ...], value: Any) -> list[Any]:
    found = copy.deepcopy(manifests.written())
    deployment = next(each for each in found if each["kind"] == "Deployment")
    place: Any = deployment["spec"]["template"]["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return list(manifests.pod_faults(found))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("hostNetwork",), True),
        (("automountServiceAccountToken",), True),
        (("securityContext",), {}),
        (("volumes",), [{"name": "node", "hostPath": {"path": "/"}}]),
        (("volumes",), [{"name": "tmp", "emptyDir": {}}]),
        (("containers", 0, "securityContext"), {}),
        (("containers", 0, "securityContext", "privileged"), True),
        (
            ("containers", 0, "securityContext", "capabilities"),
            {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        ),
        (("containers", 0, "ports", 0, "hostPort"), 80),
        (("containers", 0, "readinessProbe"), None),
        (("containers", 0, "resources"), {}),
        (("containers", 0, "image"), "registry.example:5000/federator"),
    ],
    ids=str,
)
def test_the_checker_sees_what_restricted_refuses(path: tuple[str | int, ...], value: Any) -> None:
    assert _spoil(path, value) != []


def test_the_checker_sees_roles_and_networks_that_are_too_wide() -> None:
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
    role = {
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [rule, {**rule, "resources": ["*"]}],
    }
    assert len(list(manifests.role_faults([role]))) == 2
    everywhere = {
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}],
    }
    policy = {
        "kind": "NetworkPolicy",
        "metadata": {"name": "n", "namespace": "federator-system"},
        "spec": {"podSelector": {}, **everywhere},
    }
    assert len(list(manifests.network_faults([policy]))) == 3
