"""Where a field stands in a YAML or JSON text. Asked only about texts that `decoding` has read, and
only to report a problem: it reads the whole text once more."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

_STEP: Final = re.compile(r"\[([0-9]+)\]")


class Lines:
    """Lines of one text. It is read with the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._objects: list[Any] | None = None

    def of(self, at: int, path: str) -> int:
        """The line, from 1, of the field `path` of the object number `at` (from 1, each item of a
        List counted); of a field that is not there the line of what should have it. 0 without the
        object."""
        if self._objects is None:
            self._objects = list(_read(self._text))
        objects = self._objects
        return _field(objects[at - 1], path).start_mark.line + 1 if at <= len(objects) else 0


def _read(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with contextlib.suppress(yaml.YAMLError):
        for root in yaml.compose_all(text, loader):
            yield from _objects(root)


def _objects(node: Any) -> Iterator[Any]:
    """As `kinds.read.load_yaml` counts them."""
    fields = _fields(node)
    kind, items = fields.get("kind"), fields.get("items")
    if isinstance(items, yaml.SequenceNode) and str(kind.value if kind else "").endswith("List"):
        for item in items.value:
            yield from _objects(item)
    elif not (isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~")):
        yield node


def _field(node: Any, path: str) -> Any:
    """The deepest node along the path. Keys may have dots, so the longest key that fits goes
    first."""
    marked = node
    while path:
        if isinstance(node, yaml.SequenceNode) and (step := _STEP.match(path)):
            index = int(step[1])
            if index >= len(node.value):
                return marked
            node = marked = node.value[index]
            path = path[step.end() :].removeprefix(".")
            continue
        keys = [
            key for key in _fields(node) if path == key or path.startswith((f"{key}.", f"{key}["))
        ]
        if not keys:
            return marked
        key = max(keys, key=len)
        marked = next(name for name, _ in node.value if name.value == key)
        node = _fields(node)[key]
        path = path[len(key) :].removeprefix(".")
    return marked


def _fields(node: Any) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
