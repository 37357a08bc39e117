"""Comparing a cluster with the ClusterStandards that are for it, and bringing it up to them.

What an object of a standard would change is asked of the cluster's own API server: a server-side
apply that is not carried out. What the server adds to it by itself is thereby no difference.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from federator.api import clusterstandard, raw
from federator.api.clusterstandard import Standard
from federator.cli.clusters.joining import Finding
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.discovery import Resource
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

MANAGER: Final = "federator-standard"
"""The field manager: what a standard said once and says no longer is removed by the next apply."""
SERVED_WITHIN_S: Final = 60.0
"""How long a kind may take to be served after its definition was applied."""
AGAIN_S: Final = 1.0
"""Between two looks at what is waited for."""
SHOWN: Final = 4
"""Fields that differ, named of one object; things that are named when they are waited for."""
SERVERS_OWN: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


async def of_cluster(host: Client, labels: Mapping[str, str]) -> list[Standard]:
    """The standards that are for a cluster with these labels, by name; none where the host does not
    serve the kind yet."""
    row = registry.KINDS[clusterstandard.KIND]
    try:
        listed = (await host.list(row.api_version, row.plural)).items
    except errors.NotFound:
        return []
    standards = []
    for obj in sorted(listed, key=lambda obj: raw.text(obj, "metadata", "name")):
        try:
            if clusterstandard.covers(obj, labels):
                standards.append(clusterstandard.to_standard(obj))
        except FieldError as bad:
            name = raw.text(obj, "metadata", "name")
            raise errors.Invalid(f"ClusterStandard {name}: {bad}") from bad
    return standards


async def compare(client: Client, standards: Sequence[Standard]) -> list[Finding]:
    """One finding for everything that the standards ask of this cluster."""
    client = _as_manager(client)
    served = await _kinds(client)
    findings: list[Finding] = []
    for standard in standards:
        for manifest in standard.manifests:
            findings.append(await _object(client, standard, manifest, served))
        findings += await _at_work(client, standard, served)
    return findings


async def until_at_work(
    client: Client, standards: Sequence[Standard], within_s: float, say: Callable[[str], None]
) -> None:
    """Waits for so long at most until the kinds that the standards ask for are served, their
    daemons ready and their probes answered: what was applied a moment ago takes its time. `say` is
    told once what it waits for. Whether that came about, `compare` says."""
    deadline_s = asyncio.get_running_loop().time() + within_s
    silent = True
    while True:
        served = await _kinds(client)
        findings = [await _at_work(client, standard, served) for standard in standards]
        lacking = [finding for each in findings for finding in each if not finding.ok]
        if not lacking or asyncio.get_running_loop().time() >= deadline_s:
            return
        if silent:
            shown = "; ".join(f"{each.subject} ({each.message})" for each in lacking[:SHOWN])
            more = f"; and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
            say(f"waiting at most {within_s:g} s for {shown}{more}")
            silent = False
        await asyncio.sleep(AGAIN_S)


async def _kinds(client: Client) -> dict[tuple[str, str], Resource]:
    return {(resource.api_version, resource.kind): resource for resource in await client.discover()}


async def _at_work(
    client: Client, standard: Standard, served: Mapping[tuple[str, str], Resource]
) -> list[Finding]:
    """What has to be there beside the objects of the standard, wherever it comes from."""
    findings: list[Finding] = []
    for api_version, kind in standard.served:
        there = (api_version, kind) in served
        said = "served" if there else "not served"
        findings.append(Finding(f"{standard.name}: {api_version} {kind}", there, said))
    for namespace, name in standard.daemons:
        findings.append(await _daemon(client, standard, namespace, name))
    for name, path in standard.probes:
        findings.append(await _probe(client, standard, name, path))
    return findings


async def conform(client: Client, standards: Sequence[Standard]) -> AsyncIterator[str]:
    """Applies what differs, in the order of the standards; yields each object that was applied.
    Raises ApiErrors, and FieldError for an object without a name; what came before it stays."""
    client = _as_manager(client)
    for standard in standards:
        for manifest in standard.manifests:
            resource = await _served(client, manifest)
            ref = _ref(standard, manifest, resource)
            live = await _live(client, ref)
            if live is not None and not _differences(live, await _apply(client, ref, manifest)):
                continue
            await client.patch(ref, _named(manifest), kind="apply", force=True)
            yield _title(manifest)
            if resource.kind == "CustomResourceDefinition":
                await _wait_served(client, manifest)


def _as_manager(client: Client) -> Client:
    return Client(client.transport, client.cluster, field_manager=MANAGER)


async def _object(
    client: Client,
    standard: Standard,
    manifest: Mapping[str, Any],
    served: Mapping[tuple[str, str], Resource],
) -> Finding:
    subject = f"{standard.name}: {_title(manifest)}"
    resource = served.get((raw.text(manifest, "apiVersion"), raw.text(manifest, "kind")))
    if resource is None:
        return Finding(subject, False, "its kind is not served")
    try:
        ref = _ref(standard, manifest, resource)
        live = await _live(client, ref)
        if live is None:
            return Finding(subject, False, await _why_missing(client, ref, manifest))
        different = _differences(live, await _apply(client, ref, manifest))
    except (errors.ApiError, FieldError) as trouble:
        return Finding(subject, False, str(trouble))
    if not different:
        return Finding(subject, True, "as the standard says")
    shown = ", ".join(different[:SHOWN])
    more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
    return Finding(subject, False, f"differs in {shown}{more}")


async def _why_missing(client: Client, ref: ObjectRef, manifest: Mapping[str, Any]) -> str:
    try:
        await _apply(client, ref, manifest)
    except errors.NotFound:
        return "missing"  # as its namespace is, which an earlier object of the standard makes
    except errors.ApiError as trouble:
        return f"missing, and refused: {trouble}"
    return "missing"


async def _daemon(client: Client, standard: Standard, namespace: str, name: str) -> Finding:
    subject = f"{standard.name}: DaemonSet {namespace}/{name}"
    live = await _live(client, ObjectRef("apps/v1", "daemonsets", namespace, name, "DaemonSet"))
    if live is None:
        return Finding(subject, False, "missing")
    ready = raw.integer(live, "status", "numberReady")
    desired = raw.integer(live, "status", "desiredNumberScheduled")
    observed = raw.integer(live, "status", "observedGeneration")
    if observed < raw.integer(live, "metadata", "generation"):
        return Finding(subject, False, "its controller has not acted on it yet")
    return Finding(subject, ready >= desired, f"ready on {ready} of {desired} nodes")


async def _probe(client: Client, standard: Standard, name: str, path: str) -> Finding:
    subject, (bare, _, query) = f"{standard.name}: {name}", path.partition("?")
    pairs = tuple(
        (key, value) for key, _, value in (part.partition("=") for part in query.split("&") if part)
    )
    try:
        await client.raw("GET", bare, query=pairs)
    except errors.ApiError as trouble:
        return Finding(subject, False, f"{path}: {trouble}")
    return Finding(subject, True, f"{path} answers")


async def _served(client: Client, manifest: Mapping[str, Any]) -> Resource:
    """The kind of a manifest; a definition that was applied a moment ago is served by now."""
    wanted = raw.text(manifest, "apiVersion"), raw.text(manifest, "kind")
    resource = (await _kinds(client)).get(wanted)
    if resource is not None:
        return resource
    raise errors.NotFound(f"{_title(manifest)}: its kind is not served")


def _ref(standard: Standard, manifest: Mapping[str, Any], resource: Resource) -> ObjectRef:
    name = raw.text(manifest, "metadata", "name")
    namespace = raw.text(manifest, "metadata", "namespace")
    if not name:
        raise FieldError("metadata.name", f"{standard.name}: {_title(manifest)} has no name")
    if resource.namespaced != bool(namespace):
        needs = "needs a namespace" if resource.namespaced else "has no namespace"
        raise FieldError(
            "metadata.namespace", f"{standard.name}: {_title(manifest)}: its kind {needs}"
        )
    return ObjectRef(resource.api_version, resource.plural, namespace, name, resource.kind)


async def _live(client: Client, ref: ObjectRef) -> Mapping[str, Any] | None:
    try:
        return await client.get(ref)
    except errors.NotFound:
        return None


async def _apply(client: Client, ref: ObjectRef, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the object would be; nothing is changed."""
    return await client.patch(ref, _named(manifest), kind="apply", force=True, dry_run=True)


