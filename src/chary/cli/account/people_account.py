"""`chary account people`: how many people an accuracy takes when each randomizes the own report."""

from typing import Annotated, Any

from typer import Option

from chary.accounting.local_reports import local_channels, people_needed
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.numbers import probability


def people(
    values: Annotated[int, Option(help="How many values people can hold.")],
    epsilon: Annotated[str, Option(help="Epsilon of each report.")],
    within: Annotated[str, Option(help="How far the interval of each share may reach to either side.")],
    confidence: Annotated[str, Option(help="Probability that the intervals of all values hold.")] = "0.95",
    share: Annotated[str, Option(help="The largest share that is expected of a value.")] = "1",
    as_json: AsJson = False,
) -> None:
    """People that local reports of every form take for intervals about the population, sampling error included."""
    beta = 1 - probability(confidence, "confidence")
    known: dict[str, Any] = {"values": values, "within": within, "beta": beta, "share": share}
    figures = {name: people_needed(channel, **known) for name, channel in local_channels(values, epsilon).items()}
    best = min(figures, key=lambda name: figures[name])
    (show_json if as_json else show_pairs)({**figures, "best": best})
