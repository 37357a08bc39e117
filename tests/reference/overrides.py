"""Policies with overrides, and one that selects a workload by name: each with the output of
`federator plan` and `federator diff` for it on the fleet of `config/examples/plan`.
"""

from typing import Final

from click.testing import CliRunner

from federator.cli.main import cli
from tests.house.sources import ROOT
from tests.reference.plans import DUMP, FLEET

FOLDER: Final = "config/examples/overrides"
POLICIES: Final = (
    ("One region pulls its images from a mirror", "registry-per-region"),
    ("Every pod learns its zone and its cluster", "zone-everywhere"),
    ("One cluster gets other arguments and a JSON patch", "patch-of-one-cluster"),
    ("One service by name goes before the others", "by-name"),
)
"""Title and file of each policy."""
COMMANDS: Final = (("plan", ("--no-losses",)), ("diff", ()))
LINES_MAX: Final = 40
"""Lines of an output that are shown."""
HEAD: Final = """# Policies with overrides

Each of these policies is applied to the objects in `config/examples/plan/fleet`: four clusters in two regions, two
accounts and five workloads. [The guide](../../../docs/operating/policies.md#overrides-per-cluster) describes the
fields.
"""


def page() -> str:
    """The page with all of them."""
    return "\n".join((HEAD, *(_section(title, name) for title, name in POLICIES)))


def _section(title: str, name: str) -> str:
    path = f"{FOLDER}/{name}.yaml"
    policy = (ROOT / path).read_text(encoding="utf-8").strip()
    outputs = "\n\n".join(_output(command, path, more) for command, more in COMMANDS)
    return f"## {title}\n\n[{name}.yaml]({name}.yaml)\n\n```yaml\n{policy}\n```\n\n{outputs}\n"


def _output(command: str, path: str, more: tuple[str, ...]) -> str:
    given = (command, "--dump", str(ROOT / FLEET), "-f", str(ROOT / path), *more)
    done = CliRunner().invoke(cli, given)
    if done.exit_code not in (0, 10, 11):
        raise RuntimeError(done.output)
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    if len(lines) > LINES_MAX:
        lines = [*lines[:LINES_MAX], f"... and {len(lines) - LINES_MAX} more lines"]
    shown = " ".join(("federator", command, *DUMP, "-f", path, *more))
    output = "\n".join(lines)
    return f"```\n$ {shown}\n{output}\n```"
