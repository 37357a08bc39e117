"""`federator pause` and `federator resume`: a switch that every hub watches (a ConfigMap on the host)."""

import click

from federator.cli import common

NAMESPACE = "federator-system"


@click.command()
@common.connection_options
def pause(kubeconfig: str, context: str) -> None:
    """Stop all placing and dispatching; what runs goes on, and reporting goes on."""
    _switch(kubeconfig, context, True)


@click.command()
@common.connection_options
def resume(kubeconfig: str, context: str) -> None:
    """End a pause."""
    _switch(kubeconfig, context, False)


def _switch(kubeconfig: str, context: str, paused: bool) -> None:
    from federator.hub.hosting import PAUSE_OBJECT
    from federator.kube import client as clients
    from federator.model.steps import ObjectRef

    async def work(client: clients.Client) -> None:
        ref = ObjectRef("v1", "configmaps", NAMESPACE, PAUSE_OBJECT, "ConfigMap")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": PAUSE_OBJECT, "namespace": NAMESPACE},
            "data": {"paused": "true" if paused else "false"},
        }
        await client.patch(ref, body, kind="apply", force=True)

    common.run(common.with_host(kubeconfig, context, work))
    click.echo("paused: nothing is placed or dispatched until `federator resume`" if paused else "resumed")
