"""What `federator explain` shows of the facts (`advice.facts`) as text: the verdict first, then clusters, arithmetic,
what is short, and what would help.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from federator.cli import common, uncarried
from federator.model import plaintext
from federator.model.decision import Reason


def text(found: Mapping[str, Any], *, cluster: str = "") -> str:
    """The facts for people; of one cluster only when it is named."""
    found = plaintext.every(found)  # a line break in a message would look like a line of ours
    lines = [first_line(found)]
    if found["missing"] or found["reason"] != Reason.CHOSEN:
        lines.append(f"  {found['message']}")
        if "fix" in found:
            lines.append(f"  fix: {found['fix']}")
    placed = found["verdict"]["Placed"]
    if placed["status"] == "True" and placed["reason"] != "Placed":
        lines.append(f"  {placed['message']}")
    lines += [f"  {line}" for line in found["state"]]
    if found.get("uncarried"):
        lines.append(f"  {uncarried.sentence(found['uncarried'], found['workload']['namespace'])}")
    if "policy" not in found:
        return "\n".join(lines)
    policy, identity = found["policy"], found["workload"]
    named = f"{policy['namespace']}/{policy['name']}" if policy["namespace"] else policy["name"] or "spec.placement"
    request = ", ".join(f"{name} {amount}" for name, amount in found["request"].items()) or "nothing"
    quota = "; no FederatedQuota limits the project" if found["unlimitedQuota"] else ""
    lines.append(
        f"  policy {named} ({policy['origin']}), strategy {policy['strategy']}; project {identity['project']}, "
        f"tier {identity['tier']}, priority {identity['priority']}{quota}"
    )
    lines += [f"  and {one['title']}, which holds whatever the workload says" for one in policy["required"]]
    lines.append(f"  one copy asks for {request}")
    if found["inForce"]:
        former = ", ".join(f"{name} {amount}" for name, amount in found["inForce"].items())
        lines.append(f"  that edit is held back; the figures below are for what is in force, {former}")
    if found.get("charged"):
        assumed = ", ".join(f"{name} {amount}" for name, amount in found["charged"].items())
        lines.append(f"  charged {assumed}: no request (defaultRequests of the project's FederatedQuota)")
    rows = [row for row in found["clusters"] if not cluster or row["cluster"] == cluster]
    lines += ["", _table(rows)]
    lines += _remarks(rows, moving=placed["reason"] == "MovesPending")
    split = [line for line in found["arithmetic"] if not cluster or line.startswith(f"{cluster}:")]
    lines += ["", "split", *(f"  {line}" for line in split)]
    lines += [f"  not kept: {violation}" for violation in found["violations"]]
    lines += [f"  warning: {warning}" for warning in found["warnings"]]
    lines += _short(found)
    lines += ["", "sources", *(f"  {name}: {where}" for name, where in found["sources"].items())]
    if found["decision"] is not None:
        recorded = found["decision"]
        lines.append(f"  decision: PlacementDecision {recorded['name']}, seq {recorded['seq']}, {recorded['asOf']}")
    return "\n".join(lines)


def first_line(found: Mapping[str, Any]) -> str:
    """The verdict."""
    identity, verdict = found["workload"], found["verdict"]
    numbers = "  ".join(f"{name} {value}" for name, value in verdict.items() if name != "Placed")
    placed = verdict["Placed"]
    reason = f" ({placed['reason']})" if placed["reason"] else ""
    return f"{identity['kind']}/{identity['name']}  {numbers}  Placed={placed['status']}{reason}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    terms = list(dict.fromkeys(name for row in rows for name in row["terms"]))
    score = f"SCORE = {' + '.join(terms)}" if terms else "SCORE"
    cells: list[list[str]] = []
    for row in rows:
        sums = " + ".join(str(row["terms"].get(name, 0)) for name in terms)
        shown = f"{row['score']} = {sums}" if row["terms"] else "-"
        ready = "-" if row["ready"] is None else str(row["ready"])
        cells.append(
            [row["cluster"], str(row["fit"]), str(row["placed"]), ready, str(row["got"]), shown, row["verdict"]]
        )
    return common.table(["CLUSTER", "FIT", "PLACED", "READY", "GOT", score, "VERDICT"], cells)


def _remarks(rows: Sequence[Mapping[str, Any]], *, moving: bool) -> list[str]:
    lines: list[str] = []
    for row in rows:
        message = row["message"].removeprefix(f"cluster {row['cluster']}").removeprefix(":").strip()
        lines.append(f"  {row['cluster']}: {message}")
        if "lacks" in row:
            lines.append(f"    lacks: {row['lacks']}")
        if "fix" in row:
            lines.append(f"    fix: {row['fix']}")
        if "trouble" in row:
            trouble = row["trouble"]
            lines.append(f"    there: {trouble['reason']}: {trouble['message']} (status.clusterStatuses)")
        if row["placed"] != row["got"] and "ranges" not in row:
            then = f"{row['got']} when all that is to move has moved" if moving else f"it would get {row['got']} now"
            lines.append(f"    holds {row['placed']} by the recorded decision; {then}")
    return ["", *lines] if lines else []


def _short(found: Mapping[str, Any]) -> list[str]:
    if not found["missing"]:
        return []
    lines = ["", f"short by {found['missing']} ({found['reason']})"]
    for fix in found["remedies"]:
        left = f", {fix['missing']} still missing" if fix["missing"] else ""
        lines.append(f"  {fix['change']} (+{fix['gains']}{left})")
        lines += [f"    {command}" for command in fix["commands"]]
    if found["remedies"]:
        lines.insert(2, "each of these was tried by the engine and places so many more:")
    else:
        tried = found["tried"]
        classes = ", ".join(tried["changes"])
        lines.append(f"  no change that was tried would place more ({tried['trials']} trials, pairs too: {classes})")
    return lines
