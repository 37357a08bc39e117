"""Ports that tests ask for: nothing else on the machine gets them in the meantime."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ports
from tests.running.ports import free_port

DISCARD = 9
"""A port that no test is given."""
PROGRAM = """
import sys
from tests.running import ports
print([ports._lock(int(number)) for number in sys.argv[1:]])
"""


def test_a_port_is_given_once_in_a_process_and_never_of_the_kernels_range() -> None:
    given = {free_port() for _ in range(50)}
    assert len(given) == 50
    kernel = int(ports.RANGE.read_text().split()[0])
    assert kernel <= ports.FIRST or max(given) < kernel


def test_another_process_is_not_given_the_port_although_nothing_listens_yet() -> None:
    mine = free_port()
    command = [sys.executable, "-c", PROGRAM, str(mine), str(DISCARD)]
    printed = subprocess.check_output(command, cwd=Path(__file__).parents[3], text=True, timeout=60)
    assert printed == "[False, True]\n"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.0.2"])
def test_a_port_at_which_something_listens_on_any_address_is_not_given(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((address, free_port())) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(ports, "_held", ports._held - {taken})
        assert not ports._is_free(taken)
        assert free_port() != taken
