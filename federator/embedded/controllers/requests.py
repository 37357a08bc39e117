"""What a pod asks of a node, as the scheduler counts it: containers, init containers, sidecars,
overhead, one pod slot.

Pure. Cached by the identity of the containers list, which all pods of one template share.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from federator.model.errors import FieldError
from federator.model.kubernetes import quantity

Amounts = tuple[tuple[str, int], ...]
"""(resource, amount) pairs sorted by name, zero amounts left out: cpu in milli, all else in base
units."""

_CACHE_MAX: Final = 4096


@functools.lru_cache(maxsize=4096)
def amount(resource: str, text: str | int) -> int:
    """One quantity as an integer, rounded up; what cannot be read counts as zero."""
    try:
        return quantity.from_json(text).ceil(-3 if resource == "cpu" else 0)
    except FieldError:
        return 0


def amounts(quantities: Mapping[str, str | int]) -> Amounts:
    return tuple(sorted((name, amount(name, text)) for name, text in quantities.items()))


def of_spec(spec: Mapping[str, Any]) -> Amounts:
    """The larger of (containers and sidecars) and (any init container with its earlier sidecars),
    overhead, a slot."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _wanted(container))
    peak: dict[str, int] = {}
    beside: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _wanted(container)
        if container.get("restartPolicy") == "Always":
            _add(beside, wanted)
            _add(total, wanted)
            _raise_to(peak, beside)
        else:
            step = dict(beside)
            _add(step, wanted)
            _raise_to(peak, step)
    _raise_to(total, peak)
    _add(total, dict(amounts(spec.get("overhead") or {})))
    total["pods"] = 1
    return tuple(sorted((name, value) for name, value in total.items() if value))


class Sizes:
    """A small cache of `of_spec`."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[tuple[int, int], tuple[Any, Any, Amounts]] = {}

    def of(self, pod: Mapping[str, Any]) -> Amounts:
        spec = pod["spec"]
        containers, inits = spec.get("containers"), spec.get("initContainers")
        key = (id(containers), id(inits))
        cached = self._cache.get(key)
        if cached is not None:
            return cached[2]
        if len(self._cache) >= _CACHE_MAX:
            self._cache.clear()
        size = of_spec(spec)
        # The lists are kept with the answer: an id means nothing once its object is gone.
        self._cache[key] = (containers, inits, size)
        return size


def _wanted(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    # A limit without a request is the request, as the API server defaults it.
    quantities = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(name, text) for name, text in quantities.items()}


def _add(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        into[name] = into.get(name, 0) + value


def _raise_to(into: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        into[name] = max(into.get(name, 0), value)
