"""Two simulations that are compared are measured over the same time."""

from dataclasses import dataclass, replace

from federator.model.errors import FieldError
from federator.simulate.inputs import Inputs
from federator.simulate.report import amounts


@dataclass(frozen=True, slots=True)
class Both:
    made: Inputs
    other: Inputs
    note: str
    """Says which time it is where one of them has another alone; "" where both have the same."""


def of_both(made: Inputs, other: Inputs) -> Both:
    """Both, measured over the time that both have: from the later warm-up to the earlier horizon.
    If one has an end, both end there. Raises FieldError where they have no time in common."""
    begin_s = max(made.warm_up_s, other.warm_up_s)
    end_s = min(made.horizon_s, other.horizon_s)
    if end_s <= begin_s:
        message = (
            f"the two have no time in common: one is measured from {amounts.length(begin_s)} on, "
            f"one until {amounts.length(end_s)}"
        )
        raise FieldError("--compare", message)
    alone = [(each.warm_up_s, each.horizon_s) for each in (made, other)]
    when = f"from {amounts.length(begin_s)} to {amounts.length(end_s)}"
    last_s = None if made.end_s is None and other.end_s is None else end_s
    return Both(
        replace(made, warm_up_s=begin_s, window_s=end_s, end_s=last_s),
        replace(other, warm_up_s=begin_s, window_s=end_s, end_s=last_s),
        ""
        if alone == [(begin_s, end_s)] * 2
        else f"both are measured {when}, the time that both have.",
    )
