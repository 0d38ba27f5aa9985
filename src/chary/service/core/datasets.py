"""Datasets of a service: their sessions, charges, shared answers and reports."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import and_, insert, select

from chary.amounts import Amount
from chary.answers import Answer, handed_out
from chary.calls.call import Call
from chary.calls.language import spoken
from chary.client.problems import Refusal
from chary.client.wire import in_typed, of_typed
from chary.config import DatasetOptions, blocks, dialect
from chary.core.plan import Plan
from chary.core.transaction import Spine, numbered
from chary.data import RowTable
from chary.errors import CharyError, InvalidParameter, LedgerError, NotWithheld, RequestConflict
from chary.filters import Budget
from chary.ledger import CallRecord, Ledger, State
from chary.numbers import exact, percent
from chary.report.content import ReportedCall
from chary.report.public_report import PublicReport
from chary.service.auth.tokens import Principal
from chary.service.config import ServiceConfig
from chary.service.core.audit_trail import LOG, asked_through, log_line
from chary.service.core.problems import Settings
from chary.service.store import REQUESTS, ServiceStore
from chary.session import Session, open, open_counts
from chary.session.opening import LateLedger, recorded_as, usual_name

# The charges of a dataset, cached between looks at its ledger.

# The number of charges down to which neighbours in time are summed up: a picture has fewer steps.
MOST: Final = 1_000


class Charge(NamedTuple):
    """What calls of one analyst and one kind were charged: one call, or several that are summed up.

    `time` is that of the last of them, `basic` their part in the basic account.
    """

    time: str
    analyst: str
    kind: str
    tests: int
    hits: int
    charged: Amount
    basic: int
    calls: int = 1


@dataclass
class ChargesSoFar:
    """The charges of a dataset, read incrementally: each look reads new calls, and those that were under way before.

    However long the ledger is, it keeps about `MOST` charges, or one for each analyst and kind.
    """

    _after: int = 0
    _waiting: tuple[int, ...] = ()
    _done: list[Charge] = field(default_factory=list)
    _most: int = 2 * MOST
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def all(self, ledger: Ledger, dataset: str) -> list[Charge]:
        """All charges, ordered by time. A look that fails changes nothing, so that each call counts once."""
        with self._lock:
            after, waiting, done = self._after, list[CallRecord](), list[CallRecord]()
            for record in chain(map(ledger.call, self._waiting), ledger.calls(dataset, after=after)):
                after = max(after, record.number)
                (waiting if record.state == State.RESERVED else done).append(record)
            self._add([_charge(record) for record in done])
            self._after, self._waiting = after, tuple(record.number for record in waiting)
            found = [*self._done, *(_charge(record) for record in waiting)]
        return sorted(found, key=lambda charge: charge.time)

    def _add(self, charges: list[Charge]) -> None:
        for charge in charges:
            self._done.append(charge)
            if len(self._done) > self._most:
                self._done = _fewer(self._done)
                self._most = 2 * max(MOST, len(self._done))


def _charge(record: CallRecord) -> Charge:
    tests, hits = record.tests or 0, record.hits or 0
    return Charge(record.created, record.analyst, record.kind, tests, hits, record.charged, record.basic)


def _fewer(charges: list[Charge]) -> list[Charge]:
    """Sum up neighbours until at most `MOST` charges are left, or one for each analyst and kind. The first that is not
    zero stays alone, since rates are computed from its time on.
    """
    first = next((place for place, charge in enumerate(charges) if charge.charged != Amount(0)), len(charges))
    before, alone, rest = charges[:first], charges[first : first + 1], charges[first + 1 :]
    size, found = 2, charges
    while len(found) > MOST and size < 2 * len(charges):
        found = [*_together(before, size), *alone, *_together(rest, size)]
        size *= 2
    return found


def _together(charges: list[Charge], size: int) -> list[Charge]:
    """Sum up the charges of each analyst and kind within every `size` of them."""
    found = []
    for start in range(0, len(charges), size):
        sums: dict[tuple[str, str], Charge] = {}
        for charge in charges[start : start + size]:
            before = sums.get((charge.analyst, charge.kind))
            sums[charge.analyst, charge.kind] = charge if before is None else _sum(before, charge)
        found += sorted(sums.values(), key=lambda charge: charge.time)
    return found


def _sum(first: Charge, then: Charge) -> Charge:
    tests, hits, charged = first.tests + then.tests, first.hits + then.hits, first.charged + then.charged
    time, basic, calls = max(first.time, then.time), first.basic + then.basic, first.calls + then.calls
    return Charge(time, first.analyst, first.kind, tests, hits, charged, basic, calls)


# Served datasets: each is opened once; the sessions of all analysts share its rows and ledger.


@dataclass(frozen=True)
class Served:
    """One dataset: the session that opened it, and whether its answers are shared among analysts.

    `growing` guards appends: one at a time. It is held together with `rows_of` in the service's database. `new` says
    that no ledger held the dataset when it was opened.
    """

    name: str
    session: Session
    shared: bool
    growing: threading.Lock
    new: bool = False
    charges: ChargesSoFar = field(default_factory=ChargesSoFar, repr=False, compare=False)

    def asked_by(self, analyst: str, on_step: Callable[[str], None] | None = None) -> Session:
        """A session of one analyst on the same rows and ledger; it need not be closed."""
        spine = self.session.spine
        return Session(replace(spine, analyst=analyst, on_step=on_step or spine.on_step))

    def acting(self, who: Principal, on_step: Callable[[str], None] | None = None) -> Session:
        """The same, for writes: its charges, caps and appends name the token in the ledger."""
        spine = self.asked_by(who.analyst, on_step).spine

        def ended() -> None:
            LOG.warning(log_line(event="free misses ended", dataset=self.name, analyst=who.analyst))

        return Session(replace(spine, ledger=asked_through(spine.ledger, who.origin, ended)))

    def replaying(self, analyst: str) -> Session:
        """The same, which replays stored answers under their idempotency keys and makes no new calls."""
        return Session(replace(self.session.spine, analyst=analyst, replays=True))

    @property
    def keeps_rows(self) -> bool:
        """Whether appended rows are still there after a restart; otherwise they live in this process."""
        rows = self.session.spine.rows
        return isinstance(rows, RowTable) and rows.keeps_batches

    def shown_of(self, who: Principal) -> str | None:
        """The analyst to whose calls the view of this principal is limited; None if it shows all analysts."""
        return None if self.shared or who.custodian else who.analyst

    def shows(self, who: Principal, analyst: str) -> bool:
        """Whether a principal is shown the questions and answers of an analyst."""
        return self.shown_of(who) in (None, analyst)


class ServedDatasets(dict[str, Served]):
    """The datasets by name."""

    def for_(self, who: Principal, name: str) -> Served:
        """The dataset, if the token is for it; the same error for one that does not exist and one out of reach."""
        if name not in self or not who.sees(name):
            raise Refusal(404, "this token is for no dataset of that name")
        return self[name]

    def close(self) -> None:
        """Close rows and ledgers; everything can be reopened."""
        for served in self.values():
            served.session.close()


def rows_of(dataset: str) -> str:
    """The name of the lock that keeps the rows of a dataset unchanged, or is held while they change."""
    return f"rows of {dataset}"


def opened_datasets(
    config: ServiceConfig, check: Callable[[str, Ledger], None] = lambda name, ledger: None
) -> ServedDatasets:
    """Open every dataset of a chary.toml, and set its quotas for analysts without one; all or none. `check` gets the
    ledger of each before anything is written to it."""
    with ExitStack() as undo:
        served = {}
        for name, options in config.dataset.items():
            try:
                session = _opened(config, name, options)
            except CharyError as error:
                of = f"dataset {name}: " if isinstance(error, LedgerError) else ""
                error.args = (f"{of}{spoken(str(error), Settings())}",)
                raise
            undo.callback(session.close)
            check(name, session.spine.ledger)
            new = isinstance(session.spine.ledger, LateLedger)  # which the first quota makes
            for analyst, share in options.shares.items():
                # A cap that is set stays: a custodian may have changed it.
                if session.spine.ledger.analyst_balance(session.spine.dataset, analyst).capacity is None:
                    session.set_quota(analyst, share)
            served[name] = Served(name, session, options.share_answers, threading.Lock(), new)
        undo.pop_all()
    return ServedDatasets(served)


def opened_as(served: ServedDatasets) -> dict[str, str]:
    """By dataset whether its ledger is new, or how much of the budget is charged."""
    return {
        name: "new ledger" if each.new else f"{each.session.spent} charged" for name, each in sorted(served.items())
    }


def lost_appends(config: ServiceConfig, served: ServedDatasets) -> list[str]:
    """One line for each dataset of which appended rows are gone after a restart, where any may be appended."""
    several = config.service.workers > 1
    return [
        f"dataset {name}: appended rows live in this process and are gone at its end: to keep them, serve a table of a "
        "DuckDB file or of PostgreSQL"
        for name, each in sorted(served.items())
        if not (each.keeps_rows or several)
    ]


def unlike_quotas(config: ServiceConfig, served: ServedDatasets) -> list[str]:
    """One line for each quota of the chary.toml that is not the one in force: the ledger's counts."""
    lines = []
    for name, options in config.dataset.items():
        spine = served[name].session.spine
        shares = spine.filter.shares
        for analyst, share in options.shares.items():
            held, quota = spine.ledger.analyst_balance(spine.dataset, analyst).capacity, exact(share, "quota")
            if held is not None and held != shares.cap(quota):
                told = f"dataset {name}: {analyst} has a quota of {percent(shares.taken(held))}"
                place = f"PUT /v1/datasets/{name}/shares/{analyst}"
                lines.append(f"{told}, the file says {percent(quota)}: change it on the page or by {place}")
    return lines


