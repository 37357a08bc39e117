"""`federator pause` and `federator resume`: set a switch that every hub watches, a ConfigMap on the
host."""

import getpass
import platform
import time

import click

from federator.cli import common
from federator.hub.query import banner

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
    _, data = _switch(
        kubeconfig, context, switch | ({"reason": " ".join(reason.split())} if reason else {})
    )
    common.say(banner.paused({"data": data}))


@click.command()
@common.connection_options
def resume(kubeconfig: str, context: str) -> None:
    """End a pause."""
    was_paused, _ = _switch(kubeconfig, context, {"paused": "false"})
    common.say("resumed" if was_paused else "The federation is not paused: nothing to resume.")


def _caller() -> str:
    """user@host of the caller, or the host alone when the user has no name."""
    try:
        return f"{getpass.getuser()}@{platform.node()}"
    except (KeyError, OSError):
        return platform.node()


def _switch(kubeconfig: str, context: str, fields: dict[str, str]) -> tuple[bool, dict[str, str]]:
    """Writes the pause object. Returns whether the federation was paused, and the data written."""
    from federator.hub.records import pauses
    from federator.kube import client as clients
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    async def work(client: clients.Client) -> tuple[bool, dict[str, str]]:
        ref = ObjectRef(
            "v1", "configmaps", banner.SYSTEM_NAMESPACE, pauses.PAUSE_OBJECT, "ConfigMap"
        )
        data = dict(fields)
        try:
            before = (await client.get(ref)).get("data") or {}
        except errors.NotFound:
            before = {}
        was_paused = before.get("paused") == "true"
        if not was_paused and data["paused"] != "true":
            return False, data
        if data["paused"] == "true" and was_paused and before.get("since"):
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
        return was_paused, data

    return common.run(common.with_host(kubeconfig, context, work))
