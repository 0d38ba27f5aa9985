"""The engines that the suite runs on. To add one: a function that opens rows, and a line in `ENGINES`."""

import importlib
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chary.data import RowTable
from chary.data.engines.compiler import QueryPlace
from chary.data.engines.duckdb.engine import DUCK, DuckDB
from chary.data.engines.postgresql.engine import POSTGRES
from chary.data.engines.sql import ROWS
from tests.servers.stored import stored

_numbers = itertools.count()

# Which part of the tests an engine is asked that starts work slowly; `make test-engines SHARE=1` asks it all.
SHARE = float(os.environ.get("SHARE", "0.15"))


@dataclass
class Place:
    """Where an engine puts the rows of a test: a folder, and what else it asked for."""

    folder: Any
    get: Callable[[str], Any] = field(repr=False)

    def fresh(self, ending):
        """A path that nobody used."""
        return self.folder / f"rows{next(_numbers)}{ending}"


@dataclass(frozen=True)
class Tested:
    """An engine under test.

    `opened(place, arrow, neighbor_relation=..., limit=...)` puts the rows where the engine reads them and opens them.
    `together(table, predicates)` is what each of the conditions is of each row, by columns p0, p1, ... and `n`.
    `effort` is which part of the random cases it is asked, `keeps` whether appended rows outlive the table, `grows`
    whether rows can be appended at all, `ordered` whether the order in which rows came is known.
    `differs` is where the engine says of itself that it differs, which is in docs/howto/sources.md: "doubles" are
    neither elements nor units that are met again, "uuids" are texts, "zones" make moments those of UTC.
    Of an engine that starts work slowly a `share` of the tests is run, the same every time.
    """

    name: str
    opened: Callable[..., RowTable]
    together: Callable[..., Any] | None = None
    effort: float = 1.0
    keeps: bool = False
    grows: bool = True
    ordered: bool = True
    differs: frozenset[str] = frozenset()
    share: float = 1.0
    marks: tuple[Any, ...] = ()

    def times(self, usual):
        """How many random cases there are, where there are usually so many."""
        return max(1, round(usual * self.effort))


def in_memory(place, arrow, **said):
    return RowTable.open(arrow, **said)


def in_a_file(place, arrow, **said):
    path = place.fresh(".duckdb")
    DuckDB().store(path, "rows", arrow)
    return RowTable.open(path, table="rows", **said)


def in_parquet(place, arrow, **said):
    path = place.fresh(".parquet")
    pq.write_table(arrow, path)
    return RowTable.open(path, **said)


def duck_together(table, predicates):
    found = verdicts(QueryPlace(ROWS, "", DUCK), table.schema, predicates)
    return table.held.database.ask(lambda connection: connection.sql(found).to_arrow_table(), "compared")


def verdicts(place, schema, predicates):
    """The SQL that asks many conditions of each row at once."""
    rows = place.table(place.rows, schema)
    asked = {f"p{number}": each.expression(rows, schema, place.dialect.like) for number, each in enumerate(predicates)}
    return place.sql(rows.select(n=rows["n"], **asked))


def on_a_server(place, arrow, **said):
    server = place.get("postgres")
    url = server.url()
    return RowTable.open(url, table=stored(server, arrow), **said)


def server_together(table, predicates):
    held = table.held
    found = verdicts(QueryPlace(ROWS, "", POSTGRES), table.schema, predicates)
    rows = held.server.ask(lambda cursor: held.rows.execute(cursor, found), "compared")
    names = ["n", *(f"p{number}" for number in range(len(predicates)))]
    return pa.table([pa.array([row[place] for row in rows]) for place in range(len(names))], names)


def on_spark(place, arrow, **said):
    return RowTable.open(arrow, engine=place.get("spark"), **said)


def spark_together(table, predicates):
    place = QueryPlace(ROWS, "", importlib.import_module("chary.data.engines.spark.dialect").SPARK)
    return table.held.arrow(verdicts(place, table.schema, predicates), (), "compared")


ASKED_FOR = (pytest.mark.engines,)
SPARK_DIFFERS = frozenset({"doubles", "uuids", "zones"})
ENGINES = [
    Tested("DuckDB", in_memory, duck_together),
    Tested("DuckDB file", in_a_file, effort=0.25, keeps=True),
    Tested("Parquet", in_parquet, effort=0.25),
    Tested("PostgreSQL", on_a_server, server_together, effort=0.5, keeps=True, ordered=False),
    Tested(
        "Spark",
        on_spark,
        spark_together,
        effort=0.25,
        ordered=False,
        differs=SPARK_DIFFERS,
        share=SHARE,
        marks=ASKED_FOR,
    ),
]
PARAMETERS = [pytest.param(each, id=each.name, marks=each.marks) for each in ENGINES]
# Other sources of the same engine are another way to its rows: what is made of rows need not be asked of each.
DIFFERENT = pytest.mark.parametrize(
    "engine",
    [pytest.param(each, id=each.name, marks=each.marks) for each in ENGINES if each.together],
    indirect=True,
    scope="session",
)
