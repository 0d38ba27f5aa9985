"""Choosing a model privately: the search that pays only for what it publishes, beside its peers, on the Adult census.

Run as `python benchmarks/model_selection.py [--full]`; it needs the data set beside the project. Everyone has the same
total budget, from which so many searches of the same size are to be paid, and the same learner; each run holds other
rows back for testing. Noise is seeded.

- ours, the best: every candidate once, the best published (`PrivateSearch`), the largest epsilon of which a hit for
  each search fits.
- ours, above a bar: all whose accuracy reaches it, until the hits run out; the best of them. At least three hits.
- composed: every candidate is a release; the best of them is post-processing. With Laplace noise, and with Gaussian
  noise, for which many counts of one row are cheaper.
- random stopping: a random candidate again and again, stopping by a coin after each; the best so far is published
  (Liu and Talwar 2019): 3 epsilon-DP, pure, however many run.
- no search: all columns in 8 bins, the whole epsilon and all rows.
- no noise: the search that is not private.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

import chary
from chary.accounting import Event, Extendable, Pure, Targeted, ZeroConcentrated
from chary.data import NeighborRelation
from chary.filters import Budget, RenyiFilter
from chary.learning.estimators import CountingBayes
from chary.learning.features import Categorical, Cells, Cuts, Feature, Span
from chary.learning.search import Candidate, PrivateSearch
from chary.mechanisms import Additive, Gaussian
from chary.noise import Seeded
from measuring import announce, full, seconds, show

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
DELTA = Fraction(1, 10**6)
SETTINGS = ((48, 1, 1), (48, 2, 1), (48, 1, 20), (120, 1, 20)) if full() else ((48, 1, 1), (48, 1, 20))
RUNS = 5 if full() else 2
TESTED = 8_842
LABEL = "income"
CLASSES = ("<=50K", ">50K")
NO_NOISE = 10**6
CAPTION = f"{RUNS} runs; accuracy on {TESTED:,} rows held back, in %; the search without noise is timed elsewhere"
LISTED = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
GAINS = ["capital_gain", "capital_loss"]
BEST = ["relationship", "education_num", "capital_gain"]
USES = (
    *(["age"], ["relationship"], ["education_num"], *map(list, combinations(BEST, 2)), BEST),
    ["relationship", "education_num", *GAINS],
    ["relationship", "education_num", "occupation", *GAINS],
    ["marital_status", "education_num", "age", *GAINS],
    ["age", "hours_per_week", "education_num", *GAINS],
    None,
)
GRIDS = {
    48: {"use": USES, "bins": [4, 16], "smoothing": [1, 100]},
    120: {"use": USES, "bins": [2, 4, 8, 12, 16], "smoothing": [1, 100]},
}
HITS = (1, 2, 3, 5, 10, 20, 50)
SIZES = (12, 48, 120, 1000)
COUNTED = 6
MEAN_RUNS = 2
BAR = "0.83"
LEAST_ABOVE = 3
SPLIT = {"validation": "0.25", "baseline": "0.8"}


class Setting(NamedTuple):
    """A grid, and the budget of so many searches of it."""

    number: int
    epsilon: int
    searches: int

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, DELTA)


class Task:
    """Private rows and rows to test on, drawn anew for each run."""

    def __init__(self, people: pl.DataFrame, run: int) -> None:
        order = np.random.default_rng(run).permutation(len(people))
        self.tests, self.rows = people[order[:TESTED]], people[order[TESTED:]]
        self.arrow, self.run = self.rows.to_arrow(), run
        self.learner = CountingBayes(features(people), classes=CLASSES, epsilon=None)

    def accuracy(self, model: CountingBayes | None) -> float:
        """Its share of right answers; without a model, that of the first class."""
        predicted = CLASSES[0] if model is None else model.predict(self.tests)
        return float(np.mean(predicted == self.tests[LABEL].to_numpy()))

    def candidates(self, number: int, epsilon: Fraction | int) -> list[Candidate]:
        search = PrivateSearch(self.learner, GRIDS[number], label=LABEL, epsilon=epsilon, **SPLIT)
        return search._candidates(NeighborRelation("add_remove", None))

    def best(self, candidates: list[Candidate], source: Seeded) -> float:
        """The accuracy of the candidate that scores best."""
        outcomes = [(candidate, *candidate.run(self.arrow, source)) for candidate in candidates]
        candidate, _, state = max(outcomes, key=lambda outcome: outcome[1])
        return self.accuracy(candidate.restored(state))

    def searched(self, setting: Setting, epsilon: Fraction, **rule: object) -> float:
        """The accuracy of the best model that a session's search publishes."""
        options = {"ledger": ":memory:", "grain": epsilon, "unsafe_noise": Seeded(self.run)}
        with chary.open(self.rows, privacy_unit=None, budget=setting.budget, **options) as session:
            search = PrivateSearch(
                self.learner, GRIDS[setting.number], label=LABEL, epsilon=epsilon, progress=False, **rule
            )
            best = search.run(session).best
        return self.accuracy(None if best is None else best.model)


