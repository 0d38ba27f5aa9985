"""Private multiplicative weights: rounds, hard answers, and the accuracy they keep."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, get_args

import scipy

from chary.accounting import intervals, sparse_vector
from chary.accounting.events import Approximate, Event, Pure, ZeroConcentrated
from chary.accounting.numerics import (
    LARGEST_FLOAT,
    decimal,
    doubled,
    float_up,
    largest,
    least_size,
    precise,
    rounded_down,
    rounded_up,
)
from chary.errors import InvalidParameter
from chary.numbers import Number, checked, exact, failing, plain, positive, probability, set_fields, whole, work_out

# Multiplicative weights: how many hard answers there can be, the epsilon of a call that separates hard from easy, and
# the error of easy answers.

Update = Literal["projected", "refitted", "published"]
# A few float operations, upwards. Below 1e-100 the square of alpha would leave the floats of reports.
_UPWARDS = 1 + 1e-12
LEAST_ALPHA = Fraction(1, 10**100)
# That many questions, and that many rounds, have the same probability of an error each; later ones have smaller and
# smaller.
EQUAL_QUESTIONS: Final = 1024
EQUAL_ROUNDS: Final = 32


def check_update(update: str) -> None:
    """Refuse another rule."""
    if update not in get_args(Update):
        raise InvalidParameter("update must be 'projected', 'refitted' or 'published'")


def hard_answer_rates_up(
    *, alpha: Number, cells: int, update: Update = "projected", mixing: Number = 1
) -> tuple[Fraction, Fraction]:
    """The hard answers at most before the data grow, and those at most for each growth by the factor e.

    Rounded up to 18 digits, the same on every machine.

    >>> first, growth = hard_answer_rates_up(alpha="0.1", cells=1000, mixing="0.1")
    >>> round(first), round(growth)
    (3108, 4145)
    """
    check_update(update)
    if probability(alpha, "alpha") < LEAST_ALPHA:
        raise InvalidParameter("alpha must be at least 1e-100")
    each = probability(alpha, "alpha") ** 2 * (Fraction(1, 36) if update == "published" else Fraction(2, 9))
    part, known = positive(mixing, "mixing"), whole(cells, "cells", least=2)
    if part > 1:
        raise InvalidParameter("mixing is a part of a row, at most 1")
    with precise():
        first, row = (decimal(entropy).ln() / decimal(each) for entropy in (Fraction(known), known / part))
        return rounded_up(first), rounded_up(row)


def hard_answers_up(
    *,
    alpha: Number,
    cells: int,
    start: int,
    size: int | None = None,
    update: Update = "projected",
    mixing: Number = 1,
    warm: bool = False,
) -> float:
    """At most this many hard answers while all answers are within alpha/3, from `start` rows until there are `size`.

    The relative entropy of the rows from the histogram is ln N at most at first. It is ln(N/mixing) where the histogram
    is `warm`, that of other rows, of which the part `mixing` became uniform. It grows by ln(N/mixing)/t at most with
    the row t, and falls by alpha^2/36 (published) or 2 alpha^2/9 (projected, refitted) with each hard answer.

    >>> round(hard_answers_up(alpha="0.1", cells=1000, start=500, update="published"))
    24868
    >>> round(hard_answers_up(alpha="0.1", cells=1000, start=500, update="projected"))
    3108
    """
    before, grown = hard_answer_rates_up(alpha=alpha, cells=cells, update=update, mixing=mixing)
    first, last = whole(start, "start"), whole(start if size is None else size, "size")
    if last < first:
        raise InvalidParameter("a growing table does not shrink: size must be at least start")
    return (float(grown if warm else before) + float(grown) * math.log(last / first)) * _UPWARDS


def weights_epsilon(*, alpha: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The epsilon with which all of that many noisy answers are within alpha/3 of the truth, with `confidence`.

    Discrete Laplace noise on a count of `size` rows; rounded up.

    >>> round(weights_epsilon(alpha="0.1", size=5000, queries=1000), 4)
    0.0635
    """
    steps = math.floor(probability(alpha, "alpha") / 3 * whole(size, "size")) + 1
    missed = float(1 - probability(confidence, "confidence"))
    return math.log(2 * whole(queries, "queries") / missed) / steps * _UPWARDS


