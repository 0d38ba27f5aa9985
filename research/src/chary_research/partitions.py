"""Queries over ranges of weeks, each week with a budget of its own: Turbo's tree of PMW-Bypass, and trees of PMW."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting import Event, ZeroConcentrated
from chary.calls import PMW
from chary.calls.public_histograms import EVERYTHING, HistogramMemory, ShareQuestion
from chary.calls.weights import PMWRun
from chary.core.plan import Data, nothing_read
from chary.data import NeighborRelation
from chary.filters import Budget, RenyiFilter
from chary.growth.trees import Span, at_size, nearest, spans
from chary.mechanisms.weights import Transcript
from chary.noise import Seeded
from chary_research import caches
from chary_research.caches import BYPASSES, DELTA, Wanted, of_fewer
from chary_research.workloads import Counts, Workload

Floats = NDArray[np.float64]
# A query of the pool, by its place, about the weeks from one to another.
Ranged = tuple[int, Span]


@dataclass(frozen=True)
class Partitioned:
    """A workload whose rows come in weeks: sizes and the part of positive tests rise and fall as in two waves."""

    workload: Workload
    weeks: int

    def counts(self, seed: int) -> Counts:
        """How many rows are in each cell of each week: one draw."""
        found = np.empty((self.weeks, *self.workload.sizes), np.int64)
        (_, negative), (usual, positive) = self.workload.groups
        for week in range(self.weeks):
            wave = math.sin(4 * math.pi * (week + 0.5) / self.weeks)
            rows, ill = round(self.workload.rows * (1 + 0.3 * wave)), usual * (1 + 0.6 * wave)
            groups = ((1 - ill, negative), (ill, positive))
            found[week] = replace(self.workload, rows=rows, groups=groups).counts(seed * self.weeks + week)
        return found

    def stream(self, asked: int, zipf: float, seed: int, *, arriving: bool) -> Iterator[Ranged]:
        """Queries about random ranges of all weeks; or, as weeks arrive, about the latest ones that are there.

        Each length is as likely as another, as in the published experiments.
        """
        draw = np.random.default_rng([seed, 7])
        for place, number in enumerate(self.workload.stream(asked, zipf, seed)):
            there = 1 + place * self.weeks // asked if arriving else self.weeks
            length = int(draw.integers(1, there + 1))
            first = there - length if arriving else int(draw.integers(0, there - length + 1))
            yield number, (first, first + length - 1)


# Answering.


class RangeAnswering(ABC):
    """Something that answers queries about ranges of weeks, one after another, each within alpha but for beta."""

    def __init__(self, known: Partitioned, counts: Counts, alpha: float, beta: float, seed: int) -> None:
        self.known, self.alpha, self.beta = known, alpha, beta
        self.sizes = counts.reshape(known.weeks, -1).sum(axis=1)
        self._sums = np.concatenate([np.zeros((1, *known.workload.sizes), np.int64), counts.cumsum(axis=0)])
        self._draw = np.random.default_rng(seed)
        self.hard = 0

    @property
    def verified(self) -> float:
        """The proportion of answers of its parts that were verified, where it knows unverified ones."""
        return 1.0

    @abstractmethod
    def ask(self, number: int, span: Span) -> float:
        """The answer to the query at this place of the pool."""

    @abstractmethod
    def used(self) -> Floats:
        """The epsilon of each week, at delta 1e-6."""

    def counted(self, number: int, span: Span) -> int:
        """How many rows it is."""
        place = self.known.workload.place(self.known.workload.pool[number])
        return int(self._sums[span[1] + 1][place].sum() - self._sums[span[0]][place].sum())

    def rows(self, span: Span) -> int:
        """How many there are; public, as Turbo takes them to be."""
        return int(self.sizes[span[0] : span[1] + 1].sum())

    def truth(self, number: int, span: Span) -> float:
        """The proportion of the rows."""
        return self.counted(number, span) / self.rows(span)


class _Charged(RangeAnswering):
    """Charged by moments, at the best order of each week."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._moments = np.tile(caches.NOTHING, (self.known.weeks, 1))

    def charge(self, span: Span, event: Event) -> None:
        """Charge an event in each of these weeks."""
        self._moments[span[0] : span[1] + 1] += caches.moments(event)

    def used(self) -> Floats:
        return np.array([caches.at_best_order(found) if found.any() else 0.0 for found in self._moments])

    def noise(self, epsilon: float) -> float:
        """Laplace noise of a count."""
        return float(self._draw.laplace(0, 1 / epsilon))


