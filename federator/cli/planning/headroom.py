"""`federator headroom`: how many more copies of a shape fit, where, and what binds first, by the
scheduling cycle.

Of the federation as it is, for those who may read all that decisions depend on (operators), or of
files.
"""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from federator.cli import common
from federator.cli.planning import situations

if TYPE_CHECKING:
    from federator.advice.headroom import Addition, Headroom
    from federator.model.resources import Resources

SHAPE: Final = "1cpu,4Gi"
_PART: Final = re.compile(
    r"(?P<cpu>\d+(?:\.\d+)?m?)cpu"
    r"|(?P<memory>\d+(?:\.\d+)?(?:[KMGT]i?))B?"
    r"|(?P<gpu>\d+)gpu(?::(?P<model>[\w.-]+))?"
    r"|(?P<name>[a-z0-9./-]+)=(?P<amount>\d+)"
)
_ADDITION: Final = re.compile(r"(?P<cluster>[^=]+)=(?P<nodes>\d+)(?:x(?P<shape>.+))?")
NOT_A_SHAPE: Final = (
    "is no shape; one is like 4cpu,8Gi,1gpu:A100 (also 500mcpu, 512Mi, example.com/nic=1)"
)


@click.command()
@click.option(
    "--shape", default=SHAPE, show_default=True, help="Of one copy, such as 4cpu,8Gi,1gpu:A100."
)
@click.option(
    "--project",
    default="",
    help="The project with the quota and clusters that count (default: the namespace's name).",
)
@click.option(
    "--tier", default="OnDemand", show_default=True, help="Service class.",
    type=click.Choice(["Reserved", "OnDemand", "Preemptible"]),
)  # fmt: skip
@click.option(
    "-n",
    "--namespace",
    default="",
    help="The namespace of the policies that apply (default: one that the project may use).",
)
@click.option(
    "--scale-up", "scale_ups", multiple=True, metavar="CLUSTER=NODES[xSHAPE]",
    help=(
        "Further nodes that an autoscaler could add: like the best one there, or as the shape says"
        " (a=20x64cpu,256Gi)."
    ),
)  # fmt: skip
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="Files with the fleet, as for place; not the federation.",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.connection_options
def headroom(
    shape: str, project: str, tier: str, namespace: str, scale_ups: tuple[str, ...],
    files: tuple[str, ...], output: str, **given: str,
) -> None:  # fmt: skip
    """How many more copies of a shape would get a place, in which clusters, and what binds first.
    Nothing is written. Counts the nodes that the clusters' autoscalers can add, as spec.scaleUp of
    a MemberCluster states them; --scale-up adds others for trial."""
    from federator.advice import headroom as asking
    from federator.kinds import read
    from federator.model.ask import Tier

    requests, model = shape_of(shape, "--shape")
    additions = [_addition(text) for text in scale_ups]
    situation = situations.read(
        files,
        namespace,
        given,
        "headroom reads what all workloads hold. What one of yours would get: place --live",
    )
    if not situation.snapshot.clusters:
        common.fail("there is no MemberCluster, so there is nowhere to place anything")
    models = asking.models(situation.snapshot)
    if model and not any(
        asking.is_of(name, model) for name in (*models, *(name.gpu_model for name in additions))
    ):
        common.fail(
            f"no node has GPUs of model {model!r}; the fleet reports"
            f" {', '.join(models) or 'no model'}"
        )
    probe = asking.Probe(requests, model, project, namespace, Tier(tier))
    try:
        headroom = asking.headroom(situation, probe, additions)
    except read.InvalidObject as bad:
        common.fail(*map(str, bad.errors))
    except ValueError as bad:
        common.fail(str(bad))
    subject = shape + (f" of project {project}" if project else "")
    if output == "table":
        grows = bool(additions) or any(
            view.scale_up for view in situation.snapshot.clusters.values()
        )
        common.show(f"{sentence(headroom, subject, grows=grows)}\n\n{table(headroom, grows=grows)}")
    else:
        common.show(common.dump({"shape": shape, "project": project, **asdict(headroom)}, output))


def shape_of(text: str, option: str) -> "tuple[Resources, str]":
    """(requests, GPU model or "") of a shape. Ends the command for what is none."""
    from federator.model.kubernetes import quantity
    from federator.model.resources import GPU

    amounts: dict[str, str | int] = {}
    model = ""
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            common.fail(f"{option}: {part.strip()!r} of {text!r} {NOT_A_SHAPE}")
        name = next(name for name in ("cpu", "memory", "gpu", "name") if match[name] is not None)
        resource = {"gpu": GPU, "name": match["name"]}.get(name, name)
        if resource in amounts:
            common.fail(f"{option}: {text!r} names {name} twice")
        amounts[resource] = match["amount"] if name == "name" else match[name]
        model = match["model"] or model
    requests = quantity.vector(amounts, option)
    if not requests:
        common.fail(f"{option}: {text!r} asks for nothing, and that fits without end")
    return requests, model


def _addition(text: str) -> "Addition":
    from federator.advice.headroom import Addition

    match = _ADDITION.fullmatch(text)
    if match is None or not int(match["nodes"]):
        common.fail(
            f"--scale-up: {text!r} is not CLUSTER=NODES or CLUSTER=NODESxSHAPE, such as"
            " us-east-1a=20x64cpu,256Gi"
        )
    if match["shape"] is None:
        return Addition(match["cluster"], int(match["nodes"]))
    allocatable, model = shape_of(match["shape"], "--scale-up")
    return Addition(match["cluster"], int(match["nodes"]), allocatable, model)


def sentence(headroom: "Headroom", subject: str, *, grows: bool) -> str:
    rooms = sum(row.now > 0 for row in headroom.clusters)
    where = f"in {rooms} of {len(headroom.clusters)} clusters"
    more = f"{headroom.now:,} more copies of {subject} have a place now, {where}"
    if not headroom.now:
        more = f"no more copy of {subject} has a place now"
    grown = f", and {headroom.after:,} after the scale-up" if grows else ""
    return f"{more}{grown}; {headroom.binds} binds first: {headroom.because}"


def table(headroom: "Headroom", *, grows: bool) -> str:
    """One row for each cluster, those with most room first."""
    adds = any(row.adds for row in headroom.clusters)
    headers = [
        "CLUSTER",
        "NOW",
        *(["AFTER SCALE-UP"] if grows else []),
        *(["NODES TO ADD"] if adds else []),
        "BINDS",
    ]
    rows = [
        [
            row.cluster,
            f"{row.now:,}" if row.ever else "never",
            *([f"{row.after:,}" if row.ever else "never"] if grows else []),
            *([" and ".join(row.adds)] if adds else []),
            row.binds,
        ]
        for row in headroom.clusters
    ]
    return common.table(headers, rows)
