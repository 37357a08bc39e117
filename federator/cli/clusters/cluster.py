"""`federator cluster add|check|conform|renew|grant|cordon|uncordon|drain|undrain|declare-dead|
trust|remove|list`: the members of the federation."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.clusters import conforming, draining
from federator.cli.rollouts import waiting

if TYPE_CHECKING:
    from federator.cli.clusters.joining import Examination
    from federator.hub.security.hardening import Check
    from federator.kube.client import Client

LASTING = (
    "the hub has a token that expires and is renewed; delete the older token that never expires: "
    "kubectl --context {context} delete secret federator-hub -n federator-system"
)

BROAD = "kubectl delete rolebinding,role federator-hub"


@click.group()
def cluster() -> None:
    """Join, check, cordon, drain and remove members."""


cluster.add_command(draining.drain)
cluster.add_command(draining.undrain)
cluster.add_command(draining.declare_dead)
cluster.add_command(conforming.conform)


@cluster.command()
@click.argument("name")
@click.option(
    "--member-context", "-C", default="", help="Context of the cluster that joins (default: NAME)."
)
@conforming.member_kubeconfig_option
@click.option(
    "--label", "labels", multiple=True, help="key=value, for policies to select and spread by."
)
@click.option("--force", is_flag=True, help="Join although a check failed.")
@click.option(
    "--standard/--no-standard",
    default=True,
    help="First apply there what the ClusterStandards for these labels ask for (default), or not.",
)
@conforming.wait_option
@common.connection_options
def add(
    name: str,
    member_context: str,
    member_kubeconfig: str,
    labels: tuple[str, ...],
    force: bool,
    standard: bool,
    wait_s: float,
    kubeconfig: str,
    context: str,
) -> None:
    """Join a cluster as NAME: bring it up to its ClusterStandards, check it, create the hub's
    account there, pin its identity."""
    from federator.cli.clusters import joining
    from federator.model.kubernetes import selectors

    marks = dict(pair.partition("=")[::2] for pair in labels)
    for key, value in marks.items():
        if problem := selectors.check_label_key(key) or selectors.check_label_value(value):
            common.fail(f"--label {key}={value}: {problem}")
    if problem := selectors.dns1123_label(name):
        common.fail(f"NAME {name!r}: {problem}")

    async def work(host: "Client") -> None:
        async def at_member(client: "Client") -> None:
            await joining.refuse_known(host, name, await client.kube_system_uid())
            if standard:
                await conforming.bring_up(host, client, marks, wait_s)
            await joining.until_ready(client, wait_s)
            examination = await joining.examine(client, time.time())
            report(examination)
            as_standard = not standard or await conforming.compared(host, client, marks)
            if not (examination.fit and as_standard) and not force:
                common.fail(
                    "the cluster is not fit to join; fix what is marked FAILED, or use --force"
                )
            token = await joining.hub_account(client)
            access = endpoint_of(client).access(token)
            await joining.join(
                host, name, examination.uid, joining.member_kubeconfig(access), marks
            )
            if await joining.lasting_secret(client):
                common.say(LASTING.format(context=member_context or name), err=True)

        await common.with_host(member_kubeconfig or kubeconfig, member_context or name, at_member)
        common.say(f"membercluster.federation.pinterest.com/{name} joined")

    def endpoint_of(client: "Client") -> Any:
        from federator.cli.clusters import contexts

        return contexts.plain(member_kubeconfig or kubeconfig, member_context or name)

    common.run(common.with_federation(kubeconfig, context, work))


@cluster.command()
@click.argument("name")
@click.option(
    "--member-context",
    "-C",
    default="",
    help="Also check the member itself, with this context of yours.",
)
@click.option("--strict", is_flag=True, help="Exit 1 also for a warning of the hardening checks.")
@common.connection_options
def check(name: str, member_context: str, strict: bool, kubeconfig: str, context: str) -> None:
    """Show the conditions of a member, and whether the host is set up as
    docs/operating/hardening.md asks; with -C also check the member's connectivity, rights,
    versions, clock, hardening and what its ClusterStandards ask for."""
    from federator.api import membercluster, raw
    from federator.cli.clusters import joining
    from federator.hub.security import hardening
    from federator.kinds import registry

    async def work(host: "Client") -> bool:
        kind = registry.KINDS["MemberCluster"]
        obj = await host.get(kind.ref("", name))
        status = obj.get("status") or {}
        rows = [
            [
                condition["type"],
                condition["status"],
                condition.get("reason", ""),
                condition.get("message", ""),
            ]
            for condition in status.get("conditions") or ()
        ]
        common.show(common.table(["CONDITION", "STATUS", "REASON", "MESSAGE"], rows))
        against = ("Removing", membercluster.UNTRUSTWORTHY)
        fit = all(row[1] == "True" and row[0] not in against for row in rows) and bool(rows)
        safe = await hardened(host, hardening.HOST_AS_PERSON)
        if not member_context:
            return fit and (safe or not strict)

        async def at_member(client: "Client") -> bool:
            examination = await joining.examine(client, time.time())
            conforming.refuse_other(obj, examination.uid)
            report(examination)
            conforms = await conforming.compared(
                host, client, raw.text_map(obj["metadata"], "labels")
            )
            guarded = await hardened(client, hardening.MEMBER_AS_PERSON)
            return examination.fit and conforms and (guarded or not strict)

        there = await common.with_host(kubeconfig, member_context, at_member)
        return there and fit and (safe or not strict)

    common.finish(kubeconfig, context, work)


async def hardened(client: "Client", checks: "Sequence[Check]") -> bool:
    """Prints the hardening checks of one API server. Returns whether none of them warns."""
    from federator.hub.security import hardening

    findings = await hardening.examine(hardening.Asked(client, hardening.HUB_USER), checks)
    rows = [[str(finding.result), finding.subject, finding.message] for finding in findings]
    common.show("\n" + common.table(["HARDENING", "CHECK", "FOUND"], rows))
    return all(finding.result is not hardening.Result.WARNING for finding in findings)


def report(examination: "Examination") -> None:
    """Prints one line per finding."""
    rows = [
        ["ok" if finding.ok else "FAILED", finding.subject, finding.message]
        for finding in examination.findings
    ]
    common.show(common.table(["RESULT", "CHECK", "FOUND"], rows))


@cluster.command()
@click.argument("name")
@conforming.member_context_option
@conforming.member_kubeconfig_option
@common.connection_options
def renew(
    name: str, member_context: str, member_kubeconfig: str, kubeconfig: str, context: str
) -> None:
    """Give the hub a new token of its account in a joined member, and its rights there as `add`
    does: after an outage in which the old token expired, or when the token may have leaked."""
    from federator.cli.clusters import contexts, joining
    from federator.kinds import registry

    where = member_kubeconfig or kubeconfig, member_context or name

    async def work(host: "Client") -> None:
        obj = await host.get(registry.KINDS["MemberCluster"].ref("", name))

        async def at_member(client: "Client") -> None:
            conforming.refuse_other(obj, await client.kube_system_uid())
            token = await joining.hub_account(client)
            if not token:
                common.fail("this cluster issues no tokens for service accounts")
            await joining.renew(host, obj, token, contexts.plain(*where).access(token))
            if await joining.lasting_secret(client):
                common.say(LASTING.format(context=where[1]), err=True)

        await common.with_host(*where, at_member)
        common.say(f"membercluster.federation.pinterest.com/{name} has a new token of the hub")

    common.run(common.with_federation(kubeconfig, context, work))


@cluster.command()
@click.argument("names", nargs=-1)
@click.option("--all", "all_members", is_flag=True, help="Every member of the host.")
@common.connection_options
def grant(names: tuple[str, ...], all_members: bool, kubeconfig: str, context: str) -> None:
    """Let the hub read and renew the Secrets of these members, each by name. Needed for
    MemberClusters that were written by hand, or that joined with a release in which `add` did not
    grant this."""
    from federator.cli.clusters import granting
    from federator.kinds import registry
    from federator.kube import errors
    from federator.model.errors import FieldError

    if bool(names) == all_members:
        common.fail("name the members, or use --all (not both)")

    async def granted(host: "Client", obj: Any) -> None:
        if secret := granting.secret_of(obj):
            await granting.grant(host, secret)
            await granting.own(host, obj)
            common.say(f"secret/{secret} may be read and renewed by the hub")

    async def work(host: "Client") -> bool:
        kind, well = registry.KINDS["MemberCluster"], True
        members: Sequence[Any] = (await host.list(kind.api_version, kind.plural)).items
        if not all_members:
            there = {obj["metadata"]["name"]: obj for obj in members}
            for name in sorted(set(names) - there.keys()):
                well = False
                common.say(f"error: there is no member {name}", err=True)
            members = [there[name] for name in dict.fromkeys(names) if name in there]
        for obj in members:
            try:
                await granted(host, obj)
            except (errors.ApiError, FieldError) as refused:
                well = False
                common.say(f"error: {obj['metadata']['name']}: {refused}", err=True)
        if await granting.broad(host):
            where = f"-n {granting.CREDENTIALS_NAMESPACE}"
            common.say(
                f"the hub may still read every Secret there; to end that: {BROAD} {where}", err=True
            )
        return well

    common.finish(kubeconfig, context, work)


@cluster.command()
@click.argument("name")
@common.connection_options
def cordon(name: str, kubeconfig: str, context: str) -> None:
    """Place no new copies there; running copies stay."""
    _cordon(name, True, kubeconfig, context)


@cluster.command()
@click.argument("name")
@common.connection_options
def uncordon(name: str, kubeconfig: str, context: str) -> None:
    """Allow new copies again."""
    _cordon(name, False, kubeconfig, context)


def _cordon(name: str, cordoned: bool, kubeconfig: str, context: str) -> None:
    from federator.kinds import edits, registry

    async def work(host: "Client") -> None:
        await host.patch(registry.KINDS["MemberCluster"].ref("", name), edits.cordoned(cordoned))

    common.run(common.with_federation(kubeconfig, context, work))
    common.say(
        f"membercluster.federation.pinterest.com/{name} {'cordoned' if cordoned else 'uncordoned'}"
    )


@cluster.command()
@click.argument("name")
@common.connection_options
def trust(name: str, kubeconfig: str, context: str) -> None:
    """Trust an Untrustworthy member again. If it still contradicts itself, it is marked again."""
    from federator.api import raw
    from federator.api.membercluster import UNTRUSTWORTHY
    from federator.kinds import registry
    from federator.model import names

    async def work(host: "Client") -> bool:
        ref = registry.KINDS["MemberCluster"].ref("", name)
        since = raw.text(raw.condition(await host.get(ref), UNTRUSTWORTHY), "lastTransitionTime")
        if since:
            await host.patch(ref, {"metadata": {"annotations": {names.TRUST_ANNOTATION: since}}})
        return bool(since)

    if common.run(common.with_federation(kubeconfig, context, work)):
        common.say(f"membercluster.federation.pinterest.com/{name} is trusted again")
    else:
        common.say(f"{name} is not Untrustworthy.")


@cluster.command()
@click.argument("name")
@click.option(
    "--orphan",
    is_flag=True,
    help="Leave what runs there as it is; its copies are placed elsewhere as well.",
)
@click.option(
    "--lost", is_flag=True, help="Give up a cluster that is unreachable and will not come back."
)
@click.option(
    "--force",
    is_flag=True,
    help="Begin also when copies would have no other place: these stay, and the removal waits.",
)
@click.option("--cancel", is_flag=True, help="End a removal before its MemberCluster is deleted.")
@click.option(
    "--timeout",
    type=waiting.Duration(),
    default="0",
    help="Stop waiting after this time, such as 30m; the removal continues. 0: never.",
)
@click.option("--no-wait", is_flag=True, help="Return immediately. The removal continues.")
@common.connection_options
def remove(
    name: str,
    orphan: bool,
    lost: bool,
    force: bool,
    cancel: bool,
    timeout: float,
    no_wait: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Remove a member from the federation. The hub drains it first, as `federator cluster drain`
    does, and deletes the MemberCluster last. A removal that would leave copies without a place is
    refused. With --orphan and --lost nothing leaves before the deletion, so neither is refused.
    Ctrl-C ends the waiting; the removal continues until --cancel."""
    from federator.api.membercluster import Removal
    from federator.cli.clusters import granting, removal

    if orphan and lost:
        common.fail(
            "use either --orphan, for a reachable cluster, or --lost, for an unreachable one"
        )
    if cancel and (orphan or lost or force):
        common.fail("--cancel ends a removal, so it takes no --orphan, --lost or --force")
    how = Removal.ORPHAN if orphan else Removal.LOST if lost else Removal.EMPTY

    async def work(host: "Client") -> bool:
        obj = await removal.find(host, name)
        if cancel:
            await removal.cancel(host, obj)
            common.say(f"membercluster.federation.pinterest.com/{name} stays a member")
            return True
        removal.refuse_unfit(obj, how)
        if how is Removal.EMPTY:
            obj = await removal.drain(host, obj, force=force)
        else:
            await removal.ask(host, obj, how)
        secret = granting.secret_of(obj)
        if no_wait:
            common.say(f"membercluster.federation.pinterest.com/{name} is being removed")
            if secret:
                what = (
                    f"secret/{secret} rolebinding/{granting.PREFIX}{secret}"
                    f" role/{granting.PREFIX}{secret}"
                )
                where = f"-n {granting.CREDENTIALS_NAMESPACE}"
                common.say(
                    f"if the host has no garbage collector, afterwards run: kubectl delete {what}"
                    f" {where}",
                    err=True,
                )
            return True
        return await _await_removal(host, obj, timeout)

    common.finish(kubeconfig, context, work)


