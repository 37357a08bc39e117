"""What clusters would report once the copies that leave them have ended. Pure.

A report says how much is free on nodes, not which copies lie where. So what leaves is given back to
the nodes that are used most, one copy to each of them in turn: where a scheduler that spreads has
bound the copies. The room of a plan is exact where copies arrive, and an estimate where they leave.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, NodeRow
from federator.model.kubernetes import taints
from federator.model.resources import PODS, Resources
from federator.placement.room import nodes


def without(capacity: Capacity, leaving: Mapping[PodShape, int]) -> Capacity:
    """The report after so many copies of each shape have ended; those of a gang pod by pod."""
    rows = [(_used(row), row) for row in capacity.rows]
    copies = dict(capacity.copies)
    for shape, count in sorted(leaving.items(), key=lambda item: nodes.shape_id(item[0])):
        if count <= 0:
            continue
        name = nodes.shape_id(shape)
        if name in copies and not shape.every_node:
            copies[name] += count
        for pod, each in shape.pods:
            rows = _given_back(rows, pod, count * each)
    return replace(capacity, rows=tuple(row for _, row in rows), copies=copies)


def with_more(capacity: Capacity, arriving: Mapping[PodShape, int]) -> Capacity:
    """The report after so many copies of each shape have begun; those of a gang pod by pod, each on
    the node with room that is used least. A pod without a node with room is left out."""
    if not arriving:
        return capacity
    rows = [(_used(row), row) for row in capacity.rows]
    copies = dict(capacity.copies)
    for shape, count in sorted(arriving.items(), key=lambda item: nodes.shape_id(item[0])):
        name = nodes.shape_id(shape)
        if name in copies and not shape.every_node:
            copies[name] = max(copies[name] - count, 0)
        for pod, each in shape.pods:
            rows = _taken(rows, pod, count * each)
    return replace(capacity, rows=tuple(row for _, row in rows), copies=copies)


_Rows: TypeAlias = list[tuple[float, NodeRow]]
"""(part that is used, nodes)."""


def _given_back(rows: _Rows, pod: PodShape, count: int) -> _Rows:
    """The rows with `count` pods fewer on their nodes, one from each of the fullest in turn."""
    return _one_each(
        rows,
        count,
        level=lambda rows: _fullest(rows, pod),
        may=lambda row: _may_hold(row, pod),
        free=lambda row: _free_after(row, pod),
    )


def _taken(rows: _Rows, pod: PodShape, count: int) -> _Rows:
    """The rows with `count` pods more on their nodes, one to each of the emptiest in turn."""
    return _one_each(
        rows,
        count,
        level=lambda rows: min((used for used, row in rows if _has_room(row, pod)), default=None),
        may=lambda row: _has_room(row, pod),
        free=lambda row: row.free - _needed(row, pod),
    )


def _one_each(
    rows: _Rows,
    count: int,
    *,
    level: Callable[[_Rows], float | None],
    may: Callable[[NodeRow], bool],
    free: Callable[[NodeRow], Resources],
) -> _Rows:
    """Changes `count` nodes by one pod each, and begins anew when all nodes of a level are changed.
    `level`: the part in use of the next nodes, None to stop; `may`: whether a node is one of them;
    `free`: what is free on it afterwards."""
    while count > 0 and (turn := level(rows)) is not None:
        changed: _Rows = []
        for used, row in rows:
            if count > 0 and used == turn and may(row):
                here = min(row.count, count)
                count -= here
                other = replace(row, count=here, free=free(row))
                changed.append((_used(other), other))
                if here < row.count:
                    changed.append((used, replace(row, count=row.count - here)))
            else:
                changed.append((used, row))
        rows = changed
    return rows


def _has_room(row: NodeRow, pod: PodShape) -> bool:
    tolerated = taints.untolerated(row.taints, pod.tolerations) is None
    return row.count > 0 and tolerated and _needed(row, pod).within(row.free)


def _fullest(rows: _Rows, pod: PodShape) -> float | None:
    """The largest part in use of nodes that may hold such a pod; None where there are none."""
    fullest: float | None = None
    for used, row in rows:
        if (fullest is None or used > fullest) and _may_hold(row, pod):
            fullest = used
    return fullest


def _may_hold(row: NodeRow, pod: PodShape) -> bool:
    """Whether a pod of the shape may be among those that run on these nodes."""
    if row.count <= 0 or taints.untolerated(row.taints, pod.tolerations) is not None:
        return False
    free, most = row.free, row.allocatable
    if free.get(PODS) >= most.get(PODS) > 0:
        return False
    return all(need <= most[name] - free[name] for name, need in pod.requests.items())


def _used(row: NodeRow) -> float:
    """The part of the nodes that is used, of the resource that is used most. Equal parts are equal
    numbers: a quotient of whole numbers is rounded once."""
    free = row.free
    return max(
        ((amount - free[name]) / amount for name, amount in row.allocatable.items() if amount > 0),
        default=0.0,
    )


def _free_after(row: NodeRow, pod: PodShape) -> Resources:
    free = row.free + _needed(row, pod)
    return Resources({name: min(free[name], row.allocatable[name]) for name in row.allocatable})


def _needed(row: NodeRow, pod: PodShape) -> Resources:
    """What one pod takes of these nodes, which may not limit the number of pods."""
    pods = Resources({PODS: max(pod.requests[PODS], 1)}) if PODS in row.allocatable else Resources()
    more = Resources({name: need for name, need in pod.requests.items() if name != PODS})
    return more + pods
