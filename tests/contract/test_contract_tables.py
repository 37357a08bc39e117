"""Columns of Tables: what `kubectl get` shows of every native kind, and in which order groups are listed."""

import pytest

from tests.contract.speaking import TABLE, Speaker

COLUMNS = {
    "/api/v1/configmaps": "Name | Data | Age",
    "/api/v1/endpoints": "Name | Endpoints | Age",
    "/api/v1/events": (
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | Count+ | Name+"
    ),
    "/api/v1/limitranges": "Name | Created At@",
    "/api/v1/namespaces": "Name | Status | Age",
    "/api/v1/nodes": (
        "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | "
        "Kernel-Version+ | Container-Runtime+"
    ),
    "/api/v1/persistentvolumeclaims": (
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode+"
    ),
    "/api/v1/persistentvolumes": (
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | "
        "VolumeAttributesClass | Reason | Age | VolumeMode+"
    ),
    "/api/v1/pods": ("Name | Ready | Status | Restarts | Age | IP+ | Node+ | Nominated Node+ | Readiness Gates+"),
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
    "/apis/apps/v1/deployments": ("Name | Ready | Up-to-date | Available | Age | Containers+ | Images+ | Selector+"),
    "/apis/apps/v1/replicasets": ("Name | Desired# | Current# | Ready# | Age | Containers+ | Images+ | Selector+"),
    "/apis/apps/v1/statefulsets": "Name | Ready | Age | Containers+ | Images+",
    "/apis/batch/v1/cronjobs": (
        "Name | Schedule | Timezone | Suspend? | Active# | Last Schedule | Age | Containers+ | Images+ | Selector+"
    ),
    "/apis/batch/v1/jobs": "Name | Status | Completions | Duration | Age | Containers+ | Images+ | Selector+",
    "/apis/autoscaling/v2/horizontalpodautoscalers": (
        "Name | Reference | Targets | MinPods | MaxPods | Replicas | Age"
    ),
    "/apis/networking.k8s.io/v1/ingressclasses": "Name | Controller | Parameters | Age",
    "/apis/networking.k8s.io/v1/ingresses": "Name | Class | Hosts | Address | Ports | Age",
    "/apis/networking.k8s.io/v1/networkpolicies": "Name | Pod-Selector | Age",
    "/apis/policy/v1/poddisruptionbudgets": ("Name | Min Available | Max Unavailable | Allowed Disruptions# | Age"),
    "/apis/coordination.k8s.io/v1/leases": "Name | Holder | Age",
    "/apis/discovery.k8s.io/v1/endpointslices": "Name | AddressType | Ports | Endpoints | Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name | Value# | Global-Default? | Age | PreemptionPolicy",
    "/apis/storage.k8s.io/v1/storageclasses": (
        "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age"
    ),
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": (
        "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"
    ),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name | Created At@",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": ("Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"),
    "/apis/rbac.authorization.k8s.io/v1/roles": "Name | Created At@",
    "/apis/events.k8s.io/v1/events": (
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | Count+ | Name+"
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name | Created At@",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": ("Name | Validations# | ParamKind | Age"),
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": ("Name | PolicyName | ParamRef | Age"),
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "Name | Webhooks# | Age",
}
"""`#` marks integers, `?` booleans, `@` dates, a trailing `+` what only `-o wide` shows."""

MARKS = {"string": "", "integer": "#", "boolean": "?", "date": "@"}


@pytest.mark.parametrize("path", COLUMNS)
async def test_every_native_kind_has_the_columns_of_its_printer(api: Speaker, path: str) -> None:
    columns = (await api.get(path, accept=TABLE, limit=1)).object()["columnDefinitions"]
    shown = [f"{column['name']}{MARKS[column['type']]}{'+' if column['priority'] else ''}" for column in columns]
    assert " | ".join(shown) == COLUMNS[path]
    assert [column["name"] for column in columns if column["format"] == "name"] == ["Name"]


async def test_groups_come_in_the_order_in_which_kubectl_get_all_shows_them(api: Speaker) -> None:
    names = [group["name"] for group in (await api.get("/apis")).object()["groups"]]
    known = ["apps", "autoscaling", "batch", "networking.k8s.io", "policy", "scheduling.k8s.io", "coordination.k8s.io"]
    assert [name for name in names if name in known] == known
