"""`federator logs KIND/NAME`: the last log lines of a workload's pods in all its clusters."""

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import click

from federator.cli import common
from federator.cli.leader import asking
from federator.model import plaintext

F = TypeVar("F", bound=Callable[..., Any])
TAIL_OF_MANY = 10
"""Default number of lines per log; a workload has many logs."""
TAIL_MAX = 10_000
FOLLOW_S = 2.0
"""Interval between requests for a followed log, in seconds."""
OVERLAP_S = 5
"""Seconds added to the time since the last request; lines seen twice are recognised by their
stamps."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


_OPTIONS = (
    click.option(
        "-c",
        "--container",
        default="",
        help="Container (default: the first one of the workload's template).",
    ),
    click.option("--pod", default="", help="This pod only."),
    click.option(
        "--shard",
        default=None,
        type=click.IntRange(0),
        help="For a job set: the pods that ran this shard.",
    ),
    click.option(
        "--tail",
        default=TAIL_OF_MANY,
        show_default=True,
        type=click.IntRange(1, TAIL_MAX),
        help="Lines per pod.",
    ),
    click.option("--since", default="", help="Only lines newer than this, such as 30s, 5m or 2h."),
    click.option("--previous", is_flag=True, help="Logs of the previous containers."),
    click.option("--timestamps", is_flag=True, help="Show the time of each line."),
    click.option(
        "--prefix",
        is_flag=True,
        help="Begin lines with [cluster/pod/container] (always so for several pods).",
    ),
    click.option(
        "--raw", is_flag=True, help="Print control characters unchanged; a terminal obeys them."
    ),
    click.option(
        "-f",
        "--follow",
        is_flag=True,
        help="Keep printing new lines, of new pods too, until Ctrl-C.",
    ),
)


def options(command: F) -> F:
    """Adds which pods, how much of their logs, and how lines are printed."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Query(Protocol):
    """Something that has pods with logs."""

    @property
    def title(self) -> str: ...

    async def answer(
        self, question: str, parameters: Mapping[str, str | int | bool], *, again: bool = False
    ) -> dict[str, Any]:
        """The answer with `logs`, `clusters` and `leftOut`. Exits with an error when there is
        none. `again`: not the first one."""
        ...


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@options
@asking.options
def logs(workload: str, name: str, follow: bool, since: str, **flags: Any) -> None:
    """Print the last log lines of a workload's pods (psvc/NAME, pjs/NAME, deploy/NAME) in all its
    clusters.

    Asks the leading hub with your rights on the host (get the workload, get pods/log). Exit 1 when
    a part is missing.
    """
    query = asking.query_of(workload, name, flags)
    run(query, follow, since, flags)


def run(query: "Query", follow: bool, since: str, flags: Mapping[str, Any]) -> None:
    """Prints the logs that a query gives, by the values of `options`."""
    parameters: dict[str, str | int | bool] = {
        "pod": flags["pod"],
        "container": flags["container"],
        "tail": flags["tail"],
        "since_seconds": seconds(since),
        "previous": flags["previous"],
        "timestamps": flags["timestamps"] or follow,
    }
    if flags["shard"] is not None:
        parameters["shard"] = flags["shard"]
    shown = Shown(
        raw=flags["raw"], prefix=flags["prefix"], timestamps=flags["timestamps"], stamped=follow
    )
    common.run(followed(query, parameters, shown) if follow else once(query, parameters, shown))


async def once(query: "Query", parameters: Mapping[str, str | int | bool], shown: "Shown") -> None:
    """Prints one answer. Exits with 1 when it is partial."""
    answer = await query.answer("logs", parameters)
    absent = not answer.get("logs")
    if absent:
        common.say(f"No pods{_called(parameters)} of {query.title} found.", err=True)
    partial = shown.show(answer)
    named = absent and bool(parameters["pod"] or "shard" in parameters)
    asking.exit_if_partial(
        asking.report_unanswered(answer.get("clusters") or ()) or partial or named
    )


def _called(parameters: Mapping[str, str | int | bool]) -> str:
    """The pod or shard that was asked for, for the message that none was found."""
    parts = [f"called {parameters['pod']}"] if parameters["pod"] else []
    parts += [f"of shard {parameters['shard']}"] if "shard" in parameters else []
    return "".join(f" {part}" for part in parts)


