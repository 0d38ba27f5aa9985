"""Caches of private answers to linear queries: exact matches, noisy cells, multiplicative weights, PMW-Bypass."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting import DiscreteLaplace, Event, Pure, ZeroConcentrated, epsilon_up
from chary.accounting.weights import Update
from chary.amounts import Amount
from chary.calls import PMW, Release
from chary.calls.public_histograms import EVERYTHING, PMWLaw, ShareQuestion
from chary.calls.sharpness import rho_of
from chary.calls.weights import fitting_epsilon
from chary.core.plan import Data, Plan, nothing_read
from chary.data import NeighborRelation, count
from chary.filters import Budget, RenyiFilter
from chary.noise import Seeded
from chary.session import open
from chary_research.workloads import Counts, Workload

Floats = NDArray[np.float64]
DELTA: Final = Fraction(1, 10**6)


@dataclass(frozen=True)
class Wanted:
    """Every answer is to be within alpha of the truth, as a fraction of the rows, but with probability beta.

    The published experiments have 0.05 and 0.001.
    """

    rows: int
    alpha: float = 0.05
    beta: float = 0.001

    @property
    def laplace(self) -> float:
        """The least epsilon of a count with Laplace noise."""
        return math.log(1 / self.beta) / (self.alpha * self.rows)

    @property
    def gaussian(self) -> float:
        """The least rho of a count with Gaussian noise."""
        quantile = float(scipy.stats.norm.isf(self.beta / 2))
        return quantile**2 / (2 * (self.alpha * self.rows - 1) ** 2)

    @property
    def vector(self) -> float:
        """The least epsilon of a sparse vector with threshold alpha/2, whose threshold and tests have noise of one over
        it.

        A truth at alpha is missed where the noises differ by alpha/2: `(1/2 + e/4) exp(-e)` with e = alpha n epsilon/2.
        """
        return self._bisected(lambda e: (0.5 + e / 4) * math.exp(-e))

    @property
    def weights(self) -> float:
        """The same where the answer after a hit has this noise as well, and fails with `exp(-2 e)`."""
        return self._bisected(lambda e: (0.5 + e / 4) * math.exp(-e) + math.exp(-2 * e))

    @property
    def loose(self) -> float:
        """The epsilon of Algorithm 1 of the paper, for counts and for sparse vectors."""
        return 4 * self.laplace

    def _bisected(self, fails: Callable[[float], float]) -> float:
        found: float = scipy.optimize.brentq(lambda e: fails(e) - self.beta, 1e-9, 200)
        return 2 * found / (self.alpha * self.rows)


# What is charged: events and how many there were of each.

Charges = Mapping[Event, int]
ORDERS: Final = [1 + Fraction(f"{less:.3g}") for less in np.geomspace(0.5, 1e6, 120).tolist()]
NOTHING: Final[Floats] = np.zeros(len(ORDERS))


def pure_total(charged: Charges) -> float:
    """The sum of epsilons; infinite where an event has none."""
    return float(
        sum(times * (math.inf if event.epsilon is None else event.epsilon) for event, times in charged.items())
    )


def renyi_total(charged: Charges, delta: Fraction = DELTA) -> float:
    """The epsilon at this delta of all of them together, at whichever order is best.

    >>> round(renyi_total({Pure("0.01"): 100}), 2), round(pure_total({Pure("0.01"): 100}), 2)
    (0.42, 1.0)
    """
    return at_best_order(sum((times * moments(event) for event, times in charged.items()), NOTHING), delta)


def at_best_order(found: Floats, delta: Fraction = DELTA) -> float:
    """The epsilon at this delta of log-moments, one for each of `ORDERS`, at whichever order is best."""
    known = np.array([float(order) for order in ORDERS])
    rough = (found - math.log(float(delta)) - np.log(known)) / (known - 1) + np.log1p(-1 / known)
    best = int(np.argmin(rough))
    return float(epsilon_up(Fraction(float(found[best])), ORDERS[best], delta))


@cache
def moments(event: Event) -> Floats:
    """The log-moments of an event, one for each of `ORDERS`."""
    return np.array([float(event.log_moment_up(order)) for order in ORDERS])


# What answers queries, and what it was charged for that.


class Answering(ABC):
    """Something that answers the queries of a workload one after another from these rows."""

    def __init__(self, workload: Workload, counts: Counts, wanted: Wanted, seed: int) -> None:
        self.workload, self.wanted = workload, wanted
        self.charged: Counter[Event] = Counter()
        self._counts, self._shares, self._draw = counts, counts / counts.sum(), np.random.default_rng(seed)
        self._truths: dict[int, float] = {}

    @abstractmethod
    def ask(self, number: int) -> float:
        """The answer to the query at this place of the pool."""

    def truth(self, number: int) -> float:
        """The fraction of rows that satisfy it."""
        if number not in self._truths:
            self._truths[number] = float(self._shares[self.place(number)].sum())
        return self._truths[number]

    def place(self, number: int) -> tuple[Any, ...]:
        """Where its cells are."""
        return self.workload.place(self.workload.pool[number])

    def counted(self, number: int, epsilon: float) -> float:
        """A noisy count, which is charged, as a fraction of the rows."""
        self.charged[laplace(epsilon)] += 1
        return self.truth(number) + self.noise(epsilon)

    def near(self, number: int) -> float:
        """A count with Gaussian noise that is near enough, which is charged, as a fraction of the rows."""
        rho = self.wanted.gaussian
        self.charged[ZeroConcentrated(Fraction(rho))] += 1
        return self.truth(number) + float(self._draw.normal(0, 1 / math.sqrt(2 * rho))) / self.wanted.rows

    def noise(self, epsilon: float) -> float:
        """Laplace noise of a count with this epsilon, as a fraction of the rows."""
        return float(self._draw.laplace(0, 1 / (epsilon * self.wanted.rows)))


@cache
def laplace(epsilon: float) -> Event:
    """The event of a count with Laplace noise."""
    return DiscreteLaplace(1 / Fraction(epsilon), 1)


@cache
def vector(epsilon: float) -> Event:
    """That of a sparse vector until its first hit, whose threshold and tests have the noise of such a count."""
    return Pure(3 * Fraction(epsilon))


class ExactMatches(Answering):
    """Each query is counted once, with Laplace noise or with `gaussian` noise, and what was reported is replayed."""

    def __init__(self, *given: Any, gaussian: bool = False) -> None:
        super().__init__(*given)
        self._told, self._gaussian = dict[int, float](), gaussian

    def ask(self, number: int) -> float:
        if number not in self._told:
            self._told[number] = self.near(number) if self._gaussian else self.counted(number, self.wanted.laplace)
        return self._told[number]


class CellsOnce(Answering):
    """All cells are counted once with Gaussian noise, so small that every query is near enough: no cache, a release.

    The number of rows is public. So the noise of a query is that of its cells or of all others, whichever are fewer:
    half of the cells at most. A row that is replaced moves two of them by 1.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        most = self.workload.cells // 2
        rho = 2 * most * self.wanted.gaussian
        self.charged[ZeroConcentrated(Fraction(rho))] = 1
        self._noise = self._draw.normal(0, math.sqrt(1 / rho), self.workload.sizes) / self.wanted.rows

    def ask(self, number: int) -> float:
        return self.truth(number) + of_fewer(self._noise, self.place(number))


