"""`federator record FILE.yaml`: makes a scenario of a live federation, for `federator simulate`.

Reads the host's objects, and each workload's history from the leading hub, with the caller's
rights. Exit 1: there is nothing to record, or it cannot be read; the file is then as it was before.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from federator.cli import common
from federator.cli.files.situations import READ
from federator.kube import kubeyaml

if TYPE_CHECKING:
    from federator.cli.leader.asking import Port
    from federator.kinds.kind import Kind
    from federator.kube.client import Client
    from federator.model.names import WorkloadKey
    from federator.simulate.recorder import History

ENTRIES: Final = 1000
"""The newest entries of a workload that are read: as many as the leader tells of at once."""


@click.command()
@click.argument("path", metavar="FILE.yaml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@common.leader_option
@common.connection_options
def record(path: Path, leader_address: str, *, force: bool, **connection: str) -> None:
    """Record a live federation as a scenario: its fleet, policies, quotas, workloads, and the
    decisions about them from the leader's history.

    `federator simulate FILE.yaml` replays it and says whether it decides the same.
    """
    from federator.simulate import recorder

    if path.exists() and not force:
        common.fail(f"{path} exists; use --force to replace it")
    kubeconfig, context = connection["kubeconfig"], connection["context"]

    async def work(host: "Client") -> Any:
        return await _read(host, kubeconfig, context, leader_address)

    objs, histories = common.run(common.with_federation(kubeconfig, context, work))
    try:
        document = {"name": path.stem, **recorder.document(objs, histories, time.time())}
    except recorder.NothingToRecord as why:
        common.fail(str(why))
    decisions = _checked(document, path)
    _write(path, document)
    recording = document["demand"]["recording"]
    for sentence in recording["notes"]:
        common.say(f"note: {sentence}", err=True)
    common.say(
        f"{len(recording['works'])} workloads with {decisions} decisions are in {path};"
        f" federator simulate {path} replays them"
    )


async def _read(
    host: "Client", kubeconfig: str, context: str, address: str
) -> "tuple[list[Any], dict[WorkloadKey, History]]":
    """The host's objects, and the history of each workload."""
    from federator.cli.leader import asking
    from federator.kinds import registry
    from federator.kube import errors
    from federator.simulate import recorder

    objs: list[Any] = []
    workloads: list[tuple[Kind, Any]] = []
    try:
        for name in (*READ, "PlacementDecision", *registry.WORKLOADS):
            row = registry.KINDS[name]
            try:
                objects = (await host.list(row.api_version, row.plural)).items
            except errors.NotFound:
                continue  # a host without Deployments
            # Items of a list need not say what they are.
            marked = [{"apiVersion": row.api_version, "kind": row.kind, **obj} for obj in objects]
            objs += marked
            workloads += [(row, obj) for obj in marked if name in registry.WORKLOADS]
        listed = (await host.list("v1", "namespaces")).items
        objs += [{"apiVersion": "v1", "kind": "Namespace", **obj} for obj in listed]
    except errors.Denied as why:
        common.fail(f"{why}; record reads all workloads, and everything that decisions depend on")
    histories: dict[WorkloadKey, History] = {}
    if not workloads:
        return objs, histories
    async with asking.Leader(kubeconfig, context, address).opened(host) as port:
        for kind, obj in workloads:
            histories[recorder.key_of(kind.kind, obj)] = await _history(port, kind, obj)
    return objs, histories


async def _history(port: "Port", kind: "Kind", obj: Any) -> "History":
    from federator.simulate.recorder import History

    meta = obj["metadata"]
    parts = (str(meta.get("namespace") or ""), kind.plural, str(meta["name"]), "history")
    answer = await port.ask(parts, (("limit", str(ENTRIES)),))
    return History(
        entries=answer.get("entries") or (),
        more=bool(answer.get("more")),
        begins=answer.get("begins"),
    )


def _checked(document: dict[str, Any], path: Path) -> int:
    """Reads the recording as `simulate` will; returns its number of decisions. Exits with an error
    when it could not be replayed."""
    from federator.simulate.scenario import loading

    try:
        return len(loading.inputs(document, path, os.environ).recorded)
    except loading.InvalidScenario as bad:
        common.fail(*(f"the federation cannot be replayed: {error}" for error in bad.errors))


def _write(path: Path, document: dict[str, Any]) -> None:
    """Writes the whole file, or nothing. For its owner only, as histories are."""
    text = yaml.dump(
        document, Dumper=kubeyaml.Dumper, sort_keys=False, allow_unicode=True, width=100
    )
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as trouble:
        common.fail(f"{path} cannot be written: {trouble.strerror}")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError as trouble:
        Path(name).unlink(missing_ok=True)
        common.fail(f"{path} cannot be written: {trouble.strerror}")
