"""What ResourceQuotas and LimitRanges leave and ask for, by namespace, for the capacity report.

A ResourceQuota counts pods that exist. What slices are entitled to beyond these is subtracted here,
as it is from the nodes: the report includes every slice up to its seq. A quota that no controller
has counted yet leaves what slices are not entitled to.
"""

from collections.abc import Sequence
from typing import Final

from federator.api import namespacefields
from federator.api.namespacefields import MAX_NAMESPACES, MAX_PER_NAMESPACE, MAX_TEXT
from federator.member.cache.limits import QuotaRow
from federator.member.cache.stores import Stores
from federator.member.capacity.owing import Owing
from federator.member.capacity.room import Room
from federator.model.resources import ZERO, Resources
from federator.model.rules import namespaces
from federator.model.rules.namespaces import LimitRange, QuotaLeft, Rules

_SYSTEM: Final = "kube-"
"""Namespaces of Kubernetes itself begin with it: the federation has no workloads there."""


class NamespaceReport:
    """One per survey."""

    def __init__(self, caches: Stores, owing: Owing, system_namespace: str) -> None:
        self._ranges: dict[str, list[LimitRange]] = {}
        self._quotas: dict[str, list[QuotaRow]] = {}
        for key, entries in sorted(caches.limit_ranges.items().items()):
            self._ranges.setdefault(key[0], []).extend(entries)
        for key, quota in sorted(caches.quotas.items().items()):
            self._quotas.setdefault(key[0], []).append(quota)
        self._owing = owing
        every = sorted(
            name
            for name in {*self._ranges, *self._quotas}
            if name != system_namespace and not name.startswith(_SYSTEM)
        )
        if len(every) > MAX_NAMESPACES:
            # Those with slices first, because copies of their workloads are refused first.
            busy = {row.key.namespace for row in caches.every_slice()}
            every.sort(key=lambda name: name not in busy)
        self._rules = self._bounded(every)
        self.names = tuple(sorted(self._rules))
        """The namespaces that are reported."""
        self.error = self._left_out(len(every) - len(self.names))
        """What is not reported, as sentences."""

    def _bounded(self, names: Sequence[str]) -> dict[str, Rules]:
        """What holds in the first of these namespaces, as many as a report may have."""
        rules: dict[str, Rules] = {}
        size = 0
        for name in names[:MAX_NAMESPACES]:
            ranges = tuple(self._ranges.get(name, ())[:MAX_PER_NAMESPACE])
            left = [quota.left for quota in self._reported(name)]
            here = Rules(ranges, tuple(quota.bounded for quota in left))
            size += namespacefields.size_of(here, left)
            if size > MAX_TEXT:
                break
            rules[name] = here
        return rules

    def _left_out(self, missing: int) -> str:
        words: list[str] = []
        if missing:
            words.append(
                f"ResourceQuotas and LimitRanges of {missing} namespaces are beyond what is"
                " reported."
            )
        cut = [
            name
            for name in self.names
            if max(len(self._ranges.get(name, ())), len(self._quotas.get(name, ())))
            > MAX_PER_NAMESPACE
        ]
        if cut:
            words.append(
                f"Namespace {cut[0]} has more than {MAX_PER_NAMESPACE} ResourceQuotas or entries of"
                " LimitRanges: the others are not reported."
            )
        return " ".join(words)

    def rules(self) -> dict[str, Rules]:
        """What holds in each namespace."""
        return self._rules

    def quotas(self, room: Room) -> dict[str, tuple[QuotaLeft, ...]]:
        """What the quotas of each namespace leave. `room`: says how many nodes admit a daemon."""
        left: dict[str, tuple[QuotaLeft, ...]] = {}
        for name in self.names:
            if name in self._quotas:
                missing, entitled = self._lacking(name, room)
                left[name] = tuple(
                    namespaces.less(quota.left, missing if quota.counted else entitled)
                    for quota in self._reported(name)
                )
        return left

    def _reported(self, name: str) -> Sequence[QuotaRow]:
        return self._quotas.get(name, [])[:MAX_PER_NAMESPACE]

    def _lacking(self, name: str, room: Room) -> tuple[Resources, Resources]:
        """What slices of the namespace are entitled to beyond the pods that exist, and in all."""
        missing, entitled = ZERO, ZERO
        for shape, copies, alive in self._owing.lacking(name):
            every = room.copies(shape) if shape.every_node else copies
            missing = missing + shape.requests * max(every - alive, 0)
            entitled = entitled + shape.requests * every
        return missing, entitled
