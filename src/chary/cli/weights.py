"""`chary ask`: shares of rows from a public histogram that is corrected where it is off."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from chary.cli.asking import Asked, check_public_size, stated
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import console, show_json, show_pairs, show_table
from chary.cli.waiting import asking
from chary.data import Bins, Universe
from chary.data.columns import classify
from chary.data.ranges import parse_keys
from chary.errors import BudgetRefused, InvalidParameter
from chary.growing.plots import check_picture
from chary.growing.weights_plots import draw_answers
from chary.ledger import State
from chary.numbers import exact
from chary.session import PublicWeights, WeightedAnswer

Where = Annotated[list[str], typer.Option(help="Predicate; may be given several times, such as \"sex = 'f'\".")]
Alpha = Annotated[str, typer.Option(help="How far a share may be off, such as 0.1.")]
Cut = Annotated[list[str] | None, typer.Option("--bins", help="Public edges of a column: age=0,18,65,120.")]
Listed = Annotated[list[str] | None, typer.Option("--values", help="Public values of a column: sex=f,m.")]
NoMissing = Annotated[bool, typer.Option("--no-missing", help="Expect no NULL and no undeclared value.")]
Verify = Annotated[bool, typer.Option("--must-verify", help="Refuse what could only be answered unverified.")]
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
    must_verify: Verify = False,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Shares of rows from a public histogram; charged where it was off. The same options go on with the same one.

    Calls are of --epsilon-per-call, or as large as pays for --hits when the histogram is opened (default: 10 hits).

    Example: chary ask visits.csv --each-row --relation replace --epsilon 1 --delta 1e-6 --alpha 0.1
    --bins age=0,18,65,120 --values sex=f,m --where "sex = 'f'"
    """
    check_public_size(source)
    if plot is not None:
        check_picture(plot)
    with asking(source, budget, call, QueryOptions(count=True), targets=True) as asked:
        weights = _opened(asked, _universe(asked.session.schema, bins or [], values or [], no_missing), alpha, call)
        for condition in where:
            weights.estimate(condition)  # one that is refused later would take paid answers along
        answers, refused = _answers(weights, where, must_verify)
        if refused is not None and not answers:
            raise refused
        _show(answers, _figures(asked, weights), as_json)
        if plot is not None:
            draw_answers(weights, answers, plot)
    if refused is not None:
        raise refused


def _answers(
    weights: PublicWeights, where: list[str], must_verify: bool
) -> tuple[list[tuple[str, WeightedAnswer]], BudgetRefused | None]:
    """The answers up to the first that is refused, since they are paid; and why it is."""
    answers: list[tuple[str, WeightedAnswer]] = []
    for condition in where:
        try:
            answers.append((condition, weights.ask(condition, must_verify=must_verify)))
        except BudgetRefused as refused:
            return answers, refused
    return answers, None


def _figures(asked: Asked, weights: PublicWeights) -> dict[str, Any]:
    stands = weights.quote()
    known = {"call": weights.call, "hard_left": stands.hard_left, "epsilon_per_call": stands.epsilon}
    return known | {"spent": asked.session.spent.as_dict()}


def _show(answers: list[tuple[str, WeightedAnswer]], figures: dict[str, Any], as_json: bool) -> None:
    rows = [_row(*answer) for answer in answers]
    if as_json:
        show_json({"answers": rows} | figures)
        return
    show_table(["where", "share", "hard", "verified"], [tuple(row.values()) for row in rows])
    if not all(answer.verified for _, answer in answers):
        console.print("unverified: no hit fits into what is left, so the histogram answered alone", soft_wrap=True)
    show_pairs(figures)


def _row(condition: str, answer: WeightedAnswer) -> dict[str, Any]:
    return {"where": condition, "share": answer.share, "hard": answer.hard, "verified": answer.verified}


def _opened(asked: Asked, universe: Universe, alpha: str, call: CallOptions) -> PublicWeights:
    """The histogram that was opened with the same options, or a new one."""
    size, share = stated(call), exact(alpha, "alpha")
    told = json.dumps([universe.body(), str(share), {"hits": asked.hits} if size is None else str(size)])
    key = f"chary ask {hashlib.sha256(told.encode()).hexdigest()}"
    epsilon = _epsilon(asked, key)
    return asked.session.multiplicative_weights(universe=universe, alpha=share, epsilon=epsilon, request=key)


def _epsilon(asked: Asked, key: str) -> Fraction:
    """That of the opening under this key, also of one that was interrupted: what is left is another by now."""
    spine = asked.session.spine
    for call in spine.ledger.calls(spine.dataset):
        if (call.request, call.analyst) == (key, spine.analyst) and call.state != State.VOIDED:
            return Fraction(json.loads(call.body)["epsilon_per_call"])
    return asked.epsilon


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
