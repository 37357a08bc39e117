"""`federator submissions`: shows and cancels submissions through the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from federator.cli import common
from federator.cli.gateway import asking
from federator.cli.gateway.asking import REFUSED, Gateway
from federator.cli.leader import logs


@click.group()
def submissions() -> None:
    """Show and cancel what was submitted through the gateway."""


@submissions.command("get")
@click.argument("workflow")
@click.argument("identity", metavar="ID")
@asking.options
@asking.waiting
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


@submissions.command("logs")
@click.argument("workflow")
@click.argument("identity", metavar="[ID]", required=False, default="")
@click.option("--object", "only", default="", help="KIND/NAME: the pods of this object only.")
@click.option("-C", "--cluster", default="", help="This cluster only.")
@logs.options
@asking.connection
def logs_(
    workflow: str,
    identity: str,
    only: str,
    cluster: str,
    follow: bool,
    since: str,
    **flags: Any,
) -> None:
    """Print the last log lines of the pods of the submission ID of a WORKFLOW (default: the newest
    one), in all their clusters.

    The gateway asks the leading hub with your rights on the host (get the objects, get pods/log).
    Exit 1 when a part is missing.
    """
    gateway = Gateway.of(flags)
    logs.run(Pods(gateway, workflow, identity, only, cluster), follow, since, flags)


@dataclass(slots=True)
class Pods:
    """The pods of a submission, as `federator.cli.leader.logs` asks about them."""

    gateway: Gateway
    workflow: str
    identity: str
    """"" for the newest submission."""
    only: str
    """KIND/NAME of one object, or "" for all."""
    cluster: str

    @property
    def title(self) -> str:
        return f"submission {self.identity} of {self.workflow}"

    async def answer(
        self, _: str, parameters: Mapping[str, str | int | bool], *, again: bool = False
    ) -> dict[str, Any]:
        """The answers about all objects as one. Exits with an error when there is none."""
        async with self.gateway.opened():
            query = {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in {**parameters, "cluster": self.cluster}.items()
                if value not in ("", False)
            }
            entries, clusters, left = [], [], 0
            for name in await self._objects():
                path = f"{self.gateway.path(self.workflow, self.identity)}/logs"
                given = await self.gateway.ask("GET", path, query={**query, "object": name})
                entries += given["logs"]
                clusters += given["clusters"]
                left += given["leftOut"]
            return {"logs": entries, "clusters": clusters, "leftOut": left}

    async def _objects(self) -> list[str]:
        """The objects of the submission that have pods."""
        if not self.identity:
            path = self.gateway.path(self.workflow)
            listed = await self.gateway.ask("GET", path, query={"limit": 1})
            if not listed["items"]:
                common.fail(f"the workflow {self.workflow} has no submissions", code=REFUSED)
            self.identity = listed["items"][0]["id"]
        if self.only:
            return [self.only]
        from federator.gateway.platforms import table

        with_logs = {each.kind for each in table.PLATFORMS.kinds.values() if each.has_logs}
        shown = await self.gateway.ask("GET", self.gateway.path(self.workflow, self.identity))
        names = [
            f"{each['kind']}/{each['name']}"
            for each in shown["objects"]
            if each["kind"] in with_logs and each["state"] not in ("Deleted", "Incomplete")
        ]
        if not names:
            common.fail(f"the {self.title} has no objects with pods", code=REFUSED)
        return names


def _gateway(how: dict[str, Any]) -> tuple[str, Gateway]:
    """The output format, and the gateway."""
    return how["output"], Gateway.of(how)


def _show(shown: dict[str, Any], output: str) -> None:
    if output == "text":
        common.show("\n".join(asking.submission_lines(shown)))
    else:
        common.data(common.dump(shown, output))
