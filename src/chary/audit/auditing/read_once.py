"""Rows that never change and are read once, so that many transcripts cost one scan."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chary.data import Reading, RowTable
from chary.data.engines.protocol import ElementReading, LivingReading
from chary.data.queries.ordered import Mark, Ordered
from chary.data.queries.query import Query
from chary.data.rows import ReadingPlan, Rooms


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


@dataclass
class KeptLiving:
    """Living units whose answers are kept for as long as the same may take part. Secret."""

    reading: LivingReading
    rooms: Rooms | None = field(default=None, repr=False)
    answered: list[Any] = field(default_factory=list, repr=False)
    took: dict[tuple[int, ...], Any] = field(default_factory=dict, repr=False)

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator["KeptLiving"]:
        """What was read of these the first time."""
        if self.rooms is not rooms:
            with self.reading.at(rooms) as units:
                self.answered, self.took = [units.answers()], {}
            self.rooms = rooms
        yield self

    def answers(self) -> Any:
        """The answers."""
        return self.answered[0]

    def of(self, positions: Sequence[int]) -> Any:
        """Who took part in some."""
        asked = tuple(positions)
        if self.rooms is not None and asked not in self.took:
            with self.reading.at(self.rooms) as units:
                units.answers()
                self.took[asked] = units.of(positions)
        return self.took[asked]


@dataclass
class KeptElements:
    """Elements whose words are kept for each key. Secret."""

    reading: ElementReading
    found: dict[tuple[str, Mark | None], Any] = field(default_factory=dict, repr=False)

    def words(self, key: str, since: Mark | None = None) -> Any:
        """What was read under this key the first time."""
        if (key, since) not in self.found:
            self.found[key, since] = self.reading.words(key, since)
        return self.found[key, since]


def kept(value: Any) -> Any:
    """What a plan has read, so that it is read once also where what is read of it is known only later."""
    if hasattr(value, "words"):
        return KeptElements(value)
    return KeptLiving(value) if hasattr(value, "at") else value
