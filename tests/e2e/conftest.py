"""The tests of a file share what they start: one process runs them, unless they are in a group that
shares servers.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser import chromium, devtools
from tests.browser.devtools import Page


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of Chromium. Skips where there is none."""
    program = chromium.find()
    if program is None:
        why = "no Chromium on PATH: run `make browser`"
        if os.environ.get("FEDERATOR_REQUIRE_BROWSER") == "1":
            pytest.fail(why)
        pytest.skip(why)
    async with devtools.browser(program) as opened:
        yield opened
