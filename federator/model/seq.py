"""`seq`: one number that rises with every decision, whoever leads.

The leader's term sits above the counter, so a leader of the past can never produce a higher one. API servers refuse a
slice whose seq falls (a CEL transition rule), which is the fence that needs no clock.
"""

COUNTER_BITS = 32


def make(term: int, counter: int) -> int:
    """The seq of the `counter`-th decision in leader term `term`; both start at 1."""
    if term < 0 or counter < 0 or counter >> COUNTER_BITS:
        raise ValueError(f"seq needs 0 <= counter < 2^{COUNTER_BITS} and term >= 0, not term {term}, counter {counter}")
    return (term << COUNTER_BITS) | counter


def term(seq: int) -> int:
    return seq >> COUNTER_BITS


def counter(seq: int) -> int:
    return seq & ((1 << COUNTER_BITS) - 1)