class WholeRanges(_Charged):
    """Each query about each range is counted once; no tree."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kept = dict[Ranged, float]()

    def ask(self, number: int, span: Span) -> float:
        if (number, span) not in self._kept:
            rows, self.hard = self.rows(span), self.hard + 1
            epsilon = laplace_of(1, self.beta) / (self.alpha * rows)
            self.charge(span, caches.laplace(epsilon))
            self._kept[number, span] = self.truth(number, span) + self.noise(epsilon) / rows
        return self._kept[number, span]


class CellsOnce(_Charged):
    """All cells of each week are counted once with Gaussian noise, which is enough for a single week."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        shape, most = self.known.workload.sizes, self.known.workload.cells // 2
        self._noise = np.empty((self.known.weeks, *shape))
        for week, rows in enumerate(self.sizes.tolist()):
            rho = 2 * most * Wanted(rows, self.alpha, self.beta).gaussian
            self.charge((week, week), ZeroConcentrated(Fraction(rho)))
            self._noise[week] = self._draw.normal(0, math.sqrt(1 / rho), shape)

    def ask(self, number: int, span: Span) -> float:
        place = self.known.workload.place(self.known.workload.pool[number])
        noise = self._noise[span[0] : span[1] + 1].sum(axis=0)
        return self.truth(number, span) + of_fewer(noise, place) / self.rows(span)


@cache
def laplace_of(nodes: int, beta: float) -> float:
    """How far the sum of k Laplace noises is from 0 with probability 1 - beta at most, in scales of the noise.

    >>> round(laplace_of(1, 0.001), 4) == round(math.log(1000), 4)
    True
    """

    def beyond(far: float) -> float:
        # The absolute sum of k noises: a difference of two Gamma(k) variables, a mixture of Gamma tails.
        return sum(part * float(scipy.stats.gamma.sf(far, shape)) for shape, part in _mixture(nodes))

    return float(scipy.optimize.brentq(lambda far: beyond(far) - beta, 1e-9, 400))


@cache
def _mixture(k: int) -> tuple[tuple[int, float], ...]:
    """The absolute sum of k Laplace noises is Gamma(j) with these probabilities, for j from 1 to k."""
    return tuple((j, math.comb(2 * k - j - 1, k - j) * 2 ** (j + 1) / 4**k) for j in range(1, k + 1))


class _NodeHistogram:
    """What Turbo keeps of a node: weights, and how many updates each cell took part in and has to."""

    def __init__(self, sizes: tuple[int, ...], first: int) -> None:
        self.weights = np.full(sizes, 1 / math.prod(sizes))
        self.updates = np.zeros(sizes)
        self.thresholds = np.full(sizes, float(first))


class TurboTree(_Charged):
    """Turbo over weeks. The fewest nodes of a range are counted with Laplace noise or answered by their histograms. A
    sparse vector of the range checks the whole where any histogram took part.

    `warm` starts a week from the latest one before it, and a larger node from the mean of its children, where they are
    there. Epsilons are the least that keep the accuracy; with `loose` those of the paper's formula for sparse vectors.
    """

    def __init__(self, *given: Any, warm: bool = False, loose: bool = False) -> None:
        super().__init__(*given)
        self._bypass, self._warm, self._loose = BYPASSES["tests"], warm, loose
        self._nodes, self._kept = dict[Span, _NodeHistogram](), dict[Ranged, tuple[float, float]]()
        self._thresholds = dict[Span, float]()
        self.resets = 0

    def ask(self, number: int, span: Span) -> float:
        rows, nodes = self.rows(span), list(spans(*span))
        place = self.known.workload.place(self.known.workload.pool[number])
        epsilon = laplace_of(len(nodes), self.beta) / (self.alpha * rows)
        while True:
            found, trusted = 0.0, list[Span]()
            for node in nodes:
                kept, histogram = self._kept.get((number, node)), self._nodes.get(node)
                if kept is not None and kept[1] >= epsilon:
                    found += kept[0]
                elif histogram is None or np.any(histogram.updates[place] < histogram.thresholds[place]):
                    found += self._count(number, node, epsilon, place)
                else:
                    trusted.append(node)
                    found += float(histogram.weights[place].sum()) * self.rows(node)
            if not trusted or self._right(abs(found - self.counted(number, span)), span):
                return found / rows
            for node in trusted:
                histogram = self._nodes[node]
                histogram.thresholds[place] = histogram.updates[place].min() + self._bypass.step

    def _count(self, number: int, node: Span, epsilon: float, place: Any) -> float:
        """A noisy count, which trains the histogram of its node."""
        self.charge(node, caches.laplace(epsilon))
        self.hard += 1
        noisy, rows = self.counted(number, node) + self.noise(epsilon), self.rows(node)
        if node not in self._nodes:
            self._nodes[node] = self._opened(node)
        histogram = self._nodes[node]
        off = noisy / rows - float(histogram.weights[place].sum())
        if abs(off) > self._bypass.margin * self.alpha:
            rate = self._bypass.rate(int(histogram.updates[place].min()))
            histogram.weights[place] *= math.exp(math.copysign(rate / 8, off))
            histogram.weights /= histogram.weights.sum()
            histogram.updates[place] += 1
        self._kept[number, node] = noisy, epsilon
        return noisy

    def _right(self, off: float, span: Span) -> bool:
        rows = self.rows(span)
        far = 4 * math.log(1 / self.beta) / (self.alpha * rows)
        epsilon = far if self._loose else Wanted(rows, self.alpha, self.beta).vector
        if span not in self._thresholds:
            self.charge(span, caches.vector(epsilon))
            self.resets += 1
            self._thresholds[span] = self.alpha * rows / 2 + self.noise(epsilon)
        if off + self.noise(epsilon) < self._thresholds[span]:
            return True
        del self._thresholds[span]
        return False

    def _opened(self, node: Span) -> _NodeHistogram:
        made = _NodeHistogram(self.known.workload.sizes, self._bypass.first)
        sources = self._sources(node) if self._warm else []
        if sources:
            for name in ("weights", "updates", "thresholds"):
                setattr(made, name, sum(getattr(source, name) for source in sources) / len(sources))
        return made

    def _sources(self, node: Span) -> list[_NodeHistogram]:
        first, last = node
        if first == last:
            before = [week for week in range(first) if (week, week) in self._nodes]
            return [self._nodes[before[-1], before[-1]]] if before else []
        half = (first + last) // 2
        children = [self._nodes.get((first, half)), self._nodes.get((half + 1, last))]
        return [child for child in children if child is not None] if all(children) else []


