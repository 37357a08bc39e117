"""The fields in which a member reports the LimitRanges and ResourceQuotas of its namespaces.

Both ends are bounded: a member writes no more than the schema holds, and a reader takes no more
from it, whatever it says.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from federator.api import raw
from federator.api.common import Amounts, Model, list_map, many
from federator.api.raw import Obj
from federator.model import interning
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity
from federator.model.resources import CPU
from federator.model.rules import namespaces
from federator.model.rules.namespaces import LimitRange, QuotaLeft, Rules

MAX_NAMESPACES: Final = 256
MAX_PER_NAMESPACE: Final = 4
"""Of LimitRange entries, and of ResourceQuotas."""
MAX_AMOUNTS: Final = 32
MAX_NAME: Final = 253
MAX_TEXT: Final = 192 * 1024
"""Characters of all namespaces together, about."""
MAX_AMOUNT: Final = 1 << 53
"""More than a namespace can use: in thousandths of a CPU, in bytes and in counts."""
MAX_RATIO: Final = 1_000_000_000
"""The same of a limit in thousandths of its request."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
_LISTS: Final = ("quotas", "limitRanges")
_RESOURCE: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,252}", re.ASCII)
_CONTAINER: Final = "Container"
_POD: Final = "Pod"
TYPES: Final = (_CONTAINER, _POD)
"""The types of LimitRange entries that concern pods."""


class QuotaFields(Model):
    """What one ResourceQuota leaves."""

    name: Name
    """Name of the ResourceQuota."""
    requests: Amounts = Field(default_factory=dict)
    """Requests of pods that it still has room for, by resource; 0 is a limit, resources that are
    not named have none."""
    limits: Amounts = Field(default_factory=dict)
    """The same of limits."""


class LimitRangeFields(Model):
    """One entry of a LimitRange."""

    name: Name
    """Name of the LimitRange."""
    type: Annotated[str, Field(max_length=16, pattern=f"^({_CONTAINER}|{_POD})$")]
    """Container or Pod."""
    min: Amounts = Field(default_factory=dict)
    """The least that each has to ask for."""
    max: Amounts = Field(default_factory=dict)
    """The most that each may have."""
    default: Amounts = Field(default_factory=dict)
    """Limits of containers that state none."""
    default_request: Amounts = Field(default_factory=dict)
    """Requests of containers that state none."""
    max_limit_request_ratio: Amounts = Field(default_factory=dict)
    """The most that a limit may be of its request."""


class NamespaceFields(Model):
    """What the ResourceQuotas and LimitRanges of one namespace allow."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the namespace."""
    quotas: list[QuotaFields] = many(MAX_PER_NAMESPACE, list_map("name"))
    """What its ResourceQuotas leave, by name. Those with scopes other than NotBestEffort are not
    reported."""
    limit_ranges: list[LimitRangeFields] = many(MAX_PER_NAMESPACE)
    """The entries of its LimitRanges."""


def to_namespaces(
    status: Obj,
) -> tuple[Mapping[str, Rules], Mapping[str, tuple[QuotaLeft, ...]]]:
    """What holds in each namespace, and what the ResourceQuotas of each leave. What cannot be read
    holds nothing."""
    if not raw.items(status, "namespaces"):
        return namespaces.NO_RULES, namespaces.NO_QUOTAS
    rules: dict[str, Rules] = {}
    left: dict[str, tuple[QuotaLeft, ...]] = {}
    for name, entry in _namespaces(status):
        ranges, quotas = tuple(_limit_ranges(entry)), tuple(_quotas(entry))
        if quotas:
            left[name] = interning.listed(quotas)
        if ranges or quotas:
            bounded = tuple(quota.bounded for quota in quotas)
            rules[name] = interning.value(Rules(ranges, bounded))
    return rules, left


def from_namespaces(
    rules: Mapping[str, Rules], quotas: Mapping[str, tuple[QuotaLeft, ...]]
) -> list[dict[str, Any]]:
    """The field `namespaces`, by name."""
    return [
        raw.present(
            {
                "name": name,
                "quotas": [_from_quota(quota) for quota in quotas.get(name, ())],
                "limitRanges": [
                    _from_limit_range(each)
                    for each in (rules[name].limit_ranges if name in rules else ())
                ],
            }
        )
        for name in sorted({*rules, *quotas})
    ]


def excess(status: Obj) -> str:
    """What these fields say beyond what is read, as a part of a sentence; "" for nothing."""
    every = raw.objects(status, "namespaces")
    if len(every) > MAX_NAMESPACES:
        return f"namespaces has {len(every)} entries, and at most {MAX_NAMESPACES} are read"
    for entry in every:
        for field in _LISTS:
            if (count := len(raw.objects(entry, field))) > MAX_PER_NAMESPACE:
                most = f"at most {MAX_PER_NAMESPACE} are read"
                return f"namespaces[].{field} has {count} entries, and {most}"
    if sum(map(_size, every)) > MAX_TEXT:
        return f"namespaces is larger than the {MAX_TEXT} bytes that are read"
    return ""


