"""A workload as a member gets it under the overrides of its policies, and why it may not get it so.

Order: the entries of the workload's own policy, then those of Required policies by name, each
filled in with the facts of the cluster (`model.overrides`). Members add the support of the
RuntimeProfile to the result, so it is checked with that. Pure; the object given is never changed.
"""

import copy
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import asks, read
from federator.kinds.verbs import WorkloadVerbs
from federator.model.ask import Ask, Privileges
from federator.model.errors import FieldError
from federator.model.kubernetes import jsonpatch, selectors
from federator.model.overrides import InCluster
from federator.model.policy import DEFAULT_POLICY

CONTAINERS: Final = ("initContainers", "containers")
OPEN: Final = frozenset({"template", "config"})
"""Fields of spec that an override may change; of components, the template."""
USUAL_GRACE_S: Final = 30
"""What Kubernetes gives pods of a template without terminationGracePeriodSeconds, in seconds."""
SHAPE: Final = (
    "would change the resources of its pods: the shape of a copy is one for all clusters. Change"
    " the workload instead"
)
_IMAGE: Final = re.compile(r"(?:(?P<registry>[^/]*[.:][^/]*|localhost)/)?(?P<rest>.*)", re.DOTALL)
_NAME: Final = re.compile(r"(?P<repository>[^:@]*)(?P<tag>(?::[^@]*)?(?:@.*)?)", re.DOTALL)


class OverrideRefused(FieldError):
    """An override that cannot be applied to a workload; `path` names the entry and its policy."""


def applied(obj: Obj, verbs: WorkloadVerbs, there: InCluster, profile: Obj | None) -> Obj:
    """The object as it is in that cluster, without a slice's mark. `profile` is the RuntimeProfile
    object of its pods. Raises OverrideRefused when an entry does not fit the object, or the result
    would be invalid, ask for other resources or need other rights than the object itself."""
    if there.problem:
        path, _, message = there.problem.partition(": ")
        raise OverrideRefused(path, message)
    if not there:
        return obj
    changed = copy.deepcopy(dict(obj))
    titles = ", ".join(dict.fromkeys(entry.title for entry in there.entries))
    for entry in there.entries:
        try:
            changed = _changed(changed, entry.fields, entry.title)
        except FieldError as bad:
            raise OverrideRefused(bad.path, bad.message) from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise OverrideRefused(entry.title, "it does not fit the workload's template") from None
    try:
        _check(obj, changed, verbs, profile)
    except FieldError as bad:
        message = f"{bad.path}: {bad.message}" if bad.path else bad.message
        raise OverrideRefused(titles, message) from None
    return changed


def _changed(obj: dict[str, Any], fields: Mapping[str, Any], title: str) -> dict[str, Any]:
    for template in _templates(obj):
        _change_pods(template, fields)
    for name in ("labels", "annotations"):
        if added := fields.get(name):
            for metadata in (obj, *_templates(obj)):
                notes = metadata.setdefault("metadata", {})
                notes[name] = {**(notes.get(name) or {}), **added}
    if operations := fields.get("jsonPatch"):
        obj = jsonpatch.applied(obj, operations, f"{title}, jsonPatch")
    return obj


def _templates(obj: Obj) -> Iterator[Any]:
    """The pod templates that people write in an object of a workload kind."""
    for owner in (raw.mapping(obj, "spec"), *raw.objects(obj, "spec", "components")):
        if isinstance(owner.get("template"), dict):
            yield owner["template"]


def _change_pods(template: dict[str, Any], fields: Mapping[str, Any]) -> None:
    pod, chosen = raw.mapping(template, "spec"), frozenset(fields.get("containers") or ())
    every = [entry for field in CONTAINERS for entry in raw.items(pod, field)]
    named = [entry for entry in every if not chosen or entry.get("name") in chosen]
    for container in named:
        if image := fields.get("image"):
            container["image"] = image_of(raw.text(container, "image"), image)
        if variables := fields.get("env"):
            added = {entry["name"]: dict(entry) for entry in variables}
            own = [entry for entry in container.get("env") or () if entry.get("name") not in added]
            container["env"] = [*own, *added.values()]
    # Another command is for one program: the first container, unless the entry names others.
    for container in named if chosen else list(raw.items(pod, "containers"))[:1]:
        container.update({name: fields[name] for name in ("command", "args") if name in fields})


