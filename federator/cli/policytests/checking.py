"""Runs policy tests: the decisions of `federator place` and the plans of `federator plan`, compared
with what a test expects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.advice import trials
from federator.advice.plans import asked as asking
from federator.advice.plans import edits as editing
from federator.api import raw
from federator.cli.files import place, validate
from federator.cli.policytests import schema
from federator.cli.policytests.loading import Case, Obj, Placement, Planning, Refusal
from federator.cli.policytests.schema import Amount
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.kinds import registry
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason
from federator.model.fleet import copies_of
from federator.model.manifests import Unreadable
from federator.model.names import WorkloadKey

CAUSE: Final = "placed offline"
NOTHING: Final = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class Row:
    """One field that is not as expected."""

    field: str
    expected: str
    decided: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One expectation that does not hold."""

    path: str
    title: str
    """The object that it is about."""
    rows: tuple[Row, ...]
    why: tuple[str, ...]
    """What the engine says of it, as sentences."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one test. It passed if all is empty."""

    differences: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()
    """Likely mistakes in the fixtures of a failed test."""
    problems: tuple[str, ...] = ()
    """Why the test cannot run, as sentences."""

    @property
    def passed(self) -> bool:
        return not (self.differences or self.problems)


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of one workload."""

    copies: Mapping[str, int]
    short: int
    reason: str
    message: str


def run(case: Case) -> CaseResult:
    """The outcome of one test."""
    try:
        differences, warnings = _differences(case)
    except Unreadable as bad:
        return CaseResult(problems=tuple(f"{case.path}: {sentence}" for sentence in bad.sentences))
    except editing.Unplanned as bad:
        return CaseResult(problems=(f"{case.path}.plan: {bad}",))
    return CaseResult(differences, warnings if differences else ())


def _differences(case: Case) -> tuple[tuple[Difference, ...], tuple[str, ...]]:
    differences = [each for refusal in case.refusals for each in _of_refusal(case.objs, refusal)]
    warnings: tuple[str, ...] = ()
    if case.placements or case.plan:
        situation = place.situation_of(case.objs)
        warnings = tuple(place.warnings(situation))
        made = situation.decide_all()
        for placement in case.placements:
            differences += _of_placement(situation, made, placement)
        if case.plan is not None:
            differences += _of_plan(_placed(case.objs, made), case.plan)
    return tuple(differences), warnings


# -- placements ---------------------------------------------------------------


def _of_placement(
    situation: Situation, made: Sequence[tuple[Ask, Decision]], placement: Placement
) -> Iterator[Difference]:
    ask, decision = _decision(made, placement.key)
    result = _result(situation, ask, decision)
    labels = _labels(situation)
    rows = list(_rows(placement.expect, result, labels))
    if rows:
        differs = {row.field for row in rows}
        why = [_sentence(result)]
        why += [
            _about(verdict.cluster, verdict.message)
            for verdict in decision.verdicts
            if verdict.message and not differs.isdisjoint(_fields_of(verdict.cluster, labels))
        ]
        yield _difference(placement, rows, why)


def _fields_of(cluster: str, labels: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The fields of an expectation that a cluster counts for."""
    yield f"clusters.{cluster}"
    for label, value in labels.get(cluster, {}).items():
        yield f"domains.{label}.{value}"


def _decision(made: Sequence[tuple[Ask, Decision]], key: WorkloadKey) -> tuple[Ask, Decision]:
    return next(pair for pair in made if pair[1].key == key)


def _result(situation: Situation, ask: Ask, decision: Decision) -> _Result:
    copies = {share.cluster: each for share in decision.shares if (each := copies_of(share))}
    done = situation.workloads[ask.key].progress().done
    short = trials.missing(ask, decision, done)
    return _Result(copies, short, str(decision.reason), decision.message)


def _about(cluster: str, message: str) -> str:
    return message if message.startswith(f"cluster {cluster}") else f"cluster {cluster}: {message}"


def _sentence(result: _Result) -> str:
    return f"{result.reason}: {result.message}" if result.reason else result.message


def _labels(situation: Situation) -> dict[str, Mapping[str, str]]:
    return {name: view.labels for name, view in situation.snapshot.clusters.items()}


def _difference(placement: Placement, rows: Iterable[Row], why: Iterable[str]) -> Difference:
    return Difference(placement.path, str(placement.key), tuple(rows), tuple(filter(None, why)))


