"""The pure parts of the Job stand-in: index sets in the API's spelling, failure policy, success
policy, back-off.

Called by `job_state` and `jobs`; rules and messages of the Kubernetes job controller 1.37.
"""

import bisect
from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.storage.revisions import JsonObject

BACKOFF_S: Final = 10.0
BACKOFF_MAX_S: Final = 600.0


class Indexes:
    """A growing set of completion indexes, kept as sorted, disjoint, inclusive intervals."""

    __slots__ = ("_firsts", "_lasts", "total")

    def __init__(self, text: str = "", limit: int | None = None) -> None:
        """`text` as in status.completedIndexes; parts that cannot be read, or lie beyond `limit`,
        are left out."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.total = 0
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            if first.isdecimal() and (last.isdecimal() or not dash):
                high = int(last if dash else first)
                for index in range(int(first), high + 1 if limit is None else min(high + 1, limit)):
                    self.add(index)

    def __contains__(self, index: int) -> bool:
        at = bisect.bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self._lasts[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def add(self, index: int) -> None:
        at = bisect.bisect_right(self._firsts, index)
        if at and index <= self._lasts[at - 1]:
            return
        self.total += 1
        joins_left = at > 0 and self._lasts[at - 1] == index - 1
        joins_right = at < len(self._firsts) and self._firsts[at] == index + 1
        if joins_left and joins_right:
            self._lasts[at - 1] = self._lasts[at]
            del self._firsts[at], self._lasts[at]
        elif joins_left:
            self._lasts[at - 1] = index
        elif joins_right:
            self._firsts[at] = index
        else:
            self._firsts.insert(at, index)
            self._lasts.insert(at, index)

    def __str__(self) -> str:
        """`0-3,5,7,8`: a pair is written with a comma, as the API server's clients expect."""
        parts = []
        for first, last in zip(self._firsts, self._lasts, strict=True):
            if last == first:
                parts.append(str(first))
            else:
                parts.append(f"{first},{last}" if last == first + 1 else f"{first}-{last}")
        return ",".join(parts)


def backoff_s(failures: int) -> float:
    """How long to wait after the last of so many consecutive failures."""
    return 0.0 if failures <= 0 else min(BACKOFF_S * 2.0 ** min(failures - 1, 30), BACKOFF_MAX_S)


def failure_action(job: JsonObject, pod: JsonObject) -> tuple[str, str]:
    """(action of the first matching podFailurePolicy rule or "", the message of a FailJob)."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    status = pod.get("status") or {}
    for number, rule in enumerate(rules):
        action = rule["action"]
        if rule.get("onExitCodes"):
            exit_code = _exit_of(status, rule["onExitCodes"])
            if exit_code is not None:
                text = (
                    f"Container {exit_code[0]} for pod {name} failed with exit code {exit_code[1]}"
                )
                return action, f"{text} matching {action} rule at index {number}"
        elif rule.get("onPodConditions"):
            for have in status.get("conditions") or ():
                for pattern in rule["onPodConditions"]:
                    if have["type"] == pattern["type"] and have["status"] == pattern.get(
                        "status", "True"
                    ):
                        text = f"Pod {name} has condition {have['type']}"
                        return action, f"{text} matching {action} rule at index {number}"
    return "", ""


def success_rule(job: JsonObject, succeeded: Indexes) -> str:
    """The message of the successPolicy rule that is met, or ""."""
    if not succeeded.total:
        return ""
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = Indexes(rule["succeededIndexes"], job["spec"].get("completions"))
            if not wanted.total:
                continue
            have = sum(index in succeeded for index in wanted)
            met = have == wanted.total or (count is not None and have >= count)
        else:
            met = count is not None and succeeded.total >= count
        if met:
            return f"Matched rules at index {number}"
    return ""


def _exit_of(status: dict[str, Any], rule: dict[str, Any]) -> tuple[str, int] | None:
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended is None or ended["exitCode"] == 0:
                continue
            if rule.get("containerName") not in (None, container["name"]):
                continue
            if (ended["exitCode"] in rule["values"]) == (rule["operator"] == "In"):
                return container["name"], ended["exitCode"]
    return None
