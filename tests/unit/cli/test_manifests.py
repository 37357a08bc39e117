"""What `-f` reads: directories, kustomizations, stdin; and what it refuses, in words, with the
command that helps.
"""

import os
import stat
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.files import member, policy, psvc, run, write

KUSTOMIZATION = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "resources": ["web.yaml"],
}


def tool(folder: Path, name: str, script: str) -> None:
    """A program of this name on PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only programs there are, beside the shell's own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin-not-here")
    return folder


def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


def test_a_directory_is_read_with_all_below_it_in_the_order_of_its_paths(tmp_path: Path) -> None:
    folder = app(tmp_path)
    (folder / "b" / "c").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    write(folder / "b" / "c", "fleet.yml", member("a"))
    write(folder, "c.yaml", psvc("second"))
    (folder / "a.json").write_text(yaml.safe_dump(psvc("first")), encoding="utf-8")
    (folder / "notes.md").write_text("no manifest", encoding="utf-8")
    write(folder / ".hidden", "bad.yaml", {"kind": "Nonsense"})
    done = run("place", "-f", str(folder))

    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == [
        "PinterestService/first",
        "PinterestService/second",
    ]


def test_objects_of_directories_are_named_with_their_file(tmp_path: Path) -> None:
    folder = app(tmp_path)
    bad = write(folder, "bad.yaml", member("a"), psvc(replicas=-1))

    assert f"error: {bad}, document 2: spec.replicas" in run("place", "-f", str(folder)).stderr


def test_a_directory_without_manifests_is_told(tmp_path: Path) -> None:
    folder = app(tmp_path)

    assert (
        f"{folder}: contains no manifest (.yaml, .yml, .json)\n"
        in run("place", "-f", str(folder)).stderr
    )
    assert "subdirectories are not read" in run("convert", str(folder)).stderr


def test_a_kustomization_is_built_by_the_tool_that_is_there(tmp_path: Path, programs: Path) -> None:
    folder = app(tmp_path)
    write(folder, "kustomization.yaml", KUSTOMIZATION)
    write(folder, "web.yaml", psvc("as-written"))
    built = write(tmp_path, "built.yaml", psvc("as-built"))
    tool(programs, "kustomize", f'[ "$1 $2" = "build {folder}" ] && exec /bin/cat {built}')
    fleet = write(tmp_path, "fleet.yaml", member("a"))
    done = run("place", "-f", fleet, "-f", str(folder))

    assert (done.exit_code, done.stderr) == (0, "")
    assert "as-built" in done.stdout
    assert "as-written" not in done.stdout


def test_kubectl_is_asked_first_and_its_trouble_is_told(tmp_path: Path, programs: Path) -> None:
    folder = app(tmp_path)
    write(folder, "kustomization.yml", KUSTOMIZATION)
    tool(programs, "kubectl", "echo accumulating resources: no such file >&2; exit 3")
    tool(programs, "kustomize", "exit 0")
    done = run("place", "-f", str(folder))

    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        f"{folder}: kubectl kustomize failed: accumulating resources: no such file" in done.stderr
    )


@pytest.mark.usefixtures("programs")
def test_without_a_tool_the_command_to_pipe_is_told(tmp_path: Path) -> None:
    folder = app(tmp_path)
    write(folder, "Kustomization", KUSTOMIZATION)

    assert (
        f"kubectl kustomize {folder} | federator place -f -"
        in run("place", "-f", str(folder)).stderr
    )
    assert f"kubectl kustomize {folder} | federator convert -" in run("convert", str(folder)).stderr


def test_of_several_kustomizations_below_the_one_meant_has_to_be_named(tmp_path: Path) -> None:
    folder = app(tmp_path)
    for name in ("base", "overlays/dev", "overlays/live"):
        (folder / name).mkdir(parents=True)
        write(folder / name, "kustomization.yaml", KUSTOMIZATION)
    done = run("place", "-f", str(folder))

    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        f"({folder}/base, {folder}/overlays/dev, {folder}/overlays/live); give the directory "
        "of one of them"
    ) in done.stderr


def test_a_kustomization_or_chart_named_as_a_file_is_sent_to_its_directory(tmp_path: Path) -> None:
    folder = app(tmp_path)
    build = write(folder, "kustomization.yaml", KUSTOMIZATION)
    chart = write(folder, "Chart.yaml", {"apiVersion": "v2", "name": "web"})

    assert (
        f"is a kustomization, not a manifest; give its directory, {folder}"
        in run("place", "-f", build).stderr
    )
    assert f"helm template {folder} | federator place -f -" in run("place", "-f", chart).stderr


def test_a_chart_is_refused_with_the_command_that_renders_it(tmp_path: Path) -> None:
    folder = app(tmp_path)
    (folder / "chart" / "templates").mkdir(parents=True)
    write(folder / "chart", "Chart.yaml", {"apiVersion": "v2", "name": "web"})
    done = run("place", "-f", str(folder))

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"helm template {folder}/chart | federator place -f -" in done.stderr


def test_a_template_is_told_from_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(
        "# {{ a comment }}\nkind: PinterestService\nspec: {replicas: {{ .Values.n }}}\n",
        encoding="utf-8",
    )
    done = run("place", "-f", str(path))

    assert (
        "is a template, not a manifest (line 3: {{ .Values.n }}}); render it with its tool"
        in done.stderr
    )
    path.write_text("# {{ a comment }}\nkind: [\n", encoding="utf-8")
    assert "is a template" not in run("place", "-f", str(path)).stderr


def test_stdin_is_read_once() -> None:
    assert (
        "given twice" in run("place", "-f", "-", "-f", "-", stdin=yaml.safe_dump(policy())).stderr
    )