def features(people: pl.DataFrame) -> list[Feature]:
    """Public bounds, cut points and lists; the lists are those of the census form."""
    numbers = [Span("age", 15, 95), Span("hours_per_week", 0, 100), Span("education_num", "0.5", "16.5")]
    cuts = [Cuts("capital_gain", [1, 3000, 5000, 7000, 10000]), Cuts("capital_loss", [1, 1500, 1800, 2000])]
    return [*numbers, *cuts, *(Categorical(column, sorted(set(people[column]))) for column in LISTED)]


def ours(task: Task, setting: Setting) -> float:
    return task.searched(setting, largest_of(setting.budget, setting.searches, Extendable), **SPLIT)


def ours_above(task: Task, setting: Setting) -> float:
    epsilon = largest_of(setting.budget, max(setting.searches, LEAST_ABOVE), Targeted)
    return task.searched(setting, epsilon, k=None, above=0, **SPLIT | {"baseline": BAR})


def composed(task: Task, setting: Setting) -> float:
    epsilon = largest_of(setting.budget, setting.searches * setting.number, Pure)
    return task.best(task.candidates(setting.number, epsilon), Seeded(task.run))


class GaussianBayes(CountingBayes):
    """The same learner with Gaussian noise; its `epsilon` is the rho of zero-concentrated DP."""

    def _noisy(self, counts: Cells) -> Cells:
        additive = Gaussian.for_rho(self.epsilon, l2_squared=1 + len(self.columns))
        return np.maximum(additive.apply(counts, self.source), 0)


class GaussianCandidate(Candidate):
    """The same candidate; its `epsilon` is rho, for training as well as for the score."""

    @property
    def noise(self) -> Additive:
        return Gaussian.for_rho(self.epsilon, l2_squared=max(map(abs, self._gains)) ** 2)


def composed_gaussian(task: Task, setting: Setting) -> float:
    rho = largest_of(setting.budget, setting.searches * setting.number, ZeroConcentrated)
    candidates = []
    for candidate in task.candidates(setting.number, rho):
        learner = GaussianBayes(**candidate.learner.get_params())
        candidates.append(GaussianCandidate(**vars(candidate) | {"learner": learner}))
    return task.best(candidates, Seeded(task.run))


def random_stopping(task: Task, setting: Setting) -> float:
    """In the mean, every candidate runs `MEAN_RUNS` times."""
    generator = np.random.default_rng(task.run)
    candidates = task.candidates(setting.number, largest_pure(setting) / 3)
    runs = generator.geometric(1 / (MEAN_RUNS * len(candidates)))
    drawn = [candidates[place] for place in generator.integers(len(candidates), size=runs)]
    return task.best(drawn, Seeded(task.run))


def unsearched(task: Task, setting: Setting) -> float:
    usual = {"bins": 8, "epsilon": largest_pure(setting), "source": Seeded(task.run)}
    return task.accuracy(clone(task.learner).set_params(**usual).fit(task.rows, task.rows[LABEL]))


