"""The command line: a table of commands. Each command's module is imported only when it is used,
which keeps the start short."""

import importlib
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from federator import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "federator.cli.running.demo",
        "Run a federation with an example application in this process.",
    ),
    "sandbox": (
        "federator.cli.running.sandbox",
        "Run embedded clusters to try things on, with kubeconfigs.",
    ),
    "get": ("federator.cli.get", "Show workloads, clusters and decisions of the whole federation."),
    "explain": (
        "federator.cli.explain",
        "Explain why a workload is where it is, and what would help.",
    ),
    "describe": (
        "federator.cli.leader.describe",
        "Describe a workload on one page: conditions, shares, pods, Events, spec.",
    ),
    "pods": ("federator.cli.leader.pods", "List the pods of a workload in all its clusters."),
    "tree": (
        "federator.cli.leader.tree",
        "Show the objects of a workload in each cluster, and their health.",
    ),
    "logs": (
        "federator.cli.leader.logs",
        "Print the logs of a workload's pods in all its clusters.",
    ),
    "exec": (
        "federator.cli.reaching",
        "Run a command in a pod of a member, with your own context.",
    ),
    "port-forward": (
        "federator.cli.reaching",
        "Forward ports to a pod of a member, with your own context.",
    ),
    "history": (
        "federator.cli.leader.history",
        "List the decisions about a workload, and their results.",
    ),
    "rollout": ("federator.cli.rollouts.rollout", "Follow, list, undo and restart rollouts."),
    "wait": (
        "federator.cli.rollouts.wait",
        "Wait until workloads are ready, rolled out, placed, complete or deleted.",
    ),
    "place": (
        "federator.cli.files.place",
        "Run the placement engine on files: test policies without a cluster.",
    ),
    "plan": (
        "federator.cli.planning.plan",
        "Show what edits of policies, quotas, clusters and workloads would move.",
    ),
    "apply": (
        "federator.cli.leader.apply",
        "Apply a saved plan, unless its outcome would be another one by now.",
    ),
    "diff": (
        "federator.cli.planning.diff",
        "Compare what is decided with what clusters report, or what a file would change.",
    ),
    "test": (
        "federator.cli.policytests.command",
        "Run tests of policies and quotas on files: placements, refusals, plans.",
    ),
    "headroom": (
        "federator.cli.planning.headroom",
        "Show how many more copies of a shape fit, where, and what binds first.",
    ),
    "quota": (
        "federator.cli.planning.quotas",
        "Show the tree of quotas: used, borrowed, lent, waiting, and their holders.",
    ),
    "queue": (
        "federator.cli.planning.quotas",
        "List workloads that lack copies, in the order of the next cycle, with the reason.",
    ),
    "drill": (
        "federator.cli.planning.drill",
        "Show which workloads would have no place if a cluster, or a zone, were gone now.",
    ),
    "simulate": (
        "federator.cli.planning.simulate",
        "Simulate what a fleet would do with a demand: a trace or a scenario.",
    ),
    "record": (
        "federator.cli.planning.record",
        "Record a live federation as a scenario that replays its decisions.",
    ),
    "size": (
        "federator.cli.planning.asking",
        "Find the smallest part of a fleet that meets the measures of a scenario.",
    ),
    "sweep": (
        "federator.cli.planning.sweep",
        "Simulate many variants of one scenario: cost, waiting and moves.",
    ),
    "validate": (
        "federator.cli.files.validate",
        "Check files as the API server would: all problems, each with its field.",
    ),
    "convert": (
        "federator.cli.files.convert",
        "Convert Kubernetes manifests to Pinterest workloads.",
    ),
    "workflow": (
        "federator.cli.files.workflow",
        "Check, store and sign workflow files for the submission gateway.",
    ),
    "cluster": ("federator.cli.clusters.cluster", "Join, check, cordon, drain and remove members."),
    "probe": (
        "federator.cli.clusters.probing",
        "Probe clusters with workloads, and show the results.",
    ),
    "fence": (
        "federator.cli.clusters.draining",
        "Vouch that nothing runs any more in a silent cluster: Exclusive shards leave it too.",
    ),
    "rebalance": (
        "federator.cli.planning.rebalance",
        "Move running copies to the clusters that their policy wants now.",
    ),
    "doctor": (
        "federator.cli.diagnosis.doctor",
        "Say what is wrong with this installation, and how to repair it.",
    ),
    "support-bundle": (
        "federator.cli.diagnosis.bundle",
        "Collect an archive for support, without secrets.",
    ),
    "crd": ("federator.cli.files.crd", "Install or print the CustomResourceDefinitions."),
    "pause": (
        "federator.cli.rollouts.pause",
        "Stop all placing and dispatching; status reporting continues.",
    ),
    "resume": ("federator.cli.rollouts.pause", "End a pause."),
    "hub": ("federator.cli.running.processes", "Run the hub."),
    "member": ("federator.cli.running.processes", "Run the member process of one cluster."),
    "dashboard": (
        "federator.cli.running.dashboard",
        "Serve web pages over the federation, and the same as JSON.",
    ),
    "gateway": ("federator.cli.gateway.process", "Serve the submission gateway."),
    "submit": (
        "federator.cli.gateway.submit",
        "Submit a version of a landed workflow, and print the verdict.",
    ),
    "submissions": (
        "federator.cli.gateway.submissions",
        "Show and cancel what was submitted through the gateway.",
    ),
    "audit": ("federator.cli.gateway.audits", "Check the audit of the submission gateway."),
    "runtime": (
        "federator.cli.running.runtime",
        "Run what supports workloads inside their pods: identity, and the guard of shards.",
    ),
    "signer": (
        "federator.cli.running.signer",
        "Sign the certificates of the pods of one cluster.",
    ),
    "config": ("federator.cli.config", "Show and explain settings."),
    "version": ("federator.cli.version", "Print the version."),
}
"""Command name -> (module with the click command of that name, one line of help)."""


class LazyGroup(click.Group):
    """Looks commands up in the table above and imports them on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        return next(
            value
            for value in vars(module).values()
            if isinstance(value, click.Command) and value.name == cmd_name
        )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, by the table: nothing is imported for a key press."""
        chosen = [
            CompletionItem(name, help=help_text)
            for name, (_, help_text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return chosen + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="federator %(version)s")
def cli() -> None:
    """Places large workloads over many Kubernetes clusters, and shows where they run and why."""
