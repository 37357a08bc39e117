"""What is asked of the manifests in deploy/: restricted pods, roles without wildcards, closed
networks. Pure.

The unit tests look at the files as they lie there, the end-to-end tests at what `kubectl kustomize`
makes of them. Every checker yields sentences; none means that all is well.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from federator import settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DATA = ("kustomization.yaml", "federator.yaml")
"""Files in deploy/ that are no manifests."""
FORBIDDEN_VERBS = frozenset({"*", "escalate", "bind", "impersonate", "deletecollection"})
FORBIDDEN_RESOURCES = (
    "roles",
    "clusterroles",
    "rolebindings",
    "clusterrolebindings",
    "pods/exec",
    "pods/attach",
)
HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
IMPERSONATES = {("ClusterRole federator-gateway", resource) for resource in ("users", "groups")}
"""Who may act as others: the gateway, as the user that an issuer has confirmed."""
ON_DISK = frozenset({"history", "cache", "audit"})
"""What may lie on the disk of a node: it holds no secrets, and is to outlive the container."""
VOLUMES = frozenset({"configMap", "downwardAPI", "emptyDir", "projected", "secret"})
METADATA_ADDRESSES = "169.254.0.0/16"

Manifest = Mapping[str, Any]
Grant = tuple[str, str, str, str, str]
"""(namespace or "", API group, resource, verb, name or "")."""


def files() -> list[Path]:
    return sorted(path for path in DEPLOY.rglob("*.yaml") if path.name not in DATA)


def load(text: str) -> list[dict[str, Any]]:
    return [found for found in yaml.load_all(text, Loader=yaml.CSafeLoader) if found]


def written() -> list[dict[str, Any]]:
    """Every manifest as it lies in deploy/."""
    return [found for path in files() for found in load(path.read_text())]


def of_kind(found: Iterable[Manifest], *wanted: str) -> list[Manifest]:
    return [each for each in found if each["kind"] in wanted]


def grants(found: Iterable[Manifest], account: str) -> set[Grant]:
    """What the roles bound to this service account allow, one row for each verb."""
    found = list(found)
    rows: set[Grant] = set()
    for binding in of_kind(found, "RoleBinding", "ClusterRoleBinding"):
        if account not in [subject["name"] for subject in binding["subjects"]]:
            continue
        namespace, wanted = binding["metadata"].get("namespace", ""), binding["roleRef"]
        for role in of_kind(found, wanted["kind"]):
            meta = role["metadata"]
            if meta["name"] == wanted["name"] and meta.get("namespace", "") == namespace:
                rows.update(rows_of(role, namespace))
    return rows


def rows_of(role: Manifest, namespace: str = "") -> Iterator[Grant]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield namespace, group, resource, verb, name


def role_faults(found: Iterable[Manifest]) -> Iterator[str]:
    """Wildcards, rights over rights, and Secrets that can be listed."""
    for role in of_kind(found, "Role", "ClusterRole"):
        name = f"{role['kind']} {role['metadata']['name']}"
        for rule in role["rules"]:
            if "nonResourceURLs" in rule:
                yield f"{name} grants paths: {rule['nonResourceURLs']}"
        for _, group, resource, verb, only in rows_of(role):
            forbidden = verb in FORBIDDEN_VERBS and (
                verb != "impersonate" or (name, resource) not in IMPERSONATES
            )
            if "*" in (group, resource) or "*" in resource or forbidden:
                yield f"{name} grants {verb} on {resource}.{group}"
            if resource in FORBIDDEN_RESOURCES or (
                resource == "secrets" and verb != "get" and not (verb == "patch" and only)
            ):
                yield f"{name} grants {verb} on {resource}"


def pod_faults(found: Iterable[Manifest]) -> Iterator[str]:
    """What the Pod Security Standard `restricted` refuses, and what we ask beyond it."""
    for owner in of_kind(found, "Deployment"):
        name, spec = f"Deployment {owner['metadata']['name']}", owner["spec"]["template"]["spec"]
        yield from (f"{name} sets {field}" for field in HOST_FIELDS if spec.get(field))
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name} mounts the account's unlimited token"
        for volume in spec.get("volumes") or ():
            if not set(volume) - {"name"} <= VOLUMES:
                yield f"{name} mounts the volume {volume['name']} of a kind that is not allowed"
            scratch = volume.get("emptyDir")
            if scratch is not None and "sizeLimit" not in scratch:
                yield f"{name} has a scratch volume without a bound"
            elif (
                scratch is not None
                and scratch.get("medium") != "Memory"
                and volume["name"] not in ON_DISK
            ):
                yield f"{name} has a scratch volume that is no tmpfs"
        for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
            yield from (
                f"{name}/{container['name']} {fault}"
                for fault in _container_faults(container, spec)
            )


def _container_faults(container: Manifest, pod: Manifest) -> Iterator[str]:
    secure = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
    wanted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    for field, value in wanted.items():
        if secure.get(field) is not value:
            yield f"has {field} {secure.get(field)}, not {value}"
    if secure.get("privileged") or not secure.get("runAsUser"):
        yield "may run as root"
    if secure.get("capabilities") != {"drop": ["ALL"]}:
        yield "keeps capabilities"
    if (secure.get("seccompProfile") or {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if any("hostPort" in port for port in container.get("ports") or ()):
        yield "takes a port of its node"
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        if ((container.get(probe) or {}).get("httpGet") or {}).get("path") != path:
            yield f"has no {probe} on {path}"
    resources = container.get("resources") or {}
    if not {"cpu", "memory"} <= set(resources.get("requests") or {}) or "memory" not in (
        resources.get("limits") or {}
    ):
        yield "names no resources"
    if container["image"].endswith(":latest") or ":" not in container["image"].rpartition("/")[2]:
        yield f"runs the unnamed version {container['image']}"


def network_faults(found: Iterable[Manifest]) -> Iterator[str]:
    """Each of our pods is selected by a policy that closes both directions and never reaches the
    metadata addresses. A policy without a namespace is for the namespaces of users (deploy/pods).
    """
    found = list(found)
    every = of_kind(found, "NetworkPolicy")
    policies = [policy for policy in every if "namespace" in policy["metadata"]]
    for owner in of_kind(found, "Deployment"):
        labels = owner["spec"]["template"]["metadata"]["labels"].items()
        if not any(
            policy["spec"]["podSelector"]["matchLabels"].items() <= labels for policy in policies
        ):
            yield f"Deployment {owner['metadata']['name']} is selected by no NetworkPolicy"
    for policy in policies:
        name, spec = f"NetworkPolicy {policy['metadata']['name']}", policy["spec"]
        if sorted(spec["policyTypes"]) != ["Egress", "Ingress"]:
            yield f"{name} leaves a direction open"
        for rule in [*spec.get("ingress", ()), *spec.get("egress", ())]:
            if not rule.get("ports") or not (rule.get("from") or rule.get("to")):
                yield f"{name} has a rule for every port or every peer"
            for peer in rule.get("to") or ():
                block = peer.get("ipBlock") or {}
                if block.get("cidr") == "0.0.0.0/0" and METADATA_ADDRESSES not in block.get(
                    "except", ()
                ):
                    yield f"{name} reaches {METADATA_ADDRESSES}"


def settings_faults(found: Iterable[Manifest], directory: Path) -> Iterator[str]:
    """Settings files in ConfigMaps load, and the probes ask the port that they name. Those of the
    dashboard ask the port of its pages."""
    for config in of_kind(found, "ConfigMap"):
        text = config["data"].get("federator.yaml")
        if text is None:
            continue
        path = directory / "federator.yaml"
        path.write_text(text)
        serve = settings.load(str(path), {}).serve
        if "dashboard" not in config["metadata"]["name"] and (serve.host, serve.port) != (
            "0.0.0.0",
            8080,
        ):
            yield f"{config['metadata']['name']} listens on {serve.host}:{serve.port}"


def all_faults(found: Iterable[Manifest]) -> list[str]:
    found = list(found)
    return [*role_faults(found), *pod_faults(found), *network_faults(found)]
