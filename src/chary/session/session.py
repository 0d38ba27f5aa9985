"""A session: asks questions about one dataset under one budget."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack, overload

from chary.accounting import Findings
from chary.advise.advise import alternatives
from chary.answers import NoisyNumber, NoisyNumbers, Spending, counting
from chary.calls import answers, thresholds
from chary.calls.call import Call, asked
from chary.calls.fields import AskedShare
from chary.calls.history import History
from chary.calls.releases import Release
from chary.calls.run import Opening, OpenRun, Run, resumed, run_kinds
from chary.calls.weights import PMW
from chary.core import charges, plan
from chary.core.quote import Quote, compared_with, quote
from chary.core.transaction import SessionBase, Spine, openings
from chary.core.versions import Arrivals, Version
from chary.data import (
    Batch,
    Mean,
    NeighborRelation,
    Predicate,
    Query,
    Rows,
    RowTable,
    Series,
    Values,
    has_public_size,
    public_size,
)
from chary.data.blocks import Day
from chary.data.columns import Unparsed
from chary.data.partition import Partition
from chary.data.queries.query import AnsweredT
from chary.errors import CharyError, InvalidParameter, InvalidQuery, LedgerMismatch, OwnerWarning
from chary.filters import Budget
from chary.ledger import Ledger, Parts, Terms
from chary.ledger.records import label, parsed
from chary.numbers import Number, exact, plain, set_fields, whole
from chary.session.statement import Entry, PlainComposition, entries, plainly_composed, statement

# How the files of a dataset are read: fixed in its ledger at the first opening, so that every row is read alike.

# Keys of conditions that old ledgers hold, so they may never change.
_DIALECT: Final = "csv "
_INFERRED: Final = "types"


def read_as(rows: Rows, held: Terms | None) -> dict[str, Any]:
    """The conditions that say how strings are read, to be compared with those of the ledger.

    A ledger without a dialect, such as one of frames, accepts any dialect if columns and types are the same. Rows that
    are no CSV keep the dialect of the ledger. Types that were inferred once may be declared later, but not the other
    way round: an opening that fails would reveal something about the values.
    """
    before = {} if held is None else _kept(held)
    said = rows.reading if isinstance(rows, (RowTable, Series)) else {}
    asked = {f"{_DIALECT}{name}": value for name, value in said.items()}
    dialect = {name: value for name, value in before.items() if name != _INFERRED}
    if held is not None and (not dialect or not asked):
        asked = dialect
    inferred = {_INFERRED: "inferred"} if _infers(rows) and (held is None or dialect) else {}
    return asked | {name: value for name, value in before.items() if name == _INFERRED} | inferred


def check_types(rows: Rows, held: Terms) -> None:
    """`LedgerMismatch` that says what to declare, where a CSV differs from the ledger's rows in columns or types."""
    conditions = parsed(held.conditions, "conditions")
    neighbours = (conditions.get("unit"), conditions.get("relation"))
    same = neighbours == (rows.neighbor_relation.unit, rows.neighbor_relation.neighbors.stored)
    if same and isinstance(rows, RowTable) and rows.reading and rows.fingerprint() != held.fingerprint:
        raise LedgerMismatch(
            f"the ledger holds {held.name!r} with other columns or other types, and they stay as they were at first. "
            "Declare the same, such as columns={'age': 'BIGINT'}, or infer_types=True if values gave them. "
            "If no type was declared then, all columns are text for good: declare none, and compare them by = and IN "
            "alone, since '99' is after '100' as a text. "
            "Other types take a new ledger, whose budget comes on top of this one"
        )


def types_told(rows: Rows, ledger: Ledger, dataset: str) -> str:
    """The sentence of a statement about inferred types; empty where no types were inferred."""
    held = next(terms for terms in ledger.datasets() if terms.name == dataset)
    if _INFERRED not in _kept(held) and not _infers(rows):
        return ""
    return (
        " The types of columns were inferred from the values when the data were opened. They are taken to be "
        "public: the guarantee holds between datasets in which they are the same."
    )


def _infers(rows: Rows) -> bool:
    return isinstance(rows, RowTable) and rows.infers


