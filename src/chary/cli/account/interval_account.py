"""`chary account interval`: what a value says that was published because it was high."""

from typing import Annotated

import typer

from chary.accounting import Interval, Publication, Support
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.errors import InvalidParameter
from chary.mechanisms import Laplace

EXAMPLE = "account interval --epsilon 0.05 --above 100 --value 175"


def interval(
    epsilon: Annotated[str, typer.Option(help="Epsilon of the test: of its discrete Laplace noise.")],
    above: Annotated[int, typer.Option(help="The bar: values from here on were published.")],
    value: Annotated[int, typer.Option(help="The value that was published.")],
    below: Annotated[int | None, typer.Option(help="The bar it had failed before, if this one was lowered.")] = None,
    confidence: Annotated[str, typer.Option(help="How sure the interval is.")] = "0.95",
    as_json: AsJson = False,
) -> None:
    """Interval and p-value of a count given that it was published; no lower end means it may be a false alarm."""
    try:
        support = _support(above, below)
        published = Publication(Laplace.for_epsilon(epsilon, sensitivity=1).law(), support)
        ends, p_value = published.interval(value, confidence), published.p_value(value)
    except InvalidParameter as error:
        raise InvalidParameter(f"{error}; such as: chary {EXAMPLE}") from None
    if as_json:
        show_json({**ends._asdict(), "p_value": p_value})
    else:
        show_pairs({**_told(ends), "p_value": p_value})


def _support(above: int, below: int | None) -> Support:
    if below is None:
        return Support.at_least(above)
    if below <= above:
        raise InvalidParameter("below must be larger than above: the bar was lowered from there")
    return Support.between(above, below)


def _told(ends: Interval) -> dict[str, int | float | str]:
    """For people: what an end that is missing means."""
    low = "none: it may be a false alarm" if ends.low is None else ends.low
    return {"low": low, "high": "none" if ends.high is None else ends.high}
