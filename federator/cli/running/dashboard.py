"""`federator dashboard`: web pages over the federated view, with settings for logs and a clean
shutdown."""

import click

from federator.cli import common
from federator.cli.running.processes import listen_options, process_options, settings_of

DEFAULT_LISTEN = "127.0.0.1:8600"


@click.command()
@process_options
@listen_options(DEFAULT_LISTEN)
@click.option(
    "--simulations",
    default="",
    metavar="DIR",
    help="Show the reports that federator simulate --out wrote to folders in DIR.",
)
def dashboard(
    kubeconfig: str,
    context: str,
    in_cluster: bool,
    config_file: str,
    listen: str,
    cert_file: str,
    key_file: str,
    simulations: str,
) -> None:
    """Serve web pages over the federation, and the same as JSON. People sign in with a Kubernetes
    token of the host, and see what its RBAC shows them."""
    from federator import app
    from federator.dashboard import server
    from federator.kube import tlsserver
    from federator.model.errors import FieldError
    from federator.processes import Access

    try:
        host, port = tlsserver.address(listen)
        options = server.Options(host, port, cert_file, key_file, simulations)
        options.check()
    except FieldError as bad:
        common.fail(str(bad))
    access = Access(kubeconfig=kubeconfig, context=context, in_cluster=in_cluster)
    common.run(app.run_dashboard(settings_of(config_file, {}), access, options))
