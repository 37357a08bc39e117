"""`federator submit`: submits a version of a landed workflow through the gateway."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import click

from federator.cli import common
from federator.cli.gateway import asking
from federator.cli.gateway.asking import Gateway


@click.command()
@click.argument("artifact")
@asking.options
@click.option("--workflow", default="", help="Name of the workflow (default: the artifact's).")
@click.option(
    "--param", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter's value."
)
@click.option("--dry-run", is_flag=True, help="Give the verdict and create nothing.")
@click.option(
    "--key",
    default="",
    help="Idempotency key, such as the id of a CI job: the same key and request is the same"
    " submission.",
)
@asking.waiting
def submit(
    artifact: str,
    output: str,
    workflow: str,
    parameters: Sequence[str],
    dry_run: bool,
    key: str,
    waits: bool,
    timeout_s: float,
    **how: Any,
) -> None:
    """Submit ARTIFACT[@VERSION], such as oci://registry.example/ads/serving@v7, and print the
    verdict: where it runs, behind what it waits, or why it is refused. VERSION is a tag or a digest
    (default: latest).

    Needs no kubeconfig. Exit codes: 0 accepted (with --dry-run: not refused), 1 refused or failed,
    2 wrong command line, 3 token or rights, 4 no answer.
    """
    source, version = parted(artifact)
    name = workflow or urlsplit(source).path.rpartition("/")[2].partition(".")[0]
    body = {
        "artifact": source,
        **({"version": version} if version else {}),
        "parameters": dict(map(_pair, parameters)),
        "dryRun": dry_run,
        "idempotencyKey": key or asking.new_key(),
    }
    gateway = Gateway.of(how)

    async def work() -> None:
        async with gateway.opened():
            shown = await gateway.ask("POST", gateway.path(name), body)
            verdict = shown.get("verdict")
            refused = dry_run and verdict and verdict["verdict"] == "refused"
            if output != "text" and not waits:
                common.data(common.dump(shown, output))
            elif output == "text":
                lines = asking.verdict_lines(verdict) if verdict else ["submitted before"]
                done = "would be submission" if dry_run else "submission"
                lines += [f"warning: {each}" for each in shown.get("warnings", [])]
                if not refused:
                    lines.append(f"{done} {shown['id']} of {name}")
                common.show("\n".join(lines))
            if refused:
                raise SystemExit(asking.REFUSED)
            if waits and not dry_run:
                shown = await asking.waited(gateway, name, shown["id"], timeout_s)
                if output != "text":
                    common.data(common.dump(shown, output))

    common.run(work())


def parted(artifact: str) -> tuple[str, str]:
    """(source, version) of ARTIFACT[@VERSION]."""
    head, at, version = artifact.rpartition("@")
    return (head, version) if at and "/" not in version else (artifact, "")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} must be NAME=VALUE", param_hint="--param")
    return name, value
