"""The command of advice: which mechanism for this many threshold tests, and the call to write."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from chary.addresses import without_password
from chary.advise import Advice
from chary.advise.advise import advice_within
from chary.advise.advise import advise as advice_for
from chary.advise.options import HEADINGS, Room, Wanted, row
from chary.cli import commands, config, output
from chary.cli.forms import in_options
from chary.core.charges import accounts_of
from chary.data import NeighborRelation, Neighbors
from chary.errors import InvalidParameter
from chary.ledger import ledger_exists, open_ledger
from chary.session.opening import held_filter

Book = Annotated[str | None, typer.Argument(help="Ledger, or its rows: advice for what is left (default: new rows).")]


@partial(commands.plainly, lending=(advice_for,))
def advise(
    ledger: Book = None,
    budget_epsilon: str | None = None,
    budget_delta: str | None = None,
    neighbors: str | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    **terms: Any,
) -> commands.Found:
    """Compare all ways to run this many threshold tests: error, cost and the command to type, best first.

    hits: How many of them are expected to be above.
    tests: How many tests.
    keys: Instead of tests: the number of groups of a question.
    reach: Most groups of a question that one unit is in (default: all).
    overlap: Number of such questions about the same units.
    steps: How often all of it is asked, such as 52 in a year.
    values: Whether each hit is to come with a noisy value.
    low: Public bound of all values.
    high: Public bound of all values.
    above: The threshold (default: the middle of the range).
    sensitivity: How far one unit moves each single question.
    grid: The common step of the questions.
    monotone: Whether no unit moves a value down (default: if neighbours add).
    confidence: Confidence of the errors.
    budget_epsilon: Epsilon of a new dataset.
    budget_delta: Delta of a new dataset.
    neighbors: Neighbours of a new dataset (default: add_remove).
    dataset: One dataset of the ledger, if it has several.
    analyst: Name of the analyst, who may have a quota.
    """
    if ledger is None:
        if budget_epsilon is None:
            raise InvalidParameter(
                "give the budget of a new dataset, such as --budget-epsilon 1 --budget-delta 1e-6, or a ledger"
            )
        terms |= {"epsilon": budget_epsilon, "delta": budget_delta or 0}
        found = advice_for(neighbors=neighbors or "add_remove", **terms)
    elif (budget_epsilon, budget_delta, neighbors) != (None, None, None):
        raise InvalidParameter(
            "the ledger holds the budget: leave --budget-epsilon, --budget-delta and --neighbors out"
        )
    else:
        found = _left(config.ledger_at(ledger), dataset, analyst, terms)
    yield commands.Shown(found.as_dict(), lambda _: _show(found))


def _left(file: str | Path, dataset: str | None, analyst: str, terms: dict[str, Any]) -> Advice:
    """Advice for what is left of a dataset of a ledger."""
    if not ledger_exists(file):
        raise InvalidParameter(f"there is no ledger {without_password(file)}")
    ledger = open_ledger(file)
    try:
        held = config.one_dataset(ledger, dataset)
        conditions = json.loads(held.conditions)
        neighbor_relation = NeighborRelation(Neighbors.of_stored(conditions["relation"]), conditions["unit"])
        room = Room.within(held_filter(held), accounts_of(ledger, held.name, analyst))
        return advice_within(Wanted.asked(neighbor_relation, **terms), room)
    finally:
        ledger.close()


def _show(found: Advice) -> None:
    """A table, then the command line of each option, and how to begin with the best one."""
    output.show_table(HEADINGS[:-1], (row(option)[:-1] for option in found.options), found.title)
    for option in found.options:
        if option.code is not None:
            output.console.print(f"{option.mechanism}: {in_options(option.code)}", soft_wrap=True, markup=False)
    for unfit in found.unfit:
        told = in_options(f"does not apply: {unfit.mechanism}: {unfit.reason}")
        output.console.print(told, soft_wrap=True, markup=False)
    if found.best is not None:
        opening = (found.best.opening or "").removeprefix("session = ")
        parts = filter(None, (found.best.by_key or found.best.code, opening))
        output.console.print(
            f"best: {found.best.mechanism}\n  {' '.join(map(in_options, parts))}", soft_wrap=True, markup=False
        )
