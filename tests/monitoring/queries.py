"""What the files of deploy/monitoring ask of our metrics: expressions, and the metrics and labels
in them. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client import Histogram

from federator.kube import metrics
from tests.house.sources import ROOT

HERE: Final = ROOT / "deploy" / "monitoring"
RULES: Final = HERE / "rules.yml"
CASES: Final = HERE / "rules.test.yml"
_SELECTOR: Final = re.compile(r"\b((?:federator|workqueue)_\w+)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING: Final = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_OF_OURS: Final = frozenset({"owner", "credential"})
"""Labels that rules add."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of rules.yml."""

    name: str
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def groups() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return loaded


def rules() -> Iterator[dict[str, Any]]:
    for group in groups():
        yield from group["rules"]


def alerts() -> list[Alert]:
    return [
        Alert(rule["alert"], rule["expr"], rule["labels"], rule["annotations"])
        for rule in rules()
        if "alert" in rule
    ]


def known() -> dict[str, frozenset[str]]:
    """Name of each sample that the processes publish -> its labels."""
    found: dict[str, frozenset[str]] = {}
    for row in (*metrics.TABLE, *metrics.FIGURES):
        labels = frozenset(row.labels)
        if row.kind is Histogram:
            found[f"{row.name}_bucket"] = labels | {"le"}
            found[f"{row.name}_sum"] = found[f"{row.name}_count"] = labels
        else:
            found[row.name] = labels
    return found


def read(expr: str) -> set[str]:
    """The samples that an expression reads."""
    return {match[1] for match in _SELECTOR.finditer(expr)}


def faults(expr: str) -> Iterator[str]:
    """What an expression asks for and no process publishes."""
    published, there = known(), set(_OF_OURS)
    for match in _SELECTOR.finditer(expr):
        name, matchers = match[1], match[2] or ""
        if name not in published:
            yield f"there is no metric {name}"
            continue
        there |= published[name]
        for label in _MATCHER.findall(matchers):
            if label not in published[name]:
                yield f"{name} has no label {label}"
    for listed in _GROUPING.findall(expr):
        for label in filter(None, (one.strip() for one in listed.split(","))):
            if label not in there:
                yield f"nothing here has the label {label}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}