def of_fewer(noise: Floats, place: Any) -> float:
    """The noise of the cells at a place, or less that of all others, whichever are fewer: their sum is known."""
    inside = noise[place]
    return float(inside.sum() if 2 * inside.size <= noise.size else inside.sum() - noise.sum())


class Marginals(Answering):
    """Noisy cells of marginals, kept and made more exact as queries need it: a cache of a strategy, after CacheDP.

    A query is a sum of cells of the marginal of the attributes that it restricts, and of each one with more attributes.
    Of the former and of all that are kept, it takes the one that is least charged until the sum is near enough: often
    nothing. What is charged buys fresh Gaussian noise on all cells of the marginal. Its average with the old noise, by
    inverse variances, is as exact as if both had been one. A row that is replaced moves two cells by 1. The
    number of rows is public, so a sum has the noise of its cells or of all others, whichever are fewer. Source: the
    modules of Mazmudar et al., VLDB 2022, but for estimates from several marginals at once.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kept: dict[tuple[int, ...], tuple[float, Floats]] = {}
        self._told: dict[int, float] = {}

    def ask(self, number: int) -> float:
        if number not in self._told:
            self._told[number] = self._summed(number)
        return self._told[number]

    def _summed(self, number: int) -> float:
        query, sizes = self.workload.pool[number], self.workload.sizes
        whole = [values is None or len(values) == size for values, size in zip(query, sizes, strict=True)]
        own = tuple(place for place, all_of_it in enumerate(whole) if not all_of_it)
        tried = {kept for kept in self._kept if set(own) <= set(kept)} | {own}
        extra, axes = min((self._missing(number, axes), axes) for axes in tried)
        if extra > 0:
            self._measure(axes, extra)
        if axes not in self._kept:
            return self.truth(number)
        place = np.ix_(*(self._values(number, axis) for axis in axes))
        return self.truth(number) + of_fewer(self._kept[axes][1], place)

    def _values(self, number: int, axis: int) -> tuple[int, ...]:
        return self.workload.pool[number][axis] or tuple(range(self.workload.sizes[axis]))

    def _missing(self, number: int, axes: tuple[int, ...]) -> float:
        """The rho that this marginal still lacks."""
        inside = math.prod(len(self._values(number, axis)) for axis in axes)
        every = math.prod(self.workload.sizes[axis] for axis in axes)
        return 2 * min(inside, every - inside) * self.wanted.gaussian - self._kept.get(axes, (0.0,))[0]

    def _measure(self, axes: tuple[int, ...], extra: float) -> None:
        self.charged[ZeroConcentrated(Fraction(extra))] += 1
        shape = tuple(self.workload.sizes[axis] for axis in axes)
        rho, noise = self._kept.get(axes, (0.0, np.zeros(shape)))
        fresh = self._draw.normal(0, math.sqrt(1 / extra), shape) / self.wanted.rows
        self._kept[axes] = rho + extra, (rho * noise + extra * fresh) / (rho + extra)


class _Learning(Answering):
    """A histogram of weights, uniform at first, and a sparse vector that says whether it is right."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.weights: Floats = np.full(self.workload.sizes, 1 / self.workload.cells)
        self.resets, self._bar = 0, math.nan
        self._known: dict[int, float] = {}

    def told(self, number: int) -> float:
        """What the histogram says."""
        if number not in self._known:
            self._known[number] = float(self.weights[self.place(number)].sum())
        return self._known[number]

    def right(self, number: int, epsilon: float) -> bool:
        """Whether the sparse vector finds the histogram right; it is paid for before its first test."""
        if math.isnan(self._bar):
            self.charged[vector(epsilon)] += 1
            self.resets += 1
            self._bar = self.wanted.alpha / 2 + self.noise(epsilon)
        if abs(self.told(number) - self.truth(number)) + self.noise(epsilon) < self._bar:
            return True
        self._bar = math.nan
        return False

    def learn(self, number: int, exponent: float) -> None:
        """Multiply the cells of a query by the exponential of this."""
        self.weights[self.place(number)] *= math.exp(exponent)
        self.weights /= self.weights.sum()
        self._known.clear()


