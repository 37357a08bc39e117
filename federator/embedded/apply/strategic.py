"""Strategic merge patch: how `kubectl apply`, `edit`, `label` and `patch` change builtins.

Lists with a merge key merge by it, other lists are replaced; `$patch`, `$retainKeys`,
`$setElementOrder/..` and `$deleteFromPrimitiveList/..` steer. Neither input is changed. Called
through `patches.strategic` only.
"""

from collections.abc import Callable
from typing import Any, Final

from federator.embedded.schema.pruning import copy_json
from federator.embedded.storage.schema import Node

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"


class Unmergeable(Exception):
    """A patch that does not fit its schema. `is_format`: a malformed directive (400), not
    another error (500)."""

    def __init__(self, message: str, *, is_format: bool = False) -> None:
        super().__init__(message)
        self.is_format = is_format


def merged(target: dict[str, Any], patch: dict[str, Any], node: Node | None) -> dict[str, Any]:
    """The patched object. Raises `Unmergeable`."""
    directive = patch.get(_PATCH)
    if directive is not None:
        if directive == "replace":
            return {k: copy_json(v) for k, v in patch.items() if k != _PATCH}
        if directive == "delete":
            return {}
        raise Unmergeable(f"unknown patch type: {directive} in map: {go_map(patch)}")
    result = _retained(dict(target), patch)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            _set_order(result, name, value, patch.get(name), _child(node, name))
    ordered = {key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            name = key.removeprefix(_DELETE)
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif not key.startswith("$") and key not in ordered:
            _merge_field(result, key, value, _child(node, key))
    return result


def _merge_field(result: dict[str, Any], key: str, value: Any, node: Node | None) -> None:
    """One ordinary field of a patch, merged into `result` (which is ours to change, its children
    are not)."""
    present = result.get(key)
    if value is None:
        result.pop(key, None)
    elif key not in result or type(present) is not type(value):
        cleaned = _cleaned(value)
        if cleaned is _GONE:
            result.pop(key, None)
        else:
            result[key] = cleaned
    elif type(value) is dict:
        replace = node is not None and "replace" in node.patch_strategy
        result[key] = copy_json(value) if replace else merged(present, value, node)  # type: ignore[arg-type]
    elif type(value) is list and node is not None and "merge" in node.patch_strategy:
        result[key] = _merged_list(present or [], value, node)
    else:
        result[key] = copy_json(value)


def _child(node: Node | None, key: str) -> Node | None:
    return None if node is None else node.fields.get(key, node.values)


def _retained(result: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Keeps only the keys that `$retainKeys` names; a patch may not set others."""
    keep = patch.get(_RETAIN)
    if keep is None:
        return result
    if not isinstance(keep, list):
        raise Unmergeable("invalid patch format of retainKeys", is_format=True)
    if any(not key.startswith("$") and key not in keep for key in patch):
        raise Unmergeable("patch content doesn't match retainKeys list")
    return {key: value for key, value in result.items() if key in keep}


_GONE: Final = object()


def _cleaned(value: Any) -> Any:
    """A copy of new content without nulls and directives; `_GONE` when it says `$patch` itself."""
    if type(value) is dict:
        if _PATCH in value:
            return _GONE
        pairs = (
            (k, _cleaned(v)) for k, v in value.items() if v is not None and not k.startswith("$")
        )
        return {k: v for k, v in pairs if v is not _GONE}
    if type(value) is list:
        return [v for v in (_cleaned(item) for item in value) if v is not _GONE]
    return value


def _set_order(result: dict[str, Any], key: str, order: Any, patch: Any, node: Node | None) -> None:
    """Merges a list and puts it into the order the patch's author sees; items only the server has
    keep their places."""
    if not isinstance(order, list) or (patch is not None and not isinstance(patch, list)):
        raise Unmergeable("invalid patch format of setElementOrder list", is_format=True)
    merge_key = node.patch_merge_key if node is not None else ""
    present = result.get(key)
    identity = _identity(merge_key)
    if patch is not None and node is not None:
        wanted = [identity(item) for item in order]
        if any(identity(item) not in wanted for item in patch if not _is_directive(item)):
            raise Unmergeable(
                f"The order in patch list:\n{go_map(patch)}\n doesn't match {_ORDER[:-1]}"
                f" list:\n{go_map(order)}\n"
            )
    if present is None:
        if patch is None:
            return
        together = _cleaned(patch)
    elif patch is None:
        together = present
    elif node is not None and "merge" in node.patch_strategy:
        together = _merged_list(present, patch, node)
    else:
        together = copy_json(patch)
    result[key] = _in_order(together, order, present or [], identity)


def _is_directive(item: Any) -> bool:
    return type(item) is dict and _PATCH in item


def _identity(merge_key: str) -> Callable[[Any], Any]:
    """What makes two items the same: the merge key's value, or the item itself in lists of
    scalars."""
    if not merge_key:
        return lambda item: item

    def key_of(item: Any) -> Any:
        if type(item) is not dict or merge_key not in item:
            raise Unmergeable(
                f"map: {go_map(item)} does not contain declared merge key: {merge_key}"
            )
        return item[merge_key]

    return key_of


def _merged_list(present: list[Any], patch: list[Any], node: Node) -> list[Any]:
    identity = _identity(node.patch_merge_key)
    items = list(present)
    if not any(type(item) is dict for item in [*present, *patch]):
        # Scalars: a union without duplicates.
        items.extend(item for item in dict.fromkeys(patch) if item not in present)
        return _in_order(items, patch, present, identity)
    if not node.patch_merge_key:
        raise Unmergeable(f"cannot merge lists without merge key for {node.name or 'this list'}")
    items, ordinary = _directives_done(items, patch, node.patch_merge_key, identity)
    for item in ordinary:
        key = identity(item)
        at = next((i for i, other in enumerate(items) if identity(other) == key), None)
        if at is None:
            items.append(_cleaned(item))
        else:
            items[at] = merged(items[at], item, node.items)
    return _in_order(items, [item for item in patch if not _is_directive(item)], present, identity)


def _directives_done(
    items: list[Any], patch: list[Any], merge_key: str, identity: Callable[[Any], Any]
) -> tuple[list[Any], list[Any]]:
    """(items after `$patch: delete` and `replace`, the patch's ordinary items)."""
    ordinary: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_PATCH) if type(item) is dict else None
        if directive is None:
            ordinary.append(item)
        elif directive == "delete":
            doomed = identity({k: v for k, v in item.items() if k != _PATCH})
            items = [other for other in items if other.get(merge_key) != doomed]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise Unmergeable("merging lists cannot yet be specified in the patch")
        else:
            raise Unmergeable(f"unknown patch type: {directive} in map: {go_map(item)}")
    return ([], ordinary) if replace else (items, ordinary)


def _in_order(
    items: list[Any], order: list[Any], server: list[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    """Items the patch names in the patch's order, interleaved with the server's own by the server's
    order.

    The relative order of both groups is kept; a server item goes before the first named item that
    followed it.
    """
    wanted = {_hashable(identity(item)): at for at, item in reversed(list(enumerate(order)))}
    was = {_hashable(identity(item)): at for at, item in reversed(list(enumerate(server)))}
    keyed = [(item, _hashable(identity(item))) for item in items]
    named = sorted((pair for pair in keyed if pair[1] in wanted), key=lambda pair: wanted[pair[1]])
    own = sorted(
        (pair for pair in keyed if pair[1] not in wanted),
        key=lambda pair: was.get(pair[1], len(server)),
    )
    result: list[Any] = []
    i = 0
    for item, key in named:
        while i < len(own) and key in was and own[i][1] in was and was[own[i][1]] < was[key]:
            result.append(own[i][0])
            i += 1
        result.append(item)
    return result + [item for item, _ in own[i:]]


def _hashable(key: Any) -> Any:
    return repr(key) if isinstance(key, dict | list) else (type(key) is bool, key)


def go_map(value: Any) -> str:
    """A value as Go prints it, such as `map[image:nokey]`: error messages show it so."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_map(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_map(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
