"""What every answer is: a public value, rebuilt identically from the ledger, that knows what it was charged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from chary.accounting.findings import Finding, Findings, Inference
from chary.amounts import Amount
from chary.charts import Chart, Shape, spot_of
from chary.errors import InvalidParameter
from chary.numbers import ACCOUNTANTS, EVERY_CHARGED, MISSES_ENDED, RAW, percent, plain, priced, set_fields

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Value = int | float
Ends = tuple[float | None, float | None]
Key = tuple[Any, ...]
Handed = TypeVar("Handed")
# Of a longer table a text shows so many rows, and says how many it left out.
_MOST_ROWS: Final = 30


@dataclass(frozen=True)
class Spending:
    """How much of the budget is charged or left: `share` of it, and the same in the filter's own `unit`.

    This is bookkeeping, not a guarantee: the promise is the whole budget. What was published so far is not covered by
    the part that was charged, since what is charged depends on the outcomes.
    """

    share: float
    charged: float
    unit: str
    amount: Amount

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return {"share": self.share, "charged": self.charged, "unit": self.unit}

    def __str__(self) -> str:
        return percent(self.share)


class Cashier(Protocol):
    """Who hands answers out, and knows their price."""

    def charged(self, calls: Sequence[int]) -> Spending:
        """What these calls were charged together."""

    def remaining(self) -> Spending:
        """What the analyst could still spend now."""

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss."""


@dataclass(frozen=True)
class Answer:
    """The answer of call `call`. Answers to one question under one request key are equal, fresh or repeated.

    Each kind of answer has a `value`: what was published, or None where nothing was.
    """

    call: int
    _cashier: Cashier | None = field(default=None, init=False, repr=False, compare=False)

    if TYPE_CHECKING:

        @property
        def value(self) -> Any:
            """What was published."""

    @property
    def hit(self) -> bool:
        """Whether the outcome was in the target, which is what is charged; True for a call without a target."""
        return True

    @property
    def interval(self) -> Ends | None:
        """Covers the truth 95 times in 100, given that the value was published, whatever made it be published.

        An end that is None does not exist: without a lower end a hit may be a false alarm. None in all where there is
        no value, or the width depends on the data.
        """
        return None

    @property
    def interval_says(self) -> str:
        """What the interval holds for, or why there is none, in words."""
        if self.interval is None:
            return "no interval: nothing was published whose error is known"
        held = "the interval holds 95 times in 100, given that the value was published"
        return f"{held}; {RAW}" if raw(self.value, self.interval) else held

    @property
    def findings(self) -> Findings:
        """The values that were published, with how: intervals that hold all at once, p-values, alarms to act on.

        `answer.findings.intervals(simultaneous=True)`, `answer.findings.list(fdr=0.1)`. Empty where nothing was
        published, or nothing is known of the noise.
        """
        return Findings(())

    @property
    def charged(self) -> Spending:
        """What the call was charged, as a share of the budget."""
        return self._handed_out_by().charged(self._numbers())

    @property
    def left(self) -> Spending:
        """What the analyst could still spend now."""
        return self._handed_out_by().remaining()

    def to_dict(self) -> dict[str, Any]:
        """The answer in what JSON has, with its price where a session handed it out."""
        names = (*_public(self), "value", "interval", "interval_says", "hit")
        known = {name: in_json(getattr(self, name)) for name in names}
        priced = {} if self._cashier is None else {name: getattr(self, name).share for name in ("charged", "left")}
        return known | priced

    def chart(self) -> Chart | None:
        """What a picture of the answer shows; None where there is nothing to be seen."""
        return None

    def plot(self, path: Path | str | None = None) -> Any:
        """Draw the answer: to a file (PNG, PDF or SVG by its ending), or as a Matplotlib figure. Free.

        Values with their intervals, hits without a lower end marked, the threshold as a line. Errors:
        `InvalidParameter` for an answer of which there is nothing to be seen, another ending and a place where no file
        can be written.
        """
        chart = self.chart()
        if chart is None:
            raise InvalidParameter("only answers with several values have a picture, such as those of keys")
        drawing = import_module("chary.plots")
        return drawing.plotted(chart) if path is None else drawing.save(chart, path)

    def _numbers(self) -> Sequence[int]:
        """The calls that were charged for it."""
        return (self.call,)

    def _handed_out_by(self) -> Cashier:
        if self._cashier is None:
            raise InvalidParameter("only an answer that a session handed out knows its price: session.ask(...)")
        return self._cashier

    def __getstate__(self) -> dict[str, Any]:
        """A copy for another process knows no ledger."""
        return {name: value for name, value in self.__dict__.items() if name != "_cashier"}

    @property
    def price(self) -> str | None:
        """What was charged for it, what is left and whether free misses have ended; None for a copy, which knows no
        session."""
        if self._cashier is None:
            return None
        told = priced(self.charged.share, self.left.share)
        return f"{told}; {MISSES_ENDED}: {EVERY_CHARGED}" if self._cashier.free_misses_ended else told

    def _told(self) -> dict[str, str]:
        """What people are told, by names: what was published and what it says, without the accounting."""
        left_out = ACCOUNTANTS | {"call"}
        told = {name: getattr(self, name) for name in (*_public(self), "value") if name not in left_out}
        known = {name: value for name, value in told.items() if value is not None or name == "value"}
        shown = {name.replace("_", " "): _shown(in_json(value)) for name, value in known.items()}
        if self.interval is None:
            return shown
        return (
            shown | {"interval": _from_to(*self.interval)} | ({"note": RAW} if raw(self.value, self.interval) else {})
        )

    def __str__(self) -> str:
        told = ", ".join(f"{name} {text}" for name, text in self._told().items())
        return told if self.price is None else f"{told}; {self.price}"

    def _repr_html_(self) -> str:
        return _html([{"": name, "answer": text} for name, text in self._told().items()], self.price)