def _kept(terms: Terms) -> dict[str, Any]:
    conditions = parsed(terms.conditions, "conditions")
    return {key: value for key, value in conditions.items() if key == _INFERRED or key.startswith(_DIALECT)}


# The guarantee for a unit with several entries that follows from a budget for one entry, and the other way round.

# Exponents up to 709 are rounded to floats, which moves their exponential by 2**-43 at most.
_ROUNDED_UP = Fraction(1) + Fraction(1, 2**40)


def entry_budget(budget: Budget, entries_per_unit: int) -> Budget:
    """The budget for one replaced entry that keeps `budget` for c of them; delta is rounded down.

    Guarantee: with epsilon' = epsilon / c and delta' = delta / (1 + e^epsilon' + ... + e^((c-1) epsilon')), whatever is
    (epsilon', delta')-DP when one entry is replaced is (epsilon, delta)-DP when c are: by a walk over c + 1 streams,
    `P_0(S) <= e^epsilon' P_1(S) + delta' <= ... <= e^(c epsilon') P_c(S) + delta' (1 + ... + e^((c-1) epsilon'))`.

    >>> entry_budget(Budget(epsilon=3), 3)
    Budget(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    >>> float(entry_budget(Budget(epsilon=1, delta="1e-6"), 2).delta)
    3.7754066879...e-07
    """
    epsilon, delta = budget.exact
    each = epsilon / whole(entries_per_unit, "entries_per_unit")
    return Budget(each, delta / _deltas_up(each, entries_per_unit) if delta else 0)


