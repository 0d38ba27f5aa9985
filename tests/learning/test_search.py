"""A candidate's law by enumeration, coins included; what a search publishes, pays and survives."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chi2
from sklearn.base import BaseEstimator, ClassifierMixin

import chary
from chary import Algorithm, Budget
from chary.accounting import Extendable, Targeted
from chary.data import Neighbouring
from chary.errors import AlgorithmFailed, BudgetRefused, InvalidParameter
from chary.learning import candidate as candidate_module
from chary.learning.candidate import Candidate, one_row_each
from chary.learning.counting_bayes import CountingBayes
from chary.learning.features import Categories, Cuts, Span
from chary.learning.search import PrivateSearch
from chary.learning.stopping import random_stopping
from chary.mechanisms import Laplace
from chary.noise import OperatingSystem, Seeded

ADULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "adult_all.csv.gz"
ALPHA = 1e-6
EPSILON = Fraction(1, 2)
REACH = 60
NO_NOISE = Budget(epsilon=10**6, delta=1e-6)
USUAL = Budget(epsilon=1, delta=1e-6)
SECRET = 987654321


class Majority(ClassifierMixin, BaseEstimator):
    """The most frequent of two labels, or with `flip` the other one: what randomized response chooses between."""

    columns = ()

    def __init__(self, epsilon=None, relation="add/remove", source=None, flip=False, mode="fine"):
        self.epsilon, self.relation, self.source, self.flip, self.mode = epsilon, relation, source, flip, mode

    def fit(self, rows, labels):
        if self.mode == "raises":
            raise ValueError(f"cannot bear {SECRET}")
        ones = sum(labels.to_pylist())
        self.choice_ = int(2 * ones > len(labels)) ^ int(self.flip)
        return self

    def predict(self, rows):
        return np.full(2 if self.mode == "wrong shape" else len(rows), self.choice_)

    def state(self):
        return {"choice": math.nan if self.mode == "nan" else self.choice_}

    def restore(self, state):
        self.choice_ = state["choice"]
        return self

    def body(self):
        return {"learner": "majority", "mode": self.mode, "flip": self.flip}


def made(learner, relation="add/remove", unit=None, baseline="0.75", validation="0.3"):
    return Candidate(learner, "majority", "label", Neighbouring(relation, unit), EPSILON, validation, baseline)


def law_of(labels, relation, baseline, monkeypatch, scale=1):
    """The law of (choice, score in steps), the score's noise widened by `scale`."""
    rows = pa.table({"label": pa.array(labels, pa.int64())})
    share, right = 0.3, math.exp(EPSILON) / (1 + math.exp(EPSILON))
    law = np.zeros((2, 2 * REACH + 1))
    denominator = Fraction(baseline).denominator
    for coins in itertools.product([False, True], repeat=len(labels)):
        monkeypatch.setattr(candidate_module, "bernoulli", lambda *_, coins=coins: np.array(coins, dtype=bool))
        weight = share ** sum(coins) * (1 - share) ** (len(coins) - sum(coins))
        for flip, chance in ((False, right), (True, 1 - right)):
            tried = made(Majority(flip=flip), relation, baseline=baseline)
            score, state = tried.run(rows, OperatingSystem())
            away = np.abs(np.arange(-REACH, REACH + 1) - score * denominator)
            step = 1 / (float(tried.noise.scale) * scale)
            law[state["choice"]] += weight * chance * np.exp(-away * step) * math.tanh(step / 2)
    return law


@pytest.mark.parametrize("baseline", ["0", "0.5", "0.75", "1"])
@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_a_candidate_is_as_private_as_it_says(relation, baseline, monkeypatch):
    """All small datasets and all their neighbours; the coins, the model and the noise of the score are summed out."""
    monkeypatch.setattr(Laplace, "draw", lambda self, source, size: np.zeros(size, dtype=np.int64))
    sizes = range(4) if relation == "add/remove" else [3]
    datasets = [
        labels for size in sizes for labels in itertools.product([0, 1], repeat=size) if sorted(labels) == [*labels]
    ]
    laws = {labels: law_of(labels, relation, baseline, monkeypatch) for labels in datasets}
    tight = {labels: law_of(labels, relation, baseline, monkeypatch, scale=0.5) for labels in datasets}

    def worst(found):
        return max(np.abs(np.log(found[here] / found[there])).max() for here, there in neighbours(datasets, relation))

    assert all(law.sum() == pytest.approx(1, abs=1e-3) for law in laws.values())
    assert 0.5 * EPSILON < worst(laws) <= EPSILON + 1e-9
    assert worst(tight) > EPSILON


