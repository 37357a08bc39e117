"""Text of `federator explain`, made from the facts (`advice.facts`): the verdict first, then the
clusters, the arithmetic, what is short, and what would help.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from federator.cli import common, uncarried
from federator.model import plaintext
from federator.model.decision import Reason


def text(facts: Mapping[str, Any], *, cluster: str = "") -> str:
    """The facts as lines of text; limited to `cluster` when it is named."""
    # a line break in a message would look like another line of the output
    facts = plaintext.every(facts)
    lines = [first_line(facts)]
    if facts["missing"] or facts["reason"] != Reason.CHOSEN:
        lines.append(f"  {facts['message']}")
        if "fix" in facts:
            lines.append(f"  fix: {facts['fix']}")
    placed = facts["verdict"]["Placed"]
    if placed["status"] == "True" and placed["reason"] != "Placed":
        lines.append(f"  {placed['message']}")
    lines += [
        f"  {line.removesuffix('.').removesuffix(': ' + facts['message'])}"
        for line in facts["state"]
    ]
    if facts.get("uncarried"):
        lines.append(f"  {uncarried.sentence(facts['uncarried'], facts['workload']['namespace'])}")
    lines += _waits(facts.get("waits"))
    lines += _nodes_without(facts.get("nodesWithout", ()), cluster)
    if "policy" not in facts:
        return "\n".join(lines)
    lines += _policy_lines(facts)
    rows = [row for row in facts["clusters"] if not cluster or row["cluster"] == cluster]
    lines += ["", _table(rows)]
    lines += _remarks(rows, facts["message"], moving=placed["reason"] == "MovesPending")
    split = [line for line in facts["arithmetic"] if not cluster or line.startswith(f"{cluster}:")]
    lines += ["", "split", *(f"  {line}" for line in split)]
    lines += [f"  not kept: {violation}" for violation in facts["violations"]]
    lines += [f"  warning: {warning}" for warning in facts["warnings"]]
    lines += _overrides(facts.get("overrides", ()), cluster)
    lines += _short(facts)
    if moves := (facts["decision"] or {}).get("moves"):
        lines += ["", "moves", *(f"  {line}" for line in moves)]
    lines += ["", "sources", *(f"  {name}: {where}" for name, where in facts["sources"].items())]
    if facts["decision"] is not None:
        recorded = facts["decision"]
        lines.append(
            f"  decision: PlacementDecision {recorded['name']}, seq {recorded['seq']},"
            f" {recorded['asOf']}"
        )
    return "\n".join(lines)


def _waits(waits: Mapping[str, Any] | None) -> list[str]:
    """Its place in the queue."""
    if waits is None:
        return []
    start = f", expected to start {waits['from']} to {waits['to']}" if waits["from"] else ""
    return [f"  position {waits['position']} in the queue{start}"]


def _nodes_without(groups: Sequence[Mapping[str, Any]], cluster: str) -> list[str]:
    """Nodes that do not have a daemon."""
    lines: list[str] = []
    for group in groups:
        if cluster and group["cluster"] != cluster:
            continue
        named, more = ", ".join(group["names"]), group["count"] - len(group["names"])
        others = f" and {more} more" if more > 0 else ""
        lines.append(f"  not on {group['cluster']}/{named}{others}: each {group['why']}")
    return lines


def _policy_lines(facts: Mapping[str, Any]) -> list[str]:
    """The policies in force, and what one copy asks for and is charged."""
    policy, identity = facts["policy"], facts["workload"]
    named = (
        f"{policy['namespace']}/{policy['name']}"
        if policy["namespace"]
        else policy["name"] or "spec.placement"
    )
    request = (
        ", ".join(f"{name} {amount}" for name, amount in facts["request"].items()) or "nothing"
    )
    quota = "; no FederatedQuota limits the project" if facts["unlimitedQuota"] else ""
    lines = [
        f"  policy {named} ({policy['origin']}), strategy {policy['strategy']};"
        f" project {identity['project']}, tier {identity['tier']},"
        f" priority {identity['priority']}{quota}"
    ]
    lines += [
        f"  and {rule['title']}, which holds whatever the workload says"
        for rule in policy["required"]
    ]
    lines.append(f"  one copy asks for {request}")
    if facts["inForce"]:
        former = ", ".join(f"{name} {amount}" for name, amount in facts["inForce"].items())
        lines.append(
            f"  that edit is held back; the figures below are for what is in force, {former}"
        )
    if facts.get("charged"):
        assumed = ", ".join(f"{name} {amount}" for name, amount in facts["charged"].items())
        lines.append(
            f"  charged {assumed}: no request (defaultRequests of the project's FederatedQuota)"
        )
    return lines


def first_line(facts: Mapping[str, Any]) -> str:
    """The first line: the workload, its numbers and its condition Placed."""
    identity, verdict = facts["workload"], facts["verdict"]
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
        if row.get("unknown"):
            ready = f"unknown (was {row['unknown']})"
        cells.append(
            [
                row["cluster"],
                str(row["fit"]),
                str(row["placed"]),
                ready,
                str(row["got"]),
                shown,
                row["verdict"],
            ]
        )
    return common.table(["CLUSTER", "FIT", "PLACED", "READY", "GOT", score, "VERDICT"], cells)


def _remarks(rows: Sequence[Mapping[str, Any]], why: str, *, moving: bool) -> list[str]:
    """What there is to say of each cluster. `why`: the message of the decision. Its reason is not
    repeated for every cluster."""
    lines: list[str] = []
    for row in rows:
        message = row["message"].removeprefix(f"cluster {row['cluster']}").removeprefix(":").strip()
        able, but, reason = message.partition(", but ")
        if but and why.endswith(f": {reason}"):
            message = f"{able}, but for the reason above"
        lines.append(f"  {row['cluster']}: {message}")
        if "lacks" in row:
            lines.append(f"    lacks: {row['lacks']}")
        if "fix" in row:
            lines.append(f"    fix: {row['fix']}")
        if "trouble" in row:
            trouble = row["trouble"]
            lines.append(
                f"    there: {trouble['reason']}: {trouble['message']} (status.clusterStatuses)"
            )
        if row["placed"] != row["got"] and "ranges" not in row:
            then = (
                f"{row['got']} when all that is to move has moved"
                if moving
                else f"it would get {row['got']} now"
            )
            lines.append(f"    holds {row['placed']} by the recorded decision; {then}")
    return ["", *lines] if lines else []


def _overrides(rows: Sequence[Mapping[str, Any]], cluster: str) -> list[str]:
    """What differs in single clusters; those that differ alike are together."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        if cluster and row["cluster"] != cluster:
            continue
        lines = [f"{', '.join(each['set'])} ({each['from']})" for each in row["changes"]]
        if why := row.get("refused"):
            lines.append(f"refused, so its slice is not written: {why}")
        alike.setdefault("\n".join(f"    {line}" for line in lines), []).append(row["cluster"])
    if not alike:
        return []
    parts = [f"  {', '.join(names)}:\n{text}" for text, names in alike.items()]
    return ["", "overrides", *"\n".join(parts).split("\n")]


def _short(facts: Mapping[str, Any]) -> list[str]:
    edited = bool(facts["inForce"])
    if not facts["missing"] and not edited:
        return []
    short = f"short by {facts['missing']}" if facts["missing"] else "the edit is held back"
    lines = ["", f"{short} ({facts['reason']})"]
    for fix in facts["remedies"]:
        left = f"{fix['missing']} still missing" if fix["missing"] else ""
        gains = "" if edited else f"+{fix['gains']}"
        shown = ", ".join(filter(None, (gains, left)))
        run_by = ", an operator's to run" if fix["byOperator"] else ""
        lines.append(f"  {fix['change']}{f' ({shown})' if shown else ''}{run_by}")
        lines += [f"    {command}" for command in fix["commands"]]
    if facts["remedies"]:
        lines.insert(
            2,
            "each of these was tried by the engine and admits the edit:"
            if edited
            else "each of these was tried by the engine and places so many more:",
        )
    else:
        tried = facts["tried"]
        classes = ", ".join(tried["changes"])
        helps = "admit the edit" if edited else "place more"
        lines.append(
            f"  no change that was tried would {helps} ({tried['trials']} trials, pairs too:"
            f" {classes})"
        )
    return lines
