"""The PodGroups of a cluster that serves them: which pods belong to each, and which of them wait
until enough can be bound at once. The scheduler binds them.

Where the kind is not served, pods belong to no group, whatever they name: real servers without the
feature gate drop the field.
"""

from collections.abc import Callable, Iterator
from typing import Final

from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.storage.revisions import DELETED, Event

RESOURCE: Final = ("scheduling.k8s.io", "podgroups")

Ticket = tuple[int, int, Key, str]
"""(-priority, arrival, key, uid) of a pod that waits."""


class Gangs:
    """One for a cluster. `served` says whether PodGroups are."""

    def __init__(self, pods: PodIndex, served: Callable[[], bool]) -> None:
        self._served = served
        self._least: dict[Key, int] = {}
        """Pods that each group needs at once; 0 for a group that needs none."""
        self._members: dict[Key, dict[Key, Pod]] = {}
        """Pods of each group that have not ended."""
        self._waiting: dict[Key, dict[Key, Ticket]] = {}
        self._changed: set[Key] = set()
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        """Follows PodGroups."""
        if event.type is DELETED:
            self._least.pop(event.key, None)
            return
        policy = (event.current.obj.get("spec") or {}).get("schedulingPolicy") or {}
        self._least[event.key] = int((policy.get("gang") or {}).get("minCount", 0))
        self._changed.add(event.key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        name = _named(pod) if pod is not None else ""
        if pod is None or not name:
            return
        group = (pod.key[0], name)
        if new is not None and new.active:
            self._members.setdefault(group, {})[pod.key] = new
            return
        members = self._members.get(group, {})
        members.pop(pod.key, None)
        self._waiting.get(group, {}).pop(pod.key, None)
        if not members:
            self._members.pop(group, None)
            self._waiting.pop(group, None)

    def of(self, pod: Pod) -> Key | None:
        """The group that the pod is bound with; None where it is bound alone."""
        name = _named(pod)
        return (pod.key[0], name) if name and self._served() else None

    def wait(self, group: Key, ticket: Ticket) -> None:
        self._waiting.setdefault(group, {})[ticket[2]] = ticket

    def lacks(self, group: Key) -> int | None:
        """How many pods of the group have to be bound at once; None while too few are there, or
        while there is no such group."""
        least = self._least.get(group)
        members = self._members.get(group, {})
        if least is None or len(members) < least:
            return None
        return max(least - sum(bool(pod.node) for pod in members.values()), 0)

    def take(self, group: Key) -> list[Ticket]:
        """The pods of the group that wait, first come first; they wait no more."""
        return sorted(self._waiting.pop(group, {}).values())

    def retry(self, *, freed: bool) -> Iterator[Ticket]:
        """One pod of each group that may be bound by now: the group has changed, or room was
        freed."""
        again = list(self._waiting) if freed else sorted(self._changed & self._waiting.keys())
        self._changed.clear()
        for group in again:
            if tickets := self._waiting[group]:
                yield min(tickets.values())


def _named(pod: Pod) -> str:
    group = pod.obj["spec"].get("schedulingGroup") or {}
    return str(group.get("podGroupName") or "")
