"""Which holders leave so that one workload gets its quota, by guarantee and priority.

Candidates are taken in this order: those of accounts over which the preemptor stands nearer to the
guarantee that it asks for, then those of other accounts that borrow, then those of its own account;
within each the lowest priority, then the newest. From another account only while it holds more than
its guarantee. What is not needed in the end is given back, the last taken first. The rules are
those of Kueue's classical preemption, for copies instead of whole workloads. For a workload that
has room in certain clusters only, the victims there leave first, in the same order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from federator.model.accounts import Preemption, Take
from federator.scheduling.admission.holders import (
    Holder,
    Preemptor,
    ShortClusters,
    Trial,
    Victim,
    Why,
    least,
    may,
    order,
    uses_any,
)
from federator.scheduling.admission.tree_usage import TreeUsage

Held = Mapping[str, Sequence[Holder]]
"""Leaf -> what it holds."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    holder: Holder
    why: Why
    above: str | None
    """The lowest account above both; None for the preemptor's own."""
    no_borrowing: bool = False
    """Only when the preemptor does not borrow in the end."""


def victims(
    preemptor: Preemptor,
    usage: TreeUsage,
    held: Held,
    rules: Preemption,
    place: Callable[[], ShortClusters] | None = None,
) -> tuple[Victim, ...] | None:
    """The least that has to leave so that the preemptor fits; None when nothing that may leave
    helps. The usage is unchanged. `place`: where it lacks room, if it matters where they are."""
    near, other = _others(preemptor, usage, held, rules)
    own = [
        _Candidate(holder, Why.WITHIN, None)
        for holder in held.get(preemptor.node, ())
        if uses_any(holder, preemptor.short) and may(rules.within, preemptor, holder)
    ]
    candidates = [
        candidate
        # Kueue's order: what is owed to the preemptor first, its own account's work last.
        for group in (near, other, own)
        for candidate in sorted(group, key=lambda entry: order(entry.holder))
    ]
    enough: tuple[Victim, ...] | None = None
    for borrowing in _attempts(preemptor, usage, rules, near, other):
        where = place() if place is not None else None
        leaving = _attempt(preemptor, usage, candidates, where, borrowing=borrowing)
        enough = enough if leaving is None else leaving
        if leaving is not None and (
            borrowing or any(victim.holder.node != preemptor.node for victim in leaving)
        ):
            break  # else fewer of its own account may be enough, where it borrows what is idle
    return enough


def _attempts(
    preemptor: Preemptor,
    usage: TreeUsage,
    rules: Preemption,
    near: Sequence[_Candidate],
    other: Sequence[_Candidate],
) -> tuple[bool, ...]:
    """Whether the preemptor may borrow in the end, in the order in which both are tried: without
    borrowing more may leave."""
    forbidden = rules.while_borrowing is Take.NEVER
    below = all(usage.excess(preemptor.node, cell) < 0 for cell in preemptor.short)
    if not (near or other) or (forbidden and not below):
        return (True,)
    # The attempts of Kueue, in its order: where the preemptor is nearer to a guarantee, or
    # may preempt while it borrows, borrowing is tried first.
    return (False, True) if forbidden and not near else (True, False)


def _attempt(
    preemptor: Preemptor,
    usage: TreeUsage,
    candidates: Sequence[_Candidate],
    place: ShortClusters | None,
    *,
    borrowing: bool,
) -> tuple[Victim, ...] | None:
    def fits() -> bool:
        if not borrowing and not _within(usage, preemptor.node, preemptor.needs, preemptor):
            return False
        return usage.fits(preemptor.node, preemptor.needs)

    trial = Trial(usage, fits)
    # First only copies with room of use too; quota alone decides only if these are too few.
    for where in (place, None) if place is not None else (None,):
        for candidate in candidates:
            if candidate.no_borrowing and borrowing:
                continue
            holder, most = candidate.holder, _most(candidate, preemptor, trial)
            if where is not None:
                most = min(most, where.useful(holder))
            if not most:
                continue
            enough = least(1, most, _enough(trial, holder))
            taken = most if enough is None else enough
            trial.take(holder, taken, candidate.why)
            if where is not None:
                where.leave(holder, taken)
            if enough is not None:
                return trial.fill_back()
    trial.undo()
    return None


