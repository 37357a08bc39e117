"""`federator hub` and `federator member`: the long-running processes, with settings, logs, probes,
metrics and a clean shutdown."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.settings import Settings


def process_options(command: common.F) -> common.F:
    """Adds the options of the long-running commands."""
    command = click.option("--config", "config_file", default="", help="Settings file (YAML).")(
        command
    )
    command = click.option(
        "--in-cluster", is_flag=True, help="Use the service account of the pod."
    )(command)
    return common.connection_options(command)


def listen_options(listen: str) -> Callable[[common.F], common.F]:
    """Adds where a server for people listens, and its certificate. `listen`: the default."""

    def add(command: common.F) -> common.F:
        command = click.option("--key-file", default="", help="PEM key of --cert-file.")(command)
        command = click.option(
            "--cert-file",
            default="",
            help="PEM certificate, read again when it changes. Needed but on loopback.",
        )(command)
        return click.option(
            "--listen",
            default=listen,
            show_default=True,
            help="HOST:PORT; port 0 takes a free one.",
        )(command)

    return add


@click.command()
@process_options
@click.option(
    "--allow-loopback", is_flag=True, help="Allow members at loopback addresses (sandbox only)."
)
def hub(
    kubeconfig: str, context: str, in_cluster: bool, config_file: str, allow_loopback: bool
) -> None:
    """Run the hub: it places workloads, applies them to members and aggregates their status."""
    from federator import app
    from federator.processes import Access

    settings = settings_of(config_file, {})
    common.run(
        app.run_hub(
            settings,
            Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster),
            allow_loopback=allow_loopback,
        )
    )


@click.command()
@process_options
@click.option("--cluster", required=True, help="Name of this cluster's MemberCluster on the host.")
@click.option("--fleet", default="", help="Name of the fleet (default: the setting hub.fleet).")
@click.option(
    "--standalone", is_flag=True, help="Also expand Pinterest workloads that no hub has marked."
)
def member(
    kubeconfig: str,
    context: str,
    in_cluster: bool,
    config_file: str,
    cluster: str,
    fleet: str,
    standalone: bool,
) -> None:
    """Run the member process of one cluster: it expands slices and reports status and capacity."""
    from federator.processes import Access, run_member

    settings = settings_of(config_file, {"hub": {"fleet": fleet}} if fleet else {})
    common.run(
        run_member(
            settings,
            Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster),
            cluster=cluster,
            standalone=standalone,
        )
    )


def settings_of(path: str, overrides: Mapping[str, Mapping[str, Any]]) -> "Settings":
    """The settings of a file, with what options say besides. Exits with an error for bad ones."""
    from federator import settings
    from federator.model.errors import FieldError

    try:
        return settings.load(path, overrides=overrides)
    except FieldError as bad:
        common.fail(str(bad))
