"""Fixtures that every part of the tests may use."""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests import heap
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.examples import ASKED, USUAL
from tests.running import costs, hanging, leaving, recording

# Properties are decided by what they say, never by how fast a loaded machine is; a failure prints
# how to repeat it.
settings.register_profile(
    "house",
    max_examples=ASKED or USUAL,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")


SIMULATION = f"{Path(__file__).parent / 'simulation'}{os.sep}"
PLANE = pytest.StashKey[ControlPlane]()
UNMEASURED_S = 30.0
"""What a group costs that is not recorded yet."""
GROUP = pytest.StashKey[str]()
"""Of the test before this one, in this process."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`-n auto`: twice as many test processes as there are cores, because some of them always wait
    for servers. `-n logical`: one for each core, for tests that wait for nothing.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores if config.option.numprocesses == "logical" else 2 * cores


def pytest_configure(config: pytest.Config) -> None:
    heap.collect_seldom()
    config.pluginmanager.register(recording)
    config.pluginmanager.register(hanging)
    config.pluginmanager.register(leaving)
    if not hasattr(config, "workerinput"):  # xdist's test processes report to the first one
        signal.signal(signal.SIGTERM, _interrupt)
        inner = "PYTEST_CURRENT_TEST" in os.environ  # a run that a test starts
        if not (inner or config.option.collectonly):
            results = config.rootpath / "build" / "tests"
            config.pluginmanager.register(recording.Recorder(results), "results")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a run as SIGINT does: with its summary, and fixtures end what they started."""
    raise KeyboardInterrupt


def pytest_collection_finish() -> None:
    heap.keep_for_good()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Pytest collects garbage five times at its end, for errors that nobody has seen; once is enough."""
    heap.keep_for_good()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests that cost most out of `make unit`. Spreads the groups of tests evenly among
    the single ones, the most expensive group first.

    A group is run by one process. Its tests wait for servers most of the time, while single tests
    use the processor: at any time some processes do the one and some the other. The groups at the
    end are small, so that all processes end together. A group that nobody has measured yet is none of
    them.
    """
    if os.environ.get("FEDERATOR_TARGET") == "unit":
        dear = costs.read().dear
        left = [item for item in items if item.nodeid.partition("[")[0] in dear]
        items[:] = [item for item in items if item not in set(left)]
        config.hook.pytest_deselected(items=left)
    recorded = costs.read().groups
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_group(item), []).append(item)
    singles = groups.pop("", [])
    # These take seconds each.
    singles.sort(key=lambda item: not str(item.path).startswith(SIMULATION))
    turns = sorted(groups, key=lambda name: -recorded.get(name, UNMEASURED_S))
    items.clear()
    for turn, name in enumerate(turns):
        start, end = (len(singles) * at // len(turns) for at in (turn, turn + 1))
        items += groups[name] + singles[start:end]
    if not turns:
        items += singles


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
