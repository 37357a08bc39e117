"""`federator explain` of an object that makes workloads again and again: reading its runs, and the
text of its facts (`advice.recurrences`).
"""

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from federator.cli import common
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client


async def gathered(client: "Client", kind: "Kind", namespace: str, name: str) -> dict[str, Any]:
    """The facts about one recurring object, from the host's objects of its namespace."""
    from federator.advice import recurrences
    from federator.kinds import registry
    from federator.kube import errors

    assert kind.recurring is not None
    try:
        obj = await client.get(kind.ref(namespace, name))
    except errors.NotFound:
        common.fail(f'{kind.plural} "{name}" not found in namespace {namespace}')
    run_kind = registry.KINDS[kind.recurring.run_kind]
    listing = await client.list(
        run_kind.api_version,
        run_kind.plural,
        namespace,
        label_selector=f"{kind.recurring.run_label}={name}",
    )
    native_kind = registry.KINDS[kind.recurring.native_kind]
    native = None
    with contextlib.suppress(errors.NotFound):
        native = await client.get(native_kind.ref(namespace, name))
    return recurrences.facts(kind, obj, listing.items, time.time(), native=native)


def text(facts: Mapping[str, Any]) -> str:
    facts = plaintext.every(facts)
    identity, ready = facts["workload"], facts["ready"]
    reason = f" ({ready['reason']})" if ready["reason"] else ""
    deadline = facts["deadlineSeconds"]
    late = "however late" if deadline is None else f"at most {deadline} s late"
    lines = [
        f"{identity['kind']}/{identity['name']}  Ready={ready['status']}{reason}",
        f"  {ready['message']}",
        f"  concurrencyPolicy {facts['concurrency']}; a run is made {late}",
    ]
    if facts["now"] and facts["now"] != ready["message"]:
        lines.append(f"  {facts['now']}")
    lines.append(f"  next: {', '.join(facts['next']) or 'none'}")
    if facts["missed"]:
        lines.append(f"  missed: {facts['missed']}, the last of {facts['lastMissed']}")
    if "native" in facts:
        lines += _native(facts["native"], identity["namespace"])
        if not facts["runs"]:
            return "\n".join(lines)
    if not facts["runs"]:
        return "\n".join([*lines, "", "It has no runs now."])
    rows = [
        [run["name"], run["due"], run["state"], ", ".join(run["clusters"]) or "-", run["summary"]]
        for run in facts["runs"]
    ]
    lines += ["", common.table(["RUN", "DUE", "STATE", "CLUSTERS", "STATUS"], rows)]
    waiting = [run for run in facts["runs"] if "waits" in run]
    for run in waiting:
        lines.append(f"  {run['name']}: {run['waits']}")
        lines.append(f"    federator explain pjs/{run['name']} -n {identity['namespace']}")
    return "\n".join(lines)


def _native(native: Mapping[str, Any], namespace: str) -> list[str]:
    """What its clusters run by themselves, as lines."""
    lines = [
        "",
        f"Its clusters run what is due after {native['after']} by themselves:"
        f" federator explain pncj/{native['name']} -n {namespace}",
    ]
    rows = [
        [
            row["cluster"] if row["known"] else f"{row['cluster']} (not heard)",
            str(row["active"]),
            row["lastRun"] or "-",
            row["lastSuccess"] or "-",
            row["why"] or ("begins no runs" if row["suspended"] else "-"),
        ]
        for row in native["clusters"]
    ]
    if not rows:
        return [*lines, "No cluster has it yet."]
    return [*lines, common.table(["CLUSTER", "ACTIVE", "LAST RUN", "LAST SUCCESS", "WHY"], rows)]
