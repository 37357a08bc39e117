"""The ValidatingAdmissionPolicies that are stored, enforced for deletions as their bindings say.

Writes pass: for them the stand-in has the schemas and `validation`. The selectors of
matchConstraints and of bindings are not read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.admission import policies
from federator.embedded.rest.context import Context
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Caller
from federator.embedded.storage.resources import ResourceInfo

_GROUP: Final = "admissionregistration.k8s.io"
_DELETE: Final = "DELETE"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


def judge_deletion(
    ctx: Context, info: ResourceInfo, old: Mapping[str, Any], caller: Caller, *, dry_run: bool
) -> None:
    """Raises the `Refusal` of the first policy that refuses this deletion."""
    given: dict[str, Any] = {}
    for policy, binding in _enforced(ctx, info):
        given = given or _variables(ctx, info, old, caller, dry_run=dry_run)
        if (denied := policies.denial(policy["spec"], given)) is None:
            continue
        reason, message = denied
        name = policy["metadata"]["name"]
        why = f"ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request: "
        refusal = refusals.forbidden(
            info.group, info.plural, old["metadata"]["name"], why + message
        )
        refusal.reason, refusal.code = reason, _CODES.get(reason, 422)
        raise refusal


def _variables(
    ctx: Context, info: ResourceInfo, old: Mapping[str, Any], caller: Caller, *, dry_run: bool
) -> dict[str, Any]:
    """What the expressions of policies read of this deletion."""
    namespace = old["metadata"].get("namespace", "")
    resource = {"group": info.group, "version": info.version, "resource": info.plural}
    user = {"username": caller.name, "uid": caller.uid, "groups": list(caller.groups)}
    return {
        "request": {
            "operation": _DELETE,
            "name": old["metadata"]["name"],
            "namespace": namespace,
            "dryRun": dry_run,
            "resource": resource,
            "userInfo": user,
        },
        "namespaceObject": {"metadata": {"labels": dict(ctx.labels_of(namespace))}},
        "object": None,
        "oldObject": old,
    }


def _enforced(ctx: Context, info: ResourceInfo) -> Iterator[tuple[dict[str, Any], str]]:
    """The policies that judge deletions of this resource, and the binding that makes each deny."""
    if info.group == _GROUP:
        return  # policies do not keep themselves from being deleted
    kind = ctx.registry.get(_GROUP, "validatingadmissionpolicies")
    for stored in ctx.store.items(
        ctx.registry.get(_GROUP, "validatingadmissionpolicybindings"), None
    ):
        spec = stored.obj.get("spec") or {}
        policy = ctx.store.get(kind, "", spec.get("policyName", ""))
        if policy is None or "Deny" not in (spec.get("validationActions") or ()):
            continue
        constraints = (policy.obj.get("spec") or {}).get("matchConstraints") or {}
        if any(_concerns(rule, info) for rule in constraints.get("resourceRules") or ()):
            yield policy.obj, stored.obj["metadata"]["name"]


def _concerns(rule: Mapping[str, Any], info: ResourceInfo) -> bool:
    wanted = ("apiGroups", info.group), ("resources", info.plural), ("operations", _DELETE)
    return all({"*", value} & set(rule.get(field) or ()) for field, value in wanted)
