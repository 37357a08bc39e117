"""`federator config show|explain`: the effective settings, and what each means."""

import ast
import dataclasses
import inspect
import json

import click

from federator.cli import common


@click.group()
def config() -> None:
    """Show and explain settings."""


@config.command()
@click.option("--config", "path", default="", help="Settings file (YAML).")
def show(path: str) -> None:
    """Print the effective settings, from the file and the environment."""
    from federator import settings
    from federator.model.errors import FieldError

    try:
        loaded = settings.load(path)
    except FieldError as bad:
        common.fail(str(bad))
    common.show(
        common.dump(
            {name: settings.plain(group) for name, group in dataclasses.asdict(loaded).items()},
            "yaml",
        )
    )


@config.command()
@click.argument("name", required=False, default="")
def explain(name: str) -> None:
    """Print every setting (or those with a path that begins with NAME) with its default and
    reason."""
    from federator import settings

    shown = 0
    for group, kind in settings.groups().items():
        for setting, default, text in documented(kind):
            path = f"{group}.{setting}"
            if path.startswith(name):
                common.show(f"{path} = {json.dumps(default)}\n    {text or kind.__doc__}")
                shown += 1
    if not shown:
        common.fail(f"there is no setting {name!r}; `federator config explain` lists all")


def documented(kind: type) -> list[tuple[str, object, str]]:
    """(name, default, docstring) of each field of a dataclass with attribute docstrings."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        is_field = isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if is_field and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[before.target.id] = str(after.value.value)  # type: ignore[attr-defined]  # checked by is_field
    return [
        (spec.name, spec.default, texts.get(spec.name, "")) for spec in dataclasses.fields(kind)
    ]
