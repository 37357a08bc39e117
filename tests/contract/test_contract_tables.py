"""Columns of Tables: what `kubectl get` shows of every native kind, and in which order groups are
listed.
"""

import pytest

from tests.contract.crds import install_widgets
from tests.contract.speaking import TABLE, Speaker

COLUMNS = {
    "/api/v1/configmaps": "Name | Data | Age",
    "/api/v1/endpoints": "Name | Endpoints | Age",
    "/api/v1/events": (
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | "
        "Count+ | Name+"
    ),
    "/api/v1/limitranges": "Name | Created At@",
    "/api/v1/namespaces": "Name | Status | Age",
    "/api/v1/nodes": (
        "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | "
        "Kernel-Version+ | Container-Runtime+"
    ),
    "/api/v1/persistentvolumeclaims": (
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | "
        "VolumeAttributesClass | Age | VolumeMode+"
    ),
    "/api/v1/persistentvolumes": (
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | "
        "VolumeAttributesClass | Reason | Age | VolumeMode+"
    ),
    "/api/v1/pods": (
        "Name | Ready | Status | Restarts | Age | IP+ | Node+ | Nominated Node+ | Readiness Gates+"
    ),
    "/api/v1/podtemplates": "Name | Containers | Images | Pod Labels",
    "/api/v1/resourcequotas": "Name | Request | Limit | Age",
    "/api/v1/secrets": "Name | Type | Data | Age",
    "/api/v1/serviceaccounts": "Name | Age",
    "/api/v1/services": "Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+",
    "/apis/apps/v1/controllerrevisions": "Name | Controller | Revision | Age",
    "/apis/apps/v1/daemonsets": (
        "Name | Desired# | Current# | Ready# | Up-to-date# | Available# | Node Selector | Age | "
        "Containers+ | Images+ | Selector+"
    ),
    "/apis/apps/v1/deployments": (
        "Name | Ready | Up-to-date | Available | Age | Containers+ | Images+ | Selector+"
    ),
    "/apis/apps/v1/replicasets": (
        "Name | Desired# | Current# | Ready# | Age | Containers+ | Images+ | Selector+"
    ),
    "/apis/apps/v1/statefulsets": "Name | Ready | Age | Containers+ | Images+",
    "/apis/batch/v1/cronjobs": (
        "Name | Schedule | Timezone | Suspend? | Active# | Last Schedule | Age | Containers+ "
        "| Images+ | Selector+"
    ),
    "/apis/batch/v1/jobs": (
        "Name | Status | Completions | Duration | Age | Containers+ | Images+ | Selector+"
    ),
    "/apis/autoscaling/v2/horizontalpodautoscalers": (
        "Name | Reference | Targets | MinPods | MaxPods | Replicas | Age"
    ),
    "/apis/networking.k8s.io/v1/ingressclasses": "Name | Controller | Parameters | Age",
    "/apis/networking.k8s.io/v1/ingresses": "Name | Class | Hosts | Address | Ports | Age",
    "/apis/networking.k8s.io/v1/networkpolicies": "Name | Pod-Selector | Age",
    "/apis/policy/v1/poddisruptionbudgets": (
        "Name | Min Available | Max Unavailable | Allowed Disruptions# | Age"
    ),
    "/apis/coordination.k8s.io/v1/leases": "Name | Holder | Age",
    "/apis/discovery.k8s.io/v1/endpointslices": "Name | AddressType | Ports | Endpoints | Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": (
        "Name | Value# | Global-Default? | Age | PreemptionPolicy"
    ),
    "/apis/storage.k8s.io/v1/storageclasses": (
        "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age"
    ),
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": (
        "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"
    ),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name | Created At@",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": (
        "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"
    ),
    "/apis/rbac.authorization.k8s.io/v1/roles": "Name | Created At@",
    "/apis/events.k8s.io/v1/events": (
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | "
        "Count+ | Name+"
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": (
        "Name | Scope | Versions | Created At@ | Group+ | Kind+ | ShortNames+ | Established?+"
    ),
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": (
        "Name | Validations# | ParamKind | Age"
    ),
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": (
        "Name | PolicyName | ParamRef | Age"
    ),
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "Name | Webhooks# | Age",
}
"""`#` marks integers, `?` booleans, `@` dates, a trailing `+` what only `-o wide` shows."""

BEFORE = {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name | Created At@"}
"""Of the version before the newest."""

MARKS = {"string": "", "integer": "#", "boolean": "?", "date": "@"}


@pytest.mark.parametrize("path", COLUMNS)
async def test_every_native_kind_has_the_columns_of_its_printer(
    api: Speaker, newest: bool, path: str
) -> None:
    columns = (await api.get(path, accept=TABLE, limit=1)).object()["columnDefinitions"]
    shown = [
        f"{column['name']}{MARKS[column['type']]}{'+' if column['priority'] else ''}"
        for column in columns
    ]
    expected = COLUMNS[path] if newest else BEFORE.get(path, COLUMNS[path])
    assert " | ".join(shown) == expected
    assert [column["name"] for column in columns if column["format"] == "name"] == ["Name"]


async def test_a_definition_tells_its_versions_and_names(api: Speaker, newest: bool) -> None:
    if not newest:
        pytest.skip("Kubernetes before 1.37 shows the name and the time only")
    await install_widgets(api)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.contract.example"
    table = (await api.get(path, accept=TABLE)).object()
    (row,) = table["rows"]
    made = row["object"]["metadata"]["creationTimestamp"]
    assert row["cells"][3] == made
    spec = (await api.get(path)).object()["spec"]
    served = sorted(
        version["name"] + "(storage)" * version["storage"]
        for version in spec["versions"]
        if version["served"]
    )
    names = spec["names"]
    assert [*row["cells"][:3], *row["cells"][4:]] == [
        "widgets.contract.example",
        spec["scope"],
        ",".join(served),
        spec["group"],
        names["kind"],
        ",".join(names.get("shortNames", ())),
        True,
    ]


async def test_of_the_default_storage_classes_the_newest_is_marked_in_a_list(
    api: Speaker, newest: bool
) -> None:
    url, mark = (
        "/apis/storage.k8s.io/v1/storageclasses",
        {"storageclass.kubernetes.io/is-default-class": "true"},
    )
    names = [f"{api.namespace}-{letter}" for letter in "ab"]
    for name in names:
        body = {
            "metadata": {"name": name, "annotations": mark},
            "provisioner": "none",
            "reclaimPolicy": "Retain",
        }
        (await api.post(url, body)).object(201)
        alone = (await api.get(f"{url}/{name}", accept=TABLE)).object()["rows"]
        assert alone[0]["cells"][0] == (name if newest else f"{name} (default)")
    rows = (await api.get(url, accept=TABLE)).object()["rows"]
    marked = [row["cells"][0] for row in rows if row["cells"][0].endswith(" (default)")]
    for name in names:
        (await api.delete(f"{url}/{name}")).object()
    # Both may be of one second; then it is the first by name.
    assert len(marked) == (1 if newest else 2)
    assert marked[0].removesuffix(" (default)") in names


async def test_groups_come_in_the_order_in_which_kubectl_get_all_shows_them(api: Speaker) -> None:
    names = [group["name"] for group in (await api.get("/apis")).object()["groups"]]
    known = [
        "apps",
        "autoscaling",
        "batch",
        "networking.k8s.io",
        "policy",
        "scheduling.k8s.io",
        "coordination.k8s.io",
    ]
    assert [name for name in names if name in known] == known
