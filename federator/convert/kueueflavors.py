"""Flavors of Kueue as domains of clusters.

A ResourceFlavor becomes the clusters labelled `flavor: NAME`; in a second group of resources of one
queue `flavor-2: NAME`, so that one cluster can be of a flavor of each group. Where no MemberCluster
is given, one with room for everything is made for each flavor, or each combination of flavors of
several groups.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import Item
from federator.kinds import registry
from federator.model.errors import FieldError
from federator.model.kubernetes import taints

LABEL: Final = "flavor"
KEEPING_OFF: Final = ("NoSchedule", "NoExecute")
NODES: Final = 1000
ROOM: Final[Mapping[str, str]] = {"cpu": "1000000", "memory": "1Pi", "pods": "10000"}
"""Of each node of a cluster that is made."""
MOST: Final = 1000
"""So many combinations of flavors become clusters."""


@dataclass(frozen=True, slots=True)
class Flavors:
    groups: Mapping[str, int]
    """Flavor -> the group of resources in which it is, from 0."""
    items: Mapping[str, Item]
    """The ResourceFlavors that were given."""
    extended: frozenset[str] = field(default_factory=frozenset)
    """Resources that queues limit, besides those that every node has."""

    @staticmethod
    def of(queues: Iterable[Item], items: Mapping[str, Item]) -> "Flavors":
        groups: dict[str, int] = dict.fromkeys(items, 0)
        extended: set[str] = set()
        for queue in queues:
            for at, group in enumerate(raw.objects(queue.obj, "spec", "resourceGroups")):
                for flavor in raw.objects(group, "flavors"):
                    name = raw.text(flavor, "name")
                    groups[name] = max(at, groups.get(name, 0))
                    extended |= {raw.text(row, "name") for row in raw.objects(flavor, "resources")}
        return Flavors(groups, items, frozenset(extended - ROOM.keys() - {""}))

    def exists(self, name: str) -> bool:
        """Whether there is such a flavor: every one that a queue names, where none is given."""
        return not self.items or name in self.items

    def selector(self, name: str) -> dict[str, Any]:
        return {"matchLabels": {self._label(name): name}}

    def tolerated(self, name: str, tolerations: Iterable[Obj]) -> bool:
        """Whether pods with these tolerations may use the flavor."""
        return not self._keeping_off(name, tolerations)

    def matches(self, name: str, wanted: Mapping[str, str], keys: frozenset[str]) -> bool:
        """Whether a pod with this node selector may use the flavor. `keys`: the node labels that
        the flavors of its group have; others are no matter of flavors."""
        labels = self.node_labels(name)
        return all(labels.get(key) == value for key, value in wanted.items() if key in keys)

    def node_labels(self, name: str) -> Mapping[str, str]:
        if name not in self.items:
            return {}
        return raw.text_map(self.items[name].obj, "spec", "nodeLabels")

    def clusters(self, queues: Iterable[Item], as_of: str) -> Iterator[dict[str, Any]]:
        """A cluster for each flavor that no combination has, and for each combination."""
        made: dict[tuple[str, ...], None] = {}
        for queue in queues:
            rows = [
                [
                    raw.text(flavor, "name")
                    for flavor in raw.objects(group, "flavors")
                    if self.exists(raw.text(flavor, "name"))
                ]
                for group in raw.objects(queue.obj, "spec", "resourceGroups")
            ]
            if len(rows) > 1:
                some = itertools.product(*(names for names in rows if names))
                made |= dict.fromkeys(itertools.islice(some, MOST))
        combined = {name for names in made for name in names}
        made |= dict.fromkeys(
            (name,) for name in self.groups if self.exists(name) and name not in combined
        )
        for names in sorted(made):
            yield self._cluster(names, as_of)

    def _label(self, name: str) -> str:
        at = self.groups.get(name, 0)
        return LABEL if not at else f"{LABEL}-{at + 1}"

    def _cluster(self, names: tuple[str, ...], as_of: str) -> dict[str, Any]:
        kept = [taint for name in names for taint in self._keeping_off(name, ())]
        amounts = {**ROOM, **dict.fromkeys(sorted(self.extended), "1000000")}
        nodes = [{"count": NODES, "allocatable": amounts, "free": amounts}]
        return {
            "apiVersion": registry.KINDS["MemberCluster"].api_version,
            "kind": "MemberCluster",
            "metadata": {
                "name": "-".join(names).replace(".", "-").lower()[:63].strip("-"),
                "labels": {self._label(name): name for name in names},
            },
            "spec": {"taints": kept} if kept else {},
            "status": {"capacity": {"asOf": as_of, "nodes": nodes}},
        }

    def _keeping_off(self, name: str, tolerations: Iterable[Obj]) -> list[dict[str, Any]]:
        """The taints of a flavor that neither these nor its own tolerations tolerate."""
        if name not in self.items:
            return []
        spec = raw.mapping(self.items[name].obj, "spec")
        let = list(_tolerations((*raw.objects(spec, "tolerations"), *tolerations)))
        return [
            {field: row[field] for field in ("key", "value", "effect") if field in row}
            for row in raw.objects(spec, "nodeTaints")
            if raw.text(row, "effect") in KEEPING_OFF
            and not any(toleration.tolerates(taints.taint_from_dict(row)) for toleration in let)
        ]


def _tolerations(rows: Iterable[Obj]) -> Iterator[taints.Toleration]:
    for row in rows:
        try:
            yield taints.toleration_from_dict(dict(row))
        except FieldError:
            continue
