"""`federator runtime`: what runs inside the pods of workloads. Nothing else of the federation is
imported here."""

import functools

import click

from federator.runtime import fencing

PROBES = "FEDERATOR_GUARD_PROBES"
"""Variable with the probes of the pod's containers, as JSON: container -> livenessProbe,
startupProbe."""


@click.group()
def runtime() -> None:
    """Run what supports workloads inside their pods; not for people's shells."""


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
    from pathlib import Path

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
