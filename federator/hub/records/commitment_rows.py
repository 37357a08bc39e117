"""Commitments as the hub keeps them: sixteen bytes and three references each.

A hub has one for each workload, and most differ only in key, shares and times. The key and the
shares are those of the decision.
"""

from collections.abc import Hashable
from struct import Struct
from typing import Any, Final

from federator.model.fleet import Commitment
from federator.model.quickly import quickly
from federator.model.table import Packed, Table

_FORMS_MAX: Final = 4096
"""So many different forms are remembered, to be shared with later commitments."""
_commitment = quickly(Commitment)


def commitment_table() -> Table[str, Commitment]:
    """An empty table of commitments by the uid of the workload."""
    return Table(Packed(CommitmentPacking()))


class CommitmentPacking:
    """Packs the commitments of one table (`model.table.Packing`), each filed by its uid."""

    layout = Struct("<dd")
    shared = 3

    def __init__(self) -> None:
        self._forms: dict[Hashable, tuple[Any, ...]] = {}

    def pack(self, value: Commitment) -> tuple[bytes, tuple[Any, ...]]:
        """All of them fit."""
        began_s = value.began_s
        figures = self.layout.pack(value.created_s, 0.0 if began_s is None else began_s)
        return figures, (self._form(value), value.key, value.holdings)

    def unpack(self, key: str, figures: tuple[Any, ...], shared: list[Any]) -> Commitment:
        """The commitment of the workload with this uid."""
        created_s, began_s = figures
        form, workload, holdings = shared
        project, namespace, tier, shape, priority, whole, run_s, former, began = form
        return _commitment(
            key,
            workload,
            project,
            namespace,
            tier,
            shape,
            holdings,
            priority,
            created_s,
            whole,
            run_s,
            began_s if began else None,
            former,
        )

    def _form(self, value: Commitment) -> tuple[Any, ...]:
        """What it has in common with others, as one object for all of them."""
        form = (
            value.project,
            value.namespace,
            value.tier,
            value.shape,
            value.priority,
            value.whole,
            value.run_s,
            value.former,
            value.began_s is not None,
        )
        # hashing a shape takes longer than all the rest, and equal shapes are nearly always one;
        # a form keeps its shape, so no other has the same id meanwhile
        parts = (*form[:3], id(value.shape), *form[4:])
        if len(self._forms) > _FORMS_MAX:
            self._forms.clear()
        return self._forms.setdefault(parts, form)
