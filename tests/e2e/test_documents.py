"""Every command that the documents show is run, in a demo, or named here with the reason why it is not.

Commands are taken from the fenced blocks of README.md and docs/: lines that begin with `$`, and in blocks without any,
lines that begin with a program. Those written inside sentences are read by the command line's own parser.
"""

import functools
import itertools
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from federator.cli.main import cli
from tests.controlplane import build
from tests.e2e.federations import FEDERATOR, family
from tests.house.sources import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("documents")]

PROGRAMS = ("federator", "kubectl", "make", "helm", "git", "docker", "python")
STARTED_S = 120.0
COMMAND_S = 60.0
FOLLOWED_S = 4.0

FILLED = {"MEMBER": "us-east-1a"}
"""What stands for a reader's own names, and what is there in a demo."""
BEFORE = {
    "docs/operating/pod-security.md": "kubectl create ns shop; kubectl create ns agents",
    "docs/using/pod-security.md": "kubectl get psvc homefeed -n feed -o json"
    """ | sed -E '/"(uid|resourceVersion|namespace)":/d; s/"name": "homefeed"/"name": "web"/' | kubectl create -f -""",
    "docs/using/rollouts.md": "kubectl get psvc pin-service -n core -o json"
    """ | sed -E '/"(uid|resourceVersion)":/d; s/("image": ".*):[^:"]*"/\\1:next"/' > pin-service.yaml""",
}
"""What a reader of a document has got already, of which the demo has nothing."""

ANOTHER = "it makes an installation of its own: tests/e2e/test_federation_commands.py, test_deployed.py"
PROCESSES = "processes of a sandbox that serves nothing but APIs: tests/e2e/federations.py runs them so"
NO_KUBELET = "there is no kubelet behind an embedded server: tests/e2e/test_query_port_processes.py"
NOT_RUN = {
    "make demo": "it is what this test stands on",
    "make test": "it is the run that this test is part of",
    "federator crd install --context host && federator crd install --context m1": ANOTHER,
    "federator cluster add m1 --context host -C m1 --label region=us-east-1 --label zone=us-east-1a": ANOTHER,
    "federator member --context m1 --cluster m1": ANOTHER,
    "federator hub --context host": ANOTHER,
    "federator cluster check m1 --context host -C m1": ANOTHER,
    "kubectl --context host apply --server-side -k deploy/crd": ANOTHER,
    "kubectl --context host apply --server-side -k deploy/overlays/example-host": ANOTHER,
    "kubectl --context m1 apply --server-side -k deploy/crd": ANOTHER,
    "kubectl --context m1 apply --server-side -k deploy/overlays/example-member": ANOTHER,
    "federator cluster add us-east-1a -C m1 --label region=us-east-1": ANOTHER,
    "federator hub --allow-loopback --kubeconfig DIR/host.kubeconfig": PROCESSES,
    "federator member --cluster us-east-1a --kubeconfig DIR/us-east-1a.kubeconfig": PROCESSES,
    "federator pods psvc/web -n feed": "a cluster has to be away: tests/e2e/test_query_port_wire.py",
    "federator exec us-east-1a/homefeed-vmsjnlbnb6-22kfz -n feed -it -- sh": NO_KUBELET,
    "federator exec psvc/homefeed -C us-east-1a -n feed -- env": NO_KUBELET,
    "federator port-forward us-east-1a/homefeed-vmsjnlbnb6-22kfz -n feed 8080:80": NO_KUBELET,
}
FOLLOWED = {"federator get psvc -A -w"}
"""Goes on until somebody ends it."""
CODES = {"federator cluster check us-east-1a -C us-east-1a --strict": 1}
"""Commands that are shown because they fail, or warn, and how they end."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of a document."""

    where: str
    text: str


