"""Choosing a model privately: the search that pays only for what it publishes, beside its peers, on the Adult census.

Run as `python benchmarks/model_selection.py`; it needs the data set beside the project. Everyone has the same total
budget and the same learner; each run holds other rows back for testing. Noise is seeded.

- ours: every candidate once, the best published (`PrivateSearch`), the largest epsilon of which one hit fits.
- composed: every candidate is a release; the best of them is post-processing. With Laplace noise, and with Gaussian
  noise, for which many counts of one row are cheaper.
- random stopping: a random candidate again and again, stopping by a coin after each; the best so far is published
  (Liu and Talwar 2019): 3 epsilon-DP, pure, however many run.
- fixed: one candidate gets the whole epsilon and all rows, without a search.
"""

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

import chary
from chary.accounting import Event, Extendable, Pure, ZeroConcentrated
from chary.data import Neighbouring
from chary.filters import Budget, RenyiFilter
from chary.learning.candidate import Candidate
from chary.learning.counting_bayes import CountingBayes
from chary.learning.features import Categories, Cells, Cuts, Feature, Span
from chary.learning.search import PrivateSearch
from chary.mechanisms import Additive, Gaussian
from chary.noise import Seeded
from measuring import announce, seconds, show

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
DELTA = Fraction(1, 10**6)
SETTINGS = ((12, Fraction(1)), (48, Fraction(1)), (48, Fraction(1, 2)), (240, Fraction(1)))
RUNS = 10
TESTED = 8_842
LABEL = "income"
CLASSES = ("<=50K", ">50K")
NO_NOISE = 10**6
LISTED = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
GAINS = ["capital_gain", "capital_loss"]
USES = (
    ["age"],
    ["relationship"],
    ["education_num"],
    ["relationship", "education_num"],
    ["education_num", "capital_gain"],
    ["relationship", "capital_gain"],
    ["relationship", "education_num", "capital_gain"],
    ["relationship", "education_num", *GAINS],
    ["relationship", "education_num", "occupation", *GAINS],
    ["marital_status", "education_num", "age", *GAINS],
    ["age", "hours_per_week", "education_num", *GAINS],
    None,
)
GRIDS = {
    12: {"use": USES, "bins": [8]},
    48: {"use": USES, "bins": [4, 16], "smoothing": [1, 100]},
    240: {"use": USES, "bins": [2, 4, 8, 16], "smoothing": [1, 3, 10, 30, 100]},
}
USUAL = {"use": None, "bins": 8, "smoothing": 1}
HITS = (1, 2, 3, 5, 10, 20, 50)
SIZES = (12, 48, 240, 1000)
COUNTED = 6
MEAN_RUNS = 5
SPLIT = {"validation": "0.25", "baseline": "0.8"}
Hyper = dict[str, object]


class Task:
    """Private rows and rows to test on, drawn anew for each run."""

    def __init__(self, people: pl.DataFrame, run: int) -> None:
        order = np.random.default_rng(run).permutation(len(people))
        self.tests, self.rows = people[order[:TESTED]], people[order[TESTED:]]
        self.arrow, self.run = self.rows.to_arrow(), run
        self.learner = CountingBayes(features(people), classes=CLASSES, epsilon=None)

    def accuracy(self, model: CountingBayes) -> float:
        return float(np.mean(model.predict(self.tests) == self.tests[LABEL].to_numpy()))

    def candidates(self, grid: Hyper, epsilon: Fraction | int) -> list[Candidate]:
        search = PrivateSearch(self.learner, grid, label=LABEL, epsilon=epsilon, **SPLIT)
        return search._candidates(Neighbouring("add/remove", None))

    def best(self, candidates: list[Candidate], source: Seeded) -> float:
        """The accuracy of the candidate that scores best."""
        outcomes = [(candidate, *candidate.run(self.arrow, source)) for candidate in candidates]
        candidate, _, state = max(outcomes, key=lambda outcome: outcome[1])
        return self.accuracy(candidate.restored(state))


def features(people: pl.DataFrame) -> list[Feature]:
    """Public bounds, cut points and lists; the lists are those of the census form."""
    numbers = [Span("age", 15, 95), Span("hours_per_week", 0, 100), Span("education_num", "0.5", "16.5")]
    cuts = [Cuts("capital_gain", [1, 3000, 5000, 7000, 10000]), Cuts("capital_loss", [1, 1500, 1800, 2000])]
    return [*numbers, *cuts, *(Categories(column, sorted(set(people[column]))) for column in LISTED)]


def ours(task: Task, grid: Hyper, budget: Budget) -> float:
    epsilon = largest_of(budget, 1, Extendable)
    options = {"ledger": ":memory:", "grain": epsilon, "unsafe_noise": Seeded(task.run)}
    with chary.open(task.rows, privacy_unit=None, budget=budget, **options) as session:
        search = PrivateSearch(task.learner, grid, label=LABEL, epsilon=epsilon, progress=False, **SPLIT)
        return task.accuracy(search.run(session).best.model)


def composed(task: Task, grid: Hyper, budget: Budget) -> float:
    epsilon = largest_of(budget, size(grid), Pure)
    return task.best(task.candidates(grid, epsilon), Seeded(task.run))


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


def composed_gaussian(task: Task, grid: Hyper, budget: Budget) -> float:
    rho = largest_of(budget, size(grid), ZeroConcentrated)
    candidates = []
    for candidate in task.candidates(grid, rho):
        learner = GaussianBayes(**candidate.learner.get_params())
        candidates.append(GaussianCandidate(**vars(candidate) | {"learner": learner}))
    return task.best(candidates, Seeded(task.run))


