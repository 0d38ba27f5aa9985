"""Which published hits to act on, from their p-values: lists with a stated share of false ones.

Every rule takes p-values in the order in which the hits came and returns the places, from 0, of those to act on. What
it guarantees depends on how the questions were chosen. The p-value of a hit by `Publication.p_value` is valid *given
everything published before*: whatever was asked and why, a hit of a truth below its bar has p <= u with a chance of at
most u. Rules that need no more than that are safe for an analyst who chooses each question by the answers so far.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, Protocol

from chary.errors import InvalidParameter
from chary.numbers import Number, exact, probability, whole

# Just below 6/pi^2: the shares of a budget, this over i^2, add up to less than 1.
_FIRST_SHARE: Final = Fraction(60792710185402662, 10**17)


class Rule(Protocol):
    """From p-values in order to the places to act on: `online_list`, `spending_list`, `benjamini_hochberg_list`,
    `e_value_list`.

    The *false discovery rate* of a list is the expected share of its members whose truth is below the bar (0 for an
    empty list).
    """

    def __call__(self, p_values: Sequence[Number], level: Number) -> list[int]: ...


def share_at_down(place: int) -> Fraction:
    """The share of a budget for the place-th of any number of events, places from 1: `6/(pi^2 i^2)`, rounded down.

    >>> [round(float(share_at_down(place)), 4) for place in (1, 2, 10)]
    [0.6079, 0.152, 0.0061]
    """
    return _FIRST_SHARE / whole(place, "place") ** 2


def online_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Decide on each hit as it comes: act if `p <= level 6/(pi^2 i^2) (k + 1)`, k being the number acted on before.

    Guarantee: the false discovery rate is at most `level` at every moment, wherever one stops looking, for questions
    chosen adaptively. A decision never changes later (Javanmard and Montanari 2018, LOND; proof in docs/theory.md).

    >>> online_list([0.001, 0.5, 0.01, 0.02], "0.1")
    [0, 2]
    """
    chosen: list[int] = []
    for place, (p, share) in enumerate(_shared(p_values, level)):
        if p <= share * (len(chosen) + 1):
            chosen.append(place)
    return chosen


def spending_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Decide on each hit as it comes: act if `p <= level 6/(pi^2 i^2)`.

    Guarantee: with probability `1 - level` not a single member of the list is false, for any number of hits and
    questions chosen adaptively. Stricter than a false discovery rate, which it bounds too.
    """
    return [place for place, (p, share) in enumerate(_shared(p_values, level)) if p <= share]


def benjamini_hochberg_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Act on the k hits of smallest p, for the largest k whose k-th smallest p is at most `level k / n`.

    Guarantee: the false discovery rate is at most `level` if all questions, bars and supports were fixed before the
    first answer and noises are independent (then the p-values are independent, given which were published). It does
    *not* hold for an analyst who goes on until the list has a member; take `online_list` there.

    >>> benjamini_hochberg_list([0.04, 0.5, 0.01, 0.02], "0.1")
    [0, 2, 3]
    """
    ranked = sorted((_p(p), place) for place, p in enumerate(p_values))
    rate = probability(level, "level")
    least = [k for k, (p, _) in enumerate(ranked, 1) if p * len(ranked) <= rate * k]
    return sorted(place for _, place in ranked[: least[-1] if least else 0])


def e_value_list(p_values: Sequence[Number], level: Number, *, most: int | None = None) -> list[int]:
    """Benjamini-Hochberg on e-values `1/(2 sqrt(p))`: act on the k largest for the largest k at which all say enough.

    Each place has a weight w, by default `6/(pi^2 i^2)`, or `1/most` where it was agreed beforehand that there would be
    at most so many hits; the k-th largest w e must be `1/(k level)` at least (Wang and Ramdas 2022, with weights).

    Guarantee: the false discovery rate is at most `level`, for questions chosen adaptively and p-values that depend on
    each other in any way. It looks back at the whole list, so earlier hits may join when later ones are strong.
    Errors: `InvalidParameter` for more p-values than `most`.

    >>> e_value_list([1e-7, 0.5, 1e-8, 1e-3], "0.1", most=4), e_value_list([1e-7, 0.5, 1e-8, 1e-3], "0.1")
    ([0, 2, 3], [0, 2])
    """
    if most is not None and len(p_values) > whole(most, "most"):
        raise InvalidParameter("there are more p-values than the most hits that were agreed on")
    rate = probability(level, "level")
    # Squares, so that all is rational: w/(2 sqrt(p)) >= 1/(k level) where (k level w)^2 >= 4 p.
    weights = [share_at_down(place) if most is None else Fraction(1, most) for place in range(1, len(p_values) + 1)]
    needs = [4 * _p(p) / weight**2 for p, weight in zip(p_values, weights, strict=True)]
    ranked = sorted((needed, place) for place, needed in enumerate(needs))
    least = [k for k, (needed, _) in enumerate(ranked, 1) if (k * rate) ** 2 >= needed]
    return sorted(place for _, place in ranked[: least[-1] if least else 0])


def fdr(p_values: Sequence[Number], *, level: Number = Fraction(1, 10), rule: Rule = online_list) -> list[int]:
    """The places, from 0, of the hits to act on, so that the expected share of false ones is at most `level`.

    By default the rule that holds for any analyst, whenever one stops. Errors: `InvalidParameter` for p-values outside
    [0, 1] and a level outside (0, 1).

    >>> fdr([0.001, 0.5, 0.01, 0.02])
    [0, 2]
    """
    return rule(p_values, level)


def _shared(p_values: Sequence[Number], level: Number) -> Iterator[tuple[Fraction, Fraction]]:
    """Each p-value with its share of the level."""
    rate = probability(level, "level")
    return ((_p(p), rate * share_at_down(place)) for place, p in enumerate(p_values, 1))


def _p(value: Number) -> Fraction:
    found = exact(value, "a p-value")
    if not 0 < found <= 1:
        raise InvalidParameter("p-values must be greater than 0 and at most 1")
    return found