def documents() -> list[Path]:
    """All that tell a user what to type; decisions tell what was, and what was left out."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(path for path in found if path.parent.name != "decisions")]


def shown() -> Iterator[Shown]:
    """Commands of fenced blocks, in the order of the documents."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            first = text.count("\n", 0, found.start(1)) + 1
            lines = found[1].replace("\\\n", "  ").splitlines()
            prompted = any(line.startswith("$ ") for line in lines)
            for number, line in enumerate(lines):
                command = line.removeprefix("$ ") if prompted else line.strip()
                if line.startswith("$ ") if prompted else command.startswith(tuple(f"{one} " for one in PROGRAMS)):
                    yield Shown(f"{path.relative_to(ROOT)}:{first + number}", _plain(command))


def _plain(command: str) -> str:
    """Without its comment, and with single blanks between words."""
    found = re.split(r"\s+#\s", command)[0].strip()
    return found if "'" in found else re.sub(r"\s+", " ", found)


def inline() -> Iterator[Shown]:
    """`federator ...` inside sentences."""
    for path in documents():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in re.findall(r"`(federator [a-z][^`]*)`", line):
                yield Shown(f"{path.relative_to(ROOT)}:{number}", found)


def federator_parts(command: str) -> Iterator[list[str]]:
    """The arguments of each call of federator in a line of a shell."""
    for part in re.split(r"&&|\|\||[|;]", command):
        words = shlex.split(part)
        if words[:1] == ["federator"]:
            yield words[1:]


def unknown(words: list[str]) -> str:
    """What of a call the command line does not know; "" for nothing. A command without arguments is a mention."""
    command: click.Command = cli
    options: set[str] = {"--help", "-h"}
    for index, word in enumerate(words):
        if isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"there is no command {word!r}"
            command = found
            options |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        elif word == "--":
            break
        elif word.startswith("-") and word != "-" and word.split("=")[0] not in options:
            short = word[:2] in options and not word.startswith("--")
            if not short:
                return f"{' '.join(words[:index])} has no option {word.split('=')[0]}"
    return ""


def test_there_are_commands_to_read() -> None:
    assert len(list(shown())) > 30
    assert len(list(inline())) > 50


@pytest.mark.parametrize("one", list(dict.fromkeys(itertools.chain(shown(), inline()))), ids=lambda one: one.where)
def test_commands_and_options_that_are_shown_exist(one: Shown) -> None:
    for words in federator_parts(one.text):
        assert unknown(words) == "", one


def test_every_command_that_is_not_run_is_still_shown() -> None:
    texts = {one.text for one in shown()}
    listed = {*NOT_RUN, *FOLLOWED, *CODES}
    assert [text for text in listed if text not in texts] == []


@functools.cache
def _path() -> str:
    program = build.kubectl()
    assert program is not None
    return os.pathsep.join([str(Path(sys.executable).parent), str(program.parent), os.environ.get("PATH", "")])


def _run(command: str, home: Path, limit_s: float) -> tuple[int | None, str]:
    """Exit code and all that was printed; None for a command that has not ended."""
    environment = {"PATH": _path(), "HOME": str(home), "KUBECONFIG": str(home / "federator-demo.kubeconfig")}
    with (home / "printed").open("w+") as printed:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=home, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            process.wait()
        printed.seek(0)
        return code, printed.read()


def test_what_is_shown_can_be_run_in_a_demo(tmp_path: Path) -> None:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    with family(tmp_path) as programs:
        home = programs.directory
        demo = programs.start("demo", [*FEDERATOR, "demo"])
        programs.wait_until(lambda: "Ctrl-C" in demo.log.read_text(), "The demo", STARTED_S)
        wrong: list[str] = []
        for path, commands in BEFORE.items():
            code, printed = _run(commands, home, COMMAND_S)
            assert code == 0, f"{path}: {printed}"
        for one in shown():
            if one.text in NOT_RUN:
                continue
            command = one.text
            for name, meant in FILLED.items():
                command = command.replace(name, meant)
            begun = time.monotonic()
            followed = one.text in FOLLOWED
            code, printed = _run(command, home, FOLLOWED_S if followed else COMMAND_S)
            print(f"{one.where}: {command}: {code} after {time.monotonic() - begun:.1f} s")
            if code != (None if followed else CODES.get(one.text, 0)):
                wrong.append(f"{one.where}: {command}\nended with {code}\n{printed[-1500:]}")
        assert not wrong, "\n\n".join(wrong)
