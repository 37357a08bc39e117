"""`federator plan`: what edits of policies, quotas, clusters and workloads would come to, before
anybody makes them. Nothing is written anywhere.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import plantext, situations
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.advice.plans.edits import Edits
    from federator.hub.offline import Situation
    from federator.kinds.kind import Kind

INSTEAD: Final = "a plan reads what all workloads hold"
MANY: Final = 2000
"""With so many workloads all processors ask about losses."""


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="Objects to apply: file, directory (recursive), kustomization, or - for stdin.",
)
@click.option("--delete", "deleted", multiple=True, metavar="KIND/NAME", help="Delete this object.")
@click.option(
    "--lose",
    "lost",
    multiple=True,
    metavar="CLUSTER|KEY=VALUE",
    help="Lose this cluster, or all with this label.",
)
@click.option(
    "--add-cluster",
    "added",
    multiple=True,
    metavar="FILE",
    help="Add the MemberClusters of this file, with the nodes in status.capacity.",
)
@click.option(
    "--scale",
    "scaled",
    multiple=True,
    metavar="KIND/NAME=COUNT",
    help="Give this workload so many copies.",
)
@click.option(
    "--max-moves",
    type=click.IntRange(0),
    default=None,
    help="Exit with 12 when more copies move between clusters.",
)
@click.option(
    "--losses/--no-losses",
    default=True,
    help="Compare what the loss of each cluster comes to, now and then (default: yes).",
)
@click.option(
    "--dump",
    multiple=True,
    metavar="FILE",
    help="Plan on these objects, as for place, and not on the federation.",
)
@click.option(
    "-n", "--namespace", default="", help="Namespace of objects without one (the context's)."
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.connection_options
def plan(
    files: tuple[str, ...],
    deleted: tuple[str, ...],
    lost: tuple[str, ...],
    added: tuple[str, ...],
    scaled: tuple[str, ...],
    max_moves: int | None,
    dump: tuple[str, ...],
    namespace: str,
    output: str,
    *,
    losses: bool,
    **given: str,
) -> None:
    """Show what would happen if these objects were applied, deleted or lost: which copies leave
    which clusters, restart or wait, who ends short, what accounts use, and how long it takes.
    Nothing is written.

    Exit 0: nothing changes. Exit 10: something moves. Exit 11: a workload ends shorter than it is
    now, or the loss of a cluster is no longer covered. Exit 12: more moves than --max-moves. Exit
    1: an error.
    """
    from federator.advice.plans import edits as editing

    where = namespace or (
        "default" if dump else common.default_namespace(given["kubeconfig"], given["context"])
    )
    situation = situations.read(dump, where, given, INSTEAD)
    try:
        edits = _edits(situation, (files, added), (deleted, lost, scaled), where)
        document, verdict = _planned(situation, edits, max_moves, losses=losses)
    except editing.Unplanned as bad:
        common.fail(str(bad))
    for warning in document["warnings"]:
        common.say(f"warning: {warning}", err=True)
    if output == "table":
        common.show(plantext.rendered(document, max_moves))
    else:
        common.show(common.dump(document, output))
    sys.exit(verdict)


def _planned(
    situation: "Situation", edits: "Edits", max_moves: int | None, *, losses: bool
) -> tuple[dict[str, Any], int]:
    """The plan's document and the exit code. Raises `editing.Unplanned`."""
    import functools

    from federator.advice.plans import document, plan
    from federator.process import forking

    many = len(situation.records) >= MANY
    each = functools.partial(forking.each, processes=forking.processors() if many else 1)
    made = plan.plan(situation, edits, losses=losses, each=each)
    return document.of(made), int(made.verdict(max_moves))


def _edits(
    situation: "Situation",
    files: tuple[Sequence[str], Sequence[str]],
    named: tuple[Sequence[str], Sequence[str], Sequence[str]],
    namespace: str,
) -> "Edits":
    """What the options ask for. Ends the command where they cannot be read."""
    from federator.advice.plans.edits import Edits
    from federator.cli.files import place

    (applied, added), (deleted, lost, scaled) = files, named
    objs = place.load(applied, namespace) if applied else []
    clusters = place.load(added, namespace) if added else []
    for obj in clusters:
        title = f"{obj['kind']}/{obj['metadata']['name']}"
        if obj["kind"] != "MemberCluster":
            common.fail(f"--add-cluster: {title} is no MemberCluster; give it with -f")
        if obj["metadata"]["name"] in situation.snapshot.clusters:
            common.fail(f"--add-cluster: there is a cluster {title} already; edit it with -f")
    edits = Edits(
        (*objs, *clusters),
        tuple(_which(text, "--delete", namespace) for text in deleted),
        tuple(name for text in lost for name in _clusters(situation, text)),
        tuple(_count(text, namespace) for text in scaled),
    )
    if not edits:
        common.fail("name an edit: -f, --delete, --lose, --add-cluster or --scale")
    return edits


def _which(text: str, option: str, namespace: str) -> "tuple[str, str, str]":
    kind, name = _named(text, option)
    return kind.kind, namespace if kind.namespaced else "", name


def _named(text: str, option: str) -> "tuple[Kind, str]":
    from federator.cli import views

    prefix, _, name = text.partition("/")
    if not prefix or not name:
        common.fail(f"{option}: {text!r} is not KIND/NAME, such as psvc/web or cpp/us-only")
    return views.kind_named(prefix), name


def _count(text: str, namespace: str) -> Any:
    from federator.model.names import WorkloadKey

    before, _, amount = text.rpartition("=")
    if not (amount.isascii() and amount.isdecimal() and len(amount) < 10):
        common.fail(f"--scale: {text!r} is not KIND/NAME=COUNT, such as psvc/web=300")
    kind, name = _named(before, "--scale")
    if kind.verbs is None:
        common.fail(f"--scale: a {kind.kind} has no copies")
    return WorkloadKey(kind.kind, namespace, name), int(amount)


def _clusters(situation: "Situation", text: str) -> list[str]:
    """The clusters that `--lose` means."""
    label, equals, value = text.partition("=")
    views: Mapping[str, Any] = situation.snapshot.clusters
    if not equals:
        return [text]
    named = [name for name, view in views.items() if view.labels.get(label) == value]
    if not named:
        known = sorted({view.labels[label] for view in views.values() if label in view.labels})
        there = plaintext.clipped(", ".join(known)) or "no cluster with this label"
        common.fail(f"--lose: no cluster has the label {text}; there is {there}")
    return named
