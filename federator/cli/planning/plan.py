"""`federator plan`: what edits of policies, quotas, clusters and workloads would come to, before
anybody makes them. Nothing is written anywhere.
"""

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import situations

if TYPE_CHECKING:
    from federator.hub.placing.offline import Id, Situation
    from federator.kinds.kind import Kind

TOO_MANY: Final = 12
"""Exit code when more copies move than `--max-moves`."""
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
    help="Compare the loss of each cluster before and after the change (default: yes).",
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
    "--out",
    default="",
    metavar="PLAN",
    help="Save the plan to this file, for federator apply PLAN.",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.leader_option
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
    out: str,
    *,
    losses: bool,
    **given: str,
) -> None:
    """Show what would happen if these objects were applied, deleted or lost: which copies leave
    which clusters, restart or wait, which workloads end short, what accounts use, and how long it
    takes. The leading hub computes it, with your own rights. Nothing is written.

    Exit 0: nothing changes. Exit 10: something moves. Exit 11: a workload ends shorter than it is
    now, its edit is held back, the loss of a cluster is no longer covered, or a PlacementInvariant
    breaks. Exit 12: more moves than --max-moves. Exit 1: an error.
    """
    where = namespace or (
        "default" if dump else common.default_namespace(given["kubeconfig"], given["context"])
    )
    if out and (lost or added):
        common.fail("--out: a plan with --lose or --add-cluster cannot be applied, so not saved")
    asked = _asked((files, added), (deleted, lost, scaled), where, losses=losses)
    if dump:
        document = _planned(situations.read(dump, where, given, ""), asked)
    else:
        document = common.run(_planned_by_leader(asked, given))
    for warning in document["warnings"]:
        common.say(f"warning: {warning}", err=True)
    verdict = document.pop("verdict")
    if out:
        _save(out, asked, document)
    if max_moves is not None and document["summary"]["moves"] > max_moves:
        verdict = TOO_MANY
    if output == "table":
        common.show(_rendered(document, max_moves))
    else:
        common.show(common.dump(document, output))
    sys.exit(verdict)


def _rendered(document: Mapping[str, Any], max_moves: int | None) -> str:
    """The plan as text for a terminal."""
    from federator.advice.plans import words

    shown = []
    for part in words.parts(document, max_moves=max_moves):
        if isinstance(part, words.Table):
            left = part.total - len(part.rows)
            more = f"\n... and {left} more {part.noun[left > 1]} (-o json)" if left else ""
            shown.append(common.table(list(part.headers), part.rows) + more)
        else:
            shown.append("\n".join(part))
    return "\n\n".join(shown)


async def _planned_by_leader(asked: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    from federator.cli.leader import asking

    async def ask(host: Any) -> dict[str, Any]:
        return await asking.plan(asked, given, host)

    return await common.with_federation(given["kubeconfig"], given["context"], ask)


def _save(path: str, asked: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    from federator import __version__
    from federator.advice.plans import saved

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(saved.as_text(asked, document, __version__))
    except OSError as trouble:
        common.fail(f"--out: {trouble}")
    common.say(f"saved: federator apply {path}", err=True)


def _planned(situation: "Situation", asked: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a plan on files."""
    from federator.advice.plans import asked as asking
    from federator.advice.plans import edits as editing
    from federator.process import forking

    many = len(situation.records) >= MANY
    each = functools.partial(forking.each, processes=forking.processors() if many else 1)
    try:
        return asking.document_of(situation, asked, each)
    except editing.Unplanned as bad:
        common.fail(str(bad))


def _asked(
    files: tuple[Sequence[str], Sequence[str]],
    named: tuple[Sequence[str], Sequence[str], Sequence[str]],
    namespace: str,
    *,
    losses: bool,
) -> dict[str, Any]:
    """What the options ask for, as `advice.plans.asked` reads it. Ends the command where they
    cannot be read."""
    from federator.cli.files import place

    (applied, added), (deleted, lost, scaled) = files, named
    objs = place.load(applied, namespace) if applied else []
    clusters = place.load(added, namespace) if added else []
    for obj in clusters:
        if obj["kind"] != "MemberCluster":
            title = f"{obj['kind']}/{obj['metadata']['name']}"
            common.fail(f"--add-cluster: {title} is no MemberCluster; give it with -f")
    if not (objs or clusters or deleted or lost or scaled):
        common.fail("name an edit: -f, --delete, --lose, --add-cluster or --scale")
    return {
        "applied": [*objs, *clusters],
        "deleted": [_which(text, "--delete", namespace) for text in deleted],
        "lost": list(lost),
        "scaled": [_count(text, namespace) for text in scaled],
        "losses": losses,
    }


def _which(text: str, option: str, namespace: str) -> "Id":
    kind, name = _named(text, option)
    return kind.kind, namespace if kind.namespaced else "", name


def _named(text: str, option: str) -> "tuple[Kind, str]":
    from federator.cli import views

    prefix, _, name = text.partition("/")
    if not prefix or not name:
        common.fail(f"{option}: {text!r} is not KIND/NAME, such as psvc/web or cpp/us-only")
    return views.kind_named(prefix), name


def _count(text: str, namespace: str) -> "tuple[Id, int]":
    before, _, amount = text.rpartition("=")
    if not (amount.isascii() and amount.isdecimal() and len(amount) < 10):
        common.fail(f"--scale: {text!r} is not KIND/NAME=COUNT, such as psvc/web=300")
    kind, name = _named(before, "--scale")
    if kind.verbs is None:
        common.fail(f"--scale: a {kind.kind} has no copies")
    return (kind.kind, namespace, name), int(amount)
