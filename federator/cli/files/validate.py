"""`federator validate -f FILE...`: checks objects as hosts and members would, without a cluster.

One source: the models that the CustomResourceDefinitions are generated from, and the schemas and
CEL rules of those definitions, evaluated as an API server evaluates them. All problems of all files
are told, each with its file and field. Exit 0 when there is none, else 1.
"""

import copy
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import click

from federator.api import raw
from federator.cli import common
from federator.cli.files import manifests
from federator.model.manifests import Unreadable

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.model.errors import FieldError

Identity = tuple[str, str, str, str]
"""apiVersion, kind, namespace, name."""


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A YAML or JSON file, a directory of such files, or - for stdin; may be repeated.",
)
@click.option(
    "--old",
    "before",
    multiple=True,
    metavar="FILE",
    help="The objects as they are now: what may not change is checked against them.",
)
def validate(files: tuple[str, ...], before: tuple[str, ...]) -> None:
    """Check files as the API server would: schema, defaults, rules, and what fields say about each
    other. Prints every problem with its file and field; exit 1 if there is one."""
    unread: list[str] = []

    def refused(bad: Unreadable) -> None:
        unread.extend(bad.sentences)

    objects = manifests.read(
        files, recursive=True, command="federator validate -f -", refused=refused
    )
    for line in unread:
        common.say(f"error: {line}", err=True)
    if not objects:
        common.fail("the files contain no object")
    former = manifests.read(before, recursive=True, command="federator validate --old -")
    by_identity = {_identity(manifest.obj): manifest.obj for manifest in former}
    profiles = _profiles([manifest.obj for manifest in (*objects, *former)])
    by_name = {_identity(manifest.obj) for manifest in objects}
    wrong = 0
    for manifest in objects:
        title = _title(manifest.obj)
        for warning in warnings_of(manifest.obj, by_name):
            common.say(f"warning: {manifest.where}: {title}: {warning}", err=True)
        if not _is_ours(manifest.obj) and not _is_namespace(manifest.obj):
            common.say(
                f"not checked: {title} ({manifest.where}) is of no kind known here", err=True
            )
            continue
        problems = problems_of(manifest.obj, by_identity.get(_identity(manifest.obj)))
        if not problems or _is_readable(manifest.obj):
            paths = {problem.path for problem in problems}
            more = _of_profiles(manifest.obj, profiles)
            problems += [problem for problem in more if problem.path not in paths]
        for problem in problems:
            common.say(f"error: {manifest.where}: {title}: {problem}", err=True)
        wrong += len(problems)
        if not problems:
            common.say(f"{title} is valid")
    wrong += len(unread)
    if wrong:
        common.fail(f"{wrong} {'problem' if wrong == 1 else 'problems'} in {len(objects)} objects")


def problems_of(obj: dict[str, Any], old: Mapping[str, Any] | None) -> "list[FieldError]":
    """Everything that is wrong with one object of a kind that is known here, by field. `old`: as it
    is now, None for one that is new."""
    from federator.kinds import read, registry

    if _is_namespace(obj):
        return _of_namespace(obj)
    problems: dict[str, FieldError] = {}
    try:
        kind: Kind | None = read.check(obj)
    except read.InvalidObject as bad:
        problems = {problem.path: problem for problem in bad.errors}
        kind = registry.kind_of(obj)
    for problem in read.host_problems(obj):
        problems.setdefault(problem.path, problem)
    if kind is not None and kind.model is not None:
        said = {problem.message for problem in problems.values()}
        for problem in _by_rules(kind, obj, old):
            # what a model says too, it says with the path of the very field
            if problem.message not in said:
                problems.setdefault(problem.path, problem)
    return sorted(problems.values(), key=lambda problem: problem.path)


def warnings_of(obj: Mapping[str, Any], given: Set[Identity]) -> list[str]:
    """What an API server, or the host, says about a native object that it takes nevertheless.
    `given`: the objects of the files."""
    from federator.embedded.validation import pod_warnings
    from federator.kinds import registry

    if raw.text(obj, "kind") == "HorizontalPodAutoscaler":
        return _about_autoscaler(obj, given)
    kind = registry.kind_of(obj)
    if kind is None or kind.model is not None:
        return []
    spec = raw.mapping(obj, "spec", "template", "spec")
    try:
        return list(pod_warnings.about(spec, "spec.template.spec"))
    except (AttributeError, TypeError):  # a wrong type inside, which is among the problems
        return []


def _about_autoscaler(obj: Mapping[str, Any], given: Set[Identity]) -> list[str]:
    """As `deploy/host/access/warnings.yaml` says it, and for Deployments of the same files."""
    target = raw.mapping(obj, "spec", "scaleTargetRef")
    version, kind, name = (raw.text(target, field) for field in ("apiVersion", "kind", "name"))
    carried = (version, kind, raw.text(obj, "metadata", "namespace"), name) in given
    if version.partition("/")[0] != "pinterest.com" and not (carried and kind == "Deployment"):
        return []
    how = " (`federator convert` makes one of a Deployment)" if carried else ""
    return [
        f"{kind}/{name} has no pods on the host, so an autoscaler there does not scale it. Use"
        f" spec.autoscaling of a service of the federation{how}."
    ]


