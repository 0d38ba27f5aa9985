"""How a session is opened: its data, its ledger, its budget and its name."""

import json
import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, cast

from chary import noise
from chary.accounting import Event
from chary.addresses import database_of, file_of, is_server
from chary.core.transaction import Spine
from chary.core.versions import APPENDED, Follower, Version
from chary.data import Blocks, CSVFormat, EntryLimit, NeighborRelation, Neighbors, Rows, RowTable, Series, Votes
from chary.data.series import has_public_size
from chary.data.source import UNDECIDED, Folder
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError, LedgerMismatch, OwnerWarning
from chary.filters import Budget, ExactFilter, Filter, Listing, PureFilter, RenyiFilter, restore
from chary.ledger import IN_MEMORY, Ledger, Terms, ledger_exists, open_ledger
from chary.ledger.checkpoint import check_apart
from chary.ledger.sqlite import files
from chary.numbers import Number, counted, exact, plain, positive
from chary.session.session import Session, check_types, entry_budget, read_as, unit_budget
from chary.upcasting import repair_races

# Where a session's ledger is, and what keeps how far it went.


@dataclass(frozen=True)
class Place:
    """Where the ledger is, and the checkpoint of how far it went."""

    ledger: str | Path | Ledger
    checkpoint: str | Path | None = None

    @property
    def missing(self) -> bool:
        """Whether the ledger is a file, or a schema of a server, that is not there yet.

        Errors: `LedgerError` where it could never be, and where a checkpoint says that it was there.
        """
        if not isinstance(self.ledger, (str, Path)) or str(self.ledger) == IN_MEMORY:
            return False
        if not is_server(self.ledger):
            check_apart(file_of(self.ledger), self.checkpoint)
        if ledger_exists(self.ledger):
            return False
        if self.checkpoint is not None and Path(self.checkpoint).exists():
            raise LedgerCorrupted(
                "the ledger is gone, and its checkpoint is there: restore the newest copy of the ledger"
            )
        return is_server(self.ledger) or self._has_folder(file_of(self.ledger))

    def _has_folder(self, file: Path) -> bool:
        if not os.access(file.absolute().parent, os.W_OK | os.X_OK):
            raise LedgerError("the ledger's file cannot be used: its folder is missing, or cannot be written to")
        return True

    def open(self) -> Ledger:
        """The ledger itself, or the one that was handed in."""
        if isinstance(self.ledger, (str, Path)):
            return open_ledger(self.ledger, checkpoint=self.checkpoint)
        if self.checkpoint is not None:
            raise InvalidParameter("only a ledger that is opened by its path or its URL has a checkpoint")
        return self.ledger


# What a dataset is called in its ledger.


def usual_name(source: Any, table: str | None, series: str | None = None) -> str:
    """The first file's stem, the name of a folder of files or of a server's database (and of the table), or "data".

    A table that is named as its file or its database is, is not named twice. Of a series the column is named too.

    >>> usual_name("postgresql://ann:pw@db.example/clinic?sslmode=require", "visits"), usual_name("a/visits.csv", None)
    ('clinic.visits', 'visits')
    >>> usual_name("stops.duckdb", "stops"), usual_name("stops.duckdb", "days")
    ('stops', 'stops.days')
    """
    if series is not None:
        table = series if table is None else f"{table}.{series}"
    if is_server(source):
        return _with_table(database_of(source), table)
    folder = Folder.named(source) if isinstance(source, (str, Path)) else None
    source = source if folder is None else Path(folder.path).resolve()
    path = min(map(str, source)) if isinstance(source, (list, tuple)) and source else source
    stem = Path(path).name.split(".")[0] if isinstance(path, (str, Path)) else "data"
    return _with_table(stem, table)


def _with_table(stem: str, table: str | None) -> str:
    return stem if table in (None, stem) else f"{stem}.{table}"


def kept_as(known: Collection[str], usual: str) -> str:
    """The usual name as a ledger spells it: earlier versions repeated the name of a table that its file has too."""
    twice = f"{usual}.{usual}"
    return twice if usual not in known and twice in known else usual