def _opened(config: ServiceConfig, name: str, said: DatasetOptions) -> Session:
    budget = None if said.budget_epsilon is None else Budget(said.budget_epsilon, said.budget_delta)
    file, ledger = config.place(config.file(name)), config.place(config.ledger(name))
    # The command line may have opened it under its default name: rows have one budget under any name.
    usual = usual_name(file, said.table, said.series)
    held = recorded_as(ledger, (name, *({usual} - config.dataset.keys())))
    common: dict[str, Any] = {"ledger": ledger, "budget": budget, "dataset": held or name}
    common |= {"filter": said.filter, "grain": said.grain, "delta_reserve": said.delta_reserve}
    common |= {"checkpoint": None if said.checkpoint is None else config.place(said.checkpoint)}
    common |= {"csv": None if said.csv_format is None else dialect(said.csv_format)}
    if said.series is not None:
        return _series(file, said, common)
    if (said.unit is None) != said.row_level:
        raise InvalidParameter(f"dataset {name!r}: say what is protected: unit, or row-level = true")
    common |= {"table": said.table, "neighbors": said.neighbors, "infer_types": said.infer_types}
    common |= {"blocks": None if said.blocks is None else blocks(said.blocks)}
    columns = None if said.columns is None else dict(said.columns)
    return open(file, privacy_unit=said.unit, columns=columns, unpivot=said.unpivot, **common)