@cache
def unnoised(task: Task, number: int) -> float:
    return task.best(task.candidates(number, NO_NOISE), Seeded(task.run))


PEERS: dict[str, Callable[[Task, Setting], float]] = {
    "ours, the best": ours,
    f"ours, above {float(BAR):.0%}": ours_above,
    "composed, Laplace": composed,
    "composed, Gaussian": composed_gaussian,
    "random stopping": random_stopping,
    "no search": unsearched,
    "no noise": lambda task, setting: unnoised(task, setting.number),
}


@cache
def largest_of(budget: Budget, times: int, event: Callable[[Fraction], Event]) -> Fraction:
    """The largest epsilon, to three digits, of which so many events fit at the best order; misses are to be free."""
    low, high = (Fraction(edge, 10**9) for edge in (1, 10**9))
    while high > low * Fraction(1003, 1000):
        middle = Fraction(f"{math.sqrt(low * high):.6g}")
        low, high = (middle, high) if fitting(budget, middle, event) >= times else (low, middle)
    return low


def fitting(budget: Budget, epsilon: Fraction, event: Callable[[Fraction], Event]) -> int:
    selects = event in (Extendable, Targeted)
    filter_ = RenyiFilter.best(budget, grain=epsilon if selects else None)
    price = filter_.price(event(epsilon))
    return (price.hit.copies_in(filter_.capacity) or 0) if price.free_miss or not selects else 0


def largest_pure(setting: Setting) -> Fraction:
    """The largest epsilon of one pure release for each search: added up, or by Renyi order."""
    added = Fraction(setting.epsilon, setting.searches)
    return max(added, largest_of(setting.budget, setting.searches, Pure))


def deviations(budget: Budget) -> Iterator[list[str]]:
    """The noise of each count of a model of five columns, by how many models are published by searches of their own."""
    for hits in HITS:
        mine = largest_of(budget, hits, Extendable)
        stopped = largest_pure(Setting(1, int(budget.exact[0]), hits)) / 3
        composed = [best_composed(budget, hits * number) for number in SIZES]
        laplace = [math.sqrt(2) * COUNTED / float(epsilon) for epsilon in (mine, stopped)]
        yield [str(hits), f"{float(mine):.4f}", *(f"{deviation:.0f}" for deviation in (*laplace, *composed))]


def best_composed(budget: Budget, times: int) -> float:
    """The less noise of Laplace and Gaussian."""
    epsilon, rho = (float(largest_of(budget, times, event)) for event in (Pure, ZeroConcentrated))
    return min(math.sqrt(2) * COUNTED / epsilon, math.sqrt(COUNTED / (2 * rho)))


def compared(tasks: list[Task], setting: Setting) -> Iterator[list[str]]:
    """A line for each way."""
    for name, peer in PEERS.items():
        found: list[float] = []
        taken = seconds(lambda: found.extend(peer(task, setting) for task in tasks))  # noqa: B023
        behind = np.subtract([unnoised(task, setting.number) for task in tasks], found)
        each = [f"{100 * function(figures):.2f}" for figures in (found, behind) for function in (np.mean, spread)]
        yield [name, *each, f"{taken / RUNS:.2f} s"]


def spread(figures: Sequence[float]) -> float:
    return float(np.std(figures, ddof=1))


def main() -> None:
    if not ADULT.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project\n")
        return
    announce()
    people = pl.read_csv(ADULT)
    headings = ["models published", "our epsilon", "ours", "stopping", *(f"{number} composed" for number in SIZES)]
    show("standard deviation of a count, five columns, budget epsilon 1", headings, deviations(Budget(1, DELTA)))
    tasks = [Task(people, run) for run in range(RUNS)]
    for setting in (Setting(*numbers) for numbers in SETTINGS):
        title = f"candidates: {setting.number}, budget epsilon: {setting.epsilon}, searches: {setting.searches}"
        show(title, ["", "accuracy", "spread", "behind no noise", "spread", "a run"], compared(tasks, setting), CAPTION)


if __name__ == "__main__":
    main()
