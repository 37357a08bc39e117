"""Two MemberClusters of one real cluster: the one that joined first keeps it, the others get
nothing (FAULTS.md F36).

Called whenever an identity is read. Sets `duplicate_of`, and nothing else.
"""

from collections.abc import Iterable

from federator.hub.members.member import Member


def told_apart(members: Iterable[Member]) -> list[Member]:
    """Sets `duplicate_of` on each member. Returns members that stopped being duplicates: their
    slices are their own from now on."""
    first: dict[str, str] = {}
    freed = []
    for member in sorted(members, key=lambda member: member.seniority):
        before = member.duplicate_of
        identity = member.identity
        member.duplicate_of = first.get(identity, "") if identity else ""
        if identity:
            first.setdefault(identity, member.name)
        if before and not member.duplicate_of:
            freed.append(member)
    return freed
