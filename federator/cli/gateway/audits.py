"""`federator audit`: checks files of the gateway's audit."""

import click

from federator.cli import common


@click.group()
def audit() -> None:
    """Check the audit of the submission gateway."""


@audit.command("verify")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
def verify(files: tuple[str, ...]) -> None:
    """Check that no line of these files was changed, added or removed: each line has the digest of
    the one before it. Prints the digest of each last line; keep it elsewhere to see whether lines
    are cut off the end. Exit code 1 for a file that is not whole."""
    from federator.gateway import audit as audits

    broken = False
    for path in files:
        try:
            with open(path, "rb") as file:
                checked = audits.verify(file)
        except (OSError, audits.Broken) as bad:
            common.say(f"error: {path}: {bad}", err=True)
            broken = True
        else:
            common.say(f"{path}: {checked.lines} lines, whole, last digest {checked.last}")
    if broken:
        raise SystemExit(1)
