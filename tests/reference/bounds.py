"""Policies with bounds of single clusters, of numbers of domains and of the time on tainted clusters,
each with what `federator place` and `federator plan` print for it.
"""

from typing import Final

from click.testing import CliRunner

from federator.cli.main import cli
from tests.house.sources import ROOT
from tests.reference import plans

FOLDER: Final = "config/examples/bounds"
FLEET: Final = f"{FOLDER}/fleet"
POLICIES: Final = f"{FOLDER}/policies"
SHOWN: Final = (
    ("At most 40 % of a service in one cluster", "at-most-40-percent.yaml"),
    ("No copy in a cluster, or at least eight", "none-or-at-least-8.yaml"),
    ("Exactly two zones", "exactly-two-zones.yaml"),
    ("One region, and a second one if need be", "one-region-if-possible.yaml"),
    ("Ordered groups with overflow", "overflow.yaml"),
    ("An hour to leave a tainted cluster", "an-hour-to-leave.yaml"),
)
"""Title of each policy, and its file."""
HEAD: Final = """# Policies with bounds

`federator place` shows where the services of `fleet/` go under each policy. `federator plan` shows what the policy
would move on the fleet of the [ten edits](../plan/README.md).
[Bounds of single clusters](../../../docs/operating/policies.md#bounds-of-single-clusters) describes the fields.
"""


def page() -> str:
    """The page with all of them."""
    return "\n".join((HEAD, *(_section(title, name) for title, name in SHOWN)))


def _section(title: str, name: str) -> str:
    policy = f"{POLICIES}/{name}"
    text = (ROOT / policy).read_text(encoding="utf-8").strip()
    parts = [f"## {title}\n", f"[{name}](policies/{name}):\n", f"```yaml\n{text}\n```\n"]
    if "kind: MemberCluster" not in text:
        parts.append(_run("place", "-f", FLEET, "-f", policy))
    parts.append(_run("plan", *plans.DUMP, "-f", policy, "--no-losses"))
    return "\n".join(parts)


def _run(*given: str) -> str:
    placed = [str(ROOT / each) if each.startswith("config/") else each for each in given]
    done = CliRunner().invoke(cli, placed)
    if done.exit_code not in (0, 3, 10, 11):
        raise RuntimeError(done.output)
    output = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    shown = " ".join(("federator", *given))
    return f"```\n$ {shown}\n{output}\n```\n\nExit {done.exit_code}.\n"
