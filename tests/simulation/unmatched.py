"""Mutations of where daemons go, what they are charged and what is told of them, each with the rule
that must catch it.
"""

from collections.abc import Mapping
from typing import Any

from federator.hub.cache.endings import Endings
from federator.kinds.daemon import ask
from federator.member.startup import StartupTaints
from federator.model.decision import Reason, Verdict
from federator.placement import everynode
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.status import fold
from tests.simulation import charges, daemonrules
from tests.simulation.mutations import Method, instead, together
from tests.simulation.running import Plant

FIRST = "a"
"""The one member whose nodes a status counts that leaves out the others."""


def _nobody_joins(original: Method) -> Method:
    def parts(given: Any, places: Any, mine: Mapping[str, Any], ledger: Any) -> list[Any]:
        found: list[Any] = original(given, places, mine, ledger)
        return [part for part in found if part.held is not None] if mine else found

    return parts


def _not_judged(original: Method) -> Method:
    def verdict(place: Any, part: Any, *rest: Any) -> Any:
        if part is None and place.refusal is None:
            return Verdict(place.view.name, Reason.NOT_SELECTED, "planted")
        return original(place, part, *rest)

    return verdict


def _stays_unchosen(original: Method) -> Method:
    def parts(given: Any, places: Any, mine: Mapping[str, Any], ledger: Any) -> list[Any]:
        found: list[Any] = original(given, places, mine, ledger)
        there = {part.name for part in found}
        found += [
            everynode._DaemonPart(
                places[name], holding, holding.nodes or 0, "no cluster is admitted"
            )
            for name, holding in mine.items()
            if name in places and name not in there and everynode._unselected(places[name])
        ]
        return sorted(found, key=lambda part: part.name)

    return parts


def _keeps_nothing(original: Method) -> Method:
    def keeps(place: Any) -> bool:
        return False

    return keeps


def _one_each(original: Method) -> Method:
    def nodes_admitting(self: Ledger, *rest: Any) -> int:
        found: int = original(self, *rest)
        return found if found == PENDING else min(found, 1)

    return nodes_admitting


def _nothing_beyond(original: Method) -> Method:
    def beyond(self: Endings, commitment: Any) -> tuple[()]:
        return ()

    return beyond


def _on_every_machine(original: Method) -> Method:
    def template(obj: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = original(obj)
        pod = {key: value for key, value in found["spec"].items() if key != "nodeSelector"}
        return {**found, "spec": pod}

    return template


def _only_of_the_first(original: Method) -> Method:
    def nodes(wanted: Any, seen: Any) -> Any:
        return original(wanted, seen) if seen.cluster == FIRST else None

    return nodes


def _never_looks(original: Method) -> Method:
    async def turn(self: StartupTaints, name: str) -> None:
        return

    return turn


UNMATCHED: Mapping[str, tuple[str, Plant]] = {
    "a cluster that comes to match gets no daemon": (
        daemonrules.WHERE,
        together(
            instead(everynode, "_parts", _nobody_joins),
            instead(everynode, "_verdict", _not_judged),
        ),
    ),
    "a daemon stays in clusters that are not chosen any more": (
        daemonrules.WHERE,
        instead(everynode, "_parts", _stays_unchosen),
    ),
    "a cordon takes a daemon down": (
        daemonrules.STAYS,
        instead(everynode, "_keeps", _keeps_nothing),
    ),
    "a daemon leaves its start-up taint": (
        daemonrules.STARTS,
        instead(StartupTaints, "_turn", _never_looks),
    ),
    "the pods of a daemon choose no machines": (
        daemonrules.NODES,
        instead(ask, "pod_template", _on_every_machine),
    ),
    "a daemon is charged one pod a cluster": (
        charges.NAME,
        together(
            instead(Ledger, "nodes_admitting", _one_each),
            instead(Endings, "beyond", _nothing_beyond),  # pods beyond the charge are charged, too
        ),
    ),
    "a daemon's status counts the nodes of one cluster": (
        daemonrules.TOLD,
        instead(fold, "_nodes", _only_of_the_first),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""
