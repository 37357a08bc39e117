"""Rules between pods: required affinity and anti-affinity, and hard topology spread, over any node
label.

`Neighbours` counts, per rule that some pod has, the matching pods of each topology value; counts
follow pods as they are bound and end, so a check costs a look-up. Preferred rules are not looked
at.
"""

import collections
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.embedded.controllers.nodes import Node, NodeIndex
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector

NOT_TOGETHER: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
NOT_SPREAD: Final = "node(s) didn't match pod topology spread constraints"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Term:
    """Pods of some namespaces (None: all) and labels, seen per value of a node label."""

    namespaces: frozenset[str] | None
    selector: LabelSelector
    topology_key: str

    def matches(self, pod: Pod) -> bool:
        if self.namespaces is not None and pod.key[0] not in self.namespaces:
            return False
        return self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint with whenUnsatisfiable: DoNotSchedule."""

    term: Term
    max_skew: int
    matches_itself: bool


def terms_of(pod: Mapping[str, Any], rules: Mapping[str, Any] | None) -> tuple[Term, ...]:
    """The required terms of podAffinity or podAntiAffinity. A namespaceSelector counts as all
    namespaces."""
    terms = []
    for entry in (rules or {}).get(_REQUIRED) or ():
        names = entry.get("namespaces") or ()
        if entry.get("namespaceSelector") is not None:
            namespaces = None
        else:
            namespaces = frozenset(names) or frozenset({pod["metadata"]["namespace"]})
        selector = _with_keys(entry, pod)
        terms.append(Term(namespaces, selector, entry["topologyKey"]))
    return tuple(terms)


def spreads_of(pod: Mapping[str, Any]) -> tuple[Spread, ...]:
    """The hard spread constraints of a pod."""
    spreads = []
    labels = pod["metadata"].get("labels") or {}
    for entry in pod["spec"].get("topologySpreadConstraints") or ():
        if entry.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            selector = _with_keys(entry, pod)
            term = Term(frozenset({pod["metadata"]["namespace"]}), selector, entry["topologyKey"])
            spreads.append(Spread(term, entry["maxSkew"], selector.matches(labels)))
    return tuple(spreads)


@dataclass(frozen=True, slots=True)
class NeighbourRules:
    """What a pod asks of the pods beside it; false when it asks for nothing."""

    apart: tuple[Term, ...] = ()
    together: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apart or self.together or self.spread)


def neighbour_rules_of(pod: Mapping[str, Any]) -> NeighbourRules:
    affinity = pod["spec"].get("affinity") or {}
    return NeighbourRules(
        apart=terms_of(pod, affinity.get("podAntiAffinity")),
        together=terms_of(pod, affinity.get("podAffinity")),
        spread=spreads_of(pod),
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one pod with their live counts per topology value."""

    others: list[tuple[str, collections.Counter[str]]]
    apart: list[tuple[str, collections.Counter[str]]]
    together: list[tuple[str, collections.Counter[str], bool]]
    spread: list[tuple[Spread, collections.Counter[str], frozenset[str]]]

    def refusal(self, node: Node) -> tuple[str, bool] | None:
        """(reason, whether more pods can only make it worse) when the pod may not be beside what
        runs there."""
        for rule, counts, domains in self.spread:
            value = node.labels.get(rule.term.topology_key)
            if value is None:
                return f"{NOT_SPREAD} (missing required label)", True
            lowest = min((counts[other] for other in domains), default=0)
            if counts[value] + rule.matches_itself - lowest > rule.max_skew:
                return NOT_SPREAD, False
        for key, counts in self.others:
            if counts[node.labels.get(key, "")] > 0:
                return OTHERS_APART, True
        for key, counts, matches_itself in self.together:
            first_of_its_kind = matches_itself and not any(counts.values())
            if key not in node.labels or not (counts[node.labels[key]] > 0 or first_of_its_kind):
                return NOT_TOGETHER, False
        for key, counts in self.apart:
            if key in node.labels and counts[node.labels[key]] > 0:
                return NOT_APART, True
        return None


@dataclass(slots=True, eq=False)
class _Counts:
    matching: collections.Counter[str] = field(default_factory=collections.Counter)
    having: collections.Counter[str] = field(default_factory=collections.Counter)
    """Pods that have the term as an anti-affinity rule of their own."""


