"""The question `runtime` reads whole pods: large ones in small pages, and an odd one beside others."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from federator.hub.query import collecting
from federator.hub.query.collecting import LogSelection, Target
from federator.hub.query.selection import Selection
from federator.kube import errors

KB = 1024
LABELS = {"pod-template-hash": "6d4cf56db6"}


def pod(at: int, **more: Any) -> dict[str, Any]:
    owner = {"controller": True, "kind": "ReplicaSet", "name": "web-6d4cf56db6"}
    meta: dict[str, Any] = {"name": f"web-{at:03}", "ownerReferences": [owner], "labels": LABELS}
    meta["annotations"] = {"a": "x" * 60 * KB}
    return {"metadata": meta, "spec": {"containers": []}, **more}


class Member:
    """A member with pods, which answers in pages as its server does."""

    def __init__(self, pods: Sequence[dict[str, Any]]) -> None:
        self._pods = pods
        self.limits: list[int] = []

    async def raw(
        self, method: str, path: str, query: Sequence[tuple[str, str]], *, body_limit: int, **_: Any
    ) -> bytes:
        asked = dict(query)
        begin, limit = int(asked.get("continue", 0)), int(asked["limit"])
        self.limits.append(limit)
        end = begin + limit
        more = {"continue": str(end)} if end < len(self._pods) else {}
        body = json.dumps({"metadata": more, "items": self._pods[begin:end]}).encode()
        if len(body) > body_limit:
            raise errors.Malformed("GET pods: the answer is too large")
        return body


def told(member: Member) -> dict[str, Any]:
    selection = Selection("PinterestService", "feed", "web", "u-1", "app=web", "main")
    target: Any = Target("a", member)  # type: ignore[arg-type]
    return asyncio.run(collecting.runtimes([target], selection, LogSelection()))


def test_pods_that_are_too_large_for_a_page_are_read_in_smaller_ones() -> None:
    member = Member([pod(at) for at in range(150)])

    (row,) = told(member)["clusters"]

    assert (row["answered"], row["pods"]) == (True, 150)
    assert member.limits[:2] == [100, 20]


def test_a_pod_that_cannot_be_read_is_counted_with_the_reason_and_costs_no_other_one() -> None:
    odd = pod(1, status={"containerStatuses": "none"})
    answer = told(Member([pod(0), odd, {**pod(2), "metadata": 7}]))

    (row,) = answer["clusters"]
    assert (row["answered"], row["pods"], row["troubled"]) == (True, 2, 2)
    reasons = {each["name"]: each["reason"] for each in answer["pods"]}
    assert reasons["web-001"] == "what its cluster says of it cannot be read"
    assert reasons["web-000"] == "no runtime of federator"
