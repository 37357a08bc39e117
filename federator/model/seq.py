"""`seq`, the fencing token: one number that rises with every decision, whoever leads.

The leader's term sits above the counter, so a leader of the past can never produce a higher one. API servers refuse a
slice whose seq falls (a CEL transition rule), which is the fence that needs no clock.

Only elections and this host's own decisions move terms and counters. What a member holds moves at most the seq of the
shares in that member (`above`): whoever writes high numbers there uses up its own, and nobody else's.
"""

COUNTER_BITS = 32
COUNTER_MAX = (1 << COUNTER_BITS) - 1
MAX = 4_611_000_000_000_000_000
"""No seq is higher: a little less than 2^62, with few digits, because API servers keep a schema's `maximum` as a
double and would give another number back."""
TERM_MAX = (MAX >> COUNTER_BITS) - 1
SPARE = 1 << 20
"""A member whose numbers end so close to `MAX` can be given hardly any more."""


def make(term: int, counter: int) -> int:
    """The seq of the `counter`-th decision in leader term `term`; both start at 1."""
    if not 0 <= term <= TERM_MAX or not 0 <= counter <= COUNTER_MAX:
        raise ValueError(
            f"seq needs 0 <= counter < 2^{COUNTER_BITS} and 0 <= term <= {TERM_MAX}, not term {term}, counter {counter}"
        )
    return (term << COUNTER_BITS) | counter


def term(seq: int) -> int:
    return seq >> COUNTER_BITS


def counter(seq: int) -> int:
    return seq & COUNTER_MAX


def clamped(seq: int) -> int:
    """A number that somebody else wrote, within the bounds of a seq."""
    return min(max(seq, 0), MAX)


def above(mark: int, issued: int) -> int:
    """The seq of a share that a decision with seq `issued` changes, in a cluster whose numbers have come to `mark`:
    the decision's own unless the cluster's are higher. At the end of its numbers a cluster stays there: it goes on
    being served, without the fence."""
    return issued if mark < issued else min(mark + 1, MAX)


def used_up(mark: int) -> bool:
    """Whether a cluster whose numbers have come to `mark` can hardly be given any more."""
    return mark > MAX - SPARE