async def _await_removal(host: "Client", obj: Mapping[str, Any], timeout_s: float) -> bool:
    """Prints how far a removal is, until the MemberCluster is gone. Returns False on timeout."""
    from federator.cli.clusters import removal

    name = obj["metadata"]["name"]
    watch = removal.Watch(host, obj, lambda text: common.say(text, err=True))
    hub = waiting.Hub(host)
    await hub.look()
    if hub.halted:
        common.say(f"the removal of {name} waits: {hub.halted}", err=True)
    if not await waiting.until(hub, timeout_s, watch.look):
        state = f"waits: {hub.halted}" if hub.halted else "continues"
        end = f"federator cluster remove {name} --cancel"
        common.say(f"the removal of {name} {state}; to end it: {end}", err=True)
        return False
    await removal.drop_credentials(host, obj)
    if watch.note:
        common.say(watch.note, err=True)
    common.say(f"membercluster.federation.pinterest.com/{name} removed")
    return True


@cluster.command(name="take-over")
@click.argument("name")
@click.option(
    "--from",
    "other",
    default="",
    help="Uid of the replaced host (default: the one in the member's status).",
)
@common.connection_options
def take_over(name: str, other: str, kubeconfig: str, context: str) -> None:
    """Declare that this host has permanently replaced another host. It then owns the slices of that
    host in the cluster."""
    from federator.cli.clusters import joining
    from federator.kinds import registry

    async def work(host: "Client") -> str:
        ref = registry.KINDS["MemberCluster"].ref("", name)
        host_uid = other or joining.other_host(await host.get(ref))
        if not host_uid:
            common.fail(
                f"the status of {name} names no other host; give that host's uid with --from"
            )
        await host.patch(ref, {"spec": {"takeOverFrom": host_uid}})
        return host_uid

    host_uid = common.run(common.with_federation(kubeconfig, context, work))
    common.say(f"membercluster.federation.pinterest.com/{name} is taken over from host {host_uid}")


@cluster.command()
@click.argument("name")
@common.connection_options
def forget(name: str, kubeconfig: str, context: str) -> None:
    """Let deletions that wait for this unreachable member finish; it is cleaned up when it
    returns."""
    from federator.cli.clusters import joining
    from federator.kinds import registry

    async def work(host: "Client") -> list[str]:
        decisions = await joining.forget(host, name)
        if not decisions:
            # Checked second, to refuse unknown names: a deletion may wait for a removed member.
            await host.get(registry.KINDS["MemberCluster"].ref("", name))
        return decisions

    released = common.run(common.with_federation(kubeconfig, context, work))
    for decision in released:
        common.say(
            f"placementdecision.federation.pinterest.com/{decision} no longer waits for {name}"
        )
    if not released:
        common.say(f"No deletion waits for {name}.")


@cluster.command(name="list")
@common.connection_options
def list_(kubeconfig: str, context: str) -> None:
    """List the members, as `federator get clusters`."""
    from federator.cli import views

    async def work(host: "Client") -> None:
        common.show(await views.table_of(host, "MemberCluster") or "No members have joined.")

    common.run(common.with_federation(kubeconfig, context, work))
