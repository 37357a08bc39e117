"""What controllers of one kind have in common: a queue of keys that fills itself from changes, and
for those that make pods of a template also moulds and a back-off after refusals.
"""

from collections.abc import Iterator
from typing import ClassVar

from federator.embedded.controllers.agenda import Backoff, Dirty
from federator.embedded.controllers.pods import Pod, PodIndex
from federator.embedded.controllers.templates import Moulds
from federator.embedded.controllers.tools import Key, Tools
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import DELETED, Event, JsonObject


class Keyed:
    """A controller that looks at one object at a time."""

    COMPONENT: ClassVar[str] = ""
    """The source of its Events."""

    def __init__(self, tools: Tools, resource: ResourceInfo) -> None:
        self._tools = tools
        self._resource = resource
        self._dirty: Dirty[Key] = Dirty()

    def notice(self, event: Event) -> None:
        if event.type is DELETED:
            self._forget(event.key, event.current.obj["metadata"]["uid"])
        else:
            self._dirty.add(event.key)

    def steps(self) -> Iterator[None]:
        for key in self._dirty.drain():
            obj = self._tools.get(self._resource, key)
            if obj is not None:
                yield from self._sync(key, obj)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        """Does what the object asks for, in small steps."""
        raise NotImplementedError

    def _forget(self, key: Key, uid: str) -> None:
        """The object is gone."""

    def _say(self, obj: JsonObject, reason: str, text: str, *, warning: bool = False) -> None:
        self._tools.events.emit(obj, reason, text, self.COMPONENT, warning=warning)


class PodOwner(Keyed):
    """A controller of objects with a pod template."""

    def __init__(
        self,
        tools: Tools,
        resource: ResourceInfo,
        pods: PodIndex,
        *,
        first_s: float = 0.005,
        most_s: float = 1000.0,
    ) -> None:
        """`first_s` and `most_s` are waited after refusals of a pod."""
        super().__init__(tools, resource)
        self._pods = pods
        self._moulds = Moulds(tools, resource)
        self._backoff = Backoff(tools.agenda, self._dirty.add, first_s=first_s, most_s=most_s)
        pods.listeners.append(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if (key := self._owner_of(new or old)) is not None:
            self._dirty.add(key)

    def _owner_of(self, pod: Pod | None) -> Key | None:
        """The key of the object of this kind that controls the pod."""
        if pod is None or pod.owner is None or pod.owner[0] != self._resource.kind:
            return None
        return pod.owner_key

    def _forget(self, key: Key, uid: str) -> None:
        self._moulds.forget(uid)
        self._backoff.forget(key)

    def _refused(self, key: Key, obj: JsonObject, text: str) -> None:
        """A pod was not taken: says so once per try, and tries again later."""
        if not self._backoff.waits(key):
            self._say(obj, "FailedCreate", text, warning=True)
            self._backoff.failed(key)

    def _write_status(
        self, obj: JsonObject, status: JsonObject, kept: tuple[str, ...], again_s: float | None
    ) -> None:
        """Writes a status without its zero values, as Go's omitempty does, but for those in `kept`;
        looks again in `again_s`."""
        shown = {name: value for name, value in status.items() if value or name in kept}
        self._tools.set_status(self._resource, obj, shown)
        if again_s is not None:
            metadata = obj["metadata"]
            key = (metadata["namespace"], metadata["name"])
            self._tools.agenda.after(again_s, self._dirty.add, key)
