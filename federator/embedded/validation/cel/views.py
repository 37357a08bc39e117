"""What a CEL rule is shown of an object: the fields it names, spelt as CEL can spell them.

Handing a whole pod template to the evaluator costs a hundred times the rule itself, so the paths a
rule names are read off its text, and everything else is left out. Used by `cel_rules` alone.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Optional

from federator.embedded.storage.schema import Node

Named = Mapping[str, Optional["Named"]]
"""Field name -> what is named below it; None for all of it, an empty mapping for nothing but that
it is there."""

_USES: Final = re.compile(
    r"(\bhas\s*\(\s*)?(?<![\w.])(self|oldSelf)\b((?:\s*\.\s*[A-Za-z_]\w*)*)(\s*[(\[])?"
)
_STRINGS: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_RESERVED: Final = frozenset(
    {
        *(
            "true",
            "false",
            "null",
            "in",
            "as",
            "break",
            "const",
            "continue",
            "else",
            "for",
            "function",
        ),
        *("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)


def named_fields(source: str) -> dict[str, Named | None]:
    """What an expression names of `self` and `oldSelf`; None for a variable that is used as a
    whole."""
    named: dict[str, Named | None] = {"self": {}, "oldSelf": {}}
    for asked, variable, dotted, after in _USES.findall(_STRINGS.sub("''", source)):
        path = [step.strip() for step in dotted.split(".")[1:]]
        is_call = after.strip() == "("
        # The last word of a call is a method; what it is called on is needed whole.
        chain = _chain(path[:-1] if is_call else path, present_only=bool(asked) and not is_call)
        named[variable] = united(named[variable], chain)
    return named


def _chain(path: list[str], *, present_only: bool) -> Named | None:
    if not path:
        return None
    last: Named | None = {} if present_only else None
    for step in reversed(path):
        last = {step: last}
    return last


def united(left: Named | None, right: Named | None) -> Named | None:
    """Everything that either names."""
    if left is None or right is None:
        return None
    both: dict[str, Named | None] = dict(left)
    for key, below in right.items():
        both[key] = united(both[key], below) if key in both else below
    return both


def seen(value: Any, named: Named | None, node: Node | None) -> Any:
    """What a rule that names these fields is shown of a value."""
    if named is None:
        return _spelt(value, node)
    if type(value) is not dict:
        # Nothing is known to be looked at inside: that it is there must do.
        return value if type(value) is not list else []
    shown: dict[str, Any] = {}
    for name, below in named.items():
        key = name if name in value else _unspelt(name, value, node)
        if key is not None:
            shown[name] = seen(
                value[key], below, None if node is None else node.fields.get(key, node.values)
            )
    return shown


def _unspelt(name: str, value: Mapping[str, Any], node: Node | None) -> str | None:
    """The field that CEL calls by an escaped name, if the value has it."""
    if "__" not in name or node is None:
        return None
    return next((key for key in value if key in node.fields and spelling(key) == name), None)


def spelling(name: str) -> str:
    """A property's name in CEL: reserved words and characters that identifiers lack are escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    if name.isidentifier() and "__" not in name:
        return name
    escaped = name.replace("__", "__underscores__").replace(".", "__dot__")
    return escaped.replace("-", "__dash__").replace("/", "__slash__")


def _spelt(value: Any, node: Node | None) -> Any:
    if node is None or not _needs_spelling(node):
        return value
    if type(value) is dict:
        fields = node.fields
        return {
            (spelling(key) if key in fields else key): _spelt(child, fields.get(key, node.values))
            for key, child in value.items()
        }
    return [_spelt(item, node.items) for item in value] if type(value) is list else value


def _needs_spelling(node: Node) -> bool:
    return node.any_below(
        "needs_spelling", lambda each: any(spelling(key) != key for key in each.fields)
    )