def unit_budget(budget: Budget, entries_per_unit: int) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that a budget for one replaced entry gives a unit with that many; delta rounded up.

    >>> [plain(part) for part in unit_budget(entry_budget(Budget(epsilon=1, delta="1e-6"), 3), 3)]
    ['1', '1e-06']
    """
    epsilon, delta = budget.exact
    most = whole(entries_per_unit, "entries_per_unit")
    return most * epsilon, delta * _deltas_up(epsilon, most) if delta else Fraction(0)


def promised_to_units(rows: Rows, budget: Budget) -> str:
    """The sentence of a statement about the guarantee for units with several entries; empty without a limit on them."""
    limit = rows.limit if isinstance(rows, RowTable) else None
    if limit is None:
        return ""
    epsilon, delta = unit_budget(budget, limit.most)
    return (
        f" For all entries of one {limit.of}, at most {limit.most} of which were let in, that is "
        f"({plain(epsilon)}, {plain(delta)})-differential privacy."
    )


def promised_across_blocks(neighbor_relation: NeighborRelation, budget: Budget) -> str:
    """The sentence of a statement about the guarantee for units with rows in several blocks; empty without blocks.

    Guarantee: a unit with rows in m blocks is m steps from none of its rows, each in one block: see `unit_budget`.
    """
    unit, block = neighbor_relation.unit, neighbor_relation.block
    if unit is None or block is None:
        return ""
    said = ""
    for most in sorted({2, _A_YEAR[block]}):
        with suppress(InvalidParameter):
            epsilon, delta = unit_budget(budget, most)
            said += f", of {most} by ({plain(epsilon)}, {plain(delta)})" if delta < 1 else ""
    told = said or ", which promises nothing here"
    return f" All rows of one {unit} with rows in several {block}s are protected as a group of so many{told}."


_A_YEAR: Final = {"day": 365, "week": 53, "month": 12, "quarter": 4, "year": 2}


def _deltas_up(epsilon: Fraction, steps: int) -> Fraction:
    """1 + e^epsilon + ... + e^((steps - 1) epsilon), a little too large; 1 exactly for one step."""
    if steps == 1:
        return Fraction(1)
    try:
        return Fraction(math.fsum(math.exp(step * epsilon) for step in range(steps))) * _ROUNDED_UP
    except OverflowError:
        raise InvalidParameter("so large an epsilon leaves no delta for a single entry") from None


# Growing datasets: batches appended whole, each with a version.


@dataclass(frozen=True)
class Growing(SessionBase):
    """Appending rows, and what is public about the growth; and which runs are asked after each append.

    A caller who sees `append` raise repeats it, and rows that are there twice break guarantees. So followers that fail
    raise nothing: one `RuntimeWarning` names them after all of them had their turn.
    """

    _followers: list[Callable[[], object]] = field(default_factory=list, init=False, repr=False, compare=False)

    def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows to the growing dataset; returns its version. Nothing is charged.

        Guarantee: all rows are added together with their version, or none are, even if the process dies. Rows of a
        DuckDB file stay there; rows of every other source live as long as this session. In a folder or a pattern of
        Parquet files, a new file of it is read in place, and is there at the next opening. A file that is among the
        rows already adds nothing, and needs its `request` key (`InvalidParameter`).

        The number of rows is recorded only where the size is public. Under a `request` key that came before, nothing is
        added and the earlier version is returned. Only the key decides this, so new rows need a new one. A DuckDB file
        keeps the key; for other sources the ledger shows it, so the key must reveal nothing about the rows, not even a
        hash of them.

        Where rows stay (a DuckDB file, a server), a file is appended without a key once. Under the same path again it
        is refused (`InvalidParameter`), since a script that runs again would bring its rows twice. A key says that it
        is another batch. The path alone decides, never the rows.

        Where rows are in blocks, an `OwnerWarning` counts the rows that no readable block holds, for the owner of the
        rows only. They are added all the same, since a refusal would reveal something about them. So it does with
        cells of a CSV, or of columns of strings, that are not of the type of their column: those are NULL.

        Errors: `SchemaMismatch` if columns or types differ. After a `LedgerError` nothing is left in memory. Rows of a
        DuckDB file may be there, and get their version with the next append: repeat it under the same key.

        >>> import chary, pyarrow as pa
        >>> rows = pa.table({"age": [70, 80, 20]})
        >>> public = {"privacy_unit": None, "neighbors": "replace"}
        >>> session = chary.open(rows, **public, budget=chary.Budget(epsilon=1), ledger=":memory:")
        >>> session.append(pa.table({"age": [35, 36]}), request="Monday")
        2
        >>> [(version.number, version.kind, version.size) for version in session.versions]
        [(1, 'found', 3), (2, 'append', 5)]
        """
        key, known = _key_of(self.spine.rows, rows) if request is None else (request, False)
        version, unparsed = appended(self, rows, key)
        if known:  # said only now: an append that was interrupted is completed by the next one
            raise InvalidParameter(
                f"{Path(rows).name} was appended before: its rows are there as version {version}, and nothing was "
                "added now. If it is another batch, give it a key, such as request='week 12'"
            )
        for name, found in unparsed.items():
            warnings.warn(
                f"version {version}, {found.told(name)}. This is not private: for who owns the rows alone",
                OwnerWarning,
                stacklevel=2,
            )
        return version

    def _added(self, rows: Any, request: str | None) -> tuple[int, Mapping[str, Unparsed]]:
        spine, arrivals, brought = self.spine, self._arrivals, list[Version]()
        if spine.version is not None:
            raise InvalidParameter("rows of an earlier version are what they were: append to the session of now")
        table = spine.rows.whole if spine.renews and isinstance(spine.rows, RowTable) else spine.rows
        if isinstance(table, RowTable):
            key = None if request is None else label(request, "request")
            batch = table.append(rows, request=key, arrive=lambda batch: brought.append(arrivals.arrive(batch)))
            return (brought or [arrivals.of(batch)])[0].number, batch.unparsed
        if request is not None:
            raise InvalidParameter("only a table remembers the idempotency keys of its batches")
        table.append(rows)
        size = public_size(table) if has_public_size(table.neighbor_relation) else 0
        return arrivals.arrive(Batch(0, rows=size)).number, {}

    @property
    def size(self) -> int:
        """How many rows there are; `InvalidQuery` where that is secret. Free, since neighbours agree on it."""
        return public_size(self.spine.rows)

    @property
    def versions(self) -> list[Version]:
        """Every batch in order of arrival; all of it is public."""
        return self._arrivals.all()

    @property
    def _arrivals(self) -> Arrivals:
        return Arrivals.read_by(self.spine)


