"""The table of hostile inputs as a whole: names are unique, rows exist, and there are as many as
were asked for.
"""

import re
from collections import Counter

from tests.hostile import (
    cases_members,
    cases_objects,
    cases_sense,
    cases_texts,
    test_hostile_secrets,
    test_hostile_wire,
)
from tests.hostile.cases_members import Lie
from tests.hostile.table import Case
from tests.hostile.test_hostile_wire import Wire


def _rows() -> list[tuple[str, str]]:
    texts = (*cases_texts.TEXTS, *cases_texts.JSON, *cases_texts.BYTES)
    objects = (*cases_objects.OBJECTS, *cases_objects.FIGURES, *cases_sense.SENSE)
    secrets = [(f"secret: {name}", "kubeconfig") for name in test_hostile_secrets.SECRETS]
    cases: tuple[Case | Lie | Wire, ...] = (
        *texts,
        *objects,
        *cases_members.LIES,
        *test_hostile_wire.WIRES,
    )
    return [*((case.name, case.row) for case in cases), *secrets]


def test_every_input_has_a_name_of_its_own() -> None:
    assert [name for name, times in Counter(name for name, _ in _rows()).items() if times > 1] == []


def test_every_input_belongs_to_a_fault_and_every_fault_of_bad_data_has_inputs() -> None:
    rows = {row for _, row in _rows()}
    assert all(row == "kubeconfig" or re.fullmatch(r"F[0-9]{1,2}", row) for row in rows)
    assert {f"F{number}" for number in range(56, 64)} <= rows


def test_there_are_at_least_sixty() -> None:
    assert len(_rows()) >= 60