def weights_alpha(*, epsilon: Number, size: int, queries: int, confidence: Number = "0.95") -> float:
    """The accuracy that calls of this epsilon afford over this many queries; the inverse of `weights_epsilon`.

    >>> round(weights_alpha(epsilon="0.0635", size=5000, queries=1000), 3)
    0.1
    """
    missed = float(1 - probability(confidence, "confidence"))
    steps = math.log(2 * whole(queries, "queries") / missed) / float(positive(epsilon, "epsilon"))
    return 3 * steps / whole(size, "size") * _UPWARDS


def easy_chance(place: int, number: int | None = None, confidence: Number = "0.95") -> Fraction:
    """The probability of an error of the place-th question to a histogram, in its round of this number if it has any.

    Over all places, and all numbers with them, they add up to 1 - confidence at most, however many questions come. One
    half is shared by the first 1,024 questions (32 rounds), a quarter by as many more, an eighth by twice as many... So
    with that confidence no question at all is in error, for questions chosen adaptively and wherever one stops.

    >>> easy_chance(1) == easy_chance(1024) == Fraction(1, 20) / 2048, easy_chance(1025) == Fraction(1, 20) / 4096
    (True, True)
    """
    missed = (1 - probability(confidence, "confidence")) * _equal_at_first(place, EQUAL_QUESTIONS)
    return missed if number is None else missed * _equal_at_first(number, EQUAL_ROUNDS)


