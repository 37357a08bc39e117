"""`federator diff`: what is decided beside what clusters report, or what a file of workloads and
policies changes: copies of each cluster, and native objects as a unified diff. Nothing is written.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import situations

if TYPE_CHECKING:
    from federator.hub.placing.offline import Situation
    from federator.model.names import WorkloadKey

DIFFERS: Final = 10
"""Exit code when anything differs."""
FIGURES: Final = ("actual", "ready", "updated")
"""Fields of a cluster's row in the status: copies that exist, are ready, have the present
template."""
INSTEAD: Final = "a diff reads what all workloads hold. One of yours: explain, or plan -f"


@click.command()
@click.argument("workload", metavar="[KIND/NAME]", default="")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="Workloads and placement policies to apply: file, directory (recursive), kustomization, or"
    " - for stdin.",
)
@click.option(
    "--dump",
    multiple=True,
    metavar="FILE",
    help="Read these objects, as for place, and not the federation.",
)
@click.option(
    "-n", "--namespace", default="", help="Namespace of objects without one (the context's)."
)
@common.connection_options
def diff(
    workload: str, files: tuple[str, ...], dump: tuple[str, ...], namespace: str, **given: str
) -> None:
    """Compare what is decided on a workload with what its clusters report (KIND/NAME), or what runs
    with what these files would make of it (-f): copies per cluster, and the native objects as a
    unified diff. Nothing is written.

    Exit 0: nothing differs. Exit 10: something differs. Exit 1: an error.
    """
    if bool(workload) == bool(files):
        common.fail("name one workload, such as psvc/web, or files with -f")
    where = namespace or (
        "default" if dump else common.default_namespace(given["kubeconfig"], given["context"])
    )
    situation = situations.read(dump, where, given, INSTEAD)
    if workload:
        shown = _decided(situation, _key(situation, workload, where))
    else:
        shown = _edited(situation, files, where)
    common.show(shown or "Nothing differs.")
    sys.exit(DIFFERS if shown else 0)


def _key(situation: "Situation", workload: str, namespace: str) -> "WorkloadKey":
    from federator.cli import views
    from federator.model.names import WorkloadKey

    prefix, _, name = workload.partition("/")
    kind = views.kind_named(prefix)
    if kind.verbs is None or not name:
        common.fail(f"name a workload ({views.WORKLOADS}), such as psvc/web")
    key = WorkloadKey(kind.kind, namespace, name)
    if key not in situation.workloads:
        common.fail(f'{kind.plural} "{name}" not found in namespace {namespace}')
    return key


def _decided(situation: "Situation", key: "WorkloadKey") -> str:
    """A row for every cluster that reports something else than it was given; "" for none."""
    from federator.api import raw
    from federator.model.ask import Unit
    from federator.model.fleet import copies_of

    record = situation.records.get(key)
    shares = record.shares if record is not None else ()
    wanted = {share.cluster: copies for share in shares if (copies := copies_of(share))}
    workload = situation.workloads[key]
    counted = workload.verbs.unit is Unit.REPLICAS
    reported = {
        raw.text(row, "cluster"): row
        for row in raw.objects(workload.live_status(), "clusterStatuses")
    }
    rows = []
    for name in sorted({*wanted, *reported}):
        row, copies = reported.get(name), wanted.get(name, 0)
        figures = [raw.integer(row or {}, field) for field in FIGURES] if counted else []
        unknown = row is not None and row.get("known") is False
        why = raw.text(row or {}, "reason") or ("" if row else "NotReported")
        if why or unknown or any(figure != copies for figure in figures):
            shown = [str(figure) for figure in figures] or ["-"] * len(FIGURES)
            rows.append([name, str(copies), *shown, why or ("ClusterUnknown" if unknown else "")])
    headers = ["CLUSTER", "DECIDED", "EXIST", "READY", "UPDATED", "REASON"]
    return common.table(headers, rows) if rows else ""


def _edited(situation: "Situation", files: tuple[str, ...], namespace: str) -> str:
    """What the files change; "" for nothing."""
    from federator.advice.plans import natives, plan
    from federator.advice.plans.edits import POLICIES, Edits, Unplanned
    from federator.cli.files import place
    from federator.hub.placing import offline
    from federator.kinds import registry
    from federator.model.errors import FieldError
    from federator.model.names import WorkloadKey

    objs = place.load(files, namespace)
    other = next((o for o in objs if o["kind"] not in (*registry.WORKLOADS, *POLICIES)), None)
    if other is not None or not objs:
        common.fail(
            "the files may contain workloads and placement policies only; federator plan takes all"
            " kinds"
        )
    try:
        made = plan.plan(situation, Edits(tuple(objs)), losses=False)
        parts: list[str] = []
        keys = [WorkloadKey(*offline.id_of(o)) for o in objs if o["kind"] in registry.WORKLOADS]
        for key in dict.fromkeys((*keys, *_concerned(situation, made.situation))):
            if problem := made.situation.workloads[key].problem:
                common.fail(f"{key}: {problem}")
            before, after = natives.of(situation, key), natives.of(made.situation, key)
            parts += [_shares(key, situation, made.situation)]
            parts += [
                f"# {key} in {', '.join(clusters)}\n{text}"
                for clusters, text in natives.unified(before, after, _written)
            ]
    except (Unplanned, FieldError) as bad:
        common.fail(str(bad))
    return "\n\n".join(part for part in parts if part)


def _concerned(present: "Situation", then: "Situation") -> list["WorkloadKey"]:
    """Workloads of which a policy says otherwise than at present."""
    asks = (
        (key, present.ask_of(present.workloads[key]), then.ask_of(workload))
        for key, workload in sorted(then.workloads.items())
        if key in present.workloads
    )
    return [key for key, now, edited in asks if now and edited and now.policy != edited.policy]


def _shares(key: "WorkloadKey", present: "Situation", then: "Situation") -> str:
    from federator.model.fleet import copies_of

    def of(situation: "Situation") -> dict[str, int]:
        record = situation.records.get(key)
        return {share.cluster: copies_of(share) for share in record.shares} if record else {}

    before, after = of(present), of(then)
    rows = [
        [str(key), name, str(before.get(name, 0)), str(after.get(name, 0))]
        for name in sorted({*before, *after})
        if before.get(name, 0) != after.get(name, 0)
    ]
    return common.table(["WORKLOAD", "CLUSTER", "NOW", "THEN"], rows) if rows else ""


def _written(native: Mapping[str, Any]) -> str:
    return common.dump(native, "yaml")
