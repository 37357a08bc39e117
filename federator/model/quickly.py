"""Quick constructors of frozen dataclasses that are made for every decision.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which costs
several times as much as all else of making it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

Fields = ParamSpec("Fields")
Made = TypeVar("Made")


def quickly(cls: Callable[Fields, Made]) -> Callable[Fields, Made]:
    """A constructor that makes what `cls` makes, a frozen dataclass with slots.

    It sets the fields of an object of a class with the same slots that is not frozen, and lets it
    become one of `cls` at the end. Raises TypeError for a class that does more than that when it is
    made.
    """
    if not hasattr(cls, "__slots__") or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls!r} has no slots, or more to do than to set its fields")

    def become(made: Any) -> None:
        made.__class__ = cls

    fields = [(field.name, Any, _as_given(field)) for field in dataclasses.fields(cast(Any, cls))]
    twin = dataclasses.make_dataclass(
        "Unfrozen", fields, slots=True, eq=False, repr=False, namespace={"__post_init__": become}
    )
    return cast(Callable[Fields, Made], twin)


def _as_given(field: "dataclasses.Field[Any]") -> Any:
    """The field with its default only."""
    if not field.init:
        raise TypeError(f"field {field.name} is not given to the constructor")
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory, kw_only=bool(field.kw_only))
    return dataclasses.field(default=field.default, kw_only=bool(field.kw_only))
