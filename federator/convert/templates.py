"""Pod templates for the strict schemas of the Pinterest kinds. What API servers accept and our
schemas do not is fixed, with a note; what works only inside one cluster makes the workload be left.

Used for Deployments, Jobs and JobSets. Pure: templates are copied, never changed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import LeftAlone

Tell = Callable[[str], None]
CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead"})
_SINGLE_AMOUNTS: Final = frozenset({"sizeLimit", "divisor"})
_OF_CONTROLLERS: Final = re.compile(
    r"(batch\.kubernetes\.io/.*|jobset\.sigs\.k8s\.io/.*|controller-uid|job-name|pod-template-hash)"
)
"""Labels that controllers add to the templates of live objects."""


def tidy(
    template: Obj, path: str, tell: Tell, *, live: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """(template, names of ports merged into others by number). Raises LeftAlone."""
    given = raw.mapping(template, "metadata")
    meta = raw.present(
        {
            "labels": dict(raw.mapping(given, "labels")),
            "annotations": dict(raw.mapping(given, "annotations")),
        }
    )
    if live and "labels" in meta:
        meta["labels"] = {
            key: value
            for key, value in meta["labels"].items()
            if not _OF_CONTROLLERS.fullmatch(key)
        }
    lost = sorted(set(given) - {"labels", "annotations", "creationTimestamp", "name", "namespace"})
    if lost:
        tell(f"{path}.metadata.{lost[0]} says nothing in a pod template and is left out")
    pod = _amounts(raw.mapping(template, "spec"), f"{path}.spec", tell)
    _stays_in_one_cluster(pod, f"{path}.spec")
    merged: dict[str, int] = {}
    for field in CONTAINER_LISTS:
        for index, container in enumerate(raw.items(pod, field)):
            if isinstance(container, dict):
                here = f"{path}.spec.{field}[{index}]"
                _without_duplicate_env(container, here, tell)
                merged |= _without_duplicate_ports(container, here, tell)
    for field in ("imagePullSecrets", "hostAliases"):
        _without_duplicates(
            pod, field, "name" if field == "imagePullSecrets" else "ip", f"{path}.spec", tell
        )
    if merged:
        pod = _by_number(pod, merged)
    rest = {key: value for key, value in template.items() if key not in ("metadata", "spec")}
    return {
        **raw.present({"metadata": meta}),
        **({"spec": pod} if "spec" in template else {}),
        **rest,
    }, merged


def _amounts(value: Any, path: str, tell: Tell) -> Any:
    """A copy in which every fractional quantity is a text: JSON numbers lose digits, so our API
    takes none."""
    if isinstance(value, list):
        return [_amounts(entry, f"{path}[{index}]", tell) for index, entry in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for name, entry in value.items():
        here = f"{path}.{name}"
        if name in _AMOUNTS and isinstance(entry, Mapping):
            out[name] = {
                key: _as_text(amount, f"{here}.{key}", tell) for key, amount in entry.items()
            }
        elif name in _SINGLE_AMOUNTS:
            out[name] = _as_text(entry, here, tell)
        else:
            out[name] = _amounts(entry, here, tell)
    return out


def _as_text(amount: Any, path: str, tell: Tell) -> Any:
    if not isinstance(amount, float):
        return amount
    text = str(int(amount)) if amount.is_integer() else repr(amount)
    tell(f'{path} was the number {amount!r} and becomes the text "{text}"')
    return text


def _stays_in_one_cluster(pod: Obj, path: str) -> None:
    if raw.text(pod, "nodeName"):
        raise LeftAlone(f"{path}.nodeName: {raw.text(pod, 'nodeName')} is a node of one cluster")
    for index, volume in enumerate(raw.objects(pod, "volumes")):
        claim = raw.text(volume, "persistentVolumeClaim", "claimName")
        if claim:
            raise LeftAlone(
                f"{path}.volumes[{index}]: PersistentVolumeClaim {claim} is the storage of one"
                " cluster; copies in "
                "other clusters would not see its data"
            )


def _without_duplicate_env(container: dict[str, Any], path: str, tell: Tell) -> None:
    """Of several variables with one name only the last, the one that containers see. A variable
    that builds on an earlier one gets its text. Raises LeftAlone where it has none."""
    entries = raw.objects(container, "env")
    names = [raw.text(entry, "name") for entry in entries]
    last = {name: index for index, name in enumerate(names)}
    twice = sorted({name for index, name in enumerate(names) if name and last[name] != index})
    if not twice:
        return
    folded = [dict(entry) for entry in entries]
    for index, name in enumerate(names):
        if name and last[name] != index:
            _fold(folded, index, f"{path}.env")
    container["env"] = [entry for at, entry in enumerate(folded) if last[names[at]] == at]
    tell(f"{path}.env has {', '.join(twice)} more than once; the last one is kept")


_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""`$$`, or `$(NAME)` with the name, as kubelets read values."""


