"""Example policies, each with what `federator place` prints of it on the fleet of
`config/examples/policies`.
"""

from typing import Final

from click.testing import CliRunner

from federator.cli.main import cli
from tests.house.sources import ROOT

FOLDER: Final = "config/examples/policies"
EXAMPLES: Final[tuple[tuple[str, str], ...]] = (
    ("Required properties: version, network and owner", "properties"),
    ("A CEL expression over version, price and free CPU", "cel"),
    ("The cheapest clusters, as few as possible", "cheapest"),
    ("The two best clusters by named scorers", "two-best"),
    ("One of two alternatives", "any-of"),
    ("A cluster in two zones", "several-zones"),
    ("Near one workload, and away from another", "near-the-cache"),
)
"""Title of each policy, and its file."""
HEAD: Final = """# Policies and what they place

Each of these policies is placed on the five clusters of `fleet.yaml`, with one service that it applies to.
[What a policy decides by](../../../docs/reference/policies.md) describes the rules.
"""


def page() -> str:
    """The page with all of them."""
    return "\n".join((HEAD, *(_section(title, name) for title, name in EXAMPLES)))


def _section(title: str, name: str) -> str:
    files = (f"{FOLDER}/fleet.yaml", f"{FOLDER}/{name}.yaml")
    given = [word for file in files for word in ("-f", str(ROOT / file))]
    done = CliRunner().invoke(cli, ["place", *given])
    if done.exit_code not in (0, 3):
        raise RuntimeError(done.output)
    text = (ROOT / files[1]).read_text(encoding="utf-8").partition("\n---\n")[0]
    shown = " ".join(("federator place", *(f"-f {file}" for file in files)))
    output = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    return (
        f"## {title}\n\n```yaml\n{text.strip()}\n```\n\n```\n$ {shown}\n{output}\n```\n\n"
        f"Exit {done.exit_code}.\n"
    )
