"""A plan: what edits would come to, in the sentences and tables of `federator plan`. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from federator.advice.plans import words
from federator.advice.plans.words import Part, Table
from federator.dashboard import text
from federator.kinds import registry
from federator.kinds.kind import Kind

ROWS_MAX: Final = 200
"""Rows of each table; all are in the JSON."""
FIELDS: Final = ("manifests", "namespace", "lose", "delete", "scale")
TONES: Final[Mapping[int, str]] = {0: "good", 10: "busy"}
"""Exit code of `federator plan` -> the class of its colour. All others need a look."""


def form(given: Mapping[str, str]) -> dict[str, Any]:
    """The page before there is a plan, with the fields as they were given. The text of an uploaded
    file is kept in the field of manifests."""
    texts = [given.get("manifests", "").strip("\r\n"), given.get("file", "").strip("\r\n")]
    fields = {name: given.get(name, "") for name in FIELDS}
    fields["manifests"] = "\n---\n".join(filter(None, texts))
    return {
        "fields": fields,
        "losses": bool(given.get("losses")),
        "problems": [],
        "plan": None,
    }


def what_if(
    kind: Kind, given: Mapping[str, str], policy: str, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """The form of "what if" with its answer. `policy`: that in force, or as it was edited."""
    assert kind.verbs is not None
    return {
        **answer,
        "fields": {
            name: given.get(name, "") for name in ("replicas", "cpu", "memory", "lose", "quota")
        },
        "counted": _COUNTED.get(kind.verbs.amount, ""),
        "policy": policy,
        "edited": "policy" in given,
    }


_COUNTED: Final[Mapping[str, str]] = {"replicas": "Copies", "parallelism": "Shards at once"}


def as_yaml(obj: Mapping[str, Any]) -> str:
    """An object as people write it."""
    return str(yaml.safe_dump(dict(obj), sort_keys=False, width=100))


def outcome(document: Mapping[str, Any], ignored: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a plan for a template; the document itself is in it for programs."""
    verdict = document["verdict"]
    head, *parts = words.parts(document, most=ROWS_MAX)
    return {
        "tone": "warn" if document["summary"]["waiting"] else TONES.get(verdict, "warn"),
        "head": head,
        "warnings": [*ignored, *document["warnings"]],
        "parts": list(_parts(parts)),
        "document": document,
    }


def _parts(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, Table):
            yield {
                "lines": [],
                "title": _TITLES.get(part.headers[0], part.headers[0].capitalize()),
                "headers": [header.capitalize() for header in part.headers],
                "rows": [[_cell(cell) for cell in row] for row in part.rows],
                "left": part.total - len(part.rows),
                "noun": part.noun[1],
            }
        else:
            yield {"lines": part, "title": ""}


_TITLES: Final[Mapping[str, str]] = {
    "WORKLOAD": "Workloads",
    "POLICY": "By policy",
    "FROM": "By pair of clusters",
    "ACCOUNT": "Accounts",
    "BUDGET": "Move budgets",
}


def _cell(cell: str) -> dict[str, str]:
    """A cell; the name of a workload leads to its page."""
    kind, _, rest = cell.partition("/")
    parts = rest.split("/")
    if kind in registry.WORKLOADS and len(parts) == 2:
        return {"text": cell, "href": text.address("workloads", kind, *parts)}
    return {"text": cell, "href": ""}
