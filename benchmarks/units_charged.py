"""Streams of counts in which each unit has hits of its own, beside streams that end; counters are seen here."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chary import Budget
from chary.accounting import charging_size, published_total
from chary.calls import IndividualTests
from chary.calls.sharpness import HitTerms
from chary.filters import RenyiFilter, largest_call
from chary.noise import Source, discrete_laplace

Told = Callable[[int, int, Source], int | None]


@dataclass(frozen=True)
class Asked:
    """Who is counted in each of many questions, a row for each, and the bar of all."""

    counted: NDArray[np.bool_]
    bar: int

    @property
    def truth(self) -> NDArray[np.int64]:
        """The counts of everybody."""
        found: NDArray[np.int64] = self.counted.sum(axis=1)
        return found


@dataclass(frozen=True)
class Stream:
    """One way to answer; units leave after so many answers that they were in, or all questions end (`ends`)."""

    name: str
    hits: int
    told: Told
    ends: bool = False

    def run(self, asked: Asked, source: Source) -> "Answers":
        """All questions in order."""
        used, values = np.zeros(asked.counted.shape[1], dtype=np.int64), {}
        for number, counted in enumerate(asked.counted):
            if self.ends and len(values) == self.hits:
                break
            taking = counted if self.ends else counted & (used < self.hits)
            value = self.told(int(taking.sum()), asked.bar, source)
            if value is not None:
                values[number] = value
                used += taking
        return Answers(asked, values, float((used >= self.hits).mean()))


@dataclass(frozen=True)
class Answers:
    """What was published of which question, and the share of units that were used up."""

    asked: Asked
    values: dict[int, int]
    exhausted: float

    def figures(self) -> list[float]:
        """Hits, F1 against the counts of everybody, the median error of values, the share of units used up."""
        truth = self.asked.truth
        hit, should = np.isin(np.arange(len(truth)), list(self.values)), truth >= self.asked.bar
        off = [abs(value - int(truth[number])) for number, value in self.values.items()]
        score = 2 * (hit & should).sum() / max(1, hit.sum() + should.sum())
        return [len(self.values), float(score), float(np.median(off)) if off else np.nan, self.exhausted]


def laplace(epsilon: Fraction, noises: int = 1) -> Told:
    """A count with Laplace noise told if it reaches the bar; of two noises one decides with the other, one is told."""

    def told(value: int, bar: int, source: Source) -> int | None:
        drawn = [int(noise) for noise in discrete_laplace(source, 1 / epsilon, noises)]
        return value + drawn[0] if value + sum(drawn) >= bar else None

    return told


def sharp(budget: Budget, hits: int, value: str) -> Told:
    """The sharp tests of a stream that takes the whole budget."""
    call = IndividualTests(price=Fraction(1, hits), hits=hits, value=value)
    terms = HitTerms.found(call.wanted, RenyiFilter.best(budget), Fraction(1), call.value_share)
    sharpness, noise = terms.sharpness(), terms.noise()

    def told(count: int, bar: int, source: Source) -> int | None:
        if not sharpness.sampler.step(count - bar + sharpness.bar, source):
            return None
        return int(noise.apply(np.array([count]), source)[0])

    return told


def streams(budget: Budget, hits: int) -> list[Stream]:
    """Those that end with their hits, the peers with counters, ours."""
    epsilon, delta = budget.exact
    exactly, renyi = largest_call(budget, hits, "exact"), largest_call(budget, hits, "renyi")
    published = charging_size(published_total, epsilon=epsilon, delta=delta, hits=hits)
    return [
        Stream("no counters: ends with its hits, exact", hits, laplace(exactly), ends=True),
        Stream("counters, two noises, our price", hits, laplace(exactly, 2)),
        Stream("counters, one noise, published bound", hits, laplace(published)),
        Stream("chary: counters, Laplace, exact", hits, laplace(exactly)),
        Stream("chary: counters, Laplace, Renyi", hits, laplace(renyi)),
        Stream("chary: counters, sharp", hits, sharp(budget, hits, "0.25")),
    ]
