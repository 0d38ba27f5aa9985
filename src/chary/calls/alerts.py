"""Alerts: groups that are quiet or active, and are charged when they change, not while they stay."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, cast

import numpy as np

from chary import noise
from chary.accounting import Publication, Support
from chary.accounting.findings import Finding, Findings
from chary.answers import Key, Table, Value, scalar
from chary.calls import fields, sharpness
from chary.calls.answers import NumberOrNothing, hit_values, published, says
from chary.calls.call import call
from chary.calls.run import AskedKind, Opening, Run, RunKind, opening
from chary.core import forecast
from chary.core.plan import PREPAID, Data, Json, PerHit, Plan, Result, natural, steps_at_least
from chary.core.quote import NOT_FREE
from chary.core.transaction import AnswerLog, Spine
from chary.core.versions import Arrivals, Version
from chary.data import Blocks, Mean, Predicate, Query, Reading, Rows, RowTable, blocks
from chary.data.blocks import months_later
from chary.data.predicates.conditions import Every, identifier, read_timestamp
from chary.data.queries.query import Keyed
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Laplace
from chary.numbers import Number, counted, exact, plain, whole

# The answers of an alert, one at each version.

QUIET: Final = "quiet"
ACTIVE: Final = "active"
Severity = Literal["info", "warning", "critical"]
# An alert that names no number of tests is judged by a year of weekly versions.
A_YEAR: Final = 52


def state_of(active: bool) -> str:
    """How the state of a group is reported."""
    return ACTIVE if active else QUIET


@dataclass(frozen=True)
class AlertAnswer(NumberOrNothing):
    """The state of an alert at one version: "quiet" or "active", and whether it `changed`, which is what is charged.

    A change comes with a noisy `value`, if the alert publishes values; see `interval` for what it says. `window` says
    which days (or hours) it is about, where the alert has a window.
    """

    state: str
    changed: bool
    version: int
    window: str | None = field(default=None, kw_only=True)
    also = "state changed value error_bar version window"
    hit_if = "changed"

    @property
    def active(self) -> bool:
        """Whether it is active."""
        return self.state == ACTIVE

    @property
    def in_words(self) -> str:
        return f"{self.state}, {'changed' if self.changed else 'as before'}"


@dataclass(frozen=True)
class AlertAnswers(Table):
    """The state of each group of an alert at one version, and which groups changed, each of which is charged.

    `changed` maps each group that changed to its noisy value, or to None where no values are published. The first
    `tested` groups were looked at; the rest keep their states, since the hits that could be paid for ran out. `window`
    says which days (or hours) they are about, where the alert has a window.
    """

    states: tuple[str, ...]
    changed: Mapping[Key, Value | None]
    tested: int
    version: int
    error_bar: float | None
    publications: Mapping[str, Publication] = field(default_factory=dict, repr=False, compare=False, kw_only=True)
    window: str | None = field(default=None, kw_only=True)
    noun, also = "groups", "tested version error_bar window"
    hit_if = "changed"

    @property
    def value(self) -> dict[Any, str]:
        """Group to state; a group of one column is a scalar."""
        return {scalar(key): state for key, state in zip(self.keys, self.states, strict=True)}

    @property
    def active(self) -> tuple[Any, ...]:
        """The groups that are active."""
        return tuple(key for key, state in self.value.items() if state == ACTIVE)

    @property
    def findings(self) -> Findings:
        return Findings.of(
            Finding(self.call, scalar(key), value, told)
            for key, value in self.changed.items()
            if value is not None and (told := self.publications.get(self._state(key))) is not None
        )

    @property
    def in_words(self) -> str:
        return f"{len(self.active)} of {len(self)} active, {len(self.changed)} changed"

    @property
    def _notes(self) -> list[str]:
        return [*super()._notes, *([f"rows of {self.window}"] if self.window else [])]

    def cells(self, position: int) -> dict[str, Any]:
        key = self.keys[position]
        state, value = self.states[position], self.changed.get(key)
        known = {"state": state, "changed": key in self.changed, "value": value}
        return known | says(value, self.publications.get(state), self.error_bar)

    def _state(self, key: Key) -> str:
        return self.states[self.keys.index(key)]


# The state of an alert. It is public, and stored with the opening so that no change is published twice.


@dataclass(frozen=True)
class AlertMemory:
    """The last version that was tested (-1 before the first), and the positions of the active groups. Also the version
    at which the alert was opened (None for alerts of old ledgers), and the last time at which a window ended, as text
    (None before the first)."""

    version: int = -1
    active: tuple[int, ...] = ()
    opened: int | None = None
    ended: str | None = None

    def dump(self) -> bytes:
        """The state in bytes, for the ledger's table of states."""
        known = {name: said for name, said in (("opened", self.opened), ("ended", self.ended)) if said is not None}
        return json.dumps({"version": self.version, "active": self.active} | known).encode()

    @classmethod
    def load(cls, held: bytes) -> "AlertMemory":
        """The state that `dump` wrote."""
        told = json.loads(held)
        return cls(told["version"], tuple(told["active"]), told.get("opened"), told.get("ended"))

    def looked_at(self, version: int, active: tuple[int, ...], ended: str | None) -> "AlertMemory":
        """The state after a test of this version; the version never goes back."""
        return replace(self, version=max(version, self.version), active=active, ended=ended)