def limit_range(name: str, entry: Obj) -> LimitRange | None:
    """An entry of `spec.limits` of a LimitRange, as in the report; None for one that concerns no
    pods."""
    kind = raw.text(entry, "type")
    if kind not in TYPES:
        return None
    return LimitRange(
        name[:MAX_NAME],
        kind == _POD,
        amounts(entry, "min"),
        amounts(entry, "max"),
        amounts(entry, "defaultRequest"),
        amounts(entry, "default"),
        tuple(_ratios(raw.mapping(entry, "maxLimitRequestRatio"))),
    )


def amounts(fields: Obj, name: str) -> namespaces.Amounts:
    """A table of quantities, bounded; what cannot be read, or is negative, is left out."""
    given = raw.mapping(fields, name)
    read: list[tuple[str, int]] = []
    for resource in sorted(given):
        if not _RESOURCE.fullmatch(resource):
            continue
        try:
            amount = quantity.from_json(given[resource]).ceil(-3 if resource == CPU else 0)
        except FieldError:
            continue
        if amount >= 0:
            read.append((resource, min(amount, MAX_AMOUNT)))
    return tuple(read[:MAX_AMOUNTS])


def _ratios(given: Obj) -> Iterator[tuple[str, int]]:
    for resource in sorted(given)[:MAX_AMOUNTS]:
        try:
            ratio = quantity.from_json(given[resource]).ceil(-3)
        except FieldError:
            continue
        if ratio > 0 and _RESOURCE.fullmatch(resource):
            yield resource, min(ratio, MAX_RATIO)


def _namespaces(status: Obj) -> Iterator[tuple[str, Obj]]:
    size = 0
    for entry in raw.objects(status, "namespaces")[:MAX_NAMESPACES]:
        name = raw.text(entry, "name")
        size += _size(entry)
        if size > MAX_TEXT:
            return
        if 0 < len(name) <= 63:
            yield interning.text(name), entry


def _size(entry: Obj) -> int:
    """Characters of an entry as it is written, about."""
    size = 64
    for field in _LISTS:
        for part in raw.objects(entry, field)[:MAX_PER_NAMESPACE]:
            size += 64 + min(len(raw.text(part, "name")), MAX_NAME)
            for table in part.values():
                names = list(table)[:MAX_AMOUNTS] if isinstance(table, Mapping) else ()
                size += sum(min(len(name), MAX_NAME) + 24 for name in names)
    return size


def size_of(rules: Rules, quotas: Iterable[QuotaLeft]) -> int:
    """The same of an entry with these, so that a writer keeps to what is read."""
    tables = [
        *((quota.name, (quota.requests, quota.limits)) for quota in quotas),
        *(
            (each.name, (each.least, each.most, each.default_requests, each.default_limits))
            for each in rules.limit_ranges
        ),
        *((each.name, (each.ratio,)) for each in rules.limit_ranges),
    ]
    return 64 + sum(
        64 + len(name) + sum(len(resource) + 24 for table in part for resource, _ in table)
        for name, part in tables
    )


def _quotas(entry: Obj) -> Iterator[QuotaLeft]:
    for quota in raw.objects(entry, "quotas")[:MAX_PER_NAMESPACE]:
        requests, limits = amounts(quota, "requests"), amounts(quota, "limits")
        if requests or limits:
            yield QuotaLeft(raw.sentence(quota, "name")[:MAX_NAME], requests, limits)


def _limit_ranges(entry: Obj) -> Iterator[LimitRange]:
    for each in raw.objects(entry, "limitRanges")[:MAX_PER_NAMESPACE]:
        read = limit_range(raw.sentence(each, "name"), each)
        if read is not None:
            yield read


def _from_quota(quota: QuotaLeft) -> dict[str, Any]:
    parts = {"requests": _from_amounts(quota.requests), "limits": _from_amounts(quota.limits)}
    return {"name": quota.name, **raw.present(parts)}


def _from_limit_range(each: LimitRange) -> dict[str, Any]:
    fields = {
        "min": _from_amounts(each.least),
        "max": _from_amounts(each.most),
        "default": _from_amounts(each.default_limits),
        "defaultRequest": _from_amounts(each.default_requests),
        "maxLimitRequestRatio": {
            name: str(quantity.Quantity(ratio * (quantity.NANO // 1000)))
            for name, ratio in each.ratio
        },
    }
    return {"name": each.name, "type": _POD if each.of_pod else _CONTAINER, **raw.present(fields)}


def _from_amounts(given: namespaces.Amounts) -> dict[str, str]:
    return {name: quantity.render_amount(name, amount) for name, amount in given}
