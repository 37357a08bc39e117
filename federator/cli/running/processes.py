"""`federator hub` and `federator member` as processes of their own: settings, logs, probes and metrics, and a clean
end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.settings import Settings


def process_options(command: common.F) -> common.F:
    """Options of the long-running commands."""
    command = click.option("--config", "config_file", default="", help="Settings file (YAML).")(command)
    command = click.option("--in-cluster", is_flag=True, help="Use the service account of the pod.")(command)
    return common.connection_options(command)


@click.command()
@process_options
@click.option("--allow-loopback", is_flag=True, help="Let members live on loopback addresses (sandbox only).")
def hub(kubeconfig: str, context: str, in_cluster: bool, config_file: str, allow_loopback: bool) -> None:
    """Run the hub: it places workloads and keeps members and host in step."""
    from federator import app

    settings = _settings(config_file, {})
    common.run(
        app.run_hub(
            settings,
            app.Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster),
            allow_loopback=allow_loopback,
        )
    )


@click.command()
@process_options
@click.option("--cluster", required=True, help="Name of this cluster, as its MemberCluster on the host is called.")
@click.option("--fleet", default="", help="Name of the fleet (default: the setting hub.fleet).")
@click.option("--standalone", is_flag=True, help="Expand Pinterest kinds that no hub has marked, too.")
def member(
    kubeconfig: str, context: str, in_cluster: bool, config_file: str, cluster: str, fleet: str, standalone: bool
) -> None:
    """Run the member process of one cluster: it expands slices and reports status and capacity."""
    from federator import app

    settings = _settings(config_file, {"hub": {"fleet": fleet}} if fleet else {})
    common.run(
        app.run_member(
            settings,
            app.Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster),
            cluster=cluster,
            standalone=standalone,
        )
    )


def _settings(path: str, said: Mapping[str, Mapping[str, Any]]) -> "Settings":
    from federator import settings
    from federator.model.errors import FieldError

    try:
        return settings.load(path, overrides=said)
    except FieldError as bad:
        common.fail(str(bad))
