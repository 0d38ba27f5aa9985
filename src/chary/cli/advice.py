"""Commands that plan a budget and advise on mechanisms."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from chary import accounting
from chary.accounting.sharp_widths import laplace_width, sharp_menu
from chary.advise import Advice
from chary.advise.advise import advice_within
from chary.advise.advise import advise as advice_for
from chary.advise.options import HEADINGS, Room, Wanted, row
from chary.cli.commands import Found, Shown, plainly
from chary.cli.config import ledger_at, one_dataset
from chary.cli.output import console, show_pairs, show_table, spinning
from chary.core.charges import accounts_of
from chary.data import Neighbouring
from chary.errors import InvalidParameter
from chary.ledger import ledger_exists, open_ledger
from chary.session.opening import held_filter

# `chary plan`: what fits into a budget.

# What is told of each number of hits, in this order, and its heading.
_MENU: Final = {
    "hits": "hits",
    "sparse": "sparse vector",
    "laplace": "Laplace tests",
    "alone": "sharp tests",
    "agreed": "number agreed",
    "within": "with values",
    "value_error": "error of values",
}


@plainly
def plan(
    epsilon: Annotated[str | None, typer.Option(help="Total epsilon.")] = None,
    delta: Annotated[str | None, typer.Option(help="Total delta.")] = None,
    hits: Annotated[int | None, typer.Option(help="Hits to pay for.")] = None,
    epsilon_per_call: Annotated[str | None, typer.Option(help="Epsilon of each call.")] = None,
    tests: Annotated[int | None, typer.Option(help="Tests in all: how near to a bar they are right.")] = None,
    value: Annotated[str, typer.Option(help="With --tests: of the price of a hit, the part for its value.")] = "1/4",
) -> Found:
    """From three of --epsilon, --delta, --hits, --epsilon-per-call the fourth; from the first two, a table.

    With --tests the table tells for several numbers of hits how near to their bar all tests are right, in
    sensitivities: by a sparse vector, by Laplace noise, by sharp tests (without values, for an agreed number, and with
    values), and how far off values may be.
    """
    if epsilon is not None and delta is not None and hits is None and epsilon_per_call is None:
        yield _choices(epsilon, delta) if tests is None else _menu(epsilon, delta, tests, value)
        return
    if tests is not None:
        raise InvalidParameter("--tests is for a menu of what a budget pays for: give --epsilon and --delta alone")
    with spinning("planning"):
        found = accounting.plan(epsilon=epsilon, delta=delta, hits=hits, epsilon_per_call=epsilon_per_call).as_dict()
    yield Shown(found, show_pairs)


def _choices(epsilon: str, delta: str) -> Shown:
    plans = accounting.trade_offs(epsilon=epsilon, delta=delta)
    if not plans:
        raise InvalidParameter("nothing fits into this budget")
    rows, title = [(p.hits, p.epsilon_per_call) for p in plans], f"What fits into epsilon {epsilon}, delta {delta}"
    columns = ["hits", "largest epsilon per call"]
    return Shown([found.as_dict() for found in plans], lambda _: show_table(columns, rows, title))


def _menu(epsilon: str, delta: str, tests: int, value: str) -> Shown:
    """The plans with the figures of their numbers of hits."""
    with spinning("looking for the best orders"):
        choices = sharp_menu(epsilon=epsilon, delta=delta, tests=tests, value=value)
        found = {choice.hits: asdict(choice) for choice in choices}
        plans = accounting.trade_offs(epsilon=epsilon, delta=delta, hits=tuple(found))
    told = [
        plan.as_dict() | found[plan.hits] | {"laplace": laplace_width(plan.epsilon_per_call, tests=tests)}
        for plan in plans
    ]
    title = f"{tests:,} tests within epsilon {epsilon}, delta {delta}: half-widths in sensitivities, 95 % sure"
    rows = [[_short(plan[name]) for name in _MENU] for plan in told]
    return Shown(told, lambda _: show_table(list(_MENU.values()), rows, title))


def _short(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:,.0f}"


# `chary advise`: which mechanism for so many threshold tests, and the call to write; nothing is read or charged.

Book = Annotated[str | None, typer.Argument(help="Ledger, or its rows: advice for what is left (default: new rows).")]
Tests = Annotated[int | None, typer.Option(help="How many tests.")]
Hits = Annotated[int, typer.Option(help="How many of them are expected to be above.")]
Values = Annotated[bool, typer.Option(help="Whether each hit is to come with a noisy value.")]
Bound = Annotated[str | None, typer.Option(help="Public bound of all values.")]
Above = Annotated[str | None, typer.Option(help="The threshold (default: the middle of the range).")]
Keys = Annotated[int | None, typer.Option(help="Instead of tests: how many keys a question has.")]
Reach = Annotated[int | None, typer.Option(help="In how many keys of a question one unit is at most (default: all).")]
Overlap = Annotated[int, typer.Option(help="How many such questions are asked of the same units.")]
Steps = Annotated[int, typer.Option(help="How often all of it is asked, such as 52 in a year.")]
Monotone = Annotated[bool | None, typer.Option(help="Whether no unit moves a value down (default: if neighbours add).")]


@plainly
def advise(
    ledger: Book = None,
    *,
    hits: Hits,
    tests: Tests = None,
    keys: Keys = None,
    reach: Reach = None,
    overlap: Overlap = 1,
    steps: Steps = 1,
    epsilon: Annotated[str | None, typer.Option(help="Total epsilon of a new dataset.")] = None,
    delta: Annotated[str | None, typer.Option(help="Total delta of a new dataset.")] = None,
    values: Values = True,
    low: Bound = None,
    high: Bound = None,
    above: Above = None,
    sensitivity: Annotated[str, typer.Option(help="How far one unit moves each single question.")] = "1",
    grid: Annotated[str, typer.Option(help="The common step of the questions.")] = "1",
    monotone: Monotone = None,
    relation: Annotated[str | None, typer.Option(help="Neighbours of a new dataset (default: add/remove).")] = None,
    confidence: Annotated[str, typer.Option(help="How sure the errors are.")] = "0.95",
    dataset: Annotated[str | None, typer.Option(help="One dataset of the ledger, if it has several.")] = None,
    analyst: Annotated[str, typer.Option(help="Who asks, with a cap of its own perhaps.")] = "analyst",
) -> Found:
    """Every way to run so many threshold tests, with its error, its price and the call to write; best first."""
    terms: dict[str, Any] = {"tests": tests, "hits": hits, "values": values, "low": low, "high": high, "above": above}
    terms |= {
        "sensitivity": sensitivity,
        "grid": grid,
        "monotone": monotone,
        "confidence": confidence,
        "keys": keys,
        "reach": reach,
        "overlap": overlap,
        "steps": steps,
    }
    if ledger is None:
        if epsilon is None:
            raise InvalidParameter("give the budget of a new dataset, such as --epsilon 1 --delta 1e-6, or a ledger")
        found = advice_for(epsilon=epsilon, delta=delta or 0, relation=relation or "add/remove", **terms)
    elif (epsilon, delta, relation) != (None, None, None):
        raise InvalidParameter("the ledger holds the budget: leave --epsilon, --delta and --relation out")
    else:
        found = _left(ledger_at(ledger), dataset, analyst, terms)
    yield Shown(found.as_dict(), lambda _: _show(found))


def _left(file: str | Path, dataset: str | None, analyst: str, terms: dict[str, Any]) -> Advice:
    """Advice for what is left of a dataset of a ledger."""
    if not ledger_exists(file):
        raise InvalidParameter(f"there is no ledger {file}")
    ledger = open_ledger(file)
    try:
        held = one_dataset(ledger, dataset)
        conditions = json.loads(held.conditions)
        neighbouring = Neighbouring(conditions["relation"], conditions["unit"])
        room = Room.within(held_filter(held), accounts_of(ledger, held.name, analyst))
        return advice_within(Wanted.asked(neighbouring, **terms), room)
    finally:
        ledger.close()


def _show(found: Advice) -> None:
    """A table without the calls, which are long and follow it."""
    show_table(HEADINGS[:-1], (row(option)[:-1] for option in found.options), found.title)
    for option in found.options:
        if option.code is not None:
            console.print(f"{option.mechanism}: {option.code}", soft_wrap=True, markup=False)
    for unfit in found.unfit:
        console.print(f"does not apply: {unfit.mechanism}: {unfit.reason}", soft_wrap=True, markup=False)
    for call in found.calls:
        console.print(call, soft_wrap=True, markup=False)
