"""`chary account`: the calculators, whose JSON keys other programs rely on."""

from collections.abc import Mapping
from typing import Annotated

import typer

from chary import accounting
from chary.accounting import Targeted, hit_price_up
from chary.cli.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.errors import InvalidParameter
from chary.numbers import exact

app = typer.Typer(no_args_is_help=True, help="Calculators of privacy accounting; they touch no data.")
PerCall = Annotated[str, typer.Option("--epsilon-per-call", help="Epsilon of each call.")]
Target = Annotated[str | None, typer.Option("--q", help="The q of a q-target [default: NotPrior].")]
Delta = Annotated[str, typer.Option("--delta", help="Total delta.")]


@app.command()
def charging(
    epsilon_per_call: PerCall,
    delta: Delta,
    hits: Annotated[int, typer.Option(help="Hits to pay for.")],
    q: Target = None,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of target charging: exact curve, exact tail, published bound."""
    if q is None:
        best = accounting.exact_total(epsilon_per_call=epsilon_per_call, hits=hits, delta=delta)
    else:
        best = accounting.target_total(epsilon_per_call=epsilon_per_call, hits=hits, delta=delta, q=q)
    tail = accounting.exact_tail_total(epsilon_per_call=epsilon_per_call, hits=hits, delta=delta, q=q)
    bound = accounting.published_total(epsilon_per_call=epsilon_per_call, hits=hits, delta=delta, q=q)
    figures = {"exact": best, "exact_tail": tail, "published": bound}
    _show(figures, as_json)


@app.command()
def price(
    order: Annotated[str, typer.Option(help="Renyi order, greater than 1.")],
    epsilon_per_call: PerCall,
    q: Target = None,
    as_json: AsJson = False,
) -> None:
    """Log-moment price of one hit at a Renyi order; null where none exists."""
    number = exact(order, "order")
    if number <= 1:
        raise InvalidParameter("order must be greater than 1, such as --order 20")
    found = hit_price_up(Targeted(epsilon_per_call, q), number)
    _show({"price": None if found is None else float(found)}, as_json)


@app.command()
def compose(
    epsilon: Annotated[str, typer.Option(help="Epsilon of each computation.")],
    times: Annotated[int, typer.Option(help="How many computations.")],
    delta: Delta,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of equal pure computations by every composition theorem."""
    _show(accounting.compose(epsilon=epsilon, times=times, delta=delta).as_dict(), as_json)


def _show(figures: Mapping[str, float | None], as_json: bool) -> None:
    (show_json if as_json else show_pairs)(dict(figures))
