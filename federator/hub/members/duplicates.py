"""Two MemberClusters of one real cluster: the one that joined first keeps it, the others get
nothing (FAULTS.md F36).

Called by the process whenever an identity is heard of. Sets `duplicate_of`, and nothing else.
"""

from collections.abc import Iterable

from federator.hub.members.member import Member


def told_apart(members: Iterable[Member]) -> list[Member]:
    """Says of every member whose double it is. Returns those that were one and are not any more:
    their slices are their own from now on."""
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
