"""Every command of the command line with its arguments and options, as click knows them."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Final

import click

from federator.cli import main
from tests.reference.markdown import code, table

MORE: Final[Mapping[str, str]] = {
    "sandbox": "fleet-file.md",
    "get": "../using/get.md",
    "explain": "../using/explain.md",
    "pods": "../using/pods-and-logs.md",
    "tree": "../using/pods-and-logs.md",
    "logs": "../using/pods-and-logs.md",
    "exec": "../using/pods-and-logs.md",
    "port-forward": "../using/pods-and-logs.md",
    "history": "../using/history.md",
    "rollout": "../using/rollouts.md",
    "wait": "waiting.md",
    "place": "../using/place.md",
    "test": "../operating/policy-tests.md",
    "headroom": "../using/headroom.md",
    "quota": "../operating/quotas.md",
    "queue": "../operating/quotas.md",
    "drill": "../operating/drill.md",
    "simulate": "../using/simulate.md",
    "record": "../using/record.md",
    "sweep": "../using/sweep.md",
    "convert": "../using/convert.md",
    "cluster": "../operating/clusters.md",
    "rebalance": "../operating/policies.md",
    "pause": "../operating/pause-and-brakes.md",
    "resume": "../operating/pause-and-brakes.md",
    "hub": "../operating/deploy.md",
    "member": "../operating/deploy.md",
    "gateway": "../operating/gateway.md",
    "submit": "../using/submit.md",
    "submissions": "../using/submit.md",
    "audit": "../operating/gateway.md",
    "runtime": "../using/runtime.md",
    "signer": "../operating/identity.md",
    "config": "settings.md",
    "crd": "objects.md",
}
"""Command -> the page that says more."""

HEAD: Final = """\
# Commands

Every command is also `kubectl federator ...`: pip installs the plugin. `-h` prints the same text.
Options that a command shares with kubectl have kubectl's names. Exit 0: the
command succeeded. Exit 1: it failed, and stderr has the reason. The help of a command lists its other codes.
"""


def page() -> str:
    top = click.Context(main.cli, info_name="federator")
    rows = [(code(f"federator {name}"), text) for name, (_, text) in main.COMMANDS.items()]
    parts = [HEAD, table(("command", "does"), rows)]
    for name in main.COMMANDS:
        command = main.cli.get_command(top, name)
        assert command is not None
        parts += _sections(command, click.Context(command, top, info_name=name), MORE.get(name, ""))
    return "\n\n".join(part.strip() for part in parts)


def _sections(command: click.Command, context: click.Context, more: str) -> Iterator[str]:
    words = context.command_path
    yield f"## {words}"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")
    if more:
        yield f"More: [{more.removeprefix('../')}]({more})."
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _sections(inner, click.Context(inner, context, info_name=name), "")
        return
    arguments = [_argument(one) for one in command.params if isinstance(one, click.Argument)]
    yield f"Usage: {code(' '.join([words, *arguments]))}" + (
        ", with these options:" if _options(command) else ""
    )
    if options := _options(command):
        yield table(("option", "meaning"), options)


def _argument(one: click.Argument) -> str:
    name = (one.metavar or str(one.name)).upper()
    many = "..." if one.nargs == -1 else ""
    return f"{name}{many}" if one.required else f"[{name}{many}]"


def _options(command: click.Command) -> list[tuple[str, str]]:
    return [
        (code(", ".join([*one.opts, *one.secondary_opts]) + _value(one)), one.help or "")
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden
    ]


def _value(one: click.Option) -> str:
    if one.is_flag or one.count:
        return ""
    if isinstance(one.type, click.Choice):
        return " " + "|".join(str(choice) for choice in one.type.choices)
    return f" {one.metavar or one.type.name.upper()}"
