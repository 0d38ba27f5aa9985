"""Robust streams: an analyst who fools the plain estimator does not fool them; exact laws; what is charged."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from chary import Budget, BudgetExceeded, InvalidParameter
from chary.accounting import Targeted
from chary.amounts import Amount
from chary.core.plan import Data
from chary.data import Votes
from chary.mechanisms import CountSketch, Estimator, Exponential, FlajoletMartin, SecondMoment, new_key, rank_utilities
from chary.noise import Seeded
from chary.streaming import (
    Copies,
    ItemFrequency,
    RobustStream,
    SecondMoments,
    _many_wrong,
    bank_of,
    cancelling,
    changed_median,
)
from tests.noise.helpers import ALPHA

WIDE = {"copies": 800, "step": "0.5", "largest": 10**7, "budget": Budget(epsilon=6, delta=1e-12), "hits": 12}
FEW = {"copies": 200, "largest": 1000, "budget": Budget(epsilon=20, delta=1e-9), "hits": 8}
TOLERANCE = 0.35


class Told:
    """Says what it was told last, whatever its key."""

    def __init__(self, key):
        self.said = 0.0

    def update(self, item):
        self.said = item

    def estimate(self):
        return self.said


class Fragile(Told):
    """Breaks down under some keys."""

    def __init__(self, key):
        super().__init__(key)
        self.weak = int(key[0], 16) < 4

    def estimate(self):
        if self.weak:
            raise RuntimeError("out of coins")
        return "a lot" if self.said == 13 else super().estimate()


def keys(count, seed=1):
    source = Seeded(seed)
    return [new_key(source) for _ in range(count)]


def stream_of(make=Told, seed=1, **options):
    return RobustStream(make, unsafe_noise=Seeded(seed), **(WIDE | options))


def second_moment(counts):
    return sum(count**2 for count in counts.values())


def hidden(key):
    """The frequency of item 0 by a single row, which the median of several rows would make harder to fool."""
    return ItemFrequency(key, 0, width=16, depth=1)


def worst_factor(estimator, answer, truth, items):
    """By which factor the answers to the analyst were off at worst."""
    counts, factors = Counter(), []

    def ask(item):
        estimator.update(item)
        counts[item] += 1
        said = answer()
        factors.append(max(said / truth(counts), truth(counts) / said if said else math.inf))
        return said

    cancelling(ask, items=items, heavy=100)
    return max(factors)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("make", "truth", "items", "options"),
    [
        (SecondMoment, second_moment, 700, {"copies": 1100, "hits": 15}),
        (hidden, lambda counts: counts[0], 100, FEW),
    ],
    ids=["second moment", "frequency"],
)
def test_an_analyst_who_fools_the_plain_estimator_does_not_fool_a_robust_stream(make, truth, items, options, seed):
    plain = make(new_key(Seeded(seed)))
    robust = stream_of(make, seed, **options)
    assert worst_factor(plain, plain.estimate, truth, items) >= 4
    off = worst_factor(robust, lambda: robust.answer().value, truth, items)
    assert off <= robust.factor / (1 - TOLERANCE) < 3
    assert robust.changes < options["hits"]


def test_distinct_counts_and_frequencies_are_answered_too():
    distinct = stream_of(lambda key: FlajoletMartin(key, 64), **FEW)
    often = stream_of(lambda key: ItemFrequency(key, "b", width=64, depth=3), **FEW)
    for item in "abracadabra" * 20:
        distinct.update(item)
        often.update(item)
    assert 5 / 2 <= distinct.answer().value <= 5 * 2
    assert 40 / 2 <= often.answer().value <= 40 * 2
    assert isinstance(ItemFrequency("0" * 64, "b", width=64, depth=3), Estimator)
    below = CountSketch("0" * 64, width=1, depth=1)
    item = next(item for item in range(99) if _sign(item) != _sign("b"))
    below.update(item)
    frequency = ItemFrequency("0" * 64, "b", width=1, depth=1)
    frequency.update(item)
    assert below.estimate("b") == -1
    assert frequency.estimate() == 0


def _sign(item):
    sketch = CountSketch("0" * 64, width=1, depth=1)
    sketch.update(item)
    return sketch._counters[0, 0]


def test_a_bank_is_its_copies_one_by_one():
    named = keys(5)
    fast, slow = bank_of(SecondMoment, named), Copies(SecondMoment, named)
    assert isinstance(fast, SecondMoments)
    for item in ["a", "b", 3, "a", 2.5, b"a", "a"]:
        fast.update(item)
        slow.update(item)
    assert fast.estimates().tolist() == slow.estimates().tolist()
    assert len(set(fast.estimates())) > 1


def test_a_copy_that_fails_is_silent_for_good():
    named = keys(40)
    weak = sum(int(key[0], 16) < 4 for key in named)
    bank = Copies(Fragile, named)
    bank.update(7)
    assert 0 < np.isnan(bank.estimates()).sum() == weak < 20
    bank.update(13)
    assert np.isnan(bank.estimates()).all()
    bank.update(7)
    assert np.isnan(bank.estimates()).sum() == weak
    stream = stream_of(Fragile)
    stream.update(1000)
    assert stream.answer().value == pytest.approx(1000, rel=0.6)


def test_a_copy_that_failed_once_does_not_come_back():
    class Once(Told):
        def update(self, item):
            super().update(item)
            if item == 13:
                raise RuntimeError("out of coins")

    bank = Copies(Once, keys(3))
    for item, fine in ((7, True), (13, False), (7, False)):
        bank.update(item)
        assert (bank.estimates() == 7).tolist() == [fine] * 3


def test_an_answer_within_the_band_is_free_and_a_change_is_charged():
    stream = stream_of()
    price = stream._session.spine.filter.price(Targeted(stream._epsilon)).hit
    paid = []
    for said in (0, 0, 100, 100, 130, 80, 1000, 1000, 0, 1, 0):
        stream.update(said)
        paid.append(stream.answer().changed)
    assert paid == [False, False, True, False, False, False, True, False, True, True, True]
    assert stream.changes == 5
    assert stream.spent.amount == Amount(5 * price.main)
    assert stream.last == 0
    assert repr(stream) == "RobustStream(800 copies, 11 answers, 5 changes)"


def test_each_copy_has_a_key_of_its_own():
    made = []
    stream_of(lambda key: made.append(key) or Told(key))
    assert len(set(made)) == len(made) == 800


@pytest.mark.parametrize("band", [1, 2, 3])
def test_an_answer_stays_within_its_band_and_no_further(band):
    """Each copy says the same, so the median is the cell of what they say, as good as always."""
    stream = stream_of(band=band, copies=2000, step=1)
    values = stream._grid.values
    for cell, changed in ((4, True), (4 + band, False), (4 - band, False), (5 + band, True), (4, True), (0, True)):
        stream.update(values[cell])
        assert stream.answer().changed is changed, cell


@pytest.mark.parametrize("hits", [3, 12])
def test_the_least_number_of_copies_is_that_at_which_the_median_is_found(hits):
    """With half as many copies as are asked for the middle half of all votes is left with a chance of 1 in 100."""
    ample = stream_of(hits=hits, copies=5000)
    cells, epsilon = len(ample._grid.values), float(ample._epsilon)
    least = math.ceil(4 * 2 / epsilon * math.log(cells / 0.01))
    assert stream_of(hits=hits, copies=least).copies == least
    with pytest.raises(InvalidParameter, match=f"take {least}"):
        stream_of(hits=hits, copies=least - 1)


def test_answers_are_refused_when_the_changes_are_used_up():
    stream = stream_of(hits=3)
    for said in (10, 1000, 10):
        stream.update(said)
        assert stream.answer().changed
    spent = stream.spent
    assert not stream.exhausted
    for said in (10, 1000):
        stream.update(said)
        with pytest.raises(BudgetExceeded, match="3 changes"):
            stream.answer()
    assert stream.exhausted
    assert stream.last == pytest.approx(10, rel=0.3)
    assert stream.spent == spent
    assert stream.changes == 3


@pytest.mark.parametrize(
    "options",
    [
        {"step": 0},
        {"step": -1},
        {"step": "nan"},
        {"largest": 0},
        {"band": 0},
        {"copies": 1},
        {"copies": 100},
        {"copies": 800.0},
        {"hits": 0},
        {"hits": None},
        {"epsilon": "0.1"},
        {"hits": None, "epsilon": -1},
        {"hits": None, "epsilon": "0.01"},
        {"budget": 6},
        {"budget": Budget(epsilon=6)},
        {"hits": None, "epsilon": 2},
    ],
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(InvalidParameter):
        stream_of(**options)


def test_no_copy_sees_what_is_no_element():
    stream = stream_of(SecondMoment)
    stream.update("a")
    for wrong in ([1], None, object()):
        with pytest.raises(InvalidParameter):
            stream.update(wrong)
    assert set(stream._bank.estimates()) == {1}


def changed(votes, last, band, epsilon="0.5"):
    """The exact law of one answer, by the law of the choice."""
    masses = Exponential(epsilon, sensitivity=1).law(rank_utilities(np.array(votes))).probabilities()
    law = Counter()
    for cell, mass in enumerate(masses):
        moved = abs(cell - last) > band or (cell == 0) != (last == 0)
        law[cell if moved else last] += mass
    return law


@pytest.mark.parametrize(("last", "band"), [(0, 1), (2, 1), (1, 2)])
def test_one_copy_changes_the_law_of_an_answer_by_epsilon(last, band):
    """All neighbouring votes of five copies over four cells."""
    ballots = [np.bincount(b, minlength=4) for b in itertools.combinations_with_replacement(range(4), 5)]
    losses = []
    for one, two in itertools.permutations(ballots, 2):
        if np.abs(one - two).sum() == 2:
            laws = changed(one, last, band), changed(two, last, band)
            losses += [math.log(laws[0][cell] / laws[1][cell]) for cell in laws[0]]
    assert 0.25 < max(losses) <= 0.5 + 1e-9


@pytest.mark.statistical
def test_an_answer_has_its_law():
    votes, last = [1, 2, 5, 0, 3], 1
    made = changed_median(Votes(lambda answer: votes, range(5), voter="copy").poll(1), "0.5", last, 1)
    source = Seeded(9)
    found = Counter(made.run(Data([votes], source, None, None, None)).answer["cell"] for _ in range(4000))
    law = changed(votes, last, 1)
    assert set(found) <= set(law)
    expected = np.array([law[cell] for cell in sorted(law)])
    observed = np.array([found[cell] for cell in sorted(law)])
    assert stats.chisquare(observed, expected * 4000)[1] > ALPHA
    other = changed(votes, last, 1, epsilon="0.75")
    assert stats.chisquare(observed, np.array([other[cell] for cell in sorted(law)]) * 4000)[1] < ALPHA


@pytest.mark.parametrize("most", [1, 200, 400])
def test_the_risk_covers_that_the_median_leaves_the_copies_that_are_right(most):
    """All that are right say one cell, the others the worst: the exact chance of another cell."""
    stream = stream_of(hits=None, epsilon="0.05", copies=1300, largest=1000)
    votes = np.zeros(len(stream._grid.values), dtype=np.int64)
    votes[-1], votes[0] = stream.copies - most, most
    law = Exponential("0.05", sensitivity=1).law(rank_utilities(votes)).probabilities()
    assert 1 - law[-1] <= stream._risk(1e-300, most) <= 4 * (1 - law[-1])


@pytest.mark.parametrize("wrong", [0.01, 0.1])
def test_the_bound_on_wrong_copies_holds_without_answers(wrong):
    """A budget of next to nothing: wrong copies are binomial."""
    budget = Budget(epsilon=1e-9, delta=1e-300)
    for many in (2, 5, 20):
        bound, exact = _many_wrong(budget, 40, many, wrong), stats.binom.sf(many - 1, 40, wrong)
        assert exact <= bound * (1 + 1e-6)


def test_the_bound_on_wrong_copies_is_the_best_of_all_groups():
    epsilon, delta, copies, many, wrong = 1.0, 1e-6, 30, 10, 0.02
    groups = [
        math.comb(copies, m)
        / math.comb(many, m)
        * ((math.exp(epsilon) * wrong) ** m + sum(math.exp(i * epsilon) * delta for i in range(m)))
        for m in range(1, many + 1)
    ]
    assert _many_wrong(Budget(epsilon=1, delta=1e-6), copies, many, wrong) == pytest.approx(min(groups))


def test_risks_grow_with_what_is_risked():
    stream = stream_of(copies=2000)
    risks = [stream.risk(wrong=p, answers=n) for p, n in ((1e-6, 1), (1e-4, 1), (1e-4, 10**3), (0.2, 10**6))]
    assert risks == sorted(risks)
    assert risks[0] < 1e-5
    assert risks[-1] == 1
    for wrong in ({"wrong": 0}, {"wrong": 1}, {"wrong": 0.1, "answers": 0}):
        with pytest.raises(InvalidParameter):
            stream.risk(**wrong)


@pytest.mark.parametrize("options", [{"band": 10**30}, {"largest": 10**400}])
def test_bands_and_bounds_beyond_all_streams_are_refused(options):
    given = {"copies": 400, "step": 1, "largest": 10**6, "budget": Budget(epsilon=9, delta=1e-9), "hits": 10}
    with pytest.raises(InvalidParameter):
        RobustStream(SecondMoment, **(given | options))
