"""All hits of a ledger at once: intervals that hold together, and a list with a stated share of false ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chary.accounting import confidence_at, fdr
from chary.session.public_report.published_values import PublishedValue

# Of the hits to act on at most one in ten is false on average.
RATE: Final = Fraction(1, 10)


@dataclass(frozen=True)
class SimultaneousHit:
    """A hit with its value: its interval among all hits, its p-value, and whether it is one of those to act on.

    The p-value bounds how often a truth that is not on the side that is charged comes out so far, once it is published
    (None where that is not at hand).
    """

    call: int
    value: PublishedValue
    low: int | float | None
    high: int | float | None
    p_value: float | None
    listed: bool


def simultaneous_hits(
    hits: Sequence[tuple[int, PublishedValue]], confidence: Fraction, tell: Callable[[int], None]
) -> list[SimultaneousHit]:
    """The hits in the order in which they were published, with intervals that all hold together.

    Guarantee: with probability `confidence` every interval of the whole list covers its truth, however the questions
    were chosen and however many more will come: the i-th may fail with 6/(pi^2 i^2) of what may fail in all. Those that
    are listed have an expected share of false ones of at most one in ten (LOND, see `accounting.online_list`).
    """
    found = []
    for place, (call, value) in enumerate(hits, 1):
        told = value.publication
        assert told is not None
        low, high = told.interval(value.value, confidence_at(confidence, place))
        found.append((call, value, low, high, told.p_value(value.value)))
        tell(place)
    judged = [place for place, hit in enumerate(found) if hit[4] is not None]
    chosen = {judged[place] for place in fdr([found[place][4] or 1.0 for place in judged], level=RATE)}
    return [SimultaneousHit(*hit, place in chosen) for place, hit in enumerate(found)]
