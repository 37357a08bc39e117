"""Overrides per cluster: what a policy changes of a workload's pods in the clusters it selects.

A policy has entries (`Override`). For one cluster, the entries that select it are filled in with
the cluster's name and labels (`for_cluster`); `kinds.overriding` applies the result to an object.
Pure.
"""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.model import names
from federator.model.errors import FieldError
from federator.model.kubernetes.selectors import LabelSelector

PLACEHOLDER: Final = re.compile(r"\$\{cluster\.(?:(name)|labels\.([A-Za-z0-9]+[A-Za-z0-9._/-]*))\}")
"""`${cluster.name}` and `${cluster.labels.KEY}`."""
BEGINS: Final = "${cluster."
"""Whatever begins so must be a placeholder. Other text with a dollar, such as `${HOME}`, stays."""


@dataclass(frozen=True, slots=True)
class Override:
    """One entry of a policy's `overrides`."""

    policy: str
    """Kind and name of the policy, for messages."""
    path: str
    """Path of the entry in the policy: spec.overrides[0]."""
    content: str
    """The entry without `clusters`, as canonical JSON, so that equal entries are equal."""
    names: tuple[str, ...] = ()
    """Only these clusters; empty for all."""
    selector: LabelSelector | None = None
    """Only clusters with these labels."""
    problem: str = ""
    """Why the entry cannot be used, as a sentence. Slices that it would change are then not
    written."""

    @property
    def fields(self) -> dict[str, Any]:
        """What it changes, as the policy spells it."""
        decoded: dict[str, Any] = json.loads(self.content)
        return decoded

    @property
    def title(self) -> str:
        """The policy and the path, as messages name the entry."""
        return f"{self.path} of {self.policy}"

    def selects(self, cluster: str, labels: Mapping[str, str]) -> bool:
        """Whether the entry changes slices of this cluster."""
        if self.names and cluster not in self.names:
            return False
        return self.selector is None or self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Filled:
    """An entry with the values of one cluster."""

    title: str
    content: str

    @property
    def fields(self) -> dict[str, Any]:
        """What it changes, as the policy spells it."""
        decoded: dict[str, Any] = json.loads(self.content)
        return decoded


@dataclass(frozen=True, slots=True)
class InCluster:
    """All that policies change of a workload in one cluster, in order."""

    entries: tuple[Filled, ...] = ()
    problem: str = ""
    """Why the entries cannot be filled in, as a sentence; "" when they can."""
    digest: str = ""
    """Of the entries or of the problem; "" where nothing is changed. Slices pin it."""

    def __bool__(self) -> bool:
        return bool(self.digest)


NOTHING: Final = InCluster()


def for_cluster(
    overrides: tuple[Override, ...], cluster: str, labels: Mapping[str, str]
) -> InCluster:
    """The entries that select the cluster, with its name and labels in place of placeholders."""
    if not overrides:
        return NOTHING
    return _for_cluster(overrides, cluster, tuple(sorted(labels.items())))


@functools.lru_cache(maxsize=4096)
def _for_cluster(
    overrides: tuple[Override, ...], cluster: str, labels: tuple[tuple[str, str], ...]
) -> InCluster:
    known = dict(labels)
    entries: list[Filled] = []
    for override in overrides:
        if not override.selects(cluster, known):
            continue
        try:
            if override.problem:
                raise FieldError(override.title, override.problem)
            fields = _filled(json.loads(override.content), override.title, cluster, known)
        except FieldError as bad:
            return InCluster(problem=str(bad), digest=names.short_hash(str(bad), length=16))
        entries.append(Filled(override.title, canonical(fields)))
    if not entries:
        return NOTHING
    content = [entry.content for entry in entries]
    return InCluster(tuple(entries), digest=names.short_hash(*content, length=16))


def canonical(fields: Any) -> str:
    """Decoded JSON as text that does not depend on the order of keys."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def unknown_placeholder(value: Any, path: str) -> FieldError | None:
    """The first text in a value that begins a placeholder and is none; None when there is none."""
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}", part) for key, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    else:
        if isinstance(value, str) and BEGINS in PLACEHOLDER.sub("", value):
            return FieldError(path, NO_PLACEHOLDER)
        return None
    return next(filter(None, (unknown_placeholder(part, at) for at, part in parts)), None)


NO_PLACEHOLDER: Final = (
    "${cluster. begins a placeholder: ${cluster.name} or ${cluster.labels.KEY} are accepted"
)


def _filled(value: Any, path: str, cluster: str, labels: Mapping[str, str]) -> Any:
    """The value with the cluster's facts in its texts. Raises FieldError for a label that the
    cluster does not have."""
    if isinstance(value, dict):
        return {key: _filled(part, path, cluster, labels) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, path, cluster, labels) for part in value]
    if not isinstance(value, str) or BEGINS not in value:
        return value

    def fact(match: re.Match[str]) -> str:
        if match[1]:
            return cluster
        if match[2] not in labels:
            message = f"${{cluster.labels.{match[2]}}}: cluster {cluster} does not have this label"
            raise FieldError(path, message)
        return labels[match[2]]

    return PLACEHOLDER.sub(fact, value)
