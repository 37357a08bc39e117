"""One task for each of many things, on several processes."""

import os
import signal

import pytest

from federator.process import forking

PROCESSES = [1, 2, 3, 8]


@pytest.mark.parametrize("processes", PROCESSES)
def test_results_come_in_the_order_of_what_was_given(processes: int) -> None:
    offset = 7  # a task may use what is here

    def task(number: int) -> int:
        return number + offset

    for count in (0, 1, 2, 5):
        given = list(range(count))
        assert list(forking.each(task, given, processes=processes)) == [n + 7 for n in given]


def test_they_are_made_in_as_many_processes_as_are_allowed() -> None:
    def task(_: int) -> int:
        return os.getpid()

    assert len(set(forking.each(task, range(6), processes=3))) == 3
    assert set(forking.each(task, range(6), processes=1)) == {os.getpid()}


@pytest.mark.parametrize("processes", PROCESSES)
def test_what_a_task_raises_is_raised(processes: int) -> None:
    def task(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        list(forking.each(task, range(6), processes=processes))


def test_what_a_process_had_that_was_killed_is_done_here() -> None:
    here = os.getpid()

    def task(number: int) -> tuple[int, bool]:
        if number == 3 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return number, os.getpid() == here

    made = list(forking.each(task, range(4), processes=2))
    assert [number for number, _ in made] == [0, 1, 2, 3]
    assert dict(made)[3]
