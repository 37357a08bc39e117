"""`x-kubernetes-validations`: CEL rules of custom resources, compiled once per schema node and only
when first needed.

The evaluator takes 200 ms to import, so it is imported by the first rule. What a rule
sees of an object is cut out by `cel_views`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.storage.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from federator.embedded.storage.schema import Node
from federator.embedded.validation.cel import functions as cel_functions
from federator.embedded.validation.cel import views


class RuleError(Exception):
    """A rule that cannot be compiled, with the compiler's words."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule. `named` is what it reads of each variable (see `cel_views`)."""

    source: str
    program: Any
    message: str
    message_program: Any
    reason: str
    field_path: str
    uses_old: bool
    optional_old: bool
    named: Mapping[str, views.Named | None]
    functions: Mapping[str, Any]

    def complaint(self) -> str:
        """What a failure says when there is no message expression."""
        return self.message.strip() or f"failed rule: {self.source.strip()}"


def check(obj: Any, old: Any, node: Node) -> list[FieldError]:
    """Complaints of all rules of the schema; `old` is None on create (then transition rules are
    skipped)."""
    return list(_walk(obj, old, old is not None, node, "")) if has_rules(node) else []


def has_rules(node: Node) -> bool:
    """Whether this node or any below has rules."""
    return node.any_below("has_rules", lambda each: bool(each.raw.get("x-kubernetes-validations")))


def _walk(obj: Any, old: Any, comparable: bool, node: Node, path: str) -> Iterator[FieldError]:
    if obj is None:
        return
    if node.raw.get("x-kubernetes-validations"):
        yield from _run(obj, old, comparable, node, path)
    if type(obj) is dict:
        before = old if type(old) is dict else {}
        for key, child in _children(node):
            if key in obj:
                at = f"{path}.{key}" if path else key
                yield from _walk(obj[key], before.get(key), comparable and key in before, child, at)
        values = node.values
        if values is not None and has_rules(values):
            for key in sorted(obj):
                yield from _walk(
                    obj[key],
                    before.get(key),
                    comparable and key in before,
                    values,
                    f"{path}[{key}]",
                )
    elif type(obj) is list and node.items is not None and has_rules(node.items):
        previous = _by_key(old, node) if comparable else {}
        for index, item in enumerate(obj):
            key = _item_key(item, node.keys)
            yield from _walk(
                item, previous.get(key), key in previous, node.items, f"{path}[{index}]"
            )


def _children(node: Node) -> list[tuple[str, Node]]:
    children: list[tuple[str, Node]] | None = node.compiled.get("rule_children")
    if children is None:
        children = [(key, child) for key, child in sorted(node.fields.items()) if has_rules(child)]
        node.compiled["rule_children"] = children
    return children


def _item_key(item: Any, keys: tuple[str, ...]) -> str:
    return repr([item.get(key) for key in keys]) if type(item) is dict else ""


def _by_key(old: Any, node: Node) -> dict[str, Any]:
    """The old items of a list map; other lists have no comparable items."""
    if type(old) is not list or node.list_type != "map":
        return {}
    return {_item_key(item, node.keys): item for item in old}


def _run(obj: Any, old: Any, comparable: bool, node: Node, path: str) -> Iterator[FieldError]:
    kind = node.kind or "object"
    for rule in compiled(node):
        if isinstance(rule, RuleError):
            yield invalid(path or "<nil>", kind, f"rule compile error: {rule}")
            continue
        if rule.uses_old and not comparable and not rule.optional_old:
            continue
        variables = _variables(rule, obj, old, comparable, node)
        try:
            held = _evaluate(rule.program, variables, rule.functions)
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
            yield invalid(path or "<nil>", kind, _failure(error, rule))
            continue
        if held is not True and not (not rule.uses_old and comparable and same(obj, old)):
            yield _refused(rule, variables, obj, kind, path)


_FUNCTION_FAILED: Final = re.compile(
    r"Python function call failed: \w+: (.*)\. Check function arguments", re.DOTALL
)
"""How the evaluator passes on what a function of ours says."""


def _failure(error: Exception, rule: Rule) -> str:
    about = rule.message.strip() or rule.source.strip()
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]} evaluating rule: {about}"
    if isinstance(error, TypeError):
        text = (
            "call arguments did not match a supported operator, function or macro signature for"
            " rule"
        )
        return f"'no such overload': {text}: {about}"
    match = _FUNCTION_FAILED.search(str(error))
    return f"{match[1] if match else error} evaluating rule: {about}"


