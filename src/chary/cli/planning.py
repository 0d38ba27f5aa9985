"""`chary plan`: what fits into a budget."""

from typing import Annotated

import typer

from chary import accounting
from chary.cli.options import AsJson
from chary.cli.output import show_json, show_pairs, show_table
from chary.errors import InvalidParameter


def plan(
    epsilon: Annotated[str | None, typer.Option(help="Total epsilon.")] = None,
    delta: Annotated[str | None, typer.Option(help="Total delta.")] = None,
    hits: Annotated[int | None, typer.Option(help="Hits to pay for.")] = None,
    epsilon_per_call: Annotated[str | None, typer.Option(help="Epsilon of each call.")] = None,
    as_json: AsJson = False,
) -> None:
    """From three of --epsilon, --delta, --hits, --epsilon-per-call the fourth; from the first two, a table."""
    if epsilon is not None and delta is not None and hits is None and epsilon_per_call is None:
        _choices(epsilon, delta, as_json)
        return
    found = accounting.plan(epsilon=epsilon, delta=delta, hits=hits, epsilon_per_call=epsilon_per_call).as_dict()
    (show_json if as_json else show_pairs)(found)


def _choices(epsilon: str, delta: str, as_json: bool) -> None:
    plans = accounting.trade_offs(epsilon=epsilon, delta=delta)
    if not plans:
        raise InvalidParameter("nothing fits into this budget")
    if as_json:
        show_json([found.as_dict() for found in plans])
    else:
        title = f"What fits into epsilon {epsilon}, delta {delta}"
        show_table(["hits", "largest epsilon per call"], [(p.hits, p.epsilon_per_call) for p in plans], title)