def random_stopping(task: Task, grid: Hyper, budget: Budget) -> float:
    """In the mean, every candidate runs `MEAN_RUNS` times."""
    generator, candidates = np.random.default_rng(task.run), task.candidates(grid, Fraction(budget.epsilon) / 3)
    runs = generator.geometric(1 / (MEAN_RUNS * len(candidates)))
    drawn = [candidates[place] for place in generator.integers(len(candidates), size=runs)]
    return task.best(drawn, Seeded(task.run))


def fixed(hyper: Hyper | None) -> Callable[[Task, Hyper, Budget], float]:
    """One candidate, or a random one of the grid."""

    def run(task: Task, grid: Hyper, budget: Budget) -> float:
        chosen = hyper or hypers(grid)[np.random.default_rng(task.run).integers(size(grid))]
        model = CountingBayes(task.learner.features, classes=CLASSES, epsilon=budget.epsilon, source=Seeded(task.run))
        return task.accuracy(model.set_params(**chosen).fit(task.rows, task.rows[LABEL]))

    return run


def without_noise(task: Task, grid: Hyper, budget: Budget) -> float:
    return task.best(task.candidates(grid, NO_NOISE), Seeded(task.run))


PEERS: dict[str, Callable[[Task, Hyper, Budget], float]] = {
    "ours: one hit": ours,
    "composed, Laplace": composed,
    "composed, Gaussian": composed_gaussian,
    "random stopping": random_stopping,
    "fixed: all columns": fixed(USUAL),
    "fixed: a random candidate": fixed(None),
    "search without noise": without_noise,
}


def size(grid: Hyper) -> int:
    return len(hypers(grid))


def hypers(grid: Hyper) -> list[Hyper]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def largest_of(budget: Budget, times: int, event: Callable[[Fraction], Event]) -> Fraction:
    """The largest epsilon, to three digits, of which so many events fit at the best order; misses are to be free."""
    low, high = (Fraction(edge, 10**9) for edge in (1, 10**9))
    while high > low * Fraction(1003, 1000):
        middle = Fraction(f"{math.sqrt(low * high):.6g}")
        low, high = (middle, high) if fitting(budget, middle, event) >= times else (low, middle)
    return low


def fitting(budget: Budget, epsilon: Fraction, event: Callable[[Fraction], Event]) -> int:
    grain = epsilon if event is Extendable else None
    filter_ = RenyiFilter.best(budget, grain=grain)
    price = filter_.price(event(epsilon))
    free = price.free_miss or event is not Extendable
    return (price.hit.copies_in(filter_.capacity) or 0) if free else 0


def deviations(budget: Budget) -> Iterator[list[str]]:
    """The noise of each count of a model of five columns, by how many models are published by searches of their own."""
    total = budget.exact[0]
    for hits in HITS:
        mine = largest_of(budget, hits, Extendable)
        stopped = max(total / 3 / hits, largest_of(budget, hits, Pure) / 3)
        composed = [best_composed(budget, hits * number) for number in SIZES]
        laplace = [math.sqrt(2) * COUNTED / float(epsilon) for epsilon in (mine, stopped)]
        yield [str(hits), f"{float(mine):.4f}", *(f"{deviation:.0f}" for deviation in (*laplace, *composed))]


def best_composed(budget: Budget, times: int) -> float:
    """The less noise of Laplace and Gaussian."""
    epsilon, rho = (float(largest_of(budget, times, event)) for event in (Pure, ZeroConcentrated))
    return min(math.sqrt(2) * COUNTED / epsilon, math.sqrt(COUNTED / (2 * rho)))


def prices(budget: Budget) -> Iterator[list[str]]:
    """What a published model costs, for some epsilons, when the filter is tuned for it."""
    for epsilon in map(Fraction, ("0.01", "0.02", "0.03", "0.04", "0.05")):
        filter_ = RenyiFilter.best(budget, grain=epsilon)
        price = filter_.price(Extendable(epsilon))
        share = price.hit.main / filter_.capacity.main
        yield [
            f"{float(epsilon):g}",
            f"{float(filter_.order):g}",
            f"{share:.1%}",
            "free" if price.free_miss else "same",
        ]


def main() -> None:
    if not ADULT.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project\n")
        return
    announce()
    people = pl.read_csv(ADULT)
    unit = Budget(1, DELTA)
    show("a hit's price, budget epsilon 1", ["epsilon each", "order", "of the budget", "a miss"], prices(unit))
    headings = ["models published", "our epsilon", "ours", "stopping", *(f"{number} composed" for number in SIZES)]
    show("standard deviation of a count, five columns, budget epsilon 1", headings, deviations(unit))
    tasks = [Task(people, run) for run in range(RUNS)]
    for number, epsilon in SETTINGS:
        rows = []
        for name, peer in PEERS.items():
            found: list[float] = []
            grid, budget = GRIDS[number], Budget(epsilon, DELTA)
            taken = seconds(lambda: found.extend(peer(task, grid, budget) for task in tasks))  # noqa: B023
            each = [f"{100 * figure:.2f}" for figure in (np.mean(found), np.std(found, ddof=1), min(found))]
            rows.append([name, *each, f"{taken / RUNS:.2f} s"])
        caption = f"{RUNS} runs; accuracy on {TESTED:,} rows held back, in %"
        title = f"{number} candidates, budget epsilon {float(epsilon):g}"
        show(title, ["", "mean", "spread", "least", "a run"], rows, caption)


if __name__ == "__main__":
    main()
