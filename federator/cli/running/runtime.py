"""`federator runtime`: what runs inside the pods of workloads. Nothing else of the federation is
imported here."""

import asyncio
import functools
import json
from pathlib import Path
from typing import Any, Final

import click

from federator.runtime import fencing, running
from federator.runtime.parts import Part
from federator.runtime.roles import BadSetting, Pod, made

ASK_S: Final = 5.0
BODY_MAX: Final = 1 << 20
PROBES = "FEDERATOR_GUARD_PROBES"
"""Variable with the probes of the pod's containers, as JSON: container -> livenessProbe,
startupProbe."""


@click.group(invoke_without_command=True)
@click.option(
    "--roles",
    default="",
    help="Parts to run, separated by commas: identity, secrets, config, traffic, logs, metrics."
    " Everything else is set by variables of the container.",
)
@click.option("--init", is_flag=True, help="Only prepare the parts, then exit.")
@click.option("--port", default=running.PORT, show_default=True, help="Port of the sidecar.")
@click.option("--host", default="", help="Address to listen on (default: all of the pod).")
@click.option("--state", default="", help="Folder of the state file, shared in the pod.")
@click.option(
    "--within",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="With --init: seconds after which it gives up with the reason, to be started again.",
)
@click.pass_context
def runtime(
    ctx: click.Context, roles: str, init: bool, port: int, host: str, state: str, within: float
) -> None:
    """Run what supports workloads inside their pods.

    With --roles and --init it is the init run of a pod, with --roles alone the sidecar: it serves
    /healthz, /readyz, /state and /drain, and ends at SIGTERM after a drain. The runtime profile
    starts both."""
    if ctx.invoked_subcommand is not None:
        if roles:
            raise click.UsageError("--roles stands alone, without a command")
        return
    if not roles:
        raise click.UsageError("name --roles, or a command (--help lists them)")
    pod, folder = Pod(), Path(state) if state else None
    try:
        parts = roles_of(roles, pod)
    except BadSetting as bad:
        running.terminated(str(bad), pod.env.get(running.TERMINATION, ""))
        raise click.ClickException(str(bad)) from None
    if init:
        ctx.exit(running.main(lambda stop: running.run_init(parts, pod, folder, within, stop)))
    sidecar = running.Sidecar(parts, pod, folder)

    async def beside(stop: asyncio.Event) -> int:
        await sidecar.run(host or None, port, stop)
        return 0

    try:
        ctx.exit(running.main(beside))
    except OSError as bad:
        raise click.ClickException(f"cannot listen on port {port}: {bad}") from None


def roles_of(text: str, pod: Pod) -> list[Part]:
    """The parts named in the option. Raises BadSetting."""
    return made([name.strip() for name in text.split(",") if name.strip()], pod)


@runtime.command()
@click.option("--port", default=running.PORT, show_default=True, help="Port of the sidecar.")
@click.option("--state", default="", help="Folder of the state file, read if nothing answers.")
@click.option("--json", "as_json", is_flag=True, help="Print the document as JSON.")
@click.pass_context
def check(ctx: click.Context, port: int, state: str, as_json: bool) -> None:
    """Show what works of this pod's runtime, and what does not. Run it in the pod.

    Exit status 0: all parts are ready; 1: some are not; 2: no runtime answers."""
    from federator.cli import common

    try:
        state_now, note = asked(port, Path(state) if state else None)
    except NoRuntime as bad:
        common.fail(str(bad), code=2)
    if note:
        common.say(note, err=True)
    if as_json:
        common.data(json.dumps(state_now, indent=2) + "\n")
    else:
        rows = [("PART", "READY", "REASON", "MESSAGE")]
        for each in state_now["parts"]:
            ready = "yes" if each["ready"] else "no"
            rows.append((each["part"], ready, each["reason"], each["message"]))
        columns = common.widths(rows)
        common.show("\n".join(common.aligned(row, columns) for row in rows))
    ctx.exit(0 if state_now.get("ready") is True and not note else 1)


class NoRuntime(Exception):
    """Neither the sidecar nor its file can be read; the message says why."""