class PlainPMW(_Learning):
    """Multiplicative weights as Turbo's paper has it: hard queries are counted, and each begins a new sparse vector."""

    def ask(self, number: int) -> float:
        epsilon = self.wanted.weights
        if self.right(number, epsilon):
            return self.told(number)
        answer, told = self.counted(number, epsilon), self.told(number)
        self.learn(number, math.copysign(self.wanted.alpha / 8, answer - told))
        return answer


class FreeTests(_Learning):
    """A limit of multiplicative weights that are refitted: tests are exact and cost nothing, hard answers a count each.

    A hard answer projects the histogram on what is known of the query, and earlier ones follow once, the latest first.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._hard: dict[int, float] = {}

    def ask(self, number: int) -> float:
        if number in self._hard or abs(self.told(number) - self.truth(number)) <= self.wanted.alpha:
            return self._hard.get(number, self.told(number))
        self._hard[number] = self.near(number)
        for each in reversed(self._hard):
            self._project(each)
        return self._hard[number]

    def _project(self, number: int) -> None:
        answer, far, share = self._hard[number], self.wanted.alpha, _inside(self.told(number))
        nearest = _inside(min(max(share, answer - far / 3), answer + far / 3))
        if nearest != share:
            self.learn(number, math.log(nearest / share) + math.log((1 - share) / (1 - nearest)))


def _inside(share: float) -> float:
    """The nearest that multiplication can reach."""
    return min(max(share, 1e-9), 1 - 1e-9)


@dataclass(frozen=True)
class Bypass:
    """When PMW-Bypass trusts its histogram, and how it learns.

    A query is counted without a test until all its cells took part in as many updates as their thresholds say. These
    are `first` in the beginning. After a failed test those of its cells are the least number of their updates and
    `step` more. The cells of a count are multiplied by `exp(rate/8)`, with the rate of the least number of updates. A
    count that agrees within `margin` alpha with a histogram that was not tested teaches nothing.
    """

    first: int
    step: int
    rates: tuple[tuple[int, float], ...]
    margin: float

    def rate(self, updates: int) -> float:
        """The one of the most updates that are reached."""
        return max(known for known in self.rates if known[0] <= updates)[1]


# The configurations of the published experiments, on tests and on rides.
BYPASSES: Final = {
    "tests": Bypass(100, 5, ((0, 2.0), (50, 0.5), (100, 0.2)), 0.05),
    "rides": Bypass(5, 1, ((0, 4.0),), 0.01),
}


class PMWBypass(_Learning):
    """Turbo's PMW-Bypass, with a cache of exact matches before it: counts that train the histogram until it is right.

    With `loose` all epsilons are those of the paper's Algorithm 1 instead of the least that do.
    """

    def __init__(self, *given: Any, bypass: Bypass | None = None, loose: bool = False, matches: bool = True) -> None:
        super().__init__(*given)
        self._bypass = bypass or BYPASSES[self.workload.name]
        self._count = self.wanted.loose if loose else self.wanted.laplace
        self._test = self.wanted.loose if loose else self.wanted.vector
        self._updates = np.zeros(self.workload.sizes, np.int64)
        self._thresholds = np.full(self.workload.sizes, self._bypass.first)
        self._matches, self._told = matches, dict[int, float]()

    def ask(self, number: int) -> float:
        if number in self._told:
            return self._told[number]
        place = self.place(number)
        trusted = bool(np.all(self._updates[place] >= self._thresholds[place]))
        if trusted:
            if self.right(number, self._test):
                return self.told(number)
            self._thresholds[place] = self._updates[place].min() + self._bypass.step
        answer = self.counted(number, self._count)
        if self._matches:
            self._told[number] = answer
        self._train(number, answer - self.told(number), 0 if trusted else self._bypass.margin * self.wanted.alpha)
        return answer

    def _train(self, number: int, off: float, margin: float) -> None:
        if abs(off) > margin:
            place = self.place(number)
            self.learn(number, math.copysign(self._bypass.rate(int(self._updates[place].min())) / 8, off))
            self._updates[place] += 1


# Ours: `PMW` of a session, opened so that it answers as near as wanted. A query may be released instead, which teaches
# the histogram; when, depends on what was published, and on nothing else.


class Trust(ABC):
    """When a query goes to the histogram instead of being released."""

    @abstractmethod
    def trusted(self, place: Any) -> bool:
        """Whether one with these cells does."""

    @abstractmethod
    def learned(self, place: Any, *, hard: bool, tested: bool) -> None:
        """What came of one: whether the histogram was off by more than is easy, and whether that was tested."""


class AfterReleases(Trust):
    """After a number of releases."""

    def __init__(self, first: int, workload: Workload) -> None:
        self._left = first

    def trusted(self, place: Any) -> bool:
        return self._left <= 0

    def learned(self, place: Any, *, hard: bool, tested: bool) -> None:
        self._left -= not tested


class AfterVisits(Trust):
    """After `first` answers about each of its cells, and after a hard answer `step` more: Turbo's heuristic."""

    def __init__(self, first: int, step: int, workload: Workload) -> None:
        self._visits, self._step = np.zeros(workload.sizes, np.int64), step
        self._needed = np.full(workload.sizes, first)

    def trusted(self, place: Any) -> bool:
        return bool(np.all(self._visits[place] >= self._needed[place]))

    def learned(self, place: Any, *, hard: bool, tested: bool) -> None:
        if tested and hard:
            self._needed[place] = self._visits[place].min() + self._step
        if hard or not tested:
            self._visits[place] += 1


