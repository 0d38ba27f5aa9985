"""Where the rows are that Spark reads, and where those are that are added."""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from chary.data.engines.spark.holding.spark_files import SeenFile, check_unchanged
from chary.data.engines.spark.holding.spark_types import backquoted, read_columns
from chary.data.engines.spark.spark_work import ROWS
from chary.data.rows.batch import Arrival, Batch


class Holding(Protocol):
    """Rows in Spark's hands. Its members are called by one thread at a time."""

    @property
    def keeps_batches(self) -> bool:
        """Whether what is added outlives this process."""
        ...

    def check(self) -> None:
        """`EngineFailure` if the rows are not those that were there."""
        ...

    def frames(self, session: Any) -> Sequence[Any]:
        """Data frames whose rows together are all there are now."""
        ...

    def batches(self) -> Sequence[Batch]:
        """What was added, in order."""
        ...

    def add(self, rows: pa.Table, request: str | None, size: int, arrive: Arrival) -> Batch:
        """Add rows, after which there are `size`; nothing is there if it fails."""
        ...


class RowsInSession:
    """Rows of files, of a table or of a frame, none of which is written: what is added lives as long as the session."""

    keeps_batches = False

    def __init__(self, first: Any, files: Sequence[SeenFile] = ()) -> None:
        """Of a data frame, and the files it reads."""
        self._frames, self._files = [first], files
        self._batches: list[Batch] = []
        self._added: list[pa.Table] = []

    def check(self) -> None:
        check_unchanged(self._files)

    def frames(self, session: Any) -> Sequence[Any]:
        while len(self._frames) <= len(self._added):
            self._frames.append(session.createDataFrame(self._added[len(self._frames) - 1]))
        return self._frames

    def batches(self) -> Sequence[Batch]:
        return self._batches

    def add(self, rows: pa.Table, request: str | None, size: int, arrive: Arrival) -> Batch:
        batch = Batch(len(self._batches) + 1, request, size)
        arrive(batch)
        self._added.append(rows)
        self._batches.append(batch)
        return batch


def define(session: Any, frames: Sequence[Any], unit: str | None, name: str = ROWS) -> None:
    """Make a temporary view of the rows, each column brought to its class."""
    parts = [_classed(frame, unit) for frame in frames]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    whole.createOrReplaceTempView(name)


def _classed(frame: Any, unit: str | None) -> Any:
    return frame.selectExpr(*(f"{column.sql} AS {backquoted(column.name)}" for column in read_columns(frame, unit)))
