"""Parquet files have the columns and rows of the CSV files, and the example in pandas of the
documentation runs on them. Both need the extra `analysis`.
"""

import csv
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from federator.simulate.outcome import End, Life
from federator.simulate.report import forms, measures, tabular
from federator.simulate.report.page import Provenance
from tests.house.sources import ROOT
from tests.unit.simulate.report import outcomes

SOURCE = Provenance("1")
ABSENT = "the extra is not installed: pip install 'federator[analysis]'"


@pytest.fixture(scope="module")
def parquet() -> Any:
    return pytest.importorskip("pyarrow.parquet", reason=ABSENT)


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(tabular.NoArrow, match=r"pip install 'federator\[analysis\]'"):
        tabular.need_arrow()
    with pytest.raises(tabular.NoArrow):
        forms.files(measures.measure(outcomes.drawn(works=2)), SOURCE, parquet=True)


def shown(value: Any, kind: tabular.Kind) -> str:
    """A value of a Parquet file as CSV has it."""
    if value is None:
        return ""
    return str(value) if kind.shown is None else kind.shown(value)


@pytest.mark.parametrize("priced", [True, False])
def test_parquet_has_the_columns_and_rows_of_csv(parquet: Any, priced: bool) -> None:
    outcome = outcomes.drawn(hostile=True)
    if not priced:
        outcome = outcomes.small(outcome.lives)
    found = measures.measure(outcome)

    made = forms.files(found, SOURCE, parquet=True)

    names = {name.removesuffix(".csv") for name in made if name.endswith(".csv")}
    assert names == {name.removesuffix(".parquet") for name in made if name.endswith(".parquet")}
    for table in tabular.of(found):
        stored = parquet.read_table(io.BytesIO(made[f"{table.name}.parquet"]))
        headers, *rows = csv.reader(io.StringIO(made[f"{table.name}.csv"].decode()))
        assert stored.column_names == headers == list(table.columns)
        assert [str(field.type) for field in stored.schema] == [
            {"float64": "double"}.get(kind.arrow, kind.arrow) for kind in table.columns.values()
        ]
        kinds = list(table.columns.values())
        assert [
            [shown(value, kind) for value, kind in zip(row.values(), kinds, strict=True)]
            for row in stored.to_pylist()
        ] == rows


def test_a_table_without_rows_has_its_columns(parquet: Any) -> None:
    made = forms.files(measures.measure(outcomes.small([])), SOURCE, parquet=True)

    stored = parquet.read_table(io.BytesIO(made["works.parquet"]))
    assert (stored.num_rows, stored.column_names) == (0, list(tabular.WORKS))


def test_names_are_as_they_were_submitted(parquet: Any) -> None:
    life = Life(outcomes.work("=cmd()"), End.WAITING)
    made = forms.files(measures.measure(outcomes.small([life])), SOURCE, parquet=True)

    assert parquet.read_table(io.BytesIO(made["works.parquet"]))["id"].to_pylist() == ["=cmd()"]


def test_the_example_in_pandas_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason=ABSENT)
    pytest.importorskip("pandas", reason=ABSENT)
    page = (ROOT / "docs/using/simulate.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    outcome = outcomes.drawn()
    found = measures.measure(outcome)
    forms.write(tmp_path / "out", forms.files(found, SOURCE, parquet=True))
    names: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        exec(compile(example, "docs/using/simulate.md", "exec"), names)
    finally:
        os.chdir(before)

    costs = {name: round(100 * cost) for name, cost in names["cost"].items()}
    measured = [
        (life.work.project, cents)
        for life, cents in zip(outcome.lives, found.bill.works, strict=True)
        if life.work.submit_s >= found.begin_s
    ]
    assert costs == {
        project: sum(cents for name, cents in measured if name == project)
        for project in {name for name, _ in measured}
    }
    most = max(outcome.samples, key=lambda sample: sample.waiting_copies)
    assert names["busiest"] == most.at_s
    assert names["by_hour"].max().max() == max(
        amounts[0] / 1000 for sample in outcome.samples for amounts in sample.used.values()
    )
    assert str(most.at_s) in capsys.readouterr().out
