"""What of a workload's pods needs leave, with the path of whoever wrote it; and who may have it."""

from typing import Any

import pytest

from federator.kinds import registry
from federator.kinds.pods import inject, privileges
from federator.kinds.service import schema
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, PodShape, Privileges, Unit
from federator.model.decision import Reason
from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Level
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO
from federator.placement.policy import permitted
from federator.placement.policy.permitted import NotPermitted
from tests import hostilepods
from tests.hostilepods import Row

PROFILE = {
    "metadata": {"name": "default"},
    "spec": {
        "sidecars": [
            {
                "name": "mesh",
                "container": {"image": "mesh:1", "securityContext": {"privileged": True}},
            }
        ],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "podAnnotations": {"container.apparmor.security.beta.kubernetes.io/mesh": "unconfined"},
    },
}


def service(template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = template or {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": template, **spec},
    }


def of(obj: dict[str, Any], profile: dict[str, Any] | None = None) -> Privileges:
    return privileges.of(obj, registry.verbs_of(obj["kind"]), profile)


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", "image": "app:1"}], **fields}}


def refusal(
    wanted: Privileges, level: Level = Level.BASELINE, *quotas: QuotaAccount, space: str = "shop"
) -> NotPermitted | None:
    key = WorkloadKey(schema.KIND, space, "web")
    ask = Ask(key, "u", 1, Unit.REPLICAS, 1, 1, PodShape(ZERO), "shop", privileges=wanted)
    return permitted.refusal(ask, {"shop": level}, quotas)


@pytest.mark.parametrize("row", hostilepods.EVERY, ids=lambda row: row.path)
def test_a_hostile_template_is_refused_with_its_path(row: Row) -> None:
    found = refusal(of(service(row.template)), Level(row.level))
    assert found is not None
    assert found.reason is Reason.POD_SECURITY_VIOLATION
    assert found.message.startswith(f"spec.template.{row.path}: ")
    assert found.message.endswith(f"; namespace shop has the Pod Security level {row.level}")
    assert refusal(of(service(row.template)), Level.PRIVILEGED) is None


@pytest.mark.parametrize(
    ("where", "row"),
    hostilepods.IN_EVERY_LIST,
    ids=[f"{where} {row.path}" for where, row in hostilepods.IN_EVERY_LIST],
)
@pytest.mark.parametrize("profile", [None, PROFILE], ids=["bare", "profile"])
def test_a_hostile_container_of_another_kind_is_refused_with_its_path(
    where: str, row: Row, profile: dict[str, Any] | None
) -> None:
    found = of(service(row.template), profile)
    told = found.baseline if row.level == "baseline" else found.restricted
    if profile is None:
        assert told.startswith(f"spec.template.{row.path}: ")
    honest = of(service(hostilepods.ALLOWED[0].template), profile)
    assert told != (honest.baseline if row.level == "baseline" else honest.restricted)


ODD: list[dict[str, Any]] = [
    {"spec": {"containers": "x", "volumes": 5, "securityContext": [1]}},
    {"spec": {"containers": [None, 3, {"securityContext": "x", "ports": {"hostPort": 1}}]}},
    {"spec": {"containers": {"name": "app", "securityContext": {"privileged": True}}}},
    {"spec": {"containers": {"name": "app", "securityContext": {"privileged": False}}}},
    {"metadata": {"annotations": {"note": "\ud800"}}, "spec": {"hostPID": True}},
    {"spec": {"containers": [{"name": "\ud800", "securityContext": {"privileged": True}}]}},
    {"spec": {"containers": [{"name": "\ud800", "securityContext": {"runAsUser": 0}}]}},
]


@pytest.mark.parametrize("profile", [None, PROFILE], ids=["bare", "profile"])
def test_remembered_answers_follow_everything_that_the_standards_look_at(
    profile: dict[str, Any] | None,
) -> None:
    templates = [row.template for row in (*hostilepods.EVERY, *hostilepods.ALLOWED)] + ODD
    for template in templates + templates:
        found = of(service(template), profile)
        whole = inject.inject(template, profile)
        strict = list(pod_security.violations(whole, Level.RESTRICTED))
        baseline = [one for one in strict if one.level is Level.BASELINE]
        for told, violations in (found.baseline, baseline), (found.restricted, strict):
            first = f"{violations[0].message} ({violations[0].control})" if violations else ""
            more = f"; {len(violations) - 1} more" if len(violations) > 1 else ""
            assert told.endswith(first + more), template
            assert bool(told) == bool(violations), template


def test_what_the_profile_adds_is_told_as_the_profiles() -> None:
    wanted = of(service(), PROFILE)
    assert wanted.baseline.startswith(
        "RuntimeProfile default: spec.sidecars[0].container.securityContext.privileged: "
    )
    assert wanted.baseline.endswith("; 2 more")
    no_sidecar = {**PROFILE, "spec": {**PROFILE["spec"], "sidecars": []}}  # type: ignore[dict-item]
    assert of(service(), no_sidecar).baseline.startswith(
        "RuntimeProfile default: spec.volumes[0].hostPath: "
    )
    own = service(pod(containers=[{"name": "app", "securityContext": {"privileged": True}}]))
    assert of(own, PROFILE).baseline.startswith(
        "spec.template.spec.containers[0].securityContext.privileged: "
    )


def test_a_carried_deployment_is_looked_at_alike() -> None:
    obj = {
        **service(pod(hostPID=True, serviceAccountName="web")),
        "apiVersion": "apps/v1",
        "kind": "Deployment",
    }
    found = of(obj)
    assert found.baseline.startswith("spec.template.spec.hostPID: ")
    assert found.service_account == "web", (
        "one of its own name is not made for it by the federation"
    )


@pytest.mark.parametrize(
    ("template", "path"),
    [
        (pod(nodeName="node-1"), "spec.template.spec.nodeName: is node-1"),
        (
            pod(priorityClassName="system-node-critical"),
            "spec.template.spec.priorityClassName: is system-node-critical",
        ),
    ],
)
def test_nodes_and_their_priorities_are_for_privileged_namespaces(
    template: dict[str, Any], path: str
) -> None:
    found = refusal(of(service(template)))
    assert found is not None
    assert found.message.startswith(path)
    assert refusal(of(service(template)), Level.PRIVILEGED) is None


@pytest.mark.parametrize("space", ["kube-system", "kube-public", "federator-system"])
def test_nothing_goes_into_a_namespace_of_the_cluster(space: str) -> None:
    found = refusal(Privileges(), Level.PRIVILEGED, space=space)
    assert found is not None
    assert found.message.startswith(f"metadata.namespace: is {space}")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (pod(serviceAccountName="robot"), "robot"),
        (pod(serviceAccount="robot"), "robot"),
        (pod(serviceAccountName="web"), ""),
        (pod(serviceAccountName="default"), ""),
        (pod(), ""),
    ],
)
def test_an_account_of_its_own_needs_no_leave(template: dict[str, Any], name: str) -> None:
    assert of(service(template)).service_account == name


