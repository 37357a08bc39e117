"""`federator exec` and `federator port-forward`: into one pod of a member, by kubectl and a person's own context.

The hub has no such rights in members and lends none. These commands find the context (called as the cluster is, unless
--member-context says otherwise) and the pod, and hand over to kubectl.
"""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from federator.cli import common
from federator.cli.leader import asking

if TYPE_CHECKING:
    from federator.kube.client import Client


def _options(command: common.F) -> common.F:
    command = click.option("--member-context", default="", help="Context of the cluster (default: its name).")(command)
    command = click.option("-C", "--cluster", default="", help="The cluster, where TARGET does not say it.")(command)
    command = click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")(command)
    return common.connection_options(command)


@click.command(name="exec")
@click.argument("target", metavar="TARGET")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-c", "--container", default="", help="Container.")
@click.option("-i", "--stdin", is_flag=True, help="Pass stdin on.")
@click.option("-t", "--tty", is_flag=True, help="Stdin is a terminal.")
@_options
def run_in_pod(target: str, command: tuple[str, ...], container: str, stdin: bool, tty: bool, **given: Any) -> None:
    """Run a command in a pod, with kubectl and your own context: `federator exec us-east-1a/POD -it -- sh`.

    TARGET is CLUSTER/POD as `federator pods -o name` prints it, or POD or psvc/NAME (a running pod of it) with -C.
    """
    flags = [*(["-c", container] if container else []), *(["-i"] if stdin else []), *(["-t"] if tty else [])]
    _hand_over("exec", target, [*flags, "--", *command], given)


@click.command(name="port-forward")
@click.argument("target", metavar="TARGET")
@click.argument("ports", nargs=-1, required=True)
@click.option("--address", default="", help="Addresses to listen on (default: localhost).")
@_options
def port_forward(target: str, ports: tuple[str, ...], address: str, **given: Any) -> None:
    """Forward ports to a pod, with kubectl and your own context: `federator port-forward us-east-1a/POD 8080:80`."""
    _hand_over("port-forward", target, [*ports, *([f"--address={address}"] if address else [])], given)


def _hand_over(verb: str, target: str, arguments: list[str], given: dict[str, Any]) -> NoReturn:
    """Becomes kubectl. Ends with a sentence where there is no kubectl, no such context, or no such pod."""
    program = shutil.which("kubectl")
    if program is None:
        common.fail(f"{verb} needs kubectl on your PATH: it is what speaks to the member, with your own context")
    cluster, pod, workload = _target(target, given["cluster"])
    context = given["member_context"] or cluster
    _check_context(context, cluster, given["kubeconfig"])
    _check_cluster(context, cluster, given)
    namespace = given["namespace"] or common.default_namespace(given["kubeconfig"], given["context"])
    if workload:
        pod = _running_pod(workload, cluster, context, {**given, "namespace": namespace})
    where = [f"--kubeconfig={given['kubeconfig']}"] if given["kubeconfig"] else []
    sys.stdout.flush()
    os.execv(program, ["kubectl", *where, f"--context={context}", f"--namespace={namespace}", verb, pod, *arguments])


def _target(target: str, cluster: str) -> tuple[str, str, str]:
    """(cluster, pod, workload) of which one of the last two is "". Ends the command for what names no cluster."""
    before, slash, after = target.partition("/")
    if slash and not cluster:
        from federator.cli import views

        if before.lower() in views.ALIASES:
            common.fail(f"name the cluster with -C: {target} has pods in several")
        return before, after, ""
    if not cluster:
        common.fail("name the cluster, as CLUSTER/POD or with -C; `federator pods KIND/NAME -o name` prints both")
    if not slash:
        return cluster, target, ""
    return (cluster, "", target) if before != cluster else (cluster, after, "")


def _check_context(context: str, cluster: str, kubeconfig: str) -> None:
    from federator.kube.login import connect

    try:
        known = connect.contexts(kubeconfig)
    except connect.NotConfigured as bad:
        common.fail(str(bad))
    if context not in known:
        shown = ", ".join(known) or "none"
        common.fail(
            f"you have no context {context!r} for {cluster}: exec and port-forward use contexts of your own"
            f" (you have {shown}); name another with --member-context, or another file in KUBECONFIG"
        )


def _check_cluster(context: str, cluster: str, given: dict[str, Any]) -> None:
    """Ends the command when the context leads to another cluster than the member of that name, as far as the host and
    the member tell: a command must not run in the wrong one."""
    from federator.api import membercluster
    from federator.kinds import registry
    from federator.kube import errors

    async def recorded(host: "Client") -> str:
        try:
            return membercluster.recorded_uid(await host.get(registry.KINDS["MemberCluster"].ref("", cluster)))
        except errors.NotFound:
            common.fail(f"there is no member {cluster!r}")
        except errors.ApiError:
            return ""

    async def check() -> str:
        uid = await common.with_host(given["kubeconfig"], given["context"], recorded)
        return await common.with_host(given["kubeconfig"], context, lambda client: asking.trouble(client, uid))

    if why := common.run(check()):
        common.fail(f"{cluster} {why}")


def _running_pod(workload: str, cluster: str, context: str, given: dict[str, Any]) -> str:
    """The first pod of the workload there that runs, found with the person's own contexts."""
    if context != cluster:
        common.fail(f"name a pod: pods of {workload} are looked for with a context called {cluster}")
    asked = asking.asking(workload, "", {**given, "cluster": cluster, "own_contexts": True, "leader_address": ""})
    found = common.run(asked.answer("pods", {}))
    if asking.say_who_is_away(found["clusters"]):
        sys.exit(1)
    running = [row["name"] for row in found["pods"] if row["status"] == "Running"]
    if not running:
        common.fail(f"no pod of {asked.title} runs in {cluster}")
    return str(running[0])
