"""`federator logs KIND/NAME`: the ends of the logs of a workload's pods, of all its clusters."""

import asyncio
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from federator.cli import common
from federator.cli.leader import asking
from federator.model import plaintext

TAIL_OF_MANY = 10
"""Lines of each log when nobody says otherwise; a workload has many."""
TAIL_MAX = 10_000
FOLLOW_S = 2.0
"""How often a followed log is asked for, in seconds."""
OVERLAP_S = 5
"""So much more than the time since the last look is asked for: lines are told apart by their time stamps."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("-c", "--container", default="", help="Container (default: the first one of the workload's template).")
@click.option("--pod", default="", help="This pod only.")
@click.option("--shard", default=None, type=click.IntRange(0), help="Of a job set: the pods that ran this shard.")
@click.option("--tail", default=TAIL_OF_MANY, show_default=True, type=click.IntRange(1, TAIL_MAX), help="Lines a pod.")
@click.option("--since", default="", help="Not older than this, such as 30s, 5m or 2h.")
@click.option("--previous", is_flag=True, help="Of the containers that ran before.")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@click.option("--prefix", is_flag=True, help="Begin lines with [cluster/pod/container], as it is with several pods.")
@click.option("--raw", is_flag=True, help="Control characters as they are; a terminal obeys them.")
@click.option("-f", "--follow", is_flag=True, help="Go on, with pods that come, until Ctrl-C.")
@asking.options
def logs(workload: str, name: str, follow: bool, since: str, **given: Any) -> None:
    """The ends of the logs of a workload's pods (psvc/NAME, pjs/NAME, deploy/NAME) in all its clusters.

    Asks the leading hub with your rights on the host (get the workload, get pods/log). Exit 1 when a part is missing.
    """
    asked = asking.asking(workload, name, given)
    parameters: dict[str, str | int | bool] = {
        "pod": given["pod"],
        "container": given["container"],
        "tail": given["tail"],
        "since_seconds": seconds(since),
        "previous": given["previous"],
        "timestamps": given["timestamps"] or follow,
    }
    if given["shard"] is not None:
        parameters["shard"] = given["shard"]
    shown = Shown(raw=given["raw"], prefix=given["prefix"], timestamps=given["timestamps"], stamped=follow)
    common.run(followed(asked, parameters, shown) if follow else once(asked, parameters, shown))


async def once(asked: asking.Asking, parameters: Mapping[str, str | int | bool], shown: "Shown") -> None:
    """Prints one answer, and ends."""
    found = await asked.answer("logs", parameters)
    absent = not found.get("logs")
    if absent:
        common.say(f"No pods{_called(parameters)} of {asked.title} found.", err=True)
    partial = shown.show(found)
    named = absent and bool(parameters["pod"] or "shard" in parameters)
    asking.end(asking.say_who_is_away(found.get("clusters") or ()) or partial or named)


def _called(parameters: Mapping[str, str | int | bool]) -> str:
    """What was asked for by name, of which there is none."""
    wanted = [f"called {parameters['pod']}"] if parameters["pod"] else []
    wanted += [f"of shard {parameters['shard']}"] if "shard" in parameters else []
    return "".join(f" {one}" for one in wanted)


async def followed(asked: asking.Asking, parameters: dict[str, str | int | bool], shown: "Shown") -> None:
    """Prints what is new, again and again, until Ctrl-C. A cluster that comes or goes away is told once."""
    loop = asyncio.get_running_loop()
    told: set[str] = set()
    again = False
    while True:
        looked = loop.time()
        found = await asked.answer("logs", parameters, again=again)
        again = True
        shown.show(found)
        clusters = found.get("clusters") or []
        away = {str(row.get("cluster")) for row in clusters if not row.get("answered")}
        asking.say_who_is_away(row for row in clusters if str(row.get("cluster")) in away - told)
        told = away
        await asyncio.sleep(FOLLOW_S)
        # Counted by each node's own clock, so that those need not agree.
        parameters |= {"since_seconds": math.ceil(loop.time() - looked) + OVERLAP_S, "tail": TAIL_MAX}


@dataclass(slots=True)
class Shown:
    """How lines are printed, and which of them were."""

    raw: bool
    prefix: bool
    timestamps: bool
    stamped: bool
    """Lines come with their times, which tell those apart that were printed."""
    _told_of_more: bool = False
    _last: dict[tuple[str, str, str], tuple[str, set[str]]] = field(default_factory=dict)
    """By log: the last time stamp, and the lines that have it."""

    def show(self, found: Mapping[str, Any]) -> bool:
        """Prints an answer; tells whether a part is missing. A pod that only waits to start is told on stderr."""
        entries = found.get("logs") or []
        prefix = self.prefix or self.stamped or len(entries) > 1
        partial = False
        for entry in entries:
            name = "/".join(plaintext.visible(str(entry.get(part, ""))) for part in ("cluster", "pod", "container"))
            if "reason" in entry:
                if not self.stamped:
                    common.say(f"{name}: no log, {entry['reason']}", err=True)
                    partial = True
                continue
            for line in self._new(entry):
                # click leaves escape sequences out where nobody looks; who asks for them wants them in a file, too.
                click.echo(f"[{name}] {line}" if prefix else line, color=self.raw or None)
            if entry.get("cut"):
                common.say(f"{name}: only the first bytes of its lines are shown; ask for fewer lines", err=True)
                partial = True
        more = any(row.get("more") for row in found.get("clusters") or ())
        if (more or found.get("leftOut")) and not self._told_of_more:
            common.say("there are more pods than are shown; choose with -C, --pod or --shard", err=True)
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
        """Lines that are later than what was printed, or have its last time and were not. Time stamps of one log have
        one form: they compare as texts, but for the digits of a second, which end with the last that is not 0."""
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
    """The time of a line in a form that compares as a text: nine digits of a second."""
    whole, _, rest = line.partition(" ")[0].rstrip("Z").partition(".")
    return f"{whole}.{rest:0<9}"


def seconds(text: str, option: str = "--since") -> int:
    """`30s`, `5m`, `1h30m` in seconds; 0 for "". Ends the command for what is no time."""
    if not text:
        return 0
    parts = re.findall(r"(\d{1,8})([smhd])", text, re.ASCII)
    if "".join(number + unit for number, unit in parts) != text:
        common.fail(f"{option} {text}: give it as 30s, 5m or 2h")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
