"""Text that is safe to show: no character moves a cursor, starts an escape sequence or reverses
reading order.

Names, messages and annotations come from tenants and members, and operators read them at terminals.
This is the only sanitiser: command line output, Events, conditions, decisions and logs pass through
it when they leave the process. Data for programs (`-o json`, `-o yaml`) keeps its value, with the
escapes of its own syntax.
"""

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are always escaped: control characters (escape sequences begin with one),
formats (bidirectional marks, invisible characters), lone surrogates, line and paragraph separators.
`str.isprintable` is false of all of them.
"""

SENTENCE_MAX: Final = 1024
"""Most characters of one message in a status, decision or Event. The API allows 32768; a status for
hundreds of clusters must stay small."""

STATUS_MAX: Final = 60
"""Most characters of a STATUS column; the conditions have the whole sentence."""


def visible(text: str, *, keep: str = "") -> str:
    """The text with every unsafe character written as its escape (`\\u001b`). Characters in `keep`
    stay.

    Applying it twice changes nothing.
    """
    if text.isprintable():
        return text
    if keep and text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    return "".join(char if char in keep or not unsafe(char) else escaped(char) for char in text)


def clipped(text: str, limit: int = SENTENCE_MAX) -> str:
    """The text made visible, cut with three points when longer than `limit` characters."""
    if len(text) <= limit and text.isprintable():
        return text
    shown = visible(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def counted(number: int, noun: str, plural: str) -> str:
    """`1 copy`, `2 copies`."""
    return f"{number} {noun if number == 1 else plural}"


def moment(epoch_s: float) -> str:
    """A time in UTC as people read it, in whole seconds."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unsafe(char: str) -> bool:
    return unicodedata.category(char) in UNSAFE


def escaped(char: str) -> str:
    """The escape of one character, as JSON, YAML and Python read it back."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def every(value: Any) -> Any:
    """A plain object (mappings, lists, scalars) with all its texts made visible, including keys."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {every(name): every(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [every(each) for each in value]
    return value
