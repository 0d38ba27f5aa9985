"""`chary account hits`, `top-one`, `unbiased`: how many hits charging takes, and what nobody can do better."""

from typing import Annotated

from typer import Option

from chary.accounting import exact_total, loss_down, not_prior_q, published_loss_down, variance_down
from chary.accounting.charging_curve import hits_needed, one_shot_floor_down
from chary.accounting.composition import moderate_up
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.numbers import exact, positive, whole


def hits(
    overhead: Annotated[str, Option(help="Calls paid for beyond the mean number, as a part of it: alpha.")],
    delta: Annotated[str, Option(help="Chance that more are needed.")],
    epsilon_per_call: Annotated[str, Option("--epsilon-per-call", help="Epsilon of each call.")] = "0.01",
    q: Annotated[str | None, Option("--q", help="The q of a q-target (default: NotPrior).")] = None,
    as_json: AsJson = False,
) -> None:
    """The fewest hits for which charging pays (1 + overhead) hits/q calls: exact tail, two Chernoff bounds."""
    rate = not_prior_q(moderate_up(epsilon_per_call)) if q is None else q
    _show(hits_needed(overhead=overhead, delta=delta, q=rate)._asdict(), as_json)


def top_one(
    epsilon_per_call: Annotated[str, Option("--epsilon-per-call", help="Epsilon of each candidate.")],
    candidates: Annotated[int, Option(help="How many candidates there are.")],
    delta: Annotated[str, Option(help="Total delta.")],
    as_json: AsJson = False,
) -> None:
    """What the best of many private candidates costs: at least, as one hit of epsilon or of twice that, without delta.

    `at_least` is a lower bound for every accountant. One hit of 2 epsilon is what the exact filter charges, as
    Cohen and Lyu do; at a Renyi order one hit of epsilon is enough.
    """
    twice = 2 * positive(epsilon_per_call, "epsilon_per_call")
    figures = {
        "at_least": one_shot_floor_down(epsilon_per_call=epsilon_per_call, candidates=candidates, delta=delta),
        "one_hit": exact_total(epsilon_per_call=epsilon_per_call, hits=1, delta=delta),
        "one_hit_of_twice": exact_total(epsilon_per_call=twice, hits=1, delta=delta),
        "without_delta": float(twice / 2 * whole(candidates, "candidates")),
    }
    _show(figures, as_json)


def unbiased(
    epsilon: Annotated[str, Option(help="Epsilon of the answer.")],
    change: Annotated[
        str, Option(help="How far one unit moves the true answer; k units move it k times as far.")
    ] = "1",
    units: Annotated[int, Option(help="So many units at most move it.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """The least variance and squared error of an unbiased epsilon-DP answer, and the published bound."""
    step = exact(change, "change")
    changes = [k * step for k in range(1, whole(units, "units") + 1)]
    figures = {
        "variance": variance_down(epsilon=epsilon, changes=changes),
        "squared_error": loss_down(epsilon=epsilon, changes=changes),
        "published": published_loss_down(epsilon=epsilon, changes=changes),
    }
    _show(figures, as_json)


def _show(figures: dict[str, int] | dict[str, float], as_json: bool) -> None:
    (show_json if as_json else show_pairs)(figures)
