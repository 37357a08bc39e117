"""Joining and examining a cluster: the functions behind `federator cluster add` and `check`.

They connect to the member with the caller's own context. The hub gets a service account of its own
if the member can issue tokens, else the caller's credentials if the hub accepts their form.
"""

import asyncio
import contextlib
import email.utils
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from federator.cli.clusters import granting
from federator.cli.clusters.granting import (
    CREDENTIALS_NAMESPACE,
    HUB_ACCOUNT,
    RBAC,
    SYSTEM_NAMESPACE,
)
from federator.kinds import registry, rights
from federator.kube import errors, tokens
from federator.kube.client import Client
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import MemberAccess
from federator.model import names
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

CLOCK_SKEW_MAX_S = 5.0
OLDEST_MINOR = 27
READY_PAUSE_S = 1.0
"""Between two questions whether a cluster is ready."""

HUB_RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = tuple(
    (right.group, right.resource, right.verbs) for right in rights.of(rights.HUB)
)
"""The hub's rights in a member, as (group, resource, verbs): its ClusterRole, and what `check`
tests."""
OWN_RULES: tuple[tuple[str, str, str, str], ...] = tuple(
    (right.group, right.resource, right.name, verb)
    for right in rights.of(rights.HUB_OWN)
    for verb in right.verbs
)
"""The hub's rights in the federation's namespace of a member, as (group, resource, name, verb). It
may create tokens of its own account only, read the heartbeat of the member process, and renew the
lease by which guarded shards run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of an examination."""

    subject: str
    ok: bool
    message: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Result of examining a cluster."""

    uid: str
    version: str
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        return all(finding.ok for finding in self.findings)


async def until_ready(client: Client, within_s: float) -> None:
    """Waits for so long at most until an API server that has just started, or takes up new kinds,
    says on `/readyz` that it is ready. Returns also where it does not: what follows names the
    trouble."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not await _is_ready(client):  # noqa: ASYNC110 - another program's state
                await asyncio.sleep(READY_PAUSE_S)


async def _is_ready(client: Client) -> bool:
    """False for a 5xx alone: waiting does not help against anything else."""
    try:
        await client.ready()
    except (errors.ServerTrouble, errors.Throttled):
        return False
    except errors.ApiError:
        return True
    return True


async def examine(client: Client, now_s: float) -> Examination:
    """Checks connectivity, version, clock, CRDs and the caller's rights. Raises `errors.ApiError`
    when the cluster does not answer."""
    date = await client.ready()
    version = str((await client.version()).get("gitVersion", ""))
    uid = await client.kube_system_uid()
    findings = [
        Finding("connectivity", True, "answers /readyz"),
        Finding("identity", True, f"kube-system uid {uid}"),
        _version(version),
        _clock(date, now_s),
    ]
    served = {(resource.api_version, resource.kind) for resource in await client.discover()}
    for kind in registry.KINDS.values():
        if kind.in_members:
            there = (kind.api_version, kind.kind) in served
            fix = (
                "served"
                if there
                else "not served: run `federator crd install --member` with its context"
            )
            findings.append(Finding(f"CRD {kind.kind}", there, fix))
    findings.extend(await _rights(client))
    return Examination(uid, version, tuple(findings))


def _version(version: str) -> Finding:
    parts = version.lstrip("v").split(".")
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    supported = parts[0] == "1" and minor >= OLDEST_MINOR
    return Finding(
        "version", supported, version if supported else f"{version} is older than v1.{OLDEST_MINOR}"
    )


def _clock(date: str, now_s: float) -> Finding:
    """Compares the Date header of the response, which has a resolution of one second."""
    try:
        skew = email.utils.parsedate_to_datetime(date).timestamp() - now_s
    except (TypeError, ValueError):
        return Finding("clock", True, "the server sends no valid time")
    if abs(skew) > CLOCK_SKEW_MAX_S:
        return Finding(
            "clock", False, f"differs from ours by {skew:+.0f} s, more than {CLOCK_SKEW_MAX_S:g} s"
        )
    return Finding("clock", True, f"within {CLOCK_SKEW_MAX_S:g} s of ours")


