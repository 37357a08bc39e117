"""`federator exec` and `federator port-forward`: reach a pod of a member with kubectl and the
user's own context.

The hub has no such rights in members and cannot lend them. These commands find the context (named
like the cluster unless --member-context is given) and the pod, then replace themselves by kubectl.
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
    command = click.option(
        "--member-context", default="", help="Context of the cluster (default: its name)."
    )(command)
    command = click.option(
        "-C", "--cluster", default="", help="The cluster, if TARGET does not name it."
    )(command)
    command = click.option(
        "-n", "--namespace", default="", help="Namespace (default: the context's)."
    )(command)
    return common.connection_options(command)


@click.command(name="exec")
@click.argument("target", metavar="TARGET")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-c", "--container", default="", help="Container name.")
@click.option("-i", "--stdin", is_flag=True, help="Pass stdin to the container.")
@click.option("-t", "--tty", is_flag=True, help="Stdin is a terminal.")
@_options
def run_in_pod(
    target: str, command: tuple[str, ...], container: str, stdin: bool, tty: bool, **options: Any
) -> None:
    """Run a command in a pod, with kubectl and your own context: `federator exec us-east-1a/POD -it
    -- sh`.

    TARGET is CLUSTER/POD as `federator pods -o name` prints it, or POD or psvc/NAME (a running pod
    of it) with -C.
    """
    flags = [
        *(["-c", container] if container else []),
        *(["-i"] if stdin else []),
        *(["-t"] if tty else []),
    ]
    _hand_over("exec", target, [*flags, "--", *command], options)


@click.command(name="port-forward")
@click.argument("target", metavar="TARGET")
@click.argument("ports", nargs=-1, required=True)
@click.option("--address", default="", help="Addresses to listen on (default: localhost).")
@_options
def port_forward(target: str, ports: tuple[str, ...], address: str, **options: Any) -> None:
    """Forward ports to a pod, with kubectl and your own context: `federator port-forward
    us-east-1a/POD 8080:80`."""
    _hand_over(
        "port-forward", target, [*ports, *([f"--address={address}"] if address else [])], options
    )


def _hand_over(verb: str, target: str, arguments: list[str], options: dict[str, Any]) -> NoReturn:
    """Replaces this process by kubectl. Exits with an error without kubectl, context or pod."""
    program = shutil.which("kubectl")
    if program is None:
        common.fail(
            f"{verb} needs kubectl on your PATH: it connects to the member with your own context"
        )
    cluster, pod, workload = _target(target, options["cluster"])
    context = options["member_context"] or cluster
    _check_context(context, cluster, options["kubeconfig"])
    _check_cluster(context, cluster, options)
    namespace = options["namespace"] or common.default_namespace(
        options["kubeconfig"], options["context"]
    )
    if workload:
        pod = _running_pod(workload, cluster, context, {**options, "namespace": namespace})
    where = [f"--kubeconfig={options['kubeconfig']}"] if options["kubeconfig"] else []
    sys.stdout.flush()
    os.execv(
        program,
        [
            "kubectl",
            *where,
            f"--context={context}",
            f"--namespace={namespace}",
            verb,
            pod,
            *arguments,
        ],
    )


def _target(target: str, cluster: str) -> tuple[str, str, str]:
    """(cluster, pod, workload); pod or workload is "". Exits with an error if no cluster is
    named."""
    before, slash, after = target.partition("/")
    if slash and not cluster:
        from federator.cli import views

        if before.lower() in views.ALIASES:
            common.fail(f"name the cluster with -C: {target} has pods in several")
        return before, after, ""
    if not cluster:
        common.fail(
            "name the cluster, as CLUSTER/POD or with -C; `federator pods KIND/NAME -o name`"
            " prints both"
        )
    if not slash:
        return cluster, target, ""
    return (cluster, "", target) if before != cluster else (cluster, after, "")


def _check_context(context: str, cluster: str, kubeconfig: str) -> None:
    from federator.kube.login import connect
    from federator.kube.login.kubeconfig import NotConfigured

    try:
        contexts = connect.contexts(kubeconfig)
    except NotConfigured as bad:
        common.fail(str(bad))
    if context not in contexts:
        shown = ", ".join(contexts) or "none"
        common.fail(
            f"you have no context {context!r} for {cluster}: exec and port-forward use contexts of"
            " your own"
            f" (you have {shown}); name another with --member-context, or another file in"
            " KUBECONFIG"
        )


def _check_cluster(context: str, cluster: str, options: dict[str, Any]) -> None:
    """Exits with an error when the context leads to another cluster than the member of that name: a
    command must not run in the wrong one. Skipped where the host or the member refuses the read."""
    from federator.api import membercluster
    from federator.kinds import registry
    from federator.kube import errors

    async def recorded(host: "Client") -> str:
        try:
            return membercluster.recorded_uid(
                await host.get(registry.KINDS["MemberCluster"].ref("", cluster))
            )
        except errors.NotFound:
            common.fail(f"there is no member {cluster!r}")
        except errors.ApiError:
            return ""

    async def check() -> str:
        uid = await common.with_host(options["kubeconfig"], options["context"], recorded)
        return await common.with_host(
            options["kubeconfig"], context, lambda client: asking.context_problem(client, uid)
        )

    if why := common.run(check()):
        common.fail(f"{cluster} {why}")


def _running_pod(workload: str, cluster: str, context: str, options: dict[str, Any]) -> str:
    """The first running pod of the workload in that cluster, found with the user's own contexts."""
    if context != cluster:
        common.fail(f"name a pod: finding one of {workload} needs a context named {cluster}")
    query = asking.query_of(
        workload, "", {**options, "cluster": cluster, "own_contexts": True, "leader_address": ""}
    )
    answer = common.run(query.answer("pods", {}))
    if asking.report_unanswered(answer["clusters"]):
        sys.exit(1)
    running = [row["name"] for row in answer["pods"] if row["status"] == "Running"]
    if not running:
        common.fail(f"no pod of {query.title} runs in {cluster}")
    return str(running[0])
