"""What every answer is: a public value, rebuilt identically from the ledger, that knows what it was charged."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from chary.accounting.findings import Finding, Findings, Inference
from chary.amounts import Amount
from chary.charts import Chart, Shape, Spot, plotter, spot_of
from chary.errors import InvalidParameter
from chary.numbers import (
    ACCOUNTANTS,
    CONFIDENT,
    EVERY_CHARGED,
    LAST,
    MISSES_ENDED,
    RAW,
    REPEATED,
    asked_again,
    between,
    percent,
    priced,
    set_fields,
    shown,
)

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
    """A source of answers, which knows their cost."""

    def charged(self, calls: Sequence[int]) -> Spending:
        """What these calls were charged together."""

    def remaining(self) -> Spending:
        """What the analyst could still spend now."""

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss."""

    def asked(self, call: Any, request: str | None) -> Any:
        """The answer to a further call, under a request."""

    def asked_before(self, call: int) -> int | None:
        """The earlier call whose question this one repeats without need; None where it is not known to repeat one."""


class PublishedNumber(NamedTuple):
    """A number that was published, with its interval and caution; `key` is empty where it is the only one."""

    key: Key
    value: Value
    interval: Ends | None
    caution: str | None

    @property
    def name(self) -> str:
        """Its group in words."""
        return ", ".join(map(str, self.key))

    @property
    def spot(self) -> Spot:
        """The same in a picture."""
        return spot_of(self.name, self.value, self.interval, self.caution)


