"""The engine that opens sources: the one place that says which."""

from typing import Final

from chary.data.engines.duckdb.duckdb_engine import DuckDB
from chary.data.engines.engine import Engine

ENGINE: Final[Engine] = DuckDB()
