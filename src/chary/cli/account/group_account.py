"""`chary account group`, `sampler`: what a promise is worth for several units, and for noise that is not exact."""

from typing import Annotated

from typer import Option

from chary.accounting.composition import group_privacy_up, sampler_delta_up
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs

Epsilon = Annotated[str, Option(help="Epsilon for one unit.")]
Delta = Annotated[str, Option(help="Delta for one unit.")]


def group(
    units: Annotated[int, Option(help="How many units change together, such as the people of a household.")],
    epsilon: Epsilon = "1",
    delta: Delta = "0",
    as_json: AsJson = False,
) -> None:
    """Epsilon and delta of neighbours that differ in so many units; delta is rounded up."""
    total, failure = group_privacy_up(epsilon=epsilon, delta=delta, units=units)
    (show_json if as_json else show_pairs)({"epsilon": float(total), "delta": float(failure)})


def sampler(
    distance: Annotated[str, Option(help="Total variation distance of what is drawn from its law, at most.")],
    epsilon: Epsilon = "1",
    delta: Delta = "0",
    as_json: AsJson = False,
) -> None:
    """Delta of a mechanism that is drawn so far from its law; rounded up. The distance of chary's noise is 0."""
    failure = sampler_delta_up(epsilon=epsilon, delta=delta, distance=distance)
    (show_json if as_json else show_pairs)({"delta": float(failure)})
