"""Caches of private answers to linear queries: exact matches, multiplicative weights and PMW-Bypass as published."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
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
    """Every answer is to be within alpha of the truth, a share of so many rows, but for a chance of beta.

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
        """The least epsilon of a sparse vector with bar alpha/2, whose threshold and tests have noise of one over it.

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
_ORDERS: Final = [1 + Fraction(f"{less:.3g}") for less in np.geomspace(0.5, 1e6, 120).tolist()]


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
    totals = sum((times * _moments(event) for event, times in charged.items()), np.zeros(len(_ORDERS)))
    orders = np.array([float(order) for order in _ORDERS])
    rough = (totals - math.log(float(delta)) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    best = int(np.argmin(rough))
    return float(epsilon_up(Fraction(float(totals[best])), _ORDERS[best], delta))


@cache
def _moments(event: Event) -> Floats:
    return np.array([float(event.log_moment_up(order)) for order in _ORDERS])


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
        """The share of rows that satisfy it."""
        if number not in self._truths:
            self._truths[number] = float(self._shares[self.place(number)].sum())
        return self._truths[number]

    def place(self, number: int) -> tuple[Any, ...]:
        """Where its cells are."""
        return self.workload.place(self.workload.pool[number])

    def counted(self, number: int, epsilon: float) -> float:
        """A noisy count, which is charged, as a share."""
        self.charged[laplace(epsilon)] += 1
        return self.truth(number) + self.noise(epsilon)

    def noise(self, epsilon: float) -> float:
        """Laplace noise of a count with this epsilon, as a share of the rows."""
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
    """Each query is counted once, with Laplace noise or with `gaussian` noise, and what was told is told again."""

    def __init__(self, *given: Any, gaussian: bool = False) -> None:
        super().__init__(*given)
        self._told, self._gaussian = dict[int, float](), gaussian

    def ask(self, number: int) -> float:
        if number not in self._told:
            self._told[number] = self._near(number) if self._gaussian else self.counted(number, self.wanted.laplace)
        return self._told[number]

    def _near(self, number: int) -> float:
        rho = self.wanted.gaussian
        self.charged[ZeroConcentrated(Fraction(rho))] += 1
        return self.truth(number) + float(self._draw.normal(0, 1 / math.sqrt(2 * rho))) / self.wanted.rows


class CellsOnce(Answering):
    """All cells are counted once with Gaussian noise, so small that every query is near enough: no cache, a release.

    The number of rows is public, so that the noise of a query is that of its cells or of all others, whichever are
    fewer: half of the cells at most. A row that is replaced moves two of them by 1.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        most = self.workload.cells // 2
        rho = 2 * most * self.wanted.gaussian
        self.charged[ZeroConcentrated(Fraction(rho))] = 1
        self._noise = self._draw.normal(0, math.sqrt(1 / rho), self.workload.sizes) / self.wanted.rows

    def ask(self, number: int) -> float:
        inside = self._noise[self.place(number)]
        noise = inside.sum() if 2 * inside.size <= self._noise.size else inside.sum() - self._noise.sum()
        return self.truth(number) + float(noise)


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


@dataclass(frozen=True)
class Bypass:
    """When PMW-Bypass trusts its histogram, and how it learns.

    A query is counted without a test until all its cells took part in as many updates as their thresholds say, `first`
    in the beginning; after a failed test those of its cells are the least number of their updates and `step` more. The
    cells of a count are multiplied by `exp(rate/8)`, the rate by the least number of updates; a count that agrees
    within `margin` alpha with a histogram that was not tested teaches nothing.
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


# Ours: `PMW` of a session, opened so that it answers as near as wanted.


@dataclass(frozen=True)
class Opening:
    """A budget into which so many hard answers fit, of each of which the part `value` is for its count, and the alpha
    of the histogram. The `first` queries are released, which teaches the histogram, instead of tested.

    `alpha` is the largest that leaves no easy answer farther off than wanted, but for a chance of beta, and `value` the
    least part that keeps hard ones as near.
    """

    budget: Budget
    hits: int
    value: Fraction
    alpha: Fraction
    update: Update = "projected"
    first: int = 0

    @classmethod
    def found(cls, workload: Workload, wanted: Wanted, budget: Budget, hits: int, **ways: Any) -> "Opening":
        """Errors: `InvalidParameter` for a budget into which no such answers fit."""
        rows, far = wanted.rows, wanted.alpha * wanted.rows
        filter_ = RenyiFilter.best(budget)
        each = float(rho_of(Fraction(filter_.capacity.main, filter_.steps) / hits, filter_.order))
        value = Fraction(math.ceil(1000 * wanted.gaussian / each), 1000)
        rough = cls(budget, hits, value, Fraction(1, 20))
        missed = rough.law(workload, rows).hits.tails.miss_reach_up(Fraction(wanted.beta))
        alpha = Fraction(math.floor(10_000 * 1.5 * (far - missed) / rows), 10_000)
        return cls(budget, hits, value, alpha, **ways)

    def call(self, workload: Workload) -> PMW:
        """The opening of the histogram."""
        return PMW(
            universe=workload.universe,
            alpha=self.alpha,
            hits=self.hits,
            value=self.value,
            update=self.update,
            follow_size=False,
        )

    def law(self, workload: Workload, rows: int) -> PMWLaw:
        """What it fixes."""
        return self.call(workload).law(RenyiFilter.best(self.budget), NeighborRelation("replace", None), rows)


class OwnWeights(Answering):
    """`PMW` in a session: its plans, with their laws, noise and updates, charged by its filter.

    The ledger and the engine, which take nearly all the time, are left out: plans are given the counts of the cells.
    With `whole` the session itself is asked. A query is asked once, as under a request key of its own.
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
        self.used, self.budget = Amount(0), opening.budget.exact[0]

    def ask(self, number: int) -> float:
        if number in self._told:
            return self._told[number]
        condition = self.workload.condition(self.workload.pool[number])
        if self.released < self._opening.first:
            share = self._release(number, condition)
        else:
            answer = self.run.ask(condition) if self._whole else self._planned(number, condition)
            self.hits += answer.hard
            self.unverified += not answer.verified
            share = float(answer.share)
        if self._matches:
            self._told[number] = share
        return share

    @property
    def share(self) -> float:
        """What part of the budget is used up."""
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
            told = self._done(asked.plan(self.session.spine), number)
            self._done(self.run.lesson(condition, told), number)
        return float(told.value) / self.wanted.rows

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
        """What a plan answers from the count of this query, charged."""
        price, counted = plan.price(self.filter), round(self.truth(number) * self.wanted.rows)
        result = plan.run(Data([counted], self._source, self._held, None, price))
        self._held = result.secrets.get(self.run.call) or self._held
        self._calls += 1
        self.used += plan.cost.final(price, result, self.filter.capacity.main)
        return plan.present(result.answer, self.run.call + self._calls)