class Neighbours:
    """The counts of one cluster. A listener of pods; register before the node index, so that a
    pod being bound is not yet among those of its node."""

    def __init__(self, nodes: NodeIndex, pods: PodIndex) -> None:
        self._nodes = nodes
        self._pods = pods
        self._counts: dict[Term, _Counts] = {}
        self._by_label: dict[tuple[str, str], list[Term]] = {}
        self._unlabelled: list[Term] = []
        self._placed: dict[Key, list[tuple[collections.Counter[str], str]]] = {}

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if not self._counts and (new is None or "affinity" not in new.obj["spec"]):
            return
        held = old is not None and bool(old.node) and not old.finished
        holds = new is not None and bool(new.node) and not new.finished
        if held and old is not None and not holds:
            for counter, value in self._placed.pop(old.key, ()):
                counter[value] -= 1
        elif holds and not held and new is not None:
            self._place(new)

    def rules(
        self, pod: Pod, wanted: NeighbourRules, domains: Mapping[str, frozenset[str]]
    ) -> "Rules | None":
        """What placing this pod must respect, or None when that is nothing.

        `wanted`: its own rules; `domains`: the values each spread key may take.
        """
        others = [
            (term.topology_key, self._counts[term].having)
            for term in self._matching(pod)
            if any(self._counts[term].having.values())
        ]
        if not (others or wanted):
            return None
        return Rules(
            others=others,
            apart=[(term.topology_key, self._counts_of(term).matching) for term in wanted.apart],
            together=[
                (term.topology_key, self._counts_of(term).matching, term.matches(pod))
                for term in wanted.together
            ],
            spread=[
                (
                    rule,
                    self._counts_of(rule.term).matching,
                    domains.get(rule.term.topology_key, frozenset()),
                )
                for rule in wanted.spread
            ],
        )

    def _place(self, pod: Pod) -> None:
        node = self._nodes.by_name.get(pod.node)
        if node is None:
            return
        entries: list[tuple[collections.Counter[str], str]] = []
        affinity = pod.obj["spec"].get("affinity") or {}
        for term in terms_of(pod.obj, affinity.get("podAntiAffinity")):
            counts = self._counts_of(term)
            value = node.labels.get(term.topology_key)
            if value is not None:
                entries.append((counts.having, value))
        for term in self._matching(pod):
            value = node.labels.get(term.topology_key)
            if value is not None:
                entries.append((self._counts[term].matching, value))
        if entries:
            for counter, value in entries:
                counter[value] += 1
            self._placed[pod.key] = self._placed.get(pod.key, []) + entries

    def _matching(self, pod: Pod) -> Iterator[Term]:
        for pair in pod.labels.items():
            for term in self._by_label.get(pair, ()):
                if term.matches(pod):
                    yield term
        for term in self._unlabelled:
            if term.matches(pod):
                yield term

    def _counts_of(self, term: Term) -> _Counts:
        counts = self._counts.get(term)
        if counts is not None:
            return counts
        counts = self._counts[term] = _Counts()
        if term.selector.match_labels:
            self._by_label.setdefault(term.selector.match_labels[0], []).append(term)
        else:
            self._unlabelled.append(term)
        for pod in self._pods.by_key.values():  # once per distinct rule
            node = self._nodes.by_name.get(pod.node) if pod.node and not pod.finished else None
            value = node.labels.get(term.topology_key) if node is not None else None
            if (
                value is not None
                and pod.key in self._nodes.by_name[pod.node].pods
                and term.matches(pod)
            ):
                counts.matching[value] += 1
                self._placed.setdefault(pod.key, []).append((counts.matching, value))
        return counts


def _with_keys(entry: Mapping[str, Any], pod: Mapping[str, Any]) -> LabelSelector:
    """The selector of a rule, narrowed by matchLabelKeys to pods that agree with this one."""
    selector = selectors.from_dict(entry.get("labelSelector"))
    labels = pod["metadata"].get("labels") or {}
    pairs = {key: labels[key] for key in entry.get("matchLabelKeys") or () if key in labels}
    if not pairs:
        return selector
    return LabelSelector(
        tuple(sorted({**dict(selector.match_labels), **pairs}.items())), selector.requirements
    )
