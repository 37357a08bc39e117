"""The kinds that random sequences use: where they live, what a valid one looks like, and what may
be changed in it.

`workloadkinds`, `corekinds` and `customkinds` fill the table; `generate` draws from it. Pure data
and drawing from a given random source.
"""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]
Body = Callable[[random.Random], Object]

DROP: Final = "@drop"
"""As a tweak's value: takes the field away."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object and how to vary it."""

    plural: str
    kind: str
    api_version: str
    body: Body
    """Draws a body without kind, apiVersion and metadata. It may be invalid now and then."""
    tweaks: Mapping[str, Sequence[Any]]
    """Dotted path -> values to put there, good and bad ones."""
    namespaced: bool = True
    status: Mapping[str, Sequence[Any]] | None = None
    """Tweaks of its status; None without a status sub-resource."""
    scale: bool = False
    minimal: Object | None = None
    """The plain valid body of sentinels; drawn from `body` with a fixed seed when it is not given.
    """
    strategic: bool = True
    """False for custom resources."""

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )

    @property
    def collection(self) -> str:
        """The path of its collection, with {ns} for the namespace of the sequence."""
        return (
            f"{self.root}/namespaces/{{ns}}/{self.plural}"
            if self.namespaced
            else f"{self.root}/{self.plural}"
        )

    def plain(self) -> Object:
        """A valid body that is always the same."""
        return (
            copy.deepcopy(self.minimal) if self.minimal is not None else self.body(random.Random(0))
        )


def put(tree: Object, path: str, value: Any) -> None:
    """Sets the value at a dotted path, in place; what does not exist on the way is made. DROP
    removes it.
    """
    parts = path.split(".")
    here: Any = tree
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        if isinstance(here, list):
            index = int(part) if part.isdigit() else len(here)
            if index >= len(here):
                return
            if is_last:
                here[index] = copy.deepcopy(value)
                return
            here = here[index]
            continue
        if not isinstance(here, dict):
            return
        # A dot within a key is written as a comma.
        key = part.replace(",", ".")
        if is_last:
            if value == DROP:
                here.pop(key, None)
            else:
                here[key] = copy.deepcopy(value)
            return
        if not isinstance(here.get(key), (dict, list)):
            if parts[position + 1].isdigit():
                return
            here[key] = {}
        here = here[key]


def some(rng: random.Random, names: Sequence[str], least: int = 0) -> list[str]:
    """A few of the names, in their order."""
    chosen = rng.sample(list(names), rng.randint(least, len(names)))
    return sorted(chosen)
