"""A unit test that uses several times the processor time it has fails, and says how much it used."""

import pytest

from tests import processor

pytest_plugins = ["pytester"]

SPENDS = """
import time

def test_it():
    end = time.process_time() + {spends_s}
    while time.process_time() < end:
        pass
"""


@pytest.mark.parametrize(
    ("folder", "spends_s", "fails"),
    [("tests/unit", 0.2, True), ("tests/unit", 0.0, False), ("tests/e2e", 0.2, False)],
)
def test_only_a_unit_test_that_uses_more_than_its_time_fails(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    spends_s: float,
    fails: bool,
) -> None:
    path = pytester.mkdir("tests") / folder.removeprefix("tests/") / "test_made.py"
    path.parent.mkdir()
    path.write_text(SPENDS.format(spends_s=spends_s), encoding="utf-8")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(processor, "UNIT_S", 0.025)
        done = pytester.inline_run("-p", "no:asyncio", str(path), plugins=[processor])
    done.assertoutcome(passed=int(not fails), failed=int(fails))
    if fails:
        (report,) = [
            report for report in done.getreports("pytest_runtest_logreport") if report.failed
        ]
        assert "a unit test has 0.025 s" in str(report.longrepr)
