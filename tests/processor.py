"""What a unit test may cost: so much processor time of its own process, which a loaded machine does
not change.
"""

import time
from collections.abc import Generator

import pytest

UNIT_S = 5.0
"""Seconds of processor time for one test below tests/unit, without its fixtures."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fails a unit test that has used more, and says so; one that fails anyway tells its own
    reason.
    """
    begun_s = time.process_time()
    yield
    spent_s = time.process_time() - begun_s
    unit = item.config.rootpath / "tests" / "unit"
    if spent_s > UNIT_S and item.path.is_relative_to(unit):
        pytest.fail(
            f"This test used {spent_s:.1f} s of processor time; a unit test has {UNIT_S:g} s.",
            pytrace=False,
        )
