"""Finds every call in the package that writes to an API server, and whether it sends a version."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.house import sources

VERBS = {"replace", "patch", "delete"}
"""Methods of the client that change an object that exists. A POST needs no version: it fails where
the object exists."""
STEPS = {"Patch", "Apply", "Delete"}
"""Steps of `federator.model.steps` that change an object that exists."""
APART = "federator/embedded/"
"""The API server itself."""
NOT_A_CLIENT = {"dataclasses", "msgspec.structs", "os", "world.fleet"}
"""`X.replace(...)` of these is no request."""
METHODS = {"PUT", "PATCH", "DELETE"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Writer:
    """One call that writes. `evidence` are the places that give the request its version."""

    place: str
    verb: str
    line: int
    evidence: int

    @property
    def key(self) -> str:
        return f"{self.place} {self.verb}"


def _verb(call: ast.Call) -> str:
    """The verb of a call that writes; "" for any other call."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in STEPS else ""
    if not isinstance(function, ast.Attribute) or function.attr not in VERBS:
        return ""
    owner = ast.unparse(function.value)
    if function.attr == "replace" and (owner in NOT_A_CLIENT or _of_text(call)):
        return ""
    return function.attr


def _of_text(call: ast.Call) -> bool:
    """Whether it is the `replace` of a string, path or time: those have no reference to an object
    as their first argument and a body as their second."""
    first = call.args[0] if call.args else None
    reference = first is not None and (
        (isinstance(first, ast.Call) and ast.unparse(first.func).lower().endswith("ref"))
        or ast.unparse(first).lower().endswith(("ref", "which"))
    )
    return not (reference and len(call.args) > 1)


def _feeding(function: Function, call: ast.Call) -> Iterator[ast.AST]:
    """The nodes that the arguments of `call` are made from, within its function."""
    assigned: dict[str, list[ast.AST]] = {}
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = [node.target]
        for target in targets:
            base = target
            while isinstance(base, ast.Subscript):
                base = base.value
            value = getattr(node, "value", None)
            if isinstance(base, ast.Name) and value is not None:
                assigned.setdefault(base.id, []).append(value)
    waiting: list[ast.AST] = [*call.args, *call.keywords]
    seen: set[int] = set()
    while waiting:
        top = waiting.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        for node in ast.walk(top):
            yield node
            if isinstance(node, ast.Name):
                waiting += assigned.get(node.id, [])


def _is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _evidence(function: Function, call: ast.Call) -> set[ast.AST]:
    found: set[ast.AST] = {
        keyword.value
        for keyword in call.keywords
        if keyword.arg == "resource_version" and not _is_empty(keyword.value)
    }
    feeding = list(_feeding(function, call))
    names = {node.id for node in feeding if isinstance(node, ast.Name)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.value, ast.Name)
                and target.value.id in names
                and isinstance(target.slice, ast.Constant)
                and target.slice.value == "resourceVersion"
            ):
                found.add(node.value)
    for node in feeding:
        if isinstance(node, ast.Constant) and node.value == "/metadata/resourceVersion":
            found.add(node)
        if isinstance(node, ast.Dict):
            found |= {
                value
                for name, value in zip(node.keys, node.values, strict=True)
                if isinstance(name, ast.Constant)
                and name.value == "resourceVersion"
                and not _is_empty(value)
            }
    return found


def _is_whole(function: Function, call: ast.Call) -> int:
    """Whether a PUT sends the object as it was read, whose metadata holds the version: 1 or 0."""
    for node in _feeding(function, call):
        if isinstance(node, ast.Dict):
            spread = [
                at
                for at, name in enumerate(node.keys)
                if name is None and isinstance(node.values[at], ast.Name)
            ]
            own = any(
                isinstance(name, ast.Constant) and name.value == "metadata" for name in node.keys
            )
            if spread and spread[0] == 0 and not own:
                return 1
    return 0


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """(qualified name, function), the innermost for each call."""

    def walk(node: ast.AST, path: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path}.{child.name}" if path else child.name
                if not isinstance(child, ast.ClassDef):
                    yield name, child
                yield from walk(child, name)
            else:
                yield from walk(child, path)

    return walk(tree, "")


def writers_of(name: str, tree: ast.Module) -> list[Writer]:
    """The calls of one module that write. A nested function's calls count for itself, and are
    looked at with everything that the outer one assigns."""
    found: dict[int, Writer] = {}
    for path, function in _functions(tree):
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not (verb := _verb(node)):
                continue
            count = (
                _is_whole(function, node) if verb == "replace" else len(_evidence(function, node))
            )
            before = found.get(id(node))
            count = max(count, before.evidence if before is not None else 0)
            found[id(node)] = Writer(f"{name}::{path}", verb, node.lineno, count)
    return sorted(found.values(), key=lambda writer: writer.line)


@cache
def all_writers() -> tuple[Writer, ...]:
    return tuple(
        writer
        for source in sources.all_sources()
        if not source.name.startswith(APART)
        for writer in writers_of(source.name, source.tree)
    )


def methods_named() -> set[str]:
    """Modules that name an HTTP method that changes an object."""
    return {
        source.name
        for source in sources.all_sources()
        if not source.name.startswith(APART)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and node.value in METHODS
    }