@dataclass(frozen=True)
class Answer:
    """The answer of call `call`. Answers to one question under one idempotency key are equal, fresh or repeated.

    Each kind of answer has a `value`: what was published, or None where nothing was. `limits` says which values, rows
    and groups its query counts, such as "values are clipped to 0 to 25". A session sets it, for calls of one query.
    """

    call: int
    limits: str = field(default="", repr=False, compare=False, kw_only=True)
    _cashier: Cashier | None = field(default=None, init=False, repr=False, compare=False)
    _repeated: bool = field(default=False, init=False, repr=False, compare=False)
    # What commands say of it, of a table beside its rows; None for all public fields.
    also: ClassVar[str | None] = None
    # Whether another call like it is charged as much, whatever comes out.
    one_price: ClassVar[bool] = False
    # The field or property that says whether it is a hit; None for a call without a target.
    hit_if: ClassVar[str | None] = None

    if TYPE_CHECKING:

        @property
        def value(self) -> Any:
            """What was published."""

    @property
    def hit(self) -> bool:
        """Whether the outcome was in the target, which is what is charged; True for a call without a target."""
        return self.hit_if is None or bool(getattr(self, self.hit_if))

    def __bool__(self) -> bool:
        """`InvalidParameter` for an answer that may be a miss: a miss is an answer too, and would pass for a hit."""
        if self.hit_if is not None or type(self).hit is not Answer.hit:
            raise InvalidParameter("a miss is an answer too: ask whether it is a hit, as in: if answer.hit")
        return True

    @property
    def inference(self) -> Inference | None:
        """How its values were published, from which follows what they say; None where that is not known."""
        told: Inference | None = getattr(self, "publication", None) or getattr(self, "told", None)
        return told

    @property
    def interval(self) -> Ends | None:
        """The 95 % confidence interval, given that the value was published, whatever made it be published.

        An end that is None does not exist: a hit without a lower end may be a false alarm. The interval is None
        where there is no value, or where its width depends on the data.
        """
        return None

    @property
    def interval_says(self) -> str:
        """What the interval holds for, or why there is none, in words."""
        if self.interval is None:
            return "no interval: nothing was published whose error is known"
        held = f"the interval holds with {CONFIDENT}"
        if any(found.p_value is not None for found in self.findings):
            held += ", given that the value was published"
        return "; ".join((held, *self._notes))

    @property
    def _notes(self) -> list[str]:
        """What to know of a value apart from its interval."""
        return [*([RAW] if self._raw else []), *([self.limits] if self.limits else [])]

    @property
    def _raw(self) -> bool:
        """Whether a value lies outside of its own interval."""
        return raw(self.value, self.interval)

    @property
    def findings(self) -> Findings:
        """The values that were published, with how: intervals that hold all at once, p-values, alarms to act on.

        `answer.findings.intervals(simultaneous=True)`, `answer.findings.list(fdr=0.1)`. Empty where nothing was
        published, or nothing is known of the noise.
        """
        if (told := self.inference) is None:
            return Findings(())
        values = self.value if isinstance(self.value, Mapping) else {None: self.value}
        return Findings.of(Finding(self.call, key, value, told) for key, value in values.items() if value is not None)

    @property
    def caution(self) -> str | None:
        """Such as "may be a false alarm: no lower end"; None where it is none, with 95 % confidence."""
        return next((found.caution for found in self.findings), None)

    @property
    def in_words(self) -> str:
        """What was published, in a line."""
        return "not published" if self.value is None else in_text(self.value)

    def numbers(self) -> Iterator[PublishedNumber]:
        """The numbers that were published."""
        if _is_number(self.value):
            yield PublishedNumber((), self.value, self.interval, self.caution)

    def figures(self) -> dict[str, Any]:
        """What commands say of it, by names: what was published, what that says of the truth, and its call."""
        names = _public(self)[1:] if self.also is None else self.also.split()
        low, high = self.interval or (None, None)
        p_value = next((found.p_value for found in self.findings), None)
        says = {"low": low, "high": high, "p_value": p_value, "caution": self.caution, "call": self.call}
        return {name: in_json(getattr(self, name)) for name in names} | says

    @property
    def charged(self) -> Spending:
        """What the call was charged, as a fraction of the budget."""
        return self._handed_out_by().charged(self._numbers())

    @property
    def repeated(self) -> bool:
        """Whether it was stored under its idempotency key before it was asked for, and so was free this time. Only a
        session of this process says so, and no service."""
        return self._repeated

    @property
    def left(self) -> Spending:
        """What the analyst could still spend now."""
        return self._handed_out_by().remaining()

    def to_dict(self) -> dict[str, Any]:
        """The answer in what JSON has, with its cost where a session handed it out."""
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
            raise InvalidParameter("only answers with several values have a picture, such as those of groups")
        drawing = plotter()
        return drawing.plotted(chart) if path is None else drawing.save(chart, path)

    def _numbers(self) -> Sequence[int]:
        """The calls that were charged for it."""
        return (self.call,)

    def _handed_out_by(self) -> Cashier:
        if self._cashier is None:
            raise InvalidParameter("only an answer that a session handed out knows its cost: session.ask(...)")
        return self._cashier

    def __getstate__(self) -> dict[str, Any]:
        """A copy for another process knows no ledger."""
        return {name: value for name, value in self.__dict__.items() if name != "_cashier"}

    @property
    def price(self) -> str | None:
        """What was charged for it, what is left, whether free misses have ended and whether the same was asked before;
        None for a copy, which knows no session."""
        if self._cashier is None:
            return None
        charged, left = self.charged.share, self.left.share
        if self._repeated:
            return f"{REPEATED}, {percent(left)} left"
        told = [priced(charged, left)]
        if self._cashier.free_misses_ended:
            told.append(f"{MISSES_ENDED}: {EVERY_CHARGED}")
        elif self.one_price and 0 < left < charged:
            told.append(LAST)
        # Tests are meant to be asked again: a miss is free, and a hit says more.
        always = self.hit_if is None and type(self).hit is Answer.hit
        if charged and always and (before := self._cashier.asked_before(self.call)) is not None:
            told.append(asked_again(before))
        return "; ".join(told)

    def _told(self) -> dict[str, str]:
        """What people are reported, by names: what was published and what it says, without the accounting."""
        left_out = ACCOUNTANTS | {"call"}
        told = {name: getattr(self, name) for name in (*_public(self), "value") if name not in left_out}
        told |= {"interval": None if self.interval is None else between(*self.interval)}
        told |= {"note": "; ".join(self._notes) or None, "caution": self.caution}
        known = {name: value for name, value in told.items() if value is not None or name == "value"}
        return {name.replace("_", " "): in_text(value) for name, value in known.items()}

    def __str__(self) -> str:
        told, price = ", ".join(f"{name} {text}" for name, text in self._told().items()), self.price
        return told if price is None else f"{told}; {price}"

    def _repr_html_(self) -> str:
        return _html([{"": name, "answer": text} for name, text in self._told().items()], self.price)