LISTS = QuotaAccount(
    name="shop",
    projects=frozenset({"shop"}),
    service_accounts=("team-*", "robot"),
    iam_roles=("role-*-ro",),
    priority_classes=("batch",),
)


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        (Privileges(service_account="robot"), ""),
        (Privileges(service_account="team-a"), ""),
        (Privileges(iam_role="role-web-ro"), ""),
        (Privileges(priority_class="batch"), ""),
        (Privileges(service_account="robots"), "spec.template.spec.serviceAccountName: is robots"),
        (
            Privileges(service_account="a-team-b"),
            "spec.template.spec.serviceAccountName: is a-team-b",
        ),
        (Privileges(iam_role="role-web-ro-admin"), "spec.iamRole: is role-web-ro-admin"),
        (Privileges(iam_role="role.web-ro"), "spec.iamRole: is role.web-ro"),
        (Privileges(priority_class="urgent"), "spec.template.spec.priorityClassName: is urgent"),
    ],
)
def test_only_what_the_project_lists_may_be_named(wanted: Privileges, path: str) -> None:
    found = refusal(wanted, Level.BASELINE, LISTS)
    if not path:
        assert found is None
        return
    assert found is not None
    assert found.reason is Reason.IDENTITY_NOT_ALLOWED
    assert found.message.startswith(f"{path}; FederatedQuota shop allows its projects only ")


def test_an_account_without_lists_lists_nothing_and_every_account_of_the_project_counts() -> None:
    bare = QuotaAccount(name="bare", projects=frozenset({"shop"}))
    other = QuotaAccount(name="other", projects=frozenset({"elsewhere"}))
    role = Privileges(iam_role="role-a-ro")
    assert refusal(role) is None, "nothing limits a project that no account speaks for"
    assert refusal(role, Level.BASELINE, other, LISTS) is None
    found = refusal(role, Level.BASELINE, LISTS, bare)
    assert found is not None
    assert "FederatedQuota bare allows its projects none (spec.iamRoles)" in found.message


def test_the_class_of_the_tier_needs_no_leave_and_that_of_another_does() -> None:
    assert (
        of(service(pod(priorityClassName="federator-ondemand"), tier="OnDemand")).priority_class
        == ""
    )
    assert (
        of(service(pod(priorityClassName="federator-reserved"), tier="OnDemand")).priority_class
        == "federator-reserved"
    )


@pytest.mark.parametrize(
    "field", ["volumes", "containers", "initContainers", "ephemeralContainers"]
)
@pytest.mark.parametrize("profile", [None, PROFILE], ids=["without a profile", "with a profile"])
@pytest.mark.parametrize("stray", [None, 5, "text", [], {}])
def test_what_stands_beside_a_violation_hides_it_from_nobody(
    field: str, profile: dict[str, Any], stray: Any
) -> None:
    hostile = {
        "name": "hostile",
        "hostPath": {"path": "/"},
        "securityContext": {"privileged": True},
    }
    found = of(service(pod(**{field: [stray, hostile]})), profile)
    assert f"spec.{field}[1]" in found.baseline or profile is not None
    assert found.baseline
