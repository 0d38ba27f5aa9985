"""How a function becomes a command of options and a hook, and the options that many commands share."""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from chary.addresses import database_of, is_server
from chary.calls.call import Expert
from chary.cli.output import KNOWN, check_csv, show_json, show_tables, write_csv
from chary.data.source import Folder

# The one place that makes a command: of its options, and of a hook that yields what is to be shown.
#
# Every command so made has --json and --output; what a hook yields is shown at once, so that it may go on after that.

# The panels of a help, in their order; None is the first one, which has no name of its own.
EXPERT: Final = "Expert"
PANELS: Final = (None, "Question", "Rows", "Budget", "Output", EXPERT)
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
EMPTY: Final = inspect.Parameter.empty


class Shown(NamedTuple):
    """Figures to be shown, and how people read them."""

    figures: Any
    people: Callable[[Any], None] = show_tables


Found = Generator[Shown, None, None]
Hook = Callable[..., Found]


def made(
    act: Callable[[typer.Context, dict[str, Any]], Found],
    signature: list[inspect.Parameter],
    name: str,
    told: str,
) -> Callable[..., None]:
    """A command with these options, which acts on their values."""

    def command(ctx: typer.Context, **values: Any) -> None:
        KNOWN.set(frozenset(str(parameter.name) for parameter in ctx.command.params))
        output = taken(OutputOptions, values)
        check_csv(output.csv_out)
        # A session that is open in there is closed also where showing fails, as on a full disk.
        with closing(act(ctx, values)) as found:
            for count, shown in enumerate(found):
                (show_json if output.as_json else shown.people)(shown.figures)
                if output.csv_out is not None:
                    write_csv(shown.figures, output.csv_out, more=count > 0)

    context = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
    options = [*signature, *parameters_of(OutputOptions)]
    return signed(command, [context, *sorted(options, key=_place)], name, told)


def _place(parameter: inspect.Parameter) -> tuple[int, bool]:
    """Where the help shows an option: what few need is in the last panel, and what must be said comes first in its."""
    (told,) = parameter.annotation.__metadata__
    if isinstance(told.help, Expert) and parameter.default is not EMPTY:
        told.rich_help_panel = EXPERT
    return PANELS.index(told.rich_help_panel), parameter.default is not EMPTY


def plainly(hook: Hook, lending: Sequence[Callable[..., Any]] = ()) -> Callable[..., None]:
    """The command of a hook that reads no rows: its parameters are the options, as they are `described`."""
    return made(lambda ctx, values: hook(**values), *described(hook, *lending))


def described(
    hook: Callable[..., Any], *lending: Callable[..., Any], words: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[inspect.Parameter], str, str]:
    """The options that the parameters of a function are, its name, and its help without theirs.

    The help of an option stands in its annotation, in a line of the docstring, `name: help`, or in `words`; what has
    none is no option. For its `**known` a function has the parameters of those that it is `lending` them to.
    """
    known = {each.name: each for one in (*lending, hook) for each in inspect.signature(one).parameters.values()}
    lines = (inspect.getdoc(hook) or "").splitlines()
    said = {name: told for name, _, told in (line.partition(": ") for line in lines) if name in known and told}
    options = [_option(each, {**words, **said}.get(name)) for name, each in known.items()]
    kept = "\n".join(line for line in lines if line.partition(": ")[0] not in said)
    return sorted(filter(None, options), key=lambda each: each.default is not EMPTY), hook.__name__, kept


def _option(parameter: inspect.Parameter, told: str | None) -> inspect.Parameter | None:
    """Integers and flags as they are; every other number as it is typed, so that it is read exactly."""
    hint, usual = parameter.annotation, parameter.default
    if get_origin(hint) is Annotated:
        return parameter.replace(kind=_KEYWORD)
    if told is None:
        return None
    kind: Any = next((each for each in (bool, int) if hint in (each, each | None)), str)
    if kind is str and usual not in (EMPTY, None):
        usual = str(usual)
    name = parameter.name.replace("_", "-")
    option = typer.Option(f"--{name}/--no-{name}" if kind is bool and usual is not False else f"--{name}", help=told)
    return parameter.replace(
        kind=_KEYWORD, default=usual, annotation=Annotated[kind | None if usual is None else kind, option]
    )


def signed(command: Callable[..., Any], signature: list[inspect.Parameter], name: str, told: str) -> Callable[..., Any]:
    """A function that Typer finds these parameters on."""
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    command.__name__, command.__doc__ = name, told
    return command


