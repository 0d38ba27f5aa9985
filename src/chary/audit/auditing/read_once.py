"""Rows that never change and are read once, so that many transcripts cost one scan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chary.data import Reading, RowTable
from chary.data.queries.ordered_values import Ordered
from chary.data.queries.query import Query
from chary.data.rows.rows import ReadingPlan


@dataclass
class KeptReading:
    """A reading whose first result is returned ever after. Secret."""

    reading: Any
    found: list[Any] = field(default_factory=list, repr=False)

    @property
    def query(self) -> Any:
        """What is asked."""
        return self.reading.query

    def run(self) -> Any:
        """What was read the first time."""
        if not self.found:
            self.found.append(self.reading.run())
        return self.found[0]


class ReadOnce(RowTable):
    """A table whose answers are kept, for simulated sessions only: rows that are appended change no kept answer."""

    def prepare(self, query: Query) -> ReadingPlan:
        return self._first(query, lambda: RowTable.prepare(self, query))

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        return self._first(
            ("columns", columns if columns is None else tuple(columns)), lambda: RowTable.snapshot(self, columns)
        )

    def ordered(self, asked: Ordered) -> Reading:
        return self._first(asked, lambda: RowTable.ordered(self, asked))

    def _first(self, asked: Any, make: Callable[[], Any]) -> KeptReading:
        readings: dict[Any, KeptReading] = self.__dict__.setdefault("_readings", {})
        if asked not in readings:
            readings[asked] = KeptReading(make())
        return readings[asked]

    def close(self) -> None:
        """Sessions come and go; whoever opened the rows ends them with `end`."""

    def end(self) -> None:
        """Release the engine."""
        super().close()
