"""`chary account unanimous`: how many runs of a black box make its boundary cheapest."""

from fractions import Fraction
from typing import Annotated

from typer import Option

from chary.accounting import best_runs, boundary_chance, unanimous_price_up
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.errors import InvalidParameter
from chary.numbers import exact


def unanimous(
    epsilon_per_call: Annotated[str, Option("--epsilon-per-call", help="Epsilon of one run.")],
    order: Annotated[str, Option(help="Renyi order at which to price a hit.")],
    unclear: Annotated[str, Option(help="How likely one run is of another outcome than the usual one.")],
    most: Annotated[int, Option(help="At most so many runs.")] = 12,
    as_json: AsJson = False,
) -> None:
    """How often to run a black box (`Boundary` with `runs`) so that its boundary costs least on average.

    `price` is that of a boundary, `chance` how often one comes, `paid` their product; `paid_twice` is that of two runs.
    """
    at = exact(order, "order")
    if at <= 1:
        raise InvalidParameter("order must be greater than 1")
    count = best_runs(epsilon_per_call, at, unclear, most=most)
    price, chance = _price(epsilon_per_call, count, at), boundary_chance(unclear, count)
    twice = _price(epsilon_per_call, 2, at)
    paid_twice = None if twice is None else twice * boundary_chance(unclear, 2)
    figures = {"runs": count, "price": price, "chance": chance, "paid": (price or 0.0) * chance}
    (show_json if as_json else show_pairs)(figures | {"paid_twice": paid_twice})


def _price(epsilon: str, count: int, order: Fraction) -> float | None:
    found = unanimous_price_up(epsilon, count, order)
    return None if found is None else float(found)
