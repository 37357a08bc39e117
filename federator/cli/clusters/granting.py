"""The hub's right to read and replace one member's Secret on the host. Each member has one Role and
one RoleBinding, created when it joins and deleted when it leaves. The MemberCluster owns them, so
that they are garbage collected with it.

Kubernetes lets no user grant rights that the user lacks, so the user of `cluster join` needs `get`
and `patch` on that Secret.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model import names
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

CREDENTIALS_NAMESPACE: Final = "federator-clusters"
SYSTEM_NAMESPACE: Final = "federator-system"
HUB_ACCOUNT: Final = names.HUB_ACCOUNT
RBAC: Final = "rbac.authorization.k8s.io"
PREFIX: Final = "federator-hub-"
"""Name prefix of these Roles and RoleBindings; the name of the Secret follows."""
VERBS: Final = ("get", "patch")
"""The hub connects with the Secret's kubeconfig (`get`) and renews the token in it (`patch`)."""
BROAD: Final = "federator-hub"
"""Role and RoleBinding of earlier manifests: with them the hub could read every Secret of the
namespace."""


def objects(secret: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Role and RoleBinding for the Secret of one member."""
    meta = {"name": PREFIX + secret, "namespace": CREDENTIALS_NAMESPACE}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": meta}
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [secret],
        "verbs": list(VERBS),
    }
    account = {"kind": "ServiceAccount", "name": HUB_ACCOUNT, "namespace": SYSTEM_NAMESPACE}
    role = {**head, "kind": "Role", "rules": [rule]}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]}
    return role, {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [account]}


async def grant(host: Client, secret: str) -> None:
    """Lets the hub read and replace this Secret. Raises FieldError when the caller may not grant
    that right, and ApiErrors."""
    try:
        for body in objects(secret):
            await host.patch(_ref(body), body, kind="apply", force=True)
    except errors.Denied as refused:
        raise FieldError(
            "",
            f"you may not let the hub use the Secret {CREDENTIALS_NAMESPACE}/{secret}: you need"
            " create and patch on"
            f" roles and rolebindings in {CREDENTIALS_NAMESPACE}, and get and patch on the Secret"
            f" itself ({refused})",
        ) from refused


async def own(host: Client, member: Mapping[str, Any]) -> None:
    """Makes the MemberCluster an owner of its Secret and of the hub's right to it, so that they are
    garbage collected with the last MemberCluster that uses them. Raises ApiErrors; objects that the
    caller may not change are left to be deleted by hand."""
    secret, kind = secret_of(member), registry.KINDS["MemberCluster"]
    ours = {"apiVersion": kind.api_version, "kind": kind.kind}
    ours |= {"name": member["metadata"]["name"], "uid": member["metadata"]["uid"]}
    where = ObjectRef("v1", "secrets", CREDENTIALS_NAMESPACE, secret, "Secret")
    for ref in (where, *(_ref(body) for body in objects(secret))):
        with contextlib.suppress(errors.Denied, errors.NotFound):
            meta = (await host.get(ref))["metadata"]
            others = [
                owner
                for owner in raw.objects(meta, "ownerReferences")
                if (owner.get("kind"), owner.get("name")) != (ours["kind"], ours["name"])
            ]
            owners = {
                "resourceVersion": meta["resourceVersion"],
                "ownerReferences": [*others, ours],
            }
            await host.patch(ref, {"metadata": owners})


async def revoke(host: Client, secret: str) -> None:
    """Removes the hub's right to the Secret. Raises ApiErrors."""
    for body in reversed(objects(secret)):
        with contextlib.suppress(errors.NotFound):
            existing = await host.get(_ref(body))
            await host.delete(_ref(body), uid=existing["metadata"]["uid"])


async def broad(host: Client) -> bool:
    """Whether the Role of earlier manifests is still bound."""
    ref = ObjectRef(f"{RBAC}/v1", "rolebindings", CREDENTIALS_NAMESPACE, BROAD, "RoleBinding")
    try:
        await host.get(ref)
    except errors.NotFound:
        return False
    return True


def secret_of(member: Mapping[str, Any]) -> str:
    """The Secret that a MemberCluster names; "" for none."""
    return raw.text(member, "spec", "credentials", "secretRef", "name")


def _ref(body: Mapping[str, Any]) -> ObjectRef:
    plural = {"Role": "roles", "RoleBinding": "rolebindings"}[body["kind"]]
    return ObjectRef(
        body["apiVersion"],
        plural,
        body["metadata"]["namespace"],
        body["metadata"]["name"],
        body["kind"],
    )