async def followed(query: "Query", parameters: dict[str, str | int | bool], shown: "Shown") -> None:
    """Prints new lines until Ctrl-C. A cluster that stops answering is reported once."""
    loop = asyncio.get_running_loop()
    reported: set[str] = set()
    again = False
    while True:
        looked = loop.time()
        answer = await query.answer("logs", parameters, again=again)
        again = True
        shown.show(answer)
        clusters = answer.get("clusters") or []
        away = {str(row.get("cluster")) for row in clusters if not row.get("answered")}
        asking.report_unanswered(
            row for row in clusters if str(row.get("cluster")) in away - reported
        )
        reported = away
        await asyncio.sleep(FOLLOW_S)
        # A relative time, applied with each node's own clock, so clocks need not agree.
        parameters |= {
            "since_seconds": math.ceil(loop.time() - looked) + OVERLAP_S,
            "tail": TAIL_MAX,
        }


@dataclass(slots=True)
class Shown:
    """How lines are printed, and which lines have been printed."""

    raw: bool
    prefix: bool
    timestamps: bool
    stamped: bool
    """Lines begin with their time stamps, which identify lines already printed."""
    _told_of_more: bool = False
    _last: dict[tuple[str, str, str], tuple[str, set[str]]] = field(default_factory=dict)
    """(cluster, pod, container) -> (last time stamp, lines printed with that stamp)."""

    def show(self, answer: Mapping[str, Any]) -> bool:
        """Prints an answer. Returns whether a part is missing. Pods without a log are named on
        stderr."""
        entries = answer.get("logs") or []
        prefix = self.prefix or self.stamped or len(entries) > 1
        partial = False
        for entry in entries:
            name = "/".join(
                plaintext.visible(str(entry.get(part, "")))
                for part in ("cluster", "pod", "container")
            )
            if "reason" in entry:
                if not self.stamped:
                    common.say(f"{name}: no log, {entry['reason']}", err=True)
                    partial = True
                continue
            for line in self._new(entry):
                # click strips escape sequences where stdout is no terminal; --raw keeps them in
                # files.
                click.echo(f"[{name}] {line}" if prefix else line, color=self.raw or None)
            if entry.get("cut"):
                common.say(
                    f"{name}: its output is cut off; ask for fewer lines with --tail", err=True
                )
                partial = True
        more = any(row.get("more") for row in answer.get("clusters") or ())
        if (more or answer.get("leftOut")) and not self._told_of_more:
            common.say("not all pods are shown; choose with -C, --pod or --shard", err=True)
            self._told_of_more = True
        return partial

    def _new(self, entry: Mapping[str, Any]) -> list[str]:
        lines = str(entry.get("text") or "").split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        if self.stamped:
            key = (str(entry.get("cluster")), str(entry.get("pod")), str(entry.get("container")))
            lines = self._unseen(key, lines)
            if not self.timestamps:
                lines = [line.partition(" ")[2] for line in lines]
        return [line if self.raw else plaintext.visible(line, keep="\t") for line in lines]

    def _unseen(self, key: tuple[str, str, str], lines: list[str]) -> list[str]:
        """Lines newer than those printed, or with the last stamp but not printed yet. Stamps of one
        log compare as texts once their fractions have equal length (`_stamp`)."""
        last, at_last = self._last.get(key, ("", set()))
        new = []
        for line in lines:
            stamp = _stamp(line)
            if stamp < last or (stamp == last and line in at_last):
                continue
            if stamp != last:
                last, at_last = stamp, set()
            at_last.add(line)
            new.append(line)
        self._last[key] = (last, at_last)
        return new


def _stamp(line: str) -> str:
    """The time of a line, padded to nine fractional digits so that stamps compare as texts."""
    whole, _, rest = line.partition(" ")[0].rstrip("Z").partition(".")
    return f"{whole}.{rest:0<9}"


def seconds(text: str, option: str = "--since") -> int:
    """`30s`, `5m`, `1h30m` in seconds; 0 for "". Exits with an error for anything else."""
    if not text:
        return 0
    parts = re.findall(r"(\d{1,8})([smhd])", text, re.ASCII)
    if "".join(number + unit for number, unit in parts) != text:
        common.fail(f"{option} {text}: give it as 30s, 5m or 2h")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