def recorded_as(ledger: str | Path, names: Iterable[str]) -> str | None:
    """The first of these names under which a ledger holds a dataset; None where it holds none of them, or is not there.

    A chary.toml may call a dataset otherwise than its rows are called, and both names mean the same budget.
    """
    if not ledger_exists(ledger):
        return None
    with closing(open_ledger(ledger)) as found:
        known = {terms.name for terms in found.datasets()}
    return next((kept for name in names if (kept := kept_as(known, name)) in known), None)


def usual_ledger(source: Any) -> str:
    """The default place of a ledger: next to the file or the folder of the rows, such as `visits.csv.ledger`.

    Errors: `InvalidParameter` for rows next to which there is no place: of a server, a frame, or several files.

    >>> usual_ledger("a/visits.csv"), usual_ledger("visits/"), usual_ledger("visits/2026-*.parquet")
    ('a/visits.csv.ledger', 'visits.ledger', 'visits.ledger')
    """
    if not isinstance(source, (str, Path)) or is_server(source):
        raise InvalidParameter(
            "these rows have no place for a ledger next to them: say where it is, such as ledger='visits.ledger'"
        )
    folder = Folder.named(source)
    return f"{os.path.normpath(source if folder is None else folder.path)}.ledger"


def chosen(known: Mapping[str, Terms], asked: str | None, usual: str) -> str:
    """The dataset's name; a second one in a ledger has a budget of its own, so it must be named by the caller."""
    usual = kept_as(known, usual)
    if asked is None and known and usual not in known:
        names = ", ".join(map(repr, sorted(known)))
        raise LedgerMismatch(
            f"the ledger holds {names}; say dataset= if these rows are one of them (under another file name), or name "
            "a new dataset, which gets a budget of its own"
        )
    return asked or usual


# A ledger that is made, and a dataset that is opened in it, with the first thing that is recorded and not before.

# Only these can be refused; they are tried on a draft first, so that a refusal leaves no ledger behind.
_REFUSABLE = frozenset({"reserve", "set_quota"})
_RECORDING = _REFUSABLE | {"note"}
Found = Callable[[], Ledger | None]
Entering = Callable[[Ledger], None]


class LateLedger:
    """A ledger that does not hold a dataset yet. To readers the dataset is open and nothing is charged.

    Guarantee: quotes, refusals and reading leave neither a ledger nor a dataset in it behind. So the first charge (or
    quota, or version) under a budget fixes it. Where another process was faster, the terms are compared with those of
    that process.
    """

    def __init__(
        self, dataset: str, found: Found, made: Callable[[], Ledger], enter: Entering, follow: Entering
    ) -> None:
        """`found` returns the ledger if there is one by now, and `made` makes it. `enter` opens the dataset in a
        ledger, and `follow` then records there which rows there are.
        """
        self._dataset, self._found, self._made, self._enter, self._follow = dataset, found, made, enter, follow
        self._lock = threading.RLock()
        self._ledger: Ledger | None = None
        self._opened = self._closed = False
        self._draft: Ledger = open_ledger(IN_MEMORY)
        enter(self._draft)
        follow(self._draft)

    def __getattr__(self, name: str) -> Any:
        """What a ledger does, done by the ledger if the dataset is open in it and by a draft otherwise."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _RECORDING:
            return lambda *arguments, **options: self._record(name, *arguments, **options)
        return getattr(self._standing(), name)

    def close(self) -> None:
        """Let go of the ledger, or of the draft."""
        with self._lock:
            self._closed = True
            self._draft.close()
            if self._ledger is not None:
                self._ledger.close()

    def _standing(self) -> Ledger:
        """The ledger once the dataset is open in it, by whomever; the draft until then."""
        with self._lock:
            if not (self._opened or self._closed):
                self._ledger = self._ledger or self._found()
                if self._ledger and any(terms.name == self._dataset for terms in self._ledger.datasets()):
                    self._open_in(self._ledger)
            return self._ledger if self._opened and self._ledger else self._draft

    def _record(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Record it in the ledger with the dataset open in it, unless the first thing would be refused there."""
        with self._lock:
            standing = self._standing()
            if standing is self._draft and not self._closed:
                if name in _REFUSABLE:
                    trial = open_ledger(IN_MEMORY)
                    self._enter(trial)
                    getattr(trial, name)(*arguments, **options)
                standing = self._ledger = self._ledger or self._made()
                self._open_in(standing)
        return getattr(standing, name)(*arguments, **options)

    def _open_in(self, ledger: Ledger) -> None:
        self._enter(ledger)
        self._follow(ledger)
        self._opened = True

    def __repr__(self) -> str:
        return repr(self._ledger if self._opened else self._draft)


