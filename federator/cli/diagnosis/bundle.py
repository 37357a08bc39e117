"""`federator support-bundle`: an archive of what support asks for first.

It reads objects, statuses, Events and Leases; never Secrets, and no data of ConfigMaps. Everything
passes `redaction`. The size is bounded.
"""

import asyncio
import dataclasses
import io
import json
import os
import tarfile
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator import __version__
from federator.cli import common
from federator.cli.diagnosis import doctor, redaction

if TYPE_CHECKING:
    from federator.kube.client import Client

OBJECTS_MAX = 500
"""Objects of one kind."""
ENTRY_MAX = 2 << 20
"""Bytes of one file in the archive."""
WHOLE_MAX = 40 << 20
"""Bytes of all of them."""
METRICS_MAX = 8 << 20
"""Bytes that are read of /metrics."""
METRICS_S = 15.0
FOLDER = "federator-support"

HOST_KINDS = (
    "MemberCluster",
    "FederatedQuota",
    "PlacementPolicy",
    "ClusterPlacementPolicy",
    "PlacementInvariant",
    "ClusterStandard",
    "RuntimeProfile",
    "SubmissionPolicy",
    "PlacementDecision",
)
STRICT = frozenset({"ClusterStandard", "RuntimeProfile"})
"""Of these, kinds with pods or manifests in their specs, as workloads have."""


@dataclass(slots=True)
class Archive:
    """The files of one archive, and what was left out of it."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """Adds a value as JSON, or a text as it is; redacted before."""
        if isinstance(value, str):
            lines = [redaction.text(line) for line in value.splitlines()]
            data = ("\n".join(lines) + "\n").encode()
        else:
            data = (json.dumps(value, indent=1, sort_keys=True, default=str) + "\n").encode()
        if len(data) > ENTRY_MAX:
            self.left_out.append(f"{name}: {len(data)} bytes, cut to {ENTRY_MAX}")
            data = data[:ENTRY_MAX]
        if sum(map(len, self.files.values())) + len(data) > WHOLE_MAX:
            self.left_out.append(f"{name}: the archive is full")
            return
        self.files[name] = data

    def written(self, now_s: float) -> bytes:
        """The archive, compressed."""
        contents = {"version": __version__, "files": sorted(self.files), "leftOut": self.left_out}
        files = {**self.files, "contents.json": (json.dumps(contents, indent=1) + "\n").encode()}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, data in sorted(files.items()):
                entry = tarfile.TarInfo(f"{FOLDER}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), int(now_s), 0o600
                archive.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()


@click.command(name="support-bundle")
@click.option(
    "-f",
    "--filename",
    "path",
    default="federator-support.tar.gz",
    show_default=True,
    help="The archive; it must not exist.",
)
@doctor.members_option
@click.option("--config", "config", default="", help="Also include this settings file of a hub.")
@click.option(
    "--metrics",
    "metrics_url",
    default="",
    metavar="URL",
    help="Also include what a hub says there: http://HOST:PORT/metrics of a port-forward.",
)
@common.connection_options
def support_bundle(
    path: str,
    clusters: tuple[str, ...],
    config: str,
    metrics_url: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Collect objects, statuses, Events, Leases, settings, metrics and the findings of `doctor` in
    an archive, without Secrets, values of variables and annotations. Look into it before you give
    it away."""
    if Path(path).exists():
        common.fail(f"{path} exists; name another file with -f")
    if metrics_url and urllib.parse.urlsplit(metrics_url).scheme not in ("http", "https"):
        common.fail(
            f"--metrics {metrics_url}: give an address that begins with http:// or https://"
        )
    archive = Archive()

    async def work() -> None:
        results = await doctor.examined(clusters, config, kubeconfig=kubeconfig, context=context)
        rows = [dataclasses.asdict(finding) for finding in results]
        archive.add(
            "doctor.json", [{k: redaction.text(str(v)) for k, v in row.items()} for row in rows]
        )
        await common.with_host(kubeconfig, context, lambda client: host_files(archive, client))
        for given in clusters:
            name, _, member_context = given.partition("=")

            async def at_member(client: "Client", name: str = name) -> None:
                await member_files(archive, client, f"members/{name}")

            await common.with_host(kubeconfig, member_context or name, at_member)
        if config:
            archive.add("settings.yaml", await asyncio.to_thread(Path(config).read_text, "utf-8"))
        if metrics_url:
            archive.add("metrics.txt", await _metrics(metrics_url))

    common.run(work())
    data = archive.written(time.time())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(data)
    common.say(f"{path}: {len(archive.files)} files, {len(data)} bytes")
    for left in archive.left_out:
        common.say(f"left out: {left}", err=True)


