"""What a batch that does not fit is told: names of columns and types, and no value."""

import pyarrow as pa
import pyarrow.csv
import pytest

from chary.data import NeighborRelation, RowTable, count
from chary.errors import SchemaMismatch

ROWS = pa.table({"age": [30, 40], "cost": [1.5, 2.0], "sex": ["f", "m"]})
COLUMNS = "the rows do not have the table's columns: "
KEPT = "; nothing was written"
UNREAD = "the file cannot be read as rows of 'age', 'cost', 'sex': check that there is a header line and that "
UNREAD += "the delimiter is the right one" + KEPT
BAD = [
    ({"age": [987]}, COLUMNS + "missing 'cost', 'sex'" + KEPT),
    ({"age": [987], "cost": [1.5], "sex": ["f"], "wage": [2]}, COLUMNS + "unknown 'wage'" + KEPT),
    ({"Age": [987], "cost": [1.5], "sex": ["f"]}, COLUMNS + "missing 'age', unknown 'Age'" + KEPT),
    ({"age": ["secret"], "cost": ["x"], "sex": ["f"]}, "column 'age' is int64 in the table but string in the rows"),
    ({"age": [987], "cost": ["secret"], "sex": ["f"]}, "column 'cost' is float64 in the table but string in the rows"),
    ({"age": [True], "cost": [1], "sex": ["f"]}, "column 'age' is int64 in the table but boolean in the rows"),
]


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(("columns", "told"), BAD)
def test_a_frame_and_a_csv_are_told_the_same(tmp_path, columns, told, is_file):
    """But for the types: the cells of a CSV are read with the table's, and are NULL where they do not fit."""
    table, batch = RowTable.open(ROWS, neighbor_relation=NeighborRelation("replace", None)), pa.table(columns)
    if is_file:
        pyarrow.csv.write_csv(batch, tmp_path / "more.csv")
    if is_file and not told.startswith(COLUMNS):
        table.append(tmp_path / "more.csv")
        assert table.prepare(count("age IS NULL OR cost IS NULL")).run() == 1
        return
    with pytest.raises(SchemaMismatch) as caught:
        table.append(tmp_path / "more.csv" if is_file else batch)
    assert str(caught.value).removesuffix(KEPT) == told.removesuffix(KEPT)
    assert str(caught.value).endswith(KEPT)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)
    assert table.prepare(count()).run() == 2


def test_a_batch_without_a_header_is_refused_and_shows_no_cell(tmp_path):
    table = RowTable.open(ROWS, neighbor_relation=NeighborRelation("replace", None))
    (tmp_path / "more.csv").write_text("987,2.5,secret\n34,1.5,f\n")
    with pytest.raises(SchemaMismatch) as caught:
        table.append(tmp_path / "more.csv")
    assert str(caught.value) == UNREAD
    assert table.prepare(count()).run() == 2


@pytest.mark.parametrize(
    ("lines", "nulls"),
    [
        ("age,cost,sex\n,secret,f\n", 1),
        ("age,cost,sex\n,2000-01-01,7\n", 1),
        ("age,cost,sex\n1,2,f\n1,2,f,secret,4\n", 0),
        ("age,cost,sex\n1,2,f\n1,secret\n", 1),
        ('age,cost,sex\n1,2,"f\n1,2,f\n', 0),
    ],
    ids=["empty", "first", "long", "short", "open quote"],
)
def test_no_cell_of_a_csv_stops_a_batch(tmp_path, lines, nulls):
    table = RowTable.open(ROWS, neighbor_relation=NeighborRelation("replace", None))
    (tmp_path / "more.csv").write_text(lines)
    table.append(tmp_path / "more.csv")
    assert table.prepare(count()).run() == 2 + lines.count("\n") - 1
    assert table.prepare(count("cost IS NULL")).run() == nulls
