"""Blocks: rows divided by the period of a public date, each period with a budget of its own."""

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, get_args

from chary.data.columns import BLOCK, TypeClass, classify
from chary.data.partition import RowPart
from chary.data.predicates.conditions import Compare, Every, IsNull, Name, Some, read_timestamp
from chary.data.predicates.predicate import Predicate
from chary.data.predicates.terms import Truncated
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import checked, optional, set_fields, whole

Period = Literal["day", "week", "month", "quarter", "year"]
Day = str | date
_PERIODS: Final = get_args(Period)
_MONTHS: Final[Mapping[str, int]] = {"month": 1, "quarter": 3, "year": 12}
# How periods are written; the names of one kind are in the order of time.
_WRITTEN: Final[Mapping[str, re.Pattern[str]]] = {
    "year": re.compile(r"(\d{4})"),
    "quarter": re.compile(r"(\d{4})-Q([1-4])"),
    "month": re.compile(r"(\d{4})-(\d{2})"),
    "week": re.compile(r"(\d{4})-W(\d{2})"),
}


def now() -> datetime:
    """The time that says which block is today's: in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Blocks:
    """Budgets that renew: the rows of each period have the whole budget for themselves.

    - `column` holds the day or the time of a row, whose period is its *block*.
    - `every` is "day", "week" (from Monday), "month", "quarter" or "year".
    - `since` is the first block: its name, such as "2012-01", "2012-Q1", "2012-W05" or "2012", or a day in it.
    - `kept` is how many blocks may be read, today's and the ones before it; older ones are closed. By default all may.

    No question sees rows before `since`, of the future, or without a date. The clock says which block is today's, in
    UTC.

    Guarantee: that of `chary.open` for the rows of one unit in one block (docs/howto/growing.md, budgets that renew).
    Assumed is that the block of a row is public and never changes, which nothing checks.

    Errors: `InvalidParameter` for a column, a period, a day or a number of blocks that is none. Source: M. Lecuyer et
    al., Privacy accounting and quality control in the Sage differentially private ML platform, SOSP 2019, section 3.

    >>> Blocks("day", every="quarter", since="2012-02-29")
    Blocks(column='day', every='quarter', since='2012-Q1', kept=None)
    """

    column: str
    every: Period = "month"
    since: Day = ""
    kept: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidParameter('blocks are of a column of days or times, such as Blocks("day", since="2012-01")')
        if self.every not in _PERIODS:
            raise InvalidParameter(f"every is one of {', '.join(_PERIODS)}, such as every='month'")
        checked(self, kept=optional(whole))
        set_fields(self, since=self.name(self._days(self.since, "since")[0]))

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> "Blocks":
        """The blocks that a ledger stores."""
        return cls(**body)

    def body(self) -> dict[str, Any]:
        """A JSON-able description, under which ledgers keep them."""
        # Ledgers hold it for ever and compare it word by word.
        kept = {} if self.kept is None else {"kept": self.kept}
        return {"column": self.column, "every": self.every, "since": self.since} | kept

    @property
    def text(self) -> str:
        """What divides the rows: a derived column, which is the first day of the block.

        >>> Blocks("day", since="2012-01").text
        "date_trunc('month', day)"
        """
        return Truncated(self.every, Name(self.column)).text()

    def check(self, schema: Mapping[str, str]) -> None:
        """`InvalidParameter` unless the column is one of days or times."""
        kind = classify(schema, self.column) if self.column in schema else None
        if kind not in (TypeClass.DATE, TypeClass.TIMESTAMP):
            found = "is no column of these rows" if kind is None else f"is {kind.words}"
            raise InvalidParameter(f"blocks are of a column of dates or timestamps, and {self.column!r} {found}")
        if BLOCK in map(str.lower, schema):
            raise InvalidParameter(f"rows in blocks have no column {BLOCK!r}, which says in which block each is")

    def name(self, day: date) -> str:
        """The name of the block that a day is in.

        >>> Blocks("day", every="week", since="2012").name(date(2012, 1, 1))
        '2011-W52'
        """
        match self.every:
            case "day":
                return day.strftime("%Y-%m-%d").rjust(10, "0")
            case "week":
                year, week, _ = day.isocalendar()
                return f"{year:04}-W{week:02}"
            case "month":
                return f"{day.year:04}-{day.month:02}"
            case "quarter":
                return f"{day.year:04}-Q{(day.month + 2) // 3}"
            case _:
                return f"{day.year:04}"

    def all(self) -> tuple[str, ...]:
        """The blocks from the first one to today's in the order of time, closed ones too; empty before the first."""
        return _names(self, self._number(self._first), self._number(now().date()))

    def readable(self) -> tuple[str, ...]:
        """Those that may be read now; `InvalidQuery` before the first."""
        return self.between(None, None)

    def between(self, since: Day | None, until: Day | None) -> tuple[str, ...]:
        """The blocks from one to another, both included, by default those that may be read.

        Errors: `InvalidParameter` for what names no block, `InvalidQuery` where one of them may not be read.
        """
        known = self.all()
        if not known:
            raise InvalidQuery(f"the first block is {self.since}, and today's is {self.name(now().date())}: ask then")
        may = known[-(self.kept or len(known)) :]
        first = may[0] if since is None else self.name(self._days(since, "since")[0])
        last = may[-1] if until is None else self.name(self._days(until, "until")[1])
        if may[0] <= first <= last <= may[-1]:
            return may[may.index(first) : may.index(last) + 1]
        if max(first, last) > may[-1]:
            what = f"block {max(first, last)} is of the future"
        elif first < known[0]:
            what = f"block {first} is before the first one"
        elif first < may[0]:
            what = f"block {first} is closed, since {self.kept} are kept"
        else:
            what = f"no block is from {first} to {last}"
        ends = max(first, may[0]), min(last, may[-1])
        low, high = ends if ends[0] <= ends[1] else (may[0], may[-1])
        raise InvalidQuery(f"{what}: ask session.blocks({low!r}, {high!r})")

    def overlapped(self, began: datetime, ended: datetime) -> tuple[str, ...]:
        """The blocks that overlap a time, which ends before `ended`, from the first block on.

        Errors: `InvalidQuery` where one of them may not be read, and where there is none.
        """
        last = (ended - datetime.resolution).date()
        return self.between(max(began.date(), self._first), last)

    def count(self, began: datetime, ended: datetime) -> int:
        """How many blocks overlap the time before `ended`, whichever may be read."""
        return self._number((ended - datetime.resolution).date()) - self._number(began.date()) + 1

    def part(self, names: tuple[str, ...]) -> RowPart:
        """The rows of these blocks, which follow one another."""
        told = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        return RowPart(told, self._between(names), within=None if len(names) == 1 else self.text)

    def unread(self) -> Predicate:
        """The rows that are in no block that may be read now."""
        [first, last] = self._between(self.readable()).condition.conditions  # type: ignore[attr-defined]
        others = (Compare(self.column, "<", first.other), Compare(self.column, ">=", last.other))
        return Predicate(Some((IsNull(self.column), *others)))

    def _between(self, names: tuple[str, ...]) -> Predicate:
        first = self._number(self._days(names[0], "since")[0])
        ends = (self._day(number).isoformat() for number in (first, first + len(names)))
        sides = (Compare(self.column, sign, end) for sign, end in zip((">=", "<"), ends, strict=True))
        return Predicate(Every(tuple(sides)))

    @property
    def _first(self) -> date:
        """The first day that is in a block."""
        return self._day(self._number(self._days(self.since, "since")[0]))

    def _number(self, day: date) -> int:
        """Of the block that a day is in: they are numbered one after the other."""
        if self.every in _MONTHS:
            return (day.year * 12 + day.month - 1) // _MONTHS[self.every]
        return (day.toordinal() - 1) // (7 if self.every == "week" else 1)

    def _day(self, number: int) -> date:
        """The first one of the block with this number."""
        if self.every in _MONTHS:
            year, month = divmod(number * _MONTHS[self.every], 12)
            return date(year, month + 1, 1)
        return date.fromordinal(number * (7 if self.every == "week" else 1) + 1)

    def _days(self, said: Any, name: str) -> tuple[date, date]:
        """The first and the last day of what a caller names: a block, another period, or a day."""
        if isinstance(said, date):
            day = said.date() if isinstance(said, datetime) else said
            return day, day
        found = _period(said) if isinstance(said, str) else None
        if found is None:
            example = self.name(date(2012, 1, 31))
            given = f", not {said!r}" if said else ""
            raise InvalidParameter(f"{name} is a {self.every} or a day, such as {name}={example!r}{given}")
        return found


@lru_cache(maxsize=64)
def _names(blocks: Blocks, first: int, last: int) -> tuple[str, ...]:
    return tuple(blocks.name(blocks._day(number)) for number in range(first, last + 1))


def _period(text: str) -> tuple[date, date] | None:
    """The first and the last day of a period, or a day, as it is written; None for anything else."""
    try:
        for every, written in _WRITTEN.items():
            if (found := written.fullmatch(text)) is None:
                continue
            year, number = int(found[1]), int(found[2]) if found.lastindex == 2 else 1
            if every == "week":
                return date.fromisocalendar(year, number, 1), date.fromisocalendar(year, number, 7)
            first = date(year, (number - 1) * _MONTHS[every] + 1, 1)
            return first, months_later(first, _MONTHS[every]) - timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    moment = read_timestamp(text)
    return None if moment is None else (moment.date(), moment.date())


def months_later(day: date, months: int) -> date:
    """The same day this many months later, or earlier; the last one of a month that is shorter.

    >>> months_later(date(2012, 3, 31), -1), months_later(date(2012, 12, 1), 1)
    (datetime.date(2012, 2, 29), datetime.date(2013, 1, 1))
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