def _named(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object as it is applied; its status is the cluster's own affair."""
    return {field: value for field, value in manifest.items() if field != "status"}


def _differences(live: Mapping[str, Any], would: Mapping[str, Any]) -> list[str]:
    """Paths of the fields that an apply would change."""
    return sorted(_paths(_compared(live), _compared(would), ""))


def _compared(obj: Mapping[str, Any]) -> dict[str, Any]:
    meta = {field: value for field, value in obj["metadata"].items() if field not in SERVERS_OWN}
    return {**{field: value for field, value in obj.items() if field != "status"}, "metadata": meta}


def _paths(live: object, would: object, path: str) -> list[str]:
    if isinstance(live, Mapping) and isinstance(would, Mapping):
        different: list[str] = []
        for field in sorted({*live, *would}):
            inner = f"{path}.{field}" if path else str(field)
            different += _paths(live.get(field), would.get(field), inner)
        return different
    if isinstance(live, list) and isinstance(would, list) and len(live) == len(would):
        pairs = enumerate(zip(live, would, strict=True))
        return [at for number, (a, b) in pairs for at in _paths(a, b, f"{path}[{number}]")]
    return [] if live == would else [path]


async def _wait_served(client: Client, manifest: Mapping[str, Any]) -> None:
    group, kind = (
        raw.text(manifest, "spec", "group"),
        raw.text(manifest, "spec", "names", "kind"),
    )
    try:
        async with asyncio.timeout(SERVED_WITHIN_S):
            while not any(  # noqa: ASYNC110 - an API server has no event for it
                resource.kind == kind and resource.api_version.startswith(f"{group}/")
                for resource in await client.discover()
            ):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise errors.NotFound(
            f"{_title(manifest)} was applied, and {kind} is not served after {SERVED_WITHIN_S:g} s"
        ) from None


def _title(manifest: Mapping[str, Any]) -> str:
    namespace = raw.text(manifest, "metadata", "namespace")
    name = raw.text(manifest, "metadata", "name")
    return f"{raw.text(manifest, 'kind')} {f'{namespace}/' if namespace else ''}{name}"
