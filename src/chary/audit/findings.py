"""What audits find: the epsilon claimed, and what exact distributions or the best event on transcripts show."""

import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from chary.audit.enumeration import LOST, Law

# What an audit found: what was claimed, what was shown, and what a weaker mechanism would have shown.


class Finding(NamedTuple):
    """A claim, what was found against it, and what shows it."""

    claimed: float
    delta: float
    measured: float
    event: str


@dataclass(frozen=True)
class Audited:
    """One audit.

    - `claimed`: the epsilon at `delta` that was promised, or charged; `measured`: the lower bound on it that was shown,
      wrong with probability 1e-6 at most, or exact where `exact`.
    - `power`: what the same audit shows of the same call with twice the epsilon, whose noise is half as large, while
      half of it is claimed. None where nothing weaker was given. An audit that does not catch it finds little.
    - `event`: what distinguished the neighbours; `transcripts` on each neighbour, and `seconds`, for both.
    """

    kind: str
    claimed: float
    delta: float
    measured: float
    power: float | None
    exact: bool
    event: str
    transcripts: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing was shown against the claim."""
        # Exact figures are floats with hundreds of roundings in them.
        return self.measured <= self.claimed * (1 + ROUNDINGS)

    @property
    def caught(self) -> bool | None:
        """Whether noise half as large would have been caught; None where it was not tried."""
        return None if self.power is None else self.power > self.claimed * (1 + ROUNDINGS)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name; what no number says is None."""
        told = asdict(self) | {"passed": self.passed, "caught": self.caught}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in told.items()
        }


ROUNDINGS = 1e-9

# What two exact distributions show: the least epsilon that holds, and the least price of a hit that pays.


def exact_epsilon(here: Law, there: Law, delta: float = 0) -> tuple[float, str]:
    """The least epsilon at which two distributions are (epsilon, delta)-indistinguishable, either way, and an outcome
    that shows it. What was lost counts against what is shown, so no smaller epsilon holds, and hardly a larger one is
    needed.

    >>> round(exact_epsilon({"yes": 0.5, "no": 0.5}, {"yes": 0.25, "no": 0.75})[0], 4)
    0.6931
    """
    found = [_one_way(first, second, delta) for first, second in ((here, there), (there, here))]
    return max(found)


def _one_way(here: Law, there: Law, delta: float) -> tuple[float, str]:
    """Outcomes in order of their likelihood ratios; the best event is a beginning of that."""
    lost = max(here.get(LOST, 0.0), there.get(LOST, 0.0))
    names = [name for name in here if name != LOST]
    chances = np.array([[here[name], there.get(name, 0.0) + lost] for name in names])
    if not len(chances):
        return 0.0, "nothing"
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(chances[:, 0]) - np.log(chances[:, 1])))
        sums = chances[order].cumsum(axis=0) if delta else chances[order]
        shown = np.where(sums[:, 0] > delta, np.log(np.maximum(sums[:, 0] - delta, 0)) - np.log(sums[:, 1]), -np.inf)
    top = int(np.argmax(shown))
    return max(0.0, float(shown[top])), names[order[top]]


def needed_price(here: Law, there: Law, order: float, miss_price: float = 0) -> tuple[float, str]:
    """The least cost of a hit that pays for the first distribution over the second at one Renyi order, and what shows
    it.

    Outcomes are `[answer, hit]`. A filter at that order is right where `E (p/q)^order e^-charged <= 1` over q, with
    what each outcome is charged; infinite where misses alone break that. Probabilities that are too low here or too
    high there only make it smaller.

    >>> round(needed_price({"[1,1]": 0.25, "[0,0]": 0.75}, {"[1,1]": 0.3, "[0,0]": 0.7}, 2)[0], 4)
    0.0588
    """
    moments, lost = {True: 0.0, False: 0.0}, there.get(LOST, 0.0)
    for outcome in (here.keys() | there.keys()) - {LOST}:
        p, q = here.get(outcome, 0.0), there.get(outcome, 0.0) + lost
        if p > 0:
            moments[json.loads(outcome)[1] > 0] += math.inf if q == 0 else q * (p / q) ** order
    left = 1 - moments[False] * math.exp(-miss_price)
    if left <= 0:
        return math.inf, "misses"
    return (max(0.0, math.log(moments[True] / left)) if moments[True] > 0 else 0.0), "hits and misses"


# What counts of one event on two neighbours prove about epsilon.

Floats = NDArray[np.float64]
# A bound that is reported as shown is wrong in at most one of a million audits.
ALPHA = 1e-6


