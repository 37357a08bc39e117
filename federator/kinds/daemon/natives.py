"""PinterestDaemon -> ServiceAccount, ConfigMap, DaemonSet."""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.daemon import ask
from federator.kinds.daemon.schema import SELECTOR_LABEL
from federator.kinds.shared import parts, workloads

COMPONENT: Final = "daemon"
REVISIONS_KEPT: Final = 3


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does.
    """
    mark = workloads.read_mark(obj)
    return (
        *parts.service_account(obj, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        _daemon_set(obj, mark, profile),
    )


def _daemon_set(obj: Obj, mark: verbs.SliceMark | None, profile: Obj | None) -> dict[str, Any]:
    selector = {SELECTOR_LABEL: parts.name_of(obj)}
    meta = parts.metadata(obj, mark, parts.name_of(obj), COMPONENT)
    meta["labels"] |= selector
    strategy = raw.mapping(obj, "spec", "updateStrategy")
    whole = {**obj, "spec": {**raw.mapping(obj, "spec"), "template": ask.pod_template(obj)}}
    spec: dict[str, Any] = {
        "revisionHistoryLimit": REVISIONS_KEPT,
        "selector": {"matchLabels": selector},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": _pace(strategy)},
        "template": parts.pod_template(whole, profile, selector, batch=False, config_hash=True),
    }
    if "minReadySeconds" in strategy:
        spec["minReadySeconds"] = raw.integer(strategy, "minReadySeconds")
    return natives.made("DaemonSet", meta, spec)


def _pace(strategy: Obj) -> dict[str, Any]:
    """Both fields of a rolling update: one of them has to be above zero, and only one may be. What
    is left out is completed by the other, so that nothing differs from what the API server would
    default.
    """
    surge = strategy.get("maxSurge", 0)
    surges = surge not in (0, "0%")
    unavailable = strategy.get("maxUnavailable", 0 if surges else 1)
    return {"maxSurge": surge, "maxUnavailable": unavailable}
