"""The command line: one table of commands, each imported only when it is used, so that a shell never waits for all of
them."""

import importlib
from collections.abc import Mapping

import click

from federator import __version__

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("federator.cli.running.demo", "A federation with an example application, in this process."),
    "sandbox": ("federator.cli.running.sandbox", "Embedded clusters to try things on, with kubeconfigs."),
    "get": ("federator.cli.get", "Workloads, clusters and decisions over the whole federation."),
    "explain": ("federator.cli.explain", "Why a workload is where it is, and what would help."),
    "pods": ("federator.cli.leader.pods", "The pods of a workload, in all its clusters."),
    "tree": ("federator.cli.leader.tree", "What a workload became in each cluster, and how each object is."),
    "logs": ("federator.cli.leader.logs", "The logs of a workload's pods, of all its clusters."),
    "exec": ("federator.cli.reaching", "Run a command in a pod of a member, with your own context."),
    "port-forward": ("federator.cli.reaching", "Forward ports to a pod of a member, with your own context."),
    "history": ("federator.cli.leader.history", "What was decided about a workload, and what became of it."),
    "rollout": ("federator.cli.rollouts.rollout", "Follow, look back at, take back and repeat roll-outs."),
    "wait": ("federator.cli.rollouts.wait", "Wait until workloads are ready, rolled out, placed, complete or deleted."),
    "place": ("federator.cli.files.place", "The placement engine on files: test policies without a cluster."),
    "headroom": ("federator.cli.headroom", "How many more copies of a shape fit, where, and what binds first."),
    "simulate": ("federator.cli.simulate", "What a fleet would do with a demand: a trace or a scenario, played fast."),
    "sweep": ("federator.cli.sweep", "Many simulations of one scenario: cost against waiting against moves."),
    "convert": ("federator.cli.files.convert", "Kubernetes manifests to Pinterest workloads."),
    "cluster": ("federator.cli.clusters.cluster", "Join, check, cordon and remove members."),
    "rebalance": ("federator.cli.rollouts.rebalance", "Move running copies to where their policy wants them now."),
    "crd": ("federator.cli.files.crd", "Install or print the CustomResourceDefinitions."),
    "pause": ("federator.cli.rollouts.pause", "Stop all placing and dispatching; reporting goes on."),
    "resume": ("federator.cli.rollouts.pause", "End a pause."),
    "hub": ("federator.cli.running.processes", "Run the hub."),
    "member": ("federator.cli.running.processes", "Run the member process of one cluster."),
    "config": ("federator.cli.config", "Show and explain settings."),
    "version": ("federator.cli.version", "Print the version."),
}
"""Name -> (module that has a click command of that name, one line of help)."""


class LazyGroup(click.Group):
    """Commands are found by the table above and imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        return next(
            value for value in vars(module).values() if isinstance(value, click.Command) and value.name == cmd_name
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="federator %(version)s")
def cli() -> None:
    """Places large workloads over many Kubernetes clusters, and shows where they run and why."""