def _rows(
    expect: schema.Decided, result: _Result, labels: Mapping[str, Mapping[str, str]]
) -> Iterator[Row]:
    """The fields that every expectation of a workload may have."""
    yield from _by_name("clusters", expect.clusters, result.copies)
    for label, values in (expect.domains or {}).items():
        sums: dict[str, int] = {}
        for cluster, copies in result.copies.items():
            value = labels.get(cluster, {}).get(label, "(no label)")
            sums[value] = sums.get(value, 0) + copies
        yield from _by_name(f"domains.{label}", values, sums)
    yield from _amount("short", expect.short, result.short)
    yield from _text("reason", expect.reason, result.reason)
    yield from _part("message", expect.message, result.message)


def _by_name(
    field: str, expected: Mapping[str, Amount] | None, decided: Mapping[str, int]
) -> Iterator[Row]:
    """The names with another number than expected; one that is not expected has nothing."""
    for name in sorted({*expected, *decided}) if expected is not None else ():
        wanted = (expected or {}).get(name, NOTHING)
        yield from _amount(f"{field}.{name}", wanted, decided.get(name, 0))


def _amount(field: str, expected: Amount | None, decided: int) -> Iterator[Row]:
    if expected is not None and decided not in expected:
        yield Row(field, str(expected), str(decided))


def _text(field: str, expected: str | None, decided: str) -> Iterator[Row]:
    if expected is not None and expected != decided:
        yield Row(field, expected, decided or "(none)")


def _part(field: str, expected: str | None, decided: str) -> Iterator[Row]:
    if expected is not None and expected not in decided:
        yield Row(field, f"... {expected} ...", decided or "(none)")


# -- refusals -----------------------------------------------------------------


def _of_refusal(objs: Sequence[Obj], refusal: Refusal) -> Iterator[Difference]:
    obj, expect = refusal.obj, refusal.expect
    which = offline.id_of(obj)
    present = next((each for each in objs if offline.id_of(each) == which), None)
    rows: list[Row] = []
    why: list[str] = []
    problems = validate.problems_of(obj, present)
    if problems:
        why = [str(problem) for problem in problems]
        fields = [problem.path for problem in problems]
        if expect.field is not None and expect.field not in fields:
            rows.append(Row("field", expect.field, ", ".join(fields)))
        if expect.reason is not None:
            rows.append(Row("reason", expect.reason, "(refused by the API server)"))
        at_field = [each for each in problems if expect.field in (None, each.path)]
        said = " ".join(problem.message for problem in at_field or problems)
        rows += _part("message", expect.message, said)
    else:
        if expect.field is not None:
            rows.append(Row("field", expect.field, "(taken by the API server)"))
        engine, why = _of_engine([each for each in objs if each is not present], obj, expect)
        rows += engine
    if rows:
        title = "/".join(filter(None, which))
        yield Difference(refusal.path, title, tuple(rows), tuple(why))


def _of_engine(
    others: Sequence[Obj], obj: Obj, expect: schema.Refusal
) -> tuple[list[Row], list[str]]:
    """How the hub's answer differs from a refusal, and what it says."""
    try:
        situation = place.situation_of([*others, obj])
    except Unreadable as bad:
        rows = [*_part("message", expect.message, " ".join(bad.sentences))]
        rows += _text("reason", expect.reason, str(Reason.MISCONFIGURED))
        return rows, list(bad.sentences)
    if str(obj["kind"]) not in registry.WORKLOADS:
        return [Row("refused", "yes", "no")], ["nothing refuses this object"]
    ask, decision = _decision(situation.decide_all(), WorkloadKey(*offline.id_of(obj)))
    result = _result(situation, ask, decision)
    rows = [Row(f"clusters.{name}", "0", str(copies)) for name, copies in result.copies.items()]
    if not rows and decision.reason is Reason.CHOSEN:
        rows.append(Row("refused", "yes", "no"))
    rows += _text("reason", expect.reason, result.reason)
    rows += _part("message", expect.message, result.message)
    return rows, [_sentence(result)]


# -- plans --------------------------------------------------------------------


def _placed(objs: Sequence[Obj], made: Sequence[tuple[Ask, Decision]]) -> Situation:
    """The fleet once the decisions are in force, as `federator place -o yaml` writes them."""
    decided = {
        offline.id_of(obj): obj
        for obj in (offline.as_object(ask, decision, CAUSE) for ask, decision in made)
    }
    return place.situation_of([*({offline.id_of(obj): obj for obj in objs} | decided).values()])


