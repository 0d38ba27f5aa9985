"""Quantiles: order statistics by the exponential mechanism, grids, and guards against ties."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np

from chary import noise
from chary.accounting import Pure
from chary.accounting.accuracy import RankChoice, halvings, rank_excess_up
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.mechanisms.choices import InverseSensitivity, PermuteAndFlip, Stretches
from chary.numbers import Number, checked, optional, per_call, positive, probability, set_fields, whole, work_out

# Equal values are separated by coins of their own, which are thrown when they are first needed.

_WORD: Final = 64
# Eight megabytes of words at a time.
_BLOCK: Final = 2**20


class Coins:
    """All that is drawn in a choice among places, from a source of random words."""

    def __init__(self, source: noise.Source) -> None:
        self._source = source

    def place(self, chooser: InverseSensitivity, stretches: Stretches) -> int:
        """A place, by the distribution of the chooser."""
        return chooser.step(stretches, self._source)

    def accepts(self, chooser: InverseSensitivity, more: int) -> bool:
        """True with probability `exp(-unit more)`: the ratio of two places whose distances differ by `more`."""
        return not more or bool(noise.bernoulli(self._source, noise.Enclosure.exponential(chooser.unit * more), 1)[0])

    def half(self, count: int) -> int:
        """How many of this many fair coins fall on one side: exactly binomial, a bit a coin."""
        words, rest = divmod(count, _WORD)
        sides = 0
        for first in range(0, words, _BLOCK):
            sides += int(np.bitwise_count(self._source.words(min(_BLOCK, words - first), _WORD)).sum(dtype=np.int64))
        if rest:
            sides += (int(self._source.words(1, _WORD)[0]) >> _WORD - rest).bit_count()
        return sides


class Scattered:
    """Values on a grid `2**bits` times as fine as their own, each at a random place of its old one. Secret.

    Guarantee: the distribution is that of coins thrown for each value at once. Each value of an interval of two equal
    halves is in the first one by a fair coin of its own, so how many are is binomial. Given that number both halves are
    scattered alike, whatever the other does. Numbers are drawn when they are first asked for, and remembered: all
    answers are of one and the same scattering. So what is never asked costs nothing, and equal values a bit each.
    """

    def __init__(self, places: Integers, counts: Integers, points: int, bits: int, coins: Coins) -> None:
        """Values as in `Order`; no coins are thrown yet."""
        self._places, self._bits, self._coins = places, bits, coins
        self._upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._halves: dict[tuple[int, int], int] = {}
        self.points = points << bits

    def below(self, place: int) -> int:
        """How many values are below a fine place."""
        old, rest = place >> self._bits, place & ((1 << self._bits) - 1)
        at = int(np.searchsorted(self._places, old))
        found = int(self._upto[at])
        if rest and at < self._places.size and self._places[at] == old:
            found += self._within(at, rest)
        return found

    def around(self, ranks: Any) -> list[int]:
        """Fine places, at edges of old ones, between which the values of these ranks are."""
        if not self._places.size:
            return []
        at = np.clip(np.searchsorted(self._upto, ranks, side="right") - 1, 0, self._places.size - 1)
        old = self._places[np.unique(at)]
        found: list[int] = (np.concatenate([old, old + 1]) << self._bits).tolist()
        return found

    def _within(self, at: int, rest: int) -> int:
        """How many of the equal values at `at` are on the first `rest` fine places of their old one."""
        count, found, node = int(self._upto[at + 1] - self._upto[at]), 0, 1
        for bit in reversed(range(self._bits)):
            first = self._first_half(at, node, count)
            node *= 2
            if rest >> bit & 1:
                found, count, node = found + first, count - first, node + 1
            else:
                count = first
            if not rest & ((1 << bit) - 1):
                break
        return found

    def _first_half(self, at: int, node: int, count: int) -> int:
        if (at, node) not in self._halves:
            self._halves[at, node] = self._coins.half(count)
        return self._halves[at, node]

    def __repr__(self) -> str:
        return "Scattered(<secret>)"


# A choice among the places of a grid, of which only those are looked at that are likely.


class Distances(Protocol):
    """Distances of places that grow with the values below a place, and with those above it."""

    def of(self, below: Integers, equal: Integers, size: int) -> Integers:
        """The distances of places with this many values below and on them, of `size` in all."""
        ...

    def wanted(self, size: int) -> int:
        """How many values are below a place of distance 0."""
        ...


@dataclass(frozen=True)
class Stretch:
    """The fine places from `first` to `last`, the values there, and `more` values, a public number, on the last."""

    values: Scattered
    first: int
    last: int
    more: int = 0

    @property
    def size(self) -> int:
        """How many values there are in all; secret."""
        return self.upto(self.last + 1)

    def upto(self, place: int) -> int:
        """How many of them are below a place."""
        found = self.values.below(place) - self.values.below(self.first)
        return found + self.more if place > self.last else found

    def brackets(self, wanted: int) -> list[int]:
        """Places that divide the part, ever closer to where this many values are below."""
        base, steps = self.values.below(self.first), 1 << np.arange(max(1, self.size.bit_length()))
        around = self.values.around(base + wanted + np.concatenate([-steps[::-1], [0], steps]))
        inside = {edge for edge in around if self.first < edge <= self.last} | {self.first, self.last, self.last + 1}
        return sorted({*inside, *self._halvings(sorted(inside), wanted)})

    def _halvings(self, edges: list[int], wanted: int) -> Iterator[int]:
        low, high = next((pair for pair in pairwise(edges) if self.upto(pair[1]) > wanted), (self.last, self.last + 1))
        while high - low > 1:
            middle = (low + high) // 2
            yield middle
            low, high = (low, middle) if self.upto(middle) > wanted else (middle, high)


def choose_place(chooser: InverseSensitivity, distances: Distances, part: Stretch, coins: Coins) -> int:
    """A place of the part, counted from its first, by the distribution of the chooser over all their distances.

    The part is divided into intervals. A place within one has at least its values below the interval below it, and at
    most those above the interval above it. So its distance is at least that of all the interval's values on one place.
    A place is proposed as if that were its distance, and taken with the probability with which its own distance makes
    it less likely. Else the interval is divided there, and the next one is proposed.

    Guarantee: exactly the distribution of looking at all places. Given the values, each proposal ends with place t with
    a probability of `exp(-unit D(t))` times what does not depend on t; so it does whatever was refused before. Coins of
    the values that were thrown meanwhile are thrown once, by a distribution that does not depend on who asks
    (`Scattered`). An interval of one place, or without values, is never refused; so it ends.
    """
    size = part.size
    edges = part.brackets(distances.wanted(size))
    ranks = [part.upto(edge) for edge in edges]
    while True:
        starts, below = np.array(edges, dtype=np.int64), np.array(ranks, dtype=np.int64)
        least = distances.of(below[:-1], np.diff(below), size)
        found = part.first + coins.place(chooser, Stretches(starts[:-1] - part.first, np.diff(starts), least))
        at = int(np.searchsorted(starts, found, side="right")) - 1
        mine, after = part.upto(found), part.upto(found + 1)
        own = distances.of(np.array([mine]), np.array([after - mine]), size)
        if coins.accepts(chooser, int(own[0] - least[at])):
            return found - part.first
        _divide(edges, ranks, at, ((found, mine), (found + 1, after)))


def _divide(edges: list[int], ranks: list[int], at: int, where: tuple[tuple[int, int], ...]) -> None:
    for place, rank in reversed(where):
        if edges[at] < place < edges[at + 1]:
            edges.insert(at + 1, place)
            ranks.insert(at + 1, rank)


# Quantiles on a public grid by inverse sensitivity: one of them, or several by halving the data again and again.

# Ranks are multiplied by the denominator in int64: a million leaves room for 9e12 values.
MOST_PARTS: Final = 10**6
# 12 of the 16 bits of a word: equal values share a place of 4096 with few others, and a grid of 2**41 places stays
# within the 2**53 outcomes that are counted exactly.
DITHER_BITS: Final = 12
# Permute-and-flip throws a coin for each place: a millisecond for that many.
MOST_COINS: Final = 2**16
# What is put beyond the values has that many distances at most, each a weight of the distribution, and that many
# values.
MOST_LEVELS: Final = 2**24
MOST_BEYOND: Final = 2**53
# Products of counts and denominators below it, and their differences, do not wrap around in int64.
_WRAPS: Final = 2**62


@dataclass(frozen=True)
class Order:
    """Grid places that occur, ascending, and how often each does, on a grid of `points` places. Secret."""

    places: Integers
    counts: Integers
    points: int

    @classmethod
    def drawn(cls, places: Integers, units: Integers, kept: int, points: int, source: noise.Source) -> "Order":
        """`kept` values of each unit, or all if it has no more, by the words of the source: one for each value.

        `units` says which values, which lie side by side, are of one unit. What is kept of a unit depends on its own
        values and words alone.
        """
        drawn = np.lexsort((source.words(places.size, 64), units))
        starts = np.flatnonzero(np.diff(units, prepend=-1))
        ranks = np.arange(places.size) - np.repeat(starts, np.diff(starts, append=places.size))
        found, counts = np.unique(places[drawn[ranks < kept]], return_counts=True)
        return cls(found, counts.astype(np.int64), points)

    def scattered(self, bits: int, coins: Coins) -> Scattered:
        """The values on a grid `2**bits` times as fine, each at a random fine place of its place.

        So equal values are separated by their own coins alone.
        """
        return Scattered(self.places, self.counts, self.points, bits, coins)

    def topped(self, more: int) -> "Order":
        """The values and this many more, a public number, on the highest place."""
        if not more:
            return self
        top = self.points - 1
        below = int(np.searchsorted(self.places, top))
        there = int(self.counts[below:].sum())
        return Order(np.append(self.places[:below], top), np.append(self.counts[:below], there + more), self.points)

    def mirrored(self) -> "Order":
        """The values on the reversed grid: the highest place becomes 0."""
        return Order(self.points - 1 - self.places[::-1], self.counts[::-1], self.points)

    def __repr__(self) -> str:
        return "Order(<secret>)"


@dataclass(frozen=True)
class RankDistance:
    """How far each place is from being a q-quantile, in privacy units of at most `moves` values each.

    With b values below t and a above it, of n, t is a q-quantile if b <= qn and a <= (1-q)n. The distance is

        D(t) = max(0, ceil((b - qn) / c), ceil((a - (1-q)n) / c)),     c = moves * (1 if replace else max(q, 1-q)).

    Guarantee: D changes by at most 1 between neighbours. Adding or removing a value changes `b - qn` by q or 1-q, as it
    does `a - (1-q)n`; moving one changes them by at most 1. Some place has D = 0, an order statistic. With `replace` D
    is the number of values that must move. Without, it is the number that must be added or removed, or one less where t
    does not occur (docs/theory/choices.md).

    Errors: `InvalidParameter` unless 0 < q < 1, a multiple of one part in at most a million.

    >>> order = Order(np.array([2, 5, 6]), np.array([1, 2, 1]), 10)
    >>> RankDistance("0.5", replace=True).stretches(order).distances
    array([2, 1, 1, 0, 1, 2])
    """

    q: Number
    replace: bool
    moves: int = 1

    def __post_init__(self) -> None:
        set_fields(self, q=checked_quantile(self.q), moves=whole(self.moves, "moves"))

    @property
    def change(self) -> Fraction:
        """c: how much one unit changes a rank's excess at most."""
        q = Fraction(self.q)
        return self.moves * (Fraction(1) if self.replace else max(q, 1 - q))

    def stretches(self, order: Order) -> Stretches:
        """The distances of all places of the grid: constant at each place that occurs, and between them."""
        starts, below, equal = _ranks(order)
        widths = np.diff(starts, append=order.points)
        kept = widths > 0
        return Stretches(starts[kept], widths[kept], self.of(below[kept], equal[kept], int(order.counts.sum())))

    def wanted(self, size: int) -> int:
        """How many of this many values are below a place of distance 0: this many at most."""
        return int(Fraction(self.q) * size)

    def of(self, below: Integers, equal: Integers, size: int) -> Integers:
        """The distances of places with this many values below them and on them, of `size` in all."""
        q = Fraction(self.q)
        part, whole_, step = q.numerator, q.denominator, int(self.change * q.denominator)
        if whole_ * size >= _WRAPS:  # where int64 would wrap around one value more would move a distance by anything
            below, equal = below.astype(object), equal.astype(object)
        excess_below = whole_ * below - part * size
        excess_above = whole_ * (size - below - equal) - (whole_ - part) * size
        distances: Integers = np.maximum(0, -(-np.maximum(excess_below, excess_above) // step)).astype(np.int64)
        return distances


@dataclass(frozen=True)
class HalvedQuantiles:
    """Several quantiles of one column; a single one is the inverse-sensitivity mechanism itself.

    With more than one, values are told apart by `Order.scattered`, and the middle quantile is chosen first. Values up
    to it go on to the quantiles before it, the others to those after it, and so on. A unit's value lies in one part at
    each of the `rounds`, and each round costs `epsilon / rounds` once. Under "replace" a value may leave one part and
    enter another, so after the first round each part gets half of that, with distances for adding and removing. Units
    of many values may lie in many parts: then every quantile is chosen from all values, and is a round.

    With `beyond` each choice is made as if some more values, a public number, lay on the highest place of its part.
    There are enough of them that, but for this probability, every one of the answers is at or above its quantile,
    whatever the data.

    With `flip` each choice from all values on a grid of at most 2^16 places is by permute-and-flip. It is never farther
    off than the exponential mechanism of the same distances, and the less so the coarser the grid is (McKenna, Sheldon
    2020). A place of distance D is among those it may take with probability exp(-epsilon D/2). One of distance 0 always
    is, so all rank errors that are promised hold for it too. It has no zCDP of its own.

    Guarantee: `Pure(epsilon)`; also (epsilon^2 / (8 rounds))-zCDP without `flip`, unless the grid has two places only.

    Errors: `InvalidParameter` for quantiles that do not increase strictly between 0 and 1, or that are no multiples of
    one part in at most a million.

    >>> many = HalvedQuantiles(("0.255", "0.505", "0.755"), epsilon=1, replace=False)
    >>> many.rounds, many.event()
    (2, Pure(bound=Fraction(1, 1)))
    >>> many.step(Order(np.arange(100), np.full(100, 1000), 101), noise.Seeded(1))
    [25, 50, 75]
    """

    at: tuple[Number, ...]
    epsilon: Number
    replace: bool
    moves: int = 1
    beyond: Number | None = None
    flip: bool = False

    def __post_init__(self) -> None:
        quantiles = tuple(checked_quantile(q) for q in self.at)
        set_fields(self, at=quantiles, epsilon=per_call(self.epsilon))
        if not quantiles or any(low >= high for low, high in pairwise(quantiles)):
            raise InvalidParameter("quantiles must increase, such as [0.25, 0.5, 0.75]")
        if lcm(*(q.denominator for q in quantiles)) > MOST_PARTS:
            raise InvalidParameter("quantiles must be multiples of one part in at most a million")
        checked(self, moves=whole, beyond=optional(probability))

    @property
    def answers(self) -> Self:
        """The quantiles themselves: here there are no guards."""
        return self

    @property
    def rounds(self) -> int:
        """How many choices any one value takes part in."""
        return len(self.at) if self.moves > 1 else len(self.at).bit_length()

    def narrow(self, points: int) -> bool:
        """Whether the choice is between two outcomes, where the 1/2 is dropped and no zCDP bound is better."""
        return len(self.at) == 1 and points == 2

    def event(self) -> Pure:
        """What all of them together may reveal."""
        return Pure(self.epsilon)

    def step(self, order: Order, source: noise.Source) -> list[int]:
        """The chosen grid places, ascending."""
        coins, share = Coins(source), positive(self.epsilon, "epsilon") / self.rounds
        if len(self.at) > 1 and self.moves == 1:
            values = order.scattered(DITHER_BITS, coins)
            return [place >> DITHER_BITS for place in self.halved(values, share, coins)]
        distances = [RankDistance(q, self.replace, self.moves) for q in self.at]
        return sorted(self._one(order, distance, share, source) for distance in distances)

    def grid(self, points: int) -> int:
        """How many places are chosen from, for a grid of this many."""
        return points << DITHER_BITS if len(self.at) > 1 and self.moves == 1 else points

    def _one(self, order: Order, distance: RankDistance, share: Fraction, source: noise.Source) -> int:
        """One choice from all values."""
        points, more, coins = order.points, self.margin(distance, share, order.points), Coins(source)
        if self.flip and 2 < points <= MOST_COINS:
            stretches = distance.stretches(order.topped(more))
            return PermuteAndFlip(share, 1).step(-np.repeat(stretches.distances, stretches.widths), source)
        chooser = InverseSensitivity(share, whole=self.narrow(points))
        return choose_place(chooser, distance, Stretch(order.scattered(0, coins), 0, points - 1, more), coins)

    def law(self, order: Order) -> noise.FiniteLaw:
        """The exact distribution of the place of a quantile that is alone. It depends on data."""
        (q,), points = self.at, order.points
        share, stretches = positive(self.epsilon, "epsilon"), RankDistance(q, self.replace, self.moves).stretches(order)
        distances = np.repeat(stretches.distances, stretches.widths)
        if self.flip and 2 < points <= MOST_COINS:
            return PermuteAndFlip(share, 1).law(-distances)
        return noise.ExponentialLaw(distances, InverseSensitivity(share, whole=self.narrow(points)).unit)

    def margin(self, distance: RankDistance, share: Fraction, points: int) -> int:
        """How many values are put on the highest place before a choice of `share` among `points` places.

        `InvalidParameter` for more than can be counted.
        """
        if self.beyond is None:
            return 0
        each = Fraction(self.beyond) / len(self.at)
        excess = rank_excess_up(epsilon=share, points=points, beta=each, change=distance.change)
        more = int(excess // Fraction(distance.q)) + 1
        if excess > MOST_LEVELS * distance.change or more > MOST_BEYOND:
            raise InvalidParameter("so small an epsilon buys no interval of a quantile: give a larger epsilon=")
        return more

    def halved(self, values: Scattered, share: Fraction, coins: Coins) -> list[int]:
        """Choose in turn; `parts` holds the first and the last place of what each choice leaves below and above."""
        quantiles = tuple(Fraction(q) for q in self.at)
        found = [0] * len(quantiles)
        parts: dict[tuple[int | None, bool], tuple[int, int]] = {(None, False): (0, values.points - 1)}
        for choice in halvings(quantiles):
            first, last = parts[choice.parent, choice.parent is not None and choice.position > choice.parent]
            place = first - 1
            if first <= last:
                distance, own = self.choice(choice, share)
                part = Stretch(values, first, last, self.margin(distance, own, values.points))
                place = first + choose_place(InverseSensitivity(own), distance, part, coins)
            found[choice.position] = place
            parts[choice.position, False] = first, place
            parts[choice.position, True] = place + 1, last
        return found

    def choice(self, choice: RankChoice, share: Fraction) -> tuple[RankDistance, Fraction]:
        """The distances of one choice of the halving, and its epsilon."""
        later = self.replace and choice.depth > 0
        return RankDistance(choice.relative, self.replace and not later), share / 2 if later else share


def checked_quantile(q: Number) -> Fraction:
    """An exact number strictly between 0 and 1.

    >>> checked_quantile("1/3"), checked_quantile(0.25)
    (Fraction(1, 3), Fraction(1, 4))
    """
    found = probability(q, "a quantile")
    if found.denominator > MOST_PARTS:
        raise InvalidParameter("a quantile must be a multiple of one part in at most a million")
    return found


def _ranks(order: Order) -> tuple[Integers, Integers, Integers]:
    """For each place that occurs and each gap around it: the first place, how many values are below it, and on it."""
    size = order.places.size
    starts, below, equal = (np.zeros(2 * size + 1, dtype=np.int64) for _ in range(3))
    upto = np.cumsum(order.counts)
    starts[1::2], starts[2::2] = order.places, order.places + 1
    below[1::2], below[2::2] = upto - order.counts, upto
    equal[1::2] = order.counts
    return starts, below, equal


# Guards of quantiles: values certainly at or below, and at or above, the quantiles between them.


class Guarded(NamedTuple):
    """The chosen grid places, ascending, and for each a place below and one above."""

    places: list[int]
    low: list[int]
    high: list[int]


@dataclass(frozen=True)
class GuardedQuantiles:
    """Quantiles with an interval for each, by three halvings of a third of epsilon: answers, upper and lower guards.

    An upper guard is the quantile of the values and `p` more on the highest place. It is chosen with rank error at most
    R but for a probability beta, so `a - (1-q)n <= R - qp` for the number a of values above it. With `qp > R` that is
    negative, and the guard is at or above every q-quantile. Nothing needs to be known of n. Lower guards are upper ones
    of the mirrored values. In a halving every choice keeps its promise within its own part, and values up to a guard go
    to the guards below it. So promises for parts are promises for all (docs/theory/choices.md, "Intervals").

    Guarantee: `Pure(epsilon)`, three times that of `HalvedQuantiles` with epsilon/3; `p` is public. But for a
    probability `beta` every q-quantile lies between its guards, for all q together, whatever the values are, if there
    are any.

    >>> import numpy as np
    >>> made = GuardedQuantiles(("0.5",), epsilon=1, replace=False, beta="0.05")
    >>> made.step(Order(np.arange(1000), np.full(1000, 10), 1001), noise.Seeded(1))
    Guarded(places=[499], low=[495], high=[503])
    >>> made.reaches(1001)
    [65]
    """

    at: tuple[Number, ...]
    epsilon: Number
    replace: bool
    beta: Number
    moves: int = 1
    flip: bool = False

    def __post_init__(self) -> None:
        checked(self, beta=probability)
        work_out(self.answers)  # refuses what are no quantiles

    @property
    def rounds(self) -> int:
        """How many choices any one value takes part in."""
        return 3 * self.answers.rounds

    @cached_property
    def answers(self) -> HalvedQuantiles:
        """The quantiles themselves."""
        return HalvedQuantiles(self.at, self._third, self.replace, self.moves, flip=self.flip)

    @cached_property
    def upper(self) -> HalvedQuantiles:
        """The guards above."""
        return HalvedQuantiles(self.at, self._third, self.replace, self.moves, self._side, self.flip)

    @cached_property
    def lower(self) -> HalvedQuantiles:
        """The guards below, of mirrored values."""
        mirrored = tuple(1 - Fraction(q) for q in reversed(self.answers.at))
        return HalvedQuantiles(mirrored, self._third, self.replace, self.moves, self._side, self.flip)

    def event(self) -> Pure:
        """What all of them together may reveal."""
        return Pure(self.epsilon)

    def step(self, order: Order, source: noise.Source) -> Guarded:
        """The chosen places; one that came out beyond its guard is itself the end."""
        found = self.answers.step(order, source)
        high = self.upper.step(order, source)
        mirrored = self.lower.step(order.mirrored(), source)
        low = [order.points - 1 - place for place in reversed(mirrored)]
        ends = list(zip(found, low, high, strict=True))
        return Guarded(found, [min(it, under) for it, under, _ in ends], [max(it, over) for it, _, over in ends])

    def reaches(self, points: int) -> list[int]:
        """For each quantile, by how many ranks its guards are farther off at most, but for the same probability.

        Values on one dithered place count as one, as they do for `rank_errors_up`.
        """
        above, below = _reaches(self.upper, points), _reaches(self.lower, points)
        return [max(pair) for pair in zip(above, reversed(below), strict=True)]

    @property
    def _third(self) -> Fraction:
        return positive(self.epsilon, "epsilon") / 3

    @property
    def _side(self) -> Fraction:
        return Fraction(self.beta) / 2


def _reaches(guards: HalvedQuantiles, points: int) -> list[int]:
    """A guard's rank is off by the part q of its margin and by as much again as its own error, and by its parent's."""
    quantiles, places = [Fraction(q) for q in guards.at], guards.grid(points)
    share = Fraction(guards.epsilon) / guards.rounds
    if guards.moves > 1 or len(quantiles) == 1:
        distances = [RankDistance(q, guards.replace, guards.moves) for q in quantiles]
        return [_reach(guards, distance, share, places) for distance in distances]
    found = [0] * len(quantiles)
    for choice in halvings(quantiles):
        parent = 0 if choice.parent is None else found[choice.parent]
        found[choice.position] = parent + _reach(guards, *guards.choice(choice, share), places)
    return found


def _reach(guards: HalvedQuantiles, distance: RankDistance, share: Fraction, places: int) -> int:
    return int(2 * Fraction(distance.q) * guards.margin(distance, share, places)) + 1
