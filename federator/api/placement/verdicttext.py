"""Verdicts made small enough for an object: the chosen in full, the rejected grouped by reason.
Models and the making.

Used by `placementdecision` only. Full tables are recomputed on demand by explain.
"""

import itertools
import json
import operator
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from federator.api.common import ATOMIC, Amount, ClusterName, Int64, Model, Sentence, ShortText
from federator.model import decision, plaintext
from federator.model.decision import NAMES_SHOWN, Rejected, Verdict

MAX_BYTES: Final = 32 * 1024
"""Of the verdicts of one decision, as JSON."""


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
    terms: Annotated[
        dict[str, Annotated[int, Field(json_schema_extra={"format": "int64"})]],
        Field(max_length=32),
    ] = Field(default_factory=dict)
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

    chosen: Annotated[list[ChosenCluster], Field(max_length=1000, json_schema_extra=ATOMIC)] = (
        Field(default_factory=list)
    )
    """The chosen ones."""
    chosen_not_shown: Amount | None = None
    """How many more were chosen than could be shown here; spec.shares names them all."""
    rejected: Annotated[list[RejectedClusters], Field(max_length=64, json_schema_extra=ATOMIC)] = (
        Field(default_factory=list)
    )
    """The others, by reason."""


def summarise(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """At most 32 KiB as JSON: when there are too many chosen clusters, terms go first, then
    sentences, then the smallest."""
    groups = decision.grouped(verdicts)
    chosen = sorted(groups.chosen, key=_got, reverse=True)  # equal ones stay in order of name
    rejected = [_rejected(group) for group in groups.rejected]
    body: dict[str, Any]
    plain = _plain(chosen)
    for detail in (2, 1, 0):
        body = {"chosen": [_chosen(v, detail, plain=plain) for v in chosen], "rejected": rejected}
        if _at_most(body) <= MAX_BYTES or _size(body) <= MAX_BYTES:
            return body
    rows = [_chosen(v, 0, plain=plain) for v in chosen]
    room = MAX_BYTES - _size({"chosen": [], "chosenNotShown": len(rows), "rejected": rejected})
    shown = 0
    while shown < len(rows) and room >= _size(rows[shown]) + 1:
        room -= _size(rows[shown]) + 1
        shown += 1
    return {"chosen": rows[:shown], "chosenNotShown": len(rows) - shown, "rejected": rejected}


_got = operator.attrgetter("got")


def _plain(chosen: Sequence[Verdict]) -> bool:
    """Whether no message needs to be clipped."""
    messages = [verdict.message for verdict in chosen]
    text = "".join(messages)
    short = max(map(len, messages), default=0) <= plaintext.SENTENCE_MAX
    return short and text.isascii() and text.isprintable()


def _chosen(verdict: Verdict, detail: int, *, plain: bool) -> dict[str, Any]:
    if detail > 1 and plain and verdict.message and verdict.terms:  # nearly always
        return {
            "cluster": verdict.cluster,
            "got": verdict.got,
            "fit": verdict.fit,
            "score": verdict.score,
            "message": verdict.message,
            "terms": dict(verdict.terms),
        }
    row: dict[str, Any] = {
        "cluster": verdict.cluster,
        "got": verdict.got,
        "fit": verdict.fit,
        "score": verdict.score,
    }
    if detail > 0 and verdict.message:
        row["message"] = plaintext.clipped(verdict.message)
    if detail > 1 and verdict.terms:
        row["terms"] = dict(verdict.terms)
    return row


def _rejected(group: Rejected) -> dict[str, Any]:
    row: dict[str, Any] = {
        "reason": str(group.reason),
        "count": group.count,
        "clusters": list(group.clusters),
    }
    if group.message:
        row["message"] = plaintext.clipped(group.message)
    return row


def _at_most(body: dict[str, Any]) -> int:
    """An upper bound of `_size`, without writing it: six bytes per character, two in ASCII."""
    chosen, rows = body["chosen"], (*body["chosen"], *body["rejected"])
    messages = "".join([row["message"] for row in rows if "message" in row])
    terms = [row["terms"] for row in chosen if "terms" in row]
    named = len("".join([row["cluster"] for row in chosen]))
    named += len("".join(itertools.chain.from_iterable(terms)))
    named += 253 * NAMES_SHOWN * len(body["rejected"])
    size = (2 if messages.isascii() else 6) * len(messages) + 6 * named
    return size + 32 * sum(map(len, terms)) + 200 * (len(rows) + 1)


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode())
