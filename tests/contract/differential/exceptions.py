"""The differences between the embedded API and a real server that stay, each with its reason. At most 15 rows."""

import re
from dataclasses import dataclass
from typing import Any

from tests.contract.differential.kinds import Object
from tests.contract.differential.steps import Step

AT_MOST = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One accepted difference. Empty patterns match everything; `real` and `mine` are searched in the repr."""

    name: str
    reason: str
    verbs: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    path: str = ""
    real: str = ""
    mine: str = ""

    def covers(self, step: Step, difference: tuple[str, Any, Any], theirs: Object) -> bool:
        """Whether this row explains that difference."""
        path, real, mine = difference
        return (
            (not self.verbs or step.verb in self.verbs)
            and (not self.kinds or step.kind in self.kinds)
            and re.search(self.path, path) is not None
            and re.search(self.real, repr(real)) is not None
            and re.search(self.mine, repr(mine)) is not None
        )


ROWS: tuple[Row, ...] = (
    Row(
        "column descriptions",
        "Descriptions of a native kind's table columns are shown by no client; they would double the tables' code.",
        path=r"columnDefinitions\[\d+\]\.description$",
    ),
    Row(
        "no controller manager",
        "The real server runs without one, so its ServiceAccount admission is off; ours names the default account.",
        kinds=frozenset({"pods"}),
        path=r"(spec\.serviceAccount(Name)?|spec)$",
        real="nothing",
        mine="default",
    ),
)
