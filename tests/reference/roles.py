"""The generated rules of the roles in `deploy/`, and the lists of kinds in its admission policies,
from the table of the rights that our accounts have in members.
"""

import textwrap
from collections.abc import Iterable
from typing import Final

from federator.kinds import registry, rights
from federator.kinds.kind import Kind

WIDTH: Final = 118
BY_NAMESPACE: Final = "Namespaced"
TENANTS: Final = (*registry.EXPANDED, *registry.RECURRING.values())
"""The kinds of `pinterest.com` that tenants write on the host."""


def rules(role: Iterable[rights.Section]) -> str:
    """The rules of a role: of one section, those with the same group, verbs and name are one."""
    return "\n".join(_section(section) for section in role)


def slices() -> str:
    """The kinds of slices in members."""
    return _resources(row.plural for row in registry.EXPANDED)


def scales() -> str:
    """The slices with a scale subresource."""
    return _resources(f"{row.plural}/scale" for row in registry.EXPANDED if row.scale)


def statuses() -> str:
    """The statuses of slices."""
    return _resources(f"{row.plural}/status" for row in registry.EXPANDED)


def tenants() -> str:
    """What tenants write on the host."""
    return _resources(row.plural for row in TENANTS)


def tenant_statuses() -> str:
    """The statuses of what tenants write on the host."""
    return _resources(f"{row.plural}/status" for row in TENANTS)


def host_rules() -> str:
    """What the hub may do on the host with the kinds that tenants write. `patch` is for finalizers
    of the garbage collector; `update` of `finalizers` is what API servers ask for an owner reference
    that blocks the owner."""
    read = ("get", "list", "watch", "patch")
    carried = [row for row in registry.WORKLOADS.values() if row not in registry.EXPANDED]
    return "\n".join(
        (
            *_host(TENANTS, read, "patch"),
            *_host(carried, read, "patch"),
        )
    )


def accounts() -> str:
    """The resource rules of `federator-accounts`: whatever our accounts change in members must have
    the fleet's label."""
    listed: dict[tuple[str, str], list[str]] = {}
    for right in rights.of(rights.HUB, rights.MEMBER):
        found = listed.setdefault((right.group, right.version), [])
        if right.changes and right.labelled and right.resource not in found:
            found.append(right.resource)
    return "\n".join(
        textwrap.indent(
            f"- apiGroups: [{group or QUOTED}]\n  apiVersions: [{version}]\n"
            f"  resources: [{', '.join(plurals)}]\n"
            "  operations: [CREATE, UPDATE, DELETE]",
            " " * 4,
        )
        for (group, version), plurals in listed.items()
        if plurals
    )


QUOTED: Final = '""'


def _host(kinds: Iterable[Kind], verbs: Iterable[str], status: str) -> Iterable[str]:
    kinds = tuple(kinds)
    group = kinds[0].group
    yield _rule(group, [row.plural for row in kinds], verbs)
    yield _rule(group, [f"{row.plural}/status" for row in kinds], (status,))
    owners = [f"{row.plural}/finalizers" for row in kinds if row.kind in registry.WORKLOADS]
    yield _rule(group, owners, ("update",))


def _section(section: rights.Section) -> str:
    joined: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for right in section.rights:
        joined.setdefault((right.group, right.verbs, right.name), []).append(right.resource)
    why = textwrap.wrap(section.why, WIDTH, break_on_hyphens=False)
    return "\n".join(
        (
            *(f"# {line}" for line in why),
            *(
                _rule(group, resources, verbs, name)
                for (group, verbs, name), resources in joined.items()
            ),
        )
    )


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str], name: str = "") -> str:
    only = f"  resourceNames: [{name}]\n" if name else ""
    return (
        f"- apiGroups: [{group or QUOTED}]\n  resources: [{', '.join(resources)}]\n{only}"
        f"  verbs: [{', '.join(verbs)}]"
    )


def _resources(plurals: Iterable[str]) -> str:
    return f"      resources: [{', '.join(plurals)}]"
