"""Commands that only print: settings, CRDs, version, help."""

import logging
import os
import re
import tempfile
from pathlib import Path

import pytest
import yaml

from federator import __version__, settings
from federator.cli import common, views
from federator.cli.main import COMMANDS
from federator.kinds import crds
from federator.model.errors import FieldError
from tests.unit.cli.files import run


def test_the_settings_in_force_are_the_defaults_without_a_file() -> None:
    assert yaml.safe_load(run("config", "show").stdout) == settings.defaults()


def test_a_settings_file_is_laid_over_the_defaults(tmp_path: Path) -> None:
    group, values = next((group, values) for group, values in settings.defaults().items() if values)
    name, value = next((name, value) for name, value in values.items() if isinstance(value, str))
    path = tmp_path / "federator.yaml"
    path.write_text(yaml.safe_dump({group: {name: f"{value}-other"}}), encoding="utf-8")

    assert (
        yaml.safe_load(run("config", "show", "--config", str(path)).stdout)[group][name]
        == f"{value}-other"
    )


def test_a_setting_that_does_not_exist_is_told_with_its_path(tmp_path: Path) -> None:
    group = next(iter(settings.defaults()))
    path = tmp_path / "federator.yaml"
    path.write_text(yaml.safe_dump({group: {"nosuch": 1}}), encoding="utf-8")
    done = run("config", "show", "--config", str(path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{group}.nosuch" in done.stderr


def test_every_setting_is_explained_with_its_default() -> None:
    """As a settings file has it."""
    text = run("config", "explain").stdout
    told = dict(line.split(" = ", 1) for line in text.splitlines() if not line.startswith(" "))

    assert {path: yaml.safe_load(default) for path, default in told.items()} == {
        f"{group}.{name}": value
        for group, values in settings.defaults().items()
        for name, value in values.items()
    }


def test_settings_are_explained_by_the_beginning_of_their_path() -> None:
    group = next(iter(settings.defaults()))
    lines = [
        line
        for line in run("config", "explain", f"{group}.").stdout.splitlines()
        if not line.startswith(" ")
    ]

    assert lines
    assert all(line.startswith(f"{group}.") for line in lines)


def test_explaining_an_unknown_setting_fails() -> None:
    done = run("config", "explain", "nosuch")

    assert done.exit_code == 1
    assert "there is no setting 'nosuch'" in done.stderr


def test_crds_are_printed_as_they_are_installed() -> None:
    printed = run("crd", "print").stdout
    assert list(yaml.load_all(printed, Loader=yaml.CSafeLoader)) == crds.all_crds()
    of_member = run("crd", "print", "--member").stdout
    assert list(yaml.load_all(of_member, Loader=yaml.CSafeLoader)) == crds.member_crds()


def test_the_version_is_printed() -> None:
    assert __version__ in run("version").stdout
    assert run("--version").stdout.strip() == f"federator {__version__}"


def test_help_lists_every_command_with_a_line_of_its_own() -> None:
    text = run("--help").stdout

    for name in COMMANDS:
        assert f"\n  {name} " in text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    done = run(name, "--help")

    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: ")


def test_an_unknown_command_is_told() -> None:
    done = run("nosuch")

    assert done.exit_code == 2
    assert "nosuch" in done.stderr


@pytest.mark.parametrize(
    "kind", ["psvc", "pjs", "clusters", "decisions", "policies", "deploy", "quotas"]
)
def test_the_kinds_that_the_hint_names_are_kinds(kind: str) -> None:
    assert views.kind_named(kind).plural


def test_a_column_may_choose_a_condition() -> None:
    kind = views.shown_named("quotas")
    conditions = [
        {"type": "Other", "status": "?"},
        {"type": "Valid", "status": "False", "reason": "UnknownParent"},
    ]
    obj = {
        "metadata": {"name": "ads"},
        "spec": {},
        "status": {"workloads": 2, "conditions": conditions},
    }
    shown = dict(zip(views.headers(kind, wide=True), views.row(kind, obj, wide=True), strict=True))
    assert (shown["WORKLOADS"], shown["VALID"], shown["REASON"]) == ("2", "False", "UnknownParent")
    assert views.row(kind, {"metadata": {"name": "new"}})[3] == ""


def test_the_namespace_of_a_context_may_be_in_another_file_than_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("current-context: team\n")
    (tmp_path / "two").write_text(
        "contexts: [{name: team, context: {namespace: team7}}]\ncurrent-context: other\n"
    )
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    assert common.default_namespace("", "") == "team7"
    assert common.default_namespace("", "nobody") == "default"


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"{current-context: a, contexts: 5}",
        b"{current-context: a, contexts: [{name: a, context: b}]}",
    ],
)
def test_a_kubeconfig_that_is_none_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)

    done = run("get", "psvc", "--kubeconfig", str(path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: The kubeconfig")


def test_a_directory_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    folders: list[str] = []
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **given: folders.append(given["dir"]))
    level = logging.getLogger("federator.runtime").level

    done = run("sandbox", "--clusters", "1", "--dir", str(tmp_path / "file" / "below"))

    assert done.exit_code == 1
    assert "Not a directory" in done.stderr
    assert (folders, logging.getLogger("federator.runtime").level) == ([], level)


def test_an_empty_variable_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDERATOR_HUB__IDENTITY", "")

    assert yaml.safe_load(run("config", "show").stdout)["hub"]["identity"] == ""


@pytest.mark.parametrize("value", ["123", "no", "a: b"])
def test_a_variable_for_a_text_is_that_text(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FEDERATOR_HUB__IDENTITY", value)

    assert yaml.safe_load(run("config", "show").stdout)["hub"]["identity"] == value


@pytest.mark.parametrize(
    ("variable", "value", "setting"),
    [
        ("FEDERATOR_LOG__LEVEL", "loud", "log.level"),
        ("FEDERATOR_SERVE__PORT", "99999", "serve.port"),
        ("FEDERATOR_SERVE__PORT", "-1", "serve.port"),
        ("FEDERATOR_LOG__FORMAT", "xml", "log.format"),
        ("FEDERATOR_HUB__FLEET", "", "hub.fleet"),
        ("FEDERATOR_HUB__FLEET", "a b", "hub.fleet"),
        ("FEDERATOR_HUB__CREDENTIALS_NAMESPACE", "", "hub.credentials_namespace"),
        ("FEDERATOR_HUB__SYSTEM_NAMESPACE", "Upper", "hub.system_namespace"),
        ("FEDERATOR_HUB__LEASE_NAME", "a/b", "hub.lease_name"),
        ("FEDERATOR_HUB__LEASE_DURATION_S", "1", "hub.lease_duration_s"),
        ("FEDERATOR_HUB__UNREADY_AFTER_S", "10", "hub.unready_after_s"),
        ("FEDERATOR_HUB__PROBE_TIMEOUT_S", "1e999", "hub.probe_timeout_s"),
        ("FEDERATOR_HUB__PROBE_TIMEOUT_S", "inf", "hub.probe_timeout_s: must be finite, not inf"),
        ("FEDERATOR_HUB__PROBE_TIMEOUT_S", "nan", "hub.probe_timeout_s: must be finite, not nan"),
        (
            "FEDERATOR_HUB__CAPACITY_COPY_PERMILLE",
            "1001",
            "hub.capacity_copy_permille: must be at most 1000, not 1001",
        ),
    ],
)
def test_a_value_that_no_process_could_use_is_told_with_its_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, setting: str
) -> None:
    monkeypatch.setenv(variable, value)

    done = run("config", "show")

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"error: {setting}" in done.stderr


def test_the_fleet_of_a_command_line_wins_and_is_checked_too() -> None:
    found = settings.load(
        environ={"FEDERATOR_HUB__FLEET": "one"}, overrides={"hub": {"fleet": "other"}}
    )
    refused = run("member", "--cluster", "x", "--kubeconfig", "/nonexistent", "--fleet", "no label")

    assert found.hub.fleet == "other"
    assert "hub.fleet: 'no label' is not a label value" in refused.stderr


@pytest.mark.parametrize(
    "path",
    [
        f"{group}.{name}"
        for group, values in settings.defaults().items()
        for name, value in values.items()
        if type(value) in (int, float)
    ],
)
def test_no_number_is_negative_and_few_are_nought(path: str) -> None:
    group, _, name = path.partition(".")
    variable = f"FEDERATOR_{group}__{name}".upper()

    with pytest.raises(FieldError, match=re.escape(path)):
        settings.load(environ={variable: "-1"})
    if path not in settings.MAY_BE_ZERO:
        with pytest.raises(FieldError, match=re.escape(path)):
            settings.load(environ={variable: "0"})
    else:
        settings.load(environ={variable: "0"})
