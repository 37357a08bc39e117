"""Tables of the reference that come from tables of the program: settings, metrics, policies,
reasons, reachability.
"""

import json

from federator import settings as program_settings
from federator.cli import config as config_command
from federator.hub.members.reachability import TRANSITIONS
from federator.kinds import registry
from federator.kinds.shared import environment
from federator.kube import metrics as program_metrics
from federator.model.decision import Reason
from federator.model.properties import PREFIXES, PROPERTIES, Kind
from federator.model.terms import PROPERTY, SELECTOR, WORKLOADS
from federator.placement.division.division import DIVIDERS
from federator.placement.selection.filters import FILTERS
from federator.placement.selection.scorers import SCORERS
from tests.reference import acts
from tests.reference.markdown import code, docstring, table
from tests.simulation import reasons as told
from tests.unit.placement import invariants as rules

SETTINGS = """\
# Settings

`federator hub` and `federator member` read a file (`--config FILE`) and variables of the environment
(`FEDERATOR_GROUP__NAME`, such as `FEDERATOR_HUB__BATCH_SIZE`), which win. `config/federator.yaml` is this page as
a file. `federator config show --config FILE` checks a file and prints what is in force; `federator config explain NAME`
prints the texts below. A group or name that does not exist is an error, and so is a value that no process could work
with. Times are in seconds unless the name says otherwise.
"""
METRICS = """\
# Metrics

Both processes serve `/metrics`, `/healthz` and `/readyz` on the status port ([settings](settings.md#serve)). Labels are
clusters, kinds, reasons and accounts, never names of workloads. The figures of workloads, copies, quota, clusters and
changes under way come from the hub that leads, which reads them every 15 seconds, and less
often in large fleets: about every 80 seconds with 100,000 workloads. What to alert on:
[operating](../operating/index.md#what-to-alert-on).
"""


def settings() -> str:
    parts = [SETTINGS]
    for group, kind in program_settings.groups().items():
        rows = [
            (
                code(f"{group}.{name}"),
                code(json.dumps(program_settings.defaults()[group][name])),
                text,
            )
            for name, _, text in config_command.documented(kind)
        ]
        parts += [f"## {group}", docstring(kind), table(("setting", "default", "meaning"), rows)]
    return "\n\n".join(part.strip() for part in parts)


def metrics() -> str:
    rows = [
        (code(row.name), row.kind.__name__.lower(), ", ".join(row.labels), row.help)
        for row in (*program_metrics.TABLE, *program_metrics.FIGURES)
    ]
    return METRICS + "\n" + table(("metric", "type", "labels", "meaning"), rows)


def filters() -> str:
    rows = [
        (
            code(name),
            docstring(row.judge),
            code(row.reason),
            "leaves at once"
            if row.evicts
            else "leaves when it has a place elsewhere"
            if row.moves
            else "stays",
        )
        for name, row in FILTERS.items()
    ]
    return table(
        ("filter", "keeps new copies out of a cluster that", "reason", "what is held there"), rows
    )


def kinds() -> str:
    rows = [
        (row.kind, *(str(say(row.verbs)) for say in acts.ACTS.values()))
        for row in registry.WORKLOADS.values()
        if row.verbs is not None
    ]
    meaning = table(("act", "what happens"), [(str(act), acts.MEANING[act]) for act in acts.Act])
    return (
        "# What becomes of each kind\n\n"
        "Runs of a PinterestCronJob are PinterestJobSets.\n\n"
        f"{meaning}\n\n{table(('kind', *map(str, acts.ACTS)), rows)}"
    )


def scorers() -> str:
    return table(
        ("scorer", "points"),
        [(code(name), docstring(t.points)) for name, t in SCORERS.items() if not t.preferred],
    )


def preferred_scorers() -> str:
    rows = [
        (code(name), docstring(term.points))
        for name, term in SCORERS.items()
        if term.preferred and name not in (PROPERTY, SELECTOR, WORKLOADS)
    ]
    return table(("scorer", "points"), rows)


def properties() -> str:
    rows = [
        (code(name), row.kind, "the last report" if row.reported else "operators", row.about)
        for name, row in PROPERTIES.items()
    ]
    rows += [
        (code(f"{prefix}.KEY"), Kind.TEXT, "operators", about)
        for prefix, (_, about) in PREFIXES.items()
    ]
    return table(("property", "values", "stated by", "what it is"), rows)


def dividers() -> str:
    rows = [
        (
            code(strategy),
            docstring(row.weigh),
            "all copies in each"
            if row.everywhere
            else "as few as possible"
            if row.fewest
            else "all that are chosen",
        )
        for strategy, row in DIVIDERS.items()
    ]
    return table(("strategy", "the weight of a cluster", "clusters"), rows)


def invariants() -> str:
    return table(
        ("rule", "says"), [(code(name), docstring(rule)) for name, rule in rules.INVARIANTS.items()]
    )


def reachability() -> str:
    rows = [
        (str(before), str(result), str(after)) for (before, result), after in TRANSITIONS.items()
    ]
    return table(("reachability", "probe result", "becomes"), rows)


def placement_reasons() -> str:
    return ", ".join(code(reason) for reason in Reason) + "."


def reasons() -> str:
    rows = [(place, ", ".join(code(one) for one in sorted(own))) for place, own in told.OWN.items()]
    borrowed = (
        ("anywhere: of placement", told.PLACEMENT),
        ("anywhere: of members and pods", told.MEMBERS),
        ("anywhere: of a write that failed", told.REFUSALS),
    )
    rows += [(place, ", ".join(code(one) for one in sorted(names))) for place, names in borrowed]
    return table(("where", "reasons"), rows)


def variables() -> str:
    rows = [
        (code(environment.PREFIX + name), meaning)
        for name, meaning in environment.VARIABLES.items()
    ]
    return table(("variable", "what it says"), rows)
