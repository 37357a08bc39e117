"""No function, method or class of the package without a caller in the package."""

from collections.abc import Mapping
from typing import Final

import vulture

from tests.house import sources

CALLED_BY_LIBRARIES: Final = [
    "@*.command",
    "@*.group",
    "@*_validator",
    "@*_serializer",
]
"""Decorators whose functions click or pydantic call."""

_TESTS = "how tests prepare or look at "
REVIEWED: Final[Mapping[str, str]] = {
    "format_commands": "click calls it",
    "do_GET": "http.server calls it",
    "log_message": "http.server calls it",
    "get_command": "click calls it",
    "list_commands": "click calls it",
    "ignore_aliases": "PyYAML calls it",
    "templates_of": "tests/reference writes the admission policies with it",
    "__call__": "the call of a Protocol",
    "compact": _TESTS + "the history of an embedded server",
    "restore": _TESTS + "a server that comes back with an older state",
    "for_kind": _TESTS + "what an embedded server serves",
    "install_crds": _TESTS + "real clusters",
}
"""Name -> why it stays although nothing in the package calls it. This list only gets shorter."""


def unused() -> set[str]:
    """Names of functions, methods, properties and classes that nothing in the package uses. By
    name alone: two methods of one name count as used together.
    """
    looked = vulture.Vulture(ignore_decorators=CALLED_BY_LIBRARIES)
    looked.scavenge([sources.PACKAGE])
    return {
        item.name
        for item in looked.get_unused_code(min_confidence=60)
        if item.typ in {"function", "method", "property", "class"}
    }


def test_what_nothing_calls_is_removed_or_has_a_reason() -> None:
    assert unused() == set(REVIEWED)
