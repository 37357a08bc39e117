"""Sets of field paths as FieldsV1 tries, and walkers that make them from objects: the arithmetic of
field ownership.

A trie is the JSON of `managedFields[].fieldsV1`: a key per path element (`f:name`,
`k:{"name":"app"}`, `v:"x"`), `{}` for a member without children, `.` for a member with children.
Tries are shared between objects and never changed once made.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.apply.patches import same
from federator.embedded.storage.schema import Node

Trie = dict[str, Any]

ABSENT: Final = object()
LEAF: Final[Trie] = {}
_MEMBER: Final = "."

# Shapes of a value by its schema: what its children are called.
FLAT: Final = 0
"""A scalar, or an atomic list or map: owned as a whole."""
FIELDS: Final = 1
KEYED: Final = 2
VALUES: Final = 3


def shape(value: Any, node: Node | None) -> int:
    """How ownership looks into a value. Where the schema says nothing, objects are by field and
    lists are atomic."""
    if node is None or (not node.kind and not node.int_or_string and not node.name):
        if node is not None and node.map_type == "atomic":
            return FLAT
        return FIELDS if type(value) is dict else FLAT
    kind: int | None = node.compiled.get("shape")
    if kind is None:
        kind = FLAT
        if node.kind == "object":
            kind = FLAT if node.map_type == "atomic" else FIELDS
        elif node.kind == "array":
            kind = {"map": KEYED, "set": VALUES}.get(node.list_type, FLAT)
        elif node.preserve:
            kind = FIELDS
        node.compiled["shape"] = kind
    if kind == FIELDS and type(value) is list:
        return FLAT
    return kind


def child_node(node: Node | None, key: str) -> Node | None:
    """Schema of one field of an object; None where there is none."""
    if node is None:
        return None
    child = node.fields.get(key)
    return child if child is not None else node.values


def element(item: Any, kind: int, node: Node) -> str:
    """The path element of a list item."""
    if kind == VALUES:
        return "v:" + json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    keys: dict[str, Any] = {}
    items = node.items
    for key in node.keys:
        if type(item) is dict and key in item:
            keys[key] = item[key]
        elif items is not None and key in items.fields and items.fields[key].has_default:
            keys[key] = items.fields[key].default
        else:
            keys[key] = None
    if len(keys) == 1:
        # The usual case, a name: spared the general encoder.
        ((key, value),) = keys.items()
        if type(value) is str and value.isalnum() and value.isascii():
            return f'k:{{"{key}":"{value}"}}'
    return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def everything(value: Any, node: Node | None) -> Trie:
    """All paths of a value that was not there before, containers included: what creating it
    owns."""
    kind = shape(value, node)
    if kind == FLAT or not value:
        return LEAF
    if kind == FIELDS:
        if type(value) is not dict:
            return LEAF
        trie: Trie = {_MEMBER: LEAF}
        for key, child in value.items():
            trie["f:" + key] = (
                everything(child, child_node(node, key)) if type(child) in _CONTAINERS else LEAF
            )
        return trie
    if type(value) is not list or node is None:
        return LEAF
    trie = {_MEMBER: LEAF}
    for item in value:
        name = element(item, kind, node)
        # An item that comes twice is owned as a whole.
        trie[name] = LEAF if name in trie else everything(item, node.items)
    return trie


_CONTAINERS: Final = frozenset((dict, list))


def applied(value: Any, node: Node | None) -> Trie:
    """The paths an applied configuration claims: leaves, list items, keys of maps; not the
    containers on the way."""
    kind = shape(value, node)
    if kind == FLAT or not value:
        return LEAF
    trie: Trie = {}
    if kind == FIELDS and type(value) is dict:
        for key, child in value.items():
            declared = node is not None and key in node.fields
            below = applied(child, child_node(node, key))
            if below:
                trie["f:" + key] = below if declared else {_MEMBER: LEAF, **below}
            elif not _claims_nothing(child, child_node(node, key)):
                trie["f:" + key] = LEAF
    elif type(value) is list and node is not None:
        for item in value:
            below = applied(item, node.items) if type(item) in _CONTAINERS else LEAF
            trie[element(item, kind, node)] = {_MEMBER: LEAF, **below} if below else LEAF
    return trie


def _claims_nothing(value: Any, node: Node | None) -> bool:
    """Whether a value is an empty list of items of its own, or an object that holds nothing but
    such lists."""
    if shape(value, node) == FLAT:
        return False
    if type(value) is dict and value:
        return all(_claims_nothing(child, child_node(node, key)) for key, child in value.items())
    return type(value) is list and not value


def compare(old: Any, new: Any, node: Node | None) -> tuple[Trie | None, Trie | None]:
    """(paths added or modified, paths removed) between two values, None where there are none.

    Equal sub-trees that are the same Python object cost nothing: updates share what they did not
    touch.
    """
    if old is new:
        return None, None
    kind = shape(new if new is not None else old, node)
    if not _comparable(old, new, kind):
        return _replaced(old, new, node)
    if kind == FLAT or not (old or new):
        return (None, None) if same(old, new) else (LEAF, None)
    changed: Trie = {}
    removed: Trie = {}
    if kind == FIELDS:
        _compare_fields(old or {}, new or {}, node, changed, removed)
    elif node is not None:
        _compare_items(
            _grouped(old or [], kind, node), _grouped(new or [], kind, node), node, changed, removed
        )
    return changed or None, removed or None


def _comparable(old: Any, new: Any, kind: int) -> bool:
    """Whether both values have the form the schema gives them; where it gives none, whether they
    have the same form."""
    if kind == FLAT:
        return type(old) is not dict or type(new) is dict or new is None
    wanted = dict if kind == FIELDS else list
    return (old is None or type(old) is wanted) and (new is None or type(new) is wanted)


def _replaced(old: Any, new: Any, node: Node | None) -> tuple[Trie | None, Trie | None]:
    """A value that took another form: what was inside is removed, the place itself is modified."""
    changed, removed = everything(new, node), LEAF
    if shape(old, node) == FIELDS:
        removed = {key: value for key, value in everything(old, node).items() if key != _MEMBER}
    return (LEAF if same(old, new) else changed), removed or None


def _note(
    name: str, differences: tuple[Trie | None, Trie | None], changed: Trie, removed: Trie
) -> None:
    if differences[0] is not None:
        changed[name] = differences[0]
    if differences[1] is not None:
        removed[name] = differences[1]


def _compare_fields(
    old: dict[str, Any], new: dict[str, Any], node: Node | None, changed: Trie, removed: Trie
) -> None:
    for key, value in new.items():
        before = old.get(key, ABSENT)
        if before is value:
            continue
        if before is ABSENT:
            changed["f:" + key] = everything(value, child_node(node, key))
        elif type(value) in _CONTAINERS or type(before) in _CONTAINERS:
            _note("f:" + key, compare(before, value, child_node(node, key)), changed, removed)
        elif not same(before, value):
            changed["f:" + key] = LEAF
    for key, value in old.items():
        if key not in new:
            removed["f:" + key] = everything(value, child_node(node, key))


def _compare_items(
    before: dict[str, list[Any]],
    after: dict[str, list[Any]],
    node: Node,
    changed: Trie,
    removed: Trie,
) -> None:
    for name, items in after.items():
        was = before.get(name)
        if was is None:
            changed[name] = LEAF if len(items) > 1 else everything(items[0], node.items)
        elif len(was) == 1 and len(items) == 1:
            _note(name, compare(was[0], items[0], node.items), changed, removed)
        elif not same(was, items):
            changed[name] = LEAF
    for name, items in before.items():
        if name not in after:
            removed[name] = LEAF if len(items) > 1 else everything(items[0], node.items)


def _grouped(items: list[Any], kind: int, node: Node) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element(item, kind, node), []).append(item)
    return groups


# Set arithmetic. None stands for the empty set in results.


def is_member(trie: Trie) -> bool:
    """Whether the path that leads to this trie is itself in the set."""
    return not trie or _MEMBER in trie


def union(left: Trie, right: Trie) -> Trie:
    """Paths in either."""
    if not right or left is right:
        return left
    if not left:
        return right
    result = dict(left)
    for key, value in right.items():
        mine = result.get(key)
        if mine is None:
            result[key] = value
        elif mine is not value:
            result[key] = _joined(mine, value)
    return result


def _joined(left: Trie, right: Trie) -> Trie:
    both = union(left, right)
    if both and _MEMBER not in both and (is_member(left) or is_member(right)):
        return {_MEMBER: LEAF, **both}
    return both


def difference(left: Trie, right: Trie) -> Trie | None:
    """Paths of `left` that are not in `right`; exact paths, children of a removed path stay."""
    if not left or not right:
        return left or None
    result: Trie = {}
    changed = False
    for key, value in left.items():
        other = right.get(key)
        if key == _MEMBER or other is None:
            result[key] = value
            continue
        keeps = is_member(value) and not is_member(other)
        below = difference(value, other) if value else None
        below = {k: v for k, v in below.items() if k != _MEMBER} if below else None
        kept = None
        if below:
            kept = {_MEMBER: LEAF, **below} if keeps else below
        elif keeps:
            kept = LEAF
        if kept is not None:
            result[key] = kept
        changed = True
    if not changed:
        return left
    return result or None


def intersection(left: Trie, right: Trie) -> Trie | None:
    """Paths in both."""
    result: Trie = {}
    for key, value in left.items():
        other = right.get(key)
        if key == _MEMBER or other is None:
            continue
        below = intersection(value, other) if value and other else None
        member = is_member(value) and is_member(other)
        if below:
            result[key] = {_MEMBER: LEAF, **below} if member else below
        elif member:
            result[key] = LEAF
    return result or None


def paths(trie: Trie, prefix: str = "") -> Iterator[str]:
    """Every path of the set as the server prints it, such as `.spec.containers[name="app"].image`.

    In the server's order: the members of a level first, then what lies deeper.
    """
    names = sorted(key for key in trie if key != _MEMBER)
    for key in names:
        if is_member(trie[key]):
            yield prefix + _printed(key)
    for key in names:
        yield from paths(trie[key], prefix + _printed(key))


def _printed(key: str) -> str:
    kind, _, rest = key.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = json.loads(rest)
        return (
            "["
            + ",".join(
                f"{name}={json.dumps(keys[name], ensure_ascii=False)}" for name in sorted(keys)
            )
            + "]"
        )
    if kind == "v":
        return f"[={rest}]"
    return f"[{rest}]"


def removed_from(value: Any, doomed: Trie, node: Node | None) -> Any:
    """The value without the paths of `doomed`. What becomes empty that way, but is not doomed
    itself, is null."""
    kind = shape(value, node)
    if kind == FIELDS and type(value) is dict:
        result: dict[str, Any] = {}
        for key, child in value.items():
            below = doomed.get("f:" + key)
            if below is None:
                result[key] = child
            elif not is_member(below):
                result[key] = removed_from(child, below, child_node(node, key))
        return result or None
    if kind in (KEYED, VALUES) and type(value) is list and node is not None:
        items = []
        for item in value:
            below = doomed.get(element(item, kind, node))
            if below is None:
                items.append(item)
            elif not is_member(below):
                items.append(removed_from(item, below, node.items))
        return items or None
    # The place now holds a whole value. Its owner is recorded under the place's own name.
    return value


def with_named_fields(trie: Trie, node: Node | None) -> Trie:
    """The set with every declared field on the way to a member made a member itself."""
    result: Trie = {}
    for key, value in trie.items():
        below: Node | None = None
        declared = False
        if key.startswith("f:") and node is not None:
            declared = key[2:] in node.fields
            below = child_node(node, key[2:])
        elif key.startswith("k:") and node is not None:
            below = node.items
        wider = with_named_fields(value, below) if value else value
        result[key] = (
            {_MEMBER: LEAF, **wider} if declared and wider and _MEMBER not in wider else wider
        )
    return result
