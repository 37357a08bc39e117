"""`federator convert FILE...`: Kubernetes manifests to Pinterest workloads, as YAML on stdout.

On stderr: what each workload was made from, what to know about it, and every object that was left alone with the
reason. Exit 0 when every object is accounted for, 1 on bad input, with nothing on stdout.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.files import manifests

if TYPE_CHECKING:
    from federator.convert.convert import Conversion


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", default="yaml", type=click.Choice(["yaml", "json"]), help="Format.")
@click.option("-R", "--recursive", is_flag=True, help="Read directories with all that is below them.")
def convert(files: tuple[str, ...], output: str, recursive: bool) -> None:
    """Turn Deployment, Service, Ingress, ConfigMap and ServiceAccount into PinterestServices, Jobs and JobSets of one
    template into PinterestJobSets. FILE is a YAML or JSON file, a directory of them, or - for stdin."""
    from federator.convert import convert as conversions
    from federator.convert.drafts import BadInput

    read = manifests.read(files, recursive=recursive, command="federator convert -")
    given = [(one.origin, one.obj) for one in read]
    if not given:
        common.fail("the files hold no object")
    try:
        done = conversions.convert(given)
    except BadInput as bad:
        common.fail(*bad.sentences())
    if done.objects:
        common.show(rendered(done.objects, output))
    for line in told(done, several=len({origin for origin, _ in given}) > 1):
        common.say(line, err=True)


def rendered(objs: Sequence[Mapping[str, Any]], output: str) -> str:
    if output == "json":
        return common.dump({"apiVersion": "v1", "kind": "List", "items": list(objs)}, "json")
    return "\n---\n".join(common.dump(obj, "yaml") for obj in objs)


def told(done: "Conversion", *, several: bool) -> list[str]:
    """The lines for stderr; files are named where there are several."""
    from federator.convert.drafts import Fate

    lines: list[str] = []
    sources: dict[str, list[str]] = {}
    for account in done.accounts:
        for title in account.into if account.fate is not Fate.KEPT else ():
            sources.setdefault(title, []).append(account.title)
    lines += [f"converted {title}: from {', '.join(parts)}" for title, parts in sources.items()]
    lines += [f"kept      {account.title}" for account in done.accounts if account.fate is Fate.KEPT]
    lines += [f"note      {note.title}: {note.text}" for note in done.notes]
    for account in done.accounts:
        if account.fate is Fate.LEFT:
            where = f" ({account.origin})" if several else ""
            lines.append(f"left      {account.title}{where}: {account.reason}")
    count = {fate: sum(account.fate is fate for account in done.accounts) for fate in Fate}
    kept = f"{count[Fate.KEPT]} kept as they are, " if count[Fate.KEPT] else ""
    lines.append(
        f"{len(done.accounts)} objects: {count[Fate.CONVERTED]} converted, {count[Fate.ABSORBED]} absorbed, {kept}"
        f"{count[Fate.LEFT]} left alone"
    )
    return lines
