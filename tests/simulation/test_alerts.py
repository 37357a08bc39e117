"""The alerts in simulated federations: each fires with its symptom and ends with it, none fires
without one, and a bug that keeps a symptom alive is caught."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from federator.kube.metrics import Metrics
from tests.monitoring import programs, queries
from tests.simulation import alerting
from tests.simulation.mutations import instead


def judged(story: Sequence[alerting.Phase], directory: Path) -> tuple[int, str]:
    """Exit status and output of promtool for a story."""
    programs.needed("promtool")
    return programs.run("promtool", "test", "rules", str(alerting.play(story).write(directory)))


def _never_ends(original: Callable[..., None]) -> Callable[..., None]:
    """A watch that has failed once is published as failing for ever."""

    def watch_failing(self: Any, cluster: str, resource: str, failing: bool) -> None:
        if failing:
            original(self, cluster, resource, failing)

    return watch_failing


def test_an_alert_fires_and_ends_with_its_symptom(tmp_path: Path) -> None:
    status, output = judged(alerting.WATCHES, tmp_path)
    assert status == 0, output


def test_an_alert_that_never_ends_is_caught(tmp_path: Path) -> None:
    with instead(Metrics, "watch_failing", _never_ends).patched():
        status, output = judged(alerting.WATCHES, tmp_path)
    assert status == 1
    assert "exp: nil" in output, "no alert was expected"
    assert 'got: {alertname="FederatorWatchBroken"' in output


def test_the_stories_fire_every_alert() -> None:
    stories = (alerting.WHOLE, alerting.FAILING)
    fired = {name for story in stories for phase in story for name, _ in phase.fires}
    assert fired == {alert.name for alert in queries.alerts()}
    for story in stories:
        assert not story[0].fires
        assert not story[-1].fires


@pytest.mark.long
def test_a_cluster_whose_nodes_are_sick_is_told_until_they_are_well(tmp_path: Path) -> None:
    status, output = judged(alerting.FAILING, tmp_path)
    assert status == 0, output


@pytest.mark.long
def test_every_alert_fires_once_and_ends_and_none_fires_without_a_fault(tmp_path: Path) -> None:
    status, output = judged(alerting.WHOLE, tmp_path)
    assert status == 0, output