AT_ONCE: Final = partial(AfterReleases, 0)


@dataclass(frozen=True)
class Opening:
    """A budget into which the hard answers fit, the alpha of the histogram, and when it is trusted.

    Hard is distinguished from easy by optimal tests, where the part `value` of each hard answer is for its count, or by
    calls of `epsilon` with Laplace noise. `alpha` is the largest that leaves no easy answer farther off than wanted,
    but with probability beta, and `value` the least part that keeps hard ones as near."""

    budget: Budget
    hits: int
    alpha: Fraction = Fraction(1, 20)
    value: Fraction | None = None
    epsilon: Fraction | None = None
    update: Update = "projected"
    trust: Callable[[Workload], Trust] = AT_ONCE

    @classmethod
    def found(
        cls, workload: Workload, wanted: Wanted, budget: Budget, hits: int, *, laplace: bool = False, **ways: Any
    ) -> "Opening":
        """Errors: `InvalidParameter` for a budget into which no such answers fit."""
        filter_ = RenyiFilter.best(budget)
        if laplace:
            rough = cls(budget, hits, epsilon=fitting_epsilon(filter_, hits), **ways)
        else:
            each = float(rho_of(Fraction(filter_.capacity.main, filter_.steps) / hits, filter_.order))
            rough = cls(budget, hits, value=Fraction(math.ceil(1000 * wanted.gaussian / each), 1000), **ways)
        missed = rough.law(workload, wanted.rows).hits.tails.miss_reach_up(Fraction(wanted.beta))
        far = 1.5 * (wanted.alpha * wanted.rows - missed) / wanted.rows
        return replace(rough, alpha=Fraction(math.floor(10_000 * far), 10_000))

    def call(self, workload: Workload) -> PMW:
        """The opening of the histogram."""
        tests: dict[str, Any] = {"epsilon": self.epsilon}
        if self.epsilon is None:
            tests = {"hits": self.hits, "value": self.value}
        return PMW(universe=workload.universe, alpha=self.alpha, update=self.update, follow_size=False, **tests)

    def law(self, workload: Workload, rows: int) -> PMWLaw:
        """What it fixes."""
        return self.call(workload).law(RenyiFilter.best(self.budget), NeighborRelation("replace", None), rows)