def _key_of(table: Rows, rows: Any) -> tuple[str | None, bool]:
    """The key of a file that is appended without one, where rows stay: its path, which is public; None elsewhere. And
    whether that came before."""
    if not (isinstance(table, RowTable) and table.keeps_batches and isinstance(rows, (str, Path))):
        return None, False
    try:
        if not Path(rows).is_file():
            return None, False
        # Kept in files and servers: it must never change.
        key = f"file {Path(rows).resolve(strict=True)}"
    except (OSError, ValueError):
        return None, False
    return key, any(batch.request == key for batch in table.batches())


def appended(session: Growing, rows: Any, request: str | None) -> tuple[int, Mapping[str, Unparsed]]:
    """What `Growing.append` does, but for its warning of cells: the version, and by column which cells became NULL.

    They are for who owns the rows alone. Under a key that came before nothing was read, and none are counted.
    """
    (version, unparsed), followers = session._added(rows, request), tuple(session._followers)
    # Before any warning, which filters may turn into an error: whether they are asked must not depend on rows.
    failed = [failure for follow in followers if (failure := _failure(follow))]
    table = session.spine.rows
    if isinstance(table, RowTable) and (unread := table.unread(rows)):
        warnings.warn(
            f"{unread:,} of the rows appended are before the first block, of the future, without a date or in a "
            "block that is closed: no question sees them now. This is not private: for who owns the rows alone",
            OwnerWarning,
            stacklevel=3,
        )
    if failed:
        warnings.warn(
            f"the rows are there as version {version}: do not append them again. But of the {len(followers)} that "
            f"follow, {len(failed)} failed: {'; '.join(failed)}. The next append lets them catch up",
            RuntimeWarning,
            stacklevel=3,
        )
    return version, unparsed


def _failure(follow: Callable[[], object]) -> str | None:
    try:
        follow()
    except CharyError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # of the caller's own code, so that its message may say anything
        return type(error).__name__
    return None


# Verbs for the calls that are asked most: the same words for a session and for the client of a service.


class Verbs(ABC):
    """Short forms of `ask`: each makes one call of its parameters, which are those of the call, and asks it."""

    @abstractmethod
    def ask(self, call: Call[plan.AnswerT], *, request: str | None = None) -> plan.AnswerT:
        """Ask any call."""

    def release(
        self,
        query: plan.Question[AnsweredT],
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        request: str | None = None,
    ) -> AnsweredT:
        """An ordinary noisy answer, always charged: `ask(Release(query, ...))`, see `chary.calls.Release`."""
        return self.ask(Release(query, epsilon=epsilon, rho=rho, delta=delta), request=request)

    @overload
    def test(
        self, query: Query[NoisyNumber] | Mean[Any], *, request: str | None = None, **terms: Unpack[thresholds.Terms]
    ) -> bool: ...

    @overload
    def test(
        self, query: Query[NoisyNumbers], *, request: str | None = None, **terms: Unpack[thresholds.Terms]
    ) -> answers.TestedKeys: ...

    def test(
        self,
        query: plan.Question,
        *,
        above: Number,
        epsilon: Number | None = None,
        hits: int | None = None,
        price: Number | None = None,
        within: Number | None = None,
        tests: int | None = None,
        confidence: Number | None = None,
        below_margin: bool | None = None,
        request: str | None = None,
    ) -> bool | answers.TestedKeys:
        """Whether a query, or which of its keys, is at or above a threshold: True is charged, False is free.

        How accurately is said by one of `hits=20` (this many must fit into the budget), `price=`, `within=` with
        `tests=`, and `epsilon=` (Laplace noise); see `chary.calls.ThresholdTest`.
        """
        call = thresholds.ThresholdTest(
            query,
            above=above,
            epsilon=epsilon,
            hits=hits,
            price=price,
            within=within,
            tests=tests,
            confidence=confidence,
            below_margin=below_margin,
        )
        found = self.ask(call, request=request)
        return found if isinstance(found, answers.TestedKeys) else bool(found)

    @overload
    def release_if(
        self,
        query: Query[NoisyNumber] | Mean[Any],
        *,
        request: str | None = None,
        **terms: Unpack[thresholds.ValuedTerms],
    ) -> answers.Conditional: ...

    @overload
    def release_if(
        self, query: Query[NoisyNumbers], *, request: str | None = None, **terms: Unpack[thresholds.ValuedTerms]
    ) -> answers.WatchResult: ...

    def release_if(
        self,
        query: plan.Question,
        *,
        above: Number,
        epsilon: Number | None = None,
        hits: int | None = None,
        price: Number | None = None,
        within: Number | None = None,
        tests: int | None = None,
        confidence: Number | None = None,
        value: Number | None = None,
        below_margin: bool | None = None,
        request: str | None = None,
    ) -> answers.Conditional | answers.WatchResult:
        """The noisy value if it is at or above the threshold, otherwise nothing, free; see `chary.calls.ReleaseIf`. Of
        a grouped query the values of all keys that are, in one scan.

        How accurately is said as for `test`, and `value` is the part of the cost of a hit for its value; with
        `epsilon=` what was withheld can be revised.
        """
        call: Call[Any] = thresholds.ReleaseIf(
            query,
            above=above,
            epsilon=epsilon,
            hits=hits,
            price=price,
            within=within,
            tests=tests,
            confidence=confidence,
            value=value,
            below_margin=below_margin,
        )
        found: answers.Conditional | answers.WatchResult = self.ask(call, request=request)
        return found


