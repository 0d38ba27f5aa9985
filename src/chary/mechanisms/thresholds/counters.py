"""Counters for individual charging ([TCT] Algorithm 5): how many published answers each unit took part in."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chary.errors import InvalidParameter
from chary.mechanisms.padding import padded, unpadded
from chary.numbers import whole

_ABOUT = b"chary"
_UNITS = pa.schema([("unit", pa.int64()), ("used", pa.int64())])
_ROOM = 2**14  # for some ten thousand units, compressed, and little beside the pages that a charge writes anyway


@dataclass(frozen=True, eq=False)
class Counters:
    """The counters of one stream: secret state, shown nowhere.

    `used` has a row for each unit that took part in a published answer: its id `unit` (int64 or string, ascending) and
    `used`, from 1 to `hits`; with `hits` it is out. `published` counts the published answers, so that the state of a
    stream never returns to an earlier one. A counter beyond `hits` raises `InvalidParameter`: it would be a unit that
    paid more than it had.

    >>> counters = Counters(hits=2).raised(pa.table({"unit": [7, 3], "used": [1, 2]}))
    >>> counters
    Counters(hits=2, <secret>)
    >>> counters.rooms().to_pydict()
    {'unit': [3, 7], 'room': [0, 1]}
    """

    hits: int
    published: int = 0
    used: Any = field(default_factory=_UNITS.empty_table)

    def __post_init__(self) -> None:
        whole(self.hits, "hits")
        counts = self.used["used"].to_numpy()
        if len(counts) and not 1 <= counts.min() <= counts.max() <= self.hits:
            raise InvalidParameter("a unit takes part in at least one and at most `hits` published answers")

    def raised(self, took: Any) -> "Counters":
        """The counters after one more published answer; `took` says which units took part, and in how many keys."""
        both = [part.cast(_schema(part)) for part in (self.used, took) if len(part)]
        if not both:
            return Counters(self.hits, self.published + 1)
        ordered = pa.concat_tables(both).sort_by("unit").combine_chunks()
        units = ordered["unit"].combine_chunks()
        changes = pc.not_equal(units[1:], units[:-1]).to_numpy(zero_copy_only=False)
        firsts = np.flatnonzero(np.concatenate([[True], changes]))
        sums = np.add.reduceat(ordered["used"].to_numpy(), firsts)
        return Counters(self.hits, self.published + 1, pa.table({"unit": units.take(firsts), "used": sums}))

    def rooms(self) -> Any:
        """How often each counted unit may still take part: columns `unit` and `room`."""
        return pa.table({"unit": self.used["unit"], "room": pc.subtract(self.hits, self.used["used"])})

    def dump(self) -> bytes:
        """The state for the ledger's secret table: compressed, integer ids as differences.

        How many units it counts is secret, and no public number bounds it: its length is that of the next power of two.
        """
        units = self.used["unit"].combine_chunks()
        if pa.types.is_int64(units.type):
            units = pa.array(np.diff(units.to_numpy(), prepend=np.int64(0)))
        table = pa.table({"unit": units, "used": self.used["used"]})
        about = {_ABOUT: json.dumps([self.hits, self.published]).encode()}
        sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema.with_metadata(about), options=options) as writer:
            writer.write_table(table)
        return padded(bytes(sink.getvalue()), _ROOM)

    @classmethod
    def load(cls, data: bytes) -> "Counters":
        """The state that `dump` wrote."""
        with pa.ipc.open_stream(unpadded(data)) as reader:
            table = reader.read_all()
        hits, published = json.loads(table.schema.metadata[_ABOUT])
        units = table["unit"].combine_chunks()
        if pa.types.is_int64(units.type):
            units = pa.array(np.cumsum(units.to_numpy()))
        return cls(hits, published, pa.table({"unit": units, "used": table["used"]}))

    def __repr__(self) -> str:
        return f"Counters(hits={self.hits}, <secret>)"


def _schema(table: Any) -> Any:
    kind = pa.int64() if pa.types.is_int64(table.schema.field("unit").type) else pa.large_string()
    return pa.schema({"unit": kind, "used": pa.int64()})
