"""What a batch that does not fit is told: names of columns and types, and no value."""

import pyarrow as pa
import pyarrow.csv
import pytest

from chary.data import Neighbouring, Table, count
from chary.errors import SchemaMismatch

ROWS = pa.table({"age": [30, 40], "cost": [1.5, 2.0], "sex": ["f", "m"]})
COLUMNS = "the rows do not have the table's columns: "
KEPT = "; nothing was written"
UNREAD = "the file cannot be read as rows of 'age', 'cost', 'sex': check that there is a header line and that "
UNREAD += "all lines have as many cells" + KEPT
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
    table, batch = Table.open(ROWS, neighbouring=Neighbouring("replace", None)), pa.table(columns)
    if is_file:
        pyarrow.csv.write_csv(batch, tmp_path / "more.csv")
    with pytest.raises(SchemaMismatch) as caught:
        table.append(tmp_path / "more.csv" if is_file else batch)
    assert str(caught.value).removesuffix(KEPT) == told.removesuffix(KEPT)
    assert str(caught.value).endswith(KEPT)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)
    assert table.prepare(count()).run() == 2


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("age,cost,sex\n,secret,f\n", "column 'cost' is float64 in the table but string in the rows" + KEPT),
        ("age,cost,sex\n,2000-01-01,7\n", "column 'cost' is float64 in the table but date in the rows" + KEPT),
        ("age,cost,sex\n1,2,f\n1,2,f,secret,4\n", UNREAD),
        ("987,2.5,secret\n34,1.5,f\n", UNREAD),
        ("age,cost,sex\n1,2,f\n1,secret\n", UNREAD),
    ],
    ids=["empty", "first", "long", "headless", "short"],
)
def test_columns_that_fit_are_not_blamed(tmp_path, lines, told):
    """An empty column has no type of its own, and numbers may be texts."""
    table = Table.open(ROWS, neighbouring=Neighbouring("replace", None))
    (tmp_path / "more.csv").write_text(lines)
    with pytest.raises(SchemaMismatch) as caught:
        table.append(tmp_path / "more.csv")
    assert str(caught.value) == told
    assert table.prepare(count()).run() == 2
