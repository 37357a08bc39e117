"""Hostile texts through every command that reads files: refused with the field's path, quickly,
nothing printed or made.
"""

import json
from pathlib import Path

import pytest
import yaml

from federator.kinds import read
from tests.hostile import cases_texts
from tests.hostile.table import CPU_S, MEMORY, TIMES, Case, bounded, by_name, size_of
from tests.unit.cli.files import run

TEXTS = by_name(cases_texts.TEXTS)
JSON = by_name(cases_texts.JSON)
BYTES = by_name(cases_texts.BYTES)


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a command hidden in an input would leave its trace."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "marker"


@pytest.mark.parametrize("name", TEXTS)
def test_reading_a_hostile_text_names_the_field_within_bounds(name: str) -> None:
    case = TEXTS[name]
    text = case.input()
    with (
        bounded(memory=MEMORY + TIMES * size_of(text)),
        pytest.raises(read.InvalidObject) as caught,
    ):
        read.load_yaml(text)
    (error,) = caught.value.errors
    assert case.words in error.message
    assert error.path == case.path
    assert len(error.message) < 500


@pytest.mark.parametrize("name", JSON)
def test_reading_hostile_json_names_the_field_within_bounds(name: str) -> None:
    case = JSON[name]
    text = case.input()
    with (
        bounded(memory=MEMORY + TIMES * size_of(text)),
        pytest.raises(read.InvalidObject) as caught,
    ):
        read.load_json(text)
    (error,) = caught.value.errors
    assert case.words in error.message
    assert error.path == case.path


@pytest.mark.parametrize("command", ["place", "convert", "sandbox"])
@pytest.mark.parametrize("name", TEXTS)
def test_commands_refuse_a_hostile_text_and_do_nothing(
    name: str, command: str, marker: Path
) -> None:
    case = TEXTS[name]
    path = marker.parent / "hostile.yaml"
    path.write_text(case.input(), encoding="utf-8")
    _refused(case, command, path, marker)


@pytest.mark.parametrize("command", ["place", "convert", "sandbox"])
@pytest.mark.parametrize("name", BYTES)
def test_commands_refuse_what_is_no_text(name: str, command: str, marker: Path) -> None:
    case = BYTES[name]
    path = marker.parent / "hostile.yaml"
    path.write_bytes(case.input())
    _refused(case, command, path, marker)


def _refused(case: Case, command: str, path: Path, marker: Path) -> None:
    made = path.parent / "made"
    given = {
        "place": ("place", "-f", str(path)),
        "convert": ("convert", str(path)),
        "sandbox": ("sandbox", "--once", "--dir", str(made), "--fleet", str(path)),
    }[command]
    before = sorted(path.parent.iterdir())
    with bounded(CPU_S * 2, measured=False):
        done = run(*given)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert str(path) in done.stderr
    assert len(done.stderr) < 3000
    if command != "sandbox":
        assert case.words in done.stderr
    assert sorted(path.parent.iterdir()) == before
    assert not marker.exists()


@pytest.mark.parametrize("name", cases_texts.NOT_WHAT_YAML_1_1_SAYS)
def test_a_scalar_means_what_is_written(name: str) -> None:
    text, value = cases_texts.NOT_WHAT_YAML_1_1_SAYS[name]
    assert read.load_yaml(f"a: {text}") == [{"a": value}]


def test_what_is_printed_of_a_text_is_read_back_as_that_text() -> None:
    """Our own YAML must not say `no` where a text was meant, for readers of YAML 1.1."""
    from federator.cli import common

    for text, _ in cases_texts.NOT_WHAT_YAML_1_1_SAYS.values():
        printed = common.dump({"a": text}, "yaml")
        assert yaml.safe_load(printed) == {"a": text}
        assert read.load_yaml(printed) == [{"a": text}]
        assert json.loads(common.dump({"a": text}, "json")) == {"a": text}
