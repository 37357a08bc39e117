"""`federator apply`: carries out a saved plan, if its outcome has not changed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from federator import __version__
from federator.cli import common

if TYPE_CHECKING:
    from federator.advice.plans.saved import Saved
    from federator.kube.client import Client

SHOWN: Final = 20


@click.command()
@click.argument("saved", metavar="PLAN", type=click.Path(exists=True, dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Compare only: write nothing.")
@common.leader_option
@common.connection_options
def apply(saved: str, *, dry_run: bool, **given: str) -> None:
    """Apply the objects of a plan that `federator plan --out PLAN` saved. The leading hub plans the
    same edits again first. Where their outcome would no longer be the planned one, or the hub
    refuses one of them, nothing is written, and the command names what changed.

    Exit 0: applied. Exit 1: not applied, or only in part; the message says what.
    """
    made = _read(saved)
    common.run(_applied(made, given, saved, dry_run=dry_run))


def _read(path: str) -> "Saved":
    from federator.advice.plans import saved as saving

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return saving.read(text, __version__)
    except (OSError, UnicodeDecodeError) as trouble:
        common.fail(f"{path}: {trouble}")
    except saving.Unreadable as bad:
        common.fail(f"{path}: {bad}")


async def _applied(made: "Saved", given: Mapping[str, str], path: str, *, dry_run: bool) -> None:
    from federator.advice.plans import saved as saving
    from federator.cli.leader import applying, asking

    async def work(host: "Client") -> None:
        live = await applying.live(host, made)  # first: what changes after this fails its write
        document = await asking.plan(made.asked, given, host)
        if document["refused"]:
            common.fail(f"{path}: not applied, because the hub refuses it:", *document["refused"])
        differs = saving.differences(made.document, document)
        if differs:
            more = len(differs) - SHOWN
            common.fail(
                f"{path}: not applied, because its outcome would no longer be the planned one:",
                *differs[:SHOWN],
                *([f"and {more} more differences"] if more > 0 else []),
                "plan again, and apply that",
            )
        if dry_run:
            common.say("The outcome is still the planned one. Nothing was written.")
            return
        await applying.write(host, made, live)

    await common.with_federation(given["kubeconfig"], given["context"], work)
