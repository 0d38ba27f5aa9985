"""`chary quantiles`, `chary histogram`: order statistics and counts by bins of a numeric column of a file."""

from typing import Annotated, Any

import typer

from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs, show_table
from chary.cli.waiting import asking, charged
from chary.data.binned import Outside
from chary.errors import InvalidParameter
from chary.session import Answers, QuantileAnswers

Column = Annotated[str, typer.Option(help="The column of numbers.")]
At = Annotated[str, typer.Option(help="Quantiles between 0 and 1, increasing, comma between them.")]
Low = Annotated[str, typer.Option(help="Smaller values count as this.")]
High = Annotated[str, typer.Option(help="Larger values count as this.")]
Step = Annotated[str, typer.Option(help="Answers are multiples of this; values are rounded to it.")]
Where = Annotated[str | None, typer.Option(help='Predicate, such as "age >= 65 AND smoker".')]
Rows = Annotated[int | None, typer.Option("--rows-per-unit", help="Keep so many values of each unit, spread evenly.")]
Bins = Annotated[str, typer.Option(help="Public edges, increasing, comma between them: 0,18,65,120.")]
Beyond = Annotated[str, typer.Option("--outside", help="Values outside: ignore, or edges (the first and last bin).")]
Keep = Annotated[int | None, typer.Option("--keep-per-unit", help="chary keeps at most this many bins of each unit.")]
Stated = Annotated[
    int | None, typer.Option("--stated-per-unit", help="You vouch that a unit is in at most this many bins.")
]


@with_options
def quantiles(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    column: Column,
    low: Low,
    high: High,
    at: At = "0.25,0.5,0.75",
    step: Step = "1",
    where: Where = None,
    rows_per_unit: Rows = None,
    as_json: AsJson = False,
) -> None:
    """Quantiles of a column out of a public grid, all for one epsilon; always charged."""
    options: dict[str, Any] = {"bounds": (low, high), "step": step, "where": where, "rows_per_unit": rows_per_unit}
    levels = _numbers(at, "--at", "0.25,0.5,0.75")
    with asking(source, budget, call, QueryOptions(count=True), targets=False) as asked:
        found = asked.session.quantiles(column, levels, **options, epsilon=asked.epsilon, request=budget.request)
        figures = charged(asked)
    rows = _rows(found)
    if as_json:
        show_json({"quantiles": rows} | figures)
        return
    show_table(["at", column, "rank error"], [tuple(row.values()) for row in rows])
    show_pairs(figures)


@with_options
def histogram(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    column: Column,
    bins: Bins,
    where: Where = None,
    outside: Beyond = "ignore",
    keep_per_unit: Keep = None,
    stated_per_unit: Stated = None,
    as_json: AsJson = False,
) -> None:
    """How many units have a value in each bin, the edges being public; always charged."""
    if outside not in ("ignore", "edges"):
        raise InvalidParameter("--outside is ignore or edges")
    beyond: Outside = "edges" if outside == "edges" else "ignore"
    limits = {"keep_per_unit": keep_per_unit, "stated_per_unit": stated_per_unit}
    edges = _numbers(bins, "--bins", "0,18,65,120")
    with asking(source, budget, call, QueryOptions(count=True), targets=False) as asked:
        common: dict[str, Any] = {"epsilon": asked.epsilon, "where": where, "request": budget.request} | limits
        found = asked.session.histogram(column, bins=edges, outside=beyond, **common)
        figures = {"error_bar": found.error_bar} | charged(asked)
    if as_json:
        show_json({"bins": _bins(found)} | figures)
        return
    show_table([column, "noisy count"], [(str(key[0]), value) for key, value in found.as_dict().items()])
    show_pairs(figures)


def _rows(found: QuantileAnswers) -> list[dict[str, Any]]:
    triples = zip(found.at, found.values, found.rank_errors, strict=True)
    return [{"at": at, "value": value, "rank_error": error} for at, value, error in triples]


def _bins(found: Answers) -> list[dict[str, Any]]:
    return [{"low": key[0].low, "high": key[0].high, "value": value} for key, value in found.as_dict().items()]


def _numbers(text: str, option: str, example: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InvalidParameter(f"{option} takes numbers with commas between them, such as {option} {example}")
    return parts
