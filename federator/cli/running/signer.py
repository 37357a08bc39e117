"""`federator signer`: the signer of pod certificates, with settings, logs, probes, metrics and a
clean shutdown."""

import click

from federator.cli import common
from federator.cli.running.processes import process_options, settings_of

DEFAULT_LISTEN = "127.0.0.1:8701"


@click.command()
@process_options
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="HOST:PORT; port 0 takes a free one. Always HTTPS: its authority signs its certificate.",
)
@click.option(
    "--dns",
    multiple=True,
    help="Further DNS name of its own certificate, in addition to those of its Service.",
)
def signer(
    kubeconfig: str,
    context: str,
    in_cluster: bool,
    config_file: str,
    listen: str,
    dns: tuple[str, ...],
) -> None:
    """Sign the certificates of the pods of one cluster: for their own service accounts, with keys
    that were made in the pods."""
    from federator import app
    from federator.kube import tlsserver
    from federator.kube.tlsserver import Listen
    from federator.model.errors import FieldError
    from federator.processes import Access

    try:
        where = Listen(*tlsserver.address(listen))
    except FieldError as bad:
        common.fail(str(bad))
    access = Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster)
    common.run(app.run_signer(settings_of(config_file, {}), access, where, dns))
