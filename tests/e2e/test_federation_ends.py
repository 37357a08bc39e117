"""How the long-running commands begin and end: private files, nothing left behind, and a reason
when it goes wrong.
"""

import itertools
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.federations import FEDERATOR, until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("federation ends")]

END_S = 30.0


@contextmanager
def running(home: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a group of its own whose temporary files go under `home`."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TMPDIR": str(home)}
    # A script starts what it runs in the background with SIGINT ignored, which children inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = subprocess.Popen(
            [*FEDERATOR, *arguments],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def assert_no_process(group: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sandbox_is_private_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "sandbox"
    with running(tmp_path, "sandbox", "--clusters", "2", "--dir", str(directory)) as child:
        until((directory / "ready").exists, lambda: "the sandbox is not ready")
        files = sorted(directory.iterdir())
        assert [path.name for path in files] == [
            "host.kubeconfig",
            "ready",
            "us-east-1a.kubeconfig",
            "us-west-2a.kubeconfig",
        ]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        second = subprocess.run(
            [*FEDERATOR, "sandbox", "--dir", str(directory)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert second.returncode == 1
        assert f"another sandbox is using {directory}" in second.stderr
        assert (directory / "ready").exists()
        child.send_signal(number)
        assert child.wait(END_S) == 0
    assert_no_process(child.pid)
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_ends_by_itself_when_asked(tmp_path: Path) -> None:
    with running(
        tmp_path, "sandbox", "--clusters", "1", "--dir", str(tmp_path / "s"), "--once"
    ) as child:
        assert child.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_can_be_ended_at_any_time(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "demo") as child:
        shown = tmp_path / "federator-demo.kubeconfig"
        until(shown.exists, lambda: "the demo has no kubeconfig")
        assert stat.S_IMODE(shown.stat().st_mode) == 0o600
        child.send_signal(number)
        assert child.wait(END_S) == 128 + number
        _, err = child.communicate()
        assert "Traceback" not in err
    assert_no_process(child.pid)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_settles_ends_well(tmp_path: Path) -> None:
    with running(tmp_path, "demo", "--once") as child:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
    assert "Everything has settled" in out
    assert "Traceback" not in err
    assert "broke" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_late_says_why(tmp_path: Path) -> None:
    with running(tmp_path, "demo", "--once", "--deadline", "1") as child:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 1
    assert "error: not settled within 1 s: " in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_somebody_looks_at_goes_on_although_it_is_late(tmp_path: Path) -> None:
    """Whoever plays while it still settles must not lose it."""
    with running(tmp_path, "demo", "--deadline", "1") as child:
        assert child.stdout is not None
        lines = list(itertools.takewhile(lambda line: "Ctrl-C ends" not in line, child.stdout))
        assert any("It is not settled within 1 s: " in line for line in lines), lines
        assert (tmp_path / "federator-demo.kubeconfig").exists()
        child.send_signal(signal.SIGINT)
        assert child.wait(END_S) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("members: [{name: a, nodes: [{count: 0}]}]", "members.0.nodes.0.count"),
        ("members: [{name: a, nodes: [{count: 1}], colour: red}]", "members.0.colour"),
        (
            "members: [{name: a, nodes: [{count: 1}]}, {name: a, nodes: [{count: 1}]}]",
            "members.1.name",
        ),
        ("members: [", "fleet.yaml"),
    ],
)
def test_a_bad_fleet_file_is_refused_with_its_field(tmp_path: Path, text: str, told: str) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(text)
    with running(tmp_path, "sandbox", "--dir", str(tmp_path / "s"), "--fleet", str(fleet)) as child:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 1
    assert told in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [fleet]


def test_a_missing_fleet_file_is_told(tmp_path: Path) -> None:
    with running(
        tmp_path, "sandbox", "--dir", str(tmp_path / "s"), "--fleet", "nowhere.yaml"
    ) as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "nowhere.yaml" in err
