"""Fleets with autoscalers as operators state them, each with what `federator place` and `headroom`
print on the objects of `config/examples/scale-up`.
"""

from typing import Final

from click.testing import CliRunner

from federator.cli.main import cli
from tests.house.sources import ROOT

FOLDER: Final = "config/examples/scale-up"
FLEET: Final = ("-f", f"{FOLDER}/fleet.yaml")
WITH_POLICIES: Final = (*FLEET, "-f", f"{FOLDER}/policies.yaml")
RUNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "Free room first, then nodes to be added (WhenShort)",
        ("place", *WITH_POLICIES, "-f", f"{FOLDER}/when-short.yaml"),
    ),
    (
        "Nodes to be added count like free room (Prefer)",
        ("place", *WITH_POLICIES, "-f", f"{FOLDER}/prefer.yaml"),
    ),
    ("Only free room (Never)", ("place", *WITH_POLICIES, "-f", f"{FOLDER}/never.yaml")),
    ("How many more fit now, after scale-up, never", ("headroom", *FLEET, "--shape", "2cpu,4Gi")),
    ("No node that can be added is large enough", ("headroom", *FLEET, "--shape", "20cpu,4Gi")),
)
"""Title of each run, and the command."""
HEAD: Final = """# Clusters that can grow

What `spec.scaleUp` of a MemberCluster and `spec.scaleUp` of a policy do, on two clusters.
[Clusters that can grow](../../../docs/operating/scale-up.md) describes both fields.
"""


def page() -> str:
    """The page with all runs."""
    return "\n".join((HEAD, *(_section(title, given) for title, given in RUNS)))


def _section(title: str, given: tuple[str, ...]) -> str:
    placed = [str(ROOT / each) if each.startswith(FOLDER) else each for each in given]
    done = CliRunner().invoke(cli, placed)
    if done.exit_code not in (0, 3):
        raise RuntimeError(done.output)
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    output = "\n".join(lines)
    shown = " ".join(("federator", *given))
    return f"## {title}\n\n```\n$ {shown}\n{output}\n```\n\nExit {done.exit_code}.\n"
