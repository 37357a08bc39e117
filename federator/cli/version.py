"""`federator version`."""

import platform

import click

from federator import __version__
from federator.cli import common


@click.command()
def version() -> None:
    """Print the version."""
    common.say(f"federator {__version__} (Python {platform.python_version()})")
