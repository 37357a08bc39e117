"""Where tests find the shared case tables and real input, neither of which is committed.

`cases("quantity")` and `data("openb-8-clusters")` skip the calling test with a message when the
files are absent.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one table (FEDERATOR_CASES, default ../shared/cases)."""
    path = Path(os.environ.get("FEDERATOR_CASES", ROOT / "../shared/cases")) / f"{name}.json"
    if not path.is_file():
        pytest.skip(
            f"the case table {path.name} is not there; set FEDERATOR_CASES to the folder "
            "that holds it"
        )
    table: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return table


def data(name: str) -> Path:
    """One folder of real input (FEDERATOR_DATA, default ../shared/data)."""
    path = Path(os.environ.get("FEDERATOR_DATA", ROOT / "../shared/data")) / name
    if not path.is_dir():
        pytest.skip(
            f"the real input {name} is not there; set FEDERATOR_DATA to the folder that holds it"
        )
    return path


def files(name: str, pattern: str) -> list[Path]:
    """The files of one folder of cases (FEDERATOR_CASES), by name; none when it is absent."""
    return sorted(
        Path(os.environ.get("FEDERATOR_CASES", ROOT / "../shared/cases"), name).glob(pattern)
    )
