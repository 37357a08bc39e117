"""A disk that is full, or fails, for tests of what has to be on disk."""

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


class Disk:
    """Fails calls of the system, in the order that a test says. Real files otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: Iterator[str] = iter(())
        self.real = {name: getattr(os, name) for name in ("write", "fdatasync", "fsync")}
        for name in self.real:
            monkeypatch.setattr(os, name, self._wrapped(name))
        self._next = ""

    def failing(self, *names: str) -> None:
        """The next calls of these names fail, one after the other. `part`: a write of a part."""
        self.fails = iter(names)
        self._next = next(self.fails, "")

    def failing_at(self, number: int, name: str) -> None:
        """The call of this number from now on fails, counted from 1."""
        self.failing(*[f"{name} {left}" for left in range(number - 1, 0, -1)], name)

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if self._next.startswith(f"{name} "):
                self._next = next(self.fails, "")
                return self.real[name](*arguments)
            part = name == "write" and self._next == "part"
            if name == self._next or part:
                self._next = next(self.fails, "")
                if part:
                    return self.real["write"](arguments[0], arguments[1][:30])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.real[name](*arguments)

        return called