def epsilon_shown(
    here: ArrayLike, there: ArrayLike, runs: tuple[int, int], delta: float = 0, alpha: float = ALPHA
) -> Floats:
    """The smallest epsilon at which transcripts can be (epsilon, delta)-DP that were in an event so often.

    `here` and `there` count how many of `runs` were in the event on either neighbour. With probability 1 - alpha the
    transcripts are not (epsilon, delta)-DP for anything smaller. Both probabilities are bounded at once (Clopper and
    Pearson 1934), and it is `ln((p - delta)/q)` of the lower bound here and the upper there; -inf where nothing is
    shown. The event must be chosen without the transcripts that are counted.

    >>> [round(float(epsilon_shown(hits, 100, (1000, 1000))), 2) for hits in (100, 500, 1000)]
    [-0.94, 1.01, 1.86]
    """
    low = lower_chance(here, runs[0], alpha / 2) - delta
    high = upper_chance(there, runs[1], alpha / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(low > 0, np.log(np.maximum(low, 0)) - np.log(high), -np.inf))


def lower_chance(counts: ArrayLike, runs: int, alpha: float) -> Floats:
    """A probability is at least this with probability 1 - alpha, after this many successes."""
    found: Any = np.asarray(counts)
    return np.where(found > 0, beta.ppf(alpha, np.maximum(found, 1), runs - found + 1), 0.0)


def upper_chance(counts: ArrayLike, runs: int, alpha: float) -> Floats:
    """A probability is at most this, likewise.

    >>> float(upper_chance(0, 100, 0.05).round(3)), float(lower_chance(100, 100, 0.05).round(3))
    (0.03, 0.97)
    """
    found: Any = np.asarray(counts)
    return np.where(found < runs, beta.ppf(1 - alpha, found + 1, np.maximum(runs - found, 1)), 1.0)


# Published outcomes as rows of numbers, so that events can be chosen among them.

Matrix = NDArray[np.float64]
Outcomes = Sequence[Any]
# Longer outcomes are told apart by their first numbers and by their text as a whole.
WIDEST = 256
# Texts and whole outcomes are told apart by 32 bits of a checksum: for two to collide by probability costs an attack
# power, and proves nothing wrong.


def matrices(here: Outcomes, there: Outcomes) -> tuple[Matrix, Matrix]:
    """The outcomes of either neighbour as rows of numbers, one column meaning the same in both.

    For each number in an outcome there is the number. Where one is missing in some outcomes, there is whether it is
    there. Where floats are no integers, there is how many binary digits follow the point, in which careless noise
    shows. Columns that are alike everywhere are left out.

    >>> matrices([{"value": 2}, {"value": None}], [{"value": 3}, {"value": 3}])[0].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    flat = [list(_numbers(outcome)) for outcome in (*here, *there)]
    width = max(map(len, flat), default=0)
    if width > WIDEST or not width:
        flat = [[*numbers[:WIDEST], _checksum(outcome)] for numbers, outcome in zip(flat, (*here, *there), strict=True)]
        width = min(width, WIDEST) + 1
    columns = [column for place in range(width) for column in _columns([_at(row, place) for row in flat])]
    varied = [column for column in columns if np.ptp(column)] or [np.zeros(len(flat))]
    found = np.stack(varied, axis=1)
    return found[: len(here)], found[len(here) :]


def _numbers(value: Any) -> Iterator[float | int | None]:
    """All that an outcome says, one number after the other, in an order that follows from its form."""
    if value is None or isinstance(value, (int, float)):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers(part)
    else:
        yield float(zlib.crc32(str(value).encode()))


def _at(row: Sequence[float | int | None], place: int) -> float | int | None:
    return row[place] if place < len(row) else None


def _columns(values: Sequence[float | int | None]) -> Iterator[Matrix]:
    """The columns of one number."""
    yield np.array([value is not None for value in values], dtype=np.float64)
    yield np.array([0.0 if value is None else _float(value) for value in values])
    if any(isinstance(value, float) and not value.is_integer() for value in values):
        yield np.array([_digits(value) for value in values], dtype=np.float64)


def _float(value: float | int) -> float:
    """The nearest float; integers beyond all floats are as far away as any."""
    return float(max(-(2**1000), min(2**1000, value))) if isinstance(value, int) else value


def _digits(value: float | int | None) -> int:
    """Binary digits after the point."""
    finite = isinstance(value, float) and abs(value) < float("inf")
    return value.as_integer_ratio()[1].bit_length() - 1 if finite and isinstance(value, float) else 0


def _checksum(outcome: Any) -> float:
    return float(zlib.crc32(json.dumps(outcome, sort_keys=True, default=str).encode()))


# The event that tells two neighbours apart best: chosen on one half of the transcripts, counted on the other.

# Thresholds that are tried for each score. More of them find little, and each may be chosen by chance.
BARS = 200
# A distribution with more outcomes than this is no list of outcomes but a vector.
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

    A quarter of them teaches what distinguishes the neighbours. It is each number by itself, the ratio of the
    frequencies where few outcomes are possible, and two learned classifiers if scikit-learn is there. A quarter chooses
    one of these scores and a threshold for it. With the other half, which chose nothing, that one event is counted.

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
    """The best event of one score: at or above a threshold, on either of the neighbours."""
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
