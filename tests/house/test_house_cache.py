"""The hub's memory has one writer: what was heard and decided is filed by the verbs of
`hub/cache/state.py`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from federator.hub.cache.router import (
    MEMBER_ROUTES,
    SLICE_ROUTES,
    Changed,
    MemberChanged,
    MemberTurn,
    SliceChanged,
    SliceTurn,
)
from tests.house import sources
from tests.house.sources import Source

CACHE = "federator/hub/cache/"
ROUTER = f"{CACHE}router.py"
CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "drop",
    "extend",
    "inherit",
    "move_to_end",
    "pop",
    "popitem",
    "put",
    "remove",
    "setdefault",
    "update",
}
"""Methods by which a set, a map, a queue or one of our own tables becomes another."""
LISTENS = {"signals", "deletions", "commitments"}
"""Parts of the memory with verbs of their own: who is told, the budget,
assume/confirm/release/forget.
"""


def hub_sources() -> list[Source]:
    return [
        source
        for source in sources.all_sources()
        if source.name.startswith(("federator/hub/", "federator/app"))
    ]


def state_of(node: ast.AST) -> list[str] | None:
    """The path below the memory that an expression names (`self.state.members[x].name` is members,
    name), or None.
    """
    path: list[str] = []
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            if node.attr in ("state", "_state"):
                return path
            path.insert(0, node.attr)
            node = node.value
        else:
            return path if isinstance(node, ast.Name) and node.id == "state" else None


def targets(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement assigns to, or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else (target,)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target


def writes(source: Source) -> Iterator[str]:
    """Every place of a module that changes the memory itself."""
    for node in source.nodes:
        for target in targets(node):
            path = state_of(target)
            # A member is filed under its name and has a life of its own.
            if path and not (path[0] == "members" and len(path) > 1):
                yield (f"{source.name}:{target.lineno} assigns state.{'.'.join(path)}")  # type: ignore[attr-defined]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CHANGES
        ):
            path = state_of(node.func.value)
            if path and len(path) == 1 and path[0] not in LISTENS:
                yield f"{source.name}:{node.lineno} calls state.{path[0]}.{node.func.attr}"


def test_nobody_but_the_cache_writes_what_was_heard_and_decided() -> None:
    outside = [source for source in hub_sources() if not source.name.startswith(CACHE)]
    assert len(outside) > 20
    assert [wrong for source in outside for wrong in writes(source)] == []


def test_a_write_from_outside_would_be_found() -> None:
    text = """
self.state.pause, self.state.ready = now
state.members[name] = member
del self._state.members[name]
self.state.served.pop(key, None)
self.state.term += 1
self.state.members[name].obj = obj
paused = self.state.paused
self.state.commitments.forget(uid)
"""
    planted = Source(sources.ROOT / "federator/hub/planted.py", text, ast.parse(text))
    assert sorted(found.split()[-1] for found in writes(planted)) == [
        "state.members",
        "state.members",
        "state.pause",
        "state.ready",
        "state.served.pop",
        "state.term",
    ]


def test_turns_are_given_by_the_router_alone() -> None:
    """Every change has a name and a row, and every row is a change that somebody tells of."""
    turns = {"place", "dispatch", "aggregate", "finalize", "of_member", "of_slice"}
    wrong, told = [], defaultdict(set)
    for source in hub_sources():
        attributes = [node for node in source.nodes if isinstance(node, ast.Attribute)]
        listened = {id(node.value) for node in attributes if node.attr == "append"}
        for node in attributes:
            if source.name == ROUTER or id(node) in listened:
                continue
            if isinstance(node.value, ast.Name):
                told[node.value.id].add(node.attr)
            by_hand = node.attr in turns and not source.name.startswith(CACHE)
            if by_hand and isinstance(node.value, ast.Attribute) and node.value.attr == "signals":
                wrong.append(f"{source.name}:{node.lineno} uses signals.{node.attr}")

    assert wrong == []
    assert told["Changed"] == set(Changed.__members__)
    assert told["MemberChanged"] == set(MemberChanged.__members__)
    assert told["SliceChanged"] == set(SliceChanged.__members__)


def test_every_turn_of_a_member_and_of_a_slice_is_somebodys() -> None:
    """A turn that nobody takes would be a row without effect; one that no row gives, a listener
    without calls.
    """
    taken = defaultdict(set)
    for source in hub_sources():
        for node in source.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("on_member", "on_slice") and isinstance(
                node.args[0], ast.Attribute
            ):
                taken[node.func.attr].add(node.args[0].attr)
    given = {turn.name for turns in MEMBER_ROUTES.values() for turn in turns}
    there = {turn.name for turns in SLICE_ROUTES.values() for turn in turns}
    assert taken == {"on_member": given, "on_slice": there}
    assert given == set(MemberTurn.__members__)
    assert there == set(SliceTurn.__members__)


def test_the_process_gives_no_turns_by_hand() -> None:
    """It wires, starts and ends: what it hears of members goes through the table."""
    own = {f"federator/hub/leading/{each}.py" for each in ("process", "controllers", "membership")}
    found = [source for source in hub_sources() if source.name in own]
    assert len(found) == len(own)
    calls = [node for source in found for node in source.nodes if isinstance(node, ast.Call)]
    called = [node.func for node in calls if isinstance(node.func, ast.Attribute)]
    assert [
        f"{one.lineno}: {one.attr}"
        for one in called
        if one.attr in ("add", "add_after", "look", "look_at")
    ] == []


def test_the_cache_waits_for_nobody_and_asks_nobody() -> None:
    """Whatever it says was heard before: no request, no lock, no task."""
    wrong = []
    for source in hub_sources():
        if not source.name.startswith(CACHE):
            continue
        for node in source.nodes:
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
                wrong.append(f"{source.name}:{node.lineno} waits")
        for line, module in source.imports():
            if module.startswith(
                ("federator.kube.client", "federator.kube.control", "federator.kube.watch")
            ):
                wrong.append(f"{source.name}:{line} imports {module}")

    assert wrong == []
