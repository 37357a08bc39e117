"""`federator doctor`: examines the host and, with contexts of the caller, members."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from federator.cli import common
from federator.cli.diagnosis import findings
from federator.cli.diagnosis.findings import Finding, Result

if TYPE_CHECKING:
    from federator.kube.client import Client

WHERE = "settings"

members_option = click.option(
    "-C",
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME[=CONTEXT]",
    help="Also look into this member, with a context of yours (default: of its name).",
)


@click.command()
@members_option
@click.option("--config", "config", default="", help="Also check this settings file of a hub.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@click.option("--all", "every", is_flag=True, help="Print also what is well.")
@click.option("--strict", is_flag=True, help="Exit 1 also for warnings.")
@common.connection_options
def doctor(
    clusters: tuple[str, ...],
    config: str,
    output: str,
    every: bool,
    strict: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Say what is wrong with this installation, and how to repair it.

    Looks at versions, definitions, rights, the leader, clocks, credentials near their end,
    conditions, quotas and settings; with -C into members too. Changes nothing. Exit 1: something
    has failed.
    """
    results = findings.by_gravity(
        common.run(examined(clusters, config, kubeconfig=kubeconfig, context=context))
    )
    if output == "json":
        from federator.cli.diagnosis import checks

        common.show(checks.as_json(results))
    else:
        rows = findings.rows(results, every=every)
        if rows:
            common.show(common.table(["RESULT", "WHERE", "CHECK", "FOUND", "FIX"], rows))
        common.say(findings.summary(results))
    bad = (Result.FAILED, Result.WARNING) if strict else (Result.FAILED,)
    if any(finding.result in bad for finding in results):
        sys.exit(1)


async def examined(
    clusters: Sequence[str], config: str, *, kubeconfig: str, context: str
) -> list[Finding]:
    """All findings: of settings, of the host, and of these members (`NAME` or `NAME=CONTEXT`)."""
    from federator.cli.diagnosis import checks, hostchecks, memberchecks
    from federator.cli.diagnosis.checks import Patient

    async def at_host(host: "Client") -> list[Finding]:
        results = await checks.examine(
            Patient(hostchecks.HOST, host, time.time()), hostchecks.HOST_CHECKS
        )
        results += await _settings(host, config) if config else []
        for given in clusters:
            name, _, member_context = given.partition("=")

            async def at_member(client: "Client", name: str = name) -> list[Finding]:
                patient = Patient(name, client, time.time())
                first = await memberchecks.identity(host, patient)
                return first + await checks.examine(patient, memberchecks.MEMBER_CHECKS)

            results += await common.with_host(kubeconfig, member_context or name, at_member)
        return results

    return await common.with_host(kubeconfig, context, at_host)


async def _settings(host: "Client", config: str) -> list[Finding]:
    """Whether the settings can be worked with, and fit the host."""
    from federator import settings
    from federator.kube import errors
    from federator.model.errors import FieldError

    check = "settings file"
    try:
        loaded = settings.load(config, {})
    except FieldError as bad:
        fix = "Correct it; `federator config explain` says what each setting means."
        return [Finding(Result.FAILED, WHERE, check, f"{bad}", fix)]
    results = [Finding(Result.OK, WHERE, check, f"{config} can be worked with.")]
    try:
        nodes = (await host.list("v1", "nodes", limit=1)).items
    except errors.ApiError as trouble:
        text = f"Whether the host runs pods is unknown: {trouble}"
        return [*results, Finding(Result.UNKNOWN, WHERE, "hub.shared_host", text)]
    if bool(nodes) is not loaded.hub.shared_host:
        runs = "has nodes" if nodes else "has no nodes"
        text = f"hub.shared_host is {str(loaded.hub.shared_host).lower()}, and the host {runs}."
        fix = f"Set hub.shared_host: {str(bool(nodes)).lower()}; see docs/operating/deploy.md."
        return [*results, Finding(Result.WARNING, WHERE, "hub.shared_host", text, fix)]
    return results