# What to do about a ledger that was opened under wrong terms and never asked.


@contextmanager
def advising(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Add to a `LedgerMismatch` that the ledger may go, where no call was ever recorded.

    A charge is not enough to look at. A miss costs nothing and is still an answer, which a new budget would not know
    of. So is a call that was voided. Only public records are read, and the refusal stays a refusal.

    >>> with advising(open_ledger(":memory:"), "visits"):
    ...     raise LedgerMismatch("the ledger holds other terms")
    Traceback (most recent call last):
    ...
    chary.errors.LedgerMismatch: the ledger holds other terms; nothing was ever asked or charged in this ledger: if
    these terms are right, delete its file and open again
    """
    try:
        yield
    except LedgerMismatch as mismatch:
        asked = {terms.name for terms in ledger.datasets() if any(True for _ in ledger.calls(terms.name, limit=1))}
        if dataset in asked:
            raise
        raise LedgerMismatch(f"{mismatch}; {_advice(dataset, bool(asked))}") from None


def _advice(dataset: str, others: bool) -> str:
    if others:
        return f"nothing was ever asked of {dataset!r} or charged: if these terms are right, take another ledger file"
    return "nothing was ever asked or charged in this ledger: if these terms are right, delete its file and open again"


# The budget that the caller of an opening asked for, and the filter that follows.

FILTERS = ("pure", "renyi", "exact")


class BudgetChoice:
    """The budget and the filter that a caller asked for. What is left out is read from the ledger."""

    def __init__(
        self,
        budget: Budget | None,
        kind: str | None = None,
        grain: Number | None = None,
        approximate: Number = 0,
        menu: Iterable[Event | Listing] | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        if blocks is not None and not isinstance(blocks, Blocks):
            raise InvalidParameter('blocks must be Blocks, such as chary.Blocks("day", every="month", since="2012-01")')
        if kind is not None and kind not in FILTERS:
            raise InvalidParameter(f"filter must be one of {', '.join(FILTERS)}, got {kind!r}")
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidParameter("budget must be a Budget, such as chary.Budget(epsilon=1, delta=1e-6)")
        self.budget, self.kind, self.blocks = budget, kind, blocks
        self.grain = None if grain is None else positive(grain, "grain")
        self.approximate = exact(approximate, "delta_reserve")
        self.menu = None if menu is None else tuple(menu)
        if self.menu is not None and kind not in (None, "exact"):
            raise InvalidParameter('a menu is that of the exact filter: filter="exact", menu=[...]')

    def make(self) -> Filter:
        """The filter of a new dataset."""
        if self.budget is None:
            raise InvalidParameter("a new ledger needs a budget, such as budget=chary.Budget(epsilon=1, delta=1e-6)")
        if self.menu is not None:
            return self._listed(self.budget, self.menu)
        kind = self.kind or ("renyi" if self.budget.exact[1] else "pure")
        if kind == "pure":
            return PureFilter(self.budget, self.approximate).for_new_data()
        if kind == "renyi":
            filter_ = RenyiFilter.best(self.budget, grain=self.grain, delta_reserve=self.approximate)
            return filter_.for_new_data()
        if self.grain is None:
            raise InvalidParameter('the exact filter needs the epsilon of a call: filter="exact", grain=0.02')
        return ExactFilter.with_revisions(self.budget, self.grain, delta_reserve=self.approximate)

    def _listed(self, budget: Budget, menu: tuple[Event | Listing, ...]) -> ExactFilter:
        return ExactFilter.of_events(budget, menu, grain=self.grain, delta_reserve=self.approximate)

    def agrees_with(self, held: Filter) -> None:
        """`LedgerMismatch` where the caller asked for another budget or filter than the ledger holds."""
        if self.budget is not None and self.budget != held.budget:
            raise LedgerMismatch(
                f"the ledger holds this dataset under {held.budget}, not {self.budget}, and nobody can change that. "
                "Leave the budget out to continue. A new ledger would be a second budget: what both reveal adds up"
            )
        if self.kind is not None and self.kind != held.kind:
            raise LedgerMismatch(f"the ledger has the {held.kind} filter for this dataset, not {self.kind}")
        if self.approximate and self.approximate != held.delta_reserve:
            raise LedgerMismatch(f"the ledger sets {plain(held.delta_reserve)} of delta aside, not as asked")
        if isinstance(held, ExactFilter) and self.grain not in (None, held.grain):
            raise LedgerMismatch(f"the ledger's exact filter has grain {plain(held.grain)}, not as asked")
        if self.menu is not None and not self._lists_the_same(held):
            raise LedgerMismatch("the ledger's filter has another menu: leave menu= out")

    def blocks_in(self, held: Terms | None) -> Blocks | None:
        """The blocks, each with a budget: those of the ledger, or for a new dataset those that were asked for."""
        kept = self.blocks if held is None else blocks_of(held)
        if self.blocks is not None and kept is None:
            raise LedgerMismatch(
                "the ledger holds this dataset under one budget for all rows. Leave blocks= out to continue under it. "
                "One for each block takes a new ledger, which does not count what this one spent"
            )
        if self.blocks not in (None, kept):
            raise LedgerMismatch(f"the ledger divides these rows by {kept}, not as asked: leave blocks= out")
        return kept

    def _lists_the_same(self, held: Filter) -> bool:
        listed = [entry.event for entry in getattr(held, "menu", ()) if isinstance(entry, Listing)]
        return listed == [entry.event if isinstance(entry, Listing) else entry for entry in self.menu or ()]


# Warnings at an opening for the owner of the rows: cells that are not read, batches that may be missing, other ledgers.

_ENDING: Final = ".ledger"
# A delta should be far below one in the number of units.
_MOST_DELTA: Final = Fraction(1, 10**4)


def warn_of_cells(rows: Rows) -> None:
    """Warn of columns of new rows in which cells are not of the type that was declared: they are NULL from now on."""
    for name, found in (rows.unparsed if isinstance(rows, RowTable) else {}).items():
        _warn(f"{found.told(name)}. This is not private: for who owns the rows alone; see chary check")


def warn_of_delta(rows: Rows, budget: Budget | None) -> None:
    """Warn of a large delta: publishing the rows of each unit with that probability is (0, delta)-DP.

    How many units there are is private, so the bound is the same for all."""
    entries = rows.limit if isinstance(rows, RowTable) else None
    if budget is not None and (delta := unit_budget(budget, 1 if entries is None else entries.most)[1]) > _MOST_DELTA:
        _warn(
            f"a delta of {plain(delta)} is large: it is the probability with which the rows of a unit might be "
            "revealed. Take far less than one in the number of units, such as 1e-6"
        )


def warn_of_batches(rows: Rows, source: Any, found: Ledger, dataset: str) -> None:
    """Warn of batches that an earlier session appended to rows in memory: whether they are missing shows nowhere else.

    Files and servers keep their batches, a folder is listed anew, and rows of a public number are counted.
    """
    listed = isinstance(source, (str, Path)) and Folder.named(source) is not None
    kept = listed or not isinstance(rows, RowTable) or rows.keeps_batches or has_public_size(rows.neighbor_relation)
    if kept:
        return
    if batches := sum(Version.of(note).kind == APPENDED for note in found.notes(dataset)):
        _warn(
            f"{counted(batches, 'batch was', 'batches were')} appended to {dataset!r} in an earlier session, and lived "
            "in its memory. If these rows have them, all is well: otherwise every answer, also of an alert, is about "
            "too few rows"
        )


def warn_of_second_budget(rows: Rows, dataset: str, this: str) -> None:
    """Warn of batches that rows keep, and that a ledger must have known: another one than `this`, which counts nothing.

    How many batches came is public."""
    if isinstance(rows, RowTable) and rows.keeps_batches and (batches := len(rows.batches())):
        _warn(
            f"{dataset!r}: {counted(batches, 'batch was', 'batches were')} appended under a ledger, and this one "
            f"{this}: if the old one exists, go on with it (ledger=), since a second budget comes on top"
        )


def warn_of_names(rows: Rows, known: Mapping[str, Terms], dataset: str) -> None:
    """Warn of a dataset of the same columns and unit that the ledger has under another name."""
    same = [name for name, terms in known.items() if terms.fingerprint == rows.fingerprint()]
    if same:
        _warn(
            f"the ledger keeps a budget of {same[0]!r} with the same columns and unit. If these are the same rows, go "
            f"on under that name (dataset={same[0]!r}): the budget of {dataset!r} comes on top"
        )


def warn_of_ledgers(source: Any, place: Place, dataset: str) -> None:
    """Warn of other ledgers, next to the rows or next to their ledger, that keep a budget of the same dataset.

    They are looked at without a lock. Rows that are no files, and throwaway ledgers, have nothing next to them.
    """
    if not isinstance(source, (str, Path)) or is_server(source) or not isinstance(place.ledger, (str, Path)):
        return
    if str(place.ledger) == IN_MEMORY:
        return
    rows, own = Path(source).absolute(), None if is_server(place.ledger) else file_of(place.ledger).absolute()
    folders = {rows.parent, rows if rows.is_dir() else rows.parent, rows.parent if own is None else own.parent}
    for other in _ledgers(folders):
        if (own is None or other.resolve() != own.resolve()) and dataset in files.datasets_in(other):
            _warn(
                f"{other} keeps a budget of {dataset!r} too: what is charged to one ledger is not charged to the "
                "other. Go on with one of them (ledger=), and move the other elsewhere"
            )


def _ledgers(folders: set[Path]) -> list[Path]:
    found = list[Path]()
    for folder in sorted(folders):
        with suppress(OSError):
            found += [Path(each.path) for each in os.scandir(folder) if each.name.endswith(_ENDING)]
    return sorted(found)


def _warn(told: str) -> None:
    # Of _warn, warn_of_..., session_of and open: the line that opened the data.
    warnings.warn(told, OwnerWarning, stacklevel=5)


# Opening a session: a source of rows, a budget, a ledger.


def check_decided(rows: Rows, dataset: str) -> None:
    """`InvalidParameter` for a new CSV whose types nobody said: its columns would be text for good."""
    if isinstance(rows, RowTable) and rows.undecided and rows.schema.keys() - {rows.neighbor_relation.unit}:
        raise InvalidParameter(UNDECIDED.format(dataset))


def open(
    source: Any,
    *,
    privacy_unit: str | None,
    ledger: str | Path | Ledger | None = None,
    budget: Budget | None = None,
    neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
    entries_per_unit: int | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    delta_reserve: Number = 0,
    menu: Sequence[Event | Listing] | None = None,
    blocks: Blocks | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    table: str | None = None,
    unpivot: tuple[str, str] | None = None,
    columns: dict[str, str] | None = None,
    csv: CSVFormat | None = None,
    infer_types: bool = False,
    engine: Any = None,
    checkpoint: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open (or reopen) a dataset under the budget that its ledger keeps.

    **What is asked**

    - `source`: the rows. A CSV or Parquet file, a list of them, a folder or pattern of Parquet files ("visits/",
      "visits/2026-*.parquet"), a DuckDB file with `table=`, or a pandas, Polars or Arrow table. The URL of a PostgreSQL
      server is `postgresql://reader@host/database`, with `table="schema.name"`. Of a folder, the files that are
      there at the opening are read.
    - `privacy_unit`: the column that names the protected unit; None is row-level privacy: each row is a unit.
    - `neighbors`: "add_remove" one unit (unbounded DP, the default for sessions) or "replace" one (bounded DP).
    - `columns`: types of the columns of a CSV (or of object columns of pandas), such as `{"age": "BIGINT"}`; all
      others are strings, and {} says that all are. A new ledger of a CSV in a file needs them. `csv`: its format, see
      `CSVFormat`. Appended batches are read alike, and reopening must say the same.
    - `engine`: the engine of the queries, DuckDB in this process by default. Others are "spark", "local[2]",
      "spark://host:7077", "sc://host" or an open SparkSession, also for a folder or a pattern of Parquet files. A
      SparkSession as the `source` needs `table="catalog.schema.name"`. See docs/howto/sources.md#spark.

    **Under which budget**

    - `budget`: needed at the first opening; later it is read from the ledger, and another one raises
      `LedgerMismatch`. The first charge (or quota, or append) fixes it. Quotes and refused calls leave no ledger
      behind.
    - `filter`: "renyi" for any mixture of calls, the default with a delta. "exact" for calls of one size, up to twice
      `grain`, which has the most hits. "pure" for delta 0. `grain`: the usual epsilon of a call, to which a new filter
      is tuned.
    - `delta_reserve`: the part of delta that is reserved for (epsilon, delta)-DP calls.
    - `menu`: the events that an exact filter can cost, such as `[Targeted("0.02"), BoundaryCall("0.02"),
      BestOf(2)]`; `grain` is then only the resolution of the curve (see `ExactFilter.of_events`).
    - `blocks`: one budget for each block of time, such as `chary.Blocks("day", every="month", since="2012-01")`. The
      rows of each month have the whole `budget`, and neighbours differ in the rows of one unit in one month. A unit
      with rows in m blocks has the guarantee of a group of m, which `statement` gives. A call reads, and charges,
      all blocks up to today's, or those of `session.blocks(...)`. A spent block refuses only the calls that read it.
      The first charge fixes the blocks, too; see `Blocks` and docs/howto/growing.md.
    - `entries_per_unit`: a stream of entries with at most this many of each unit, under neighbors="replace".
      Neighbours are streams of the same public size that differ in the entries of one unit. The session asks as if
      each entry were a unit, under the budget for one entry (see `entry_budget`); `spent` and `statement` use that
      budget. The opening and each append check the limit. Rows that break it are refused by `SchemaMismatch`, and
      such a refusal is no part of the guarantee.

    **Where it is recorded**

    - `ledger`: a file that is kept for ever and shared by all who ask this dataset. Many machines share the URL of a
      schema, `postgresql://user@host/database?schema=visits`; throwaway sessions use ":memory:". By default it is
      next to a file or a folder, `visits.csv.ledger`, also for the command and the service.
    - `checkpoint`: a checkpoint file on another disk. It gets the head of the ledger before any answer, so that older
      copies of the ledger are refused.
    - `dataset`: its name in the ledger, by default the stem of the file. A second dataset in a ledger has a budget
      of its own and must be named. `analyst`: who asks, for quotas.

    **Assumptions.** The schema is public, as are names, keys and bounds. `infer_types=True` finds the types of a CSV
    in its values, which makes the types public; the statement says so. `unsafe_noise` replaces the randomness of the
    operating system and voids every guarantee; it is for tests.

    **Warnings.** An `OwnerWarning` is for the owner of the rows, not for analysts. It warns of batches that an earlier
    session appended to rows in memory, and counts the cells of a new dataset that are not of the declared type (see
    `check`). It also names another ledger next to this one that holds a budget of a dataset of this name.

    >>> import pyarrow as pa
    >>> rows = pa.table({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> session = open(rows, privacy_unit="patient", budget=Budget(epsilon=1, delta=1e-6), ledger=":memory:")
    >>> session.spent.share
    0.0
    >>> whose = {"privacy_unit": "patient", "neighbors": "replace", "entries_per_unit": 2}
    >>> stream = open(rows, **whose, budget=Budget(epsilon=1), ledger=":memory:")
    >>> stream.size, stream.spine.filter.budget
    (3, Budget(epsilon=Fraction(1, 2), delta=Fraction(0, 1)))
    >>> stream.append(pa.table({"patient": [1, 1], "age": [71, 72]}))
    Traceback (most recent call last):
    ...
    chary.errors.SchemaMismatch: some patient would have more than 2 entries; nothing was written
    """
    neighbor_relation = NeighborRelation(neighbors, privacy_unit)
    limit = None if entries_per_unit is None else _entry_limit(neighbor_relation, entries_per_unit)
    if limit is not None and isinstance(budget, Budget):
        budget = entry_budget(budget, limit.most)
    choice = BudgetChoice(budget, filter, grain, delta_reserve, menu, blocks)
    place = Place(usual_ledger(source) if ledger is None else ledger, checkpoint)
    rows = RowTable.open(
        source,
        neighbor_relation=neighbor_relation if limit is None else NeighborRelation(neighbors, None),
        table=table,
        unpivot=unpivot,
        columns=columns,
        csv=csv,
        infer_types=infer_types,
        engine=engine,
        limit=limit,
    )
    names = dataset, usual_name(source, table)
    return session_of(rows, choice, place, names, analyst, unsafe_noise, on_step, source)


def _entry_limit(neighbor_relation: NeighborRelation, most: int) -> EntryLimit:
    """The limit on the entries of each unit of a stream."""
    if neighbor_relation.unit is None or neighbor_relation.neighbors is not Neighbors.REPLACE:
        raise InvalidParameter(
            "a limit on entries is for units whose entries are replaced: say "
            'privacy_unit="patient", neighbors="replace"'
        )
    return EntryLimit(neighbor_relation.unit, most)


def open_counts(
    source: Any,
    *,
    column: str,
    sensitivity: int,
    ledger: str | Path | Ledger | None = None,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    delta_reserve: Number = 0,
    order_by: str | None = None,
    labels: str | None = None,
    csv: CSVFormat | None = None,
    table: str | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    checkpoint: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open a series of counts that were aggregated elsewhere: one value a row, in order; the number of rows is public.

    The `table` of a server needs `order_by`, a column that distinguishes all rows: it has no order by itself.

    Guarantee as for `open`, where neighbours are series whose every value differs by at most `sensitivity`: what one
    unit can change must be known to anyone who made the series. `delta_reserve` is as for `open`. Ask it with
    `session.release_if(session.series(), ...)`.
    """
    choice = BudgetChoice(budget, filter, grain, delta_reserve)
    place = Place(usual_ledger(source) if ledger is None else ledger, checkpoint)
    read: dict[str, Any] = {"order_by": order_by, "labels": labels, "csv": csv, "table": table}
    rows = Series.open(source, column=column, sensitivity=sensitivity, **read)
    return session_of(
        rows, choice, place, (dataset, usual_name(source, table, column)), analyst, unsafe_noise, on_step, source
    )


def open_votes(
    votes: Votes,
    *,
    dataset: str,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    delta_reserve: Number = 0,
    menu: Sequence[Event | Listing] | None = None,
    analyst: str = "analyst",
    checkpoint: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open votes under the budget that the ledger keeps for `dataset`.

    Guarantee as for `open`, where neighbours differ in all votes of one voter. The session owns the votes and closes
    them, also when it cannot be opened. Errors: `InvalidParameter` for what are no votes or a dataset without a name.

    >>> from chary.data import Votes
    >>> votes = Votes(lambda question: [7, 3], ["cat", "dog"], voter="teacher")
    >>> session = open_votes(votes, dataset="votes", ledger=":memory:", budget=Budget(epsilon=1, delta=1e-6))
    >>> session.spent.share
    0.0
    """
    if not isinstance(votes, Votes):
        raise InvalidParameter("open votes, such as chary.Votes(count, options, voter=...); open tables by chary.open")
    return open_rows(
        votes,
        dataset=dataset,
        ledger=ledger,
        budget=budget,
        filter=filter,
        grain=grain,
        delta_reserve=delta_reserve,
        menu=menu,
        analyst=analyst,
        checkpoint=checkpoint,
        unsafe_noise=unsafe_noise,
        on_step=on_step,
    )


def open_rows(
    rows: Rows,
    *,
    dataset: str,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    delta_reserve: Number = 0,
    menu: Sequence[Event | Listing] | None = None,
    analyst: str = "analyst",
    checkpoint: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open rows of your own kind, whatever has the methods of `chary.data.Rows`, under the budget that the ledger keeps
    for `dataset`.

    Guarantee as for `open`, if the rows keep what `Rows` says of each method (docs/howto/own.md), which nothing
    can check. The session owns the rows and closes them, also when it cannot be opened. Errors: `InvalidParameter` for
    a dataset without a name, `LedgerMismatch` for one that its ledger knows under other terms.

    >>> from chary.data import Votes
    >>> votes = Votes(lambda question: [7, 3], ["cat", "dog"], voter="teacher")
    >>> open_rows(votes, dataset="votes", ledger=":memory:", budget=Budget(epsilon=1, delta=1e-6)).spent.share
    0.0
    """
    with ExitStack() as undo:
        undo.callback(rows.close)
        if not isinstance(dataset, str) or not dataset:
            raise InvalidParameter("dataset must be a name, such as dataset='votes'")
        choice = BudgetChoice(budget, filter, grain, delta_reserve, menu)
        undo.pop_all()
    return session_of(rows, choice, Place(ledger, checkpoint), (dataset, dataset), analyst, unsafe_noise, on_step)


def session_of(
    rows: Rows,
    choice: BudgetChoice,
    place: Place,
    names: tuple[str | None, str],
    analyst: str = "analyst",
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
    opened: Any = None,
) -> Session:
    """A session on rows that are open, which it owns and closes, also when it cannot be opened.

    `names` are the dataset's name from the caller, None for none, and the usual one; `opened` is the source of the
    rows."""
    with ExitStack() as undo:
        undo.callback(rows.close)
        found = None if place.missing else place.open()
        if found is not None and found is not place.ledger:
            undo.callback(found.close)
        if (dataset := chosen(known := _known(found), *names)) not in known:
            warn_of_cells(rows)
            # Throwaway ledgers are meant so.
            if str(place.ledger) != IN_MEMORY:
                check_decided(rows, dataset)
                warn_of_delta(rows, choice.budget)
                warn_of_second_budget(rows, dataset, "is new" if found is None else "does not know this dataset")
                warn_of_names(rows, known, dataset)
        elif found is not None:
            warn_of_batches(rows, opened, found, dataset)
        warn_of_ledgers(opened, place, dataset)
        with nullcontext() if found is None else advising(found, dataset):
            blocks = choice.blocks_in(known.get(dataset))
        if blocks is not None and isinstance(rows, RowTable):
            rows = rows.in_blocks(blocks)
        ledger, filter_ = _opened(found, rows, choice, names, place)
        source, tell = unsafe_noise or noise.OperatingSystem(), on_step or _quiet
        spine = Spine(rows, filter_, ledger, dataset, analyst, source, tell, renews=blocks is not None)
        session = Session(spine.of_now())
        undo.pop_all()
    return session


def _opened(
    found: Ledger | None, rows: Rows, choice: BudgetChoice, names: tuple[str | None, str], place: Place
) -> tuple[Ledger, Filter]:
    """The ledger and the filter of the dataset, new or held, once the ledger agrees with them.

    A new dataset is recorded with its first charge; in a ledger that nobody else can see, at once.
    """
    known = _known(found)
    dataset = chosen(known, *names)
    filter_ = held_filter(known[dataset]) if dataset in known else choice.make()

    def enter(ledger: Ledger) -> None:
        with advising(ledger, dataset):
            held = _known(ledger)
            chosen(held, *names)
            choice.agrees_with(held_filter(held[dataset]) if dataset in held else filter_)
            choice.blocks_in(held.get(dataset))
            if dataset in held:
                check_types(rows, held[dataset])
            ledger.open(_terms(rows, filter_, dataset, held.get(dataset)))

    follow = Follower(dataset, rows).follow
    if found is not None and (dataset in known or str(place.ledger) == IN_MEMORY):
        enter(found)
        follow(found)
        repair_races(found, filter_, dataset)
        return found, filter_

    def look() -> Ledger | None:
        return found or (None if place.missing else place.open())

    return cast("Ledger", LateLedger(dataset, look, place.open, enter, follow)), filter_


def _known(ledger: Ledger | None) -> dict[str, Terms]:
    return {} if ledger is None else {terms.name: terms for terms in ledger.datasets()}


def _quiet(step: str) -> None:
    """The `on_step` of a session to which none was given."""


def _terms(rows: Rows, filter_: Filter, dataset: str, held: Terms | None) -> Terms:
    epsilon, delta = filter_.budget.exact
    conditions = {
        "relation": rows.neighbor_relation.neighbors.stored,
        "unit": rows.neighbor_relation.unit,
        "epsilon": str(epsilon),
        "delta": str(delta),
        "filter": filter_.body(),
        **read_as(rows, held),
    }
    blocks, basic = rows.blocks if isinstance(rows, RowTable) else None, filter_.basic_capacity
    if blocks is not None:
        # A basic account is of all blocks together: one that ends would end all of them, and it would end.
        conditions["blocks"], basic = blocks.body(), 0
    return Terms(dataset, rows.fingerprint(), json.dumps(conditions), filter_.capacity, basic)


def blocks_of(terms: Terms) -> Blocks | None:
    """The blocks that a dataset of a ledger was opened with, if any."""
    body = json.loads(terms.conditions).get("blocks")
    return None if body is None else Blocks.of_body(body)


def held_filter(terms: Terms) -> Filter:
    """The filter that a dataset of a ledger was opened with."""
    conditions = json.loads(terms.conditions)
    budget = Budget(Fraction(conditions["epsilon"]), Fraction(conditions["delta"]))
    return restore(budget, conditions["filter"])
