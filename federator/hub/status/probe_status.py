"""`status.probe` of a MemberCluster and its condition ProbePassed: what was on the host, what this
process has to say, and the gate of its ClusterStandards.

Pure. A gate counts from the time at which it is first seen: a cluster that was Ready before that
takes work as before, until it is not ready.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import memberfields, raw
from federator.api.memberfields import PROBE_PASSED
from federator.hub.members.member import Member
from federator.model import plaintext
from federator.status import conditions
from federator.status.conditions import FALSE, TRUE, UNKNOWN, Condition

_REASONS: Final = {
    "Passed": (TRUE, "Passed", "Its last probe passed."),
    "Failed": (FALSE, "ProbeFailed", ""),
    "Busy": (UNKNOWN, "ClusterBusy", ""),
    "NotRun": (UNKNOWN, "ProbeNotRun", ""),
}
"""Result -> status, reason and message of the condition."""


def with_probe(
    member: Member, live: Mapping[str, Any], want: Mapping[str, Any], *, gated: bool, now: str
) -> dict[str, Any]:
    """`want` with the probe and its condition. `now`: RFC 3339."""
    probe = {**raw.mapping(live, "probe"), **(member.vitals.probe or {})}
    probe = {name: value for name, value in probe.items() if value is not None}
    if gated:
        probe.setdefault("gateSince", now)
    else:
        probe.pop("gateSince", None)
    status = {"conditions": want["conditions"], "probe": probe}
    said = _condition(probe, memberfields.unproven({"status": status}))
    merged = conditions.merge(
        want["conditions"], () if said is None else (said,), now, (PROBE_PASSED,)
    )
    shown = {"probe": probe} if probe or "probe" in live else {}
    return {**want, "conditions": merged, **shown}


def opened(live: Mapping[str, Any], want: Mapping[str, Any]) -> bool:
    """Whether the cluster takes work from now on because it passed a probe, or need not."""
    before = memberfields.unproven({"status": live})
    return bool(before) and not memberfields.unproven({"status": {**live, "probe": {}, **want}})


def _condition(probe: Mapping[str, Any], unproven: str) -> Condition | None:
    """What is said of the last probe, or that the cluster waits for one."""
    result = raw.word(probe, "result")
    if unproven and (not result or raw.text(probe, "finishedAt") < raw.text(probe, "gateSince")):
        message = f"It takes no work until it has passed a probe: it {unproven}."
        return Condition(PROBE_PASSED, FALSE, "ProbeAwaited", plaintext.clipped(message))
    if result not in _REASONS:
        return None
    status, reason, message = _REASONS[result]
    if unproven and status == TRUE:
        message = f"It takes no work until it has passed another probe: it {unproven}."
        return Condition(PROBE_PASSED, FALSE, "ProbeAwaited", plaintext.clipped(message))
    message = message or raw.sentence(probe, "message")
    return Condition(PROBE_PASSED, status, reason, plaintext.clipped(message))
