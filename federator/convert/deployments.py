"""Deployment -> a drafted PinterestService, DaemonSet -> a PinterestDaemon. Pure; rows of
`convert.DRAFTERS`.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from federator.api import raw
from federator.convert import templates
from federator.convert.drafts import BadInput, Draft, Drafts, Item, LeftAlone, only_fields
from federator.kinds import read
from federator.kinds.daemon import schema as daemon
from federator.kinds.deployment import ask as deployment
from federator.kinds.service import schema
from federator.kinds.shared import workloads
from federator.model import names
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

_KNOWN: Final = frozenset(
    {
        "replicas",
        "selector",
        "template",
        "strategy",
        "minReadySeconds",
        "progressDeadlineSeconds",
        "revisionHistoryLimit",
        "paused",
    }
)


def draft(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for an object that no API server would
    accept."""
    notes: list[str] = []
    spec = raw.mapping(item.obj, "spec")
    template, merged = templates.tidy(
        raw.mapping(spec, "template"), "spec.template", notes.append, live=item.live
    )
    checked = {**item.obj, "spec": {**spec, "template": template}}
    try:
        read.check(checked)
    except read.InvalidObject as bad:
        raise BadInput(item.origin, item.title, bad.errors) from None
    check_selector(item, template)
    if raw.flag(spec, "paused"):
        raise LeftAlone(
            "spec.paused: its roll-out is halted, which a PinterestService cannot express; resume"
            " it first"
        )
    only_fields(spec, _KNOWN, {}, "spec")
    out: dict[str, Any] = federation_fields(item)
    if "replicas" in spec:
        out["replicas"] = spec["replicas"]
    strategy = _strategy(item)
    if strategy:
        out["updateStrategy"] = strategy
    out["template"] = template
    note_revisions(spec, "Deployments", notes)
    return drafted(item, drafts, schema, out, notes, merged=merged)


def drafted(
    item: Item,
    drafts: Drafts,
    schema: ModuleType,
    fields: dict[str, Any],
    notes: Sequence[str],
    *,
    merged: dict[str, int],
) -> Draft:
    """The draft of a workload of this schema's kind. `fields`: its spec; `notes`: what its owner is
    told; `merged`: names of ports merged into others by number."""
    obj = {
        "apiVersion": workloads.API_VERSION,
        "kind": schema.KIND,
        "metadata": metadata(item),
        "spec": fields,
    }
    made = Draft(item, obj, "spec.template", port_names=merged)
    for text in notes:
        drafts.note(made, text)
    note_annotations(made, drafts)
    return made


def note_revisions(spec: raw.Obj, natives: str, notes: list[str]) -> None:
    """Tells of the number of revisions that is not kept. `natives`: what members make."""
    if "revisionHistoryLimit" in spec:
        notes.append(
            f"spec.revisionHistoryLimit is left out: the {natives} that are made keep 3 revisions"
        )


def rolling_update(spec: raw.Obj, kind: str) -> raw.Obj:
    """`spec.updateStrategy.rollingUpdate`. Raises LeftAlone for pods that wait to be deleted."""
    how = raw.text(spec, "updateStrategy", "type", default="RollingUpdate")
    if how != "RollingUpdate":
        raise LeftAlone(
            f"spec.updateStrategy.type: {how} waits for somebody to delete the pods; a {kind} rolls"
        )
    return raw.mapping(spec, "updateStrategy", "rollingUpdate")


