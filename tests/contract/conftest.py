"""Fixtures of the contract suite: the same tests on a real API server and on the embedded one."""

import itertools
import os
from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("tests.contract.speaking")  # before it is imported: its assertions are what tests show

from tests.contract.crds import install_widgets  # noqa: E402
from tests.contract.speaking import Speaker  # noqa: E402
from tests.controlplane.plane import ControlPlane  # noqa: E402

_numbers = itertools.count(1)


@pytest.fixture(params=[pytest.param("real", marks=[pytest.mark.real, pytest.mark.e2e])])
def backend(request: pytest.FixtureRequest) -> str:
    """Which server the test speaks to."""
    return str(request.param)


@pytest.fixture
async def api(backend: str, request: pytest.FixtureRequest) -> AsyncIterator[Speaker]:
    """A speaker with an empty namespace of its own."""
    plane: ControlPlane = request.getfixturevalue("control_plane")
    transport = plane.cluster("contract").transport()
    try:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "w")
        speaker = Speaker(transport, f"c{worker}-{next(_numbers)}")
        (await speaker.post("/api/v1/namespaces", {"metadata": {"name": speaker.namespace}})).object(201)
        yield speaker
    finally:
        await transport.close()


@pytest.fixture
async def widgets(api: Speaker) -> Speaker:
    """A speaker on a server that serves the widgets of crds.py."""
    await install_widgets(api)
    return api
