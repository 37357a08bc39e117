"""The groups of `deploy/monitoring/rules.yml` as a part of a PrometheusRule."""

import textwrap

from tests.house.sources import ROOT

RULES = ROOT / "deploy" / "monitoring" / "rules.yml"


def groups() -> str:
    _, _, text = RULES.read_text(encoding="utf-8").partition("\ngroups:\n")
    return textwrap.indent(text, "  ")
