"""The event that tells two neighbours apart best: chosen on one half of the transcripts, counted on the other."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary.audit.auditing.outcome_numbers import Matrix
from chary.audit.auditing.shown_bounds import ALPHA, Floats, epsilon_shown

# Bars that are tried for each score. More find little more, and each is one more event chosen by chance.
BARS = 200
# A law with more outcomes than this is no list of outcomes but a vector.
MOST_OUTCOMES = 400
# Classifiers learn from no more transcripts than this, which takes them a second.
MOST_LEARNED = 10_000
# Added to the spread of a number, so that one that never varies divides nothing by 0.
TINY = 1e-12
Score = Callable[[Matrix], Floats]


@dataclass(frozen=True)
class Proof:
    """A lower bound on epsilon, and the event that showed it: a score of at least `bar`, on the first neighbour more
    often than on the second unless `swapped`."""

    epsilon: float
    score: str
    bar: float
    swapped: bool


def most_shown(here: Matrix, there: Matrix, delta: float = 0, alpha: float = ALPHA) -> Proof:
    """The largest epsilon that these transcripts prove, with probability 1 - alpha.

    A quarter of them teaches what tells the neighbours apart: each number by itself, the ratio of the frequencies where
    few outcomes are possible, and two learned classifiers where scikit-learn is there. A quarter chooses one of these
    scores and a bar for it. With the other half, which chose nothing, that one event is counted.

    >>> rng = np.random.default_rng(1)
    >>> samples = [rng.laplace(centre, 1, (40_000, 1)) for centre in (1, 0)]
    >>> 0.85 < most_shown(*samples).epsilon <= 1
    True
    """
    parts = [(*np.split(side, [len(side) // 4, len(side) // 2]),) for side in (here, there)]
    learn, choose, confirm = zip(*parts, strict=True)
    best, chosen = Proof(-np.inf, "none", 0.0, False), None
    for name, score in _scores(*learn):
        found = _best_bar(name, score(choose[0]), score(choose[1]), delta, alpha)
        if found.epsilon > best.epsilon:
            best, chosen = found, score
    if chosen is None:
        return best
    scored = [chosen(side) for side in (confirm[::-1] if best.swapped else confirm)]
    first, second = (np.count_nonzero(side >= best.bar) for side in scored)
    proved = epsilon_shown(first, second, (len(scored[0]), len(scored[1])), delta, alpha)
    return Proof(float(proved), best.score, best.bar, best.swapped)


def _best_bar(name: str, here: Floats, there: Floats, delta: float, alpha: float) -> Proof:
    """The best event of one score: at least a bar, either way round."""
    bars = np.unique(np.concatenate([here, there]))
    if len(bars) > BARS:
        bars = np.unique(np.quantile(bars, np.linspace(0, 1, BARS), method="nearest"))
    above = [len(side) - np.searchsorted(np.sort(side), bars) for side in (here, there)]
    best = Proof(-np.inf, name, 0.0, False)
    for swapped in (False, True):
        first, second = above[::-1] if swapped else above
        runs = (len(there), len(here)) if swapped else (len(here), len(there))
        proved = epsilon_shown(first, second, runs, delta, alpha)
        top = int(np.argmax(proved))
        if proved[top] > best.epsilon:
            best = Proof(float(proved[top]), name, float(bars[top]), swapped)
    return best


def _scores(here: Matrix, there: Matrix) -> Iterator[tuple[str, Score]]:
    """What may tell the neighbours apart, each with its name."""
    for place in range(here.shape[1]):
        yield f"number {place}", partial(_column, place, 1)
        yield f"minus number {place}", partial(_column, place, -1)
    rows = np.concatenate([here, there])
    outcomes, codes = np.unique(rows, axis=0, return_inverse=True)
    if len(outcomes) <= MOST_OUTCOMES:
        yield "frequencies", _frequencies(outcomes, codes.reshape(-1), len(here))
    elif here.shape[1] > 1:
        few = slice(None, None, -(-len(rows) // MOST_LEARNED))
        yield from _learned(rows[few], (np.arange(len(rows)) < len(here))[few])


def _column(place: int, sign: int, rows: Matrix) -> Floats:
    return sign * rows[:, place]


def _frequencies(outcomes: Matrix, codes: NDArray[Any], first: int) -> Score:
    """The logarithm of how much more frequent an outcome was here than there; 0 for one that was not seen."""
    counts = [np.bincount(part, minlength=len(outcomes)) + 0.5 for part in (codes[:first], codes[first:])]
    ratios = np.log(counts[0] / counts[1])
    known = {outcome.tobytes(): ratio for outcome, ratio in zip(outcomes, ratios, strict=True)}

    def score(rows: Matrix) -> Floats:
        return np.array([known.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(rows)])

    return score


def _learned(rows: Matrix, labels: NDArray[np.bool_]) -> Iterator[tuple[str, Score]]:
    """Two classifiers, a straight one and a crooked one; none without scikit-learn."""
    with suppress(ImportError):
        linear, trees = import_module("sklearn.linear_model"), import_module("sklearn.ensemble")
        # Threads of several audits at once would wait for each other.
        with import_module("threadpoolctl").threadpool_limits(1):
            centre, spread = rows.mean(axis=0), rows.std(axis=0) + TINY
            straight = linear.LogisticRegression(max_iter=500).fit((rows - centre) / spread, labels)
            crooked = trees.HistGradientBoostingClassifier(max_iter=40, random_state=0, early_stopping=False)
            crooked.fit(rows, labels)
            yield "linear classifier", lambda given: straight.decision_function((given - centre) / spread)
            yield "boosted trees", crooked.decision_function
