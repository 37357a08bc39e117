"""Fixtures that every part of the tests may use."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import heap
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.examples import LEAST
from tests.processor import pytest_runtest_call  # noqa: F401 - a hook is there by its name

# Properties are decided by what they say, never by how fast a loaded machine is; a failure prints
# how to repeat it.
settings.register_profile(
    "house",
    max_examples=max(100, LEAST),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")


SIMULATION = Path(__file__).parent / "simulation"
PLANE = pytest.StashKey[ControlPlane]()
GROUP = pytest.StashKey[str]()
"""Of the test before this one, in this process."""


def pytest_xdist_auto_num_workers() -> int:
    """Half as many test processes again as there are cores: some of them always wait for
    servers.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores + max(1, cores // 2)


def pytest_configure() -> None:
    heap.collect_seldom()


def pytest_collection_finish() -> None:
    heap.keep_for_good()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one xdist_group side by side, before all others, those that take longest first: a
    group is worked off by one process, and the end of the run is shared best when small tests come
    last. Of the single ones, simulated federations therefore begin.
    """
    first: dict[str, int] = {}
    for item in items:
        first.setdefault(_group(item), len(first))

    def turn(item: pytest.Item) -> tuple[bool, bool, bool, bool, int]:
        group = _group(item)
        patient = item.get_closest_marker("timeout") is not None
        small = SIMULATION not in item.path.parents
        return not group, not patient, item.get_closest_marker("real") is None, small, first[group]

    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """The servers of a group of tests end with it: each costs processor time for as long as it
    runs, asked or not. They end when the next group has been set up, for until then fixtures of
    theirs may live, of whatever scope.
    """
    stash, group = item.session.stash, _group(item)
    plane = stash.get(PLANE, None)
    left = plane.names() if plane is not None and group != stash[GROUP] else ()
    stash[GROUP] = group
    try:
        return (yield)
    finally:
        # Fixtures of the former group that have come to their end meanwhile may have ended theirs
        # themselves.
        for name in set(left) & set(plane.names() if plane is not None else ()):
            stash[PLANE].end(name)


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None else ""


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane, one for each test process, started when the first test asks for it.

    Tests that use it carry the marker `real`, and an `xdist_group` with which its servers end.
    Where it cannot be had they skip, or fail if FEDERATOR_REQUIRE_REAL is 1.
    """
    binaries = build.find()
    if binaries is None:
        why = (
            f"No real control plane, neither in KUBEBUILDER_ASSETS nor in {build.cache_dir()}: "
            "run `make kube`."
        )
        if os.environ.get("FEDERATOR_REQUIRE_REAL") == "1":
            pytest.fail(why)
        pytest.skip(why)
    with ControlPlane(binaries) as plane:
        request.session.stash[PLANE] = plane
        yield plane
        del request.session.stash[PLANE]
