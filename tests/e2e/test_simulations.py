"""Every command that docs/using/simulate.md and simulations/README.md show is run from a copy of
`simulations/`, and prints what is shown. Those on real traces need FEDERATOR_DATA, and are skipped
by name without it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.e2e import printed
from tests.e2e.printed import Shown
from tests.forkserver import starting
from tests.house.sources import ROOT

pytestmark = [pytest.mark.e2e]

PAGES = (ROOT / "docs/using/simulate.md", ROOT / "simulations/README.md")
SHOWN = [one for one in printed.shown(PAGES) if one.prints is not None]
COMMAND_S = 300.0
REAL = "FEDERATOR_DATA"


SOAK = ("simulations/philly.yaml", "for part in ", "federator size", "--seeds 16", "kind: Quota")
"""Four weeks of a real trace take half a minute of a core; a whole trace at eleven capacities under
two policies takes a minute, at twenty capacities with the hub's cycle five; 32 rehearsals take two;
a search for a guarantee takes one.
"""
LONG = ("simulations/quota-rehearsal.yaml", "--seeds 8")
"""Sixteen runs take 10 to 20 CPU-s."""

POOLS = ("--seeds", "question=", "federator size")
"""Run processes of their own, for which a command of the fork server has lost its descriptors."""


def _real(one: Shown) -> bool:
    return REAL in one.text or SOAK[0] in one.text


def _marks(one: Shown) -> list[pytest.MarkDecorator]:
    soak = any(part in one.text for part in SOAK)
    return [pytest.mark.soak] * soak + [pytest.mark.long] * any(part in one.text for part in LONG)


def _cases() -> list[ParameterSet]:
    return [pytest.param(one, id=one.where, marks=_marks(one)) for one in SHOWN]


def test_there_are_commands_to_run() -> None:
    assert len([one for one in SHOWN if not _real(one)]) >= 4
    assert len([one for one in SHOWN if _real(one)]) >= 3


@pytest.mark.parametrize("one", _cases())
@pytest.mark.timeout(400)
def test_a_command_prints_what_is_shown(one: Shown, tmp_path: Path) -> None:
    data = Path(os.environ.get(REAL, ROOT / "../shared/data")).resolve()
    if _real(one) and not data.is_dir():
        pytest.skip(
            f"the real input is not there; set {REAL} to the folder that holds it: {one.text}"
        )
    shutil.copytree(ROOT / "simulations", tmp_path / "simulations")
    forked = not any(part in one.text for part in POOLS)
    programs = [str(starting.server().program())] if forked else []
    path = os.pathsep.join(
        [*programs, str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )
    done = subprocess.run(
        ["bash", "-c", one.text],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), REAL: str(data)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:]
    assert one.prints is not None
    assert printed.difference(one.prints, done.stdout) == "", one.where
