"""`federator gateway`: the submission gateway, with settings, logs, probes, metrics and a clean
shutdown."""

import click

from federator.cli import common
from federator.cli.running.processes import listen_options, process_options, settings_of

DEFAULT_LISTEN = "127.0.0.1:8700"


@click.command()
@process_options
@listen_options(DEFAULT_LISTEN)
@click.option(
    "--allow-loopback",
    is_flag=True,
    help="Allow artifact stores and issuers at loopback addresses (sandbox only).",
)
def gateway(
    kubeconfig: str,
    context: str,
    in_cluster: bool,
    config_file: str,
    listen: str,
    cert_file: str,
    key_file: str,
    allow_loopback: bool,
) -> None:
    """Serve the submission gateway: it takes versions of landed workflows from CI and people, and
    answers each with a verdict."""
    from federator import app
    from federator.kube.tlsserver import Listen
    from federator.model.errors import FieldError
    from federator.processes import Access

    try:
        where = Listen.parsed(listen, cert_file, key_file)
    except FieldError as bad:
        common.fail(str(bad))
    access = Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster)
    common.run(
        app.run_gateway(settings_of(config_file, {}), access, where, allow_loopback=allow_loopback)
    )
