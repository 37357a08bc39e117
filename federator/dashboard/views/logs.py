"""The ends of the logs of a workload's pods. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.dashboard import text
from federator.dashboard.views import workload
from federator.kinds.kind import Kind

TAILS: Final = (20, 100, 500)
"""Lines of each pod that are offered."""
LINES_MAX: Final = 500
CHARACTERS_MAX: Final = 100_000
"""Of one pod; the command line has all."""


def form(kind: Kind, namespace: str, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The page before anybody has answered."""
    short = f"{kind.short_names[0]}/{name} -n {namespace}"
    chosen = {part: given.get(part, "") for part in ("cluster", "pod", "container")}
    options = "".join(
        f" {option} {value}"
        for option, value in (
            ("-C", chosen["cluster"]),
            ("--pod", chosen["pod"]),
            ("-c", chosen["container"]),
        )
        if value
    )
    return {
        **workload.head(kind, namespace, name, "logs"),
        "path": text.address("workloads", kind.kind, namespace, name, "logs"),
        "chosen": chosen,
        "tail": given.get("tail", "") or str(TAILS[0]),
        "tails": [str(each) for each in TAILS],
        "previous": given.get("previous") == "true",
        "trouble": "",
        "pods": [],
        "away": [],
        "left": 0,
        "commands": [f"federator logs {short}{options} -f"],
    }


def shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What was answered."""
    return {
        "pods": [_pod(each) for each in raw.objects(answer, "logs")],
        "away": [
            {"cluster": raw.text(row, "cluster"), "reason": raw.text(row, "reason")}
            for row in raw.objects(answer, "clusters")
            if raw.at(row, "answered") is False
        ],
        "left": raw.figure(answer, "leftOut"),
    }


def _pod(each: Mapping[str, Any]) -> dict[str, Any]:
    whole = raw.text(each, "text")
    kept = whole[-CHARACTERS_MAX:]
    lines = kept.removesuffix("\n").split("\n")[-LINES_MAX:] if kept else []
    return {
        "cluster": raw.text(each, "cluster"),
        "pod": raw.text(each, "pod"),
        "container": raw.text(each, "container"),
        "reason": raw.text(each, "reason"),
        "text": "\n".join(lines),
        "empty": not kept,
        "cut": raw.at(each, "cut") is True or len(kept) < len(whole),
    }
