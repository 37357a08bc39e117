"""Quick constructors of frozen dataclasses that are made for every decision.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which costs
several times as much as all else of making it; and every class with an `__init__` packs what it is
given into a tuple and a dict first.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

Fields = ParamSpec("Fields")
Made = TypeVar("Made")
_ABSENT: Final = object()


def quickly(cls: Callable[Fields, Made]) -> Callable[Fields, Made]:
    """A constructor that makes what `cls` makes, a frozen dataclass with slots.

    It is a function that sets the fields of an object of a class with the same slots that is not
    frozen, and lets it become one of `cls` at the end. Raises TypeError for a class that does more
    than that when it is made.
    """
    if not hasattr(cls, "__slots__") or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls!r} has no slots, or more to do than to set its fields")
    fields = dataclasses.fields(cast(Any, cls))
    if any(not field.init for field in fields):
        raise TypeError(f"{cls!r} has a field that is not given to the constructor")
    twin = dataclasses.make_dataclass(
        "Unfrozen", [(field.name, Any) for field in fields], slots=True, init=False, eq=False
    )
    names = {"cls": cls, "twin": twin, "absent": _ABSENT}
    positional = [_parameter(field, names) for field in fields if not field.kw_only]
    named = [_parameter(field, names) for field in fields if field.kw_only]
    lines = [
        f"def make({', '.join([*positional, *(['*'] if named else []), *named])}):",
        " made = twin()",
        *(f" made.{field.name} = {_value(field)}" for field in fields),
        " made.__class__ = cls",
        " return made",
    ]
    exec("\n".join(lines), names)
    return cast(Callable[Fields, Made], names["make"])


def likewise(cls: type[Made], *changed: str) -> Callable[..., Made]:
    """A function that makes an object like the one that it is given first, but for these fields,
    which follow in this order: as `dataclasses.replace`, as quickly as a constructor of `quickly`.

    likewise(Ask, "uid")(ask, "u-2") is what replace(ask, uid="u-2") is
    """
    fields = dataclasses.fields(cast(Any, cls))
    if unknown := set(changed) - {field.name for field in fields}:
        raise TypeError(f"{cls!r} has no field {sorted(unknown)}")
    values = ", ".join(
        (f"{field.name}=" if field.kw_only else "")
        + (field.name if field.name in changed else f"like.{field.name}")
        for field in fields
    )
    made = {"make": quickly(cls)}
    exec(f"def change({', '.join(('like', *changed))}):\n return make({values})", made)
    return cast(Callable[..., Made], made["change"])


def _parameter(field: "dataclasses.Field[Any]", names: dict[str, Any]) -> str:
    """The field as a parameter, its default under a name of its own in `names`."""
    if field.default_factory is not dataclasses.MISSING:
        names[f"made_{field.name}"] = field.default_factory
        return f"{field.name}=absent"
    if field.default is dataclasses.MISSING:
        return field.name
    names[f"default_{field.name}"] = field.default
    return f"{field.name}=default_{field.name}"


def _value(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is dataclasses.MISSING:
        return field.name
    return f"made_{field.name}() if {field.name} is absent else {field.name}"
