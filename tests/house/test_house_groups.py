"""What shares servers is run by one process: the marks that ask for it are heard."""

import pytest


def test_tests_of_one_group_are_handed_out_together(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells its scheduler of a group by the end of a test's name. Under a pytest that
    keeps names for itself it says nothing and spreads groups over all processes, each with servers
    of its own.
    """
    if not request.config.getoption("loadgroup", False):
        pytest.skip("not a process of `pytest -n … --dist loadgroup`")
    unheard = [
        item.nodeid
        for item in request.session.items
        for mark in item.iter_markers("xdist_group")
        if not item.nodeid.endswith(f"@{mark.args[0]}")
    ]

    assert not unheard
