"""What a search publishes, pays, repeats and survives."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from rich.progress import Progress

import chary
from chary import Budget
from chary.accounting import Extendable, Targeted
from chary.errors import AlgorithmFailed, BudgetExceeded, InvalidParameter
from chary.learning import Categorical, CountingBayes, Cuts, PrivateSearch, Span
from chary.learning import search as module
from chary.noise import Seeded
from tests.learning.learners import SECRET, Majority
from tests.paths import beside

NO_NOISE = Budget(epsilon=10**6, delta=1e-6)
USUAL = Budget(epsilon=1, delta=1e-6)


def patients(size=20_000, seed=0):
    """Whether someone is ill depends on age in steps of ten years, and a little on sex."""
    generator = np.random.default_rng(seed)
    age, sex = generator.integers(0, 100, size), generator.integers(0, 2, size)
    ill = (age // 10 % 2 == 1) ^ (generator.random(size) < 0.05 + 0.1 * sex)
    frame = {"patient": np.arange(size), "age": age, "sex": np.array(["f", "m"])[sex], "ill": ill.astype(int)}
    return pd.DataFrame(frame)


GRID = {"bins": [1, 5, 10], "use": [["age"], ["sex"], ["age", "sex"]]}


def search(grid=GRID, learner=None, **options):
    usual = CountingBayes([Span("age", 0, 100), Categorical("sex", ["f", "m"])], classes=[0, 1], epsilon=None)
    given = {"label": "ill", "epsilon": "0.05", "progress": False} | options
    return PrivateSearch(learner or usual, grid, **given)


@pytest.fixture
def opened():
    made = []

    def make(rows=None, **options):
        usual = {"privacy_unit": "patient", "budget": USUAL, "ledger": ":memory:", "grain": "0.05"}
        given = usual | {"unsafe_noise": Seeded(7)} | options
        made.append(chary.open(patients() if rows is None else rows, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_without_noise_it_is_the_exhaustive_search(opened, neighbors):
    rows = patients()
    session = opened(rows, budget=NO_NOISE, grain=None, neighbors=neighbors)
    result = search(epsilon=1000, k=9, baseline="0.9").run(session)
    truth = {}
    for bins, use in itertools.product(*GRID.values()):
        model = CountingBayes([Span("age", 0, 100), Categorical("sex", ["f", "m"])], classes=[0, 1], epsilon=None)
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


def test_after_a_restart_the_request_is_answered_from_the_ledger(opened, tmp_path):
    """Free, the same model; the same search without a request is a new one and is paid."""
    shares, answers = [], []
    for request, seed in (("models", 1), ("models", 2), (None, 3)):
        session = opened(ledger=tmp_path / "search.ledger", unsafe_noise=Seeded(seed))
        result = search(epsilon="0.02").run(session, request=request)
        shares.append(session.spent.share)
        answers.append((result.call, result.share, result.best.score, result.best.model.counts_.tolist()))
        session.close()
    assert answers[0] == answers[1] != answers[2]
    assert shares[0] == shares[1] == answers[0][1] == pytest.approx(shares[2] / 2)


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
        ({"above": "much"}, "above"),
        ({"grid": {"bins": [4, 4]}}, "twice"),
        ({"grid": {"epsilon": [1, 2]}}, "of the search"),
        ({"label": "age"}, "label"),
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
    with pytest.raises(BudgetExceeded):
        search(epsilon=2).run(session)
    assert session.spent.share == 0
    series = chary.open_counts(
        pd.DataFrame({"ill": [1, 2]}), column="ill", sensitivity=1, ledger=":memory:", budget=USUAL
    )
    with series, pytest.raises(InvalidParameter, match="no privacy units"):
        search().run(series)


@pytest.mark.parametrize(("options", "hidden"), [({"runs": 2}, True), ({}, False)])
def test_no_bar_tells_how_many_candidates_ran_where_that_is_secret(opened, monkeypatch, options, hidden):
    bars = []

    class Watched(Progress):
        def __init__(self, **settings):
            super().__init__(**settings)
            bars.append(self)

    monkeypatch.setattr(module, "Progress", Watched)
    search({"bins": [1]}, progress=True, epsilon="0.02", **options).run(opened())
    assert [bar.disable for bar in bars] == [hidden]


def test_progress_goes_to_standard_error(opened, capfd):
    search(epsilon="0.02", progress=True).run(opened())
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(("rule", "published"), [({"k": 2}, 2), ({"k": None, "above": 9999}, 0)])
def test_a_quote_tells_what_a_pure_filter_charges(opened, rule, published):
    """There every candidate is paid, hit or miss."""
    session = opened(budget=Budget(epsilon=1, delta=0), filter="pure", grain=None)
    asked = search(epsilon="0.1", **rule)
    result = asked.run(session)
    quoted = asked.quote(session)
    assert len(result.found) == published
    assert result.share == pytest.approx(0.9) == (quoted.if_published if published else quoted.if_not)


def test_a_quote_tells_what_the_exact_filter_charges(opened):
    """On the exact menu a held outcome costs a hit of its own epsilon, as a test above a bar does."""
    shares = []
    for rule in ({"k": 1}, {"k": None, "above": 0}):
        session = opened(budget=Budget(epsilon=4, delta=1e-6), filter="exact", grain="0.05")
        asked = search({"bins": [10], "use": [["age"]]}, epsilon="0.05", **rule)
        shares.append(asked.run(session).share)
        assert shares[-1] == asked.quote(session).if_published
    assert shares[0] == shares[1] > 0


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


def test_a_private_search_on_adult_beats_its_usual_candidate():
    people = pl.read_csv(beside("adult_all.csv.gz"))
    private, public = people.filter(pl.col("split") == "train"), people.filter(pl.col("split") == "test")
    features = [
        Categorical("relationship", ["Husband", "Wife", "Own-child", "Unmarried", "Not-in-family", "Other-relative"]),
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
