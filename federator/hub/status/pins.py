"""Pins of versions of RuntimeProfiles (`spec.runtime.version`), as the status reports them before
and after their end. Pure readings of the hub's memory."""

from typing import Final

from federator.api import raw, runtimeprofile
from federator.hub.cache import profile_versions
from federator.hub.cache.state import HubState
from federator.hub.records.workloads import Workload
from federator.status.facts import Pinned

NOTICE_S: Final = 7 * 86_400.0
"""So long before its end a pin is reported as ending soon."""


def pinned(state: HubState, workload: Workload) -> Pinned | None:
    """None for a workload without a pin."""
    name, until_s = workload.pin
    if not name:
        return None
    known = state.profiles.get(workload.profile)
    until = raw.rfc3339(until_s)
    if known is None:
        message = f"There is no RuntimeProfile {workload.profile!r}, so no version can be kept."
        return Pinned(False, "VersionUnknown", message)
    present = runtimeprofile.version_name(known["object"])
    newest = f"version {present!r}" if present else "the present version"
    what = f"RuntimeProfile {workload.profile!r}"
    left_s = until_s - state.wall()
    if left_s <= 0:
        return Pinned(
            False,
            "Expired",
            f"The pin of version {name!r} of {what} ended at {until}: its pods get {newest}. Remove"
            " spec.runtime.version, or set a later time.",
        )
    if profile_versions.pinned(state, workload, known) is None:
        names = [runtimeprofile.version_name(obj) for _, obj in known["former"]]
        if name in (present, *names):
            return Pinned(
                False,
                "VersionDearer",
                f"Version {name!r} of {what} requests more than its decision charges: its pods get"
                " another version.",
            )
        kept = ", ".join(dict.fromkeys(repr(each) for each in (present, *names) if each)) or "none"
        return Pinned(
            False,
            "VersionUnknown",
            f"{what} has no version {name!r}; it keeps {kept}. Its pods get {newest}.",
        )
    if name == present:
        message = f"Its pods keep version {name!r} of {what}, the present one, until {until}."
        return Pinned(True, "Pinned", message)
    message = f"Its pods keep version {name!r} of {what} until {until}, then they get {newest}."
    if left_s <= NOTICE_S:
        return Pinned(True, "ExpiresSoon", f"{message} Test that version before then.")
    return Pinned(True, "Pinned", message)


def next_s(state: HubState, workload: Workload) -> float | None:
    """Seconds until its report changes by time alone; None when it does not."""
    name, until_s = workload.pin
    left_s = until_s - state.wall()
    if not name or left_s <= 0:
        return None
    return left_s - NOTICE_S if left_s > NOTICE_S else left_s
