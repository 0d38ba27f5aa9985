"""`chary account runs`, `run-pdp`, `run-filter`: runs of above threshold with Gaussian noise under a delta."""

from fractions import Fraction
from typing import Annotated

from typer import Option

from chary.accounting.gaussian_runs import (
    WhitehouseFilter,
    run_moments_up,
    run_pdp_epsilon_up,
    runs_within,
    stopping_pdp_epsilon,
)
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.errors import InvalidParameter
from chary.numbers import exact, positive, whole

Moved = Annotated[str, Option("--sensitivity", help="Most that one unit moves any query.")]
OwnNoise = Annotated[str, Option("--threshold-noise", help="Standard deviation of the threshold's Gaussian noise.")]
QueryNoise = Annotated[str, Option("--query-noise", help="Standard deviation of each query's Gaussian noise.")]
Bar = Annotated[str, Option("--threshold", help="The public threshold.")]
Low = Annotated[str, Option("--low", help="No query is below this.")]
Failure = Annotated[str, Option("--delta", help="Total delta.")]
Total = Annotated[str, Option("--epsilon", help="Total epsilon.")]


def runs(
    epsilon: Total,
    delta: Failure,
    sensitivity: Moved,
    threshold_noise: OwnNoise,
    query_noise: QueryNoise,
    threshold: Bar,
    low: Low = "0",
    order: Annotated[str | None, Option(help="Renyi order at which to price one run.")] = None,
    as_json: AsJson = False,
) -> None:
    """How many runs of any length, each up to a hit, are (epsilon, delta)-DP together; the price of one at an order."""
    noise = {"sensitivity": sensitivity, "threshold_noise": threshold_noise, "query_noise": query_noise}
    placed = {"threshold": threshold, "low": low}
    figures: dict[str, float | None] = {"runs": runs_within(epsilon, delta, **noise, **placed)}
    if order is not None:
        if exact(order, "order") <= 1:
            raise InvalidParameter("order must be greater than 1, such as --order 20")
        found = run_moments_up(order, **noise, **placed)
        figures |= dict.fromkeys(("opening", "hit", "whole")) if found is None else found._asdict()
    (show_json if as_json else show_pairs)(figures)


def run_pdp(
    delta: Failure,
    sensitivity: Moved,
    threshold_noise: OwnNoise,
    query_noise: QueryNoise,
    threshold: Bar,
    low: Low = "0",
    stopping: Annotated[
        str | None, Option(help="How likely each number of tests is, for all data: 1:0.5,10:0.49,1000:0.01.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The epsilon that the loss of one run exceeds with probability at most delta: for any number of tests, and by the
    law of their number (Zhu and Wang)."""
    noise = {"sensitivity": sensitivity, "threshold_noise": threshold_noise, "query_noise": query_noise}
    figures = {"any_length": run_pdp_epsilon_up(**noise, threshold=threshold, low=low, delta=delta)}
    if stopping is not None:
        figures["by_law"] = stopping_pdp_epsilon(_law(stopping), **noise, delta=delta)
    (show_json if as_json else show_pairs)(figures)


def run_filter(
    epsilon: Total,
    delta: Failure,
    epsilon_per_call: Annotated[str, Option("--epsilon-per-call", help="Epsilon of each call.")],
    delta_per_call: Annotated[str, Option("--delta-per-call", help="Delta of each call.")] = "0",
    as_json: AsJson = False,
) -> None:
    """How many (epsilon, delta)-DP calls the filter of Whitehouse and others admits; their deltas take half of delta,
    its composition the other half, or all if they have none."""
    each, total = exact(delta_per_call, "delta_per_call"), positive(delta, "delta")
    rule = WhitehouseFilter(epsilon, total / 2 if each else total, total / 2 if each else 0)
    calls = rule.times(epsilon_per_call, each)
    figures = {"calls": calls, "plain": int(Fraction(rule.epsilon) / positive(epsilon_per_call, "epsilon_per_call"))}
    (show_json if as_json else show_pairs)(figures)


def _law(text: str) -> dict[int, float]:
    """The law that is typed.

    >>> _law("1:0.5,10:1/2")
    {1: 0.5, 10: 0.5}
    """
    parts = [part.partition(":") for part in text.split(",")]
    if not all(count.strip().isdecimal() and chance for count, _, chance in parts):
        raise InvalidParameter("--stopping has numbers of tests and their chances, such as --stopping 1:0.5,10:0.5")
    return {whole(int(count), "stopping"): float(positive(chance, "stopping")) for count, _, chance in parts}