# Ours: `HistogramTree`, without the ledger and the engine.


class PMWTree(RangeAnswering):
    """`PMW` over nodes: their plans, tests, noise and updates, charged in their weeks by the filter of a session.

    What `HistogramTree` does is done here without ledger and engine, which take nearly all of the time; a test holds
    both to the same answers. Without `tree` every node is a week. A question to a node is asked once.
    """

    def __init__(
        self, *given: Any, budget: str, tree: bool = True, warm: bool = True, size: str = "1e-5", **how: Any
    ) -> None:
        super().__init__(*given)
        self.filter = RenyiFilter.best(Budget(epsilon=budget, delta=DELTA))
        self.budget, self._source = float(Fraction(budget)), Seeded(int(self._draw.integers(2**40)))
        self._tree, self._warm, self._how = tree, warm, {"alpha": Fraction(self.alpha).limit_denominator()} | how
        self._runs, self._held = dict[Span, PMWRun](), dict[Span, bytes]()
        self._kept, self._schema = dict[Ranged, float](), self.known.workload.schema
        self.unverified = self.asked = 0
        # Sizes are secret here: each week releases its own.
        rho = Fraction(size)
        self.charged = [self.filter.price(ZeroConcentrated(rho)).hit] * self.known.weeks
        self._stated = [max(1, round(rows + self._draw.normal(0, 1 / math.sqrt(2 * rho)))) for rows in self.sizes]

    def ask(self, number: int, span: Span) -> float:
        nodes = list(spans(*span)) if self._tree else [(week, week) for week in range(span[0], span[1] + 1)]
        stated = [self._run(node).law.size for node in nodes]  # all are opened before the first is asked
        found = sum(rows * self._node(number, node) for node, rows in zip(nodes, stated, strict=True))
        return found / sum(stated)

    @property
    def verified(self) -> float:
        return 1 - self.unverified / max(1, self.asked)

    def used(self) -> Floats:
        return np.array([self.filter.promised(charged)[0] for charged in self.charged])

    def _node(self, number: int, node: Span) -> float:
        if (number, node) in self._kept:
            return self._kept[number, node]
        run = self._run(node)
        cells = self.known.workload.region(self.known.workload.pool[number])
        text = self.known.workload.condition(self.known.workload.pool[number]) or EVERYTHING
        plan = run.planned(ShareQuestion(text, run.law.size, cells, nothing_read))
        price, self.asked = plan.price(self.filter), self.asked + 1
        weeks = range(node[0], node[1] + 1)
        if any(self.charged[week].main + price.hit.main > self.filter.capacity.main for week in weeks):
            self.unverified += 1
            with run.memory.at(Transcript.load(self._held[node]).changes) as weights:
                return weights.share(cells, run.law.size)
        ran = plan.run(Data([self.counted(number, node)], self._source, self._held[node], None, price))
        cost = plan.cost.final(price, ran, plan.cost.most)
        for week in weeks:
            self.charged[week] = self.charged[week] + cost
        self._held[node] = ran.secrets.get(1, self._held[node]) or b""
        self.hard += ran.hits
        answer = plan.present(ran.answer, 2)
        self._kept[number, node] = answer.share
        return self._kept[number, node]

    def _run(self, node: Span) -> PMWRun:
        if node not in self._runs:
            rows = sum(self._stated[node[0] : node[1] + 1])
            call = at_size(PMW(universe=self.known.workload.universe, **self._how), rows)
            law = call.law(self.filter, NeighborRelation("add_remove", None), rows)
            run: Any = PMWRun(None, 1, {})  # type: ignore[arg-type]
            run.law, run.memory = law, HistogramMemory(law, self._schema)
            source = self._nearest(node) if self._warm else None
            changes = () if source is None else Transcript.load(self._held[source]).changes
            self._held[node] = Transcript().then(*run.memory.inherited(changes)).dump()
            self._runs[node] = run
        return self._runs[node]

    def _nearest(self, node: Span) -> Span | None:
        return nearest(node, {each: len(Transcript.load(held).changes) for each, held in self._held.items() if held})
