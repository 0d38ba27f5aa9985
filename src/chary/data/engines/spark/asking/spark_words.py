"""Reading elements as keyed 64-bit words, by Spark."""

from typing import TYPE_CHECKING, Final

import numpy as np

from chary.data.columns import Schema, TypeClass, classify
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.element_rows import element_column, element_rows
from chary.data.engines.spark.asking.spark_texts import has_text, text_of
from chary.data.engines.spark.spark_dialect import SPARK
from chary.data.engines.spark.spark_work import ROWS, fresh
from chary.data.queries.elements import Elements, Mark, Words
from chary.errors import InvalidQuery

if TYPE_CHECKING:
    from chary.data.engines.spark.spark_rows import SparkRows

# A letter for the kind keeps the number 1 and the text '1' apart.
_LETTERS: Final = {
    TypeClass.INTEGER: "i",
    TypeClass.STRING: "s",
    TypeClass.DATE: "d",
    TypeClass.TIMESTAMP: "t",
    TypeClass.OTHER: "o",
}
_DOING: Final = "read the elements"


class SparkElements:
    """See `ElementReading`; all rows are read each time."""

    def __init__(self, rows: "SparkRows", asked: Elements) -> None:
        self._rows, self._name = rows, fresh("elements")
        text = _text(rows.schema, element_column(asked, rows.unit))
        place = QueryPlace(ROWS, "", SPARK)
        chosen = place.sql(element_rows(asked, rows.schema, rows.unit, place))
        self._texts = f"SELECT {text} AS text FROM ({chosen})"

    def run(self) -> "SparkElements":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read: see `ElementReading`."""
        # The key is a row and no literal: what Spark shows of a query to whoever looks at its pages holds literals.
        name, work = fresh("key"), self._rows.work
        hashed = f"SELECT sha2(concat(secret, text), 256) AS word FROM ({self._texts}) CROSS JOIN {name}"
        halves = ", ".join(f"CAST(conv(substr(word, {at}, 8), 16, 10) AS BIGINT) AS w{at}" for at in (1, 9))
        with self._rows.state():
            work.offer(name, {"secret": ("string", [key])})
            found = work.read(f"SELECT {halves} FROM ({hashed})", _DOING)
            work.retire(name)
        high, low = (found[half].to_numpy().astype(np.uint64) for half in ("w1", "w9"))
        return (high << np.uint64(32)) | low, Mark(self._name, 0)

    def __repr__(self) -> str:
        return "SparkElements()"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind is TypeClass.BOOLEAN:
        return "concat('i', CAST(CAST(element AS BIGINT) AS STRING))"
    if not has_text(schema, column):
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements by Spark")
    return f"concat('{_LETTERS[kind]}', {text_of('element', kind)})"