def _equal_at_first(place: int, first: int) -> Fraction:
    """The part of the place-th of any number: `1/(2 first)`, then `1/(4^b first)` up to `2^b first`."""
    doublings = (-(-whole(place, "place") // first) - 1).bit_length()
    return Fraction(1, 2 * first) if doublings == 0 else Fraction(1, 4**doublings * first)


def easy_error_up(tails: intervals.Tails, *, alpha: Number, size: int, chance: Number, rounding: Number = 0) -> float:
    """How far an easy answer is off at most, but for this probability, as a fraction of `size` rows.
    Above 1 it says nothing.

    Beyond 2 alpha/3 a count should be hard. One that is that many rows beyond is missed by the noise with the
    probability that `tails` says. So it is 2 alpha/3 and the least distance missed no oftener; with `rounding`, in
    rows, for sums that are answered in whole rows. It is alpha at most where the noise is within alpha/3.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> easy_error_up(LaplaceLaw(20), alpha="0.3", size=1000, chance=easy_chance(1))
    0.399
    """
    missed = tails.miss_reach_up(chance) + exact(rounding, "rounding")
    return float_up(2 * probability(alpha, "alpha") / 3 + missed / whole(size, "size"))


# Multiplicative weights by rounds of sparse vector: what each round may spend, so that all of them, for ever, fit.
#
# A round ends at its hit. How many may have begun by a size follows from the potential argument; the proofs are in
# docs/theory/pmw.md (theory chapter 6; [GROW] Algorithm 3, Theorems 14, 17, 22 and 24).

PUBLISHED_PURE, PUBLISHED_APPROXIMATE = 54, 1152
# At 60 digits a logarithm of 1 + 1/n, n below 1e20, keeps 40: figures move by 1e-40 to the safe side. A size that falls
# a digit short of opening its round is moved by 1e-36, which outweighs that.
_TINY, _PLENTY = Decimal("1e-40"), Decimal("1e-36")
# At 1e-10 the difference still has 50 digits and the expansion is above by 1e-43 of itself at most.
_FINE = Decimal("1e-10")
# For zCDP a round is two parts, tests and value, whose rho are half the squares of their shares of epsilon.
_ANSWERS: Final = sparse_vector.tuned_shares(1, monotone=False, values=True)[2]
_JOINT: Final = (1 - _ANSWERS) ** 2 + _ANSWERS**2


@dataclass(frozen=True)
class Allowance:
    """How many rounds may have begun: `floor(first + growth ln(size/start))`; a table that shrank keeps its start.

    Round k opens at the earliest at the (real) size `u_k = start exp((k - first)/growth)`, the first ones at the start.

    >>> allowed = Allowance(1000, Fraction(5), Fraction(10))
    >>> allowed.most(1000), allowed.most(2000), allowed.opens(6)
    (5, 11, 1106)
    """

    start: int
    first: Fraction
    growth: Fraction

    def most(self, size: int) -> int:
        """How many rounds may have begun, all together, when there are this many rows."""
        with precise():
            grown = decimal(Fraction(max(size, self.start), self.start)).ln() * (1 - _TINY)
            return math.floor(self.first + self.growth * Fraction(grown))

    def opens(self, number: int) -> int:
        """The least size at which that round may begin."""
        with precise():
            size = self.start / self.weight(number, Fraction(1))
            least = math.ceil(size)
            return least if self.most(least) >= number else math.ceil(size * (1 + _PLENTY))

    def weight(self, number: int, power: Fraction) -> Decimal:
        """`(u_k/start)^-power`; call inside `precise`."""
        return (-decimal(max(Fraction(0), number - self.first) * power / self.growth)).exp()

    def total(self, power: Fraction) -> Decimal:
        """The sum of the weights of all rounds, a geometric series: at most `first + growth/power`. Inside `precise`.

        >>> with precise():
        ...     float(Allowance(1000, Fraction(5), Fraction(10)).total(Fraction(1, 2)))
        24.504...
        """
        step, before = decimal(power / self.growth), math.floor(self.first)
        return before + self.weight(before + 1, power) * _series(step)


class WeightRounds(ABC):
    """Rounds 1, 2, ... of a sparse vector with one hit and a numeric answer, each with noise of its own.

    Guarantee: all rounds together are within `event`, whenever they begin, as long as not more have begun at any size
    than `allowance.most` says.
    """

    allowance: Allowance
    exponent: Number

    @property
    @abstractmethod
    def event(self) -> Event:
        """What all rounds together may reveal: the budget."""

    @abstractmethod
    def epsilon_down(self, number: int, size: int) -> Fraction:
        """The epsilon of a round that begins at this size, its numeric answer included."""

    @abstractmethod
    def noise_of(self, epsilon: Fraction) -> sparse_vector.SparseNoise:
        """The noise of a round of this epsilon, for counts that change by 1."""

    def noise(self, number: int, size: int) -> sparse_vector.SparseNoise:
        """The noise of that round; it stays what it was at the beginning of the round."""
        return self.noise_of(self.epsilon_down(number, size))

    @property
    def kept(self) -> Fraction:
        """`1 - exponent`: a round at s rows has an epsilon of the order `s^-(1 - exponent)`."""
        return 1 - Fraction(self.exponent)


@dataclass(frozen=True)
class ExactRounds(WeightRounds):
    """Round k takes the part `u_k^-(1-p)` of the budget, or for zCDP its square, divided by the sum over all rounds.

    Guarantee: epsilon-DP, or rho-zCDP, exactly spent. It holds whenever and however often rounds begin: no share
    depends on a size, so keeping to the allowance is a matter of accuracy alone. For zCDP the tests and the numeric
    answer of a round compose as two parts.

    >>> rounds = ExactRounds(Allowance(1000, Fraction(5), Fraction(10)), "1/2", epsilon=1)
    >>> float(rounds.epsilon_down(1, 1000)), float(sum(rounds.epsilon_down(k, 1000) for k in range(1, 1000)))
    (0.0408..., 1.0)
    """

    allowance: Allowance
    exponent: Number
    epsilon: Number | None = None
    rho: Number | None = None

    def __post_init__(self) -> None:
        checked(self, exponent=probability)
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all rounds together as one of epsilon= and rho=")
        work_out(self.event)  # refuses a budget out of range

    @property
    def event(self) -> Event:
        return Pure(self.epsilon) if self.epsilon is not None else ZeroConcentrated(self.rho or 0)

    def epsilon_down(self, number: int, size: int) -> Fraction:
        with precise():
            if self.epsilon is not None:
                part = self.allowance.weight(number, self.kept) / self._all
                return rounded_down(decimal(positive(self.epsilon, "epsilon")) * part)
            part = self.allowance.weight(number, 2 * self.kept) / self._all
            return rounded_down((decimal(2 * positive(self.rho or 0, "rho") / _JOINT) * part).sqrt())

    @cached_property
    def _all(self) -> Decimal:
        with precise():
            return self.allowance.total(self.kept if self.epsilon is not None else 2 * self.kept)

    def noise_of(self, epsilon: Fraction) -> sparse_vector.SparseNoise:
        return sparse_vector.sparse_noise(epsilon=epsilon, hits=1, values=True)


@dataclass(frozen=True)
class PublishedRounds(WeightRounds):
    """The noise function of [GROW] at the size where the round begins, and its split: Lap(2/e), Lap(4/e), Lap(2/e).

    A round that begins at s rows has `e = xi_s/s`, `xi_t = a^2 n^(1-p) (1-p)/(54 (2-p) ln(N n)) epsilon t^p`, or with a
    delta `xi_t = a n^(1-p) epsilon t^p / sqrt(1152 (3-2p)/(2-2p) ln(N n) ln(1/delta))`; at p = 1/2 these are the
    published 162 and 48. The loss of a round is 1.5 e.

    Guarantee: epsilon-DP or (epsilon, delta)-DP. `InvalidParameter` where the constants do not keep it.
    """

    allowance: Allowance
    exponent: Number
    alpha: Number
    cells: int
    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        set_fields(self, exponent=probability(self.exponent, "exponent"), delta=failing(self.delta))
        with precise():
            spent, most = self.spent_up, decimal(positive(self.epsilon, "epsilon"))
        if spent > most:
            raise InvalidParameter(
                f"the published constants spend {plain(float(spent))} instead of {plain(float(most))} here: they need "
                '2 rows (a few more for a mixing below 1) and a moderate epsilon; take constants="exact"'
            )

    @property
    def event(self) -> Event:
        return Approximate(self.epsilon, self.delta) if self.delta else Pure(self.epsilon)

    @cached_property
    def first(self) -> Decimal:
        """`e` at the start."""
        with precise():
            return published_first(self.alpha, self.cells, self.allowance.start, self.kept, self.epsilon, self.delta)

    @property
    def spent_up(self) -> Decimal:
        """The epsilon that all rounds use up on the worst path, where each begins as early as it may."""
        with precise():
            if not self.delta:
                return self.first * self.allowance.total(self.kept) * 3 / 2 * (1 + _TINY)
            rho = self.first**2 * self.allowance.total(2 * self.kept) * 5 / 8
            return (rho + 2 * (rho * -decimal(Fraction(self.delta)).ln()).sqrt()) * (1 + _TINY)

    def epsilon_down(self, number: int, size: int) -> Fraction:
        return Fraction(3, 2) * self._tests(size)

    def _tests(self, size: int) -> Fraction:
        start = self.allowance.start
        with precise():
            grown = (decimal(Fraction(max(size, start), start)).ln() * decimal(self.kept)).exp()
            return rounded_down(self.first / grown)

    def noise_of(self, epsilon: Fraction) -> sparse_vector.SparseNoise:
        e = epsilon * 2 / 3
        return sparse_vector.SparseNoise(1, 2 / e, 4 / e, 2 / e, False)


def _series(step: Decimal) -> Decimal:
    """`1/(1 - exp(-step))`; where that cancels, its expansion, which lies above by `step^3/720` at most. In `precise`.

    >>> with precise():
    ...     float(_series(Decimal("1e-70"))), float(_series(Decimal(1)))
    (1e+70, 1.5819767068693265)
    """
    return 1 / step + Decimal("0.5") + step / 12 if step < _FINE else 1 / (1 - (-step).exp())


def published_first(alpha: Number, cells: int, start: int, kept: Fraction, epsilon: Number, delta: Number) -> Decimal:
    """`xi_n/n` of the published noise function, where `kept` is 1 - p; call inside `precise`."""
    far, logs = decimal(probability(alpha, "alpha")), decimal(Fraction(cells * start)).ln()
    size, failure = decimal(positive(epsilon, "epsilon")), failing(delta)
    if not failure:
        return far**2 * size * decimal(kept / (1 + kept)) / (PUBLISHED_PURE * logs)
    spread = PUBLISHED_APPROXIMATE * decimal((1 + 2 * kept) / (2 * kept)) * logs * -decimal(failure).ln()
    return far * size / spread.sqrt()


# Multiplicative weights by rounds of sparse vector: the rounds of an opening, and how accurate they are.

Constants = Literal["exact", "published"]
SMALLEST_ALPHA, LARGEST_ALPHA, PRECISION = 1e-5, 0.999999, 1e-4


def weight_rounds(
    *,
    alpha: Number,
    cells: int,
    start: int,
    update: Update = "projected",
    mixing: Number = 1,
    exponent: Number = "1/2",
    constants: Constants = "exact",
    epsilon: Number | None = None,
    rho: Number | None = None,
    delta: Number = 0,
    rounds: int | None = None,
) -> WeightRounds:
    """The rounds of a public histogram with this many cells, from `start` rows on.

    By default as many may begin as the potential argument allows hard answers, and one more. `rounds` (exact only)
    foresees this many at the start instead, and in proportion later. Errors: `InvalidParameter`.

    >>> given = {"alpha": "0.1", "cells": 1000, "start": 5000, "epsilon": 1}
    >>> exact, published = (weight_rounds(**given, constants=name) for name in ("exact", "published"))
    >>> exact.allowance.most(5000), f"{float(exact.epsilon_down(1, 5000) / published.epsilon_down(1, 5000)):.1f}"
    (3109, '17.9')
    """
    if constants not in get_args(Constants):
        raise InvalidParameter("constants must be 'exact' or 'published'")
    first, growth = hard_answer_rates_up(alpha=alpha, cells=cells, update=update, mixing=mixing)
    allowed = Allowance(whole(start, "start"), first + 1, growth)
    if constants == "published":
        if epsilon is None or rho is not None or rounds is not None:
            raise InvalidParameter(
                'constants="published" have an epsilon= and perhaps a delta=, no rho= and no rounds='
            )
        return PublishedRounds(allowed, exponent, alpha, cells, epsilon, delta)
    if failing(delta):
        raise InvalidParameter("exact constants are epsilon-DP or rho-zCDP: leave delta= out")
    if rounds is not None:
        number = Fraction(whole(rounds, "rounds"))
        allowed = Allowance(start, number, growth * number / allowed.first)
    return ExactRounds(allowed, exponent, epsilon, rho)


def round_alpha_up(
    noise: sparse_vector.SparseNoise, *, size: int, queries: int, rounds: int = 1, confidence: Number = "0.95"
) -> float:
    """The accuracy of this many queries with noise like this: with `confidence` all noises are within a third of it.

    Each query is two tests. `rounds` is how many rounds they are spread over at most; each has a threshold and a value.

    >>> noise = ExactRounds(Allowance(10**6, Fraction(50), Fraction(60)), "1/2", rho="0.0175").noise(1, 10**6)
    >>> round(round_alpha_up(noise, size=10**6, queries=1000, rounds=50), 4)
    0.0079
    """
    asked, begun = whole(queries, "queries"), whole(rounds, "rounds")
    anew = replace(noise, hits=min(asked, begun), redrawn=True)
    return 3 * sparse_vector.error_up(anew, tests=2 * asked, confidence=confidence) / whole(size, "size")


def sparse_weights_alpha(*, cells: int, size: int, queries: int, confidence: Number = "0.95", **terms: Any) -> float:
    """The least alpha that `weight_rounds` keeps over this many queries at the size of the opening; infinite for none.

    `terms` are those of `weight_rounds` but for alpha. As the table grows, the noise of rounds that open then is a
    smaller and smaller part of it. Rounded up, by a ten-thousandth at most.

    >>> known = {"cells": 1000, "queries": 1000, "update": "projected", "mixing": "0.1"}
    >>> round(sparse_weights_alpha(size=10**6, rho="0.0175", **known), 3)
    0.087
    """

    def excess(alpha: float) -> float:
        rounds = weight_rounds(alpha=alpha, cells=cells, start=size, **terms)
        spread, noise = min(queries, rounds.allowance.most(size)), rounds.noise(1, size)
        reached = round_alpha_up(noise, size=size, queries=queries, rounds=spread, confidence=confidence)
        return math.log(max(reached, SMALLEST_ALPHA) / alpha)

    low = LARGEST_ALPHA
    if excess(low) > 0:
        return math.inf
    while low > SMALLEST_ALPHA and excess(low) <= 0:
        low /= 10
    found = math.exp(
        float(
            scipy.optimize.brentq(lambda log: excess(math.exp(log)), math.log(low), math.log(10 * low), xtol=PRECISION)
        )
    )
    while excess(found) > 0:
        found = min(LARGEST_ALPHA, found * (1 + PRECISION))
    return found


def published_weights_alpha(
    *,
    cells: int,
    size: int,
    queries: int,
    epsilon: Number,
    delta: Number = 0,
    exponent: Number = "1/2",
    confidence: Number = "0.95",
) -> float:
    """The accuracy of the published constants in the form of [GROW] Theorems 14 and 17; 1 and more says nothing.

    With `x = ln(9 queries/beta)`: `(18 * 54 (2-p)/(1-p) ln(N n) x/(n epsilon))^(1/3)`, at p = 1/2 with the factor 2916,
    or `(18 sqrt(1152 (3-2p)/(2-2p) ln(N n) ln(1/delta)) x/(n epsilon))^(1/2)`. With `confidence` all answers keep it
    for ever, as long as not more than `queries exp(((t/n)^p - 1) x/2)` were asked by any size t.

    >>> round(published_weights_alpha(cells=1000, size=10**10, queries=1000, epsilon=1), 3)
    0.047
    """
    beta, power = float(1 - probability(confidence, "confidence")), 1 if failing(delta) else 2
    each = published_noise_function(cells=cells, size=size, epsilon=epsilon, delta=delta, exponent=exponent)
    return float((18 * math.log(9 * whole(queries, "queries") / beta) / each) ** (1 / (power + 1)))


def published_noise_function(*, cells: int, size: int, epsilon: Number, delta: Number, exponent: Number) -> float:
    """`xi_n/alpha` of [GROW] Algorithm 3 with a delta, `xi_n/alpha^2` without."""
    kept, unit, failure = 1 - probability(exponent, "exponent"), Fraction(1, 2), failing(delta)
    rows = whole(size, "size")
    with precise():
        at_half = published_first(unit, whole(cells, "cells", least=2), rows, kept, epsilon, failure)
    return float(at_half) * 2 ** (1 if failure else 2) * rows


# How many rows multiplicative weights take for an accuracy, and how many queries they keep it for.

_MOST: Final = 2**100
_MOST_QUERIES: Final = 2**40
_STEPS: Final = 100
# Published constants need a few rows; nothing is learnt from so few.
_FEWEST: Final = 16
# A few float operations, downwards.
_DOWNWARDS: Final = 1 - 1e-12


def published_weights_rows(*, alpha: Number, **terms: Any) -> int:
    """The fewest rows at which `published_weights_alpha` keeps alpha: n of [GROW] Theorems 14 and 17, and 22 and 24.

    `terms` are those of `published_weights_alpha` but for the size. Errors: `InvalidParameter`.

    >>> published_weights_rows(alpha="0.1", cells=1000, queries=1000, epsilon=1)
    974051578
    """
    wanted = float(probability(alpha, "alpha"))
    return _found(least_size(lambda size: published_weights_alpha(size=size, **terms), wanted, most=_MOST))


def sparse_weights_rows(*, alpha: Number, cells: int, queries: int, confidence: Number = "0.95", **terms: Any) -> int:
    """The fewest rows of a histogram opened with this alpha that keep it over that many queries, exactly.

    `terms` are those of `weight_rounds` but for the size; with its defaults the condition on n of static multiplicative
    weights, [GROW] Theorem 8, for a table that may also grow. Errors: `InvalidParameter`.

    >>> sparse_weights_rows(alpha="0.1", cells=1000, queries=1000, rho="0.0243", mixing="0.1")
    640080
    """

    def reached(size: int) -> float:
        rounds = weight_rounds(alpha=alpha, cells=cells, start=size, **terms)
        spread = min(queries, rounds.allowance.most(size))
        return round_alpha_up(rounds.noise(1, size), size=size, queries=queries, rounds=spread, confidence=confidence)

    # Noise in rows never falls with the size, so no step passes the least size.
    size, wanted = _FEWEST, float(probability(alpha, "alpha"))
    while (error := reached(size)) > wanted:
        size = max(size + 1, math.ceil(size * error / wanted * _DOWNWARDS))
        if size > _MOST:
            return _found(None)
    return size


def queries_allowed(
    *,
    alpha: Number,
    cells: int,
    start: int,
    size: int,
    epsilon: Number,
    delta: Number = 0,
    exponent: Number = "1/2",
    confidence: Number = "0.95",
) -> float:
    """How many queries [GROW] Theorems 14 and 17 allow until the table that began with `start` rows has this size.

    `k exp(((t/n)^p - 1) x/2)` with `x = alpha xi_n/18` and `k = beta e^x/9`, those that n rows allow: integers,
    rounded down, at most the largest float. 0 says that even one is too many.

    Errors: `InvalidParameter`, also for a size below the start.

    >>> terms = {"alpha": "0.1", "cells": 1000, "start": 10**9, "epsilon": 1}
    >>> [queries_allowed(size=size, **terms) for size in (10**9, 2 * 10**9, 4 * 10**9)]
    [1364.0, 17831.0, 675980.0]
    """
    rows, first = whole(size, "size"), whole(start, "start")
    if rows < first:
        raise InvalidParameter("a growing table does not shrink: size must be at least start")
    known = {"epsilon": epsilon, "delta": delta, "exponent": exponent}
    power = 1 if failing(delta) else 2
    x = float(probability(alpha, "alpha")) ** (power + 1) / 18
    x *= published_noise_function(cells=cells, size=first, **known) * _DOWNWARDS
    grown = (rows / first) ** float(probability(exponent, "exponent")) - 1
    log = math.log(float(1 - probability(confidence, "confidence")) / 9) + x * (1 + grown / 2)
    return float(math.floor(math.exp(log) * _DOWNWARDS)) if log < math.log(LARGEST_FLOAT) else LARGEST_FLOAT


def exact_queries_allowed(*, alpha: Number, cells: int, size: int, confidence: Number = "0.95", **terms: Any) -> int:
    """How many queries a histogram opened now with this alpha keeps it over, by the exact distribution of its rounds.

    The inverse of `sparse_weights_rows`; 0 for none, at most 2**40, and above 100 in steps of a hundredth, rounded
    down. `terms` are those of `weight_rounds` but for the size.

    >>> exact_queries_allowed(alpha="0.1", cells=100, size=6000, epsilon=3, rounds=5)
    129
    """
    rounds = weight_rounds(alpha=alpha, cells=cells, start=whole(size, "size"), **terms)
    noise, wanted = rounds.noise(1, size), float(probability(alpha, "alpha"))

    def kept(queries: int) -> bool:
        spread = min(queries, rounds.allowance.most(size))
        found = round_alpha_up(noise, size=size, queries=queries, rounds=spread, confidence=confidence)
        return found <= wanted

    low, high = doubled(lambda queries: queries > _MOST_QUERIES or not kept(queries), 0, 1, times=4)
    return low if low == _MOST_QUERIES else largest(kept, low, high, ratio=1 + Fraction(1, _STEPS))


def _found(size: int | None) -> int:
    if size is None:
        raise InvalidParameter("no table has as many rows as this alpha takes: take a larger one, or a larger budget")
    return size
