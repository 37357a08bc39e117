"""Runs tests with one mutant planted: `python -m tests.mutation.child MODULE INDEX LIMIT_S
PYTEST_ARGUMENTS`; started by `run`.

The module's file stays as it is: this process alone reads another text in its place. INDEX is a
place in the list of `mutants`, or `none` for the text as it stands. LIMIT_S is processor time, after
which SIGXCPU ends the process. The exit status is pytest's own; the last line of stderr says how
much processor time it took.
"""

import importlib.abc
import importlib.machinery
import resource
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import pytest

from tests.mutation import mutants

UNWANTED: Final = ("randomly", "cacheprovider", "results")
"""Plugins: the order of the tests is fixed, and a mutant's results are no run's."""

CPU: Final = "processor seconds: "
"""Begins the last line."""
RUN: Final = "not e2e and not real and not soak"
"""The marks of tests that are run: what `make test` and `make test-long` run together, in virtual
time."""


class SameExamples:
    """A pytest plugin: the same examples for each mutant, none from former runs, and no time spent
    on making a failing one smaller.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import (
            HealthCheck,
            Phase,
            settings,
        )  # only now: pytest rewrites the asserts of its plugin

        from tests.examples import ASKED, USUAL

        settings.register_profile(
            "mutation",
            max_examples=ASKED or USUAL,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutation")


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, index: int) -> None:
        super().__init__(name, path)
        self._index = index

    def get_code(self, fullname: str) -> CodeType:
        tree = mutants.mutated(Path(self.path).read_text(), self._index)
        return compile(tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, index: int) -> None:
        self._module, self._index = module, index

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._index)
        return spec


def main(module: str, index: str, limit_s: int, arguments: Sequence[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 10))
    if module in sys.modules:
        raise SystemExit(f"{module} was read before its mutant could be planted")
    if index != "none":
        sys.meta_path.insert(0, _Finder(module, int(index)))
    quiet = ["-q", "-x", "-n", "0", "--no-header", "--tb=line", "-m", RUN]
    without = [word for plugin in UNWANTED for word in ("-p", f"no:{plugin}")]
    status = int(pytest.main([*quiet, *without, *arguments], plugins=[SameExamples()]))
    print(f"{CPU}{time.process_time():.1f}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
