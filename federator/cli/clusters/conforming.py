"""`federator cluster conform`: brings a cluster up to the ClusterStandards that are for it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.api.raw import Obj
    from federator.kube.client import Client


WAIT_S = 120.0

wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=WAIT_S,
    show_default=True,
    help="Seconds that the cluster and what its standards ask for may take to come up.",
)

member_context_option = click.option(
    "--member-context", "-C", default="", help="Context of the cluster (default: NAME)."
)
member_kubeconfig_option = click.option(
    "--member-kubeconfig",
    default="",
    help="Kubeconfig with that context (default: that of the host).",
)


def refuse_other(member: "Obj", uid: str) -> None:
    """Ends the command if the member has joined with another cluster than the one with this uid."""
    from federator.api import membercluster

    pinned, name = membercluster.recorded_uid(member), member["metadata"]["name"]
    if pinned and pinned != uid:
        common.fail(f"this is another cluster: {uid}, but {pinned} has joined as {name}")


@click.command()
@click.argument("name")
@member_context_option
@member_kubeconfig_option
@click.option("--dry-run", is_flag=True, help="Say what differs; change nothing.")
@wait_option
@common.connection_options
def conform(
    name: str,
    member_context: str,
    member_kubeconfig: str,
    dry_run: bool,
    wait_s: float,
    kubeconfig: str,
    context: str,
) -> None:
    """Apply in a joined cluster what its ClusterStandards ask for, with your own rights there, wait
    until it is at work, and compare. Exit 1: something is missing, differs or is not ready."""
    from federator.api import raw
    from federator.kinds import registry

    async def work(host: "Client") -> bool:
        obj = await host.get(registry.KINDS["MemberCluster"].ref("", name))
        labels = raw.text_map(obj["metadata"], "labels")

        async def at_member(client: "Client") -> bool:
            refuse_other(obj, await client.kube_system_uid())
            if not dry_run:
                await bring_up(host, client, labels, wait_s)
            return await compared(host, client, labels)

        where = member_kubeconfig or kubeconfig, member_context or name
        return await common.with_host(*where, at_member)

    common.finish(kubeconfig, context, work)


async def bring_up(
    host: "Client", client: "Client", labels: Mapping[str, str], within_s: float
) -> None:
    """Applies what the standards for these labels ask for, says what was applied, and waits for so
    long at most until it is at work. Ends the command where something cannot be applied."""
    from federator.cli.clusters import standard
    from federator.kube import errors
    from federator.model.errors import FieldError

    standards = await standard.of_cluster(host, labels)
    try:
        async for title in standard.conform(client, standards):
            common.say(f"{title} applied")
        await standard.until_at_work(
            client, standards, within_s, lambda text: common.say(text, err=True)
        )
    except (errors.ApiError, FieldError) as trouble:
        common.fail(f"the cluster was not brought up to its standard: {trouble}")


async def compared(host: "Client", client: "Client", labels: Mapping[str, str]) -> bool:
    """Prints what the standards for these labels ask for, line by line. Returns whether all of it
    is so; True where no standard is for them."""
    from federator.cli.clusters import standard

    findings = await standard.compare(client, await standard.of_cluster(host, labels))
    if findings:
        rows = [
            ["ok" if finding.ok else "FAILED", finding.subject, finding.message]
            for finding in findings
        ]
        common.show("\n" + common.table(["STANDARD", "CHECK", "FOUND"], rows))
    return all(finding.ok for finding in findings)
