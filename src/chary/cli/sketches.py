"""`chary distinct`: a number of distinct elements from a private sketch that the ledger keeps."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from chary.cli.asking import Asked
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs
from chary.cli.waiting import asking
from chary.errors import InvalidParameter
from chary.session.distinct_counts import DistinctCount

Where = Annotated[str | None, typer.Option(help='Only units with a row such as "age >= 65".')]
Of = Annotated[str | None, typer.Option(help="Instead of units: the distinct values of this column.")]
Keep = Annotated[int | None, typer.Option(help="chary keeps so many values of each unit and reads the rows once.")]
Stated = Annotated[int | None, typer.Option(help="You vouch that no unit ever has more values than this.")]
Size = Annotated[
    int | None, typer.Option("--registers", help="A power of two; more are more accurate (default: 1024).")
]
Earlier = Annotated[int | None, typer.Option("--sketch", help="Go on with the sketch of that call.")]
Bar = Annotated[str, typer.Option(help="Publish the estimate if it is at or above this; below is free.")]


@with_options
def distinct(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    where: Where = None,
    of: Of = None,
    keep_per_unit: Keep = None,
    stated_per_unit: Stated = None,
    registers: Size = None,
    sketch: Earlier = None,
    above: Bar = "0",
    as_json: AsJson = False,
) -> None:
    """How many distinct units or values there are; all answers of one sketch are charged once."""
    if sketch is not None:
        if (budget.epsilon, call.epsilon_per_call, call.hits) != (None,) * 3:
            raise InvalidParameter("an earlier sketch has its size and budget: leave the epsilons and --hits out")
        call = replace(call, epsilon_per_call="1")
    parts: dict[str, Any] = {"where": where, "of": of, "registers": registers, "call": sketch}
    parts |= {"keep_per_unit": keep_per_unit, "stated_per_unit": stated_per_unit}
    with asking(source, budget, call, QueryOptions(count=True), targets=True) as asked:
        kept = _sketch(asked, parts, budget.request)
        found = kept.release_if(above=above, request=budget.request)
        figures: dict[str, Any] = {"distinct": found.value, "error_bar": found.error_bar, "sketch": kept.call}
        figures |= {"paid": kept.paid, "spent": asked.session.spent.as_dict()}
    (show_json if as_json else show_pairs)(figures)


def _sketch(asked: Asked, parts: dict[str, Any], request: str | None) -> DistinctCount:
    if parts["call"] is not None:
        return asked.session.sketch(**parts)
    key = None if request is None else f"{request} (sketch)"
    return asked.session.sketch(**parts, epsilon=asked.epsilon, request=key)
