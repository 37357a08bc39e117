"""Fixtures that every part of the tests may use."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.controlplane import build
from tests.controlplane.plane import ControlPlane

# Properties are decided by what they say, never by how fast a loaded machine is; a failure prints how to repeat it.
settings.register_profile(
    "house", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("house")


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The real control plane, one for each test process, started when the first test asks for it.

    Tests that use it carry the marker `real`. Where it cannot be had they skip, or fail if FEDERATOR_REQUIRE_REAL
    is 1.
    """
    binaries = build.find()
    if binaries is None:
        why = f"No real control plane, neither in KUBEBUILDER_ASSETS nor in {build.cache_dir()}: run `make kube`."
        if os.environ.get("FEDERATOR_REQUIRE_REAL") == "1":
            pytest.fail(why)
        pytest.skip(why)
    with ControlPlane(binaries) as plane:
        yield plane
