"""Label and field selectors of list, watch and deletecollection requests.

Field selectors follow the grammar of apimachinery's `fields.ParseSelector` (`a=b,c!=d`, with
backslash escapes) and only name what the resource declares. The result is one predicate on objects;
None means that everything matches.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from federator.embedded.schema import event_groups
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import metadata_rules
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

Predicate = Callable[[dict[str, Any]], bool]

_EVENTS = ("", "events")
_TERM = re.compile(r"((?:[^\\,=!]|\\.)*)(!=|==|=)((?:[^\\,=]|\\.)*)")


def predicate(info: ResourceInfo, label_text: str, field_text: str) -> Predicate | None:
    """Both selectors as one predicate. Raises `Refusal` 400 for a selector that cannot be read or
    is not supported."""
    checks: list[Predicate] = []
    if label_text:
        checks.append(_labels(label_text))
    for path, equal, value in parse_fields(field_text):
        checks.append(_field(info, path, equal, value))
    if not checks:
        return None
    if len(checks) == 1:
        return checks[0]
    return lambda obj: all(check(obj) for check in checks)


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """(path, wants equal?, value) of each term."""
    terms = []
    for term in _split(text):
        match = _TERM.fullmatch(term)
        if match is None:
            raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((_unescape(match[1]), match[2] != "!=", _unescape(match[3])))
    return terms


def only_name(field_text: str) -> str | None:
    """The name that a field selector pins (`metadata.name=x`), so that a list need not scan."""
    for path, equal, value in parse_fields(field_text):
        if path == "metadata.name" and equal:
            return value
    return None


@functools.lru_cache(maxsize=512)
def _parsed_labels(text: str) -> selectors.LabelSelector:
    return selectors.parse(text)


def _labels(text: str) -> Predicate:
    try:
        selector = _parsed_labels(text)
    except FieldError as error:
        key = _BAD_KEY.match(error.message)
        if key is not None:
            problem = field_errors.invalid(
                "<nil>", key[1], "; ".join(metadata_rules.qualified_name(key[1]))
            )
            raise refusals.bad_request(f"unable to parse requirement: {problem.line()}") from error
        raise refusals.bad_request(_server_words(error.message)) from error
    return lambda obj: selector.matches(obj["metadata"].get("labels") or {})


_BAD_KEY = re.compile(r"'(.*)' is not a label key: ")
_FOUND = re.compile(r"expected (.*), found '(.*)'$")
_EXPECTED = {
    "a label key": "identifier",
    "a value": "identifier",
    "one of in, notin, =, ==, !=, >, <": "in, notin, =, ==, !=, gt, lt",
    "'('": "'('",
}


def _server_words(message: str) -> str:
    """Our parser's complaint as a real server words it."""
    match = _FOUND.search(message)
    if match is None:
        return f"unable to parse requirement: {message}"
    wanted, expected = match[1], "" if match[2] == "the end" else match[2]
    if wanted == "','":
        return f"found '{expected}', expected: ',' or 'end of string'"
    comma = "" if wanted == "'('" else ","
    return (
        f"unable to parse requirement: found '{expected}'{comma} expected:"
        f" {_EXPECTED.get(wanted, wanted)}"
    )


def _split(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(current)
            current = ""
            continue
        escaped = char == "\\" and not escaped
        current += char
    parts.append(current)
    return [part for part in parts if part]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_REPLICA_SETS = ("apps", "replicasets")
"""The older versions of its group select by status.replicas, apps/v1 does not."""
_JOBS = ("batch", "jobs")


def _field(info: ResourceInfo, path: str, equal: bool, value: str) -> Predicate:
    selectable = () if info.key == _REPLICA_SETS else info.selectable_fields
    spaced = info.namespaced or (info.is_builtin and not selectable)
    supported = path == "metadata.name" or (path == "metadata.namespace" and spaced)
    if not supported and f".{path}" not in selectable:
        if info.is_builtin and not selectable:
            names = 'only "metadata.name", "metadata.namespace"'
            raise refusals.bad_request(f'"{path}" is not a known field selector: {names}')
        if info.key == _JOBS:
            raise refusals.bad_request(f'field label "{path}" not supported for Job')
        raise refusals.bad_request(f"field label not supported: {path}")
    if path == "source" and info.key == _EVENTS:
        return lambda obj: (_source(obj) == value) is equal
    steps = tuple(event_groups.selected(info, path).split("."))
    return lambda obj: (_text_at(obj, steps) == value) is equal


def _source(event: dict[str, Any]) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def _text_at(obj: Any, steps: tuple[str, ...]) -> str:
    """The value at a path as selectors compare it: booleans in lower case, absent as the empty
    string."""
    for step in steps:
        if not isinstance(obj, dict):
            return ""
        obj = obj.get(step)
    if obj is None:
        return ""
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)
