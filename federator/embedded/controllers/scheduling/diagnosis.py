"""Why no node takes a pod, in the words of the real scheduler: `0/3 nodes are available: ...`.

Called once per refused shape, never per pod. Pure.
"""

import collections
from collections.abc import Mapping
from typing import Any, Final

from federator.embedded.controllers.nodes import NodeIndex
from federator.embedded.controllers.scheduling import fit, neighbours
from federator.embedded.controllers.scheduling.fit import Shape
from federator.embedded.controllers.scheduling.neighbours import Rules

_NO_HELP: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"


def explain(
    shape: Shape, rules: Rules | None, nodes: NodeIndex, spec: Mapping[str, Any], *, preempted: bool
) -> str:
    """The message of the PodScheduled condition: counts per reason over all nodes, then what
    preemption could do.

    `preempted`: it did help, others make way; then nothing is said about it.
    """
    there = nodes.by_name.values()
    if not there:
        return "no nodes available to schedule pods"
    reasons: collections.Counter[str] = collections.Counter()
    preemption: collections.Counter[str] = collections.Counter()
    for node in there:
        fixed = fit.refusal(shape, node)
        if fixed is not None:
            reasons[fixed] += 1
            preemption[_NO_HELP] += 1
            continue
        short = fit.shortages(shape, node)
        if short:
            reasons.update(short)
            preemption[_NO_VICTIMS] += 1
            continue
        refused = rules.refusal(node) if rules is not None else None
        if refused is not None:
            reasons[refused[0]] += 1
            hopeless = refused[0] == neighbours.NOT_TOGETHER or refused[0].endswith(
                "(missing required label)"
            )
            preemption[_NO_HELP if hopeless else _NO_VICTIMS] += 1
    head = f"0/{len(there)} nodes are available:"
    if preempted:
        return f"{head} {_listed(reasons)}."
    if spec.get("preemptionPolicy") == "Never":
        return f"{head} {_listed(reasons)}. preemption: not eligible due to preemptionPolicy=Never."
    return f"{head} {_listed(reasons)}. preemption: {head} {_listed(preemption)}."


def _listed(counts: collections.Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
