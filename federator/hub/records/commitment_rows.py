"""Commitments as the hub keeps them: 24 bytes and three references each.

A hub has one for each workload, and most differ only in key, seq and times.
"""

from collections.abc import Hashable
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from federator.api.placement.decisionfacts import shared_portions
from federator.model.decision import Share, apart, together
from federator.model.fleet import Commitment, Holding
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

    layout = Struct("<ddq")
    shared = 3

    def __init__(self) -> None:
        self._forms: dict[Hashable, tuple[Any, ...]] = {}

    def __reduce__(self) -> tuple[type["CommitmentPacking"], tuple[()]]:
        return CommitmentPacking, ()  # in another process other shapes have these ids

    def pack(self, value: Commitment) -> tuple[bytes, tuple[Any, ...]]:
        """All of them fit."""
        began_s = 0.0 if value.began_s is None else value.began_s
        portions, seq = _apart(value.holdings)
        try:
            figures = self.layout.pack(value.created_s, began_s, seq)
        except StructError:  # no hub issues a seq of more than 64 bits
            figures = self.layout.pack(value.created_s, began_s, 0)
            portions = value.holdings
        return figures, (self._form(value), value.key, portions)

    def unpack(self, key: str, figures: tuple[Any, ...], shared: list[Any]) -> Commitment:
        """The commitment of the workload with this uid."""
        created_s, began_s, seq = figures
        form, workload, portions = shared
        project, namespace, tier, shape, priority, whole, run_s, former, began = form
        return _commitment(
            key,
            workload,
            project,
            namespace,
            tier,
            shape,
            together(portions, seq),
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


def _apart(
    holdings: tuple[Share | Holding, ...],
) -> tuple[tuple[Share | Holding, ...], int]:
    """Shares without their seq, one copy of equal ones, and that seq; others as they are."""
    shares = tuple(held for held in holdings if isinstance(held, Share))
    if len(shares) < len(holdings):
        return holdings, 0
    portions, seq = apart(shares)
    return shared_portions(portions), seq
