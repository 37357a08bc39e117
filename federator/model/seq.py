"""`seq`, the fencing token: a number that rises with every decision, whichever hub leads.

The leader's term is above the counter, so a former leader cannot produce a higher number. API
servers refuse a lower seq for a slice (a CEL transition rule), which fences without a clock.

Only elections and this host's own decisions raise terms and counters. Numbers in a member raise
only the seq of shares in that member (`above`): high numbers written there use up that member's
range and no other.
"""

COUNTER_BITS = 32
COUNTER_MAX = (1 << COUNTER_BITS) - 1
MAX = 4_611_000_000_000_000_000
"""The highest seq: slightly less than 2^62 and with few digits, because API servers keep a schema's
`maximum` as a double and would return another number."""
TERM_MAX = (MAX >> COUNTER_BITS) - 1
SPARE = 1 << 20
"""A member with numbers this close to `MAX` can be given hardly any more."""


def make(term: int, counter: int) -> int:
    """The seq of the `counter`-th decision in leader term `term`; both start at 1."""
    if not 0 <= term <= TERM_MAX or not 0 <= counter <= COUNTER_MAX:
        raise ValueError(
            f"seq needs 0 <= counter < 2^{COUNTER_BITS} and 0 <= term <= {TERM_MAX}, not term"
            f" {term}, counter {counter}"
        )
    return (term << COUNTER_BITS) | counter


def term(seq: int) -> int:
    return seq >> COUNTER_BITS


def counter(seq: int) -> int:
    return seq & COUNTER_MAX


def clamped(seq: int) -> int:
    """A number written by another client, forced into the bounds of a seq."""
    return min(max(seq, 0), MAX)


def above(mark: int, issued: int) -> int:
    """The seq of a share changed by a decision with seq `issued`, in a cluster with `mark` as its
    highest number: the decision's own, unless the cluster's are higher. At `MAX` it stays there:
    the cluster is still served, but without the fence."""
    return issued if mark < issued else min(mark + 1, MAX)


def used_up(mark: int) -> bool:
    """Whether a cluster with `mark` as its highest number can hardly be given any more."""
    return mark > MAX - SPARE