def parameters_of(group: Any) -> list[inspect.Parameter]:
    """The options of a group, in its panel of the help."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        for told in hints[field.name].__metadata__:
            told.rich_help_panel = None if isinstance(told, ArgumentInfo) else group.panel
    defaults = {f.name: EMPTY if f.default is MISSING else f.default for f in fields(group)}
    return [
        inspect.Parameter(name, _KEYWORD, default=usual, annotation=hints[name]) for name, usual in defaults.items()
    ]


def extras(hook: Hook) -> list[inspect.Parameter]:
    """The options that a hook adds to what is stated, or has of its own."""
    hints = get_type_hints(hook, include_extras=True)
    found = inspect.signature(hook).parameters.values()
    return [p.replace(annotation=hints[p.name], kind=_KEYWORD) for p in found if p.name != "stated"]


def taken(group: Any, values: dict[str, Any]) -> Any:
    """A group of options, taken out of the values."""
    return group(**{field.name: values.pop(field.name) for field in fields(group)})


# Groups of options that several commands share, each a dataclass whose fields are the options.

Table = Annotated[str | None, typer.Option(help="Table of a DuckDB file or a server.")]
Columns = Annotated[str | None, typer.Option(help="Types of a CSV's columns: age=BIGINT,cost=DOUBLE.")]
InferTypes = Annotated[bool, typer.Option("--infer-types", help="The types of a CSV are public: infer them.")]
Unit = Annotated[str | None, typer.Option(help="Column that names the privacy unit.")]
Unpivot = Annotated[str | None, typer.Option(help="Turn a wide table long; KEY,VALUE name the new columns.")]
Dialect = Annotated[list[str] | None, typer.Option(help="CSV format, such as delimiter=; (repeatable).")]


@dataclass(kw_only=True)
class SourceOptions:
    """Which rows are asked, and what is protected in them."""

    panel: ClassVar[str] = "Rows"
    file: Annotated[str, typer.Argument(help="CSV, Parquet or DuckDB file, or postgresql://role@host/database.")]
    unit: Unit = None
    row_level: Annotated[bool, typer.Option("--row-level", help="Row-level privacy: each row is a unit.")] = False
    neighbors: Annotated[str, typer.Option(help=Expert("Neighbors: add_remove or replace one unit."))] = "add_remove"
    table: Table = None
    engine: Annotated[
        str | None, typer.Option(help=Expert("Engine of the queries: spark, spark://HOST:PORT or sc://HOST."))
    ] = None
    unpivot: Unpivot = None
    blocks: Annotated[
        str | None,
        typer.Option(help=Expert("One budget a block: column=day,every=month,since=2012-01; kept=24 closes older.")),
    ] = None
    columns: Columns = None
    infer_types: InferTypes = False
    csv_format: Dialect = None
    series: Annotated[str | None, typer.Option(help=Expert("Column of aggregated counts; each row is one test."))] = (
        None
    )
    sensitivity: Annotated[int | None, typer.Option(help=Expert("Largest change of a count by one unit."))] = None
    order_by: Annotated[str | None, typer.Option(help=Expert("Column that orders the series."))] = None
    labels: Annotated[
        str | None, typer.Option(help=Expert("Public column to print with each value of the series."))
    ] = None

    @property
    def on_server(self) -> bool:
        """Whether the rows are in a table of a server."""
        return is_server(self.file)

    @property
    def there(self) -> bool:
        """Whether there are such files; of a server that is not asked yet."""
        return self.on_server or Path(self.file).is_file() or Folder.named(self.file) is not None

    @property
    def shown(self) -> str:
        """What is said of where the rows are: of a server no more than its database, since a URL may hold a password.

        >>> SourceOptions(file="postgresql://ann:pw@db.example/clinic").shown, SourceOptions(file="visits.csv").shown
        ('clinic', 'visits.csv')
        """
        return database_of(self.file) if self.on_server else self.file


@dataclass(kw_only=True)
class CheckedOptions:
    """Which rows their owner looks at."""

    panel: ClassVar[str] = "Rows"
    file: Annotated[str, typer.Argument(help="CSV, Parquet or DuckDB file, or a folder of Parquet files.")]
    unit: Unit = None
    table: Table = None
    unpivot: Unpivot = None
    columns: Columns = None
    infer_types: InferTypes = False
    csv_format: Dialect = None


@dataclass(kw_only=True)
class LedgerOptions:
    """Where the budget of the dataset is kept."""

    panel: ClassVar[str] = "Budget"
    ledger: Annotated[str | None, typer.Option(help="Ledger file, or its URL (default: FILE.ledger).")] = None
    checkpoint: Annotated[
        Path | None, typer.Option(help=Expert("Checkpoint on another disk, against rollback of the ledger."))
    ] = None
    analyst: Annotated[str, typer.Option(help=Expert("Name of the analyst."))] = "analyst"


@dataclass(kw_only=True)
class BudgetOptions(LedgerOptions):
    """The budget of the dataset and where it is kept."""

    budget_epsilon: Annotated[str | None, typer.Option(help="Epsilon of the dataset, for all calls together.")] = None
    budget_delta: Annotated[str | None, typer.Option(help="Delta of the dataset, for all calls together.")] = None
    delta_reserve: Annotated[
        str | None, typer.Option(help=Expert("Part of --budget-delta reserved for calls with a --delta."))
    ] = None
    filter: Annotated[str | None, typer.Option(help=Expert("Privacy accounting: renyi, exact or pure."))] = None
    grain: Annotated[
        str | None, typer.Option(help=Expert("Epsilon of most calls, for a new ledger (default: that of this test)."))
    ] = None
    request: Annotated[str | None, typer.Option(help="Idempotency key: the same request again is free.")] = None


@dataclass(kw_only=True)
class SizeOptions:
    """How precise one call is."""

    panel: ClassVar[str | None] = None
    epsilon: Annotated[str | None, typer.Option(help="Epsilon of this call (of each group that is tested).")] = None


@dataclass(kw_only=True)
class CallOptions(SizeOptions):
    """How precise one call is, where what is left may be shared out among hits."""

    hits: Annotated[
        int | None, typer.Option(help="What is left of the budget pays for this many hits of equal epsilon.")
    ] = None


@dataclass(kw_only=True)
class SharpOptions(CallOptions):
    """How precise one call is that tests against a threshold: by optimal tests, unless an epsilon is said."""

    epsilon: Annotated[
        str | None, typer.Option(help="Instead of --hits: epsilon of each test, with Laplace noise.")
    ] = None
    hits: Annotated[
        int | None, typer.Option(help="The whole budget pays for this many hits: with 20, a hit costs 5 % of it.")
    ] = None


ROWS_KEPT = (
    "Keep at most this many rows of each unit: the largest of a sum, an even choice of a mean. "
    "Choose a number that few units exceed."
)


@dataclass(kw_only=True)
class QueryOptions:
    """The question."""

    panel: ClassVar[str] = "Question"
    count: Annotated[bool, typer.Option("--count", help="Count units.")] = False
    sum: Annotated[str | None, typer.Option(help="Sum of this column.")] = None
    mean: Annotated[str | None, typer.Option(help="Mean of this column.")] = None
    bounds: Annotated[str | None, typer.Option(help="LOW,HIGH: range to which each value is clipped.")] = None
    grid: Annotated[str, typer.Option(help=Expert("Values are rounded to multiples of this step."))] = "1"
    max_rows_per_unit: Annotated[int | None, typer.Option(help=ROWS_KEPT)] = None
    missing: Annotated[str | None, typer.Option(help=Expert("Value of rows without one, for a mean."))] = None
    unit_total: Annotated[
        str | None, typer.Option(help=Expert("LOW,HIGH: the sum of each unit is clipped to this range."))
    ] = None
    where: Annotated[str | None, typer.Option(help='Condition, such as "age >= 65 AND smoker".')] = None
    by: Annotated[str | None, typer.Option(help="Columns to group by: clinic,age; also derived ones: month(day).")] = (
        None
    )
    keys: Annotated[
        list[str] | None,
        typer.Option(
            help="Public groups: a,b,c or 1..6 or 2013-01-01..2013-01-31, or @FILE, one a line (@- is standard input)."
        ),
    ] = None
    max_groups_per_unit: Annotated[
        int | None, typer.Option(help="chary keeps at most this many groups of each unit.")
    ] = None
    assumed_groups_per_unit: Annotated[
        int | None, typer.Option(help=Expert("You assert that a unit is in at most this many groups (not enforced)."))
    ] = None

    @property
    def named(self) -> bool:
        """Whether any question is named."""
        return self.count or self.sum is not None or self.mean is not None


@dataclass(kw_only=True)
class BlockOptions:
    """Which blocks a question reads."""

    panel: ClassVar[str] = "Rows"
    in_blocks: Annotated[
        str | None,
        typer.Option(help=Expert("Only these blocks: 2013-01..2013-06, 2013-01.. or 2013-05 (default: all).")),
    ] = None

    @property
    def ends(self) -> tuple[str | None, str | None] | None:
        """The first and the last one, as far as they are said; None where all are read.

        >>> [BlockOptions(in_blocks=said).ends for said in (None, "2013-05", "2013-01..")]
        [None, ('2013-05', '2013-05'), ('2013-01', None)]
        """
        if self.in_blocks is None:
            return None
        first, several, last = self.in_blocks.partition("..")
        return first or None, (last if several else first) or None


@dataclass(kw_only=True)
class SettingsOptions:
    """Where the options stand that are not repeated."""

    panel: ClassVar[str] = EXPERT
    config: Annotated[Path | None, typer.Option(help="File of options (default: chary.toml here or by FILE).")] = None
    no_config: Annotated[bool, typer.Option("--no-config", help="Read no chary.toml.")] = False


@dataclass(kw_only=True)
class OutputOptions:
    """How the answer is reported."""

    panel: ClassVar[str] = "Output"
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    csv_out: Annotated[Path | None, typer.Option("--output", help="Also write the answer to a CSV file.")] = None


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Picture = Annotated[
    Path | None, typer.Option(help="Draw the answer to a file (PNG, PDF or SVG).", rich_help_panel="Output")
]
Above = Annotated[str | None, typer.Option(help="The threshold: at or above it is a hit.")]