@dataclass(frozen=True)
class Table(Answer):
    """An answer with a row for each group: iterate over its rows, look one up by `answer[key]`, or take all elsewhere.

    `columns` names the parts of a group. A key of one column may be looked up by its value alone.
    """

    columns: tuple[str, ...]
    keys: tuple[Key, ...]
    also: ClassVar[str] = "error_bar"
    # What commands call its rows.
    noun: ClassVar[str] = "values"

    def cells(self, position: int) -> dict[str, Any]:
        """What is said of the key at this position, by names that are the same for all keys."""
        raise NotImplementedError

    @property
    def interval_says(self) -> str:
        if not self.value:
            return "no interval: nothing was published"
        told = self.inference
        held = f"each interval holds with {CONFIDENT} for its own row, not for all rows together"
        if told is not None and told.at_once:
            held = f"all intervals hold together with {CONFIDENT}"
        return "; ".join((held, *self._notes))

    @property
    def _raw(self) -> bool:
        return any(raw(row.get("value"), (row.get("low"), row.get("high"))) for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a key, in the order they were listed: its parts, and what is said of it."""
        return [self._row(position) for position in range(len(self.keys))]

    def _row(self, position: int) -> dict[str, Any]:
        return dict(zip(self.columns, self.keys[position], strict=True)) | self.cells(position)

    @property
    def caution(self) -> None:
        """Each row has its own."""

    @property
    def in_words(self) -> str:
        return f"{len(self)} values" if len(self) != 1 else "1 value"

    def numbers(self) -> Iterator[PublishedNumber]:
        for key, row in zip(self.keys, self.rows(), strict=True):
            value: Any = row.get("value", row.get("score"))
            ends = (row.get("low"), row.get("high"))
            if _is_number(value):
                yield PublishedNumber(key, value, None if ends == (None, None) else ends, row.get("caution"))

    def figures(self) -> dict[str, Any]:
        also = {name: in_json(getattr(self, name)) for name in self.also.split()}
        return {self.noun: list(self._told_rows())} | also | {"call": self.call}

    def _told_rows(self) -> Iterator[dict[str, Any]]:
        """What commands say of each row."""
        for position, key in enumerate(self.keys):
            yield {"key": list(key)} | in_json(self.cells(position))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.keys)

    def __bool__(self) -> bool:
        return super().__bool__() and len(self) > 0

    def __getitem__(self, key: Any) -> dict[str, Any]:
        wanted = key if isinstance(key, tuple) else (key,)
        if wanted not in self.keys:
            raise KeyError(key)
        return self._row(self.keys.index(wanted))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; a column of several types, or of numbers beyond 64 bits, is one of JSON
        strings."""
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
        spots = tuple(number.spot for number in self.numbers())
        if not spots:
            return None
        ranges = all(hasattr(key[0], "low") for key in self.keys)
        shape: Shape = "line" if self.columns == ("position",) else "columns" if ranges else "dots"
        return Chart(shape, f"By {', '.join(self.columns)}", spots, self.bar)

    @property
    def bar(self) -> float | None:
        """The threshold that its values reached; None where there is none, or it is not known."""
        return None

    def __str__(self) -> str:
        # Hits come first where not all rows are shown.
        told = self.rows() if len(self) <= _MOST_ROWS else sorted(self.rows(), key=lambda row: not row.get("hit", True))
        rows = [{name: shown(value) for name, value in row.items()} for row in told[:_MOST_ROWS]]
        more = [f"... and {len(self) - _MOST_ROWS:,} more"] if len(self) > _MOST_ROWS else []
        return "\n".join([*_lines(rows), *more, *self._notes, *([] if self.price is None else [self.price])])

    def _repr_html_(self) -> str:
        below = "; ".join([*self._notes, *filter(None, [self.price])])
        table = _html([{name: shown(value) for name, value in row.items()} for row in self.rows()], below or None)
        chart = self.chart() if len(self) > 1 else None
        # A notebook shows the table where nothing can be drawn.
        with suppress(InvalidParameter):
            return table if chart is None else f"{table}{plotter().svg(chart)}"
        return table


@dataclass(frozen=True)
class NoisyNumber(Answer):
    """One noisy number. `error_bar` is half the width of its 95 % interval, None where it depends on the data
    (means).

    >>> NoisyNumber(call=1, value=512, error_bar=30.0).interval
    (482.0, 542.0)
    """

    value: Value
    error_bar: float | None
    one_price = True
    told: Inference | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def interval(self) -> Ends | None:
        return around(self.value, self.error_bar, self.told)

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class NoisyNumbers(Table):
    """One noisy number for each group, in the order the groups were listed; `error_bar` holds for each of them.

    >>> NoisyNumbers(1, ("clinic",), (("north",), ("south",)), (512, 77), 30.0)["south"]
    {'clinic': 'south', 'value': 77, 'low': 47.0, 'high': 107.0}
    """

    values: tuple[Value, ...]
    error_bar: float | None
    one_price = True
    told: Inference | None = field(default=None, repr=False, compare=False, kw_only=True)

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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def raw(value: Any, ends: Ends | None) -> bool:
    """Whether a value lies outside of its interval, which ends where the truth can be; the value is not moved there.

    >>> raw(-11, (0.0, 9.0)), raw(3, (0.0, 9.0)), raw(12, (None, 9.0)), raw(-11, None)
    (True, False, True, False)
    """
    if ends is None or not _is_number(value):
        return False
    low, high = ends
    return (low is not None and value < low) or (high is not None and value > high)


def in_row(interval: Ends | None) -> dict[str, float | None]:
    """An interval as cells of a row."""
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def handed_out(answer: Handed, cashier: Cashier, *, repeated: bool = False) -> Handed:
    """The answer, which can look up its cost from now on."""
    if isinstance(answer, Answer):
        set_fields(answer, _cashier=cashier, _repeated=repeated)
    return answer


def counting(answer: Handed, *asked: object) -> Handed:
    """The answer, which says what the first of these counts that does not count all."""
    said = next((limits for each in asked if (limits := getattr(each, "limits", ""))), "")
    if said and isinstance(answer, Answer):
        set_fields(answer, limits=said)
    return answer


def scalar(key: Key) -> Any:
    """A group as people write it: the value alone for one column, a tuple for several."""
    return key[0] if len(key) == 1 else key


def bytes_in_json(value: bytes) -> dict[str, str]:
    """Bytes as JSON: in base64, with the SHA-256 that says them from any other object.

    >>> bytes_in_json(b"ab")["bytes"]
    'YWI='
    """
    return {"bytes": base64.b64encode(value).decode(), "sha256": hashlib.sha256(value).hexdigest()}


def with_bytes(value: Any) -> Any:
    """JSON in which what `bytes_in_json` made is bytes again; an object whose hash is another stays one.

    >>> with_bytes([1, bytes_in_json(b"ab")]), with_bytes({"bytes": "YWI=", "sha256": "no"})
    ([1, b'ab'], {'bytes': 'YWI=', 'sha256': 'no'})
    """
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"bytes", "sha256"} and isinstance(value["bytes"], str):
        with suppress(binascii.Error, ValueError):
            found = base64.b64decode(value["bytes"], validate=True)
            if bytes_in_json(found) == value:
                return found
    return {name: with_bytes(each) for name, each in value.items()}


def in_text(value: Any) -> str:
    """A value of an answer for people, who see of bytes only how many there are.

    >>> in_text([1, b"ab"])
    '1, 2 bytes of SHA-256 fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603'
    """
    return shown(_without_bytes(with_bytes(in_json(value))))


def _without_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes of SHA-256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, dict):
        return {name: _without_bytes(each) for name, each in value.items()}
    return [_without_bytes(each) for each in value] if isinstance(value, list) else value


def in_json(value: Any) -> Any:
    """A value of an answer in what JSON has; what it has no word for as text."""
    if isinstance(value, bytes):
        return bytes_in_json(value)
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


def _lines(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """A table of strings in columns."""
    table = [list(rows[0] if rows else ()), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in table]


def _html(rows: Sequence[Mapping[str, str]], price: str | None) -> str:
    """A table of strings, and the cost below it; whatever is in them is text and no markup."""
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows)
    below = "" if price is None else f"<p>{escape(price)}</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
