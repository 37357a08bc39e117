"""What a unit test may cost: five seconds of processor time of its own process.

Processors differ, and share their caches with whatever else runs: a test that took four seconds on
one machine took nine on another. Only several times the aim therefore fails; the ten slowest are
printed at the end of each run.
"""

import time
from collections.abc import Generator

import pytest

from tests.examples import LEAST

UNIT_S = 5.0
"""Seconds of processor time for one test below tests/unit, without its fixtures: the aim."""
SLOW = 4
"""So many times the aim fails."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fails a unit test that has used far more, and says so; one that fails anyway tells its own
    reason. Not where properties are tried with many examples (FEDERATOR_EXAMPLES).
    """
    begun_s = time.process_time()
    yield
    spent_s = time.process_time() - begun_s
    unit = item.config.rootpath / "tests" / "unit"
    if not LEAST and spent_s > SLOW * UNIT_S and item.path.is_relative_to(unit):
        pytest.fail(
            f"This test used {spent_s:.1f} s of processor time; a unit test has {UNIT_S:g} s.",
            pytrace=False,
        )
