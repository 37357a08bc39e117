"""What is known of a member has one writer: it is recorded by the verbs of `hub/members`.

Types are not looked at: any assignment in the hub to an attribute with the name of such a field is
found, unless it is a class's own (`self.name`), and any call that changes a collection of that
name.
"""

import ast
import dataclasses
from collections.abc import Iterator

from federator.hub.members.contents import Contents
from federator.hub.members.link import Link
from federator.hub.members.member import Member
from federator.hub.members.member_conditions import Vitals
from federator.hub.members.process_watch import ProcessWatch
from federator.hub.members.trust import SeqWatch
from federator.hub.members.writes import Writes
from tests.house import sources
from tests.house.sources import Source
from tests.house.test_house_cache import CHANGES, hub_sources, targets

MEMBERS = "federator/hub/members/"
PARTS = {
    "member": Member,
    "contents": Contents,
    "link": Link,
    "vitals": Vitals,
    "writes": Writes,
    "seqs": SeqWatch,
    "process": ProcessWatch,
}
"""How code names a member and its parts -> their classes."""
FIELDS = {field.name for part in PARTS.values() for field in dataclasses.fields(part)}
FIELDS_MAX = 24
"""Fields of the widest of them. Only falls."""
EVENTS = {"set"}
"""What changes an `asyncio.Event`."""


def _base(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_of_a_member(node: ast.AST) -> bool:
    """Whether an attribute is a field of a member, or of a part, that is not the class's own."""
    if not isinstance(node, ast.Attribute) or node.attr not in FIELDS:
        return False
    owner = _base(node.value)
    return not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def _is_named_as_one(node: ast.AST) -> bool:
    """Whether an expression names a member or a part: `member.link`, `self.member.writes`,
    `state.members[name]`.
    """
    owner = _base(node)
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.removesuffix("s") == "member" or (
        isinstance(owner, ast.Attribute) and name in PARTS
    )


def writes(source: Source) -> Iterator[str]:
    """Every place of a module that writes a member's field."""
    for node in source.nodes:
        for target in targets(node):
            field = _base(target)
            if _is_of_a_member(field):
                yield f"{source.name}:{field.lineno} assigns {ast.unparse(field)}"  # type: ignore[attr-defined]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CHANGES | EVENTS
        ):
            field = _base(node.func.value)
            owner = field.value if isinstance(field, ast.Attribute) else field
            if _is_of_a_member(field) and _is_named_as_one(owner):
                yield f"{source.name}:{node.lineno} calls {ast.unparse(node.func)}"


def test_nobody_but_its_room_writes_what_is_known_of_a_member() -> None:
    outside = [source for source in hub_sources() if not source.name.startswith(MEMBERS)]
    assert len(outside) > 20
    assert [wrong for source in outside for wrong in writes(source)] == []


def test_a_write_of_a_member_from_outside_would_be_found() -> None:
    text = """
member.obj, other = obj, 1
self.member.link.unasked = ""
state.members[name].writes.refused[key] = why
vitals.lapsed = True
del member.writes.in_place[key]
member.seqs.to_number.add(key)
member.link.reread.set()
holder.released = True
self.released = True
member.writes.observe_accepted(key)
"""
    planted = Source(sources.ROOT / "federator/hub/planted.py", text, ast.parse(text))
    assert sorted(found.partition(" ")[2] for found in writes(planted)) == [
        "assigns holder.released",
        "assigns member.obj",
        "assigns member.writes.in_place",
        "assigns self.member.link.unasked",
        "assigns state.members[name].writes.refused",
        "assigns vitals.lapsed",
        "calls member.link.reread.set",
        "calls member.seqs.to_number.add",
    ]


def test_no_part_of_a_member_grows_into_a_bag() -> None:
    assert max(len(dataclasses.fields(part)) for part in PARTS.values()) == FIELDS_MAX