@dataclass(frozen=True)
class Table(Answer):
    """An answer with a row for each key: iterate over its rows, look one up by `answer[key]`, or take all elsewhere.

    `columns` names the parts of a key. A key of one column may be looked up by its value alone.
    """

    columns: tuple[str, ...]
    keys: tuple[Key, ...]

    def cells(self, position: int) -> dict[str, Any]:
        """What is told of the key at this position, by names that are the same for all keys."""
        raise NotImplementedError

    @property
    def interval_says(self) -> str:
        if not self.value:
            return "no interval: nothing was published"
        told: Inference | None = getattr(self, "told", None)
        held = "the interval of each row holds 95 times in 100 for that row, not for all rows together"
        if told is not None and told.at_once:
            held = "the intervals hold 95 times in 100, of all rows together"
        return f"{held}; {RAW}" if self._raw else held

    @property
    def _raw(self) -> bool:
        """Whether a value lies outside of its own interval."""
        return any(raw(row.get("value"), (row.get("low"), row.get("high"))) for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a key, in the order they were listed: its parts, and what is told of it."""
        return [self._row(position) for position in range(len(self.keys))]

    def _row(self, position: int) -> dict[str, Any]:
        return dict(zip(self.columns, self.keys[position], strict=True)) | self.cells(position)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, key: Any) -> dict[str, Any]:
        wanted = key if isinstance(key, tuple) else (key,)
        if wanted not in self.keys:
            raise KeyError(key)
        return self._row(self.keys.index(wanted))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; a column of several types, or of numbers beyond 64 bits, is one of JSON texts."""
        rows = self.rows()
        names = rows[0] if rows else self.columns
        return pa.table({name: _column([in_json(row[name]) for row in rows]) for name in names})

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars data frame; needs Polars."""
        frame: pl.DataFrame = import_module("polars").from_arrow(self.to_arrow())
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The answer in what JSON has, its rows under "rows"."""
        return super().to_dict() | {"rows": in_json(self.rows())}

    def chart(self) -> Chart | None:
        """The values with their intervals: in order for a series, side by side for bins, otherwise largest first."""
        spots = [
            spot_of(", ".join(map(str, key)), row["value"], (row.get("low"), row.get("high")), row.get("caution"))
            for key, row in zip(self.keys, self.rows(), strict=True)
            if isinstance(row.get("value"), (int, float))
        ]
        if not spots:
            return None
        ranges = all(hasattr(key[0], "low") for key in self.keys)
        shape: Shape = "line" if self.columns == ("position",) else "columns" if ranges else "dots"
        return Chart(shape, f"By {', '.join(self.columns)}", tuple(spots), self.bar)

    @property
    def bar(self) -> float | None:
        """The threshold that its values reached; None where there is none, or it is not known."""
        return None

    def __str__(self) -> str:
        rows = [{name: _shown(value) for name, value in row.items()} for row in self.rows()[:_MOST_ROWS]]
        more = [f"... and {len(self) - _MOST_ROWS:,} more"] if len(self) > _MOST_ROWS else []
        more += [RAW] if self._raw else []
        return "\n".join([*_lines(rows), *more, *([] if self.price is None else [self.price])])

    def _repr_html_(self) -> str:
        below = "; ".join(text for text in (RAW if self._raw else None, self.price) if text is not None)
        table = _html([{name: _shown(value) for name, value in row.items()} for row in self.rows()], below or None)
        chart = self.chart() if len(self) > 1 else None
        return table if chart is None else f"{table}{import_module('chary.plots').svg(chart)}"


@dataclass(frozen=True)
class NoisyNumber(Answer):
    """One noisy number. `error_bar` is the half-width of its 95 % interval, None where it depends on the data (means).

    >>> NoisyNumber(call=1, value=512, error_bar=30.0).interval
    (482.0, 542.0)
    """

    value: Value
    error_bar: float | None
    told: Inference | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def interval(self) -> Ends | None:
        return around(self.value, self.error_bar, self.told)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, {None: self.value}, self.told)

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class NoisyNumbers(Table):
    """One noisy number for each key, in the order the keys were listed; `error_bar` holds for each of them.

    >>> NoisyNumbers(1, ("clinic",), (("north",), ("south",)), (512, 77), 30.0)["south"]
    {'clinic': 'south', 'value': 77, 'low': 47.0, 'high': 107.0}
    """

    values: tuple[Value, ...]
    error_bar: float | None
    told: Inference | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, self.value, self.told)

    @property
    def value(self) -> dict[Any, Value]:
        """Key to value; a key of one column is a scalar."""
        return {scalar(key): value for key, value in zip(self.keys, self.values, strict=True)}

    def cells(self, position: int) -> dict[str, Any]:
        return {"value": self.values[position]} | in_row(around(self.values[position], self.error_bar, self.told))


