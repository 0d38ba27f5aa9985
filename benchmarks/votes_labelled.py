"""Ways to label many questions by votes at one promise: chary's, and its peers'; each labels in order until it ends."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from chary.accounting import BoundaryCall, Targeted, ZeroConcentrated
from chary.accounting.sharp_tests import SharpTest
from chary.accounting.sharp_widths import draw_table
from chary.filters import Budget, RenyiFilter
from chary.learning import ConfidentGnmax
from chary.noise import Seeded, discrete_laplace
from chary_research.reported_labels import label_as_reported
from stable_labels import NONE, DistanceToInstability, Floats, Promise, ProposeTestRelease, Votes, winners

Labelling = Callable[[Votes, np.random.Generator], Votes]
FREE = (0.007, 0.01, 0.014, 0.02, 0.03, 0.04)
PAID = (0.01, 0.02, 0.04, 0.08, 0.16)
FAILURES = (1, 3, 10, 30, 100, 300, 1000)
SHARES = (0.3, 0.5, 0.7)
SIGMAS = (0.04, 0.08, 0.16)


def chances(votes: Votes, epsilon: float) -> Floats:
    """Those of the exponential mechanism, a row for each question."""
    weights = np.exp(epsilon / 2 * (votes - votes.max(axis=1, keepdims=True)))
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def chosen(law: Floats, generator: np.random.Generator) -> Votes:
    """One option of each row."""
    found: Votes = (law.cumsum(axis=1) < generator.random((len(law), 1))).sum(axis=1)
    return np.minimum(found, law.shape[1] - 1)


def affordable(event: BoundaryCall | Targeted | ZeroConcentrated | SharpTest, filter_: RenyiFilter) -> int:
    """How many hits of one kind the whole budget pays, 0 where misses are not free."""
    price = filter_.price(event)
    free = price.free_miss or isinstance(event, ZeroConcentrated)
    return (price.hit.copies_in(filter_.capacity) or 0) if free else 0


def until(labels: Votes, paid: Floats, capacity: float) -> Votes:
    """The labels before the cost so far leaves no room for one more of the dearest."""
    spent = np.concatenate([[0.0], paid.cumsum()[:-1]])
    room = spent + paid.max(initial=0) <= capacity * (1 + 1e-12)
    return labels if room.all() else labels[: int(room.argmin())]


def every(budget: Budget, epsilon: float) -> Labelling:
    """`Label`: all are paid."""
    filter_ = RenyiFilter.best(budget)
    most = affordable(ZeroConcentrated(Fraction(str(epsilon)) ** 2 / 8), filter_)
    return lambda votes, generator: chosen(chances(votes[:most], epsilon), generator)


def clear(budget: Budget, epsilon: float, bar: int | None = None) -> Labelling:
    """Clear labels, and with a bar `Agreement` of half the size before it: what is not clear or not agreed is paid."""
    size = Fraction(str(epsilon))
    filter_ = RenyiFilter.best(budget, grain=size)
    events = (BoundaryCall(size), Targeted(size / 2))
    if not all(affordable(event, filter_) for event in events):
        return lambda votes, generator: winners(votes[:0])
    boundary, low = (float(filter_.price(event).hit.main) for event in events)

    def label(votes: Votes, generator: np.random.Generator) -> Votes:
        law = chances(votes, epsilon)
        rest = 1 - law.max(axis=1)
        unclear = generator.random(len(votes)) < np.minimum(1 / 3, rest / (1 + rest))
        labels, paid = np.where(unclear, NONE, chosen(law, generator)), boundary * unclear
        if bar is not None:
            source = Seeded(int(generator.integers(2**32)))
            noisy = votes.max(axis=1) + discrete_laplace(source, 2 / size, len(votes))
            labels, paid = np.where(noisy >= bar, labels, NONE), np.where(noisy >= bar, paid, low)
        return until(labels, paid, float(filter_.capacity.main))

    return label


def draws(budget: Budget, hits: int, options: int) -> Labelling:
    """`Classify(hits=...)`: two draws by how far the first is ahead; what differs is paid."""
    filter_ = RenyiFilter.best(budget)
    price = Fraction(filter_.capacity.main // hits, filter_.steps)
    table = draw_table(SharpTest(filter_.order, price), options, 2)

    def label(votes: Votes, generator: np.random.Generator) -> Votes:
        ordered = np.sort(votes, axis=1)
        lead = ordered[:, -1] - ordered[:, -2]
        kept = np.array([float(table.hit_chance(int(depth))) for depth in range(int(lead.max()) + 1)])[lead]
        pair = [
            np.where(generator.random(len(votes)) < kept, winners(votes), generator.integers(0, options, len(votes)))
            for _ in range(2)
        ]
        labels = np.where(pair[0] == pair[1], pair[0], NONE)
        return until(labels, (labels == NONE).astype(np.float64), hits)

    return label


def confident(budget: Budget, share: float, part: float, *, reported: bool) -> Labelling:
    """Confident-GNMax: threshold and both sigmas by the number of voters; `reported` has no guarantee."""
    epsilon, delta = budget.exact

    def label(votes: Votes, generator: np.random.Generator) -> Votes:
        voters = int(votes[0].sum())
        sigma = max(1, round(part * voters))
        gnmax, source = ConfidentGnmax(round(share * voters), 2 * sigma, sigma), Seeded(int(generator.integers(2**32)))
        run = partial(label_as_reported, gnmax) if reported else gnmax.label
        found = run(votes, epsilon=epsilon, delta=delta, unsafe_noise=source)
        labels = np.full(found.asked, NONE)
        labels[list(found.labels)] = list(found.labels.values())
        return labels

    return label


def ways(budget: Budget, questions: int, options: int, voters: int) -> dict[str, list[Labelling]]:
    """Every way with the settings it may be run with."""
    epsilon, delta = (float(part) for part in budget.exact)
    promise = Promise(epsilon, delta, questions)
    counts = [hits for hits in FAILURES if hits <= questions]
    planned = [Promise(epsilon, delta, few) for few in (*counts, questions)]
    stable = [DistanceToInstability(promise, hits).label for hits in counts]
    published = [DistanceToInstability(promise, hits, published=True).label for hits in counts]
    grid = [(share, part) for share in SHARES for part in SIGMAS]
    return {
        "chary: every label": [every(budget, size) for size in PAID],
        "chary: clear labels": [clear(budget, size) for size in FREE],
        "chary: agreement first": [clear(budget, size, math.ceil(0.6 * voters)) for size in FREE],
        "chary: two draws": [draws(budget, hits, options) for hits in counts[1:]],
        "Confident-GNMax, worst case": [confident(budget, *pair, reported=False) for pair in grid],
        "Confident-GNMax, data-dependent*": [confident(budget, *pair, reported=True) for pair in grid],
        "propose-test-release, Laplace": [ProposeTestRelease(few, gaussian=False).label for few in planned],
        "propose-test-release, Gaussian": [ProposeTestRelease(few, gaussian=True).label for few in planned],
        "distance, sparse vector, published": published,
        "distance, sparse vector, tuned": stable,
        "limit: exact majority": [lambda votes, generator: winners(votes)],
    }
