"""Validation of what claims of volumes ask for, with a real API server's words. `native_rules`
calls it for claims, `workload_rules` for the templates of claims in StatefulSets.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.schema import scalars
from federator.embedded.storage.field_errors import FieldError, invalid, not_supported, required

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def claim(spec: Mapping[str, Any], at: str) -> Iterator[FieldError]:
    """The specification of a claim at the path `at`."""
    if not spec.get("accessModes"):
        yield required(f"{at}.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{at}.accessModes", mode, _ACCESS_MODES)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required(f"{at}.resources[storage]")
    elif scalars.amount(storage) <= 0:
        yield invalid(f"{at}.resources[storage]", storage, "must be greater than zero")
