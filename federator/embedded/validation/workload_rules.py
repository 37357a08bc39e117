"""Validation of Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs, with a real API
server's words."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.storage.field_errors import (
    FieldError,
    GoStruct,
    forbidden,
    invalid,
    not_supported,
    required,
)
from federator.embedded.validation import claim_rules, pod_rules
from federator.embedded.validation.metadata_rules import dns_label, label_value, qualified_name
from federator.embedded.validation.pod_rules import NONNEGATIVE, nonnegative
from federator.model import errors
from federator.model.kubernetes import selectors

Struct = Mapping[str, Any]

_PERCENT: Final = re.compile(r"^[0-9]+%$")
_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    " '93%', regex used for "
    "validation is '[0-9]+%')"
)
_MAX_INDEXED: Final = 100_000
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def selector(value: Struct | None, path: str) -> Iterator[FieldError]:
    """A label selector, where there is one."""
    if value is None:
        return
    for key, wanted in sorted((value.get("matchLabels") or {}).items()):
        for text in qualified_name(key):
            yield invalid(f"{path}.matchLabels", key, text)
        for text in label_value(wanted):
            yield invalid(f"{path}.matchLabels", wanted, text)
    for index, expression in enumerate(value.get("matchExpressions") or ()):
        at, operator = f"{path}.matchExpressions[{index}]", expression.get("operator", "")
        values = expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(
                f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        elif operator not in _OPERATORS:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        for text in qualified_name(expression.get("key", "")):
            yield invalid(f"{at}.key", expression.get("key", ""), text)


def matches(value: Struct | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector holds for some labels; none matches nothing, and one that cannot be
    read, of which `selector` complains, is not compared."""
    try:
        return selectors.from_dict(value).matches(labels)
    except errors.FieldError:
        return True


def _template_labels(spec: Struct) -> Mapping[str, str] | None:
    template = spec.get("template") or {}
    labels: Mapping[str, str] | None = (template.get("metadata") or {}).get("labels")
    return labels


def _is_empty(value: Struct) -> bool:
    return not (value.get("matchLabels") or value.get("matchExpressions"))


def _selected(spec: Struct, kind: str) -> Iterator[FieldError]:
    wanted = spec.get("selector")
    if wanted is None:
        yield required("spec.selector")
    else:
        yield from selector(wanted, "spec.selector")
        if _is_empty(wanted):
            yield invalid("spec.selector", wanted, f"empty selector is invalid for {kind}")


def _template_matches(
    spec: Struct, unreadable: str = "invalid label selector"
) -> Iterator[FieldError]:
    wanted, labels = spec.get("selector"), _template_labels(spec)
    if any(selector(wanted, "")):
        yield invalid("spec.selector", wanted, unreadable)
    elif (wanted is None or not _is_empty(wanted)) and not matches(wanted, labels or {}):
        yield invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )


def _always_running(spec: Struct, owner: str) -> Iterator[FieldError]:
    pod = (spec.get("template") or {}).get("spec") or {}
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", text)


def _template(spec: Struct) -> Iterator[FieldError]:
    return pod_rules.template(spec.get("template") or {}, "spec.template")


def _int_or_percent(value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, str):
        if not _PERCENT.match(value):
            yield invalid(path, value, _PERCENT_TEXT)
    elif value is not None and value < 0:
        yield invalid(path, value, NONNEGATIVE)