async def host_files(archive: Archive, client: "Client") -> None:
    """What the host holds of the federation."""
    from federator.kinds import registry

    await _version(archive, client, "host")
    for name in (*HOST_KINDS, *registry.WORKLOADS, *registry.RECURRING):
        kind = registry.KINDS[name]
        owners = name in STRICT or name not in HOST_KINDS
        await _objects(archive, client, "host", kind.api_version, kind.plural, strict=owners)
    await _common(archive, client, "host")


async def member_files(archive: Archive, client: "Client", folder: str) -> None:
    from federator.kinds import registry

    await _version(archive, client, folder)
    kind = registry.KINDS["ClusterCapacity"]
    await _objects(archive, client, folder, kind.api_version, kind.plural)
    await _common(archive, client, folder)


async def _common(archive: Archive, client: "Client", folder: str) -> None:
    system = "federator-system"
    await _objects(archive, client, folder, "coordination.k8s.io/v1", "leases", system)
    await _objects(archive, client, folder, "events.k8s.io/v1", "events")
    await _objects(archive, client, folder, "apiextensions.k8s.io/v1", "customresourcedefinitions")


async def _version(archive: Archive, client: "Client", folder: str) -> None:
    from federator.kube import errors

    try:
        archive.add(f"{folder}/version.json", await client.version())
    except errors.ApiError as trouble:
        archive.left_out.append(f"{folder}/version.json: {redaction.text(str(trouble))}")


async def _objects(
    archive: Archive,
    client: "Client",
    folder: str,
    api_version: str,
    plural: str,
    namespace: str = "",
    *,
    strict: bool = False,
) -> None:
    """Adds the objects of one kind, redacted; what cannot be read is left out, and that is said."""
    from federator.kube import errors

    name = f"{folder}/{plural}.json"

    def kept(obj: dict[str, Any]) -> Mapping[str, Any] | None:
        if plural == "customresourcedefinitions":
            return _definition(obj)
        return redaction.redacted(obj, strict=strict)

    try:
        objs = await client.collect(
            api_version, plural, kept, most=OBJECTS_MAX, namespace=namespace
        )
    except errors.ApiError as trouble:
        archive.left_out.append(f"{name}: {redaction.text(str(trouble))}")
        return
    if len(objs) == OBJECTS_MAX:
        archive.left_out.append(f"{name}: the first {OBJECTS_MAX} objects only")
    archive.add(name, objs)


def _definition(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Name, versions and conditions of one of our CustomResourceDefinitions: schemas are large."""
    name = str(obj["metadata"]["name"])
    if not name.endswith(".pinterest.com"):
        return None
    versions = [
        {key: version.get(key) for key in ("name", "served", "storage")}
        for version in obj["spec"].get("versions") or ()
    ]
    status = obj.get("status") or {}
    return {"name": name, "versions": versions, "conditions": status.get("conditions")}


async def _metrics(url: str) -> str:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=METRICS_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        if answer.status != 200:
            common.fail(f"{url} answers {answer.status}")
        data = await answer.content.read(METRICS_MAX)
    return data.decode("utf-8", "replace")