def neighbours(datasets, relation):
    """Pairs of sorted datasets that differ in one unit."""
    for here, there in itertools.permutations(datasets, 2):
        apart = abs(sum(here) - sum(there)), abs((len(here) - sum(here)) - (len(there) - sum(there)))
        if apart in ([(1, 1)] if relation == "replace" else [(0, 1), (1, 0)]):
            yield here, there


@pytest.mark.statistical
def test_one_row_of_each_unit_is_drawn_uniformly():
    """Three rows of one unit, among others; chi-squared at alpha 1e-6."""
    rows = pa.table({"unit": ["a", "b", "a", None, "a", "c", None], "row": range(7)})
    source, drawn = Seeded(1), np.zeros(7)
    for _ in range(6000):
        kept = one_row_each(rows, "unit", source)
        assert sorted(map(str, kept["unit"].to_pylist())) == ["None", "a", "b", "c"]
        drawn[kept["row"].to_numpy()] += 1
    assert drawn[[1, 5]].tolist() == [6000, 6000]
    assert ((drawn[[0, 2, 4]] - 2000) ** 2 / 2000).sum() < chi2.isf(ALPHA, 2)
    assert one_row_each(rows, None, source) is rows


def test_a_unit_with_many_rows_counts_once():
    rows = pa.table({"unit": ["a"] * 50 + ["b"], "label": [1] * 50 + [0]})
    learner = CountingBayes([Categories("unit", ["a", "b"])], classes=[0, 1], epsilon=1000)
    for seed in range(20):
        score, state = made(learner, unit="unit", baseline="0").run(rows, Seeded(seed))
        assert sum(state["counts"]) // 2 + score <= 2