def image_of(image: str, fields: Mapping[str, str]) -> str:
    """The image with another registry, repository or tag.

    registry.example/team/app:1, registry gcr.example -> gcr.example/team/app:1
    """
    whole = _IMAGE.fullmatch(image)
    name = _NAME.fullmatch(whole["rest"]) if whole is not None else None
    assert whole is not None
    assert name is not None  # both match any text
    registry = fields.get("registry", whole["registry"] or "")
    repository, tag = fields.get("repository") or name["repository"], name["tag"]
    if given := fields.get("tag"):
        tag = f"@{given}" if ":" in given else f":{given}"
    return f"{registry}/{repository}{tag}" if registry else f"{repository}{tag}"


def _check(obj: Obj, changed: Obj, verbs: WorkloadVerbs, profile: Obj | None) -> None:
    """Raises FieldError for what an override must not come to."""
    if _resources(changed) != _resources(obj):
        raise FieldError("", SHAPE)
    if _fixed(changed) != _fixed(obj):
        message = (
            "it may change metadata.labels, metadata.annotations, spec.config and pod templates,"
            " nothing else"
        )
        raise FieldError("", message)
    for name, text in raw.text_map(changed, "metadata", "labels").items():
        if problem := selectors.check_label_value(text):
            raise FieldError(f"metadata.labels.{name}", problem)
    before = set(map(str, _problems(obj)))
    for broken in _problems(changed):
        if str(broken) not in before:
            raise broken
    own, then = (asks.ask(each, verbs, DEFAULT_POLICY, profile) for each in (obj, changed))
    _check_rights(own.privileges, then.privileges)
    if _decisive(own) != _decisive(then):
        raise FieldError("", SHAPE)


def _decisive(ask: Ask) -> Ask:
    """Without the parts of an ask that an override may change."""
    return dataclasses.replace(ask, labels={}, privileges=Privileges())


def _check_rights(own: Privileges, then: Privileges) -> None:
    """Raises FieldError if the pods need a right that the workload's own do not."""
    lowered = then.baseline not in ("", own.baseline) or (then.restricted and not own.restricted)
    if lowered:
        violation = then.baseline or then.restricted
        raise FieldError("", f"would lower the Pod Security level of its pods: {violation}")
    for name in _RIGHTS:
        before, after = getattr(own, name), getattr(then, name)
        if after and after != before:
            raise FieldError("", f"would give its pods another {name.replace('_', ' ')}: {after}")
    longest = own.grace[1] if own.grace is not None else USUAL_GRACE_S
    if then.grace is not None and then.grace[1] > longest:
        path, seconds = then.grace
        raise FieldError(path, f"would be {seconds}, longer than the workload's own ({longest})")


_RIGHTS: Final = ("nodes", "service_account", "iam_role", "priority_class", "hosts")
"""Fields of `Privileges` that an override does not change."""


def _resources(obj: Obj) -> list[Any]:
    """Requests and limits of all pods of an object."""
    resources: list[Any] = []
    for template in _templates(obj):
        pod = raw.mapping(template, "spec")
        containers = {
            (field, raw.text(entry, "name")): entry.get("resources")
            for field in CONTAINERS
            for entry in raw.objects(pod, field)
            if entry.get("resources")
        }
        resources.append((pod.get("resources"), containers))
    return resources


def _fixed(obj: Obj) -> list[Any]:
    """The parts of an object that overrides leave alone."""
    spec = {name: value for name, value in raw.mapping(obj, "spec").items() if name not in OPEN}
    if components := raw.objects(spec, "components"):
        spec["components"] = [
            {name: value for name, value in each.items() if name != "template"}
            for each in components
        ]
    metadata = raw.mapping(obj, "metadata")
    fixed = {n: value for n, value in metadata.items() if n not in ("labels", "annotations")}
    return [obj.get("apiVersion"), obj.get("kind"), fixed, spec]


def _problems(obj: Obj) -> tuple[FieldError, ...]:
    """What an API server would refuse of an object."""
    try:
        read.check({name: value for name, value in obj.items() if name != "status"})
    except read.InvalidObject as bad:
        return bad.errors
    return ()
