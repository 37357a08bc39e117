"""The tool that plants errors (`make mutants`): what it plants, that names find it again, and that
the lists fit.
"""

import ast
import importlib

import pytest

from tests.mutation import run
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import mutants, mutated

TEXT = '''
"""A docstring is no code."""
LIMIT = 3

def clamp(value: int, low: bool) -> int:
    """Nor is this."""
    if not low and value > LIMIT:
        return LIMIT
    total = 0
    total += value
    note(zip(total, strict=True))
    return total
'''


def _changes() -> list[str]:
    return [mutant.name.partition(": ")[2] for mutant in mutants("a.sample", TEXT)]


def test_comparisons_sums_conditions_constants_and_statements_are_changed() -> None:
    assert {
        "3  ->  4",
        "not low and value > LIMIT  ->  not low or value > LIMIT",
        "not low  ->  low",
        "value > LIMIT  ->  value >= LIMIT",
        "return LIMIT  ->  pass",
        "total += value  ->  total -= value",
        "total += value  ->  pass",
        "note(zip(total, strict=True))  ->  pass",
    } <= set(_changes())
    assert not [change for change in _changes() if "docstring" in change or "Nor" in change]
    assert "True  ->  False" not in _changes()


def test_each_mutant_differs_from_the_text_and_from_every_other_and_has_its_own_name() -> None:
    found = mutants("a.sample", TEXT)
    texts = [ast.unparse(mutated(TEXT, index)) for index in range(len(found))]
    assert ast.unparse(ast.parse(TEXT)) not in texts
    assert len(set(texts)) == len(texts)
    assert len({mutant.name for mutant in found}) == len(found)
    assert [mutant.name for mutant in mutants("a.sample", TEXT)] == [
        mutant.name for mutant in found
    ]


def test_a_seed_draws_the_same_shared_by_subjects_and_none_that_is_known_as_equivalent() -> None:
    pool = list(run.cases())
    drawn = run.draw(pool, 100, 0)
    assert drawn == run.draw(pool, 100, 0) != run.draw(pool, 100, 1)
    assert {
        subject: sum(case.subject == subject for case in drawn) for subject in run.SUBJECTS
    } == dict.fromkeys(run.SUBJECTS, 20)
    assert not {case.mutant.name for case in drawn} & set(EQUIVALENT)


def test_each_equivalent_mutant_is_one_of_today_and_has_a_reason() -> None:
    names = {case.mutant.name for case in run.cases()}
    assert set(EQUIVALENT) <= names
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())


@pytest.mark.parametrize("subject", run.SUBJECTS)
def test_the_tests_of_a_mutant_are_there(subject: str) -> None:
    case = next(case for case in run.cases() if case.subject == subject)
    importlib.import_module(case.module)
    first, rest = run.stages(case)
    assert first
    assert all((run.ROOT / path).exists() for path in [*first, *rest])


@pytest.mark.e2e
def test_a_planted_mutant_is_what_the_tests_import_and_they_notice() -> None:
    """The real program, on one test that a changed weight must fail."""
    name = "division.by_static_weight: return 1  ->  pass"
    case = next(case for case in run.cases() if case.mutant.name == name)
    tests = ["tests/unit/placement/test_leaps.py", "-k", "largest_weight"]
    done = [run.run(case.module, index, tests, 60) for index in ("none", str(case.index))]
    assert [ran.status for ran in done] == [0, 1]
    assert all(0 < ran.cpu_s < 60 and not ran.too_long for ran in done)


@pytest.mark.e2e
def test_a_mutant_that_takes_far_too_long_ends_by_its_processor_time() -> None:
    name = "webster._leap: low < high  ->  low <= high"
    case = next(case for case in run.cases() if case.mutant.name == name)
    tests = ["tests/unit/placement/test_leaps.py", "-k", "no_loop_could_count"]
    assert run.run(case.module, str(case.index), tests, 3).too_long