def _refused(rule: Rule, variables: dict[str, Any], obj: Any, kind: str, path: str) -> FieldError:
    detail = rule.complaint()
    if rule.message_program is not None:
        try:
            message = _evaluate(rule.message_program, variables, rule.functions)
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
            message = None
        if isinstance(message, str) and message.strip() and "\n" not in message:
            detail = message.strip()
    at = (f"{path}{rule.field_path}" if path else rule.field_path.lstrip(".")) or "<nil>"
    if rule.reason == "FieldValueForbidden":
        return forbidden(at, detail)
    if rule.reason == "FieldValueRequired":
        return required(at, detail)
    if rule.reason == "FieldValueDuplicate":
        return duplicate(at, obj)
    if kind in ("object", "array"):
        return FieldError(at, "FieldValueInvalid", f"Invalid value: {detail}")
    return invalid(at, obj, detail)


def _evaluate(program: Any, variables: dict[str, Any], functions: Mapping[str, Any]) -> Any:
    if not functions:
        return program.execute(variables)
    import cel

    return program.execute(cel.Context(variables, dict(functions)))


def _variables(rule: Rule, obj: Any, old: Any, comparable: bool, node: Node) -> dict[str, Any]:
    variables = {"self": views.seen(obj, rule.named.get("self"), node)}
    if rule.uses_old:
        seen = views.seen(old, rule.named.get("oldSelf"), node) if comparable else None
        if rule.optional_old:
            import cel

            variables["oldSelf"] = (
                cel.OptionalValue.of(seen) if comparable else cel.OptionalValue.none()
            )
        else:
            variables["oldSelf"] = seen
    return variables


def compiled(node: Node) -> list[Rule | RuleError]:
    """The rules of this node, compiled on first use; a rule that does not compile stands as its
    error."""
    rules: list[Rule | RuleError] | None = node.compiled.get("rules")
    if rules is None:
        rules = [_attempted(raw, node) for raw in node.raw.get("x-kubernetes-validations", ())]
        node.compiled["rules"] = rules
    return rules


def _attempted(raw: Mapping[str, Any], node: Node) -> Rule | RuleError:
    try:
        return compile_rule(raw, node)
    except RuleError as error:
        return error


def compile_rule(raw: Mapping[str, Any], node: Node) -> Rule:
    """One rule of the schema at `node`. Raises `RuleError` (syntax, unknown functions, unknown
    fields of `self`)."""
    source = raw.get("rule", "")
    program, named, functions = compile_expression(source, node)
    message_program = None
    if raw.get("messageExpression"):
        message_program, in_message, more = compile_expression(raw["messageExpression"], node)
        functions = {**functions, **more}
        named = {name: views.united(named[name], in_message[name]) for name in named}
    return Rule(
        source=source,
        program=program,
        message=raw.get("message", ""),
        message_program=message_program,
        reason=raw.get("reason", ""),
        field_path=raw.get("fieldPath", ""),
        uses_old="oldSelf" in program.variables(),
        optional_old=bool(raw.get("optionalOldSelf")),
        named=named,
        functions=functions,
    )


def compile_expression(
    source: str, node: Node
) -> tuple[Any, dict[str, views.Named | None], dict[str, Any]]:
    """(program, field names read per variable or None for all, extension functions needed). Raises
    `RuleError`."""
    import cel

    try:
        program = cel.compile(source)
    except ValueError as error:
        message = str(error)
        raise RuleError(
            "compilation failed: "
            + message[max(message.find("ERROR: "), 0) :].replace("\n|", "\n |")
        ) from None
    names = {name for name in program.functions() if name[0].isalpha()}
    unknown = sorted(names - cel_functions.FUNCTIONS.keys() - cel_functions.BUILT_IN)
    if unknown:
        at = re.search(rf"\b{unknown[0]}\s*\(", source)
        problem = f"undeclared reference to '{unknown[0]}' (in container '')"
        raise _located(problem, source, at.end() - 1 if at else 0)
    named = views.named_fields(source)
    fields = {views.spelling(key) for key in node.fields} | {"apiVersion", "kind", "metadata"}
    for name in sorted((named["self"] or {}).keys() - fields):
        if node.kind == "object" and node.fields and not node.preserve:
            at = re.search(rf"\bself\s*\.\s*{name}\b", source)
            raise _located(
                f"undefined field '{name}'", source, source.index(".", at.start()) if at else 0
            )
    return (
        program,
        named,
        {name: cel_functions.FUNCTIONS[name] for name in names & cel_functions.FUNCTIONS.keys()},
    )


def _located(problem: str, source: str, column: int) -> RuleError:
    """A complaint about one place of a rule, with the place pointed at as the compiler does."""
    return RuleError(
        f"compilation failed: ERROR: <input>:1:{column + 1}: {problem}\n | {source}\n |"
        f" {'.' * column}^"
    )