def percentage(value: Any, path: str) -> Iterator[FieldError]:
    """A share in percent, at most all."""
    problems = list(_int_or_percent(value, path))
    yield from problems
    if not problems and _amount(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def _amount(value: Any) -> int:
    if isinstance(value, str):
        return int(value[:-1]) if _PERCENT.match(value) else 0
    return value or 0


def _rolling(rolling: Struct, path: str) -> Iterator[FieldError]:
    for key in ("maxUnavailable", "maxSurge"):
        yield from _int_or_percent(rolling.get(key), f"{path}.{key}")
    unavailable = rolling.get("maxUnavailable")
    if _amount(unavailable) == 0 and _amount(rolling.get("maxSurge")) == 0:
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(unavailable, str) and _amount(unavailable) > 100:
        yield invalid(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def deployment(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A Deployment; its selector is immutable."""
    spec = obj.get("spec") or {}
    yield from nonnegative(spec.get("replicas"), "spec.replicas")
    yield from _selected(spec, "deployment")
    yield from _template_matches(spec)
    yield from _template(spec)
    yield from _always_running(spec, "ReplicaSet")
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        if "rollingUpdate" in strategy:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden("spec.strategy.rollingUpdate", text)
    elif strategy.get("type") == "RollingUpdate":
        yield from _rolling(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")
    else:
        printed = GoStruct(Type=strategy.get("type", ""), RollingUpdate=None)
        yield not_supported("spec.strategy", printed, ("Recreate", "RollingUpdate"))
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from nonnegative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )
    yield from _immutable(obj, old, "selector")


def _immutable(obj: Struct, old: Struct | None, *keys: str) -> Iterator[FieldError]:
    if old is None:
        return
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    for key in keys:
        if not same(spec.get(key), before.get(key)):
            yield invalid(f"spec.{key}", spec.get(key), "field is immutable")


def replica_set(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A ReplicaSet; its selector is immutable."""
    spec = obj.get("spec") or {}
    yield from nonnegative(spec.get("replicas"), "spec.replicas")
    yield from nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from _selected(spec, "deployment")
    yield from _template_matches(spec)
    yield from _template(spec)
    yield from _always_running(spec, "ReplicaSet")
    yield from _immutable(obj, old, "selector")


def controller_revision(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A ControllerRevision: its data are there from the beginning and never change."""
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    yield from nonnegative(obj.get("revision"), "revision")
    if old is not None and not same(obj.get("data"), old.get("data")):
        yield invalid("data", obj.get("data"), "field is immutable")


def daemon_set(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A DaemonSet; its selector is immutable."""
    spec = obj.get("spec") or {}
    yield from _immutable(obj, old, "selector")
    wanted = spec.get("selector")
    yield from selector(wanted, "spec.selector")
    if not matches(wanted, _template_labels(spec) or {}):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", _template_labels(spec), text)
    if wanted is not None and _is_empty(wanted):
        yield invalid("spec.selector", wanted, "empty selector is invalid for daemonset")
    yield from _template(spec)
    yield from _always_running(spec, "DaemonSet")
    yield from nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        for key in ("maxUnavailable", "maxSurge"):
            rolling = strategy.get("rollingUpdate") or {}
            yield from _int_or_percent(rolling.get(key), f"spec.updateStrategy.rollingUpdate.{key}")
    elif strategy.get("type") != "OnDelete":
        printed = GoStruct(Type=strategy.get("type", ""), RollingUpdate=None)
        yield not_supported("spec.updateStrategy", printed, ("RollingUpdate", "OnDelete"))
    yield from nonnegative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")


_STATEFUL_FIXED: Final = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")


def stateful_set(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A StatefulSet; little of it may change."""
    spec = obj.get("spec") or {}
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        yield invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")
    rolling = strategy.get("rollingUpdate") or {}
    yield from nonnegative(rolling.get("partition"), "spec.updateStrategy.rollingUpdate.partition")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        path = "spec.updateStrategy.rollingUpdate.maxUnavailable"
        yield from _int_or_percent(unavailable, path)
        if _amount(unavailable) == 0:
            yield invalid(path, unavailable, "cannot be 0")
        if isinstance(unavailable, str) and _amount(unavailable) > 100:
            yield invalid(path, unavailable, "must not be greater than 100%")
    yield from nonnegative(spec.get("replicas"), "spec.replicas")
    yield from nonnegative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    if spec.get("serviceName") and old is None:
        yield from pod_rules.named(spec["serviceName"], dns_label, "spec.serviceName")
    yield from _selected(spec, "statefulset")
    yield from _template_matches(spec, "")
    yield from pod_rules.template(_with_claims(spec), "spec.template")
    yield from _always_running(spec, "StatefulSet")
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or () if old is None else ()):
        yield from claim_rules.claim(
            claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec"
        )
    yield from _immutable(obj, old, *_STATEFUL_FIXED)


def _with_claims(spec: Struct) -> Struct:
    """The template as its pods will have it: claims are volumes too."""
    template = spec.get("template") or {}
    claims = [
        (claim.get("metadata") or {}).get("name", "")
        for claim in spec.get("volumeClaimTemplates") or ()
    ]
    if not claims:
        return template
    pod = template.get("spec") or {}
    volumes = [{"name": name, "emptyDir": {}} for name in claims]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    return {**template, "spec": {**pod, "volumes": volumes}}


def job(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    """A Job; its template, selector and completion mode are immutable."""
    spec = obj.get("spec") or {}
    if old is None:
        yield from _generated_selector(obj, spec)
    yield from job_spec(spec, "spec")
    wanted = spec.get("selector")
    if wanted is None:
        yield required("spec.selector")
    else:
        yield from selector(wanted, "spec.selector")
    if not matches(wanted, _template_labels(spec) or {}):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", _template_labels(spec), text)
    if old is not None:
        yield from _job_update(obj, old)


def _generated_selector(obj: Struct, spec: Struct) -> Iterator[FieldError]:
    """A job that does not select by hand has the labels that the server gave its pods, and selects
    by them alone."""
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    wanted = {"controller-uid": uid, "job-name": name}
    wanted |= {f"batch.kubernetes.io/{key}": value for key, value in wanted.items()}
    labels = _template_labels(spec) or {}
    for key, value in wanted.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield required(at, f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(at, labels, f"must be '{value}'")
    if not matches(spec["selector"], wanted):
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _job_update(obj: Struct, old: Struct) -> Iterator[FieldError]:
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    completions = spec.get("completions")
    if not same(completions, before.get("completions")):
        if spec.get("completionMode") != "Indexed":
            yield invalid("spec.completions", completions, "field is immutable")
        elif completions is not None and completions != spec.get("parallelism"):
            yield invalid(
                "spec.completions",
                completions,
                "can only be modified in tandem with spec.parallelism",
            )
    yield from _immutable(obj, old, "selector")
    if not same(_fixed_template(spec, before), _fixed_template(before, before)):
        yield invalid("spec.template", spec.get("template"), "field is immutable")
    yield from _immutable(
        obj,
        old,
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    )


def _fixed_template(spec: Struct, before: Struct) -> Any:
    """What of a template may not change: while suspended, where pods go may still be decided."""
    template = spec.get("template") or {}
    if not before.get("suspend"):
        return template
    pod = {
        key: value
        for key, value in (template.get("spec") or {}).items()
        if key not in ("nodeSelector", "tolerations", "schedulingGates", "affinity")
    }
    return {"spec": pod}


def job_spec(spec: Struct, path: str) -> Iterator[FieldError]:
    """The part that Jobs and the templates of CronJobs share."""
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        yield from nonnegative(spec.get(key), f"{path}.{key}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _indexed(spec, path)
    elif mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(key) is not None:
                yield invalid(f"{path}.{key}", spec[key], "requires indexed completion mode")
        if spec.get("successPolicy") is not None:
            yield invalid(
                f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"
            )
    replacement = spec.get("podReplacementPolicy")
    if replacement not in (None, "TerminatingOrFailed", "Failed"):
        yield not_supported(
            f"{path}.podReplacementPolicy", replacement, ("Failed", "TerminatingOrFailed")
        )
    template = spec.get("template") or {}
    yield from pod_rules.template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(f"{path}.template.spec.restartPolicy", policy, text)


def _indexed(spec: Struct, path: str) -> Iterator[FieldError]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism is not None and parallelism > _MAX_INDEXED:
        text = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", parallelism, text)
    failed = spec.get("maxFailedIndexes")
    if failed is not None and completions is not None and failed > completions:
        yield invalid(
            f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"
        )
    if failed is not None and failed > _MAX_INDEXED:
        yield invalid(
            f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED}"
        )
