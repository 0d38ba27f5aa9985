"""Opening a session: a source of rows, a budget, a ledger."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

from chary import noise
from chary.data import Neighbouring, Relation, Rows, Series, Table
from chary.errors import InvalidParameter, LedgerMismatch
from chary.filters import Budget, ExactFilter, Filter, PureFilter, RenyiFilter, restore
from chary.ledger import Ledger, MemoryLedger, SqlLedger, Terms
from chary.numbers import Number, exact, plain, positive
from chary.session.arrivals import Arrivals
from chary.session.session import Session
from chary.session.spine import Spine
from chary.session.unasked import advising

FILTERS = ("pure", "renyi", "exact")
IN_MEMORY = ":memory:"


def open(
    source: Any,
    *,
    privacy_unit: str | None,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    dataset: str | None = None,
    analyst: str = "analyst",
    table: str | None = None,
    unpivot: tuple[str, str] | None = None,
    columns: dict[str, str] | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open (or reopen) a dataset under the budget that its ledger keeps.

    - `source`: a CSV or Parquet file (or a list of them), a DuckDB file with `table=`, a pandas, Polars or Arrow table.
    - `privacy_unit`: the column that names the protected unit, or None when each row is a unit of its own.
    - `relation`: "add/remove" one unit (the default for sessions) or "replace" one.
    - `ledger`: a file, kept for ever and shared by all who ask this dataset; ":memory:" for throwaway sessions.
    - `budget`: needed the first time; later it is read from the ledger, and a different one raises `LedgerMismatch`.
    - `filter`: "renyi" (mixed calls, the default when the budget has a delta), "exact" (calls that are multiples of
      `grain`; most hits), "pure" (delta 0). `grain`: the usual epsilon of a call, for which a new filter is tuned.
    - `approximate_delta`: the part of delta set aside for (epsilon, delta)-DP events.
    - `dataset`: its name in the ledger, the file's stem by default; a second dataset in a ledger has a budget of its
      own and must be named. `analyst`: who asks, for caps per analyst.

    Assumptions: the schema is public (types sniffed from a CSV are values: declare `columns`), as are names, keys and
    bounds. `unsafe_noise` replaces the operating system's randomness and voids every guarantee; it is for tests.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> session = open(rows, privacy_unit="patient", budget=Budget(epsilon=1, delta=1e-6), ledger=":memory:")
    >>> session.spent.share
    0.0
    """
    neighbouring = Neighbouring(relation, privacy_unit)
    choice = _Choice(budget, filter, grain, approximate_delta)
    rows = Table.open(source, neighbouring=neighbouring, table=table, unpivot=unpivot, columns=columns)
    return _session(rows, choice, ledger, (dataset, _name(source, table)), analyst, unsafe_noise, on_step)


