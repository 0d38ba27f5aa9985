"""How a CSV is read stays as it was at the first opening, and is told where types came from values."""

import json
from contextlib import closing

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import chary
from chary import CSVFormat, LedgerMismatch
from chary.calls import Histogram
from chary.ledger import Terms, open_ledger
from tests.session.kit import recorded

TYPES = {"age": "BIGINT", "cost": "DOUBLE"}
UNIT = {"privacy_unit": "patient"}


@pytest.fixture
def visits(tmp_path):
    (tmp_path / "visits.csv").write_text("patient,age,cost\nann,70,1.5\nbob,98.7,2\nbob,30,x\n")
    return tmp_path / "visits.csv"


@pytest.fixture
def opened(visits):
    made = []

    def opened(source=visits, budget=None, **options):
        made.append(chary.open(source, **UNIT, ledger=visits.with_suffix(".ledger"), budget=budget, **options))
        return recorded(made[-1])

    yield opened
    for session in made:
        session.close()


BUDGET = chary.Budget(epsilon=1)


def test_a_text_that_was_meant_to_be_a_number_tells_what_to_write(opened):
    session = opened(budget=BUDGET, columns={})
    assert session.schema == dict.fromkeys(("patient", "age", "cost"), "string")
    asked = [
        (lambda: session.release(chary.count("age >= 65"), epsilon=0.1), "columns={'age': 'BIGINT'}"),
        (lambda: session.release(chary.count("age >= 65.5"), epsilon=0.1), "columns={'age': 'DOUBLE'}"),
        (lambda: session.release(chary.count("age"), epsilon=0.1), "columns={'age': 'BOOLEAN'}"),
        (
            lambda: session.release(chary.count().by("age", [1, 2], max_groups_per_unit=1), epsilon=0.1),
            "{'age': 'BIGINT'}",
        ),
        (
            lambda: session.release(chary.sum("cost", bounds=(0, 5), max_rows_per_unit=1), epsilon=0.1),
            "{'cost': 'DOUBLE'}",
        ),
        (lambda: session.ask(Histogram("age", bins=[0, 50, 100], epsilon=0.1)), "columns={'age': 'DOUBLE'}"),
    ]
    for ask, told in asked:
        with pytest.raises(chary.InvalidQuery) as caught:
            ask()
        assert told in str(caught.value)
    assert session.spent.charged == 0


def test_reopening_must_say_the_same_dialect_and_types(opened):
    opened(budget=BUDGET, columns=TYPES, csv=CSVFormat(null="x")).close()
    opened(columns=TYPES, csv=CSVFormat(null="x")).close()
    opened(columns={"age": "int8", "cost": "DOUBLE"}, csv=CSVFormat(null="x"))
    with pytest.raises(LedgerMismatch, match=r'csv null is "x" in the ledger, not ""'):
        opened(columns=TYPES)
    with pytest.raises(LedgerMismatch, match=r"Declare the same"):
        opened(csv=CSVFormat(null="x"))
    with pytest.raises(LedgerMismatch, match=r"csv types is not in the ledger"):
        opened(columns={"age": "BIGINT", "cost": "DECIMAL(5, 2)"}, csv=CSVFormat(null="x"))


def test_types_found_in_values_are_told_and_stay_told(opened):
    session = opened(budget=BUDGET, infer_types=True)
    assert session.schema == {"patient": "string", "age": "float64", "cost": "string"}
    assert "inferred from the values" in session.statement()
    session.close()
    declared = opened(columns={"age": "DOUBLE"})
    assert "inferred from the values" in declared.statement()


def test_types_once_declared_are_not_found_in_values_later(opened):
    session = opened(budget=BUDGET, columns={"age": "DOUBLE"})
    assert "inferred from the values" not in session.statement()
    with pytest.raises(LedgerMismatch, match=r'types is not in the ledger, and "inferred" here'):
        opened(infer_types=True)


