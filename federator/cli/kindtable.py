"""The kinds as the command line looks at them: names and printer columns.

`data/kinds.json` is made from the registry (`make docs`), and a house test compares the two. The
registry imports the models of all kinds, which takes longer than a whole look at the host.
"""

import pkgutil
from collections.abc import Mapping
from typing import Final

import msgspec

from federator.model.steps import ObjectRef


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One printer column over a scalar; `wide` ones are shown with -o wide only."""

    name: str
    json_path: str
    type: str = "string"
    wide: bool = False


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind. `placed`: it is a workload that clusters run."""

    kind: str
    group: str
    version: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    namespaced: bool = False
    placed: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def ref(self, namespace: str, name: str) -> ObjectRef:
        return ObjectRef(
            self.api_version, self.plural, namespace if self.namespaced else "", name, self.kind
        )


def _read() -> Mapping[str, Shown]:
    data = pkgutil.get_data("federator.cli", "data/kinds.json")
    assert data is not None
    return {row.kind: row for row in msgspec.json.decode(data, type=list[Shown])}


TABLE: Final = _read()
"""Kind -> how it is shown, in the order of the registry."""