_DAEMON_FIELDS: Final = frozenset(
    {"selector", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"}
)
_ROLLING: Final = ("maxUnavailable", "maxSurge")


def draft_daemonset(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for an object that no API server would
    accept."""
    notes: list[str] = []
    spec = raw.mapping(item.obj, "spec")
    template, merged = templates.tidy(
        raw.mapping(spec, "template"), "spec.template", notes.append, live=item.live
    )
    check_selector(item, template)
    only_fields(spec, _DAEMON_FIELDS, {}, "spec")
    out = federation_fields(item)
    if strategy := _daemon_strategy(spec):
        out["updateStrategy"] = strategy
    out["template"] = template
    notes.append("it runs in every cluster of its policy, one cluster after the other")
    note_revisions(spec, "DaemonSets", notes)
    return drafted(item, drafts, daemon, out, notes, merged=merged)


def _daemon_strategy(spec: raw.Obj) -> dict[str, Any]:
    rolling = rolling_update(spec, daemon.KIND)
    fields = {name: rolling[name] for name in _ROLLING if name in rolling}
    if spec.get("minReadySeconds"):
        fields["minReadySeconds"] = spec["minReadySeconds"]
    return fields


def check_selector(item: Item, template: raw.Obj) -> None:
    """Raises BadInput when the selector does not choose the pods of the template."""
    chosen = raw.at(item.obj, "spec", "selector")
    if chosen is None:
        raise item.bad("spec.selector", "is required")
    try:
        matches = selectors.from_dict(chosen, "spec.selector").matches(
            raw.text_map(template, "metadata", "labels")
        )
    except FieldError as bad:
        raise BadInput(item.origin, item.title, [bad]) from None
    if not matches:
        raise item.bad("spec.template.metadata.labels", "must be matched by spec.selector")


def _strategy(item: Item) -> dict[str, Any]:
    spec = raw.mapping(item.obj, "spec")
    kind = raw.text(spec, "strategy", "type", default="RollingUpdate")
    if kind != "RollingUpdate":
        raise LeftAlone(
            f"spec.strategy.type: {kind} stops old pods before new ones start; a PinterestService"
            " rolls, so both would "
            "run at once"
        )
    rolling = raw.mapping(spec, "strategy", "rollingUpdate")
    fields = {name: rolling[name] for name in ("maxSurge", "maxUnavailable") if name in rolling}
    for name in ("minReadySeconds", "progressDeadlineSeconds"):
        if name in spec:
            fields[name] = spec[name]
    return fields


_ANNOTATED: Final = {
    deployment.PROJECT_ANNOTATION,
    deployment.TIER_ANNOTATION,
    deployment.PRIORITY_ANNOTATION,
    deployment.SUSPEND_ANNOTATION,
    deployment.POLICY_ANNOTATION,
}


def federation_fields(item: Item) -> dict[str, Any]:
    """The fields of a PinterestService for the annotations of a carried Deployment."""
    annotations = raw.text_map(item.obj, "metadata", "annotations")
    fields: dict[str, Any] = {}
    if annotations.get(deployment.PROJECT_ANNOTATION):
        fields["project"] = annotations[deployment.PROJECT_ANNOTATION]
    if deployment.TIER_ANNOTATION in annotations:
        fields["tier"] = str(deployment.tier(item.obj))
    if deployment.PRIORITY_ANNOTATION in annotations:
        fields["priority"] = deployment.priority(item.obj)
    if deployment.suspended(item.obj):
        fields["suspend"] = True
    placement = deployment.placement(item.obj)
    if placement:
        fields["placement"] = dict(placement)
    return fields


def metadata(item: Item) -> dict[str, Any]:
    """Name, namespace, labels and annotations; servers fill in the rest."""
    meta = raw.mapping(item.obj, "metadata")
    kept = {
        key: meta[key] for key in ("name", "generateName", "namespace", "labels") if meta.get(key)
    }
    annotations = {
        key: value
        for key, value in raw.mapping(meta, "annotations").items()
        if key not in _ANNOTATED
        and not key.startswith("deployment.kubernetes.io/")
        and key != names.SLICE_ANNOTATION
    }
    return {**kept, **({"annotations": annotations} if annotations else {})}


def note_annotations(made: Draft, drafts: Drafts) -> None:
    kept = sorted(raw.mapping(made.obj, "metadata", "annotations"))
    if kept:
        drafts.note(
            made,
            f"metadata.annotations {', '.join(kept)} stay on the {made.obj['kind']}; the objects"
            " that members make do "
            "not have them",
        )