def test_a_ledger_that_says_nothing_of_csv_goes_on_with_the_same_columns(visits, opened):
    """As written before dialects were kept: the columns of a CSV had the types of its values."""
    opened(budget=BUDGET, infer_types=True).close()
    with closing(open_ledger(visits.with_suffix(".ledger"))) as ledger:
        [terms] = ledger.datasets()
    old = visits.with_name("old.ledger")
    ledger = open_ledger(old)
    said = {key: value for key, value in json.loads(terms.conditions).items() if key[:3] != "csv" and key != "types"}
    assert set(said) == {"relation", "unit", "epsilon", "delta", "filter"}
    ledger.open(Terms("visits", terms.fingerprint, json.dumps(said), terms.capacity))
    ledger.close()
    for options in (
        {"infer_types": True},
        {"columns": {"age": "DOUBLE"}},
        {"columns": {"age": "DOUBLE"}, "csv": CSVFormat(null="x")},
    ):
        session = chary.open(visits, **UNIT, ledger=old, **options)
        assert ("inferred from the values" in session.statement()) == ("infer_types" in options)
        session.close()
    with pytest.raises(LedgerMismatch, match="infer_types=True"):
        chary.open(visits, **UNIT, ledger=old)


def test_other_sources_go_on_under_the_ledger_of_a_csv(visits, opened):
    opened(budget=BUDGET, columns=TYPES, csv=CSVFormat(null="x")).close()
    frame = pl.DataFrame({"patient": ["ann"], "age": [70], "cost": [1.5]})
    session = opened(frame, dataset="visits")
    session.append(visits)
    assert session.spine.rows.prepare(chary.count("age >= 65")).run() == 1


def test_a_batch_is_read_as_the_first_file_was(visits, opened, tmp_path):
    session = opened(
        budget=BUDGET, columns={"age": "BIGINT", "cost": "DECIMAL(5, 1)"}, csv=CSVFormat(date_format="%d.%m.%Y")
    )
    (tmp_path / "more.csv").write_text('cost,patient,age\n1.26,cy,98.0\n,"dan,",98.7\n')
    session.append(tmp_path / "more.csv")
    rows = session.spine.rows
    assert rows.prepare(chary.count("cost = 1.3 AND age = 98 AND patient = 'cy'")).run() == 1
    assert rows.prepare(chary.count("patient = 'dan,' AND age IS NULL")).run() == 1


@pytest.mark.parametrize("cells", [["1", "1.0", "2.5"], ["01", "1"], [" 1", "1"], ["1e3", "1000"], ["a", "A", "a "]])
@pytest.mark.parametrize("options", [{}, {"infer_types": True}])
def test_units_are_told_apart_as_they_are_written(tmp_path, cells, options):
    (tmp_path / "v.csv").write_text("patient\n" + "\n".join(cells) + "\n")
    session = chary.open(tmp_path / "v.csv", **UNIT, ledger=":memory:", budget=BUDGET, **options)
    assert session.schema == {"patient": "string"}
    assert session.spine.rows.prepare(chary.count()).run() == len(cells)
    session.append(tmp_path / "v.csv")
    assert session.spine.rows.prepare(chary.count()).run() == len(cells)


def test_object_columns_of_pandas_are_texts_whatever_is_in_them():
    cells = ["1", 2, 2.5, None, float("nan"), pd.NaT, pd.NA, b"x", [1], {"a": 1}, object(), True, "\ud800"]
    frame = pd.DataFrame({"patient": range(len(cells)), "x": pd.Series(cells, dtype=object)})
    for part in (frame, frame.iloc[:1], frame.iloc[3:5], frame.iloc[7:8]):
        session = chary.open(part, **UNIT, ledger=":memory:", budget=BUDGET)
        assert session.schema["x"] == "string"
        session.append(frame)
        found = [row["x"] for row in session.spine.rows.snapshot().run().to_pylist()][-len(cells) :]
        assert found == ["1", "2", "2.5", *[None] * 8, "True", None]
    typed = chary.open(frame, **UNIT, ledger=":memory:", budget=BUDGET, columns={"x": "DOUBLE"})
    typed.append(pa.table({"patient": [1], "x": [7.5]}))
    found = [row["x"] for row in typed.spine.rows.snapshot().run().to_pylist()]
    assert found == [1.0, 2.0, 2.5, *[None] * 10, 7.5]


def test_moments_that_the_engine_cannot_count_are_null():
    for kind in (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), pa.duration("s")):
        cells = pa.array([2**62, -(2**62), 5, None], pa.int64()).view(kind)
        session = chary.open(pa.table({"patient": [1, 2, 3, 4], "x": cells}), **UNIT, ledger=":memory:", budget=BUDGET)
        assert session.spine.rows.prepare(chary.count("x IS NOT NULL")).run() == 1