def _series(file: str, said: DatasetOptions, common: dict[str, Any]) -> Session:
    if said.sensitivity is None or said.series is None:
        raise InvalidParameter("a series needs the most that one unit changes a count, such as sensitivity = 1")
    ordered = common | {"order_by": said.order_by, "labels": said.labels}
    return open_counts(file, column=said.series, sensitivity=said.sensitivity, **ordered)


# Shared answers: a call that another analyst made about the current rows is replayed for free.

_UNKNOWN: Final = object()


class SharedAnswers:
    """Decides which answers are replayed to other analysts.

    Guarantee: an idempotency key has one answer, that of its own call or that of another analyst's call. The choice is
    stored before a call is made or an answer returned, and holds in every process, whatever is asked or appended later.
    """

    def __init__(self, store: ServiceStore) -> None:
        self._store = store

    def told(self, session: Session, call: Call[Any], request: str) -> Answer | None:
        """The public answer to an equal call about the current rows, which is free to return.

        None if nobody made such a call since the rows last changed, or if the key belongs to a call of its own. None
        also for calls of several steps, and for those that continue a withheld outcome. Errors: `RequestConflict` if
        the key was used with another question.
        """
        spine = session.spine
        if type(call).perform is not Call.perform:
            return None
        plan = call.plan(spine)
        number = None if plan.state is not None else self._number(spine, plan, request)
        if number is None:
            return None
        found = _call(spine, number)
        # In a ledger that was restored to an older state the number may belong to another call, or to none.
        asked = spine.dataset, plan.kind, plan.body, State.SETTLED
        if (
            found is None
            or (found.dataset, found.kind, found.body, found.state) != asked
            or not (found.parts == spine.scope(plan) or spine.has(found.parts))
        ):
            raise RequestConflict("this idempotency key was used before with another question")
        told: Answer = handed_out(plan.present(found.outcome, number), spine)
        return told

    def has(self, session: Session, request: str) -> bool:
        """Whether the key has an answer: that of its own call, or that of another analyst's call."""
        spine = session.spine
        kept = self._kept({"dataset": spine.dataset, "analyst": spine.analyst, "request": request})
        own = spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=request)
        settled = (call.request == request and call.state == State.SETTLED for call in own)
        return kept not in (_UNKNOWN, None) or any(settled)

    def _number(self, spine: Spine, plan: Plan[Any], request: str) -> int | None:
        """The call whose answer the key replays; None if it has its own."""
        key = {"dataset": spine.dataset, "analyst": spine.analyst, "request": request}
        kept = self._kept(key)
        if kept is _UNKNOWN and spine.replays:
            return None
        if kept is _UNKNOWN:
            kept = self._keep(key, _latest(spine, plan) if spine.stored(plan, request) is None else None)
        number: int | None = kept
        return number

    def _kept(self, key: dict[str, str]) -> Any:
        here = and_(*(REQUESTS.c[name] == value for name, value in key.items()))
        rows = self._store.rows(select(REQUESTS.c.call).where(here))
        return rows[0].call if rows else _UNKNOWN

    def _keep(self, key: dict[str, str], number: int | None) -> Any:
        """Store the choice, unless another process did; returns what is stored."""
        return number if self._store.add_once(insert(REQUESTS).values(**key, call=number)) else self._kept(key)


