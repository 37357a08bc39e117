"""`federator version`."""

import platform

import click

from federator import __version__


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"federator {__version__} (Python {platform.python_version()})")