def _of_plan(situation: Situation, plan: Planning) -> Iterator[Difference]:
    document = asking.document_of(situation, plan.asked, map)
    expect, summary = plan.expect, document["summary"]
    path = f"{plan.path}.expect"
    rows = list(_numbers(expect, summary))
    why = [_what(row) for row in document["workloads"]]
    verdict = str(document["verdict"])
    if expect.exit is not None:
        rows += _text("exit", str(expect.exit), verdict)
    lost = document.get("uncovered", ())
    why += [_of_loss(loss) for loss in lost]
    rows += _names("uncovered", expect.uncovered, (loss["cluster"] for loss in lost))
    broken = [each for each in document["invariants"] if each["worse"]]
    why += [f"{each['invariant']}: {each['breaches'][0]['message']}" for each in broken]
    rows += _names("breaks", expect.breaks, (each["invariant"] for each in broken))
    if not document["settled"]:
        rows.append(Row("settled", "yes", "no"))
    if rows:
        yield Difference(path, "the plan", tuple(rows), (*why, *document["warnings"]))
    changed = {row["workload"]: row for row in document["workloads"]}
    labels = _labels(situation) | {
        obj["metadata"]["name"]: raw.text_map(obj, "metadata", "labels")
        for obj in plan.asked["applied"]
        if obj["kind"] == "MemberCluster"
    }
    for workload in plan.workloads:
        row = changed.get(str(workload.key)) or _unchanged(situation, workload.key)
        rows = list(_moved(workload.expect, row, labels))
        if rows:
            yield _difference(workload, rows, [_what(row)])


def _names(field: str, expected: Sequence[str] | None, decided: Iterable[str]) -> Iterator[Row]:
    """A list of names, in any order."""
    wanted, names = sorted(expected or ()), sorted(decided)
    if expected is not None and wanted != names:
        yield Row(field, _listed(wanted), _listed(names))


_NUMBERS: Final = (
    "moves",
    "restarted",
    "started",
    "ended",
    "preempted",
    "waiting",
    "shorter",
)


def _numbers(expect: schema.Planned, summary: Mapping[str, int]) -> Iterator[Row]:
    for name in _NUMBERS:
        yield from _amount(name, getattr(expect, name), summary[name])


def _unchanged(situation: Situation, key: WorkloadKey) -> dict[str, Any]:
    """The row of a workload that the plan does not list."""
    record = situation.records.get(key)
    shares = record.shares if record is not None else ()
    copies = {share.cluster: each for share in shares if (each := copies_of(share))}
    reason = str(record.terms.reason) if record is not None else ""
    return {
        "workload": str(key),
        "after": copies,
        "reason": "" if reason == Reason.CHOSEN else reason,
        "message": record.terms.message if record is not None else "",
        "unchanged": True,
    }


def _moved(
    expect: schema.Decided, row: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]
) -> Iterator[Row]:
    reason = row.get("reason") or str(Reason.CHOSEN)
    short = int(row.get("short", 0))
    result = _Result(row["after"], short, reason, row.get("message", ""))
    yield from _rows(expect, result, labels)
    if not isinstance(expect, schema.Moved):
        return
    yield from _by_name("leaves", expect.leaves, row.get("leaves", {}))
    yield from _by_name("enters", expect.enters, row.get("enters", {}))
    for name in ("moves", "restarted", "waiting"):
        yield from _amount(name, getattr(expect, name), row.get(name, 0))
    yield from _amount("preempted", expect.preempted, row.get("preempted", {}).get("copies", 0))
    held = bool(row.get("heldBack"))
    if expect.held_back not in (None, held):
        yield Row("heldBack", str(expect.held_back).lower(), str(held).lower())


def _what(row: Mapping[str, Any]) -> str:
    """What the plan does to one workload, as a sentence."""
    if row.get("unchanged"):
        return f"{row['workload']} does not change"
    parts = [f"{row['workload']} leaves {_copies(row['leaves'])}, enters {_copies(row['enters'])}"]
    if row["short"]:
        parts.append(f"{row['short']} without a place")
    if row.get("preempted"):
        parts.append(f"{row['preempted']['copies']} leave for {row['preempted']['by']}")
    said = ", ".join(parts)
    return f"{said}: {row['reason']}: {row['message']}" if row.get("reason") else said


def _copies(by_cluster: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {copies}" for name, copies in by_cluster.items()) or "nothing"


def _of_loss(loss: Mapping[str, Any]) -> str:
    lacking = "; ".join(
        f"{row['workload']}: {row['copies']}: {row['why']}" for row in loss["workloads"]
    )
    return (
        f"without {loss['cluster']}, {loss['copiesWithoutPlaceThen']} copies have no place"
        f" (now {loss['copiesWithoutPlaceNow']}): {lacking}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none)"