class OwnWeights(Answering):
    """`PMW` in a session: its plans, with their distributions, noise and updates, charged by its filter.

    The ledger and the engine, which take nearly all the time, are left out: plans are given the counts of the cells.
    With `whole` the session itself is asked. A query is asked once, as under an idempotency key of its own.
    """

    def __init__(self, *given: Any, opening: Opening, matches: bool = True, whole: bool = False) -> None:
        super().__init__(*given)
        self.hits, self.unverified, self.released, self._calls = 0, 0, 0, 0
        self._opening, self._matches, self._whole = opening, matches, whole
        source, self.filter = Seeded(int(self._draw.integers(2**40))), RenyiFilter.best(opening.budget)
        terms: dict[str, Any] = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:"}
        rows = self.workload.table(self._counts)
        self.session = open(rows, **terms, budget=opening.budget, unsafe_noise=source)
        self.run: Any = self.session.start(opening.call(self.workload))
        self._told, self._plans, self._held, self._source = dict[int, float](), dict[int, Plan[Any]](), b"", source
        self.used, self.budget, self._trust = Amount(0), opening.budget.exact[0], opening.trust(self.workload)

    def ask(self, number: int) -> float:
        if number in self._told:
            return self._told[number]
        place, condition = self.place(number), self.workload.condition(self.workload.pool[number])
        tested = self._trust.trusted(place)
        if tested:
            share, hard = self._asked(number, condition)
            self.hits += hard
        else:
            before, share = self.run.state.estimate(condition), self._release(number, condition)
            hard = abs(share - before) > 2 / 3 * self._opening.alpha
        self._trust.learned(place, hard=hard, tested=tested)
        if self._matches:
            self._told[number] = share
        return share

    @property
    def share(self) -> float:
        """What part of the budget is spent."""
        return float(self.session.spent.share) if self._whole else self.used.main / self.filter.capacity.main

    @property
    def promised(self) -> float:
        """The epsilon at which all answers so far are private at the budget's delta."""
        used = self.filter.shares.cap(Fraction(self.share)) if self._whole else self.used
        return self.filter.promised(used)[0]

    def _release(self, number: int, condition: str | None) -> float:
        """Release the count, and teach it."""
        self.released += 1
        asked = Release(count(condition), rho=Fraction(self.wanted.gaussian))
        if self._whole:
            told = self.session.ask(asked)
            self.run.learn(condition, told)
        else:
            plan: Plan[Any] = asked.plan(self.session.spine)
            told = plan.present(self._done(plan, number), self.run.call + self._calls)
            self._done(self.run.lesson(condition, told), number)
        return float(told.value) / self.wanted.rows

    def _asked(self, number: int, condition: str | None) -> tuple[float, bool]:
        """What the histogram answers, and whether it was off."""
        answer = self.run.ask(condition) if self._whole else self._planned(number, condition)
        if not isinstance(answer, dict):
            self.unverified += not answer.verified
            return float(answer.share), answer.hard
        # What an easy answer may be off by takes half of the time, and is not needed here.
        if not answer["hard"]:
            return answer["share"], False
        return min(1.0, max(0.0, answer["count"] / answer["size"])), True

    def _planned(self, number: int, condition: str | None) -> Any:
        """What the plan of the question answers from the count, as long as a hit fits into the budget."""
        if number not in self._plans:
            cells = self.workload.region(self.workload.pool[number])
            asked = ShareQuestion(condition or EVERYTHING, self.wanted.rows, cells, nothing_read)
            self._plans[number] = self.run.planned(asked)
        plan = self._plans[number]
        price = plan.price(self.filter)
        if self.used.main + price.hit.main > self.filter.capacity.main:
            return self.run.state.alone(self.run.state.asked(condition))
        return self._done(plan, number)

    def _done(self, plan: Plan[Any], number: int) -> Any:
        """What a plan publishes from the count of this query, charged."""
        price, counted = plan.price(self.filter), round(self.truth(number) * self.wanted.rows)
        result = plan.run(Data([counted], self._source, self._held, None, price))
        self._held = result.secrets.get(self.run.call) or self._held
        self._calls += 1
        self.used += plan.cost.final(price, result, self.filter.capacity.main)
        return result.answer
