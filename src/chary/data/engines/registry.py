"""The engine of a source: the one place that names engines and starts those that are not always installed."""

import importlib
from typing import Any, Final

from chary.data.engines.duckdb.engine import DuckDB
from chary.data.engines.protocol import Engine
from chary.data.source import RowSource
from chary.errors import InvalidParameter

EMBEDDED: Final[Engine] = DuckDB()
"""The engine within this process, for whatever needs one and has no rows elsewhere."""


def engine_of(source: RowSource) -> Engine:
    """The engine that holds the rows of a source, or that was named for it; `InvalidParameter` if it is not installed.

    >>> engine_of(RowSource("frame")) is EMBEDDED
    True
    """
    if source.kind == "postgresql":
        return _postgresql()
    return EMBEDDED if source.engine is None else _spark(source.engine)


def _spark(named: Any) -> Engine:
    # Spark's package takes a second to import, and is there only for who asked for it.
    engine: Engine = importlib.import_module("chary.data.engines.spark.engine").Spark(EMBEDDED, named)
    return engine


def _postgresql() -> Engine:
    try:
        engine: Engine = importlib.import_module("chary.data.engines.postgresql.engine").PostgreSQL(EMBEDDED)
    except ImportError:
        missing = InvalidParameter("the driver of PostgreSQL is missing: pip install 'chary[postgresql]'")
    else:
        return engine
    raise missing