def patients(size=20_000, seed=0):
    """Whether someone is ill depends on age in steps of ten years, and a little on sex."""
    generator = np.random.default_rng(seed)
    age, sex = generator.integers(0, 100, size), generator.integers(0, 2, size)
    ill = (age // 10 % 2 == 1) ^ (generator.random(size) < 0.05 + 0.1 * sex)
    frame = {"patient": np.arange(size), "age": age, "sex": np.array(["f", "m"])[sex], "ill": ill.astype(int)}
    return pd.DataFrame(frame)


GRID = {"bins": [1, 5, 10], "use": [["age"], ["sex"], ["age", "sex"]]}


def search(grid=GRID, learner=None, **options):
    usual = CountingBayes([Span("age", 0, 100), Categories("sex", ["f", "m"])], classes=[0, 1], epsilon=None)
    given = {"label": "ill", "epsilon": "0.05", "progress": False} | options
    return PrivateSearch(learner or usual, grid, **given)


@pytest.fixture
def opened():
    made = []

    def make(rows=None, **options):
        given = {"privacy_unit": "patient", "budget": USUAL, "ledger": ":memory:", "grain": "0.05"} | options
        made.append(chary.open(patients() if rows is None else rows, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_without_noise_it_is_the_exhaustive_search(opened, relation):
    rows = patients()
    session = opened(rows, budget=NO_NOISE, grain=None, relation=relation)
    result = search(epsilon=1000, k=9, baseline="0.9").run(session)
    truth = {}
    for bins, use in itertools.product(*GRID.values()):
        model = CountingBayes([Span("age", 0, 100), Categories("sex", ["f", "m"])], classes=[0, 1], epsilon=None)
        model.set_params(bins=bins, use=use).fit(rows, rows["ill"])
        truth[bins, tuple(use)] = (model.predict(rows) == rows["ill"]).mean() - 0.9
    for found in result.found:
        assert found.score == pytest.approx(5000 * truth[found.hyper["bins"], tuple(found.hyper["use"])], abs=250)
    best = max(truth, key=truth.get)
    assert best[0] == result.best.hyper["bins"] == 10
    assert result.best.model.counts_[:2].sum() == pytest.approx(15_000, abs=500)
    accuracy = (result.best.model.predict(rows) == rows["ill"]).mean() - 0.9
    assert accuracy == pytest.approx(max(truth.values()), abs=1e-3)


def test_the_best_one_costs_one_hit_whatever_the_size_of_the_grid(opened):
    session = opened()
    price = session.spine.filter.price(Extendable("0.02"))
    for number in (2, 40):
        result = search({"bins": [10], "smoothing": list(range(1, number + 1))}, epsilon="0.02").run(session)
        assert (result.candidates, result.tested, len(result.found)) == (number, number, 1)
        assert result.share == price.hit.main / session.spine.filter.capacity.main
    quoted = search(epsilon="0.02").quote(session)
    assert (quoted.candidates, quoted.if_published, quoted.if_not) == (9, result.share, 0.0)


def test_all_that_reach_the_bar(opened):
    session = opened(budget=Budget(epsilon=4, delta=1e-6))
    result = search(k=None, above=0).run(session)
    assert {found.hyper["bins"] for found in result.found} == {10}
    assert len(result.found) == 2
    assert result.best.score == max(found.score for found in result.found)
    hit = session.spine.filter.price(Targeted("0.05")).hit.main / session.spine.filter.capacity.main
    assert result.share == pytest.approx(2 * hit)


@pytest.mark.parametrize("k", [1, None])
def test_nothing_above_the_bar_is_free(opened, k):
    result = search(k=k, above=5000).run(opened())
    assert (result.best, result.found, result.share) == (None, (), 0.0)


def test_a_request_is_answered_once(opened):
    session = opened()
    first = search(epsilon="0.02").run(session, request="models")
    again = search(epsilon="0.02").run(session, request="models")
    assert again.best.hyper == first.best.hyper
    assert again.best.model.counts_.tolist() == first.best.model.counts_.tolist()
    assert session.spent.share == first.share


def labelled(size=400):
    return pd.DataFrame({"patient": np.arange(size), "label": [0] + [1] * (size - 1)})


@pytest.mark.parametrize("failing", ["raises", "nan", "wrong shape"])
@pytest.mark.parametrize("runs", [None, 20])
def test_candidates_that_fail_leave_the_others_alone(opened, failing, runs, capfd):
    session = opened(labelled())
    grid = {"mode": [failing, "fine"]}
    result = search(grid, Majority(), label="label", epsilon="0.05", runs=runs).run(session)
    assert result.best.hyper == {"mode": "fine"}
    assert result.best.model.choice_ == 1
    assert result.share > 0
    assert str(SECRET) not in "".join(capfd.readouterr())


def test_all_fail_and_it_is_charged(opened):
    session = opened(labelled())
    with pytest.raises(AlgorithmFailed) as failed:
        search({"mode": ["raises", "nan"]}, Majority(), label="label").run(session)
    assert str(SECRET) not in repr(failed.value) + repr(failed.value.__context__)
    assert session.spent.share == search().quote(session).if_published > 0


def test_a_failure_that_is_published_has_no_model(opened):
    result = search({"mode": ["raises", "fine"]}, Majority(), label="label", epsilon="0.02", k=2).run(
        opened(labelled())
    )
    assert [found.hyper["mode"] for found in result.found] == ["fine", "raises"]
    assert (result.found[1].score, result.found[1].model) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 10}, "only 9 candidates"),
        ({"k": 0}, "k must be"),
        ({"k": None}, "above="),
        ({"grid": {}}, "empty"),
        ({"grid": {"bins": []}}, "empty"),
        ({"grid": {"bins": [0]}}, "bins"),
        ({"grid": {"height": [1]}}, "height"),
        ({"epsilon": 0}, "epsilon"),
        ({"validation": 1}, "validation"),
        ({"baseline": 2}, "baseline"),
        ({"runs": 0}, "runs"),
        ({"runs": 5, "k": 2}, "leave k and above out"),
        ({"runs": 5, "above": 2}, "leave k and above out"),
    ],
)
def test_what_cannot_be_searched(options, message):
    with pytest.raises(InvalidParameter, match=message):
        search(**options)


def test_what_does_not_fit_or_has_no_units_touches_nothing(opened):
    session = opened()
    with pytest.raises(BudgetRefused):
        search(epsilon=2).run(session)
    assert session.spent.share == 0
    series = chary.open_series(
        pd.DataFrame({"ill": [1, 2]}), column="ill", sensitivity=1, ledger=":memory:", budget=USUAL
    )
    with series, pytest.raises(InvalidParameter, match="no privacy units"):
        search().run(series)


def test_progress_goes_to_standard_error(opened, capfd):
    search(epsilon="0.02", progress=True).run(opened())
    assert capfd.readouterr().out == ""


def coins(chances, epsilon):
    """Algorithms whose scores 0, 1, ... have the given chances; the last outcome is a failure."""

    def run(rows, source, chances):
        drawn = int(np.searchsorted(np.cumsum(chances), source.words(1, 32)[0] / 2**32, side="right"))
        return [drawn, drawn] if drawn < len(chances) - 1 else None

    return [
        Algorithm(f"{place}", run, epsilon, parameters={"chances": list(each)}) for place, each in enumerate(chances)
    ]


def stopped_law(chances, runs):
    """The law of the best score (failures last), given that of one run: the formula of `random_stopping`."""
    c, law = 1 / runs, np.mean(chances, axis=0)
    ranked = np.concatenate([law[-1:], law[:-1]])
    higher = ranked[::-1].cumsum()[::-1] - ranked
    found = c * ranked / ((c + (1 - c) * (higher + ranked)) * (c + (1 - c) * higher))
    return np.concatenate([found[1:], found[:1]])


