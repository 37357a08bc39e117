"""Text that is safe to show: no character of it moves a cursor, sends an escape sequence or reverses reading order.

Names, messages and annotations come from tenants and from members, and are read by operators at terminals. This is the
only sanitiser: tables and lines of the command line, Events, conditions, decisions and logs pass through it at the
place where they leave the process. What is data for a program (`-o json`, `-o yaml`) keeps its value, written with the
escapes of its own syntax.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are never shown as they are: control characters (escape sequences begin with one), formats
(bidirectional marks, invisible characters), lone surrogates, line and paragraph separators."""

SENTENCE_MAX: Final = 1024
"""Characters of one message in a status, a decision or an Event. The API allows 32768; a status for hundreds of
clusters must stay small."""


def visible(text: str, *, keep: str = "") -> str:
    """The text with every unsafe character written as its escape (`\\u001b`). Characters in `keep` stay.

    Applying it twice changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or not unsafe(char) else escaped(char) for char in text)


def clipped(text: str, limit: int = SENTENCE_MAX) -> str:
    """The text made visible, cut with three points where it is longer than `limit` characters."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    shown = visible(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def unsafe(char: str) -> bool:
    return unicodedata.category(char) in UNSAFE


def escaped(char: str) -> str:
    """The escape of one character, as JSON, YAML and Python read it back."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def every(value: Any) -> Any:
    """A plain object (mappings, lists, scalars) with all of its texts visible, keys included."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {every(name): every(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [every(each) for each in value]
    return value
