"""What if: an edit of one workload and of what it depends on, from a few fields. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from federator.advice import patches, requests
from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import edits
from federator.dashboard.edits import Edits
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.manifests import Unreadable
from federator.model.resources import Resources

FIELDS: Final = ("replicas", "cpu", "memory", "lose", "quota")
"""Parameters of the address."""
POLICY: Final = "policy"
"""The field with an edited policy, which is too long for an address."""
LIMITS: Final = ("guaranteed", "max")


def of(given: Mapping[str, str], kind: Kind, obj: Obj, account: Obj | None, *, title: str) -> Edits:
    """The edits of a workload. `account`: the FederatedQuota of its project, None where there is
    none or the reader may not get it; `title` says which. Raises `Unreadable`."""
    made = Edits(lost=edits.listed(given, "lose"))
    namespace = raw.text(obj, "metadata", "namespace")
    if text := given.get(POLICY, "").strip():
        made.applied += edits.manifests(text, "the edited policy", namespace, made.ignored)
    if text := given.get("quota", "").strip():
        made.applied.append(_with_quota(text, kind, obj, account, title))
    changed = obj
    for name in ("cpu", "memory"):
        if text := given.get(name, "").strip():
            changed = _with_request(changed, name, text)
    if changed is not obj:
        made.applied.append(written(kind, changed))
    if text := given.get("replicas", "").strip():
        which = kind.kind, namespace, raw.text(obj, "metadata", "name")
        made.scaled = [(which, edits.count(text, "replicas"))]
    return made


def written(kind: Kind, obj: Obj) -> dict[str, Any]:
    """The parts of an object that people write."""
    meta = raw.mapping(obj, "metadata")
    kept = ("name", "namespace", "labels", "annotations")
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": raw.mapping(obj, "spec"),
    }


def _with_request(obj: Obj, name: str, text: str) -> Obj:
    """The workload with another request of the container, or of the pod, that requests most."""
    amount = _amount(name, name, text)
    path, _, _ = requests.largest(obj, name)
    if not path:
        if not raw.items(obj, *requests.POD, "containers"):
            raise Unreadable(f"{name}: this kind has more than one template; plan it on Plan")
        path = (*requests.POD, "containers", 0, "resources", "requests", name)
    return patches.edited(obj, path, quantity.render_amount(name, amount))


def _with_quota(text: str, kind: Kind, obj: Obj, account: Obj | None, title: str) -> dict[str, Any]:
    """The account with more of some resources in the tier of the workload, in each limit that it
    has of them."""
    if account is None:
        raise Unreadable(f"quota: {title}")
    assert kind.verbs is not None
    tier = str(kind.verbs.tier(obj))
    named = raw.text(account, "metadata", "name")
    for part in edits.listed({"quota": text}, "quota"):
        resource, equals, value = part.partition("=")
        if not equals:
            shown = plaintext.clipped(part, 40)
            raise Unreadable(f"quota: {shown!r} is not RESOURCE=AMOUNT, such as cpu=100")
        more, limited = _amount("quota", resource, value), False
        for limit in LIMITS:
            path: requests.Path = ("spec", "tiers", tier, limit, resource)
            present = raw.at(account, *map(str, path))
            if present is not None:
                whole = _amount("quota", resource, str(present)) + more
                account = patches.edited(account, path, quantity.render_amount(resource, whole))
                limited = True
        if not limited:
            shown = plaintext.clipped(resource, 80)
            raise Unreadable(f"quota: account {named} has no limit of {shown} in tier {tier}")
    return written(registry.KINDS["FederatedQuota"], account)


def _amount(field: str, resource: str, text: str) -> int:
    try:
        amounts: Resources = quantity.vector({resource: text})
    except FieldError as bad:
        shown = plaintext.clipped(text, 40)
        raise Unreadable(f"{field}: {shown!r}: {bad.message}") from None
    return amounts[resource]
