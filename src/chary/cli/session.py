"""Sessions of a command, opened by its options; cells of tables as text."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final

from chary import config
from chary.addresses import place_of
from chary.cli.commands import BudgetOptions, CallOptions, LedgerOptions, QueryOptions, SourceOptions
from chary.cli.output import Unsaid
from chary.core.plan import Question
from chary.data import Blocks, Count, CSVFormat, Mean, Neighbors, Series, Sum, count, mean, parse_keys
from chary.data.predicates.predicate import kind_of
from chary.data.queries import sums
from chary.data.queries.keys import columns_in, key_text
from chary.data.source import DUCKDB
from chary.errors import InvalidParameter
from chary.filters import Budget, RenyiFilter, exact_filter_for, largest_call, largest_call_left
from chary.ledger import ledger_exists
from chary.numbers import positive
from chary.session import Session, open, open_counts
from chary.session.opening import recorded_as, usual_ledger, usual_name

# From options to an open session, a question and the size of a call.

# An example of what a new ledger needs.
_BUDGET: Final = "--budget-epsilon 1 --budget-delta 1e-6"


@dataclass(frozen=True)
class Opened:
    """An open session, the question and the size of the call: its epsilon, or the number of hits to pay for.

    Neither is there where nothing is asked by size, or another option says what a hit may cost.
    """

    session: Session
    question: Question
    size: Fraction | None
    hits: int | None

    @cached_property
    def epsilon(self) -> Fraction:
        """That of the call; `BudgetExceeded` where it follows what is left, and nothing is."""
        assert self.size is not None or self.hits is not None
        return self.size or largest_call_left(self.session.spine.filter, self.session.spine.accounts(), self.hits or 1)

    @property
    def sharp(self) -> bool:
        """Whether this many hits are those of optimal tests, as in a program: whether the filter has costs for them."""
        return isinstance(self.session.spine.filter, RenyiFilter)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """What is printed next to the positions of a series."""
        rows = self.session.spine.rows
        return rows.labels if isinstance(rows, Series) else None


def ask(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    *,
    targets: bool,
    blocks: tuple[str | None, str | None] | None = None,
    dataset: str | None = None,
) -> Opened:
    """Open the session and build the question; everything is validated before anything is charged.

    With `targets`, a new filter is tuned for calls of the size that is said; of `blocks` the first and the last are
    those that are asked. `dataset` is what a chary.toml calls the rows.
    """
    if call.epsilon is not None and call.hits is not None:
        raise InvalidParameter("give one of --epsilon and --hits")
    limit = None if budget.budget_epsilon is None else Budget(budget.budget_epsilon, budget.budget_delta or 0)
    file = ledger_of(source, budget)
    there = ledger_exists(file)
    if limit is None and source.there and not there:
        raise Unsaid("a new ledger needs a budget", _BUDGET)
    size = sized(call)
    first = size if there or limit is None else size or _first_size(limit, budget.filter, call.hits)
    grain = first if targets and not there else None
    if budget.grain is not None:
        grain = positive(budget.grain, "--grain")
    if budget.filter == "exact" and not there and grain is None:
        raise InvalidParameter("--filter exact is for calls of one size: begin with one that tests, such as a test")
    session = _open(source, budget, limit, file, grain, dataset)
    try:
        session = session if blocks is None else _in_blocks(session, blocks)
        return Opened(session, question(session, source, query), first, call.hits)
    except BaseException:
        session.close()
        raise


def budget_unsaid(source: SourceOptions, budget: BudgetOptions) -> str:
    """The options of a budget that a new ledger needs and that were not said, as they may be typed."""
    if budget.budget_epsilon is not None or not source.there or (source.on_server and budget.ledger is None):
        return ""
    return "" if ledger_exists(ledger_of(source, budget)) else _BUDGET


def ledger_of(source: SourceOptions, budget: LedgerOptions) -> str | Path:
    """Where the ledger is: next to the file, if it is not said; `InvalidParameter` where there is no file."""
    if budget.ledger is None and source.on_server:
        raise InvalidParameter("a server has no place for a ledger next to it: say where it is, --ledger visits.ledger")
    return place_of(budget.ledger or usual_ledger(source.file))


def sized(call: CallOptions) -> Fraction | None:
    """The epsilon that the options name."""
    return None if call.epsilon is None else positive(call.epsilon, "--epsilon")


def declared(columns: str | None) -> dict[str, str] | None:
    """The types of `--columns`."""
    try:
        return None if columns is None else config.declared(columns)
    except ValueError:
        raise InvalidParameter("--columns names types, such as --columns age=BIGINT,cost=DOUBLE") from None


def blocked(said: str | None) -> Blocks | None:
    """The blocks that `--blocks` says."""
    if said is None:
        return None
    try:
        named = config.declared(said)
    except ValueError:
        raise InvalidParameter("--blocks is written as --blocks column=day,every=month,since=2012-01") from None
    return config.blocks(named)


def unpivoted(said: str | None) -> tuple[str, str] | None:
    """The columns that `--unpivot` names."""
    return None if said is None else _pair(said, "--unpivot", "day,kwh")


def _in_blocks(session: Session, ends: tuple[str | None, str | None]) -> Session:
    if session.spine.blocks is None:
        raise InvalidParameter(
            "the budget of these rows does not renew, so they are in no blocks: leave --in-blocks out"
        )
    return session.blocks(*ends)


def dialect(said: list[str] | None) -> CSVFormat | None:
    """The dialect that `--csv-format` options say."""
    return config.dialect(config.named(said or ()))


def check_public_size(source: SourceOptions) -> None:
    """Refuse, before a ledger is made for it, a session in which the number of rows is secret."""
    if source.series is None and not (source.row_level and source.neighbors == Neighbors.REPLACE):
        raise InvalidParameter(
            "the number of rows is secret unless each row is a unit and neighbours replace one: "
            "give --row-level --neighbors replace"
        )


def _first_size(limit: Budget, kind: str | None, hits: int | None) -> Fraction | None:
    if hits is None:
        return None
    chosen = kind or ("renyi" if limit.exact[1] else "pure")
    return exact_filter_for(limit, hits).grain if chosen == "exact" else largest_call(limit, hits, chosen)


def _open(
    source: SourceOptions,
    budget: BudgetOptions,
    limit: Budget | None,
    file: str | Path,
    grain: Fraction | None,
    dataset: str | None,
) -> Session:
    common: dict[str, Any] = {"ledger": file, "budget": limit, "filter": budget.filter}
    if dataset is not None and source.there:
        # A service opened them under that name; a budget is for the rows, whatever they are called.
        common["dataset"] = recorded_as(file, (usual_name(source.file, source.table, source.series), dataset))
    common |= {"grain": grain, "analyst": budget.analyst, "checkpoint": budget.checkpoint}
    common |= {"delta_reserve": budget.delta_reserve or 0}
    if source.series is not None:
        if source.sensitivity is None:
            raise InvalidParameter("a series needs the most that one unit changes a count, such as --sensitivity 1")
        common |= {"order_by": source.order_by, "labels": source.labels, "csv": dialect(source.csv_format)}
        return open_counts(
            source.file, column=source.series, sensitivity=source.sensitivity, table=source.table, **common
        )
    # The ledger has the unit of a table, and a table without its name is none that it knows.
    if source.there:
        check_table(source)
    if (source.unit is None) != source.row_level:
        raise InvalidParameter("say what is protected: --unit COLUMN, or --row-level if every row is a unit of its own")
    common |= {"table": source.table, "neighbors": source.neighbors, "infer_types": source.infer_types}
    common["engine"] = source.engine
    common |= {"columns": declared(source.columns), "csv": dialect(source.csv_format)}
    common["blocks"] = blocked(source.blocks)
    common["unpivot"] = unpivoted(source.unpivot)
    return open(source.file, privacy_unit=source.unit, **common)


def check_table(source: SourceOptions) -> None:
    """`InvalidParameter` for a file or a server without its table, and for a table of anything else."""
    if (source.table is not None) != (source.on_server or source.file.lower().endswith(DUCKDB)):
        raise InvalidParameter("name the table of a DuckDB file or a server, and of no other, by --table NAME")


def question(session: Session, source: SourceOptions, query: QueryOptions) -> Question:
    """The question that options state; `InvalidParameter` where they state none, or several."""
    if source.series is not None:
        return session.series()
    named = [query.count, query.sum is not None, query.mean is not None]
    if sum(named) != 1:
        raise InvalidParameter("ask one thing: --count, or --sum COLUMN or --mean COLUMN with --bounds LOW,HIGH")
    asked: Count | Sum | Mean = count(query.where) if query.count else _bounded(query)
    if query.by is None:
        return asked
    columns = columns_in(query.by)
    if not query.keys or len(query.keys) != len(columns):
        raise InvalidParameter("keys are public: list them, one --keys for each column, as in --by clinic --keys a,b,c")
    lists = [_keys(session, column, text) for column, text in zip(columns, query.keys, strict=True)]
    keep, stated = query.max_groups_per_unit, query.assumed_groups_per_unit
    return asked.by(columns, list(product(*lists)), max_groups_per_unit=keep, assumed_groups_per_unit=stated)


def _bounded(query: QueryOptions) -> Sum | Mean:
    if query.bounds is None:
        raise InvalidParameter("a sum or a mean needs a public range for its values: --bounds LOW,HIGH")
    low, high = _pair(query.bounds, "--bounds", "0,5000")
    common: dict[str, Any] = {"bounds": (low, high), "grid": query.grid, "where": query.where}
    common["max_rows_per_unit"] = query.max_rows_per_unit
    if query.mean is not None:
        return mean(query.mean, missing=query.missing, **common)
    if query.missing is not None:
        raise InvalidParameter("--missing is for means: of a sum, rows without a value are 0")
    unit_total = None if query.unit_total is None else _pair(query.unit_total, "--unit-total", "0,9000")
    return sums.sum(str(query.sum), unit_total=unit_total, **common)


def _keys(session: Session, column: str, text: str) -> list[Any]:
    schema = session.schema
    kind = schema[column] if column in schema else str(kind_of(schema, column))
    return list(parse_keys(opened_list(text), kind, column))


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    parts = text.split(",")
    if len(parts) != 2:
        raise InvalidParameter(f"{option} takes two values, such as {option} {example}")
    return parts[0], parts[1]


# Lists that stand in files.


def lines_of(place: str) -> Iterator[str]:
    """The lines of a file that are not empty, as they come; `-` is the standard input.

    Errors: `InvalidParameter` for a file that is no text; the message says nothing that is in it.
    """
    try:
        with nullcontext(sys.stdin) if place == "-" else Path(place).open(encoding="utf-8") as opened:
            yield from filter(None, map(str.strip, opened))
    except UnicodeDecodeError:
        raise InvalidParameter(f"{place} is no text in UTF-8") from None


def listed_lines(texts: Sequence[str]) -> list[str]:
    """Strings as they were typed, where @FILE stands for the lines of a file."""
    return [line for text in texts for line in (lines_of(text[1:]) if text[:1] == "@" else [text])]


def opened_list(text: str) -> str:
    """A list as it was typed; that of a file has one value a line, which may stand in double quotes."""
    if not text.startswith("@"):
        return text
    # A line is one value, commas and all, and not a list.
    return "\n".join(line if line.startswith('"') else key_text(line) for line in lines_of(text[1:]))