async def _rights(client: Client) -> list[Finding]:
    """Checks each right that the hub needs by a SelfSubjectAccessReview."""
    ref = ObjectRef(
        "authorization.k8s.io/v1", "selfsubjectaccessreviews", "", "", "SelfSubjectAccessReview"
    )

    async def ask(group: str, resource: str, verb: str, **where: str) -> bool:
        resource, _, subresource = resource.partition("/")
        attributes = {
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "verb": verb,
            **where,
        }
        body = {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = await client.create(ref, body)
        return bool((answer.get("status") or {}).get("allowed"))

    findings = []
    for group, resource, verbs in HUB_RULES:
        allowed = await asyncio.gather(*(ask(group, resource, verb) for verb in verbs))
        refused = [verb for verb, yes in zip(verbs, allowed, strict=True) if not yes]
        name = f"{resource}.{group}" if group else resource
        message = f"may {', '.join(verbs)}" if not refused else f"may not {', '.join(refused)}"
        findings.append(Finding(f"RBAC {name}", not refused, message))
    for group, resource, name, verb in OWN_RULES:
        permitted = await ask(group, resource, verb, namespace=SYSTEM_NAMESPACE, name=name)
        message = f"may {verb}" if permitted else f"may not {verb}"
        findings.append(Finding(f"RBAC {resource}.{group}".rstrip("."), permitted, message))
    return findings


async def hub_account(client: Client) -> str:
    """Creates the hub's service account with its rights in the member. Returns an expiring token of
    it, "" where the member issues none. Raises ApiErrors."""
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        for group, resource, verbs in HUB_RULES
    ]
    subjects = [{"kind": "ServiceAccount", "name": HUB_ACCOUNT, "namespace": SYSTEM_NAMESPACE}]

    def bound(kind: str, namespace: str) -> dict[str, Any]:
        reference = {"apiGroup": RBAC, "kind": kind, "name": HUB_ACCOUNT}
        head = {
            "apiVersion": f"{RBAC}/v1",
            "metadata": _named(namespace),
            "roleRef": reference,
            "subjects": subjects,
        }
        return head | {"kind": "RoleBinding" if namespace else "ClusterRoleBinding"}

    rights = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": _named(""),
        "rules": rules,
    }
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": _named(SYSTEM_NAMESPACE),
        "rules": [
            {
                "apiGroups": [group],
                "resources": [resource],
                "resourceNames": [name],
                "verbs": [verb],
            }
            for group, resource, name, verb in OWN_RULES
        ],
    }
    manifests: tuple[tuple[str, dict[str, Any]], ...] = (
        (
            "namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        ),
        (
            "serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(SYSTEM_NAMESPACE)},
        ),
        ("clusterroles", rights),
        ("clusterrolebindings", bound("ClusterRole", "")),
        ("roles", role),
        ("rolebindings", bound("Role", SYSTEM_NAMESPACE)),
    )
    for plural, body in manifests:
        await client.patch(_ref(plural, body), body, kind="apply", force=True)
    try:
        return await tokens.request(client, SYSTEM_NAMESPACE, HUB_ACCOUNT)
    except errors.NotFound:
        return ""


async def lasting_secret(client: Client) -> bool:
    """Whether the member still has the non-expiring token that earlier versions created for the
    hub."""
    try:
        secret = await client.get(
            ObjectRef("v1", "secrets", SYSTEM_NAMESPACE, HUB_ACCOUNT, "Secret")
        )
    except (errors.NotFound, errors.Denied):
        return False
    return secret.get("type") == "kubernetes.io/service-account-token"


def _named(namespace: str) -> dict[str, Any]:
    return {"name": HUB_ACCOUNT} | ({"namespace": namespace} if namespace else {})


def _ref(plural: str, body: Mapping[str, Any]) -> ObjectRef:
    meta = body["metadata"]
    return ObjectRef(
        body["apiVersion"], plural, meta.get("namespace", ""), meta["name"], body["kind"]
    )


def member_kubeconfig(access: MemberAccess) -> str:
    """The kubeconfig for the Secret, in the form that the hub accepts. Raises FieldError without
    credentials."""
    if not access.token and not (access.cert_pem and access.key_pem):
        raise FieldError(
            "user",
            f"the member issued no token for the service account {SYSTEM_NAMESPACE}/{HUB_ACCOUNT},"
            " and the context has"
            " neither a token nor an inline certificate: use a context that has one",
        )
    return kubeconfigs.written(access)


async def join(
    host: Client, name: str, uid: str, kubeconfig: str, labels: Mapping[str, str]
) -> None:
    """Writes the Secret, the hub's right to use it, and the MemberCluster with its identity pinned.
    Raises FieldError when the caller may not grant that right, `errors.AlreadyExists` for a taken
    name."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": CREDENTIALS_NAMESPACE},
    }
    with contextlib.suppress(errors.AlreadyExists):
        await host.create(_ref("namespaces", namespace), namespace)
    kind = registry.KINDS["MemberCluster"]
    member = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "labels": dict(labels), "finalizers": [names.CLUSTER_FINALIZER]},
        "spec": {"credentials": {"secretRef": {"name": name}}, "clusterUID": uid},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": CREDENTIALS_NAMESPACE},
        "type": "Opaque",
        "stringData": {"kubeconfig": kubeconfig},
    }
    await granting.grant(host, name)
    await host.patch(_ref("secrets", secret), secret, kind="apply", force=True)
    await granting.own(host, await host.create(kind.ref("", name), member))


async def renew(host: Client, member: Mapping[str, Any], token: str, access: MemberAccess) -> None:
    """Writes a new token into the Secret of a joined member, and lets the hub use that Secret.
    `access` replaces the kubeconfig where the Secret is missing or has none. Raises FieldError,
    ApiErrors."""
    name, secret = member["metadata"]["name"], granting.secret_of(member)
    if not secret:
        raise FieldError("", f"{name} names no Secret (spec.credentials.secretRef)")
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": CREDENTIALS_NAMESPACE},
        "type": "Opaque",
    }
    with contextlib.suppress(errors.NotFound, ValueError):
        stored = await host.get(_ref("secrets", body))
        access = kubeconfigs.member_access(kubeconfigs.in_secret(stored, name), allow_loopback=True)
    text = kubeconfigs.written(replace(access, token=token, cert_pem=b"", key_pem=b""))
    await granting.grant(host, secret)
    await host.patch(
        _ref("secrets", body), body | {"stringData": {"kubeconfig": text}}, kind="apply", force=True
    )
    await granting.own(host, member)


async def refuse_known(host: Client, name: str, uid: str) -> None:
    """Raises FieldError when the cluster is already a member or is the host itself, or when another
    cluster has the name: its credentials must not be overwritten. Writes nothing."""
    kind = registry.KINDS["MemberCluster"]
    for other in (await host.list(kind.api_version, kind.plural)).items:
        if other["metadata"]["name"] == name and (other.get("spec") or {}).get("clusterUID") != uid:
            raise FieldError(
                "",
                f"another cluster has joined as {name}; choose another name, or remove that one"
                " first",
            )
        if (other.get("spec") or {}).get("clusterUID") == uid or (other.get("status") or {}).get(
            "clusterUID"
        ) == uid:
            raise FieldError(
                "",
                f"this cluster (kube-system uid {uid}) has joined already, as"
                f" {other['metadata']['name']}",
            )
    if await host.kube_system_uid() == uid:
        raise FieldError("", "this cluster is the host itself, which cannot be its own member")


async def forget(host: Client, name: str) -> list[str]:
    """Marks each deletion that waits for this cluster to stop waiting. Returns their decisions, as
    namespace/name."""
    kind = registry.KINDS["PlacementDecision"]
    decisions = []
    for obj in (await host.list(kind.api_version, kind.plural)).items:
        meta = obj["metadata"]
        waiting = ((obj.get("spec") or {}).get("deletion") or {}).get("waitingFor") or ()
        if name not in waiting:
            continue
        marked = (meta.get("annotations") or {}).get(names.FORCE_FORGET_ANNOTATION, "")
        clusters = sorted({part for part in marked.split(",") if part} | {name})
        mark = {names.FORCE_FORGET_ANNOTATION: ",".join(clusters)}
        patch = {"metadata": {"uid": meta["uid"], "annotations": mark}}
        await host.patch(kind.ref(meta["namespace"], meta["name"]), patch)
        decisions.append(f"{meta['namespace']}/{meta['name']}")
    return sorted(decisions)


def other_host(member_cluster: Mapping[str, Any]) -> str:
    """Uid of the other host that owns this member according to its status; "" for none."""
    status = member_cluster.get("status") or {}
    return str(status.get("hostUID") or "")