def _call(spine: Spine, number: int) -> CallRecord | None:
    try:
        return numbered(spine, number)
    except NotWithheld:
        return None


def _latest(spine: Spine, plan: Plan[Any]) -> int | None:
    """The last equal call that was settled after the rows last changed, by the order of ledger entries, not by clocks.

    None if the session is about an earlier version, or if that call was: its place in the ledger does not tell which
    rows it read.
    """
    if spine.version is not None:
        return None
    found = spine.ledger.last_settled(spine.dataset, plan.kind, plan.body, spine.scope(plan))
    if found is None:
        return None
    note = spine.ledger.last_note(spine.dataset)
    about = _STANDING.fullmatch(found.request or "")
    late = note is not None and about is not None and int(about[1]) < note.version
    return None if late or (note is not None and found.number < note.entry) else found.number


# The idempotency keys of subscriptions, which contain the version of the rows.
_STANDING: Final = re.compile(r"standing [0-9a-f]+ at (\d{1,18})", re.ASCII)


def standing_key(name: str, version: int | str) -> str:
    """The idempotency key of a subscription for a version; with an empty version the prefix of all its keys.

    >>> standing_key("1f", 7)
    'standing 1f at 7'
    """
    return f"standing {name} at {version}"


# Reports as shown: cached in each process until another one is published or the ledger grows.

# Size of the cache for all datasets; the least recently used go first.
_KEPT: Final = 16
EACH: Final = 50
# Hits on a page; the report itself has all.
MOST_HITS: Final = 100


@dataclass(frozen=True)
class ReportInPages:
    """A report cut into pages: `front` has its first hits and no calls, `sums` counts all its calls and hits."""

    front: PublicReport
    sums: dict[str, int]
    pages: tuple[bytes, ...]

    @classmethod
    def of(cls, report: PublicReport) -> ReportInPages:
        """Cut a report with one dataset."""
        (found,) = report.datasets
        sums = {"calls": len(found.calls), "found": len(found.hits)}
        sums |= {name: sum(getattr(call, name) for call in found.calls) for name in ("tests", "hits")}
        pages = tuple(_packed(found.calls[place : place + EACH]) for place in range(0, len(found.calls), EACH))
        shown = replace(found, calls=(), hits=found.hits[:MOST_HITS])
        return cls(replace(report, datasets=(shown,)), sums, pages)

    def calls(self, page: int) -> tuple[ReportedCall, ...]:
        """The calls of a page, counted from 1; none after the last page."""
        found: tuple[ReportedCall, ...] = ()
        if page <= len(self.pages):
            found = of_typed(json.loads(gzip.decompress(self.pages[page - 1])))
        return found


_Made = TypeVar("_Made")


class ReportsKept:
    """A cache of reports and their strings. Concurrent requests for one of them wait for the first to make it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def text(self, key: tuple[str, ...], make: Callable[[], str]) -> bytes:
        """A string, compressed by gzip."""
        return self._once(("text", *key), lambda: gzip.compress(make().encode(), mtime=0))

    def in_pages(self, key: tuple[str, ...], make: Callable[[], PublicReport]) -> ReportInPages:
        """A report cut into pages."""
        return self._once(("pages", *key), lambda: ReportInPages.of(make()))

    def _once(self, key: tuple[str, ...], make: Callable[[], _Made]) -> _Made:
        with self._lock:
            first = key not in self._kept
            made: Future[_Made] = self._kept.setdefault(key, Future())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if first:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                made.set_exception(error)
        return made.result()


def _packed(calls: tuple[ReportedCall, ...]) -> bytes:
    return gzip.compress(json.dumps(in_typed(calls)).encode(), mtime=0)
