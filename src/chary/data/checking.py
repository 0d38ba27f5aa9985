"""What a custodian looks at before rows are opened for questions: what of them cannot be read. It is not private."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from chary.data.columns import SQL_TYPES, TypeClass, Unparsed
from chary.data.files.dialect import CSV
from chary.data.files.lines import read_texts
from chary.data.files.sources import RowSource
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.queries.count import count
from chary.data.rows.table import RowTable

NOT_PRIVATE: Final = (
    "NOT PRIVATE. These are exact figures of the rows, for who owns them. Show them to no analyst, and publish none."
)


@dataclass(frozen=True)
class Check:
    """How rows are read: exact figures, which no privacy protects. Made by `check`.

    `types` are by column, as declared where they are; `unparsed` are the columns in which cells are not of their type;
    `lengths` are the fewest and most characters of a cell, for each column of texts that holds any.
    """

    rows: int
    types: Mapping[str, str]
    unparsed: Mapping[str, Unparsed]
    lengths: Mapping[str, tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        """Rows, and of each column its type and how many cells are not of it; the form never changes."""
        columns = {name: {"type": kind, "unparsed": self._missed(name)} for name, kind in self.types.items()}
        return {"rows": self.rows, "columns": columns}

    def _missed(self, name: str) -> int:
        return self.unparsed[name].cells if name in self.unparsed else 0


def check(
    source: Any,
    *,
    columns: dict[str, str] | None = None,
    csv: CSV | None = None,
    infer_types: bool = False,
    table: str | None = None,
) -> Check:
    """How many rows there are, and by column how many cells are not of the type declared for it.

    This is for who owns the rows, before others ask about them: **the figures are exact and not private**. A session
    and a service tell an analyst nothing of it. The parameters are those of `open`, which reads the rows in the same
    way. Cells that are empty, blank or NULL are of every type. Sources with types of their own, such as Parquet and
    DuckDB files, have no such cells. Nothing is charged and no ledger is made.

    Errors: those of `open` for the source.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"day": ["2017-01-01", "1/2/2017", None], "age": ["70", "81", "old"]}, dtype=object)
    >>> check(visits, columns={"day": "DATE"}).as_dict()
    {'rows': 3, 'columns': {'day': {'type': 'DATE', 'unparsed': 1}, 'age': {'type': 'VARCHAR', 'unparsed': 0}}}
    """
    # Neighbours do not matter where nothing is asked privately.
    read: dict[str, Any] = {"columns": columns, "csv": csv, "infer_types": infer_types, "table": table}
    rows = RowTable.open(source, neighbouring=Neighbouring(Relation.REPLACE, None), **read)
    with closing(rows):
        found = int(rows.prepare(count()).run())
        texts = _texts(RowSource.of(source, table, columns, said=csv, infers=infer_types), rows)
    types = {name: SQL_TYPES.get(kind, kind.upper()) for name, kind in rows.schema.items()} | (columns or {})
    return Check(
        found, types, rows.unparsed, {name: ends for name in texts if (ends := _ends(texts[name])) is not None}
    )


def _texts(source: RowSource, rows: RowTable) -> dict[str, Any]:
    """The columns of texts, as they are written."""
    if source.kind == "csv":
        written = read_texts(source.paths, source.dialect, list(source.types))
        return dict(zip(written.column_names, written.columns, strict=True))
    objects = {name: source.frame[name] for name in source.objects}
    names = [name for name, kind in rows.schema.items() if kind == TypeClass.STRING and name not in objects]
    held = rows.snapshot(names).run() if names else {}
    return {
        name: objects[name] if name in objects else held[name] for name in rows.schema if name in {*objects, *names}
    }


def _ends(cells: Any) -> tuple[int, int] | None:
    found = pc.min_max(pc.utf8_length(cells)).as_py()
    return None if found["min"] is None else (found["min"], found["max"])
