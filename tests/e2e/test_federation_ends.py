"""How the long-running commands begin and end: private files, nothing left behind, and a reason
when it goes wrong.
"""

import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.e2e.federations import FEDERATOR, until
from tests.forkserver import starting
from tests.forkserver.starting import Started

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("federation ends")]

END_S = 60.0


@dataclass(frozen=True, slots=True)
class Running:
    """A command in a group of its own, and the files that it prints to."""

    process: Started
    output: IO[bytes]
    errors: IO[bytes]

    @property
    def out(self) -> str:
        return _read(self.output)

    @property
    def err(self) -> str:
        return _read(self.errors)

    def wait(self, within_s: float = END_S) -> int:
        return self.process.wait(within_s)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


def _read(file: IO[bytes]) -> str:
    """All of it; the place where the command writes on stays where it is."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


@contextmanager
def running(home: Path, *arguments: str) -> Iterator[Running]:
    """Runs a command whose temporary files go under `home`."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TMPDIR": str(home)}
    with ExitStack() as stack:
        nothing = stack.enter_context(open(os.devnull, "rb"))
        output, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        child = starting.start(
            [*FEDERATOR, *arguments],
            (nothing, output, errors),
            environment=environment,
            directory=home,
            session=True,
        )
        try:
            yield Running(child, output, errors)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(END_S)


def assert_no_process(group: int) -> None:
    """The fork server lets a process go a moment after it has reported its end."""

    def none_is_left() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    until(none_is_left, lambda: "a process is left", 5)


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
        with running(tmp_path, "sandbox", "--dir", str(directory)) as second:
            assert second.wait(60) == 1
            assert f"another sandbox is using {directory}" in second.err
        assert (directory / "ready").exists()
        child.signal(number)
        assert child.wait() == 0
    assert_no_process(child.process.pid)
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
        child.signal(number)
        assert child.wait() == 128 + number
        assert "Traceback" not in child.err
    assert_no_process(child.process.pid)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_settles_ends_well(tmp_path: Path) -> None:
    with running(tmp_path, "demo", "--once") as child:
        assert child.wait(120) == 0, child.err
        assert "Everything has settled" in child.out
        assert "Traceback" not in child.err
        assert "broke" not in child.err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_late_says_why(tmp_path: Path) -> None:
    with running(tmp_path, "demo", "--once", "--deadline", "1") as child:
        assert child.wait(60) == 1
        assert "error: not settled within 1 s: " in child.err
        assert "Traceback" not in child.err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_somebody_looks_at_goes_on_although_it_is_late(tmp_path: Path) -> None:
    """Whoever plays while it still settles must not lose it."""
    with running(tmp_path, "demo", "--deadline", "1") as child:
        until(lambda: "Ctrl-C ends" in child.out, lambda: child.out + child.err)
        assert "It is not settled within 1 s: " in child.out.partition("Ctrl-C ends")[0]
        assert (tmp_path / "federator-demo.kubeconfig").exists()
        child.signal(signal.SIGINT)
        assert child.wait() == 0
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
        assert child.wait(60) == 1
        assert told in child.err
        assert "Traceback" not in child.err
    assert list(tmp_path.iterdir()) == [fleet]


def test_a_missing_fleet_file_is_told(tmp_path: Path) -> None:
    with running(
        tmp_path, "sandbox", "--dir", str(tmp_path / "s"), "--fleet", "nowhere.yaml"
    ) as child:
        assert child.wait(60) == 1
        assert "nowhere.yaml" in child.err
