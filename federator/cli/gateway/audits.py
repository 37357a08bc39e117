"""`federator audit`: checks files of the gateway's audit."""

from pathlib import Path

import click

from federator.cli import common


@click.group()
def audit() -> None:
    """Check the audit of the submission gateway."""


@audit.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--archived",
    is_flag=True,
    help="Earlier files of a chain may be elsewhere. The digest that is printed for the first file"
    " must be that of the last line of the file before it.",
)
def verify(paths: tuple[str, ...], archived: bool) -> None:
    """Check that no line and no file of these files and folders was changed, added or removed: each
    line has the digest of the one before it, from file to file of a process. Prints the digest of
    each last line; keep it elsewhere to see whether lines are cut off the end. Exit code 1 for a
    chain that is not whole."""
    from federator.gateway import chains

    try:
        checked, unreadable = chains.verify(chains.listed(map(Path, paths)), archived=archived)
    except OSError as bad:
        common.fail(str(bad))
    for chain in checked:
        if chain.trouble or chain.last is None:
            continue
        first = chain.files[0]
        after = f" after {first.checked.before}" if archived and first.checked else ""
        ended = "ended" if chain.ended else "running, or ended without its last line"
        common.say(
            f"process {chain.process}: whole, {_many(chain.lines, 'line')} in"
            f" {_many(len(chain.files), 'file')} from {first.path.name}{after}; {ended}; last"
            f" digest {chain.last.last}"
        )
    if not checked and not unreadable:
        common.fail("there are no files of an audit (*.jsonl)")
    if troubles := [*unreadable, *(each.trouble for each in checked if each.trouble)]:
        common.fail(*troubles)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
