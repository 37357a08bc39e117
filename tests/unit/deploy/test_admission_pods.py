"""The ValidatingAdmissionPolicy for pods in members, evaluated without an API server: what the Pod
Security level baseline forbids is refused in each kind of container that a pod template can have.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from federator.embedded.admission.policies import evaluated
from federator.kinds import rights
from federator.model.kubernetes import accountlists
from tests import hostilepods
from tests.hostilepods import Row
from tests.unit.deploy import manifests
from tests.unit.kinds.test_natives import ROOT

HUB = "system:serviceaccount:federator-system:federator-hub"
TRAINING = "pinteresttrainingjobs"
WRITERS = {row.resource: row for row in rights.POD_WRITERS}
TEMPLATED = tuple(plural for plural in WRITERS if plural != "trainjobs")
RUNTIME = {"kind": "TrainingRuntime", "name": "train-1"}


def written(resource: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """An object of this kind with this pod template, as API servers have it."""
    pods = {"template": template}
    jobs = {"replicatedJobs": [{"name": "node", "template": {"spec": pods}}]}
    match resource:
        case "cronjobs":
            return {"spec": {"jobTemplate": {"spec": pods}}}
        case "jobsets":
            return {"spec": jobs}
        case "trainingruntimes":
            return {"spec": {"template": {"spec": jobs}}}
        case "trainjobs":
            return {"spec": {"runtimeRef": RUNTIME, "podTemplateOverrides": [template]}}
        case "pinteresttrainingjobs":
            return {"spec": {"components": [{"name": "master"}, {"name": "worker", **pods}]}}
        case _:
            return {"spec": pods}


WITHOUT_PODS = {
    ("", "configmaps"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("federation.pinterest.com", "clustercapacities"),
    ("gateway.networking.k8s.io", "httproutes"),
    ("multicluster.x-k8s.io", "serviceexports"),
    ("networking.k8s.io", "ingresses"),
    ("pinterest.com", "runtimeprofiles"),  # in no namespace; its containers are in the natives
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "priorityclasses"),
}


@cache
def policy() -> dict[str, Any]:
    path = ROOT / "deploy" / "member" / "admission-pods.yaml"
    found: dict[str, Any] = next(
        yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    )["spec"]
    return found


def refusals(
    template: Mapping[str, Any],
    *,
    resource: str = "deployments",
    level: str = "",
    user: str = HUB,
    old: Mapping[str, Any] | None = None,
) -> list[str]:
    """The messages with which a write of our accounts is refused."""

    return judged(
        written(resource, template),
        resource=resource,
        level=level,
        user=user,
        old=written(resource, old) if old is not None else None,
    )


def judged(
    obj: Mapping[str, Any],
    *,
    resource: str,
    level: str = "",
    user: str = HUB,
    old: Mapping[str, Any] | None = None,
    says: Mapping[str, str] | None = None,
    may_run_as: str = "",
) -> list[str]:
    """The messages with which a write of an object is refused. `says`: annotations of its
    namespace; `may_run_as`: that list as an administrator has changed it."""
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    given: dict[str, Any] = {
        "request": {
            "userInfo": {"username": user},
            "operation": "CREATE" if old is None else "UPDATE",
            "resource": {"group": WRITERS[resource].group, "resource": resource},
            "namespace": "feed",
        },
        "namespaceObject": {
            "metadata": {"labels": labels, "annotations": dict(says or {})}
            if labels or says
            else {}
        },
        "object": {"metadata": {"name": "web"}, **obj},
        "oldObject": old,
    }
    if not all(evaluated(one["expression"], given) for one in policy()["matchConditions"]):
        return []
    variables: dict[str, Any] = {}
    for one in policy()["variables"]:
        changed = may_run_as if one["name"] == "mayRunAs" else ""
        source = changed or one["expression"]
        variables[one["name"]] = evaluated(source, {**given, "variables": variables})
    return [
        one["message"]
        for one in policy()["validations"]
        # Who may do what is asked of the API server.
        if "authorizer." not in one["expression"]
        and not evaluated(one["expression"], {**given, "variables": variables})
    ]


MOVED = [(where, row) for where, row in hostilepods.IN_EVERY_LIST if where != "ephemeral"]
"""A pod template has no ephemeral containers: API servers refuse them there."""


@pytest.mark.parametrize(
    ("where", "row"),
    [*(("", row) for row in hostilepods.EVERY), *MOVED],
    ids=lambda one: one.path if isinstance(one, Row) else one,
)
def test_what_baseline_forbids_is_refused_in_every_kind_of_container(where: str, row: Row) -> None:
    found = refusals(row.template)
    assert len(found) == (1 if row.level == "baseline" else 0)
    assert refusals(row.template, level="privileged") == []
    assert refusals(row.template, user="alice") == []


@pytest.mark.parametrize("row", hostilepods.ALLOWED, ids=range(len(hostilepods.ALLOWED)))
def test_an_honest_pod_is_admitted(row: Row) -> None:
    assert refusals(row.template) == []


@pytest.mark.parametrize("resource", TEMPLATED)
def test_the_template_is_looked_at_in_every_kind(resource: str) -> None:
    honest = hostilepods.ALLOWED[0].template
    for row in hostilepods.BASELINE:
        assert len(refusals(row.template, resource=resource)) == 1, row.path
    hostile = hostilepods.BASELINE[3].template
    assert refusals(honest, resource=resource) == []
    assert refusals(hostile, resource=resource, level="privileged") == []
    assert refusals(hostile, resource=resource, old=hostile) == []
    assert len(refusals(hostile, resource=resource, old=honest)) == 1


def test_the_pods_of_every_component_of_a_training_job_are_looked_at() -> None:
    hostile, honest = hostilepods.BASELINE[3].template, hostilepods.ALLOWED[0].template
    common = {"spec": {"template": hostile, "components": [{"name": "w", "template": honest}]}}
    assert len(judged(common, resource=TRAINING)) == 1
    jobs = [{"template": {"spec": {"template": each}}} for each in (honest, hostile)]
    assert len(judged({"spec": {"replicatedJobs": jobs}}, resource="jobsets")) == 1


@pytest.mark.parametrize("field", rights.PATCHES)
def test_a_train_job_patches_nothing_of_its_runtime_also_later(field: str) -> None:
    plain: dict[str, Any] = {"runtimeRef": RUNTIME, "suspend": False}
    patched = {"spec": {**plain, field: [hostilepods.BASELINE[3].template]}}
    before, resource = {"spec": plain}, "trainjobs"
    assert judged(before, resource=resource) == []
    assert judged({"spec": {**plain, "suspend": True}}, resource=resource, old=before) == []
    assert len(judged(patched, resource=resource)) == 1
    assert len(judged(patched, resource=resource, old=before)) == 1
    cluster_wide = {"spec": {"runtimeRef": {**RUNTIME, "kind": "ClusterTrainingRuntime"}}}
    assert len(judged(cluster_wide, resource=resource)) == 1


MEMBER = "system:serviceaccount:federator-system:federator-member"
LISTS = "federation.pinterest.com/service-accounts."
SAYS = {f"{LISTS}ads": "ads-*,run.ner;*-batch,run.ner", f"{LISTS}web": "front"}


def runs_as(account: str, resource: str = "deployments", **spec: Any) -> dict[str, Any]:
    obj = written(resource, {"spec": {**hostilepods.GOOD, "serviceAccountName": account}})
    return {"metadata": {"name": "web", **spec.pop("metadata", {})}, "spec": obj["spec"] | spec}


@pytest.mark.parametrize(
    ("project", "account", "allowed"),
    [
        ("ads", "ads-nightly-batch", True),
        ("ads", "run.ner", True),
        ("ads", "runxner", False),
        ("ads", "ads-nightly", False),  # one of two FederatedQuotas lists it
        ("ads", "front", False),  # that of another project of the namespace
        ("web", "front", True),
        ("web", "default", True),
        ("web", "web", True),
        ("other", "front", False),
    ],
)
def test_a_slice_runs_under_accounts_of_its_project_only(
    project: str, account: str, allowed: bool
) -> None:
    """Whoever holds the hub's token; decision 0166."""
    resource = "pinterestservices"
    slice_ = runs_as(account, resource, project=project)
    assert (judged(slice_, resource=resource, says=SAYS) == []) is allowed
    carried = runs_as(
        account, metadata={"annotations": {"federation.pinterest.com/project": project}}
    )
    own = account == "web"  # a plain Deployment has no account of its own
    assert (judged(carried, resource="deployments", says=SAYS) == []) is (allowed and not own)
    assert accountlists.allows(SAYS, project, account) is (allowed and not own)


