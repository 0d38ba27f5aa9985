"""`chary quantile` and `chary histogram` as a user types them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.kit import SECRET


@pytest.fixture
def visits(tmp_path):
    """5,000 patients of ages 0 to 99, one of whom has a value that must not be seen."""
    rows = [f"{unit},{unit * 37 % 100},{unit % 7}" for unit in range(5000)] + [f"5000,{SECRET},x"]
    path = tmp_path / "visits.csv"
    path.write_text("patient,age,note\n" + "\n".join(rows) + "\n")
    return path


BUDGET = "--budget-epsilon 3 --budget-delta 1e-6 --epsilon 0.5"
QUANTILES = "quantile {} --unit patient --max-rows-per-unit 1 --column age --low 0 --high 120 --infer-types"
HISTOGRAM = "histogram {} --unit patient --column age --bins 0,18,65,120 --infer-types"


def test_quantiles(call, visits):
    code, out, err = call(f"{QUANTILES.format(visits)} --at 0.25,0.5,0.75 --step 1 {BUDGET} --json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["at"] for row in figures["quantiles"]] == [0.25, 0.5, 0.75]
    for row in figures["quantiles"]:
        assert abs(row["value"] - 100 * row["at"]) < 8
        assert 0 < row["rank_error"] < 400
    assert 0 < figures["spent"]["share"] < 0.2
    code, out, _ = call(f"{QUANTILES.format(visits)} --at 0.5 --step 10 {BUDGET}")
    assert code == 0
    assert "50" in out
    code, out, _ = call(f"{QUANTILES.format(visits)} --at 0.5 {BUDGET} --json", "--where", "age < 20")
    assert abs(json.loads(out)["value"] - 10) < 3


def test_quantiles_and_means_of_groups(call, visits):
    line = f"{QUANTILES.format(visits)} --max-groups-per-unit 1 --values note=0,1,2"
    one, groups = (json.loads(call(f"{each} --at 0.5 {BUDGET} --json")[1]) for each in (QUANTILES.format(visits), line))
    assert [row["note"] for row in groups["quantiles"]] == ["0", "1", "2"]
    assert all(abs(row["value"] - 50) < 12 for row in groups["quantiles"])
    # The second command is asked of the same ledger.
    assert groups["spent"]["share"] == pytest.approx(2 * one["spent"]["share"])
    asked = f"release {visits} --unit patient --infer-types --mean age --bounds 0,100 --max-rows-per-unit 1"
    code, out, _ = call(f"{asked} --by note --keys 0,1,2 {BUDGET} --json")
    assert code == 0
    assert all(abs(row["value"] - 49.5) < 5 for row in json.loads(out)["values"])


def test_histogram(call, visits):
    code, out, err = call(f"{HISTOGRAM.format(visits)} {BUDGET} --json --max-groups-per-unit 1")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["key"] for row in figures["values"]] == [[[0, 18]], [[18, 65]], [[65, 120]]]
    for row, true in zip(figures["values"], [900, 2350, 1750], strict=True):
        assert abs(row["value"] - true) < 8 * figures["error_bar"]
    code, out, _ = call(f"{HISTOGRAM.format(visits)} {BUDGET} --outside edges")
    assert code == 0
    assert "[0, 18)" in out
    assert "error bar" in out


@pytest.mark.parametrize(
    "line",
    [
        f"{QUANTILES} --at 0",
        f"{QUANTILES} --at 0.5,0.25",
        f"{QUANTILES} --at 0.5,,0.75",
        f"{QUANTILES} --at x",
        f"{QUANTILES} --at 0.5 --step 0",
        f"{QUANTILES} --at 0.5 --step 7",
        "quantile {} --unit patient --columns= --max-rows-per-unit 1 --column age --low 120 --high 0",
        "quantile {} --unit patient --columns= --column age --low 0 --high 120",
        "quantile {} --unit patient --columns= --max-rows-per-unit 1 --column nowhere --low 0 --high 120",
        "quantile {} --unit patient --columns= --max-rows-per-unit 1 --column note --low 0 --high 120",
        "quantile {} --unit patient --columns= --max-rows-per-unit 1 --column age",
        "histogram {} --unit patient --columns= --column age --bins 0,18,18",
        "histogram {} --unit patient --columns= --column age --bins 65,18",
        "histogram {} --unit patient --columns= --column age --bins 7",
        "histogram {} --unit patient --columns= --column age --bins 0,x",
        "histogram {} --unit patient --columns= --column age",
        "histogram {} --unit patient --columns= --column nowhere --bins 0,1",
        f"{HISTOGRAM} --outside drop",
        f"{HISTOGRAM} --max-groups-per-unit 1 --assumed-groups-per-unit 1",
    ],
)
def test_bad_input_leaves_with_2_and_shows_no_data(call, visits, line):
    code, out, err = call(f"{line.format(visits)} {BUDGET}")
    assert (code, out) == (2, "")
    assert SECRET not in err
    assert len(err.strip().splitlines()) == 1


def test_no_size_and_no_room(call, visits):
    code, _, err = call(f"{HISTOGRAM.format(visits)} --budget-epsilon 1 --budget-delta 1e-6")
    assert (code, "size" in err) == (2, True)
    code, out, err = call(f"{HISTOGRAM.format(visits)} --budget-epsilon 1 --budget-delta 1e-6 --epsilon 50")
    assert (code, out) == (3, "")
    assert "would fit" in err


def test_empty_tables_answer_like_others(call, tmp_path):
    """Whether a table is empty is secret where units are added or removed."""
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"patient": pa.array([], pa.int64()), "age": pa.array([], pa.int64())}), path)
    code, out, err = call(f"{QUANTILES.format(path)} {BUDGET} --json")
    assert (code, err) == (0, "")
    assert all(0 <= row["value"] <= 120 for row in json.loads(out)["quantiles"])
    code, out, err = call(f"{HISTOGRAM.format(path)} {BUDGET} --json")
    assert (code, err) == (0, "")
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("")
    assert call(f"{QUANTILES.format(nothing)} {BUDGET}")[0] == 2
