"""A run deletes old results of its own target only."""

from pathlib import Path

import pytest

from tests.running import recording


def test_many_small_runs_delete_no_results_of_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "test-20261101-000000-1.jsonl"
    whole.touch()
    parts = [tmp_path / f"part-20261102-0000{number:02}-1.jsonl" for number in range(20)]
    for path in parts:
        path.touch()
    monkeypatch.delenv(recording.TARGET, raising=False)

    recorder = recording.Recorder(tmp_path)

    assert whole.exists()
    left = sorted(tmp_path.glob("part-*.jsonl"))
    assert left == [*parts[1 - recording.KEPT_RUNS :], recorder.path]
