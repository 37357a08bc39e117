"""Whether the decision in force of a workload stands, as a plan sees it. Pure.

A plan knows what the host and the reports say. What only the leading hub hears (`scheduling.due`)
is taken to be as in a decision that stands.
"""

from collections.abc import MutableMapping
from typing import Any

from federator.hub.records.decisions import Record
from federator.model.ask import Ask
from federator.model.decision import REFUSALS, Reason
from federator.model.fleet import FleetSnapshot, copies_of
from federator.placement import inputs
from federator.placement.selection.leaving import everywhere
from federator.scheduling.due import Comparison


def compared(
    snapshot: FleetSnapshot,
    ask: Ask,
    record: Record | None,
    memo: MutableMapping[Any, Any],
    *,
    refused: bool,
    inadmissible: bool = False,
) -> Comparison:
    """The decision beside what is asked for now. `memo`: one per snapshot. `refused`: the workload
    may not run as it is written. `inadmissible`: it waits in the queue."""
    if record is None:
        return Comparison(decided=False)
    terms, clusters = record.terms, snapshot.clusters
    present = inputs.inputs_hash(ask, snapshot, memo)
    return Comparison(
        same_inputs=inputs.unchanged(record.facts.inputs_hash, present, ask, snapshot, memo),
        inadmissible=inadmissible,
        chosen=terms.reason is Reason.CHOSEN and not (terms.held_back or terms.held_profile),
        for_all=everywhere(ask) or ask.shape.every_node,
        moving=terms.to_move > 0 or record.rebalance != terms.rebalanced,
        refused=refused or terms.reason in REFUSALS,
        leaves=any(
            copies_of(portion) > 0
            and (view := clusters.get(portion.cluster)) is not None
            and view.empties
            for portion in record.facts.portions
        ),
        vacated=any(portion.cluster not in clusters for portion in record.facts.portions),
        frees=frees(record, ask),
    )


def frees(record: Record, ask: Ask) -> bool:
    """Whether more is charged than this ask, once its roll-out has ended."""
    charged = record.terms.charged
    return charged is not None and (
        bool(charged.former) or charged.shape.requests != ask.shape.requests
    )
