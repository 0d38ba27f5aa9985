"""A call of which its author states the laws: finitely many, of which those of all neighbours are mixtures (ours)."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

from chary.accounting.charging.menu_laws import Chances, MenuLaw
from chary.accounting.events import Event
from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise, upper
from chary.accounting.rounding import rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, failing

# As in `hit_prices`: where more than 20 digits cancel, the guard of 1e-30 would not cover what is left.
_LEAST: Final = Decimal("1e-20")
MOST_OUTCOMES: Final = 1000

StatedLaw = tuple[tuple[Fraction, Fraction, bool], ...]


@dataclass(frozen=True)
class StatedLaws(Event):
    """A call whose laws under two neighbours are, for all neighbours, mixtures of finitely many pairs of laws.

    Each pair lists the outcomes in one order: their chances under the one neighbour and under the other, in either
    order of the two, and whether the outcome is a hit, which it is in all pairs or in none. At a Renyi order and on
    the exact curve alike no price for what is stated can be lower (docs/theory.md, a menu of laws). `failure` is a
    delta, paid hit or miss.

    Errors: `InvalidParameter` for chances that do not add up to 1, that are 0 under one neighbour alone, or outcomes
    that hit in some pairs only, more than 1,000 of them, and none that hits.

    >>> third = Fraction(1, 3)
    >>> known = StatedLaws((((2 * third, third, False), (third, 2 * third, True)),))
    >>> float(known.epsilon)
    0.69314...
    """

    laws: tuple[StatedLaw, ...]
    failure: Number = 0

    def __post_init__(self) -> None:
        laws = tuple(
            tuple((exact(one, "a chance"), exact(other, "a chance"), bool(hit)) for one, other, hit in law)
            for law in self.laws
        )
        object.__setattr__(self, "laws", laws)
        object.__setattr__(self, "failure", failing(self.failure))
        if not laws or len({tuple(hit for *_, hit in law) for law in laws}) > 1:
            raise InvalidParameter("give pairs of laws whose outcomes are the same, and hit in all of them or in none")
        if len(laws[0]) > MOST_OUTCOMES:
            raise InvalidParameter(f"laws are stated of at most {MOST_OUTCOMES} outcomes")
        for law in laws:
            _check(law)

    @classmethod
    def of(cls, laws: Sequence[Sequence[Sequence[Number]]], hits: Sequence[bool], failure: Number = 0) -> "StatedLaws":
        """Pairs of lists of chances, and which outcomes hit."""
        if not all(len(pair) == 2 and all(len(law) == len(hits) for law in pair) for pair in laws):
            raise InvalidParameter("each pair has two lists of chances, as long as the list of outcomes")
        told = tuple(tuple(zip(*pair, hits, strict=True)) for pair in laws)
        return cls(told, failure)

    @cached_property
    def epsilon(self) -> Fraction:
        """The largest log-ratio of a chance, rounded up to 18 digits; at least 1e-15."""
        ratios = [max(one / other, other / one) for law in self.laws for one, other, _ in law if one]
        with precise():
            return max(Fraction(1, 10**15), rounded_up(decimal(max(ratios)).ln()))

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    @property
    def released(self) -> bool:
        """Whether every outcome is a hit, so that the call is a release."""
        return all(hit for *_, hit in self.laws[0])

    @cached_property
    def most_q(self) -> Fraction:
        """No q-target by these laws has a larger q: a part that both laws have in common misses at most as often as the
        rarer of them does, outcome by outcome, and what is left hits with the rest.

        >>> third = Fraction(1, 3)
        >>> StatedLaws((((2 * third, third, False), (third, 2 * third, True)),)).most_q
        Fraction(1, 2)
        """
        return min(map(_most_q, self.laws))

    @property
    def listed(self) -> tuple[Fraction, Fraction | None]:
        missing = sum(not hit for *_, hit in self.laws[0])
        return self.epsilon, None if missing == 1 else Fraction(1)

    def menu_laws(self) -> list[MenuLaw]:
        with precise():
            return [
                tuple(Chances(decimal(one), decimal(other), hit) for one, other, hit in law if one) for law in self.laws
            ]

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        if self.released or order * self.epsilon > LARGEST_EXPONENT:
            return None
        with precise():
            found = [_moments(law, decimal(order)) for law in self._both]
            if min(1 - miss for _, miss in found) <= _LEAST:
                return None
            return upper(max((hit / (1 - miss)).ln() for hit, miss in found))

    def log_moment_up(self, order: Fraction) -> Fraction:
        if order * self.epsilon > LARGEST_EXPONENT:
            return (order - 1) * self.epsilon
        with precise():
            found = [_moments(law, decimal(order)) for law in self._both]
            return upper(max(hit + miss for hit, miss in found).ln())

    @property
    def _both(self) -> list[MenuLaw]:
        """The laws in either order of the neighbours."""
        laws = self.menu_laws()
        return laws + [tuple(Chances(told.second, told.first, told.hit) for told in law) for law in laws]


def _most_q(law: StatedLaw) -> Fraction:
    none = Fraction(0)
    one, other = (sum((told[side] for told in law if told[2]), none) for side in (0, 1))
    common = sum((min(first, second) for first, second, hit in law if not hit), none)
    return min(one, other) / (1 - common)


def _moments(law: MenuLaw, order: Decimal) -> tuple[Decimal, Decimal]:
    """The moments of what hits and of what misses."""
    found = {True: Decimal(0), False: Decimal(0)}
    for told in law:
        found[told.hit] += told.second * (order * (told.first / told.second).ln()).exp()
    return found[True], found[False]


def _check(law: StatedLaw) -> None:
    first, second = ([told[side] for told in law] for side in (0, 1))
    if any(sum(chances) != 1 or min(chances) < 0 for chances in (first, second)):
        raise InvalidParameter("chances of a law are at least 0 and add up to 1 exactly: give them as rationals")
    if any((one == 0) != (other == 0) for one, other in zip(first, second, strict=True)):
        raise InvalidParameter("an outcome that only one neighbour can have is no epsilon: state it as a delta")
    if not any(hit and one for one, _, hit in law):
        raise InvalidParameter("each pair of laws needs an outcome that hits")