class Known(NamedTuple):
    """What the truth can be, whatever the data; None for no end."""

    floor: int | None = None
    ceiling: int | None = None


def around(value: Value | None, error_bar: float | None, known: Any = None) -> Ends | None:
    """The interval of a value with symmetric noise, if it has one, cut to the range of the truth where it is known."""
    if value is None or error_bar is None:
        return None
    return cut((float(value - error_bar), float(value + error_bar)), known)


def cut(ends: tuple[float, float], known: Any) -> Ends:
    """An interval cut to the `floor` and the `ceiling` of what is known, each where it has one."""
    if known is None:
        return ends
    least = -math.inf if known.floor is None else float(known.floor)
    most = math.inf if known.ceiling is None else float(known.ceiling)
    low, high = (min(max(end, least), most) for end in ends)
    return low, high


def raw(value: Any, ends: Ends | None) -> bool:
    """Whether a value lies outside of its interval, which ends where the truth can be; the value is not moved there.

    >>> raw(-11, (0.0, 9.0)), raw(3, (0.0, 9.0)), raw(12, (None, 9.0)), raw(-11, None)
    (True, False, True, False)
    """
    if ends is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    low, high = ends
    return (low is not None and value < low) or (high is not None and value > high)


def findings_of(call: int, values: Mapping[Any, Value | None], told: Inference | None) -> Findings:
    """The values of one call that were published in this way, by key."""
    if told is None:
        return Findings(())
    return Findings.of(Finding(call, key, value, told) for key, value in values.items() if value is not None)


def in_row(interval: Ends | None) -> dict[str, float | None]:
    """An interval as cells of a row."""
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def handed_out(answer: Handed, cashier: Cashier) -> Handed:
    """The answer, which can look up its price from now on."""
    if isinstance(answer, Answer):
        set_fields(answer, _cashier=cashier)
    return answer


def scalar(key: Key) -> Any:
    """A key as people write it: the value alone for one column, a tuple for several."""
    return key[0] if len(key) == 1 else key


def in_json(value: Any) -> Any:
    """A value of an answer in what JSON has; what it has no word for as text."""
    if isinstance(value, Fraction):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: in_json(getattr(value, name)) for name in _public(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if "__str__" not in type(value).__dict__:
            return in_json(dict(zip(value._fields, value, strict=True)))
        return [in_json(inner) for inner in value]  # an interval, which is two ends whoever worked it out
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: in_json(inner) for name, inner in value.items()}
    if isinstance(value, Mapping):
        return [{"key": in_json(key), "value": in_json(inner)} for key, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [in_json(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([json.dumps(value) for value in values])


def _public(value: Any) -> list[str]:
    return [each.name for each in fields(value) if each.compare]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items() if name not in ACCOUNTANTS)
    return plain(value) if isinstance(value, float) else str(value)


def _from_to(low: float | None, high: float | None) -> str:
    """An interval in words.

    >>> _from_to(482.0, 542.0), _from_to(None, 219.0)
    ('482 to 542', 'no lower end, up to 219')
    """
    if low is None:
        return "no end" if high is None else f"no lower end, up to {plain(high)}"
    return f"{plain(low)} to {plain(high)}" if high is not None else f"from {plain(low)}, no upper end"


def _lines(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """A table of texts in columns."""
    table = [list(rows[0] if rows else ()), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in table]


def _html(rows: Sequence[Mapping[str, str]], price: str | None) -> str:
    """A table of texts, and the price below it; whatever is in them is text and no markup."""
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows)
    below = "" if price is None else f"<p>{escape(price)}</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
