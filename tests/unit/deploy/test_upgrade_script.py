"""The script of docs/operating/upgrades.md, with programs of the test in place of `kubectl` and
`federator`: it is text for a reader's own pipeline."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT

PAGE = ROOT / "docs/operating/upgrades.md"
KUBECTL = '#!/bin/sh\necho "kubectl $*" >> "$LOG"\ncase "$*" in *"$BROKEN"*) exit 1;; esac\n'
FEDERATOR = '#!/bin/sh\necho "federator $*" >> "$LOG"\ncase "$*" in *"$FAILED"*) exit 1;; esac\n'


def upgraded(home: Path, *, failed: str = "none", broken: str = "none") -> tuple[int, list[str]]:
    """(exit code, commands) of an upgrade of `a`, then `b c`: the probes of cluster `failed` fail,
    and so do the calls of kubectl that name `broken`."""
    text = re.search(r"\n(#!/bin/sh -e\n.*?)\$ \./", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    for name, content in (
        ("upgrade", text[1]),
        ("kubectl", KUBECTL),
        ("federator", FEDERATOR),
    ):
        (home / name).write_text(content, "utf-8")
        (home / name).chmod(0o755)
    log = home / "log"
    path = f"{home}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [str(home / "upgrade"), "image:2", "a", "b c"],
        env={"PATH": path, "LOG": str(log), "FAILED": failed, "BROKEN": broken},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, log.read_text("utf-8").splitlines()


def test_each_stage_is_probed_after_its_clusters_are_upgraded(tmp_path: Path) -> None:
    code, commands = upgraded(tmp_path)

    probes = [at for at, each in enumerate(commands) if each.startswith("federator")]
    assert code == 0
    assert [commands[at] for at in probes] == [
        "federator probe run a --wait",
        "federator probe run b c --wait",
    ]
    assert all("--context a " in each for each in commands[: probes[0]])
    assert len(commands[: probes[0]]) == 2  # the image and the roll-out
    assert len(commands[probes[0] + 1 : probes[1]]) == 4


@pytest.mark.parametrize(
    ("failing", "last"),
    [({"failed": "run a"}, "federator probe run a --wait"), ({"broken": "status"}, "5m")],
    ids=["a probe", "a roll-out"],
)
def test_no_stage_begins_after_one_that_failed(
    tmp_path: Path, failing: dict[str, str], last: str
) -> None:
    code, commands = upgraded(tmp_path, **failing)

    assert code == 1
    assert commands[-1].endswith(last)
    assert not [each for each in commands if "--context b" in each]
