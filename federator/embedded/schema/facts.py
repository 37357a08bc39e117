"""The data files of the embedded API, each read once per process.

`facts.json` holds what of Kubernetes 1.37 is a list and no rule: the columns of Tables (`tables`,
in the notation of `tables.columns`), values of absent fields by type (`defaults`), fields that
selectors may name, fields of metadata that status writes leave alone (`statusResets`), the order of
groups, the roles of a new server, query parameters and descriptions of OpenAPI documents, the
conditions of healthy nodes and of namespaces that end, and where kinds have their pod template. A
resource is spelt as in RBAC: `pods`, `deployments.apps`.
"""

import functools
import gzip
from collections.abc import Mapping
from importlib import resources as package_data
from typing import Any

import msgspec


def read(name: str) -> Any:
    """What a JSON file of `data` says; `.gz` is unpacked."""
    content = package_data.files("federator.embedded").joinpath("data", name).read_bytes()
    return msgspec.json.decode(gzip.decompress(content) if name.endswith(".gz") else content)


@functools.cache
def _facts() -> Mapping[str, Any]:
    facts: Mapping[str, Any] = read("facts.json")
    return facts


def of(name: str) -> Any:
    """One part of `facts.json`."""
    return _facts()[name]


def by_resource(name: str) -> dict[tuple[str, str], Any]:
    """One part of `facts.json`, by (group, plural)."""
    split = ((resource.partition("."), value) for resource, value in of(name).items())
    return {(group, plural): value for (plural, _, group), value in split}
