"""The command of advice: which mechanism for so many threshold tests, and the call to write."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from chary.addresses import without_password
from chary.advise import Advice
from chary.advise.advise import advice_within
from chary.advise.advise import advise as advice_for
from chary.advise.options import HEADINGS, Room, Wanted, row
from chary.cli import commands, config, output
from chary.core.charges import accounts_of
from chary.data import NeighborRelation, Neighbors
from chary.errors import InvalidParameter
from chary.ledger import ledger_exists, open_ledger
from chary.session.opening import held_filter

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


@commands.plainly
def advise(
    ledger: Book = None,
    *,
    hits: Hits,
    tests: Tests = None,
    keys: Keys = None,
    reach: Reach = None,
    overlap: Overlap = 1,
    steps: Steps = 1,
    budget_epsilon: Annotated[str | None, typer.Option(help="Epsilon of a new dataset.")] = None,
    budget_delta: Annotated[str | None, typer.Option(help="Delta of a new dataset.")] = None,
    values: Values = True,
    low: Bound = None,
    high: Bound = None,
    above: Above = None,
    sensitivity: Annotated[str, typer.Option(help="How far one unit moves each single question.")] = "1",
    grid: Annotated[str, typer.Option(help="The common step of the questions.")] = "1",
    monotone: Monotone = None,
    neighbors: Annotated[str | None, typer.Option(help="Neighbours of a new dataset (default: add_remove).")] = None,
    confidence: Annotated[str, typer.Option(help="How sure the errors are.")] = "0.95",
    dataset: Annotated[str | None, typer.Option(help="One dataset of the ledger, if it has several.")] = None,
    analyst: Annotated[str, typer.Option(help="Who asks, with a cap of its own perhaps.")] = "analyst",
) -> commands.Found:
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
    """A table without the calls, which are long and follow it."""
    output.show_table(HEADINGS[:-1], (row(option)[:-1] for option in found.options), found.title)
    for option in found.options:
        if option.code is not None:
            output.console.print(f"{option.mechanism}: {option.code}", soft_wrap=True, markup=False)
    for unfit in found.unfit:
        output.console.print(f"does not apply: {unfit.mechanism}: {unfit.reason}", soft_wrap=True, markup=False)
    for call in found.calls:
        output.console.print(call, soft_wrap=True, markup=False)
