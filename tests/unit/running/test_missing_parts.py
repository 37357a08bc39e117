"""A real part that cannot be had: its tests are skipped with the reason, or fail where it is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.conftest import control_plane
"""
TESTS = """
def test_served(control_plane):
    raise AssertionError("there is no server")

def test_alone():
    pass
"""


@pytest.mark.parametrize(
    ("required", "status", "told"),
    [("", 0, "1 passed, 1 skipped"), ("1", 1, "1 passed, 1 error")],
    ids=["skipped", "required"],
)
def test_without_the_control_plane(
    required: str, status: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_these.py").write_text(TESTS)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FEDERATOR_CACHE": str(tmp_path / "cache"),
        "FEDERATOR_REQUIRE_REAL": required,
    }

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly", "."],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == status, run.stdout
    assert told in run.stdout
    assert "run `make kube`" in run.stdout