class Looked(InvalidParameter):
    """Another process tested this version, or a later one, meanwhile."""


class AlertState:
    """What is public of an alert: the active groups, the answers so far, and the expected false alarms and delays."""

    def __init__(
        self,
        keys: tuple[Key, ...] | None,
        now: AlertMemory,
        told: AnswerLog[Any],
        law: "AlertLaw",
        arrivals: Arrivals,
    ) -> None:
        self._keys, self._now, self._told, self._law, self._arrivals = keys, now, told, law, arrivals

    def __str__(self) -> str:
        if (latest := self.latest) is None:
            return "not asked yet"
        results = counted(len(self.results), "answer", "answers")
        of = f" of {latest.window}" if latest.window else ""
        return f"{latest.in_words} at version {self.version}{of}; {results}, {len(self.transitions)} with a change"

    @property
    def version(self) -> int | None:
        """The version that was tested last; None before the first."""
        return None if self._now.version < 0 else self._now.version

    @property
    def skipped(self) -> tuple[int, ...]:
        """The versions since the opening that were not tested: `ask()` reads the present rows, and some sources cannot
        read earlier ones."""
        looked = {told.version for told in self.results}
        first = min(looked, default=0) if self._now.opened is None else self._now.opened
        numbers = (version.number for version in self._arrivals.all())
        return tuple(number for number in numbers if first < number <= self._now.version and number not in looked)

    @property
    def active(self) -> Any:
        """Whether it is active; with groups, the active ones."""
        if self._keys is None:
            return bool(self._now.active)
        return tuple(scalar(self._keys[position]) for position in self._now.active)

    @property
    def results(self) -> list[Any]:
        """The answers at all versions, in order, from the ledger."""
        return self._told.all()

    @property
    def latest(self) -> Any:
        """The last answer; None before the first."""
        told = self.results
        return told[-1] if told else None

    @property
    def transitions(self) -> list[Any]:
        """Those answers at which something changed."""
        return [told for told in self.results if told.changed]

    def false_alarms(self, versions: int = A_YEAR, *, truth: Number = 0) -> float | None:
        """The most firings that are expected at this many versions, of groups whose truth is at most `truth`; None if
        that is not below the threshold. Nothing is read."""
        steps = -int(-exact(truth, "truth") // self._law.call.counted.grid)
        return self._law.expected().alarms(steps, self._law.groups * whole(versions, "versions"))

    def delay(self, step: Number) -> float:
        """The expected number of versions, at most, until it fires or clears, at a truth that lies `step` beyond the
        threshold of the change. Nothing is read."""
        steps = int(exact(step, "step") // self._law.call.counted.grid)
        chance = 1 - self._law.tests.wrong(steps)
        return math.inf if chance <= 0 else 1 / chance


# An alert and its run.


@call("alert", subject="growing", by_hits=True)
class Alert(sharpness.FreshlyValued[Run[Any, AlertState]], Opening[Run[Any, AlertState]]):
    """Watch a count or a sum of a growing table, or each group of one, and pay only when its state changes.

    A quiet group becomes active when it is at or above `above`, up to noise; an active one becomes quiet when it is
    below `clear_below` (default: `above`). A distance between the two keeps a value near the threshold from going to
    and fro. Opening is free. `run.ask()` tests the current rows, and `session.start(..., follow=True)` does so after
    each append. The accuracy is chosen as for `ThresholdTest`. `hits` is the number of changes that fit into the whole
    budget; an episode takes two. `tests` is the expected number of versions, each of which tests all groups. A change
    comes with a noisy value, for the part `value` of its cost (default: a quarter).

    Guarantee: each answer is one call whose NotPrior target is "the state changes", of each group, and the state is
    public. With `epsilon` it is an epsilon-DP test, otherwise a `SharpTest` with a value of its own. A change is
    charged like a hit of `ReleaseIf`; a version without a change is free where misses are free. One unit is in a
    limited number of groups (`max_groups_per_unit`, `assumed_groups_per_unit`), and at most that many changes of one
    version are charged. When the budget cannot pay for that many, it halts at the last change that fits, and later
    groups keep their states. Two processes that ask at once never publish one change twice.

    With `window`, such as "7 days", only recent rows count: those whose `time` (a column of days or times) lies in the
    window that ends at `run.ask(at=...)` (default: today). A window is a number of hours, days, weeks, months or years.
    Days end at midnight; times are compared as they are written, without a time zone. Rows that come late count as long
    as their time is in the window. Where rows come a day late, `lag="1 day"` lets each window end that much before the
    question, whether it is asked now or `at` a time. With `since`, such as "2014-01-01", each version counts only rows
    whose `time` is that day or time, or later.

    Where rows are in blocks (`chary.open(..., blocks=...)`), `time` is their column unless another is given. A question
    reads the blocks that the window overlaps at that time, and no others, and is charged in these. What is kept is
    public. So it never ends: the oldest block leaves, and a new one comes with a budget of its own. Nothing is before
    the first block. Without a window it reads all blocks up to today's.

    `severity` and `note` are public words for those who are notified. Errors: `InvalidQuery` for a mean.
    `InvalidParameter` for `clear_below` above `above`; for a window or `since` without a `time`, or both together, and
    for a lag without a window. The same for a window that overlaps more blocks than are kept, and for an `at` before
    the last window, or in the future where rows are in blocks. The same where mostly false alarms are expected at the
    number of versions (`tests`, or 52 without it), unless `below_margin=True` confirms the call.

    Source: [TCT] section 2.1; docs/theory/charging.md, an alert pays for transitions.

    >>> import chary, pyarrow as pa
    >>> public = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=1, delta=1e-6)}
    >>> session = chary.open(pa.table({"kwh": [300.0] * 100}), **public, ledger=":memory:")
    >>> run = session.start(Alert(chary.count("kwh >= 250"), above=4000, clear_below=3800, hits=20))
    >>> run.ask().state
    'quiet'
    >>> _ = session.append(pa.table({"kwh": [300.0] * 9000}))
    >>> told = run.ask()
    >>> told.state, told.changed, run.ask().changed
    ('active', True, False)
    """

    query: fields.AnyQuery
    _: KW_ONLY
    above: fields.Exact
    clear_below: fields.Exact | None = None
    time: fields.ColumnName | None = None
    window: fields.Window | None = None
    lag: fields.Window | None = None
    since: fields.Since | None = None
    severity: Severity = "warning"
    note: fields.Name | None = None
    below_margin: fields.BelowMargin | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.query, Mean):
            raise InvalidQuery("an alert watches a count or a sum: ask a mean by a conditional release at each version")
        if self.clear_below is not None and Fraction(self.clear_below) > Fraction(self.above):
            raise InvalidParameter(
                f"an alert clears at or below its threshold: give clear_below={plain(Fraction(self.above))} or less"
            )
        if self.window is not None and self.since is not None:
            raise InvalidParameter("rows are seen in a window or since a day: give window= or since=, not both")
        if self.time is not None and not self.bounded:
            raise InvalidParameter(_BOTH)
        if self.lag is not None and self.window is None:
            raise InvalidParameter('only a window ends earlier: give both, such as window="7 days" and lag="1 day"')
        self.ends(_ANY_TIME)
        self.seen(_ANY_TIME, "day")

    @property
    def counted(self) -> Query:
        """The query that is watched."""
        return cast("Query", self.query)

    @property
    def groups(self) -> int:
        """The number of tests at each version."""
        return len(self.counted.keys or ((),))

    @property
    def wanted(self) -> sharpness.Wanted:
        """The accuracy; each of the `tests` versions tests every group."""
        return sharpness.Wanted.said(self, tests=None if self.tests is None else self.tests * self.groups)

    @property
    def bounded(self) -> bool:
        """Whether only rows of some time count."""
        return self.window is not None or self.since is not None

    def ends(self, asked: datetime) -> datetime:
        """When the window ends that is asked about at this time."""
        return asked if self.lag is None else _earlier(asked, *_length(self.lag, _LAG))

    def seen(self, at: datetime | None, column: str | None = None) -> Query:
        """The query on the rows that count at this time: those in the window that ends then, or since the given day.
        Their time is in `self.time`, or by default in `column`."""
        query, column = self.counted, self.time or column
        if self.since is not None:
            _read_time(self.since, 'since is a day or a time, such as since="2014-01-01"')
            bounds = [f">= '{self.since}'"]
        elif self.window is not None and at is not None:
            began, ended = span_of(self.window, at)
            bounds = [f">= '{began}'", f"< '{ended}'"]
        else:
            return query
        if column is None:
            return query
        if not isinstance(query, Keyed):
            raise InvalidQuery("a window is of the rows of a count or a sum: leave window= and since= out")
        time = identifier(column)
        inside = Predicate.parse(" AND ".join(f"{time} {bound}" for bound in bounds))

        def there(condition: Predicate | None) -> Predicate:
            return inside if condition is None else Predicate(Every((condition.condition, inside.condition)))

        found: Any = replace(query, where=there(query.where))
        # Rows outside of the window do not rule a unit out either.
        without = getattr(found, "without", None)
        return cast("Query", found if without is None else replace(found, without=there(without)))

    def column_in(self, spine: Spine) -> str | None:
        """The column that decides which rows count; None where all do."""
        if not self.bounded:
            return None
        column = self.time or (spine.blocks.column if spine.blocks else None)
        if column is None and isinstance(spine.rows, RowTable):
            raise InvalidParameter(_BOTH)
        return column

    def blocks_at(self, spine: Spine, at: datetime | None) -> tuple[str, ...] | None:
        """The blocks that it reads at this time; None where rows are not in blocks.

        `InvalidParameter` for a time of the future, `InvalidQuery` where a block may not be read."""
        divided = spine.blocks
        if divided is None or spine.parts is None:
            return None
        names, own = spine.parts.names, self.column_in(spine) == divided.column
        if self.since is not None and own:
            first = divided.name(_read_time(self.since))
            return tuple(name for name in names if name >= first) or names[-1:]
        if self.window is None or at is None:
            return names
        if not spine.renews:
            raise InvalidQuery("a window moves on through the blocks: start it in the session of all, and ask it there")
        self.check_past(spine, at)
        if not own:
            return names
        began, ended = _span(self.window, at)
        # Late rows of the first days: nothing is before the first block, which is read in vain.
        first = str(divided.since)
        before = self.lag is not None and divided.name((ended - datetime.resolution).date()) < first
        return divided.between(first, first) if before else divided.overlapped(began, ended)

    def check_past(self, spine: Spine, at: datetime) -> None:
        """`InvalidParameter` for a time of the future, where rows are in blocks."""
        if spine.blocks is not None and at.date() > blocks.now().date():
            raise InvalidParameter("at is of the future, and so are blocks that nobody may read: ask(at=) of today")

    def check_blocks(self, spine: Spine) -> None:
        """Refuse a window that would overlap closed blocks, or stays where it was opened."""
        divided = spine.blocks
        if divided is None or self.window is None:
            return
        self.blocks_at(spine, None if spine.renews else self.ends(blocks.now()))
        own = divided.kept and self.column_in(spine) == divided.column
        most = _most_blocks(self.window, self.lag, divided) if own else 0
        if divided.kept and most > divided.kept:
            raise InvalidParameter(
                f"a window of {self.window} overlaps up to {most} blocks, and {divided.kept} are kept: give a shorter "
                f"window=, or open the rows with kept={most}"
            )

    def plan(self, spine: Spine) -> Plan[Any]:
        told: Json = {}
        self.check_blocks(spine)
        column = self.column_in(spine)
        if self.epsilon is None:
            change = self.counted.sensitivity(spine.rows.neighbor_relation)
            filter_ = spine.filter.for_sharp_tests("start it with epsilon= for Laplace noise")
            found = sharpness.HitTerms.found(self.wanted, filter_, change * self.counted.grid, self.value_share)
            # The price of a change may have been found in floats, so it is read again and never found anew.
            told = {"price": str(found.price)}
        law = AlertLaw.of(self, spine, told)
        expected = law.expected()

        def checked(rows: Rows) -> Sequence[Reading]:
            rows.prepare(self.seen(_ANY_TIME, column))
            return ()

        def check(secret: bytes | None) -> None:
            if not self.below_margin:
                expected.refuse_false_alarms()

        def foretold() -> forecast.Forecast:
            within = law.tests.within
            return forecast.Forecast(
                error_bar=law.tests.error_bar(self.counted.grid),
                decides=law.tests.decides,
                step=self.counted.grid,
                wrong=law.tests.wrong,
                tests=expected,
                within=within,
                foreseen=None if within is None else sharpness.together(self.wanted, within),
                interval=law.told(spine),
                later=spine.filter.price(law.tests.event),
            )

        return opening(
            self,
            spine,
            law.tests.event,
            lambda data: AlertMemory(opened=Arrivals.read_by(spine).last().number).dump(),
            answer=told,
            cost=PREPAID,
            reads=checked,
            forecast=foretold,
            check=check,
        )


# Windows: the time span of the rows that count.

_BOTH: Final = 'a window is of a column: give both, such as time="day" and window="7 days" or since="2014-01-01"'
_WINDOW: Final = re.compile(r"([1-9]\d{0,5}) (hour|day|week|month|year)s?")
_DAYS: Final[Mapping[str, int]] = {"day": 1, "week": 7}
_MONTHS: Final[Mapping[str, int]] = {"month": 1, "year": 12}
_SPAN: Final = "a number of hours, days, weeks, months or years"
_LAG: Final = f'a lag is {_SPAN}, such as lag="1 day"'
_YEARS: Final = "this window leaves the years 1 to 9999: give a shorter one, or another time"
# Months of all lengths begin on all days of the week within this many years.
_CALENDAR: Final = range(date(2000, 1, 1).toordinal(), date(2028, 1, 1).toordinal())


def span_of(window: str, at: datetime) -> tuple[str, str]:
    """The start, included, and the end, excluded, of a window that ends at this time; days end at midnight.

    >>> span_of("7 days", datetime(2013, 1, 10, 12)), span_of("3 hours", datetime(2013, 1, 10, 12))
    (('2013-01-04', '2013-01-11'), ('2013-01-10 09:00:00', '2013-01-10 12:00:00'))
    >>> span_of("12 months", datetime(2013, 1, 10, 12))
    ('2012-01-11', '2013-01-11')
    """
    began, ended = _span(window, at)
    if window.rstrip("s").endswith("hour"):
        return began.isoformat(" ", "seconds"), ended.isoformat(" ", "seconds")
    return began.date().isoformat(), ended.date().isoformat()


def spelled(window: str, at: datetime) -> str:
    """The first and the last day of a window that ends at this time; with hours, its two times.

    >>> spelled("7 days", datetime(2013, 1, 10, 12)), spelled("1 day", datetime(2013, 1, 10, 12))
    ('2013-01-04 to 2013-01-10', '2013-01-10')
    >>> spelled("3 hours", datetime(2013, 1, 10, 12))
    '2013-01-10 09:00 to 2013-01-10 12:00'
    """
    began, ended = _span(window, at)
    if window.rstrip("s").endswith("hour"):
        return " to ".join(end.isoformat(" ", "minutes") for end in (began, ended))
    ends = (began.date(), ended.date() - timedelta(days=1))
    return " to ".join(dict.fromkeys(day.isoformat() for day in ends))


def _span(window: str, at: datetime) -> tuple[datetime, datetime]:
    number, unit = _length(window, f'a window is {_SPAN}, such as window="30 days"')
    if unit == "hour":
        return _earlier(at, number, unit), at
    try:
        last = datetime(at.year, at.month, at.day) + timedelta(days=1)
    except OverflowError:
        raise InvalidParameter(_YEARS) from None
    return _earlier(last, number, unit), last


def _length(span: str, wanted: str) -> tuple[int, str]:
    """A number of units, and the unit."""
    found = _WINDOW.fullmatch(span)
    if found is None:
        raise InvalidParameter(wanted)
    return int(found[1]), found[2]


def _earlier(at: datetime, number: int, unit: str) -> datetime:
    """The time that is this number of units before another one."""
    try:
        day = months_later(at.date(), -number * _MONTHS.get(unit, 0)) - timedelta(days=number * _DAYS.get(unit, 0))
        return datetime.combine(day, at.time()) - timedelta(hours=number if unit == "hour" else 0)
    except (OverflowError, ValueError):
        raise InvalidParameter(_YEARS) from None


# An arbitrary time, with which a window is validated.
_ANY_TIME: Final = datetime(2000, 1, 1)


@lru_cache
def _most_blocks(window: str, lag: str | None, divided: Blocks) -> int:
    """How many blocks a window overlaps at most, whenever it ends; with a lag also those up to the question."""

    def overlapped(day: int) -> int:
        asked = datetime.fromordinal(day)
        if lag is None:
            return divided.count(*_span(window, asked))
        return divided.count(_span(window, _earlier(asked, *_length(lag, _LAG)))[0], _span("1 day", asked)[1])

    return max(map(overlapped, _CALENDAR))


def _read_time(said: Any, wanted: str = 'at is a day or a time, such as ask(at="2013-01-31")') -> datetime:
    """A day or a time, as an object or a text; `InvalidParameter` for anything else."""
    if isinstance(said, datetime):
        found: datetime | None = said
    elif isinstance(said, date):
        found = datetime(said.year, said.month, said.day)
    else:
        found = read_timestamp(said) if isinstance(said, str) else None
    if found is None:
        raise InvalidParameter(wanted)
    return found.replace(tzinfo=None)


@dataclass(frozen=True)
class AlertLaw:
    """How the groups of an alert are tested: in steps, from the threshold of the state in which each of them is."""

    call: Alert
    tests: sharpness.TestLaw
    fire: int
    clear: int
    publications: Mapping[str, Publication]
    groups: int
    parts: int
    least: int | None

    @classmethod
    def of(cls, asked: Alert, spine: Spine, told: Json) -> "AlertLaw":
        """The tests that follow from the opening and from the cost that it stored."""
        query, neighbor_relation = asked.counted, spine.rows.neighbor_relation
        change = query.sensitivity(neighbor_relation)
        if asked.epsilon is not None:
            tests = sharpness.TestLaw.laplace(Laplace.for_epsilon(asked.epsilon, sensitivity=change), asked.epsilon)
        else:
            filter_ = spine.filter.for_sharp_tests("start another one with epsilon=")
            terms = sharpness.HitTerms(filter_, Fraction(told["price"]), asked.value_share, asked.wanted.chance)
            found = terms.sharpness(change, query.grid)
            tests = sharpness.TestLaw.sharp(found, found.value_noise(change) if found.value_rho else None)
        fire = steps_at_least(asked.above, query.grid)
        clear = fire if asked.clear_below is None else steps_at_least(asked.clear_below, query.grid)
        publications: dict[str, Publication] = {}
        if tests.noise is not None:
            below = Support.at_least(1 - clear).mirrored() if tests.decides else Support.everything()
            publications = {
                ACTIVE: tests.published(query, neighbor_relation, fire),
                QUIET: replace(published(tests.noise, query, neighbor_relation, below), clearing=True),
            }
        parts, least = query.reach(neighbor_relation), forecast.least_of(query, neighbor_relation)
        return cls(asked, tests, fire, clear, publications, asked.groups, parts, least)

    def expected(self) -> forecast.TestForecast:
        """The false alarms that are expected of quiet groups at this many versions."""
        versions = (self.call.tests or A_YEAR) * self.groups
        shared = self.tests.noise.law() if self.tests.noise and self.tests.decides else None
        return forecast.TestForecast(self.tests.tails, self.fire, self.call.counted.grid, versions, self.least, shared)

    def told(self, spine: Spine) -> str:
        """The cost of an episode, and the truths up to which, and from which on, false changes are rare, in words."""
        price, fit, expected = spine.filter.price(self.tests.event), self.hits_left(spine), self.expected()
        said = ["an episode costs two hits, one as it fires and one as it clears"]
        if fit is not None and (spine.accounts().alone or not price.free_miss):
            fitting = counted(fit // self.parts, "version fits", "versions fit")
            said = [f"{NOT_FREE}: each version is charged, changed or not, and {fitting}"]
            said.append("in a budget with a delta give hits= instead of epsilon=, or a smaller epsilon")
        elif fit is not None:
            each = "" if spine.blocks is None else f" into what is left of each {spine.blocks.every} that it sees"
            said.append(f"{counted(fit // 2, 'episode fits', 'episodes fit')}{each}")
        margin = expected.margin_of_one()
        ends = (self.fire - margin, self.clear + margin)
        low, high = (plain(natural(steps, self.call.counted.grid)) for steps in ends)
        of_groups = f" ({counted(expected.tests // self.groups, 'version', 'versions')} of {self.groups} groups)"
        tests = f"{expected.tests:,} tests{of_groups if self.groups > 1 else ''}"
        said.append(f"in {tests} fewer than one false firing is expected at truths up to {low}")
        said.append(f"and fewer than one false clearing at truths from {high} on")
        if self.call.window is not None:
            now = spelled(self.call.window, self.call.ends(blocks.now()))
            when = "when" if self.call.lag is None else f"{self.call.lag} before"
            said.append(f"the window ends {when} the question is asked: at present it is {now} (UTC)")
        return "; ".join(said)

    def hits_left(self, spine: Spine) -> int | None:
        """How many changes fit into what is left, or versions where each is charged; None where nothing is charged.

        Where rows are in blocks, it is the budget of the blocks that count today."""
        price, spine = spine.filter.price(self.tests.event), spine.of_now()
        names = self.call.blocks_at(spine, self.call.ends(blocks.now()))
        seen = spine if names is None else spine.of_blocks(names)
        return price.hits_left(seen.accounts(), price.basic)

    def step(self, values: Any, now: AlertMemory, data: Data) -> tuple[int, list[int], list[int]]:
        """The number of groups tested, the positions of those that changed, and their noisy values in steps."""
        active = np.zeros(len(values), dtype=bool)
        active[list(now.active)] = True
        # How far each is from where its state changes: 0 or more is a change. Thresholds may be of any size, and
        # where 64 bits wrapped around one unit would decide. What is inverted is the number below 0, -1 - number.
        beyond = np.where(active, ~noise.add(values, -self.clear), noise.add(values, -self.fire))
        found = self.tests.machine(0, data.most_hits).step(beyond, data.source)
        noisy = [
            self.clear - 1 - steps if active[position] else steps + self.fire
            for position, steps in zip(found.positions, found.noisy, strict=False)
        ]
        return found.tested, found.positions, noisy


class AlertRun(RunKind[Any, AlertState]):
    """`run.ask()`: the state of each group in the rows of now, and whether it changed, which is charged.

    Every question is one more test, also at a version that was tested before. `run.follow()` tests all versions that
    were not tested, in order; a run that follows does so after each append. It reads the rows of that version, with the
    window that ended as it arrived, and each answer names its version. So a backlog is worked off, and several
    processes that follow test no version twice. A version is skipped (`state.skipped`) if its rows cannot be
    distinguished from later ones; only the last version is then tested in the current rows.

    Errors: `BudgetExceeded` where not one further change fits. `InvalidQuery` in the session of a version before one
    that was tested. `NotWithheld` for an opening that was interrupted. `ledger.SecretMoved` when other processes
    were faster several times.
    """

    kind = Alert.kind
    names = "alert"
    keeps = "alert"
    anywhere = True
    questions = (AskedKind("alert_ask", publishes=True, again=True),)

    @cached_property
    def opened(self) -> Alert:
        """The call that opened the alert."""
        return Alert.recorded(self._terms)

    @cached_property
    def law(self) -> AlertLaw:
        """The tests of the alert."""
        return AlertLaw.of(self.opened, self._spine, self._opening())

    @property
    def state(self) -> AlertState:
        keys = self.opened.counted.keys
        log = self._answered("alert_ask", self._present)
        arrivals = Arrivals.read_by(self._spine)
        return AlertState(None if keys is None else tuple(keys), self._watched(), log, self.law, arrivals)

    @property
    def changes_left(self) -> int | None:
        """How many changes fit into what is left now, or versions where each is charged; None where nothing is."""
        return self.law.hits_left(self._spine)

    def plan(self, *, at: date | str | None = None) -> Plan[Any]:
        last = Arrivals.read_by(self._spine).last()
        if at is None:
            return self._now(last)
        if self.opened.window is None:
            raise InvalidParameter("this alert has no window that ends: leave at= out")
        said = _read_time(at)
        if self.opened.lag is not None:
            self.opened.check_past(self._spine, said)
        return self._at(last.number, self.opened.ends(said), said=said)

    def recorded(self, body: Json) -> Plan[Any]:
        """The stored answer contains the version, so it does not matter here."""
        said = _read_time(body["at"]) if "at" in body else None
        return self._at(0, None if said is None else self.opened.ends(said), said=said)

    def _now(self, version: Version, *, once: bool = False) -> Plan[Any]:
        """The plan for a window that ends now, or, where rows are read as of that version, when it arrived.

        `once` refuses a version that was tested before.
        """
        at = None
        if self.opened.window is not None:
            came = version.time if self._spine.version is not None else ""
            at = self.opened.ends(datetime.fromisoformat(came).replace(tzinfo=None) if came else blocks.now())
        # A request without a time is the same question whenever it is repeated; its answer contains the time.
        return self._at(version.number, at, once=once)

    def _at(self, version: int, at: datetime | None, *, said: datetime | None = None, once: bool = False) -> Plan[Any]:
        """The plan for a window that ends at that time; `said` is the time of the question, where it names one."""
        law, spine = self.law, self._spine.of_now()
        query, names = self.opened.seen(at, self.opened.column_in(spine)), self.opened.blocks_at(spine, at)
        # The blocks are fixed here, so rows and charges agree even if the day changes before the rows are read.
        placed = spine if names is None else spine.of_blocks(names)
        ended = {} if at is None else {"at": at.isoformat(" ", "seconds")}

        def run(data: Data) -> Result:
            before = AlertMemory.load(data.secret or b"")
            tested, changed, noisy = law.step(data.integers(), before, data)
            active = tuple(sorted(set(before.active) ^ set(changed)))
            after = before.looked_at(version, active, ended.get("at"))
            answer = {"version": after.version, "tested": tested, "active": active, "changed": changed, "noisy": noisy}
            answer |= ended
            return Result(answer, len(changed), tested, secrets={self.call: after.dump()})

        def check(held: bytes) -> None:
            now = AlertMemory.load(held)
            if once and now.version >= version:
                raise Looked(f"version {version} was looked at meanwhile")
            self._refuse_earlier(now.version)
            if said is not None and at is not None and now.ended is not None:
                self._refuse_back(at, datetime.fromisoformat(now.ended))

        return self._plan(
            "alert_ask",
            {} if said is None else {"at": said.isoformat(" ", "seconds")},
            law.tests.event,
            run,
            self._present,
            reads=lambda rows: [(rows if names is None else placed.rows).prepare(query)],
            check=check,
            cost=PerHit(law.parts, halts=True, adds_up=False),
            forecast=lambda: forecast.Forecast(
                law.tests.error_bar(query.grid), law.tests.decides, query.grid, law.tests.wrong
            ),
            parts=None if names is None else placed.parts,
        )

    def _refuse_back(self, at: datetime, before: datetime) -> None:
        """`InvalidParameter` for a window that ends before the last one: its state would pass for the present one."""
        window = str(self.opened.window)
        if _span(window, at)[1] < _span(window, before)[1]:
            raise InvalidParameter(
                f"this alert was asked about {spelled(window, before)} already, and its state goes on from there: ask "
                "about later times, or about earlier ones by another alert, whose opening is free"
            )

    def _present(self, answer: Json, number: int) -> Any:
        law, query, changed = self.law, self.opened.counted, answer["changed"]
        keys = tuple(query.keys or ((),))
        found = hit_values(keys, changed, answer["noisy"], query.grid)
        decided = law.tests.decides or law.tests.noise is None
        bar = None if decided or not changed else law.tests.error_bar(query.grid)
        active, version = set(answer["active"]), answer["version"]
        # Answers of old ledgers have no time where the question had one.
        ended = answer.get("at") if self.opened.window else None
        seen = None if ended is None else spelled(str(self.opened.window), datetime.fromisoformat(ended))
        if query.keys is None:
            state = state_of(bool(active))
            told = law.publications.get(state) if changed else None
            value, limits = found.get(()), query.limits
            return AlertAnswer(
                number, value, bar, state, bool(changed), version, publication=told, window=seen, limits=limits
            )
        states = tuple(state_of(position in active) for position in range(len(keys)))
        publications = law.publications
        return AlertAnswers(
            number,
            query.columns,
            keys,
            states,
            found,
            answer["tested"],
            version,
            bar,
            publications=publications,
            window=seen,
            limits=query.limits,
        )

    def _watched(self) -> AlertMemory:
        return AlertMemory.load(self._secret())

    def _follow(self) -> list[Any]:
        """The answers at all versions that were not tested before, in order."""
        told: list[Any] = []
        while (found := self._next()) is not None:
            spine, plan = found
            # Where another process was faster, its test counts.
            with suppress(Looked):
                told.append(spine.perform(plan))
        return told

    def _next(self) -> tuple[Spine, Plan[Any]] | None:
        """The plan for the first version to be tested whose rows can be read, and the spine that performs it; None if
        there is none."""
        now, arrivals = self._watched(), Arrivals.read_by(self._spine)
        last = arrivals.last()
        first = max(now.version + 1, last.number if now.opened is None and now.version < 0 else now.opened or 0)
        for version in arrivals.all():
            if version.number >= first:
                # Its rows cannot be distinguished from later ones, or lie in blocks that are closed by now.
                with suppress(InvalidQuery):
                    run = copy(self)
                    run._spine = replace(self._spine, rows=arrivals.as_of(version.number), version=version.number)
                    return run._spine, run._now(version, once=True)
        return (self._spine, self._now(last, once=True)) if last.number >= first else None
