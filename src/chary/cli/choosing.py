"""`chary top`, `chary cover`: the best keys of a file, paid by how many are published."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from chary.cli.asking import DEFAULT_HITS
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs, show_table
from chary.cli.waiting import asking, charged

Most = Annotated[int, typer.Option("--k", help="How many at most.")]
Gap = Annotated[str | None, typer.Option(help="Stop where the next one is more than this below the last.")]
Bar = Annotated[str | None, typer.Option(help="Only what is at or above this.")]


Enough = Annotated[str, typer.Option("--above", help="How many units not covered yet a key must add.")]
Limit = Annotated[int | None, typer.Option("--k", help="How many at most (default: all that add enough).")]


@with_options
def top(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    k: Most,
    gap: Gap = None,
    above: Bar = None,
    as_json: AsJson = False,
) -> None:
    """The best keys (or rows of a series) with their noisy values; only what is published is charged."""
    if call.epsilon_per_call is None and call.hits is None:
        call = replace(call, hits=max(k, DEFAULT_HITS))
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        found = asked.session.top(question, k=k, epsilon=asked.epsilon, gap=gap, above=above, request=budget.request)
        best: list[dict[str, Any]] = [{"key": list(name), "value": score} for name, score, _ in found.best]
        if asked.labels is not None:
            best = [row | {"label": asked.labels[row["key"][0]]} for row in best]
        figures = {"best": best, "error_bar": found.error_bar} | charged(asked)
    if as_json:
        show_json(figures)
        return
    rows = [(row.get("label", ", ".join(map(str, row["key"]))), row["value"]) for row in best]
    show_table(["key", "noisy value"], rows, f"The best {k}")
    show_pairs({name: value for name, value in figures.items() if name != "best"})


@with_options
def cover(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    above: Enough,
    k: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Keys that cover much together, in the order listed: each adds enough units; only the chosen are charged."""
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        found = asked.session.cover(question, above=above, epsilon=asked.epsilon, k=k, request=budget.request)
        chosen: list[dict[str, Any]] = [{"key": list(name), "adds": score} for name, score, _ in found.chosen]
        figures = {"covered": found.covered, "tested": len(found.calls), "error_bar": found.error_bar} | charged(asked)
    if as_json:
        show_json({"chosen": chosen} | figures)
        return
    show_table(["key", "adds"], [(", ".join(map(str, row["key"])), row["adds"]) for row in chosen], "Cover")
    show_pairs(figures)