def _fold(entries: list[dict[str, Any]], gone: int, path: str) -> None:
    """Writes the value of the variable `gone`, which has a later namesake, into those that refer to
    it. That changes nothing: values are expanded once, in their order."""
    name = raw.text(entries[gone], "name")
    redefined: set[str] = set()
    for index in range(gone + 1, len(entries)):
        entry = entries[index]
        value = raw.text(entry, "value")
        if name in _named(value):
            why = f"{path}[{index}]: builds on {path}[{gone}], "
            if "valueFrom" in entries[gone]:
                raise LeftAlone(f"{why}which has its value from elsewhere; give it another name")
            text = raw.text(entries[gone], "value")
            if redefined & _named(text):
                raise LeftAlone(f"{why}which refers to a variable that changes in between")
            entry["value"] = _with_text(value, name, text)
        if raw.text(entry, "name") == name:
            return
        redefined.add(raw.text(entry, "name"))


def _with_text(value: str, name: str, text: str) -> str:
    """The value with `text` in the place of each reference to this variable. A dollar sign that
    stands alone in the text is doubled: with what follows it would mean something else."""
    alone = re.compile(rf"{_REFERENCE.pattern}|\$")
    apart = alone.sub(lambda match: "$$" if match[0] == "$" else match[0], text)
    return _REFERENCE.sub(lambda match: apart if match[1] == name else match[0], value)


def _named(value: str) -> set[str]:
    return {match[1] for match in _REFERENCE.finditer(value) if match[1] is not None}


def _without_duplicates(
    holder: dict[str, Any], field: str, key: str, path: str, tell: Tell
) -> None:
    entries = raw.items(holder, field)
    last = {
        raw.text(entry, key): index for index, entry in enumerate(entries) if raw.text(entry, key)
    }
    twice = {raw.text(e, key) for i, e in enumerate(entries) if last.get(raw.text(e, key), i) != i}
    if twice:
        tell(f"{path}.{field} has {', '.join(sorted(twice))} more than once; the last one is kept")
        holder[field] = [e for i, e in enumerate(entries) if last.get(raw.text(e, key), i) == i]


def _without_duplicate_ports(container: dict[str, Any], path: str, tell: Tell) -> dict[str, int]:
    """One entry per port and protocol. Returns the removed names with their numbers. Raises
    LeftAlone for two ports of the node that lead to one of the container."""
    entries = raw.items(container, "ports")
    kept: dict[tuple[int, str], dict[str, Any]] = {}
    chosen: list[Any] = []
    gone: dict[str, int] = {}
    for index, entry in enumerate(entries):
        number = raw.integer(entry, "containerPort")
        key = (number, raw.text(entry, "protocol", default="TCP"))
        if not number or key not in kept:
            chosen.append(dict(entry) if number else entry)
            if number:
                kept[key] = chosen[-1]
            continue
        _join_ports(kept[key], entry, f"{path}.ports[{index}]")
        name = raw.text(entry, "name")
        if name and kept[key].setdefault("name", name) != name:
            gone[name] = number
    if len(chosen) < len(entries):
        named = f"; the name {', '.join(sorted(gone))} is replaced by its number" if gone else ""
        tell(f"{path}.ports names a port more than once; one entry is kept{named}")
        container["ports"] = chosen
    return gone


def _join_ports(kept: dict[str, Any], entry: Obj, path: str) -> None:
    """Takes the port of the node from a second entry for the same port."""
    for field in ("hostPort", "hostIP"):
        if entry.get(field) and kept.setdefault(field, entry[field]) != entry[field]:
            raise LeftAlone(
                f"{path}.{field}: port {kept['containerPort']} has another one before; a Pinterest"
                " kind names a port once"
            )


def _by_number(value: Any, names: Mapping[str, int]) -> Any:
    """A copy in which probes and hooks that name one of these ports use its number."""
    if isinstance(value, list):
        return [_by_number(entry, names) for entry in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: names[entry]
        if key == "port" and isinstance(entry, str) and entry in names
        else _by_number(entry, names)
        for key, entry in value.items()
    }


def texts(value: Any) -> Iterator[str]:
    """Every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from texts(entry)


REFERENCES: Final[Mapping[str, tuple[str, str]]] = {
    "configMap": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
}
"""Field -> (kind it refers to, field with the name). A projected volume's `secret` has `name`."""


def references(value: Any) -> Iterator[tuple[str, str, bool]]:
    """(kind, name, needed) of every ConfigMap and Secret that a value refers to, at any depth."""
    if isinstance(value, list):
        for entry in value:
            yield from references(entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            kind, field = REFERENCES.get(key, ("", ""))
            name = (raw.text(entry, field) or raw.text(entry, "name")) if kind else ""
            if name:
                yield kind, name, not raw.flag(entry, "optional")
            yield from references(entry)


def renamed(value: Any, old: str, new: str) -> Any:
    """A copy with references to one ConfigMap changed to another."""
    if isinstance(value, list):
        return [renamed(entry, old, new) for entry in value]
    if not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for key, entry in value.items():
        out[key] = renamed(entry, old, new)
        if REFERENCES.get(key, ("", ""))[0] == "ConfigMap" and raw.text(entry, "name") == old:
            out[key] = {**out[key], "name": new}
    return out
