"""A plan as a file: the edits and what they come to, for `federator apply`; and how the outcome of
the same edits differs later. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.advice.plans.edits import Obj
from federator.api import decoding, raw
from federator.hub.placing.offline import Id
from federator.kinds import read as reading
from federator.model.errors import FieldError

KIND: Final = "FederatorPlan"
FORMAT: Final = 1
"""Of the file; another one cannot be read."""
EDITS: Final = ("applied", "deleted", "scaled")
COUNT_END: Final = 10**9
"""Counts to scale to are below it, as those of `--scale`."""
_COMPARED: Final = (
    ("short", "copies without a place"),
    ("waiting", "copies that wait"),
    ("restarted", "copies that restart"),
    ("reason", "the reason"),
    ("heldBack", "held back"),
    ("preempted", "preempted copies"),
)
"""Field of a workload's row -> its name in a sentence."""


class Unreadable(ValueError):
    """A file that is no plan of this version, as a sentence."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A plan that was saved."""

    applied: tuple[Obj, ...]
    deleted: tuple[Id, ...]
    scaled: tuple[tuple[Id, int], ...]
    losses: bool
    document: Mapping[str, Any]

    @property
    def asked(self) -> dict[str, Any]:
        """The same edits, as `asked` reads them."""
        return {
            "applied": list(self.applied),
            "deleted": list(self.deleted),
            "lost": [],
            "scaled": list(self.scaled),
            "losses": self.losses,
        }


def as_text(asked: Mapping[str, Any], document: Mapping[str, Any], version: str) -> str:
    """The file of a plan. `version`: of this program."""
    edits = {name: asked[name] for name in (*EDITS, "losses")}
    body = {"kind": KIND, "format": FORMAT, "version": version, "edits": edits}
    return json.dumps({**body, "document": document}, indent=1) + "\n"


def read(text: str, version: str) -> Saved:
    """The plan of a file. Raises `Unreadable`."""
    try:
        body = decoding.from_json(text)
    except FieldError as bad:
        raise Unreadable(f"it is no saved plan: {bad}") from None
    if not isinstance(body, dict) or body.get("kind") != KIND:
        raise Unreadable("it is no saved plan; federator plan --out writes one")
    made = body.get("version")
    if body.get("format") != FORMAT or made != version:
        raise Unreadable(
            f"it was made by federator {str(made)[:40]!r}, and this is {version}: plan again with"
            " this version, and save that"
        )
    edits, document = body.get("edits"), body.get("document")
    if not (isinstance(edits, dict) and isinstance(document, dict)):
        raise Unreadable("its edits or its document are missing; plan again, and save that")
    try:
        return Saved(
            tuple(_object(obj, at) for at, obj in enumerate(_list(edits, "applied"))),
            tuple(_id(which) for which in _list(edits, "deleted")),
            tuple((_id(which), _count(count)) for which, count in _list(edits, "scaled")),
            edits.get("losses") is True,
            document,
        )
    except (TypeError, ValueError) as bad:
        raise Unreadable(f"its edits cannot be read: {bad}") from None


def _list(edits: Mapping[str, Any], name: str) -> list[Any]:
    given = edits.get(name)
    if not isinstance(given, list):
        raise ValueError(f"edits.{name}: must be a list")
    return given


def _object(obj: Any, at: int) -> Obj:
    if (
        isinstance(obj, dict)
        and obj.get("kind") == "Namespace"
        and raw.text(obj, "metadata", "name")
    ):
        return obj
    reading.check(obj, f"edits.applied[{at}]")
    checked: Obj = obj
    return checked


def _id(given: Any) -> Id:
    kind, namespace, name = given
    if not all(isinstance(part, str) for part in (kind, namespace, name)):
        raise ValueError("a name of an object must be three texts")
    return kind, namespace, name


def _count(given: Any) -> int:
    if type(given) is not int or not 0 <= given < COUNT_END:
        raise ValueError(f"a count must be a whole number from 0 to {COUNT_END - 1}")
    return given


def differences(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How the outcome differs from the plan, a sentence for each difference; empty if it does not.
    `now`: the document of the same edits on the fleet as it is now."""
    return [*_of_workloads(planned, now), *_of_others(planned, now), *_of_fleet(planned, now)]


def _of_workloads(planned: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before = {row["workload"]: row for row in planned.get("workloads", ())}
    after = {row["workload"]: row for row in now.get("workloads", ())}
    for name in sorted({*before, *after}):
        was, then = before.get(name), after.get(name)
        if was is None:
            assert then is not None
            yield f"{name}: would change too: {_copies(then['before'])} -> {_copies(then['after'])}"
        elif then is None:
            yield f"{name}: would not change any more; planned was {_copies(was['after'])}"
        else:
            yield from _of_one(name, was, then)


def _of_others(planned: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Of the workloads that the caller may not see only the sums are known."""
    before, after = planned.get("others", {}), now.get("others", {})
    for field in sorted({*before, *after}):
        was, then = before.get(field, 0), after.get(field, 0)
        if was != then:
            yield f"workloads that you may not see: {field} would be {then}; planned was {was}"


def _of_one(name: str, was: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    if was["before"] != then["before"]:
        has, had = _copies(then["before"]), _copies(was["before"])
        yield f"{name}: has {has} now; when it was planned it had {had}"
    if was["after"] != then["after"]:
        gets, meant = _copies(then["after"]), _copies(was["after"])
        yield f"{name}: would get {gets}; planned was {meant}"
    for field, title in _COMPARED:
        if was.get(field) != then.get(field):
            yield f"{name}: {title} would be {_said(then, field)}; planned was {_said(was, field)}"


def _copies(by_cluster: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(by_cluster.items())) or "nothing"


def _said(row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    if isinstance(value, dict):
        return f"{value.get('copies')} for {value.get('by')}"
    return "none" if value in (None, "") else str(value)


def _of_fleet(planned: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    known = set(planned.get("refused", ()))
    yield from (
        f"refused: {sentence}" for sentence in now.get("refused", ()) if sentence not in known
    )
    if "uncovered" in planned and "uncovered" not in now:
        yield (
            "the losses of clusters cannot be compared now, and the plan compared them; federator"
            " plan --no-losses saves a plan without them"
        )
    was = {loss["cluster"]: loss["copiesWithoutPlaceThen"] for loss in planned.get("uncovered", ())}
    for loss in now.get("uncovered", ()):
        lacking = loss["copiesWithoutPlaceThen"]
        if lacking > was.get(loss["cluster"], 0):
            yield (
                f"without {loss['cluster']}, {lacking} copies would have no place; planned were"
                f" {was.get(loss['cluster'], 0)}"
            )
    beyond = {each["invariant"]: each["copiesBeyondThen"] for each in planned.get("invariants", ())}
    for each in now.get("invariants", ()):
        many = each["copiesBeyondThen"]
        if each["worse"] and many > beyond.get(each["invariant"], 0):
            yield f"PlacementInvariant {each['invariant']}: {many} copies would be beyond it"
    if planned.get("settled") and not now.get("settled"):
        yield "the decisions would still be changing"
