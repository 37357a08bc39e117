"""Tables of objects that come and go."""

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def put(table: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Stores a value; None removes the one that is there."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