FIRST = np.array([[0.5, 0.3, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [1, 4, 30])
def test_random_stopping_has_the_law_of_its_proof(runs):
    """Against the formula, chi-squared at alpha 1e-6; the formula of twice as many runs is rejected."""
    algorithm, source, counts = random_stopping(coins(FIRST, "0.1"), runs=runs), Seeded(runs), np.zeros(4)
    for _ in range(3000):
        try:
            counts[algorithm.outcome(None, source)["score"]] += 1
        except AlgorithmFailed:
            counts[3] += 1
    expected, other = (3000 * stopped_law(FIRST, tried) + 1e-9 for tried in (runs, 2 * runs))
    assert expected.sum() == pytest.approx(3000)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, 3)
    assert ((counts - other) ** 2 / other).sum() > chi2.isf(ALPHA, 3)


@pytest.mark.parametrize("runs", [1, 2, 10, 1000, 10**6])
def test_random_stopping_is_thrice_as_private_as_one_run(runs):
    """Worst log-ratio over neighbours' laws with ratios e^-epsilon to e^epsilon; it comes near 3 epsilon."""
    epsilon, generator, worst = 0.3, np.random.default_rng(runs), 0.0
    for _ in range(2000):
        here = generator.dirichlet(10 ** generator.uniform(-3, 1, 4))
        here = np.maximum(here, 1e-12) / np.maximum(here, 1e-12).sum()
        there = tilted(here, generator.permutation(4), epsilon)
        laws = [stopped_law([law], runs) for law in (here, there)]
        worst = max(worst, np.abs(np.log(laws[0] / laws[1])).max())
    assert worst <= 3 * epsilon + 1e-6
    assert runs < 1000 or worst > 2 * epsilon


def tilted(law, order, epsilon):
    """A neighbour: outcomes gain e^epsilon in the given order, as far as the others can lose e^epsilon."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    high = np.zeros(4)
    left = 1.0
    for place in order:
        high[place] = min(left, law[place] / (1 - p) * 0.5)
        left -= high[place]
    mixed = np.clip(high, law * math.exp(-epsilon), law * math.exp(epsilon))
    for _ in range(200):
        mixed = np.clip(mixed / mixed.sum(), law * math.exp(-epsilon), law * math.exp(epsilon))
    return mixed


@pytest.mark.parametrize("filter_", ["renyi", "pure"])
def test_random_candidates_are_one_release(opened, filter_):
    budget = Budget(epsilon=1, delta=0 if filter_ == "pure" else 1e-6)
    session = opened(budget=budget, filter=filter_, grain=None)
    asked = search(epsilon="0.15", runs=60)
    result = asked.run(session)
    assert result.best.hyper["bins"] == 10
    assert result.tested is None
    assert result.share == asked.quote(session).if_published
    if filter_ == "pure":
        assert result.share == pytest.approx(0.45)


def test_random_stopping_needs_pure_algorithms():
    rough = Algorithm("rough", lambda rows, source: [0, 0], epsilon="0.1", delta="1e-9")
    with pytest.raises(InvalidParameter, match="pure"):
        random_stopping([rough], runs=2)
    with pytest.raises(InvalidParameter, match="candidates"):
        random_stopping([], runs=2)


@pytest.mark.skipif(not ADULT.exists(), reason="needs the Adult data set beside the project")
def test_a_private_search_on_adult_beats_its_usual_candidate():
    people = pl.read_csv(ADULT)
    private, public = people.filter(pl.col("split") == "train"), people.filter(pl.col("split") == "test")
    features = [
        Categories("relationship", ["Husband", "Wife", "Own-child", "Unmarried", "Not-in-family", "Other-relative"]),
        Span("education_num", "0.5", "16.5"),
        Cuts("capital_gain", [1, 3000, 5000, 7000, 10000]),
    ]
    learner = CountingBayes(features, classes=["<=50K", ">50K"], epsilon=None)
    names = [feature.column for feature in features]
    grid = {"use": [*([name] for name in names), names], "bins": [2, 8]}
    options = {"ledger": ":memory:", "grain": "0.04", "unsafe_noise": Seeded(1)}
    with chary.open(private, privacy_unit=None, budget=USUAL, **options) as session:
        result = search(grid, learner, label="income", epsilon="0.04", baseline="0.8").run(session)
    assert result.best.hyper == {"use": names, "bins": 8}
    assert result.best.model.score(public, public["income"].to_numpy()) > 0.82
