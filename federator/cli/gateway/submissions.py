"""`federator submissions`: shows and cancels submissions through the gateway."""

from typing import Any

import click

from federator.cli import common
from federator.cli.gateway import asking
from federator.cli.gateway.asking import Gateway


@click.group()
def submissions() -> None:
    """Show and cancel what was submitted through the gateway."""


@submissions.command("get")
@click.argument("workflow")
@click.argument("identity", metavar="ID")
@asking.options
@click.option("--wait", "waits", is_flag=True, help="Wait until it runs, or has ended.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1),
    default=600.0,
    show_default=True,
    help="Seconds to wait.",
)
def get(workflow: str, identity: str, waits: bool, timeout_s: float, **how: Any) -> None:
    """Show the submission ID of a WORKFLOW: state, objects, place in the queue."""
    output, gateway = _gateway(how)

    async def work() -> None:
        async with gateway.opened():
            if waits:
                shown = await asking.waited(gateway, workflow, identity, timeout_s)
            else:
                shown = await gateway.ask("GET", gateway.path(workflow, identity))
            _show(shown, output)

    common.run(work())


@submissions.command("list")
@click.argument("workflow")
@asking.options
@click.option("--state", default="", help="Only these, such as Running.")
@click.option("--user", default="", help="Only those of this user.")
@click.option(
    "--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most."
)
def list_(workflow: str, state: str, user: str, limit: int, **how: Any) -> None:
    """List the submissions of a WORKFLOW, the newest first."""
    output, gateway = _gateway(how)
    query = {"state": state, "user": user, "limit": limit}

    async def work() -> None:
        async with gateway.opened():
            given = {name: value for name, value in query.items() if value}
            shown = await gateway.ask("GET", gateway.path(workflow), query=given)
        if output != "text":
            common.data(common.dump(shown, output))
            return
        rows = [
            [each["id"], each["state"], each["version"], each["submittedBy"], each["submittedAt"]]
            for each in shown["items"]
        ]
        common.show(common.table(["ID", "STATE", "VERSION", "USER", "SUBMITTED"], rows))
        if shown.get("next"):
            common.say("there are more: --limit", err=True)

    common.run(work())


@submissions.command("cancel")
@click.argument("workflow")
@click.argument("identity", metavar="ID")
@asking.options
def cancel(workflow: str, identity: str, **how: Any) -> None:
    """Cancel the submission ID of a WORKFLOW: delete the objects that it made."""
    output, gateway = _gateway(how)

    async def work() -> None:
        async with gateway.opened():
            shown = await gateway.ask("DELETE", gateway.path(workflow, identity))
            _show(shown, output)

    common.run(work())


def _gateway(how: dict[str, Any]) -> tuple[str, Gateway]:
    """The output format, and the gateway."""
    return how["output"], Gateway.of(
        how["address"], how["token_file"], how["ca_file"], how["namespace"]
    )


def _show(shown: dict[str, Any], output: str) -> None:
    if output == "text":
        common.show("\n".join(asking.submission_lines(shown)))
    else:
        common.data(common.dump(shown, output))
