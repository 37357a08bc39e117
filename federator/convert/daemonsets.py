"""DaemonSet -> a drafted PinterestDaemon. Pure; one row of `convert.DRAFTERS`."""

from typing import Any, Final

from federator.api import raw
from federator.convert import deployments, templates
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, only_fields
from federator.kinds.daemon import schema

_KNOWN: Final = frozenset(
    {"selector", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"}
)
_ROLLING: Final = ("maxUnavailable", "maxSurge")


def draft(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for an object that no API server would
    accept."""
    notes: list[str] = []
    spec = raw.mapping(item.obj, "spec")
    template, merged = templates.tidy(
        raw.mapping(spec, "template"), "spec.template", notes.append, live=item.live
    )
    deployments.check_selector(item, template)
    only_fields(spec, _KNOWN, {}, "spec")
    out = deployments.federation_fields(item)
    if strategy := _strategy(spec):
        out["updateStrategy"] = strategy
    out["template"] = template
    metadata = deployments.metadata(item)
    obj = {
        "apiVersion": schema.API_VERSION,
        "kind": schema.KIND,
        "metadata": metadata,
        "spec": out,
    }
    made = Draft(item, obj, "spec.template", port_names=merged)
    for text in notes:
        drafts.note(made, text)
    drafts.note(made, "it runs in every cluster of its policy, one cluster after the other")
    if "revisionHistoryLimit" in spec:
        drafts.note(
            made,
            "spec.revisionHistoryLimit is left out: the DaemonSets that are made keep 3 revisions",
        )
    deployments.note_annotations(made, drafts)
    return made


def _strategy(spec: raw.Obj) -> dict[str, Any]:
    kind = raw.text(spec, "updateStrategy", "type", default="RollingUpdate")
    if kind != "RollingUpdate":
        raise LeftAlone(
            f"spec.updateStrategy.type: {kind} waits for somebody to delete the pods; a "
            "PinterestDaemon rolls"
        )
    rolling = raw.mapping(spec, "updateStrategy", "rollingUpdate")
    fields = {name: rolling[name] for name in _ROLLING if name in rolling}
    if spec.get("minReadySeconds"):
        fields["minReadySeconds"] = spec["minReadySeconds"]
    return fields
