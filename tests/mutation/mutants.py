"""Small errors planted in a module, one at a time: what a mutant is, and which ones a source text
has.

A mutant changes one comparison, sum, boundary, condition or constant, or takes one statement away.
All of a text are listed in the order of the text, so the same text has the same mutants with the
same names. Called by `run` and `child`.
"""

import ast
import collections
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Edit = Callable[[], None]
"""Changes the tree it was found in."""

SHOWN: Final = 100
"""Longer texts of a change are cut in its name, columns."""

_COMPARED: Final[Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""The boundary moved by one, and the opposite."""
_COMPUTED: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_UNTOUCHED: Final = {
    "annotation",
    "returns",
    "decorator_list",
    "type_params",
    "pattern",
    "keywords_of_class",
}
"""Fields of the syntax tree that say something to a reader or a type checker only, or that no run
reaches.
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    """Its last part, `division`: a module that moves keeps its mutants' names."""
    function: str
    line: int
    change: str
    """`a < b  ->  a <= b`."""
    number: int
    """Of the equal changes in the same function, from 1."""

    @property
    def name(self) -> str:
        """What a list of mutants calls it; lines are left out, for they change with every edit
        above.
        """
        return f"{self.module}.{self.function}: {self.change}" + (
            f"  #{self.number}" if self.number > 1 else ""
        )


@dataclass(frozen=True, slots=True)
class _Found:
    function: str
    line: int
    change: str
    apply: Edit


def mutants(module: str, text: str) -> list[Mutant]:
    """All mutants of a module's text, in the order of the text. `module` is its dotted name."""
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    listed = []
    for found in _search(ast.parse(text)):
        seen[found.function, found.change] += 1
        number = seen[found.function, found.change]
        listed.append(
            Mutant(module.rpartition(".")[2], found.function, found.line, found.change, number)
        )
    return listed


def mutated(text: str, index: int) -> ast.Module:
    """The tree of a text with its mutant of that index (in the order of `mutants`) planted. Raises
    IndexError.
    """
    tree = ast.parse(text)
    list(_search(tree))[index].apply()
    return ast.fix_missing_locations(tree)


def _search(tree: ast.Module) -> Iterator[_Found]:
    yield from _below(tree, "", in_function=False)


def _below(node: ast.AST, function: str, *, in_function: bool) -> Iterator[_Found]:
    """What can be changed in the children of a node, in the order of the text."""
    for field, value in ast.iter_fields(node):
        if field in _UNTOUCHED:
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_prose(node, field, place, child):
                continue
            put = _put(node, field, place if isinstance(value, list) else None)
            inside, within = function, in_function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}".lstrip(".")
                within = in_function or not isinstance(child, ast.ClassDef)
            named = inside or "module"
            if isinstance(child, ast.Constant):
                yield from _of_constant(child, named, put)
            elif in_function:
                yield from _of_expression(child, named, put)
                if isinstance(child, ast.stmt):
                    is_last = place == len(children) - 1 and isinstance(
                        node, ast.FunctionDef | ast.AsyncFunctionDef
                    )
                    yield from _of_statement(child, named, put, is_last=is_last)
            if not isinstance(child, ast.JoinedStr):
                yield from _below(child, inside, in_function=within)


def _put(node: ast.AST, field: str, place: int | None) -> Callable[[ast.AST], None]:
    def put(new: ast.AST) -> None:
        if place is None:
            setattr(node, field, new)
        else:
            getattr(node, field)[place] = new

    return put


def _is_prose(node: ast.AST, field: str, place: int, child: ast.AST) -> bool:
    """A docstring, the type of a cast, or `strict` of a zip over equally many: nothing that a run
    could tell."""
    if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id, field, place) in {("cast", "args", 0), ("TypeVar", "args", 0)}
    )


def _changed(old: ast.AST, new: ast.AST, function: str, put: Callable[[ast.AST], None]) -> _Found:
    change = f"{_shown(old)}  ->  {_shown(new)}"
    return _Found(
        function, getattr(old, "lineno", 0), change, lambda: put(ast.copy_location(new, old))
    )


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _of_constant(
    node: ast.Constant, function: str, put: Callable[[ast.AST], None]
) -> Iterator[_Found]:
    value = node.value
    if isinstance(value, bool):
        others: tuple[bool | int | float | str, ...] = (not value,)
    elif isinstance(value, int):
        others = (value + 1,) if value <= 0 else (value + 1, value - 1)
    elif isinstance(value, float):
        others = (value * 2 if value else 1.0,)
    elif isinstance(value, str):
        others = (f"{value}~",)
    else:
        return
    for other in others:
        yield _changed(node, ast.Constant(other), function, put)


def _of_expression(
    node: ast.AST, function: str, put: Callable[[ast.AST], None]
) -> Iterator[_Found]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARED[type(operator)]:
                new = copy.copy(node)
                new.ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                yield _changed(node, new, function, put)
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in _COMPUTED
        and not isinstance(node.left, ast.JoinedStr)
    ):
        new_op = copy.copy(node)
        new_op.op = _COMPUTED[type(node.op)]()
        yield _changed(node, new_op, function, put)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _COMPUTED:
        new_sum = copy.copy(node)
        new_sum.op = _COMPUTED[type(node.op)]()
        yield _changed(node, new_sum, function, put)
    elif isinstance(node, ast.BoolOp):
        new_bool = copy.copy(node)
        new_bool.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _changed(node, new_bool, function, put)
        for place in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != place]
            yield _changed(
                node, ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0], function, put
            )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield _changed(node, node.operand, function, put)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        new_call = copy.copy(node)
        new_call.func = ast.Name(_CALLED[node.func.id], ast.Load())
        yield _changed(node, new_call, function, put)
    yield from _of_condition(node, function)


def _of_condition(node: ast.AST, function: str) -> Iterator[_Found]:
    """Plain conditions the other way round; those that compare or combine have mutants of their
    own.
    """
    plain = ast.Name | ast.Call | ast.Attribute | ast.Subscript
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, plain):
        negated = ast.UnaryOp(ast.Not(), node.test)
        yield _changed(node.test, negated, function, _put(node, "test", None))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for loop in node.generators:
            for place, test in enumerate(loop.ifs):
                if isinstance(test, plain):
                    yield _changed(
                        test, ast.UnaryOp(ast.Not(), test), function, _put(loop, "ifs", place)
                    )


def _of_statement(
    node: ast.stmt, function: str, put: Callable[[ast.AST], None], *, is_last: bool
) -> Iterator[_Found]:
    """A statement taken away, where the text without it still is a program that may run."""
    is_store = isinstance(node, ast.Assign) and not any(
        isinstance(target, ast.Name) for target in node.targets
    )
    is_call = isinstance(node, ast.Expr) and isinstance(
        node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom
    )
    is_exit = isinstance(node, ast.Raise | ast.Continue | ast.Break) or (
        isinstance(node, ast.Return) and not is_last
    )
    is_effect = isinstance(node, ast.AugAssign | ast.Delete)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        return
    if is_store or is_call or is_exit or is_effect:
        yield _changed(node, ast.Pass(), function, put)
