"""Manifests: objects that people wrote, and where each of them stands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def nowhere(_: str) -> int:
    """No line is known."""
    return 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object. `origin` is its file, `-` for stdin, or the directory of a kustomization;
    `document` is its position there, from 1; 0 where `origin` is the place of this object alone."""

    obj: dict[str, Any]
    origin: str
    document: int
    line: Callable[[str], int] = nowhere
    """The line of a field, from 1, by its path; 0 where it is not known."""

    @property
    def where(self) -> str:
        return f"{self.origin}, document {self.document}" if self.document else self.origin

    def where_of(self, path: str) -> str:
        line = self.line(path)
        return f"{self.where}, line {line}" if line else self.where


class Unreadable(Exception):
    """A file or directory that cannot be read as manifests; each argument is a sentence."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(map(str, self.args))
