"""What a member process remembers of ResourceQuotas and LimitRanges: what of them concerns pods.

Pure projections, made once per event. A ResourceQuota with a scope counts only some pods of its
namespace. Of the scopes only NotBestEffort is followed, because copies of the federation are never
of that class when they request anything; quotas with other scopes are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from federator.api import namespacefields, raw
from federator.api.namespacefields import MAX_AMOUNTS, MAX_PER_NAMESPACE
from federator.api.raw import Obj
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.resources import CPU, MEMORY, PODS
from federator.model.rules.namespaces import Amounts, LimitRange, QuotaLeft

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_PLAIN: Final = {CPU: CPU, MEMORY: MEMORY, PODS: PODS, "count/pods": PODS}
_EPHEMERAL: Final = "ephemeral-storage"
_FOLLOWED: Final = frozenset({"NotBestEffort"})
"""Scopes that all copies of the federation are in."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One ResourceQuota."""

    left: QuotaLeft
    """What it leaves by its status."""
    counted: bool
    """Its controller has counted the pods that exist. Else it leaves all that it allows, and
    slices are subtracted as a whole."""


def quota_row(obj: Obj) -> QuotaRow | None:
    """None for a ResourceQuota that bounds no pods, or only those of a scope that is not
    followed."""
    spec = raw.mapping(obj, "spec")
    if not frozenset(raw.texts(spec, "scopes")) <= _FOLLOWED or raw.at(spec, "scopeSelector"):
        return None
    hard, used = raw.mapping(spec, "hard"), raw.mapping(obj, "status", "used")
    counted = bool(used)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for name in sorted(hard):
        place = _place(name)
        if place is None:
            continue
        is_limit, resource = place
        most, taken = _amount(resource, hard[name]), _amount(resource, used.get(name, "0"))
        if most is None or taken is None:
            continue
        table, amount = limits if is_limit else requests, max(most - taken, 0)
        table[resource] = min(table.get(resource, amount), amount)
    if not (requests or limits):
        return None
    left = QuotaLeft(raw.text(obj, "metadata", "name"), _sorted(requests), _sorted(limits))
    return QuotaRow(left, counted)


def limit_ranges(obj: Obj) -> tuple[LimitRange, ...] | None:
    """The entries of a LimitRange that concern pods; None without any."""
    return tuple(_entries(obj))[:MAX_PER_NAMESPACE] or None


def _entries(obj: Obj) -> Iterator[LimitRange]:
    name = raw.text(obj, "metadata", "name")
    for entry in raw.objects(obj, "spec", "limits"):
        read = namespacefields.limit_range(name, entry)
        if read is not None:
            yield read


def _place(name: str) -> tuple[bool, str] | None:
    """(whether it bounds limits, the resource of a pod) for an entry of `spec.hard`; None for
    objects that are no pods, and for storage.

    requests.nvidia.com/gpu -> (False, nvidia.com/gpu); limits.cpu -> (True, cpu); services -> None
    """
    if name in _PLAIN:
        return False, _PLAIN[name]
    if name.startswith(_LIMITS):
        return True, name.removeprefix(_LIMITS)
    resource = name.removeprefix(_REQUESTS)
    if resource == "storage" or ".storageclass." in resource:
        return None
    extended = resource != name
    return (
        (False, resource) if extended or resource.startswith(("hugepages-", _EPHEMERAL)) else None
    )


def _amount(resource: str, value: object) -> int | None:
    try:
        amount = quantity.from_json(value).ceil(-3 if resource == CPU else 0)
    except FieldError:
        return None
    return min(max(amount, 0), namespacefields.MAX_AMOUNT)


def _sorted(table: dict[str, int]) -> Amounts:
    return tuple(sorted(table.items()))[:MAX_AMOUNTS]
