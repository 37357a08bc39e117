"""The package's sources, parsed once, for the house rules."""

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "federator"
FLOORS = ("federator", "tests", "simulations")
"""Where Python lies that is ours."""


@dataclass(frozen=True)
class Source:
    """One module."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def room(self) -> str:
        """The folder under `federator/` it lies in, or its own name on the top floor."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, as `ast.walk` finds them: most rules look at all of them."""
        return tuple(ast.walk(self.tree))

    def imports(self) -> list[tuple[int, str]]:
        """(line, dotted name) of everything imported, wherever it stands, but for what only type
        checkers see.
        """
        return self._imports

    @cached_property
    def _imports(self) -> list[tuple[int, str]]:
        hidden = {
            id(inner)
            for node in self.nodes
            if isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        found: list[tuple[int, str]] = []
        for node in self.nodes:
            if id(node) in hidden:
                continue
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        return found


@cache
def all_sources() -> tuple[Source, ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(path, text, ast.parse(text)))
    return tuple(found)


@cache
def all_files() -> tuple[Path, ...]:
    """Every Python file of ours, the tests' too."""
    return tuple(path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py")))
