"""18: labels, annotations and finalizers that somebody else put on an object come through every
write of ours.

Whose a name is, is remembered per object: theirs when it was first written by a user, a cluster's
own controllers or whoever else has no life in the simulation; ours when one of our processes wrote
it first, whoever changes it later.
"""

from collections.abc import Iterator, Mapping

from tests.simulation.invariants import Obj, Step

Name = tuple[str, str]
"""(part of the metadata, name in it)"""


class Respect:
    """Who wrote what first."""

    name = "18 field respect"

    def __init__(self) -> None:
        self._theirs: dict[tuple[str, str], set[Name]] = {}
        self._ours: dict[tuple[str, str], set[Name]] = {}

    def breaches(self, step: Step) -> Iterator[str]:
        """What of theirs a write of ours lost or changed."""
        if step.new is None:
            return
        what = step.cluster, step.new["metadata"]["uid"]
        before = _named(step.old) if step.same and step.old is not None else {}
        after = _named(step.new)
        theirs, ours = self._theirs.setdefault(what, set()), self._ours.setdefault(what, set())
        if step.writer:
            for name in sorted(theirs & before.keys()):
                if after.get(name) != before[name]:
                    how = "lost" if name not in after else "changed"
                    yield (
                        f"{self.name}: {step.name}: {step.writer} {how} {name[0][:-1]} "
                        f"{name[1]}={before[name]}"
                    )
            ours |= after.keys() - before.keys() - theirs
        else:
            theirs |= {name for name in after if after[name] != before.get(name)} - ours


def _named(obj: Obj) -> Mapping[Name, str]:
    """Everything on an object that has a name of its own."""
    meta = obj["metadata"]
    parts = {part: meta.get(part) or {} for part in ("labels", "annotations")}
    found = {
        (part, name): str(text) for part, texts in parts.items() for name, text in texts.items()
    }
    return found | {("finalizers", name): "" for name in meta.get("finalizers") or ()}