def asked(port: int, folder: Path | None) -> tuple[dict[str, Any], str]:
    """What the sidecar of this pod says, and ""; without it what the last one left in its file,
    and a note about that. Raises NoRuntime."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S)
    try:
        connection.request("GET", "/state")
        return _read(connection.getresponse().read(BODY_MAX)), ""
    except (OSError, http.client.HTTPException, ValueError) as bad:
        trouble = f"the sidecar does not answer at port {port}: {bad}"
    finally:
        connection.close()
    if folder is None:
        raise NoRuntime(trouble)
    path = folder / running.STATE_FILE
    try:
        return _read(path.read_bytes()), f"{trouble}; this is what {path} says"
    except (OSError, ValueError) as bad:
        raise NoRuntime(f"{trouble}; and {path} cannot be read: {bad}") from None


def _read(body: bytes) -> dict[str, Any]:
    """Raises ValueError for what is not the state of a runtime."""
    read = json.loads(body)
    if not isinstance(read, dict) or not isinstance(read.get("parts"), list):
        raise ValueError("the answer is not that of a runtime")
    return read


@runtime.command()
@click.option("--port", default=15180, show_default=True, help="Port of /healthz.")
@click.option("--wait", is_flag=True, help="Only wait until the guard at the port says 200.")
@click.option("--host", default="", help="Address to listen on (default: all of the pod).")
@click.option(
    "--server",
    default="",
    help="Address of the API server, http[s]://HOST:PORT (default: that of the pod's cluster).",
)
@click.option(
    "--access",
    default="/var/run/secrets/kubernetes.io/serviceaccount",
    show_default=True,
    help="Folder with token and ca.crt.",
)
@click.option("--namespace", default="federator-system", help="Namespace of the lease.")
@click.option("--state", default="", help="Folder in which a restarted guard finds what was read.")
def guard(
    port: int, wait: bool, host: str, server: str, access: str, namespace: str, state: str
) -> None:
    """Guard a pod: answer liveness probes by the lease of its cluster.

    A sidecar of every pod of an Exclusive job set with `guard`. /healthz answers 200 while the
    cluster's lease is good and 503 otherwise; /healthz/CONTAINER also asks that container's own
    probes."""
    from federator.runtime import guard as guards
    from federator.runtime import reading

    if wait:
        guards.main(guards.wait(port))
        return
    try:
        source = (
            reading.at(server, access, namespace, fencing.LEASE)
            if server
            else reading.of_pod(access, namespace, fencing.LEASE)
        )
        probes = guards.written_probes(PROBES)
    except (reading.Unread, ValueError) as bad:
        raise click.ClickException(str(bad)) from None
    read = functools.partial(reading.read, source, fencing.READ_S)
    made = guards.Guard(read, probes, Path(state) if state else None)
    try:
        guards.main(made.run(host or None, port))
    except OSError as bad:
        raise click.ClickException(f"cannot listen on port {port}: {bad}") from None


@runtime.command()
@click.option("--port", default=8080, show_default=True, help="Port to listen on.")
@click.option("--host", default="", help="Address to listen on (default: all of the pod).")
@click.option("--text", required=True, help="What every request is answered with.")
def answer(port: int, host: str, text: str) -> None:
    """Answer every request with one text: the service of a probe."""
    from federator.runtime import reaching

    try:
        reaching.serve(host, port, text)
    except OSError as bad:
        raise click.ClickException(f"cannot listen on port {port}: {bad}") from None


@runtime.command()
@click.argument("url")
@click.option("--text", required=True, help="The answer that is expected.")
@click.option(
    "--within",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds after which no further try begins.",
)
def reach(url: str, text: str, within: float) -> None:
    """Ask a URL until it answers with the expected text: the job set of a probe. Exit 1: it did
    not."""
    from federator.runtime import reaching

    trouble = reaching.reach(url, text, within)
    if trouble:
        raise click.ClickException(trouble)


@runtime.command()
@click.argument("service")
@click.option(
    "--environment", default="prod", show_default=True, help="Environment of the service."
)
@click.option(
    "--zookeeper",
    envvar="FEDERATOR_ZOOKEEPER",
    required=True,
    help="HOST:PORT of the servers, separated by commas (default: FEDERATOR_ZOOKEEPER).",
)
@click.option(
    "--tls",
    envvar="FEDERATOR_TRAFFIC_TLS",
    default="",
    help="Folder with tls.crt, tls.key and ca.crt (default: FEDERATOR_TRAFFIC_TLS).",
)
@click.option(
    "--within",
    type=click.FloatRange(min=1),
    default=15.0,
    show_default=True,
    help="Seconds after which it gives up.",
)
def registered(service: str, environment: str, zookeeper: str, tls: str, within: float) -> None:
    """Show the pods of a service in the registry, and the weight of each cluster. Exit 1: there is
    no entry, or the registry does not answer."""
    import asyncio
    from pathlib import Path

    from federator.cli import common
    from federator.runtime.traffic import members, settings
    from federator.runtime.traffic import registry as registries
    from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry

    try:
        folder = members.folder(service, environment)
        certificates = settings.certificates(Path(tls)) if tls else None
        registry = ZooKeeperRegistry(Server(zookeeper, certificates=certificates))
        entries = asyncio.run(registries.listed(registry, folder, within))
    except (registries.Unreachable, registries.RegistrationRefused, ValueError) as bad:
        raise click.ClickException(str(bad)) from None
    if not entries:
        raise click.ClickException(f"there is no entry in {folder}")
    rows = []
    for entry in entries:
        labels = (entry.metadata.get(name) or "-" for name in ("cluster", "pod"))
        rows.append([entry.endpoint, str(entry.weight), *labels])
    sums = members.by_cluster(entries)
    total = sum(weight for _, weight in sums.values()) or 1
    shares = [
        [name or "-", str(count), str(weight), f"{100 * weight / total:.1f} %"]
        for name, (count, weight) in sums.items()
    ]
    common.show(common.table(["ADDRESS", "WEIGHT", "CLUSTER", "POD"], rows))
    common.say("")
    common.show(common.table(["CLUSTER", "ENTRIES", "WEIGHT", "SHARE"], shares))