def _profiles(objs: "Sequence[Mapping[str, Any]]") -> dict[str, Mapping[str, Any]]:
    """The RuntimeProfiles among the objects by name, those of the first files before others."""
    every = [obj for obj in objs if obj.get("kind") == "RuntimeProfile"]
    return {raw.text(obj, "metadata", "name"): obj for obj in reversed(every)}


def _is_readable(obj: dict[str, Any]) -> bool:
    """Whether its types are right, so that its fields can be compared with a profile's."""
    from federator.kinds import read

    try:
        read.check(obj)
    except read.InvalidObject:
        return obj.get("kind") == "RuntimeProfile"
    return True


def _of_profiles(
    obj: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]]
) -> "list[FieldError]":
    """A RuntimeProfile that a workload names and that is not among those of the files; what the hub
    would refuse of a workload together with its profile; and what was left as it was in a profile
    of ours. Without any profiles in the files, they are those of the host, which are not known
    here. Decision 0167."""
    from federator.kinds import asks, registry
    from federator.kinds.shared import runtimefields
    from federator.kinds.verbs import DEFAULT_PROFILE
    from federator.model.errors import FieldError
    from federator.model.policy import DEFAULT_POLICY

    if obj.get("kind") == "RuntimeProfile":
        return list(runtimefields.unset(obj))
    problems = []
    kind = registry.kind_of(obj)
    for path in (("spec",), ("spec", "jobTemplate", "spec")):
        named = raw.text(obj, *path, "runtimeProfile") if _is_ours(obj) else ""
        if (profile := profiles.get(named or DEFAULT_PROFILE)) is not None and _is_ours(obj):
            try:
                if path == ("spec",) and kind is not None and kind.verbs is not None:
                    asks.ask(dict(obj), kind.verbs, DEFAULT_POLICY, profile)
                else:
                    runtimefields.check({"spec": raw.mapping(obj, *path)}, profile)
            except FieldError as bad:
                field = bad.path.replace("spec", ".".join(path), 1)
                problems.append(FieldError(field, bad.message))
        if profiles and named not in ("", DEFAULT_PROFILE, *profiles):
            shown = ", ".join(sorted(profiles)[:10])
            message = (
                f"there is no RuntimeProfile {named!r} in the files, which have {shown}; correct"
                f" the name, add the profile, or leave the field out for {DEFAULT_PROFILE!r}"
            )
            problems.append(FieldError(".".join((*path, "runtimeProfile")), message))
    return problems


def _by_rules(
    kind: "Kind", obj: Mapping[str, Any], old: Mapping[str, Any] | None
) -> "Sequence[FieldError]":
    """Complaints of the definition's CEL rules about the object with its defaults."""
    from federator.embedded.schema import defaults
    from federator.embedded.storage.schema import Node
    from federator.embedded.validation.cel import rules
    from federator.kinds import crds
    from federator.model.errors import FieldError

    versions = crds.crd(kind)["spec"]["versions"]
    node = Node(versions[0]["schema"]["openAPIV3Schema"], None)
    filled = []
    for source in (obj, old):
        full = copy.deepcopy(dict(source)) if source is not None else None
        if full is not None:
            defaults.fill_custom(full, node)
            _name(full)
        filled.append(full)
    return [
        FieldError(_path(complaint.field), _sentence(complaint.message))
        for complaint in rules.check(filled[0], filled[1], node)
    ]


def _name(obj: dict[str, Any]) -> None:
    """Gives an object with `generateName` the name that a server makes before it judges."""
    from federator.kinds import read

    meta = obj.get("metadata")
    if isinstance(meta, dict) and not meta.get("name") and (name := read.generated_name(obj)):
        meta["name"] = name


def _sentence(message: str) -> str:
    """The rule's own sentence, without what the evaluator says of a rule that it cannot finish."""
    for mark in (" evaluating rule: ", " for rule: "):
        message = message.rpartition(mark)[2]
    return message.removeprefix("Invalid value: ")


def _path(field: str) -> str:
    """Of the whole object an API server says <nil>."""
    return "" if field == "<nil>" else field


def _is_ours(obj: Mapping[str, Any]) -> bool:
    from federator.kinds import registry

    kind, version = raw.text(obj, "kind"), raw.text(obj, "apiVersion")
    groups = {row.group for row in registry.KINDS.values() if row.model is not None}
    # another version of a group of ours, or a slip in its kind, is not somebody else's object
    return kind in registry.KINDS or version.partition("/")[0] in groups


def _is_namespace(obj: Mapping[str, Any]) -> bool:
    return (raw.text(obj, "apiVersion"), raw.text(obj, "kind")) == ("v1", "Namespace")


def _of_namespace(obj: Mapping[str, Any]) -> "list[FieldError]":
    """Problems of its name, which is all that the federation reads of it."""
    from federator.embedded.validation import metadata_rules
    from federator.model.errors import FieldError

    name = raw.text(obj, "metadata", "name")
    return [FieldError("metadata.name", problem) for problem in metadata_rules.dns_label(name)]


def _identity(obj: Mapping[str, Any]) -> Identity:
    meta = raw.mapping(obj, "metadata")
    return (
        raw.text(obj, "apiVersion"),
        raw.text(obj, "kind"),
        raw.text(meta, "namespace"),
        raw.text(meta, "name"),
    )


def _title(obj: Mapping[str, Any]) -> str:
    kind = raw.text(obj, "kind") or "an object without kind"
    name = raw.text(obj, "metadata", "name")
    return f"{kind}/{name}" if name else kind
