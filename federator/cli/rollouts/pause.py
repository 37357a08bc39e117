"""`federator pause` and `federator resume`: set a switch that every hub watches, a ConfigMap on the
host."""

import getpass
import platform
import time

import click

from federator.cli import banner, common

REASON_MAX = 256


@click.command()
@click.option("--reason", default="", help="Why; shown to everyone who looks at the federation.")
@common.connection_options
def pause(reason: str, kubeconfig: str, context: str) -> None:
    """Stop all placing and dispatching. Workloads keep running, and status reporting continues."""
    from federator.kube import clock

    if len(reason) > REASON_MAX:
        common.fail(f"--reason has {len(reason)} characters; at most {REASON_MAX} are allowed")
    switch = {"paused": "true", "since": clock.stamp(time.time()), "by": _caller()}
    _switch(kubeconfig, context, switch | ({"reason": " ".join(reason.split())} if reason else {}))


@click.command()
@common.connection_options
def resume(kubeconfig: str, context: str) -> None:
    """End a pause."""
    _switch(kubeconfig, context, {"paused": "false"})


def _caller() -> str:
    """user@host of the caller, or the host alone when the user has no name."""
    try:
        return f"{getpass.getuser()}@{platform.node()}"
    except (KeyError, OSError):
        return platform.node()


def _switch(kubeconfig: str, context: str, fields: dict[str, str]) -> None:
    from federator.hub.cache import pauses
    from federator.kube import client as clients
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    async def work(client: clients.Client) -> dict[str, str]:
        ref = ObjectRef(
            "v1", "configmaps", banner.SYSTEM_NAMESPACE, pauses.PAUSE_OBJECT, "ConfigMap"
        )
        data = dict(fields)
        try:
            before = (await client.get(ref)).get("data") or {}
        except errors.NotFound:
            before = {}
        if data["paused"] == "true" == before.get("paused") and before.get("since"):
            data = {
                **before,
                **{name: text for name, text in data.items() if name == "reason"},
            }  # already paused: keep since and by
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "data": data,
        }
        await client.patch(ref, body, kind="apply", force=True)
        return data

    data = common.run(common.with_host(kubeconfig, context, work))
    common.say(banner.paused({"data": data}) or "resumed")
