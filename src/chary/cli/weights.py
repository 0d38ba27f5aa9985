"""`chary ask`: shares of rows from a public histogram that is corrected where it is off."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from chary.cli.asking import Asked
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs, show_table
from chary.cli.waiting import asking, charged
from chary.data import Bins, Universe
from chary.data.columns import classify
from chary.data.ranges import parse_keys
from chary.errors import InvalidParameter
from chary.growing.plots import check_picture
from chary.growing.weights_plots import draw_answers
from chary.session import PublicWeights, WeightedAnswer

Where = Annotated[list[str], typer.Option(help="Predicate; may be given several times, such as \"sex = 'f'\".")]
Alpha = Annotated[str, typer.Option(help="How far a share may be off, such as 0.1.")]
Cut = Annotated[list[str] | None, typer.Option("--bins", help="Public edges of a column: age=0,18,65,120.")]
Listed = Annotated[list[str] | None, typer.Option("--values", help="Public values of a column: sex=f,m.")]
NoMissing = Annotated[bool, typer.Option("--no-missing", help="Expect no NULL and no undeclared value.")]
Picture = Annotated[Path | None, typer.Option(help="Draw answers and marginals to a file (PNG, PDF or SVG).")]


@with_options
def ask(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    where: Where,
    alpha: Alpha,
    bins: Cut = None,
    values: Listed = None,
    no_missing: NoMissing = False,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Shares of rows from a public histogram; charged where it was off. The same options go on with the same one."""
    if plot is not None:
        check_picture(plot)
    with asking(source, budget, call, QueryOptions(count=True), targets=True) as asked:
        weights = _opened(asked, _universe(asked.session.schema, bins or [], values or [], no_missing), alpha)
        for condition in where:
            weights.estimate(condition)  # one that is refused later would take paid answers along
        answers = [(condition, weights.ask(condition)) for condition in where]
        figures = {"hard_left": weights.quote().hard_left} | charged(asked)
        _show(answers, figures, as_json)
        if plot is not None:
            draw_answers(weights, answers, plot)


def _show(answers: list[tuple[str, WeightedAnswer]], figures: dict[str, Any], as_json: bool) -> None:
    rows = [_row(*answer) for answer in answers]
    if as_json:
        show_json({"answers": rows} | figures)
        return
    show_table(["where", "share", "hard", "verified"], [tuple(row.values()) for row in rows])
    show_pairs(figures)


def _row(condition: str, answer: WeightedAnswer) -> dict[str, Any]:
    return {"where": condition, "share": answer.share, "hard": answer.hard, "verified": answer.verified}


def _opened(asked: Asked, universe: Universe, alpha: str) -> PublicWeights:
    """The histogram that was opened with the same words, or a new one."""
    told = json.dumps([universe.body(), alpha, str(asked.epsilon)])
    key = f"chary ask {hashlib.sha256(told.encode()).hexdigest()}"
    return asked.session.multiplicative_weights(universe=universe, alpha=alpha, epsilon=asked.epsilon, request=key)


def _universe(schema: dict[str, str], bins: list[str], values: list[str], no_missing: bool) -> Universe:
    cut = [_split(option, "--bins age=0,18,65,120") for option in bins]
    listed = [_split(option, "--values sex=f,m") for option in values]
    columns: dict[str, Any] = {name: Bins([edge.strip() for edge in text.split(",")]) for name, text in cut}
    columns |= {name: parse_keys(text, str(classify(schema, name))) for name, text in listed}
    if not columns or len(columns) < len(cut) + len(listed):
        raise InvalidParameter("name every column once, by --bins age=0,18,65,120 or by --values sex=f,m")
    return Universe(columns, missing=not no_missing)


def _split(option: str, example: str) -> tuple[str, str]:
    name, equals, text = option.partition("=")
    if not equals:
        raise InvalidParameter(f"write {example}")
    return name.strip(), text