def test_natives_run_under_accounts_that_their_namespace_lists_for_a_project() -> None:
    def refused(account: str, **more: Any) -> int:
        job = runs_as(account, "jobs", metadata={"name": "web-0-9"})
        return len(judged(job, resource="jobs", user=MEMBER, **more))

    assert [refused(name, says=SAYS) for name in ("front", "web", "default", "we", "x")] == [
        *(0, 0, 0),
        *(1, 1),
    ]
    allow = {**SAYS, "federation.pinterest.com/unlisted-projects": "Allow"}
    assert refused("x", says=allow) == 0
    assert refused("x") == 0
    assert refused("x", may_run_as='["front"]') == 1


def test_an_older_slice_without_a_project_is_of_the_project_of_its_namespace() -> None:
    slice_ = runs_as("front", "pinterestservices")
    for project, count in (("feed", 0), ("web", 1)):
        says = {f"{LISTS}{project}": "front"}
        assert len(judged(slice_, resource="pinterestservices", says=says)) == count


def test_pods_of_one_object_have_one_service_account() -> None:
    """The authorizer is asked for one: an expression cannot pay for more."""

    def job(account: str) -> dict[str, Any]:
        spec = {**hostilepods.GOOD, "serviceAccountName": account}
        return {"template": {"spec": {"template": {"spec": spec}}}}

    for second, count in (("a", 0), ("b", 1)):
        jobs = {"spec": {"replicatedJobs": [job("a"), job(second)]}}
        assert len(judged(jobs, resource="jobsets")) == count


def test_the_policy_and_the_roles_know_the_same_kinds() -> None:
    """A kind that an account may write and that the table does not know is a gap, or is named here
    because it has no pods.
    """
    listed = {
        (group, name)
        for rule in policy()["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert listed == {(row.group, row.resource) for row in rights.POD_WRITERS}
    found = manifests.load((manifests.DEPLOY / "member" / "member-account.yaml").read_text())
    found += manifests.load((manifests.DEPLOY / "member" / "hub-account.yaml").read_text())
    granted = {
        (group, resource)
        for account in ("federator-hub", "federator-member")
        for _, group, resource, verb, _ in manifests.grants(found, account)
        if verb in ("create", "patch", "update") and "/" not in resource
    }
    assert granted == listed | WITHOUT_PODS


def test_the_authorizer_is_asked_for_every_way_to_all_secrets_one_call_an_expression() -> None:
    asked = [
        one["expression"] for one in policy()["validations"] if "authorizer" in one["expression"]
    ]
    assert all(expression.count("authorizer.") == 1 for expression in asked)
    for verb in ("get", "list", "watch"):
        assert any(f'.resource("secrets").check("{verb}")' in one for one in asked)
    assert not any(".namespace(" in one or ".name(" in one for one in asked)
