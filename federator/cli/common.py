"""What all commands share: options with kubectl's names, a client of the host, running on an event loop, printing,
exit codes.

Tables go to stdout, everything else to stderr. Exit 1: something failed, or only a part could be shown.
"""

import asyncio
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click
import yaml

from federator.model import plaintext

T = TypeVar("T")
_READ_AS_ELSE = re.compile(r"[-+]?[.0-9][-+.0-9a-fA-FxXoO_:]*|[yYnN]")
F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """--kubeconfig and --context, as kubectl has them."""
    command = click.option("--context", default="", help="Context of the kubeconfig.")(command)
    return click.option("--kubeconfig", default="", help="Kubeconfig of the host (default: KUBECONFIG).")(command)


def namespace_options(command: F) -> F:
    """-n and -A, as kubectl has them."""
    command = click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")(command)
    return click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")(command)


def say(line: str, *, err: bool = False) -> None:
    """Prints one line. Nothing in it reaches the terminal as a command, whoever chose the text."""
    click.echo(plaintext.visible(line, keep="\t"), err=err)


def show(block: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints several lines. Whoever made the block kept line breaks of foreign values out of it (`table`, `dump`)."""
    click.echo(plaintext.visible(block, keep="\n\t"), err=err, nl=nl)


def data(text: str) -> None:
    """Prints what was asked for as data: as it is for a program, visible at a terminal. Adds no line break."""
    click.echo(plaintext.visible(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False)


def fail(*messages: str, code: int = 1) -> NoReturn:
    """Ends the command with sentences on stderr, a line each."""
    for message in messages:
        say(f"error: {message}", err=True)
    sys.exit(code)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs on uvloop where it exists. What went wrong becomes a sentence and exit 1; Ctrl-C ends quietly with 130.

    SIGTERM ends it as Ctrl-C does, so that whatever a command has made is taken down and away in either case.
    """
    from federator.kube.errors import ApiError
    from federator.kube.leader.elector import LeaseLost
    from federator.kube.login.connect import NotConfigured
    from federator.model.errors import FieldError

    try:
        return _runner()(_until_terminated(coroutine))
    except (ApiError, NotConfigured, FieldError, LeaseLost) as trouble:
        fail(str(trouble))
    except BrokenPipeError:
        raise  # click ends quietly for a reader that has gone
    except OSError as trouble:
        fail(str(trouble))
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:
        sys.exit(143)


async def _until_terminated(coroutine: Coroutine[Any, Any, T]) -> T:
    """SIGTERM cancels what runs. Not by way of SIGINT: a shell starts background jobs with that one ignored."""
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await coroutine


def _runner() -> Callable[[Coroutine[Any, Any, T]], T]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return lambda coroutine: asyncio.Runner(loop_factory=uvloop.new_event_loop).run(coroutine)


async def with_host(kubeconfig: str, context: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """Opens a client of the host, does the work, closes it."""
    from federator.kube.client import Client
    from federator.kube.login import connect

    transport = await connect.from_kubeconfig(kubeconfig, context)
    try:
        return await work(Client(transport, "host"))
    finally:
        await transport.close()


async def with_federation(kubeconfig: str, context: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """As `with_host`, for what people read: first tells on stderr when the federation is paused or nobody leads it."""
    from federator.cli import banner

    async def after_banner(client: Any) -> T:
        for line in await banner.lines(client):
            say(line, err=True)
        return await work(client)

    return await with_host(kubeconfig, context, after_banner)


def default_namespace(kubeconfig: str, context: str) -> str:
    """The namespace of the context; `default` when it names none or is not readable. Of several files the first to say
    something counts, and one may say which context is current while another has it, as for kubectl."""
    from federator.api import raw

    path = kubeconfig or os.environ.get("KUBECONFIG", "") or os.path.expanduser("~/.kube/config")
    documents = [document for part in path.split(os.pathsep) if isinstance(document := _yaml(part), Mapping)]
    wanted = context or next((one["current-context"] for one in documents if one.get("current-context")), "")
    for document in documents:
        for entry in raw.objects(document, "contexts"):
            if entry.get("name") == wanted:
                return str(raw.at(entry, "context", "namespace") or "default")
    return "default"


def _yaml(path: str) -> object:
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column."""
    return [max(len(plaintext.visible(row[at])) for row in rows) for at in range(len(rows[0]))] if rows else []


def aligned(cells: Sequence[str], columns: list[int]) -> str:
    """One row, padded as kubectl pads: three blanks between, no rulers. Columns that are too narrow for it grow.

    Cells are made visible first: a line break in one would otherwise look like a row of its own.
    """
    cells = [plaintext.visible(text) for text in cells]
    columns[:] = [max(width, len(text)) for width, text in zip(columns or [0] * len(cells), cells, strict=True)]
    return "   ".join(text.ljust(width) for text, width in zip(cells, columns, strict=True)).rstrip()


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, no_headers: bool = False) -> str:
    """Columns as wide as what is in them; "" for no rows and no headers."""
    shown = list(rows) if no_headers else [headers, *rows]
    columns = widths(shown)
    return "\n".join(aligned(row, columns) for row in shown)


def dump(value: Any, output: str) -> str:
    """The value as JSON or YAML."""
    if output == "json":
        return json.dumps(value, indent=4, sort_keys=False)
    dumped = str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)).rstrip()
    return plaintext.visible(dumped, keep="\n\t")


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks; texts with characters that are not shown in double quotes, where their escapes are read back;
    and texts that some reader of YAML takes for a number (1e3, 0o17) or, as
    kubectl does, for a boolean (y, n) in quotes."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        if plaintext.visible(text, keep="\n\t") != text:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')
        if "\n" in text:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="|")
        if _READ_AS_ELSE.fullmatch(text):
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="'")
        return self.represent_str(text)


_Dumper.add_representer(str, _Dumper.represent_text)


def age(stamp: str, now_s: float) -> str:
    """`5m`, `3h`, `2d`: the time since an RFC 3339 stamp, in kubectl's short way."""
    from federator.kube import clock

    try:
        seconds = max(0, int(now_s - clock.parse(stamp)))
    except ValueError:
        return "<unknown>"
    for unit, size, below in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"
