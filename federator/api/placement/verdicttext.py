"""Verdicts made small enough for an object: the chosen in full, the rejected grouped by reason.
Models and the making.

Used by `placementdecision` only. Full tables are recomputed on demand by explain.
"""

import json
import operator
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from federator.api.common import (
    ATOMIC,
    Amount,
    ClusterName,
    Int64,
    Model,
    Sentence,
    ShortText,
    many,
    named,
)
from federator.model import decision, plaintext
from federator.model.decision import NAMES_SHOWN, ChosenRow, Rejected, Verdict

MAX_BYTES: Final = 32 * 1024
"""Of the verdicts of one decision, as JSON."""
_ROW: Final = 200
"""More bytes than the names and numbers of one row take, but for its terms."""
_TERM: Final = 100
"""More than one term of a score takes: `scorers` names them."""


class ChosenCluster(Model):
    """A cluster that was chosen."""

    cluster: ClusterName
    """Its name."""
    got: Amount = 0
    """Copies that it was given."""
    fit: Int64 = 0
    """Copies that it could have taken."""
    score: Annotated[int, Field(json_schema_extra={"format": "int64"})] = 0
    """Sum of the score's terms, in thousandths."""
    terms: dict[str, Annotated[int, Field(json_schema_extra={"format": "int64"})]] = named(32)
    """The score's terms, in thousandths."""
    message: Sentence = ""
    """A sentence with numbers."""


class RejectedClusters(Model):
    """Clusters that were not chosen for the same reason."""

    reason: ShortText
    """The reason, in CamelCase."""
    count: Amount
    """How many."""
    clusters: Annotated[list[ClusterName], Field(max_length=NAMES_SHOWN, json_schema_extra=ATOMIC)]
    """Up to three of them."""
    message: Sentence = ""
    """What was said of the first."""


class Verdicts(Model):
    """Why each cluster was or was not chosen."""

    chosen: list[ChosenCluster] = many(1000)
    """The chosen ones."""
    chosen_not_shown: Amount | None = None
    """How many more were chosen than could be shown here; spec.shares names them all."""
    rejected: list[RejectedClusters] = many(64)
    """The others, by reason."""


def summarise(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """At most 32 KiB as JSON: when there are too many chosen clusters, terms go first, then
    sentences, then the smallest."""
    groups = decision.grouped(verdicts)
    rejected = [_rejected(group) for group in groups.rejected]
    plain = groups.plain > 0 or _plain(groups.chosen)
    given: Sequence[Any] = groups.chosen if plain else _rows(groups.chosen)
    rows = sorted(given, key=_got, reverse=True)  # equal ones stay in order of name
    if groups.plain and groups.plain * len(rows) + _at_most((), rejected) <= MAX_BYTES:
        return {"chosen": rows, "rejected": rejected}
    if plain and _at_most(rows, rejected) <= MAX_BYTES:
        return {"chosen": rows, "rejected": rejected}
    for gone in ((), ("terms",), ("terms", "message")):
        rows = [_without(row, gone) for row in rows]
        body = {"chosen": rows, "rejected": rejected}
        if _size(body) <= MAX_BYTES:
            return body
    room = MAX_BYTES - _size({"chosen": [], "chosenNotShown": len(rows), "rejected": rejected})
    shown = 0
    while shown < len(rows) and room >= _size(rows[shown]) + 1:
        room -= _size(rows[shown]) + 1
        shown += 1
    return {"chosen": rows[:shown], "chosenNotShown": len(rows) - shown, "rejected": rejected}


_got = operator.itemgetter("got")


def _plain(chosen: Sequence[ChosenRow]) -> bool:
    """Whether all have a message and terms, and no message needs to be clipped: nearly always."""
    messages = [row["message"] for row in chosen]
    text = "".join(messages)
    short = max(map(len, messages), default=0) <= plaintext.SENTENCE_MAX
    complete = all(messages) and all(row["terms"] for row in chosen)
    return complete and short and text.isascii() and text.isprintable()


def _rows(chosen: Sequence[ChosenRow]) -> list[dict[str, Any]]:
    """The rows without what is empty, and with messages that may be written."""
    made = []
    for given in chosen:
        row = {**given, "message": plaintext.clipped(given["message"])}
        made.append(_without(row, [name for name in ("message", "terms") if not row[name]]))
    return made


def _without(row: dict[str, Any], gone: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in gone}


def _rejected(group: Rejected) -> dict[str, Any]:
    row: dict[str, Any] = {
        "reason": str(group.reason),
        "count": group.count,
        "clusters": list(group.clusters),
    }
    if group.message:
        row["message"] = plaintext.clipped(group.message)
    return row


def _at_most(chosen: Sequence[dict[str, Any]], rejected: Sequence[dict[str, Any]]) -> int:
    """An upper bound of `_size` for plain rows, without writing it. A character of their messages
    takes two bytes at most, any other one six."""
    others, size = 0, _ROW * (len(chosen) + len(rejected) + 1)
    for row in rejected:
        others += len(row.get("message", "")) + sum(map(len, row["clusters"]))
    if chosen:
        others += len("".join([row["cluster"] for row in chosen]))
        size += 2 * len("".join([row["message"] for row in chosen]))
        size += _TERM * sum([len(row["terms"]) for row in chosen])
    return size + 6 * others


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode())
