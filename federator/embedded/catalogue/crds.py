"""CustomResourceDefinitions: whether one may be stored, its status, and the resources it brings
into being.

Conversion between versions is `None` only: objects keep their fields and change their apiVersion.
Schema rules are in `crd_rules`.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from federator.embedded.schema import sharing
from federator.embedded.schema.pruning import copy_json
from federator.embedded.schema.sharing import Shared
from federator.embedded.storage.field_errors import (
    FieldError,
    forbidden,
    go_json,
    invalid,
    not_supported,
    required,
)
from federator.embedded.storage.resources import Column, ResourceInfo, ScalePaths, Subresource
from federator.embedded.validation import crd_rules, metadata_rules

_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUB_VERBS: Final = ("get", "patch", "update")
_AGE: Final = Column(
    name="Age",
    type="date",
    json_path=".metadata.creationTimestamp",
    description=(
        "CreationTimestamp is a timestamp representing the server time when this object was"
        " created. It is not "
        "guaranteed to be set in happens-before order across separate operations. Clients may not"
        " set this value. It "
        "is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null"
        " for lists. More "
        "info:"
        " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
)
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_JSON_PATH: Final = re.compile(r"^\.[a-zA-Z_][\w-]*(\.[a-zA-Z_][\w-]*)*$")

Crd = dict[str, Any]


def resource_infos(crd: Crd) -> list[ResourceInfo]:
    """The resources of an established CRD, one per served version, the storage version marked.

    Clusters of one process that hold the same CRD share what is compiled from it.
    """
    spec = crd["spec"]
    versions = spec.get("versions") or ()
    bare = {**spec, "versions": [{**version, "schema": None} for version in versions]}
    return list(_infos(msgspec.json.encode(bare, order="sorted"), tuple(map(_shared, versions))))


@functools.lru_cache(maxsize=256)
def _infos(encoded: bytes, schemas: tuple[Shared, ...]) -> tuple[ResourceInfo, ...]:
    """`encoded` is the spec of a CRD without its schemas, `schemas` has one for each version."""
    spec = msgspec.json.decode(encoded)
    return tuple(
        _info(spec, version, shared)
        for version, shared in zip(spec["versions"] or (), schemas, strict=True)
        if version.get("served")
    )


def _shared(version: dict[str, Any]) -> Shared:
    schema = _schema(version)
    if schema is None:
        return sharing.share({"x-kubernetes-preserve-unknown-fields": True})
    return sharing.find(schema) or sharing.share(copy_json(schema))


def _schema(version: dict[str, Any]) -> dict[str, Any] | None:
    return (version.get("schema") or {}).get("openAPIV3Schema") or None


def _info(spec: dict[str, Any], version: dict[str, Any], shared: Shared) -> ResourceInfo:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    sub: dict[str, Subresource] = {}
    if "status" in subresources:
        sub["status"] = Subresource(spec["group"], version["name"], names["kind"], _SUB_VERBS)
    scale = subresources.get("scale")
    if scale:
        sub["scale"] = Subresource("autoscaling", "v1", "Scale", _SUB_VERBS)
    columns = tuple(_column(column) for column in version.get("additionalPrinterColumns") or ())
    deprecation = ""
    if version.get("deprecated"):
        fallback = f"{spec['group']}/{version['name']} {names['kind']} is deprecated"
        deprecation = version.get("deprecationWarning") or fallback
    return ResourceInfo(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        list_kind=names.get("listKind") or names["kind"] + "List",
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec.get("scope") == "Namespaced",
        verbs=_VERBS,
        schema=shared.node,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=sub,
        printer_columns=columns or (_AGE,),
        selectable_fields=tuple(
            field["jsonPath"] for field in version.get("selectableFields") or ()
        ),
        scale=_scale(scale) if scale else None,
        storage=bool(version.get("storage")),
        deprecation=deprecation,
    )


def share_schemas(crd: Crd) -> None:
    """Puts the process-wide copy of each schema into a fresh CRD; stored objects never change, so
    it may be shared."""
    for version in crd["spec"].get("versions") or ():
        holder = version.get("schema") or {}
        if holder.get("openAPIV3Schema"):
            holder["openAPIV3Schema"] = sharing.share(holder["openAPIV3Schema"]).schema


def copied(crd: Crd) -> Crd:
    """A copy of a CRD that has the same shared schemas: the tree around them may be changed."""
    versions = crd["spec"].get("versions")
    fresh: Crd = copy_json({**crd, "spec": {**crd["spec"], "versions": None}})
    fresh["spec"]["versions"] = versions and [
        {**copy_json({**version, "schema": None}), "schema": dict(version["schema"])}
        if version.get("schema")
        else copy_json(version)
        for version in versions
    ]
    return fresh


def _scale(scale: dict[str, Any]) -> ScalePaths:
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
    )


def _column(column: dict[str, Any]) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        json_path=column["jsonPath"],
        description=column.get("description")
        or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        format=column.get("format", ""),
        priority=column.get("priority", 0),
    )


def initial_status(crd: Crd) -> dict[str, Any]:
    """The status of a CRD that was not processed yet."""
    stored = [
        version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")
    ]
    return {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored[:1],
    }


def established_status(crd: Crd, now: str) -> dict[str, Any]:
    """The status of a served CRD with accepted names. Times that need not change stay."""
    before = crd.get("status") or {}
    by_type = {condition["type"]: condition for condition in before.get("conditions") or ()}
    wanted = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    conditions = []
    for kind, reason, message in wanted:
        old = by_type.get(kind, {})
        time = (old.get("lastTransitionTime") if old.get("status") == "True" else None) or now
        condition = {"type": kind, "status": "True", "lastTransitionTime": time}
        conditions.append({**condition, "reason": reason, "message": message})
    stored = list(before.get("storedVersions") or ())
    stored += [
        version["name"]
        for version in crd["spec"].get("versions") or ()
        if version.get("storage") and version["name"] not in stored
    ]
    return {
        "conditions": conditions,
        "acceptedNames": dict(crd["spec"]["names"]),
        "storedVersions": stored,
    }


def is_established(crd: Crd) -> bool:
    """Whether the CRD's resources are served."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def check(crd: Crd, old: Crd | None = None) -> list[FieldError]:
    """Complaints about a CRD, in a real server's words. Metadata is checked by `validation`."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    errors: list[FieldError] = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    name = (crd.get("metadata") or {}).get("name", "")
    if name != wanted and old is None:
        errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    errors += _spec_problems(spec, names)
    errors += _schema_problems(spec)
    if not any(version.get("storage") for version in spec.get("versions") or ()):
        errors.append(
            invalid("status.storedVersions", None, "must have at least one stored version")
        )
    if old is not None:
        errors += _fixed(spec, old.get("spec") or {})
    return errors


def _spec_problems(spec: dict[str, Any], names: dict[str, Any]) -> Iterator[FieldError]:
    group = spec.get("group", "")
    if not group:
        yield required("spec.group")
    elif metadata_rules.subdomain(group):
        yield invalid("spec.group", group, ",".join(metadata_rules.subdomain(group)))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    yield from _version_problems(spec.get("versions") or [])
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield required(f"spec.names.{key}")
    yield from _name_problems(names)
    yield from _conversion_problems(spec.get("conversion") or {})


def _conversion_problems(conversion: dict[str, Any]) -> Iterator[FieldError]:
    strategy = conversion.get("strategy", "None")
    if strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook" and conversion.get("webhook"):
        text = "should not be set when strategy is not set to Webhook"
        yield forbidden("spec.conversion.webhookClientConfig", text)


def _name_problems(names: dict[str, Any]) -> Iterator[FieldError]:
    for key in ("plural", "singular"):
        problems = metadata_rules.dns_1035(names[key]) if names.get(key) else []
        if problems:
            yield invalid(f"spec.names.{key}", names[key], ",".join(problems))
    for key in ("kind", "listKind"):
        problems = metadata_rules.dns_1035(names[key].lower()) if names.get(key) else []
        if problems:
            text = "may have mixed case, but should otherwise match: " + ",".join(problems)
            yield invalid(f"spec.names.{key}", names[key], text)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(
            "spec.names.listKind", names["listKind"], "kind and listKind may not be the same"
        )
    for key in ("shortNames", "categories"):
        for index, value in enumerate(names.get(key) or ()):
            problems = metadata_rules.dns_1035(value)
            if problems:
                yield invalid(f"spec.names.{key}[{index}]", value, ",".join(problems))


def _version_problems(versions: list[dict[str, Any]]) -> Iterator[FieldError]:
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
        problems = metadata_rules.dns_1035(version.get("name", ""))
        if problems:
            yield invalid(
                f"spec.versions[{index}].name", version.get("name", ""), ",".join(problems)
            )
        at = f"spec.versions[{index}]" if len(versions) > 1 else "spec"
        yield from _column_problems(version, at)
        yield from _subresource_problems(version.get("subresources") or {}, f"{at}.subresources")
        yield from _selectable_problems(version, f"{at}.selectableFields")
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        yield _about_versions(versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield _about_versions(versions, "must have exactly one version marked as storage version")
    problems = metadata_rules.dns_1035(names[0]) if names and names[0] else []
    if problems:
        # The first version's name is checked twice: it is also the deprecated `spec.version`.
        yield invalid("spec.version", names[0], ",".join(problems))


def _about_versions(versions: list[dict[str, Any]], text: str) -> FieldError:
    """A complaint about all versions; a real server prints them as its Go structs, the schemas left
    out."""
    printed = [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ]
    return FieldError(
        "spec.versions",
        "FieldValueInvalid",
        f"Invalid value: {go_json(printed, sort=False)}: {text}",
    )


def _column_problems(version: dict[str, Any], at: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        path = f"{at}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{path}.name")
        kind = column.get("type", "")
        if not kind:
            yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(
                f"{path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}"
            )
        if not column.get("jsonPath"):
            yield required(f"{path}.JSONPath")


def _selectable_problems(version: dict[str, Any], at: str) -> Iterator[FieldError]:
    for index, field in enumerate(version.get("selectableFields") or ()):
        path, where = field.get("jsonPath", ""), f"{at}[{index}].jsonPath"
        schema: Any = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for step in path.lstrip(".").split("."):
            schema = (schema.get("properties") or {}).get(step) if schema else None
        if not path:
            yield required(where)
        elif path.startswith(".metadata"):
            yield invalid(where, path, "must not point to fields in metadata")
        elif schema is None:
            yield invalid(where, path, "is an invalid path: does not refer to a valid field")
        elif schema.get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields and"
                " strings with formats"
            )
            yield invalid(where, path, f"{text} are allowed.")


def _subresource_problems(subresources: dict[str, Any], at: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if not scale:
        return
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(key, "")
        if not path:
            yield required(f"{at}.scale.{key}")
        elif not _JSON_PATH.match(path):
            yield invalid(f"{at}.scale.{key}", path, "must be a simple json path starting with .")
        elif not path.startswith(root):
            yield invalid(
                f"{at}.scale.{key}", path, f"should be a json path under {root.rstrip('.')}"
            )
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        text = "should be a json path under either .spec or .status"
        yield invalid(f"{at}.scale.labelSelectorPath", selector, text)


def _schema_problems(spec: dict[str, Any]) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    schemas = [_schema(version) for version in versions]
    if schemas and all(schema == schemas[0] for schema in schemas):
        # Equal schemas are one schema to a real server, and it says so in its paths.
        if schemas[0]:
            at = "spec.validation.openAPIV3Schema"
            yield from _problems_of(schemas[0], at, "status" in _subs(versions[0]))
        return
    for index, schema in enumerate(schemas):
        if schema:
            at = f"spec.versions[{index}].schema.openAPIV3Schema"
            yield from _problems_of(schema, at, "status" in _subs(versions[index]))


def _problems_of(schema: dict[str, Any], at: str, has_status: bool) -> Iterable[FieldError]:
    shared = sharing.find(schema)
    if shared is None:
        return crd_rules.check(schema, at, has_status)
    return _known_problems(shared, at, has_status)


@functools.lru_cache(maxsize=256)
def _known_problems(shared: Shared, at: str, has_status: bool) -> tuple[FieldError, ...]:
    """The same for the same schema: hundreds of clusters are given the same few large CRDs."""
    return tuple(crd_rules.check(shared.schema, at, has_status))


def _subs(version: dict[str, Any]) -> dict[str, Any]:
    subresources: dict[str, Any] = version.get("subresources") or {}
    return subresources


def _fixed(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[FieldError]:
    for field, new, before in (
        ("spec.group", spec.get("group"), old.get("group")),
        ("spec.scope", spec.get("scope"), old.get("scope")),
        ("spec.names.kind", spec["names"].get("kind"), (old.get("names") or {}).get("kind")),
        ("spec.names.plural", spec["names"].get("plural"), (old.get("names") or {}).get("plural")),
    ):
        if new != before:
            yield invalid(field, new, "field is immutable")
