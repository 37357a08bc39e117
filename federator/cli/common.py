"""Shared by all commands: options with kubectl's names, a client of the host, the event loop,
printing, exit codes.

Tables go to stdout, everything else to stderr. Exit 1: something failed, or the output is partial.
"""

import asyncio
import contextlib
import json
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import yaml

from federator.model import plaintext

if TYPE_CHECKING:
    from federator.hub.query.banner import Banner

T = TypeVar("T")
_READ_AS_ELSE = re.compile(r"[-+]?[.0-9][-+.0-9a-fA-FxXoO_:]*|[yYnN]")
F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """Adds --kubeconfig and --context, as in kubectl."""
    command = click.option("--context", default="", help="Context of the kubeconfig.")(command)
    return click.option(
        "--kubeconfig", default="", help="Kubeconfig of the host (default: KUBECONFIG)."
    )(command)


def namespace_options(command: F) -> F:
    """Adds -n and -A, as in kubectl."""
    command = click.option(
        "-n", "--namespace", default="", help="Namespace (default: the context's)."
    )(command)
    return click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")(command)


def leader_option(command: F) -> F:
    """Adds --leader-address, for commands that query the leading hub."""
    return click.option(
        "--leader-address",
        default="",
        help="HOST:PORT of the leader's query port (default: as the Lease says).",
    )(command)


def say(line: str, *, err: bool = False) -> None:
    """Prints one line with control characters made visible, so that no text can act on the
    terminal."""
    click.echo(plaintext.visible(line, keep="\t"), err=err)


def show(block: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints several lines. The caller has already escaped line breaks inside values (as `table`
    and `dump` do)."""
    click.echo(plaintext.visible(block, keep="\n\t"), err=err, nl=nl)


def data(text: str) -> None:
    """Prints data without a final line break: raw into a pipe or file, made visible on a
    terminal."""
    click.echo(plaintext.visible(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False)


def fail(*messages: str, code: int = 1) -> NoReturn:
    """Exits with `code` after printing each message as an error line on stderr."""
    for message in messages:
        say(f"error: {message}", err=True)
    sys.exit(code)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine, on uvloop if it is installed. Known errors become one sentence and exit
    1; Ctrl-C exits quietly with 130.

    SIGTERM cancels as Ctrl-C does, so that a command cleans up in either case (exit 143).
    """
    from federator.kube.errors import ApiError
    from federator.kube.leader.elector import LeaseLost
    from federator.kube.login.kubeconfig import NotConfigured
    from federator.model.errors import FieldError

    try:
        with _signals_kept(), _runner() as runner:
            return runner.run(_until_terminated(coroutine))
    except (ApiError, NotConfigured, FieldError, LeaseLost) as trouble:
        fail(str(trouble))
    except BrokenPipeError:
        raise  # click exits quietly when the reader of the pipe has gone
    except OSError as trouble:
        fail(str(trouble))
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:
        sys.exit(143)


async def _until_terminated(coroutine: Coroutine[Any, Any, T]) -> T:
    """Cancels the coroutine on SIGTERM. Not through SIGINT, which shells ignore in background
    jobs."""
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await coroutine


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """SIGTERM does afterwards what it did before: a loop that ends sets the system's default, or
    leaves its own handler behind."""
    former = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if former is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, former)


def _runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def with_host(kubeconfig: str, context: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """Opens a client of the host, runs `work` with it, closes it."""
    from federator.kube.client import Client
    from federator.kube.login import connect

    transport = await connect.from_kubeconfig(kubeconfig, context)
    try:
        return await work(Client(transport, "host"))
    finally:
        await transport.close()


async def with_federation(kubeconfig: str, context: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """As `with_host`, for commands with output for people: prints the banner on stderr first (a
    pause, no leader)."""

    async def after_banner(client: Any) -> T:
        await print_banner(client)
        return await work(client)

    return await with_host(kubeconfig, context, after_banner)


def finish(kubeconfig: str, context: str, work: Callable[[Any], Awaitable[bool]]) -> None:
    """Runs `with_federation`; exit 1 when `work` says that not all is well."""
    if not run(with_federation(kubeconfig, context, work)):
        sys.exit(1)


async def print_banner(client: Any) -> "Banner":
    """Prints the banner on stderr and returns it."""
    from federator.hub.query import banner

    shown = await banner.read(client)
    for line in shown.lines:
        say(line, err=True)
    return shown


def default_namespace(kubeconfig: str, context: str) -> str:
    """The namespace of the context; `default` when it names none or no file is readable."""
    from federator.kube.login import kubeconfig as files

    try:
        _, fields = files.read(kubeconfig).context(context)
    except files.NotConfigured:
        return "default"
    return str(fields.get("namespace", "default"))


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column, in characters."""
    return (
        [max(len(plaintext.visible(row[at])) for row in rows) for at in range(len(rows[0]))]
        if rows
        else []
    )


def aligned(cells: Sequence[str], columns: list[int]) -> str:
    """One row, padded as kubectl does: three blanks between cells, no rulers. Widens `columns` in
    place where a cell is wider.

    Control characters are made visible first; otherwise a line break would look like another row.
    """
    cells = [plaintext.visible(text) for text in cells]
    columns[:] = [
        max(width, len(text))
        for width, text in zip(columns or [0] * len(cells), cells, strict=True)
    ]
    return "   ".join(
        text.ljust(width) for text, width in zip(cells, columns, strict=True)
    ).rstrip()


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, no_headers: bool = False
) -> str:
    """Headers and rows in aligned columns; "" without rows and headers."""
    shown = list(rows) if no_headers else [headers, *rows]
    columns = widths(shown)
    return "\n".join(aligned(row, columns) for row in shown)


def dump(value: Any, output: str) -> str:
    """The value as JSON (`output` "json") or YAML."""
    if output == "json":
        return json.dumps(value, indent=4, sort_keys=False)
    dumped = str(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    ).rstrip()
    return plaintext.visible(dumped, keep="\n\t")


class _Dumper(yaml.SafeDumper):
    """Chooses a style per text: block style for several lines; double quotes for control
    characters, so that their escapes are read back; single quotes for what some YAML reader would
    take for a number (1e3, 0o17) or, as kubectl does, for a boolean (y, n)."""

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
    """The time since an RFC 3339 stamp in kubectl's short form, such as `5m`, `3h` or `2d`."""
    from federator.kube import clock

    try:
        seconds = max(0, int(now_s - clock.parse(stamp)))
    except ValueError:
        return "<unknown>"
    for unit, size, below in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"
