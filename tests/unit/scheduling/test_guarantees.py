"""In no batch does a workload within its guarantee wait while another account is admitted beyond its
own."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Ordering, QuotaAccount, Take
from federator.model.ask import Ask
from tests.examples import examples
from tests.unit.scheduling.quotaworlds import CPU, World, account, ask_of, play, worlds

ORDERED = st.sampled_from((None, Ordering.BORROW_LAST, Ordering.FAIR_SHARE))


def breaches(world: World) -> list[str]:
    """Workloads that wait within the guarantee of their account, in a batch in which another account
    was given copies beyond its own."""
    played, found = play(world.accounts, world.batches), []
    held: dict[str, int] = dict.fromkeys(world.guaranteed, 0)
    for made in played.made:
        given: dict[str, int] = dict.fromkeys(held, 0)
        waits: list[tuple[str, str, int]] = []
        for decided in made.decided:
            project, after = decided.after.project, decided.after.copies
            given[project] += after - (decided.before.copies if decided.before else 0)
            if decided.decision.shortfall:
                ask = decided.entry.ask
                least = ask.count - after if ask.whole or ask.policy.require_all else 1
                waits.append((project, ask.key.name, least))
        held = {project: copies + given[project] for project, copies in held.items()}
        beyond = {
            project
            for project, copies in held.items()
            if given[project] > 0 and copies * CPU > world.guaranteed[project]
        }
        found += [
            f"{name} waits for {least} while {sorted(beyond - {project})} borrow"
            for project, name, least in waits
            if (held[project] + least) * CPU <= world.guaranteed[project]
            and beyond - {project}
            and not world.strict(project)
        ]
    return found


@given(worlds(ORDERED, st.just(Take.NEVER)))
@examples(300)
def test_no_guarantee_waits_behind_a_borrower_of_its_batch(world: World) -> None:
    assert breaches(world) == []


BEHIND_A_BORROWER = (
    ask_of(0, "b", 1, shards=True, whole=True),
    ask_of(1, "a", 5, shards=True, whole=True),
    ask_of(2, "b", 3, shards=True, whole=True),
)
OVERTAKES_ITS_OWN = (
    ask_of(0, "a", 5, shards=True, whole=True),
    ask_of(1, "b", 6, shards=True, whole=True),
    ask_of(2, "b", 4, shards=True, whole=True),
    ask_of(3, "a", 2, shards=True, whole=True),
)


def tree(ordering: Ordering | None, **more: object) -> tuple[QuotaAccount, ...]:
    return (
        account("company", "", 6, ordering=ordering, **more),
        account("a", "company", 2),
        account("b", "company", 4),
        account("c", "company", 0),
    )


@pytest.mark.parametrize("ordering", [None, Ordering.BORROW_LAST, Ordering.FAIR_SHARE])
@pytest.mark.parametrize(
    ("batch", "expected"),
    [(BEHIND_A_BORROWER, {"a": 0, "b": 4}), (OVERTAKES_ITS_OWN, {"a": 2, "b": 4})],
)
def test_what_is_guaranteed_is_admitted_before_what_is_borrowed(
    ordering: Ordering | None, batch: Sequence[Ask], expected: dict[str, int]
) -> None:
    played = play(tree(ordering), [batch])
    gets = dict.fromkeys("ab", 0)
    for ask in batch:
        gets[ask.project] += played.holds(ask)
    assert gets == expected


def test_a_tree_that_states_only_guarantees_is_ordered() -> None:
    batch = (ask_of(0, "a", 5), ask_of(1, "b", 4))
    played = play(tree(None), [batch])
    assert [played.holds(ask) for ask in batch] == [2, 4]


def test_a_borrower_gets_what_is_left_when_the_guarantees_have_been_judged() -> None:
    batch = (ask_of(0, "b", 1), ask_of(1, "a", 4, shards=True, whole=True), ask_of(2, "b", 1))
    played = play(tree(None), [batch])
    assert [played.holds(ask) for ask in batch] == [1, 4, 1]


def test_priority_goes_before_guarantees_where_the_root_says_so() -> None:
    batch = (ask_of(0, "a", 5, priority=1), ask_of(1, "b", 4))
    played = play(tree(Ordering.PRIORITY), [batch])
    assert [played.holds(ask) for ask in batch] == [5, 0]


def test_no_running_copy_leaves_because_a_tree_is_ordered() -> None:
    batches = ((ask_of(0, "a", 5),), (ask_of(1, "b", 4),))
    played = play(tree(None), batches)
    assert [played.holds(*batch) for batch in batches] == [5, 1]
