"""ConfigMaps and ServiceAccounts -> parts of the workloads that use them. Pure.

A workload has one ConfigMap, NAME-config, generated from `spec.config`; references to the absorbed
one are rewritten. Each member creates the ServiceAccount that a template names.
"""

from typing import Any, Final

from federator.api import raw
from federator.convert import templates
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, listed, only_fields
from federator.kinds import labels
from federator.kinds.cronjob import schema as cron
from federator.kinds.shared import parts

_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
HELP: Final = "apply it in every member that runs its users"


def absorb_configs(drafts: Drafts) -> None:
    """Decides the fate of every ConfigMap. Names of the drafts must be final."""
    for item in list(drafts.open("v1", "ConfigMap")):
        try:
            draft = _user(item, drafts)
            if draft.obj["kind"] == cron.KIND:
                raise LeftAlone(f"each run of {draft.title} would have a copy of its own; {HELP}")
            files = _files(item)
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        new = parts.config_map_name(draft.name)
        draft.spec["config"] = files
        draft.spec["template"] = templates.renamed(draft.spec["template"], item.name, new)
        drafts.absorb(item, draft)
        if new != item.name:
            drafts.note(
                draft,
                f"{item.title} becomes spec.config, in members the ConfigMap {new}; references in"
                " its template are "
                "rewritten, whatever else reads the old name must change",
            )


def _user(item: Item, drafts: Drafts) -> Draft:
    """The only draft with a template that uses the ConfigMap. Raises LeftAlone."""
    users = [
        draft
        for draft in drafts.made
        if draft.namespace == item.namespace and _uses(draft.spec, item.name)
    ]
    drafted = {id(draft.item) for draft in drafts.made}
    others = [
        draft
        for draft in drafts.distinct
        if draft is not item
        and id(draft) not in drafted
        and draft.namespace == item.namespace
        and _uses(draft.obj, item.name)
    ]
    if not users and not others:
        raise LeftAlone("no workload given here uses it")
    if not users:
        raise LeftAlone(
            f"it is used by {listed([other.title for other in others])}, which is not converted;"
            f" {HELP}"
        )
    if len(users) + len(others) > 1:
        names = listed([draft.title for draft in users] + [other.title for other in others])
        raise LeftAlone(
            f"it is used by {len(users) + len(others)} workloads ({names}), each would get its"
            f" own; {HELP}"
        )
    draft = users[0]
    if not draft.name:
        raise LeftAlone(
            f"{draft.title} gets its name from the server, so its ConfigMap cannot be referred to;"
            f" {HELP}"
        )
    if "config" in draft.spec:
        raise LeftAlone(f"{draft.title} has one ConfigMap, made from another one; {HELP}")
    new = parts.config_map_name(draft.name)
    if new != item.name and _uses(draft.spec, new):
        raise LeftAlone(
            f"{draft.title} uses a ConfigMap {new} already, the name that this one would get;"
            f" {HELP}"
        )
    if any(
        other_item is not item and other_item.is_a("v1", "ConfigMap") and other_item.name == new
        for other_item in drafts.items
    ):
        raise LeftAlone(f"another ConfigMap has the name {new}, which this one would get; {HELP}")
    return draft


def _uses(value: Any, name: str) -> bool:
    return any((kind, used) == ("ConfigMap", name) for kind, used, _ in templates.references(value))


def _files(item: Item) -> dict[str, Any]:
    reasons = {"binaryData": f"spec.config holds texts only; {HELP}"}
    if item.obj.get("immutable") is True:
        raise LeftAlone(f"immutable: spec.config can be changed; {HELP}")
    only_fields(item.obj, _FIELDS | {"data", "immutable"}, reasons, "")
    files = dict(raw.mapping(item.obj, "data"))
    if not files:
        raise LeftAlone(f"data: it is empty, and an empty spec.config makes no ConfigMap; {HELP}")
    return files


def absorb_accounts(drafts: Drafts) -> None:
    """Decides the fate of every ServiceAccount."""
    for item in list(drafts.open("v1", "ServiceAccount")):
        try:
            users = _account_users(item, drafts)
            role = _role(item)
            if runs := [draft.title for draft in users if draft.obj["kind"] == cron.KIND]:
                raise LeftAlone(f"runs of {listed(runs)} use it; {HELP}")
            for draft in users:
                if role and draft.spec.get("iamRole", role) != role:
                    raise LeftAlone(f"{draft.title} has another role")
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        for draft in users:
            if role:
                draft.spec["iamRole"] = role
            drafts.absorb(item, draft)
        lost = sorted(raw.mapping(item.obj, "metadata", "labels"))
        if lost:
            text = (
                f"label {', '.join(lost)} of {item.title} is not carried: members make the account"
                " without it"
            )
            drafts.note(users[0], text)


def _account_users(item: Item, drafts: Drafts) -> list[Draft]:
    users = [
        draft
        for draft in drafts.made
        if draft.namespace == item.namespace
        and item.name
        in (raw.text(draft.pod, "serviceAccountName") or raw.text(draft.pod, "serviceAccount"),)
    ]
    if not users:
        raise LeftAlone("no converted workload names it; apply it where it is needed")
    if item.name == "default":
        raise LeftAlone("every namespace has an account of this name; change it in the members")
    return users


def _role(item: Item) -> str:
    """The IAM role; "" for none. Raises LeftAlone for content that members would not put on the
    account they create."""
    keep = "apply it in the members before the workload: an account that is there is left as it is"
    only_fields(
        {key: value for key, value in item.obj.items() if not (key == "secrets" and item.live)},
        _FIELDS,
        {
            "imagePullSecrets": f"members make the account without them; {keep}",
            "secrets": f"members make the account without them; {keep}",
            "automountServiceAccountToken": f"members make the account without it; {keep}",
        },
        "",
    )
    annotations = raw.text_map(item.obj, "metadata", "annotations")
    role = annotations.pop(labels.IAM_ROLE_ANNOTATION, "")
    if annotations:
        raise LeftAlone(
            f"metadata.annotations: {listed(sorted(annotations))} would be lost; {keep}"
        )
    return role


def note_needs(drafts: Drafts) -> None:
    """Adds notes on the ConfigMaps and Secrets that each workload needs in every member besides its
    own."""
    for draft in drafts.made:
        own = parts.config_map_name(draft.name) if "config" in draft.spec else ""
        needed_names = {
            (kind, name)
            for kind, name, needed in templates.references(draft.spec["template"])
            if needed
        }
        needed_names |= {
            ("Secret", raw.text(secret, "name"))
            for secret in raw.objects(draft.pod, "imagePullSecrets")
        }
        needed = sorted(
            f"{kind}/{name}"
            for kind, name in needed_names
            if name and (kind, name) != ("ConfigMap", own)
        )
        if needed:
            drafts.note(draft, f"its pods need {', '.join(needed)} in every member that runs them")
