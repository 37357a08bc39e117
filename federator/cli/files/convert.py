"""`federator convert FILE...`: converts Kubernetes manifests to Pinterest workloads, YAML on
stdout.

On stderr: what each workload was made from, notes about it, and every object left unconverted with
the reason. Exit 0 when every object is accounted for; 1 on bad input, with nothing on stdout.
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
@click.option("-R", "--recursive", is_flag=True, help="Read directories recursively.")
def convert(files: tuple[str, ...], output: str, recursive: bool) -> None:
    """Convert Deployments with their Services, Ingresses, ConfigMaps and ServiceAccounts to
    PinterestServices; Jobs, and JobSets of one template, to PinterestJobSets;
    other JobSets, and TrainJobs with their runtimes, to PinterestTrainingJobs; ClusterQueues,
    Cohorts and LocalQueues of Kueue to FederatedQuotas. FILE is a YAML or
    JSON file, a directory of such files, or - for stdin."""
    from federator.convert import convert as conversions
    from federator.convert.drafts import BadInput

    read = manifests.read(files, recursive=recursive, command="federator convert -")
    sources = [(manifest.origin, manifest.obj) for manifest in read]
    if not sources:
        common.fail("the files contain no object")
    try:
        conversion = conversions.convert(sources)
    except BadInput as bad:
        common.fail(*bad.sentences())
    if conversion.objects:
        common.show(rendered(conversion.objects, output))
    for line in report_lines(conversion, several=len({origin for origin, _ in sources}) > 1):
        common.say(line, err=True)


def rendered(objs: Sequence[Mapping[str, Any]], output: str) -> str:
    if output == "json":
        return common.dump({"apiVersion": "v1", "kind": "List", "items": list(objs)}, "json")
    return "\n---\n".join(common.dump(obj, "yaml") for obj in objs)


def report_lines(done: "Conversion", *, several: bool) -> list[str]:
    """The report lines for stderr; `several` adds the file name to objects left unconverted."""
    from federator.convert.drafts import Fate

    lines: list[str] = []
    sources: dict[str, list[str]] = {}
    for account in done.accounts:
        for title in account.into if account.fate is not Fate.KEPT else ():
            sources.setdefault(title, []).append(account.title)
    lines += [f"converted {title}: from {', '.join(parts)}" for title, parts in sources.items()]
    lines += [
        f"kept      {account.title}" for account in done.accounts if account.fate is Fate.KEPT
    ]
    lines += [f"note      {note.title}: {note.text}" for note in done.notes]
    for account in done.accounts:
        if account.fate is Fate.LEFT:
            where = f" ({account.origin})" if several else ""
            lines.append(f"left      {account.title}{where}: {account.reason}")
    count = {fate: sum(account.fate is fate for account in done.accounts) for fate in Fate}
    kept = f"{count[Fate.KEPT]} kept as they are, " if count[Fate.KEPT] else ""
    lines.append(
        f"{len(done.accounts)} objects: {count[Fate.CONVERTED]} converted, {count[Fate.ABSORBED]}"
        f" absorbed, {kept}"
        f"{count[Fate.LEFT]} left alone"
    )
    return lines
