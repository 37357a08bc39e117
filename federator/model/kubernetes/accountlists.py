"""The service accounts that each project may run pods under, as a namespace in a member says it.

The hub writes them as annotations of its namespaces there, one for each project of the namespace;
the administrator of a cluster may annotate other namespaces. Admission in the member
(`federator-pods`) and the member process compare pods with them. Pure. Decision 0166.

    federation.pinterest.com/service-accounts.ads: "ads-*,runner;*"

Groups stand between semicolons, names or patterns (`*` is any text) between commas. An account is
allowed if every group has a pattern for it: each FederatedQuota of a project is one group.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from federator.model import names

PREFIX: Final = f"{names.FEDERATION}/service-accounts."
ANY_PROJECT: Final = f"{names.FEDERATION}/unlisted-projects"
"""With the value `Allow`: projects without an annotation are not limited."""
ALLOW: Final = "Allow"
DEFAULT: Final = ("", "default")
"""Accounts of pods that name none."""
_KEY: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

Groups = tuple[tuple[str, ...], ...]


def annotations(projects: Mapping[str, Groups], *, unlisted: bool) -> dict[str, str]:
    """The annotations for a namespace with these projects. A project has no annotation if its name
    does not fit into the name of one, so it may use no account. `unlisted`: other projects may be
    used in the namespace, without a limit. Without projects nothing is limited: {}."""
    lists = {
        f"{PREFIX}{project}": ";".join(",".join(filter(_fits, group)) for group in groups)
        for project, groups in sorted(projects.items())
        if _KEY.fullmatch(f"service-accounts.{project}")
    }
    return lists | ({ANY_PROJECT: ALLOW} if projects and unlisted else {})


def _fits(pattern: str) -> bool:
    """Whether it can stand in a list; no account has a name with a separator."""
    return not any(separator in pattern for separator in ",;")


def ours(annotations_of: Mapping[str, str]) -> dict[str, str]:
    """Of all annotations of a namespace, those that say something of service accounts."""
    return {
        key: value
        for key, value in annotations_of.items()
        if key.startswith(PREFIX) or key == ANY_PROJECT
    }


def allows(said: Mapping[str, str], project: str, account: str) -> bool:
    """Whether pods of this project may run under the account, where the namespace says `said`."""
    if account in DEFAULT or not said:
        return True
    listed = said.get(f"{PREFIX}{project}")
    if listed is None:
        return said.get(ANY_PROJECT) == ALLOW
    return all(
        any(matches(pattern, account) for pattern in group.split(","))
        for group in listed.split(";")
    )


def listed(said: Mapping[str, str], project: str) -> str:
    """What the namespace says of a project, in words."""
    return said.get(f"{PREFIX}{project}") or "none"


@lru_cache(maxsize=4096)
def matches(pattern: str, value: str) -> bool:
    """`*` stands for any text, including none."""
    head, *rest = pattern.split("*")
    if not rest:
        return pattern == value
    return re.fullmatch(".*".join(map(re.escape, (head, *rest))), value) is not None


def any_matches(patterns: Iterable[str], value: str) -> bool:
    """Whether one of the patterns stands for the value."""
    return any(matches(pattern, value) for pattern in patterns)
