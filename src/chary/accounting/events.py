"""Every privacy event that a ledger can hold, with its mathematics."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Final

from chary.accounting import hit_prices
from chary.accounting.numerics import LARGEST_EXPONENT, decimal, precise, rounded_up, upper
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, exact, failing, per_call, positive, probability, set_fields, whole, work_out

# Events: what a computation may reveal, as frozen values that carry their own mathematics.
#
# An event is stored in ledgers, so a class here is never removed and never changes its meaning. A filter asks an event
# three things: its pure bound `epsilon`, its additive `delta`, and its log-moment `(a - 1) * D_a` at a Renyi order a.
# Everything is a rational upper bound (theory chapter 1, 1.4).


class Event(ABC):
    """What one computation may reveal about one privacy unit.

    `epsilon` is the pure bound on the log-likelihood ratio outside an event of probability `delta`, or None where
    there is none (Gaussian noise).
    """

    @property
    @abstractmethod
    def epsilon(self) -> Fraction | None:
        """The pure bound, or None."""

    @property
    def delta(self) -> Fraction:
        """The probability that adds to the total delta; 0 for all but approximate events."""
        return Fraction(0)

    @property
    def unfailing(self) -> "Event":
        """The event outside of its failure, where it is another: what a menu lists."""
        return self

    @property
    def copies(self) -> tuple["Event", int]:
        """The event and how many times over; filters find the cost of one copy and multiply."""
        return self, 1

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        """What a hit costs at this order under a charging filter, a miss being free; None where every outcome is paid.

        Also None where no finite cost exists.
        """
        return None

    def miss_price_up(self, order: Fraction) -> Fraction:
        """What a miss costs at this order where a hit has a cost; 0 unless misses were given one too."""
        return Fraction(0)

    @property
    def otherwise(self) -> str:
        """What to do where a filter has no cost for this event because it has no pure bound; "" for the usual."""
        return ""

    @property
    def listed(self) -> tuple[Fraction | None, Fraction | None]:
        """The size and the q under which a menu lists this event: None is NotPrior, 1 an ordinary release."""
        return self.epsilon, Fraction(1)

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        """Finitely many distributions for all pairs of neighbours on a menu; none where there is no pure bound."""
        return [] if self.epsilon is None else hit_prices.response_laws(self.epsilon, released=True)

    @abstractmethod
    def log_moment_up(self, order: Fraction) -> Fraction:
        """An upper bound on `(order - 1)` times the Renyi divergence of that order, order > 1."""


@dataclass(frozen=True)
class _Bounded(Event):
    """Outcomes at most e^bound times likelier under a neighbour; it costs as much as the worst such distribution."""

    bound: Number

    def __post_init__(self) -> None:
        set_fields(self, bound=per_call(self.bound))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class Pure(_Bounded):
    """An epsilon-DP computation of unknown distribution; it costs what randomized response, the worst, does (theory
    1.1).

    >>> float(Pure("0.1").log_moment_up(Fraction(2)))
    0.009958...
    """


@dataclass(frozen=True)
class Asymmetric(_Bounded):
    """Neighbours in one order have outcomes at most e^bound times likelier, in the other order at most e^reverse.

    Which of two neighbours is which is the same for all outcomes, such as the one with fewer rows. It costs as much as
    the worst distribution with such losses, which has two outcomes, in the more expensive order
    (docs/theory/charging.md).

    >>> uneven, order = Asymmetric("0.1", "0.07"), Fraction(2)
    >>> uneven.epsilon, round(float(uneven.log_moment_up(order) / Pure("0.1").log_moment_up(order)), 2)
    (Fraction(1, 10), 0.71)
    """

    reverse: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, reverse=per_call(self.reverse))

    @property
    def epsilon(self) -> Fraction:
        return max(Fraction(self.bound), Fraction(self.reverse))

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return hit_prices.uneven_laws(Fraction(self.bound), Fraction(self.reverse))

    def log_moment_up(self, order: Fraction) -> Fraction:
        bound, reverse = Fraction(self.bound), Fraction(self.reverse)
        return max(two_point_log_moment_up(order, bound, reverse), two_point_log_moment_up(order, reverse, bound))


@dataclass(frozen=True)
class Concentrated(_Bounded):
    """An epsilon-DP computation that is rho-zCDP as well; each filter charges the least of what it knows.

    >>> both, order = Concentrated(bound="0.2", rho="0.001"), Fraction(10)
    >>> both.epsilon, both.log_moment_up(order) == order * (order - 1) / 1000 < Pure("0.2").log_moment_up(order)
    (Fraction(1, 5), True)
    """

    rho: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self, rho=positive)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return min(order * (order - 1) * Fraction(self.rho), randomized_response_log_moment_up(order, self.epsilon))


@dataclass(frozen=True)
class Approximate(_Bounded):
    """An (epsilon, delta)-DP computation: `Pure(epsilon)` outside a failure whose probability adds up."""

    failure: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, failure=probability(self.failure, "delta"))

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)


@dataclass(frozen=True)
class Failing(Event):
    """Another event, but for a failure whose probability adds up and is paid hit or miss.

    Guarantee needed: both neighbours' distributions are mixtures, with the same weight 1 - failure or more, of
    distributions that the event stands for and of any others (docs/theory/charging.md, deltas).

    >>> pair = Failing(TwiceCall("0.02"), "2e-9")
    >>> pair.hit_price_up(Fraction(15)) == TwiceCall("0.02").hit_price_up(Fraction(15)), float(pair.delta)
    (True, 2e-09)
    """

    event: Event
    failure: Number

    def __post_init__(self) -> None:
        set_fields(self, failure=probability(self.failure, "delta"))

    @classmethod
    def of(cls, event: Event, failure: Fraction) -> Event:
        """The event itself where nothing fails."""
        return cls(event, failure) if failure else event

    @property
    def unfailing(self) -> Event:
        return self.event.unfailing

    @property
    def epsilon(self) -> Fraction | None:
        return self.event.epsilon

    @property
    def delta(self) -> Fraction:
        return self.event.delta + Fraction(self.failure)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return self.event.hit_price_up(order)

    def miss_price_up(self, order: Fraction) -> Fraction:
        return self.event.miss_price_up(order)

    @property
    def otherwise(self) -> str:
        return self.event.otherwise

    @property
    def listed(self) -> tuple[Fraction | None, Fraction | None]:
        return self.event.listed

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return self.event.menu_laws()

    def log_moment_up(self, order: Fraction) -> Fraction:
        return self.event.log_moment_up(order)


# Where chords of t^order are steeper than this, decimals lose them; no budget pays for what is left then.
_STEEP: Final = 20


@dataclass(frozen=True)
class ExPost(Event):
    """A loss known only afterwards: the published outcome is at most e^loss times likelier under a neighbour.

    Where `most` is fixed before the call and no loss can exceed it, a small loss costs much less at a Renyi order. Its
    cost is near the square of the loss instead of the loss. A loss of `most` costs what a `Pure(most)` does (this work,
    docs/theory/charging.md).

    No menu covers it: an outcome of a small loss may be almost certain, while no outcome of a call that is known to be
    as small beforehand can be.

    Errors: `InvalidParameter` for a loss below 0 or above `most`.

    >>> ExPost(0).log_moment_up(Fraction(20))
    Fraction(0, 1)
    >>> [round(float(ExPost("0.01", most).log_moment_up(Fraction(15))), 4) for most in (None, "0.02", "0.01")]
    [0.14, 0.013, 0.0105]
    """

    loss: Number
    most: Number | None = None

    def __post_init__(self) -> None:
        loss = exact(self.loss, "loss")
        if loss < 0:
            raise InvalidParameter("loss must not be negative")
        most = None if self.most is None else per_call(self.most)
        set_fields(self, loss=loss, most=most)
        if most is not None and loss > most:
            raise InvalidParameter("a loss is at most as large as was said before")

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.loss)

    @property
    def listed(self) -> tuple[None, Fraction]:
        return None, Fraction(1)

    def log_moment_up(self, order: Fraction) -> Fraction:
        """An upper bound from the chord of `t^order` between the least and the greatest likelihood ratio t."""
        loss, most = Fraction(self.loss), None if self.most is None else Fraction(self.most)
        if not loss or most is None or order * most > _STEEP:
            return (order - 1) * loss
        with precise():
            a, least, greatest = decimal(order), (-decimal(most)).exp(), decimal(most).exp()
            rise = (greatest**a - least**a) / (greatest - least)
            kept = least**a + rise * (1 - least)
            ends = (decimal(sign * loss).exp() for sign in (1, -1))
            return upper(max((end**a * kept / (least**a + rise * (end - least))).ln() for end in ends))


@dataclass(frozen=True)
class Repeated(Event):
    """One event several times, with independent coins.

    >>> Repeated(Pure("0.1"), 10).epsilon
    Fraction(1, 1)
    """

    event: Event
    times: int

    def __post_init__(self) -> None:
        whole(self.times, "times")

    @property
    def copies(self) -> tuple[Event, int]:
        event, times = self.event.copies
        return event, times * self.times

    @property
    def epsilon(self) -> Fraction | None:
        return None if self.event.epsilon is None else self.times * self.event.epsilon

    @property
    def delta(self) -> Fraction:
        return self.times * self.event.delta

    def log_moment_up(self, order: Fraction) -> Fraction:
        return self.times * self.event.log_moment_up(order)


@dataclass(frozen=True)
class Joint(Event):
    """Several events whose outcomes are published together, with independent coins.

    >>> Joint((Pure("0.1"), Pure("0.2"))).epsilon
    Fraction(3, 10)
    """

    events: tuple[Event, ...]

    @property
    def epsilon(self) -> Fraction | None:
        bounds = [event.epsilon for event in self.events]
        return None if None in bounds else sum((bound for bound in bounds if bound is not None), Fraction(0))

    @property
    def delta(self) -> Fraction:
        return sum((event.delta for event in self.events), Fraction(0))

    def log_moment_up(self, order: Fraction) -> Fraction:
        return sum((event.log_moment_up(order) for event in self.events), Fraction(0))


def two_point_log_moment_up(order: Fraction, up: Fraction, down: Fraction) -> Fraction:
    """The most at order a with all log-ratios from -down to up: those two alone, weighted so that ratios have mean 1.

    `ln(((1 - e^-down) e^(a up) + (e^up - 1) e^(-a down)) / (e^up - e^-down))`: the chord of the convex t^a.
    """
    if order * max(up, down) > LARGEST_EXPONENT:
        return (order - 1) * up
    with precise():
        a, u, d = decimal(order), decimal(up), decimal(down)
        high, low = u.exp(), (-d).exp()
        return upper((((1 - low) * (a * u).exp() + (high - 1) * (-a * d).exp()) / (high - low)).ln())


def randomized_response_log_moment_up(order: Fraction, epsilon: Fraction) -> Fraction:
    """`ln((e^(a eps) + e^((1-a) eps)) / (1 + e^eps))`, the most any epsilon-DP computation can have at order a."""
    if order * epsilon > LARGEST_EXPONENT:
        return (order - 1) * epsilon
    with precise():
        a, eps = decimal(order), decimal(epsilon)
        return upper((((a * eps).exp() + ((1 - a) * eps).exp()) / (1 + eps.exp())).ln())


# Events of additive noise, which at Renyi orders are cheaper than a pure event of the same epsilon.


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """Integer noise `P(k) ~ exp(-|k|/scale)` on an integer that changes by at most `sensitivity`.

    Its log-moment is below that of `Pure(sensitivity/scale)` as soon as the sensitivity exceeds one grid step:

    >>> from chary.accounting import Pure
    >>> event, order = DiscreteLaplace(scale=100, sensitivity=10), Fraction(8)
    >>> event.epsilon, event.log_moment_up(order) < Pure("0.1").log_moment_up(order)
    (Fraction(1, 10), True)
    """

    scale: Number
    sensitivity: int

    def __post_init__(self) -> None:
        checked(self, scale=positive, sensitivity=whole)

    @property
    def epsilon(self) -> Fraction:
        return self.sensitivity / Fraction(self.scale)

    def log_moment_up(self, order: Fraction) -> Fraction:
        """Closed form: with r = exp(-1/scale) and R = r^(2a-1), summing `P(k)^a P(k-D)^(1-a)` over the integers gives
        `(r^(D(1-a)) (1 + (1-r)R/(1-R)) + r^(Da) (r-R)/(1-R)) / (1+r)`; convex in D, so one coordinate is worst.
        """
        if order * self.epsilon > LARGEST_EXPONENT:
            return (order - 1) * self.epsilon
        with precise():
            a, step, shift = decimal(order), decimal(1 / Fraction(self.scale)), decimal(self.epsilon)
            r, tail = (-step).exp(), (-step * (2 * a - 1)).exp()
            rising = (shift * (a - 1)).exp() * (1 + (1 - r) * tail / (1 - tail))
            falling = (-shift * a).exp() * (r - tail) / (1 - tail)
            return upper(((rising + falling) / (1 + r)).ln())


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """A rho-zCDP computation, such as (discrete) Gaussian noise with `rho = sensitivity^2 / (2 sigma^2)`.

    >>> ZeroConcentrated("0.005").log_moment_up(Fraction(2))
    Fraction(1, 100)
    """

    rho: Number

    def __post_init__(self) -> None:
        checked(self, rho=positive)

    @property
    def epsilon(self) -> None:
        return None

    def log_moment_up(self, order: Fraction) -> Fraction:
        return order * (order - 1) * Fraction(self.rho)


# A call of which its author states the distributions: finitely many, of which those of all neighbours are mixtures
# (this work).

# As in `hit_prices`: where more than 20 digits cancel, the guard of 1e-30 would not cover what is left.
_LEAST: Final = Decimal("1e-20")
MOST_OUTCOMES: Final = 1000
_MOST_LAWS: Final = 1000

StatedLaw = tuple[tuple[Fraction, Fraction, bool], ...]


@dataclass(frozen=True)
class StatedLaws(Event):
    """A call whose pairs of distributions under two neighbours are all mixtures of finitely many pairs.

    Each pair lists the outcomes in one order: their probabilities under the one neighbour and under the other, in
    either order of the two. It also says whether the outcome is a hit, which it is in all pairs or in none. At a Renyi
    order and on the exact curve alike, no lower cost is valid for what is stated (docs/theory/charging.md, a menu of
    distributions). `failure` is a delta, paid hit or miss.

    Errors: `InvalidParameter` for probabilities that do not add up to 1 or that are 0 under one neighbour alone. Also
    for outcomes that hit in some pairs only, more than 1,000 of them, and none that hits.

    >>> third = Fraction(1, 3)
    >>> known = StatedLaws((((2 * third, third, False), (third, 2 * third, True)),))
    >>> float(known.epsilon)
    0.69314...
    """

    laws: tuple[StatedLaw, ...]
    failure: Number = 0

    def __post_init__(self) -> None:
        laws = tuple(
            tuple((exact(one, "a probability"), exact(other, "a probability"), bool(hit)) for one, other, hit in law)
            for law in self.laws
        )
        set_fields(self, laws=laws, failure=failing(self.failure))
        if not laws or len({tuple(hit for *_, hit in law) for law in laws}) > 1:
            raise InvalidParameter(
                "give pairs of distributions with the same outcomes, each of which hits in all pairs or in none"
            )
        if len(laws[0]) > MOST_OUTCOMES:
            raise InvalidParameter(f"give distributions of at most {MOST_OUTCOMES} outcomes")
        for law in laws:
            _check(law)

    @classmethod
    def of(cls, laws: Sequence[Sequence[Sequence[Number]]], hits: Sequence[bool], failure: Number = 0) -> "StatedLaws":
        """Pairs of lists of probabilities, and which outcomes hit."""
        if not all(len(pair) == 2 and all(len(law) == len(hits) for law in pair) for pair in laws):
            raise InvalidParameter("each pair has two lists of probabilities, as long as the list of outcomes")
        told = tuple(tuple(zip(*pair, hits, strict=True)) for pair in laws)
        return cls(told, failure)

    @cached_property
    def epsilon(self) -> Fraction:
        """The largest log-ratio of a probability, rounded up to 18 digits; at least 1e-15."""
        ratios = [max(one / other, other / one) for law in self.laws for one, other, _ in law if one]
        with precise():
            return max(Fraction(1, 10**15), rounded_up(decimal(max(ratios)).ln()))

    def twice(self) -> "StatedLaws":
        """The distributions of two published runs, which hit where they differ; which outcomes hit is forgotten.

        Two mixtures multiply to a mixture of products, and each distribution may stand in either order in both runs.

        Errors: `InvalidParameter` for more than 31 outcomes.
        """
        sides = [*self.laws, *(tuple((other, one, hit) for one, other, hit in law) for law in self.laws)]
        if len(self.laws[0]) ** 2 > MOST_OUTCOMES:
            raise InvalidParameter("two runs are paid by laws of at most 31 outcomes")
        told = tuple(
            tuple(
                (one * also, other * too, i != j)
                for i, (one, other, _) in enumerate(first)
                for j, (also, too, _) in enumerate(second)
            )
            for first in self.laws
            for second in sides
        )
        return StatedLaws(told, 2 * Fraction(self.failure))

    def unanimous(self, runs: int) -> "StatedLaws":
        """The distributions of several runs that publish only what all agree on; all else is one outcome, the hit.

        Mixtures multiply as in `twice`, and disagreements, which all hit, may be merged.

        Errors: `InvalidParameter` where more than 1,000 distributions follow, and for a distribution that cannot
        disagree.
        """
        sides = [*self.laws, *(tuple((other, one, hit) for one, other, hit in law) for law in self.laws)]
        if math.comb(len(sides) + runs - 1, runs) > _MOST_LAWS:
            raise InvalidParameter("too many distributions follow from this number of runs: take fewer runs")
        told = []
        for chosen in combinations_with_replacement(sides, runs):
            parts = list(zip(*chosen, strict=True))
            ones, others = ([math.prod(each[side] for each in run) for run in parts] for side in (0, 1))
            free = zip(ones, others, [False] * len(parts), strict=True)
            told.append((*free, (1 - sum(ones), 1 - sum(others), True)))
        return StatedLaws(tuple(told), runs * Fraction(self.failure))

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    @property
    def released(self) -> bool:
        """Whether every outcome is a hit, so that the call is a release."""
        return all(hit for *_, hit in self.laws[0])

    @cached_property
    def most_q(self) -> Fraction:
        """No q-target by these distributions has a larger q. A part that both distributions have in common misses at
        most as often as the rarer of them does, outcome by outcome. What is left hits with the rest.

        >>> third = Fraction(1, 3)
        >>> StatedLaws((((2 * third, third, False), (third, 2 * third, True)),)).most_q
        Fraction(1, 2)
        """
        return min(map(_most_q, self.laws))

    @property
    def listed(self) -> tuple[Fraction, Fraction | None]:
        missing = sum(not hit for *_, hit in self.laws[0])
        return self.epsilon, None if missing == 1 else Fraction(1)

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        with precise():
            return [
                tuple(hit_prices.Chances(decimal(one), decimal(other), hit) for one, other, hit in law if one)
                for law in self.laws
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
    def _both(self) -> list[hit_prices.MenuLaw]:
        """The distributions in either order of the neighbours."""
        laws = self.menu_laws()
        return laws + [tuple(hit_prices.Chances(told.second, told.first, told.hit) for told in law) for law in laws]


def best_q(laws: Sequence[Sequence[Sequence[Number]]], target: Sequence[int]) -> Fraction:
    """The largest q for which outcomes at these places are a q-target, for neighbours that are mixtures of `laws`.

    Each of the `laws` is a pair of lists of probabilities, exact rationals that add up to 1; either may be the first.
    Errors: `InvalidParameter` for what is no distribution, for places that are none, and for a target that no
    distribution hits. Source: theory 1.2 ([TCT] Definition 2.1).

    >>> laws = [(["2/3", "1/6", "1/6"], ["1/3", "1/3", "1/3"])]
    >>> best_q(laws, [1, 2]), best_q(laws, [2])
    (Fraction(1, 2), Fraction(1, 3))
    """
    return _aimed(laws, target).most_q


def hit_price(laws: Sequence[Sequence[Sequence[Number]]], target: Sequence[int], order: Number) -> Fraction | None:
    """What a hit of these places costs at a Renyi order where misses are free, rounded up; see `best_q`.

    A log-moment, as filters charge it; None where no cost is large enough, such as where all places hit. The order is
    above 1.

    >>> laws = [(["11/20", "1/4", "1/5"], ["9/20", "3/10", "1/4"])]
    >>> round(float(hit_price(laws, [1, 2], 2)), 4), hit_price(laws, [0, 1, 2], 2)
    (0.1167, None)
    """
    if exact(order, "order") <= 1:
        raise InvalidParameter("a Renyi order is above 1")
    return _aimed(laws, target).hit_price_up(exact(order, "order"))


def _aimed(laws: Sequence[Sequence[Sequence[Number]]], target: Sequence[int]) -> StatedLaws:
    many = len(laws[0][0]) if laws and len(laws[0]) else 0
    if not all(type(place) is int and 0 <= place < many for place in target):
        raise InvalidParameter(f"a target is a list of places of outcomes, each from 0 to {many - 1}")
    return StatedLaws.of(laws, [place in target for place in range(many)])


def _most_q(law: StatedLaw) -> Fraction:
    none = Fraction(0)
    one, other = (sum((told[side] for told in law if told[2]), none) for side in (0, 1))
    common = sum((min(first, second) for first, second, hit in law if not hit), none)
    return min(one, other) / (1 - common)


def _moments(law: hit_prices.MenuLaw, order: Decimal) -> tuple[Decimal, Decimal]:
    """The moments at this order of the outcomes that hit, and of those that miss."""
    found = {True: Decimal(0), False: Decimal(0)}
    for told in law:
        found[told.hit] += told.second * (order * (told.first / told.second).ln()).exp()
    return found[True], found[False]


def _check(law: StatedLaw) -> None:
    first, second = ([told[side] for told in law] for side in (0, 1))
    if any(sum(chances) != 1 or min(chances) < 0 for chances in (first, second)):
        raise InvalidParameter(
            "the probabilities of a distribution are at least 0 and add up to 1 exactly: give them as rationals"
        )
    if any((one == 0) != (other == 0) for one, other in zip(first, second, strict=True)):
        raise InvalidParameter("an outcome that only one neighbour can have is no epsilon: state it as a delta")
    if not any(hit and one for one, _, hit in law):
        raise InvalidParameter("each pair of distributions needs an outcome that hits")


# Events that are paid when their target is hit: a miss is free under a charging filter (theory 1.2-1.4, 4).
#
# Like all events they are stored in ledgers: a class here is never removed and never changes its meaning.


@dataclass(frozen=True)
class Targeted(_Bounded):
    """An epsilon-DP call with a target (theory 1.2): `q=None` is NotPrior, otherwise a q-target.

    Under a charging filter only outcomes in the target are paid. `log_moment_up` is the cost of the same call as an
    ordinary release. The call is (epsilon, failure)-DP if `failure` is not 0; that delta is paid hit or miss.
    """

    q: Number | None = None
    failure: Number = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, failure=failing(self.failure))
        if self.q is not None:
            # One that follows from a distribution may be smaller than any that can be written.
            q = self.q if isinstance(self.q, Fraction) and self.q > 0 else positive(self.q, "q")
            if q > 1:
                raise InvalidParameter("q must be at most 1")
            set_fields(self, q=q)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    @property
    def target(self) -> Fraction | None:
        """The q of a q-target; None for NotPrior."""
        return None if self.q is None else Fraction(self.q)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.hit_price_up(self, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction | None]:
        return self.epsilon, self.target

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return _hit_laws(self.epsilon, self.target)


@dataclass(frozen=True)
class Extendable(_Bounded):
    """An epsilon-DP outcome that is withheld and published in parts: its target may be extended again and again.

    A hit is the moment it is published, once at most. It costs what a hit of one NotPrior call of its epsilon costs,
    however often the target was extended. That holds at a Renyi order and on the exact curve alike (this work,
    docs/theory/charging.md). The published analysis takes each extension for a call of 2 epsilon ([TCT] Algorithm 2).
    As an ordinary release it is epsilon-DP.

    >>> held, once, order = Extendable("0.02"), Targeted("0.02"), Fraction(10)
    >>> held.hit_price_up(order) == once.hit_price_up(order), held.listed == once.listed
    (True, True)
    """

    failure: Number = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, failure=failing(self.failure))

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.hit_price_up(Targeted(self.bound), order)

    @property
    def listed(self) -> tuple[Fraction, None]:
        return self.epsilon, None

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return _hit_laws(self.epsilon, None)


@dataclass(frozen=True)
class BoundaryCall(_Bounded):
    """An epsilon-DP mechanism inside the boundary wrapper; a hit is the boundary ([TCT] Algorithm 4).

    `outcomes` is how many the mechanism can have, None for any number. Its hit cost comes from the wrapper's own
    distribution, which is several times cheaper than that of the q-target, as which a menu lists it.

    >>> order, call = Fraction(15), BoundaryCall("0.02")
    >>> call.hit_price_up(order) < Targeted(*call.listed).hit_price_up(order)
    True
    """

    outcomes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        work_out(self.epsilon)  # refuses what the wrapper cannot hold

    @property
    def epsilon(self) -> Fraction:
        return hit_prices.boundary_epsilon_up(self.bound, outcomes=self.outcomes)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.boundary_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, hit_prices.boundary_q_down(self.bound, outcomes=self.outcomes)

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return hit_prices.boundary_laws(Fraction(self.bound), tests=self.outcomes == 2)


@dataclass(frozen=True)
class BoundedRange(_Bounded):
    """An epsilon-DP choice whose log-likelihood ratios lie in an interval of length epsilon, always charged.

    The exponential mechanism is one (Durfee, Rogers 2019); permute-and-flip is not. It is (epsilon^2/8)-zCDP.

    >>> order, choice = Fraction(15), BoundedRange("0.02")
    >>> 3 * choice.log_moment_up(order) < Pure("0.02").log_moment_up(order), choice.hit_price_up(order)
    (True, None)
    """

    def log_moment_up(self, order: Fraction) -> Fraction:
        narrow = order * (order - 1) * self.epsilon**2 / 8
        return min(narrow, randomized_response_log_moment_up(order, self.epsilon))


@dataclass(frozen=True)
class NarrowChoice(BoundedRange):
    """Such a choice with a target: a hit is not the prior, which costs less than for any epsilon-DP call.

    >>> order, choice = Fraction(15), NarrowChoice("0.02")
    >>> 2 * choice.hit_price_up(order) < Targeted("0.02").hit_price_up(order)
    True
    """

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.narrow_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, None]:
        return self.epsilon, None

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return hit_prices.narrow_laws(self.epsilon)


@dataclass(frozen=True)
class TwiceCall(_Bounded):
    """An epsilon-DP computation run twice and published twice; a hit is that the two outcomes differ.

    >>> TwiceCall("0.02").epsilon, TwiceCall("0.02").hit_price_up(Fraction(15)) < 1
    (Fraction(1, 25), True)
    """

    @property
    def epsilon(self) -> Fraction:
        return 2 * Fraction(self.bound)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.twice_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, hit_prices.twice_q_down(self.bound)

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return hit_prices.twice_laws(Fraction(self.bound))

    def log_moment_up(self, order: Fraction) -> Fraction:
        return 2 * randomized_response_log_moment_up(order, Fraction(self.bound))


@dataclass(frozen=True)
class UnanimousCall(_Bounded):
    """An epsilon-DP computation run several times; only what all runs agree on is published, and a hit is "boundary".

    >>> UnanimousCall("0.02", 2).hit_price_up(Fraction(15)) == TwiceCall("0.02").hit_price_up(Fraction(15))
    True
    """

    runs: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.runs, "runs", least=2)

    @property
    def epsilon(self) -> Fraction:
        return self.runs * Fraction(self.bound)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_prices.unanimous_price_up(self.bound, self.runs, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, hit_prices.unanimous_q_down(self.bound, self.runs)

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        return hit_prices.unanimous_laws(Fraction(self.bound), self.runs)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return self.runs * randomized_response_log_moment_up(order, Fraction(self.bound))


@dataclass(frozen=True)
class BestOf(Event):
    """What it costs to pay, of several targets counted side by side, only for the one that was hit least.

    The moment of the sum of the targets' supermartingales is at most `targets`. So the cost is its logarithm, paid
    once; on a privacy curve it is delta times `targets` ([TCT] Lemma 2.7).

    >>> float(BestOf(2).log_moment_up(Fraction(20)))
    0.693147...
    """

    targets: int

    def __post_init__(self) -> None:
        whole(self.targets, "targets")

    @property
    def epsilon(self) -> None:
        return None

    def menu_laws(self) -> list[hit_prices.MenuLaw]:
        # Each target is an analyst of its own, who gets all that follows: not a distribution, but that many at once.
        return [(hit_prices.Chances(Decimal(self.targets), Decimal(self.targets), hit=True),)]

    def log_moment_up(self, order: Fraction) -> Fraction:
        with precise():
            return upper(decimal(Fraction(self.targets)).ln())


def _hit_laws(epsilon: Fraction, q: Fraction | None) -> list[hit_prices.MenuLaw]:
    if q is None or q == 1:
        return hit_prices.response_laws(epsilon, released=q == 1)
    return hit_prices.target_laws(epsilon, q)
