"""The tests of a file share what they start: one process runs them, unless they are in a group that
shares servers.
"""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        inside = Path(__file__).parent in item.path.parents
        if inside and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