def _enough(trial: Trial, holder: Holder) -> Callable[[int], bool]:
    return lambda copies: trial.tried(holder, -copies, trial.fits)


def _most(candidate: _Candidate, preemptor: Preemptor, trial: Trial) -> int:
    """How many of its copies may leave: of another account only as long as that, and every account
    between it and the one above both, holds more than its guarantee."""
    holder, usage = candidate.holder, trial.usage
    left = trial.left(holder)
    if candidate.above is None:
        return left
    path = usage.paths[holder.node]
    between = path[: path.index(candidate.above)]

    def over() -> bool:
        # An account between them that is within its guarantee protects all below it.
        return not any(usage.within(name, preemptor.short) for name in between)

    if not over():
        return 0
    first_kept = least(1, left, lambda copies: trial.tried(holder, -copies, lambda: not over()))
    return left if first_kept is None else first_kept


def _others(
    preemptor: Preemptor, usage: TreeUsage, held: Held, rules: Preemption
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates of other accounts: those over which the preemptor is nearer to the guarantee that
    it asks for, and the others."""
    near: list[_Candidate] = []
    other: list[_Candidate] = []
    path = usage.paths[preemptor.node]
    if rules.reclaim is Take.NEVER:
        return near, other
    nearer, left = _holds(usage, preemptor.node, preemptor.needs, preemptor)
    done = preemptor.node
    for above in path[1:]:
        for leaf in _borrowers(usage, above, done, preemptor):
            for holder in held.get(leaf, ()):
                if uses_any(holder, preemptor.short) and may(rules.reclaim, preemptor, holder):
                    candidate = _classified(holder, preemptor, rules, above, nearer=nearer)
                    (near if nearer else other).append(candidate)
        holds, left = _holds(usage, above, left, preemptor)
        # From here up the preemptor takes back what is its own, so later candidates are borrowers
        # from it.
        nearer, done = nearer or holds, above
    return near, other


def _classified(
    holder: Holder, preemptor: Preemptor, rules: Preemption, above: str, *, nearer: bool
) -> _Candidate:
    if nearer:
        return _Candidate(holder, Why.RECLAIM, above)
    # Kueue's maxPriorityThreshold: work above it is safe from preemptors that borrow.
    over = rules.threshold is not None and holder.priority > rules.threshold
    if rules.while_borrowing is Take.NEVER or holder.priority >= preemptor.priority or over:
        return _Candidate(holder, Why.RECLAIM, above, no_borrowing=True)
    return _Candidate(holder, Why.WHILE_BORROWING, above)


def _holds(
    usage: TreeUsage, node: str, needs: Mapping[str, int], preemptor: Preemptor
) -> tuple[bool, Mapping[str, int]]:
    """Whether the node's guarantee holds these amounts, and what its parent has to give of them."""
    left = {cell: amount - usage.kept_free(node, cell) for cell, amount in needs.items()}
    return _within(usage, node, needs, preemptor), left


def _within(usage: TreeUsage, node: str, needs: Mapping[str, int], preemptor: Preemptor) -> bool:
    """Whether the node's guarantee holds these amounts. Where there is enough and nobody is
    guaranteed anything, none is needed: a limit in one domain takes no guarantee over all away."""
    return not any(
        usage.excess(node, cell, amount) > 0
        for cell, amount in needs.items()
        if cell in preemptor.short or usage.promised(cell)
    )


def _borrowers(usage: TreeUsage, above: str, done: str, preemptor: Preemptor) -> Iterator[str]:
    """The leaves below an account that hold more than their guarantee, with those between, without
    the part that is done."""
    for child in usage.children[above]:
        # A child within its guarantee has borrowed nothing, even if accounts below it have from
        # each other.
        if child in (done, preemptor.node) or usage.within(child, preemptor.short):
            continue
        if usage.children[child]:
            yield from _borrowers(usage, child, done, preemptor)
        else:
            yield child
