"""`federator pause` and `federator resume`: set a switch that every hub watches, a ConfigMap on the
host."""

import getpass
import platform
import time
from collections.abc import Mapping

import click

from federator.cli import common
from federator.hub.query import banner


@click.command()
@click.option("--reason", default="", help="Why; shown to everyone who looks at the federation.")
@common.connection_options
def pause(reason: str, kubeconfig: str, context: str) -> None:
    """Stop all placing and dispatching. Workloads keep running, and status reporting continues."""
    from federator.kinds import edits
    from federator.kube import clock

    if len(reason) > edits.REASON_MAX:
        common.fail(
            f"--reason has {len(reason)} characters; at most {edits.REASON_MAX} are allowed"
        )
    wanted = edits.paused(_caller(), clock.stamp(time.time()), reason)
    _, data = _switch(kubeconfig, context, wanted)
    common.say(banner.paused({"data": data}))


@click.command()
@common.connection_options
def resume(kubeconfig: str, context: str) -> None:
    """End a pause."""
    from federator.kinds import edits

    was_paused, _ = _switch(kubeconfig, context, edits.RESUMED)
    common.say("resumed" if was_paused else "The federation is not paused: nothing to resume.")


def _caller() -> str:
    """user@host of the caller, or the host alone when the user has no name."""
    try:
        return f"{getpass.getuser()}@{platform.node()}"
    except (KeyError, OSError):
        return platform.node()


def _switch(
    kubeconfig: str, context: str, wanted: Mapping[str, str]
) -> tuple[bool, Mapping[str, str]]:
    """Writes the pause object. Returns whether the federation was paused, and the data written."""
    from federator.hub.query import pausing

    return common.run(
        common.with_host(kubeconfig, context, lambda client: pausing.switch(client, wanted))
    )