def open_series(
    source: Any,
    *,
    column: str,
    sensitivity: int,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    order_by: str | None = None,
    labels: str | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open a series of counts that were aggregated elsewhere: one value a row, in order; the number of rows is public.

    Guarantee as for `open`, where neighbours are series whose every value differs by at most `sensitivity`: what one
    unit can change must be known to whoever made the series. Ask it with `session.watch(session.series(), ...)`.
    """
    choice = _Choice(budget, filter, grain, 0)
    rows = Series.open(source, column=column, sensitivity=sensitivity, order_by=order_by, labels=labels)
    return _session(rows, choice, ledger, (dataset, _name(source, column)), analyst, unsafe_noise, on_step)


def open_rows(
    rows: Rows,
    *,
    dataset: str,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    analyst: str = "analyst",
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open rows that are no table, such as `data.Ballots`, under the budget that the ledger keeps for `dataset`.

    Guarantee as for `open`, between the neighbours that `rows` declares. The session owns the rows and closes them,
    also when it cannot be opened. Errors: `InvalidParameter` for rows that cannot be asked or a dataset without a name.

    >>> from chary.data import Ballots
    >>> votes = Ballots(lambda question: [7, 3], ["cat", "dog"], voter="teacher")
    >>> session = open_rows(votes, dataset="votes", ledger=":memory:", budget=Budget(epsilon=1, delta=1e-6))
    >>> session.spent.share
    0.0
    """
    if not all(hasattr(rows, needed) for needed in ("fingerprint", "prepare", "snapshot")):
        raise InvalidParameter("open rows that can be asked, such as chary.data.Ballots; open tables by chary.open")
    with ExitStack() as undo:
        undo.callback(rows.close)
        if not isinstance(dataset, str) or not dataset:
            raise InvalidParameter("dataset must be a name, such as dataset='votes'")
        choice = _Choice(budget, filter, grain, approximate_delta)
        undo.pop_all()
    return _session(rows, choice, ledger, (dataset, dataset), analyst, unsafe_noise, on_step)


class _Choice:
    """What the caller said about the budget; what is not said is read from the ledger."""

    def __init__(self, budget: Budget | None, kind: str | None, grain: Number | None, approximate: Number) -> None:
        if kind is not None and kind not in FILTERS:
            raise InvalidParameter(f"filter must be one of {', '.join(FILTERS)}, got {kind!r}")
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidParameter("budget must be a Budget, such as chary.Budget(epsilon=1, delta=1e-6)")
        self.budget, self.kind = budget, kind
        self.grain = None if grain is None else positive(grain, "grain")
        self.approximate = exact(approximate, "approximate_delta")

    def make(self) -> Filter:
        """The filter of a new dataset."""
        if self.budget is None:
            raise InvalidParameter("a new ledger needs a budget, such as budget=chary.Budget(epsilon=1, delta=1e-6)")
        kind = self.kind or ("renyi" if self.budget.exact[1] else "pure")
        if kind == "pure":
            return PureFilter(self.budget, self.approximate)
        if kind == "renyi":
            return RenyiFilter.best(self.budget, grain=self.grain, approximate_delta=self.approximate)
        if self.approximate:
            raise InvalidParameter("the exact filter prices no approximate events: leave approximate_delta out")
        if self.grain is None:
            raise InvalidParameter('the exact filter needs the epsilon of a call: filter="exact", grain=0.02')
        return ExactFilter.with_revisions(self.budget, self.grain)

    def agrees_with(self, held: Filter) -> None:
        """Whatever the caller said must be what the ledger holds."""
        if self.budget is not None and self.budget != held.budget:
            raise LedgerMismatch(f"the ledger holds this dataset under {held.budget}, not {self.budget}")
        if self.kind is not None and self.kind != held.kind:
            raise LedgerMismatch(f"the ledger prices this dataset by the {held.kind} filter, not {self.kind}")
        if self.approximate and self.approximate != held.approximate_delta:
            raise LedgerMismatch(f"the ledger sets {plain(held.approximate_delta)} of delta aside, not as asked")
        if isinstance(held, ExactFilter) and self.grain not in (None, held.grain):
            raise LedgerMismatch(f"the ledger's exact filter has grain {plain(held.grain)}, not as asked")


def _session(
    rows: Rows,
    choice: _Choice,
    where: str | Path | Ledger,
    names: tuple[str | None, str],
    analyst: str,
    source: noise.Source | None,
    on_step: Callable[[str], None] | None,
) -> Session:
    with ExitStack() as undo:
        undo.callback(rows.close)
        if isinstance(where, (str, Path)) and not Path(where).exists():
            choice.make()  # so that a budget that cannot be opened leaves no empty ledger behind
        ledger = _ledger(where)
        if ledger is not where:
            undo.callback(ledger.close)
        filter_, dataset = _terms_of(ledger, rows, choice, names)
        Arrivals(ledger, dataset, rows).catch_up()
        undo.pop_all()
    return Session(Spine(rows, filter_, ledger, dataset, analyst, source or noise.OperatingSystem(), on_step or _quiet))


def _terms_of(ledger: Ledger, rows: Rows, choice: _Choice, names: tuple[str | None, str]) -> tuple[Filter, str]:
    """The filter and the name of the dataset, new or held, once the ledger agrees with them."""
    known = {terms.name: terms for terms in ledger.datasets()}
    dataset = _chosen(known, *names)
    held = known.get(dataset)
    filter_ = choice.make() if held is None else held_filter(held)
    with advising(ledger, dataset):
        choice.agrees_with(filter_)
        ledger.open(_terms(rows, filter_, dataset))
    return filter_, dataset


def _quiet(step: str) -> None:
    """Nobody wants to know."""


def _ledger(where: str | Path | Ledger) -> Ledger:
    if isinstance(where, (str, Path)):
        return MemoryLedger() if str(where) == IN_MEMORY else SqlLedger(where)
    return where


def _terms(rows: Rows, filter_: Filter, dataset: str) -> Terms:
    epsilon, delta = filter_.budget.exact
    conditions = {
        "relation": str(rows.neighbouring.relation),
        "unit": rows.neighbouring.unit,
        "epsilon": str(epsilon),
        "delta": str(delta),
        "filter": filter_.body(),
    }
    return Terms(dataset, rows.fingerprint(), json.dumps(conditions), filter_.capacity)


def held_filter(terms: Terms) -> Filter:
    """The filter that a dataset of a ledger was opened with."""
    conditions = json.loads(terms.conditions)
    budget = Budget(Fraction(conditions["epsilon"]), Fraction(conditions["delta"]))
    return restore(budget, conditions["filter"])


def _name(source: Any, table: str | None) -> str:
    """The first file's stem (and the table's name), or "data"."""
    path = min(map(str, source)) if isinstance(source, (list, tuple)) and source else source
    stem = Path(path).name.split(".")[0] if isinstance(path, (str, Path)) else "data"
    return stem if table is None else f"{stem}.{table}"


def _chosen(known: Mapping[str, Terms], asked: str | None, usual: str) -> str:
    """The dataset's name; a second one in a ledger has a budget of its own, so it must be named by the caller."""
    if asked is None and known and usual not in known:
        names = ", ".join(map(repr, sorted(known)))
        raise LedgerMismatch(
            f"the ledger holds {names}; say dataset= if these rows are one of them (under another file name), or name "
            "a new dataset, which gets a budget of its own"
        )
    return asked or usual