# The session: everything an analyst does with a dataset, under the one budget its ledger keeps.

RunT = TypeVar("RunT")


@dataclass(frozen=True)
class Session(Verbs, Growing):
    """Calls to one dataset under one hard budget; made by `chary.open`, `chary.open_counts` or `chary.open_votes`.

    Guarantee: all answers to all analysts together are (epsilon, delta)-DP for every privacy unit, under the
    neighbouring relation of the session (see `statement`). That holds for adaptive calls, and however often the session
    is reopened.

    Errors: a call that cannot be right raises before anything is charged, and one that does not fit raises
    `BudgetExceeded`. A call that fails in the engine raises `EngineError` and stays charged.

    Idempotency: every method that asks takes `request=`, a key of your choice. The same request again under the key,
    after a crash for example, returns the stored answer at no cost. The same key with another call raises
    `RequestConflict`. The key is taken with the charge. A key whose first call is still running waits for that answer,
    for some seconds at most (`RequestInFlight`). A call that was interrupted after it read rows stays charged; asking
    again under its key is charged anew.

    Several threads may use a session, and several processes may open the same ledger.
    """

    def ask(self, call: Call[plan.AnswerT], *, request: str | None = None) -> plan.AnswerT:
        """Ask any call, such as `session.ask(Quantile("age", [0.5], bounds=(0, 120), epsilon=0.1))`.

        Guarantee: that of the call; it is reserved before anything is read and settled before it is answered. Under a
        `request` key that came before the stored answer is returned for free; the same key with another question raises
        `RequestConflict`. Errors: `BudgetExceeded` for a call that does not fit, untouched; those of the call.
        """
        made = asked(call)
        answer: plan.AnswerT = made.perform(self.spine, request)
        return counting(answer, made)

    def quote(
        self,
        call: Call[Any],
        *,
        distance: Number | None = None,
        tests: int | None = None,
        truth: Number | None = None,
        hits: int | None = None,
        confidence: Number = "0.95",
        queries: Sequence[AskedShare] = (),
        like: Any = None,
    ) -> Quote:
        """What a call would cost and how accurate it would be; nothing is charged, read or written.

        `distance` is how far a value might be from its threshold, for `wrong_call` (default: the error bar). `tests` is
        the number of tests that you expect (default: the groups of the query, or those that the call names). It decides
        `within`, the error of all tests together, and `outlook`. That has the margin, the expected false alarms if
        values are at most `truth` (default: 0 for counts), and the smallest threshold without one. Both hold with
        `confidence`. `alternatives` are other calls of the same cost as `hits` hits (default: those that the call
        names, or that fit).

        For `PMW`, `queries` and a public table, `like`, estimate how many of these queries have hard answers if the
        rows are like that table. It is a simulation on that table and no guarantee; see `ExpectedHard`.

        Errors: those of a call that cannot be right for this dataset.
        """
        made = asked(call)
        found = quote(self.spine, made.plan(self.spine), distance, tests, confidence, truth)
        found = replace(found, limits=made.limits or None)
        if queries or like is not None:
            if not isinstance(made, PMW):
                raise InvalidParameter("queries= and like= are for PMW, whose hard answers they are to tell")
            found = replace(found, hard_answers=made.expected_hard(self.spine, queries, like))
        return compared_with(found, partial(alternatives, self.spine, made, found, hits))

    def start(self, opening: Opening[RunT], *, request: str | None = None, follow: bool = False) -> RunT:
        """Open what stays open, such as `session.start(SparseVector(above=500, hits=3, epsilon=0.1))`.

        Guarantee: that of the opening, which is charged now. `resume(run.call)` finds the run again. With `follow`, the
        run is asked after each `append`, and now if something is due. Errors: as for `ask`.
        """
        if not isinstance(opening, Opening):
            raise InvalidQuery("start what stays open, such as chary.calls.SparseVector(...); ask other calls")
        return self._followed(opening.perform(self.spine, request), follow)

    def resume(self, call: int, *, bring: Any = None, follow: bool = False) -> Run[Any, Any]:
        """Continue an open run, also after a restart; nothing is charged.

        `bring` is an object that a ledger cannot store, such as the black box of a schedule. Errors: `NotWithheld` if
        this call opened no run of this dataset.
        """
        return self._followed(resumed(self.spine, call, bring), follow)

    @property
    def runs(self) -> list[OpenRun]:
        """The runs that were opened here and not interrupted, oldest first: `resume(run.call)` continues one."""
        return [OpenRun(call.number, call.kind) for call in openings(self.spine, *run_kinds(), here=True)]

    def _followed(self, run: RunT, follow: bool) -> RunT:
        if follow:
            asked: Any = run
            asked.follow()
            self._followers.append(asked.follow)
        return run

    def partition(
        self,
        by: str | Mapping[str, Predicate | str],
        parts: Iterable[Any] | None = None,
        *,
        max_parts_per_unit: int | None = None,
        assumed_parts_per_unit: int | None = None,
    ) -> dict[Any, Session]:
        """Sessions of disjoint parts of the rows, by the value of each; nothing is charged or read.

        Calls to several parts cost as much as the most expensive one, not their sum (parallel composition).

        `by` is a column, of whose public values `parts` lists some, or a mapping of names to conditions that provably
        exclude one another: `partition({"child": "age < 18", "adult": "age >= 18"})`. Rows of none of the parts, such
        as those where the column is NULL, are in no session. What is asked of a part reads its rows as if there were no
        others, in every engine. Its budget is this one's, and what it is charged is charged there alone.

        Guarantee: that of this session, for all calls to it and to parts together. Of each partition as much counts as
        its most expensive part has been charged, next to what is asked of all rows (docs/theory/charging.md, parts).
        Where a unit may be in k parts it is the k most expensive, and twice as many where units are replaced, which
        leave one part and enter another. If each row is a unit, or `by` is the column of the unit, every unit is in one
        part. Otherwise one of these is needed:

        - `max_parts_per_unit=k`: chary keeps the first k parts of each unit, in the order in which its rows came. Its
          rows in all other parts are left out, for ever. This suits units that rarely move, such as homes by region. Of
          homes by month, all but the first k months would be nearly empty, and no answer shows it. The order is that of
          a frame, of CSV files, of Parquet files that are listed, or of a DuckDB file. Other sources have none, and
          this option is refused for them.
        - `assumed_parts_per_unit=k`: you assert that no unit ever has rows in more than k of these parts. Nothing
          checks it; if it is false, so is the guarantee.

        Assumptions: rows are only added, behind those that are there, at each later opening too. A row never changes
        the value that decides its part.

        Where every unit is in one part, parts that are named later by the same column belong to the same partition.
        With a limit, another list is another partition: its most expensive parts are charged in addition.

        Where units are replaced, a unit may also enter or leave a part. The number of rows of a part is then secret,
        and algorithms of your own are refused. A run belongs to the part in which it was opened. A part cannot be
        divided again, and rows are appended in this session.

        Errors: `InvalidQuery` for a column, values or conditions that do not fit, and for conditions of which two might
        hold of one row. `InvalidQuery`, too, for a limit that is missing or that the source cannot keep, and for a part
        of a part.

        >>> import chary, pyarrow as pa
        >>> visits = pa.table({"month": [1, 1, 2, 3, 3, 3], "age": [70, 20, 80, 30, 40, 90]})
        >>> with chary.open(visits, privacy_unit=None, budget=chary.Budget(epsilon=1), ledger=":memory:") as session:
        ...     months = session.partition("month", [1, 2, 3])
        ...     answers = [months[month].release(chary.count("age >= 65"), epsilon="0.1") for month in months]
        ...     print(len(answers), "months", session.spent)
        3 months 10 %
        """
        rows = self.spine.rows
        if self.spine.blocks is not None:
            raise InvalidQuery("these rows are in blocks, which are their parts: ask session.blocks(...) with where=")
        if self.spine.parts is not None or not isinstance(rows, RowTable):
            raise InvalidQuery("all rows of a table are divided: a part has no parts, nor have series or votes")
        limits = {"max_parts_per_unit": max_parts_per_unit, "assumed_parts_per_unit": assumed_parts_per_unit}
        made = Partition.of(by, parts, rows.schema, rows.neighbor_relation, **limits)
        return {
            key: self._with(
                replace(self.spine, rows=rows.of_part(part), parts=Parts(made.text, made.most, (part.name,)))
            )
            for key, part in made.parts.items()
        }

    def as_of(self, version: int) -> Session:
        """The session of the rows as they were at an earlier version; nothing is charged or read.

        It reads the rows of that version only, and charges the same budget. `version` is the number of one of
        `versions`, or 0 for the rows before the first batch, where the number of rows is secret. The session takes no
        new rows, and `partition` may divide it. `resume` continues a run in it that has not seen later rows. Closing it
        closes nothing.

        A DuckDB file knows the rows of each version, also in later sessions. Other files and frames live in memory:
        their versions are those of the opening and of each batch of this session.

        Assumption: rows are only added, behind those that are there. If rows were changed or removed, the guarantee
        does not hold.

        Errors: `InvalidQuery` if there is no such version, or if the source cannot distinguish its rows from later ones
        (tables of servers, Spark, series).

        >>> import chary, pyarrow as pa
        >>> public = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=1)}
        >>> session = chary.open(pa.table({"age": [70, 80]}), **public, ledger=":memory:")
        >>> _ = session.append(pa.table({"age": [35]}))
        >>> [session.as_of(version.number).size for version in session.versions]
        [2, 3]
        """
        number = whole(version, "version", least=0)
        return self._with(replace(self.spine, rows=self._arrivals.as_of(number), version=number))

    def blocks(self, since: Day | None = None, until: Day | None = None) -> Session:
        """The session of the blocks from one to another, both included, by default all that may be read: of rows that
        were opened with `blocks=`. Nothing is charged or read.

        What it asks is of the rows of these blocks, as if there were no others, and is charged in each of them. Limits
        on the rows and groups of a unit hold for a unit in one block; a unit in several is still counted once. Blocks
        are named as in `Blocks`, or by a day in them. They stay the same as time goes on, unlike those of the session
        that was opened, which reads all that may be read up to today's. A run that keeps a secret belongs to the blocks
        of its opening, wherever it is continued.

        Errors: `InvalidParameter` for what names no block, `InvalidQuery` for blocks that are closed, before the first
        or of the future, and where rows are in no blocks. Asked of several blocks, `InvalidQuery` for algorithms of
        your own and for individual privacy accounting, where a unit is a column.

        >>> import chary, pyarrow as pa
        >>> from datetime import date
        >>> days = [date(2024, 1, 5), date(2024, 2, 5), date(2024, 2, 6)]
        >>> loads = pa.table({"home": [1, 1, 2], "day": days, "kwh": [3.0, 9.0, 4.0]})
        >>> rule = chary.Blocks("day", every="month", since="2024-01")
        >>> with chary.open(
        ...     loads, privacy_unit="home", budget=chary.Budget(epsilon=1), ledger=":memory:", blocks=rule
        ... ) as session:
        ...     _ = session.blocks("2024-01", "2024-01").release(chary.count("kwh > 2"), epsilon="0.5")
        ...     _ = session.blocks("2024-01", "2024-02").release(chary.count("kwh > 2"), epsilon="0.25")
        ...     {block: session.spent_by_block[block] for block in ("2024-01", "2024-02", "2024-03")}
        {'2024-01': 0.75, '2024-02': 0.25, '2024-03': 0.0}
        """
        spine = self.spine
        if spine.blocks is None:
            raise InvalidQuery('the budget of these rows does not renew: chary.open(..., blocks=chary.Blocks("day"))')
        return self._with(spine.of_blocks(spine.blocks.between(since, until)))

    def _with(self, spine: Spine) -> Session:
        made = Session(spine)
        # What follows appends there is told of those here.
        set_fields(made, _followers=self._followers)
        return made

    def series(self) -> Values:
        """The question for all values of a series; only sessions of `open_counts` have one."""
        if not isinstance(self.spine.rows, Series):
            raise InvalidQuery("this session asks a table: use count, sum or mean")
        return self.spine.rows.series()

    def set_quota(self, analyst: str, quota: Number) -> None:
        """Cap one analyst at a fraction of the dataset's budget, its quota, inside the dataset's own cap."""
        part = exact(quota, "quota")
        if not 0 <= part <= 1:
            raise InvalidParameter("a quota is a fraction of the budget, from 0 to 1, such as 0.5 for half of it")
        self.spine.ledger.set_quota(self.spine.dataset, analyst, self.spine.filter.shares.cap(part))

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types, which are public; nothing is read."""
        return self.spine.rows.schema

    @property
    def spent(self) -> Spending:
        """What all analysts have spent of the whole budget together, open reservations included."""
        return charges.spent_of(self.spine.ledger, self.spine.dataset, self.spine.filter, self.spine.parts)

    @property
    def spent_by_block(self) -> dict[str, float]:
        """What each block from the first to today's holds, as a part of its budget; empty where rows are in none."""
        spine = self.spine
        return charges.spent_by_block(spine.ledger, spine.dataset, spine.filter, spine.blocks)

    @property
    def remaining(self) -> Spending:
        """What this session's analyst could still spend: what is left of the budget, or of the analyst's quota if that
        is less. With quotas, `spent` and `remaining` do not add up to the budget."""
        return self.spine.remaining()

    @property
    def history(self) -> list[Entry]:
        """Every call of every analyst, oldest first; all of it is public."""
        return list(entries(self.spine.ledger, self.spine.dataset))

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far, to whom, under which relation and assumptions."""
        said = statement(self.spine.ledger, self.spine.dataset, self.spine.filter, self.spine.rows.neighbor_relation)
        inferred = types_told(self.spine.rows, self.spine.ledger, self.spine.dataset)
        rows, budget = self.spine.rows, self.spine.filter.budget
        return (
            said + inferred + promised_to_units(rows, budget) + promised_across_blocks(rows.neighbor_relation, budget)
        )

    def close(self) -> None:
        """Close the table and the ledger; everything can be reopened. A part, and the session of an earlier version, is
        closed with the session of all rows."""
        spine = self.opened
        if spine.version is None and (spine.parts is None or spine.renews):
            (spine.rows.whole if isinstance(spine.rows, RowTable) else spine.rows).close()
            spine.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        parts = self.spine.parts
        names = () if parts is None else parts.names
        told = f"{names[0]} to {names[-1]}" if self.spine.blocks and len(names) > 1 else ", ".join(names)
        part = "" if parts is None else f", {'part' if self.spine.blocks is None else 'blocks'} {told}"
        return f"Session({self.spine.dataset!r}{part}, {self.spine.filter.budget}, spent {self.spent})"


def findings(session: Session, *, run: int | None = None) -> Findings:
    """What all calls of all analysts published, or the questions to one run: intervals, p-values, alarms, together.

    Nothing is read or charged: it is worked out from the ledger. `findings(session).intervals(simultaneous=True)` hold
    for the whole ledger at once, wherever one stops; see `chary.accounting.Findings`. Left out is what published no
    value with known noise, such as outcomes of algorithms, and quantiles, running counts and answers of public weights.
    Errors: `NotWithheld` for a call that opened no run.
    """
    return History(session.spine).findings(run)


def plain_composition(session: Session) -> PlainComposition:
    """What the questions of a session would have cost by ordinary composition, every test paid."""
    return plainly_composed(session.history, session.spine.filter.budget)
