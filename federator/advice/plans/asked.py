"""Plans as the leader's query port asks for them: edits by their names in, a document out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.advice.drills import Each
from federator.advice.plans import document, plan
from federator.advice.plans.edits import Edits, Unplanned
from federator.advice.trials import Stop
from federator.hub.placing.offline import Situation
from federator.model.names import WorkloadKey

LOSSES_MAX: Final = 2000
"""With more workloads the leader does not compare losses: that takes as long as two drills."""
_NAMED = re.compile(r"\b[A-Z][A-Za-z]+/[a-z0-9][-a-z0-9]*/[a-z0-9][-.a-z0-9]*")
"""A workload as messages name it."""


def answer(
    situation: Situation, asked: Mapping[str, Any], spaces: frozenset[str] | None, stop: Stop
) -> dict[str, Any]:
    """The document of a plan. `asked`: as `hub.query.planning` reads it. `spaces`: namespaces with
    workloads that are shown; None for an operator: then all are shown. Raises `Unplanned`, and
    `trials.Stopped` once `stop` returns True."""
    edits = edits_of(situation, asked)
    losses = bool(asked["losses"]) and spaces is None
    few = len(situation.records) <= LOSSES_MAX
    made = plan.plan(situation, edits, losses=losses and few, stop=stop)

    def see(key: WorkloadKey) -> bool:
        return spaces is None or key.namespace in spaces

    shown = document.of(made, see=see, operator=spaces is None)
    shown["verdict"] = int(made.verdict())
    if losses and not few:
        shown["warnings"].append(
            f"the losses of clusters are not compared for more than {LOSSES_MAX} workloads; plan on"
            " a dump (--dump) for that"
        )
    if spaces is not None:
        shown["refused"] = [_without_others(each, spaces) for each in shown["refused"]]
        for row in shown["workloads"]:
            if "message" in row:
                row["message"] = _without_others(row["message"], spaces)
    return shown


def document_of(situation: Situation, asked: Mapping[str, Any], each: Each) -> dict[str, Any]:
    """The document for a caller that has all the data, as on a dump. `each`: as in
    `drills`. Raises `Unplanned`."""
    losses = bool(asked["losses"])
    made = plan.plan(situation, edits_of(situation, asked), losses=losses, each=each)
    return {**document.of(made), "verdict": int(made.verdict())}


def edits_of(situation: Situation, asked: Mapping[str, Any]) -> Edits:
    """The edits by their names. Raises `Unplanned`."""
    lost, partly = clusters(situation, asked["lost"])
    return Edits(
        tuple(asked["applied"]),
        tuple(asked["deleted"]),
        lost,
        tuple((WorkloadKey(*which), count) for which, count in asked["scaled"]),
        partly,
    )


def clusters(situation: Situation, texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clusters that are lost by all `--lose` together, and those that are in part: a name, or
    KEY=VALUE for a domain. A cluster that lies in several domains of a key is lost when all of them
    are. Raises `Unplanned` when no cluster lies in a domain, or none is lost with it."""
    lost, partly = list[str](), list[str]()
    views = situation.snapshot.clusters
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            lost.append(text)
            continue
        values = {other.partition("=")[2] for other in texts if other.startswith(f"{key}=")}
        lying = {name: view.domains(key) for name, view in views.items()}
        there = [name for name, where in lying.items() if value in where]
        if not there:
            known = sorted({domain for where in lying.values() for domain in where})
            listed = ", ".join(known[:10]) or "no cluster with this label"
            raise Unplanned(f"--lose: no cluster has the label {text}; there is {listed}")
        whole = [name for name in there if values.issuperset(lying[name])]
        if not whole:
            also = sorted({domain for name in there for domain in lying[name]} - values)
            raise Unplanned(
                f"--lose: {', '.join(there)} also in {key} {', '.join(also)} (spec.topology), so"
                f" the loss of {text} loses no cluster; lose these domains too, or the clusters"
                " by name"
            )
        lost += whole
        partly += [name for name in there if name not in whole]
    return tuple(dict.fromkeys(lost)), tuple(dict.fromkeys(partly))


def _without_others(message: str, spaces: frozenset[str]) -> str:
    """The message without the names of workloads in other namespaces."""

    def hidden(match: re.Match[str]) -> str:
        return match[0] if match[0].split("/")[1] in spaces else document.OTHERS

    return _NAMED.sub(hidden, message)
