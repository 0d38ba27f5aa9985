"""The parts of one question are read of one state of the rows."""

import threading

import duckdb
import pyarrow as pa
import pytest

from chary.data import NeighborRelation, RowTable, count, read_one_version
from chary.data.rows import Deferred
from chary.errors import EngineError

ROWS = pa.table({"x": [1, 2, 3]})


@pytest.mark.parametrize("in_file", [False, True])
def test_no_row_comes_between_the_parts(tmp_path, in_file):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.register("first", ROWS)
        connection.execute("CREATE TABLE t AS FROM first")
    source = {"source": tmp_path / "a.duckdb", "table": "t"} if in_file else {"source": ROWS}
    table = RowTable.open(**source, neighbor_relation=NeighborRelation("replace", None))
    size, begun = table.prepare(count()), threading.Event()

    def append():
        begun.set()
        table.append(ROWS)

    appending = threading.Thread(target=append)

    def between():
        appending.start()
        begun.wait(60)
        appending.join(0.3)
        return 0

    assert read_one_version(table, [size, Deferred("between", between), size]) == [3, 0, 3]
    appending.join(60)
    assert read_one_version(table, [size]) == [6]
    table.close()
    with pytest.raises(EngineError):
        read_one_version(table, [size, size])
