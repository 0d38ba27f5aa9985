"""A reusable holdout: the exact law of an answer, what is charged, and that nobody overfits to it."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import chary
from chary import AlgorithmFailed, Budget, BudgetExceeded, InvalidParameter, InvalidQuery
from chary.accounting import Targeted
from chary.filters import largest_call
from chary.learning import HeldOut, ReusableHoldout
from chary.learning.holdout import AGREES, GRID, _told
from chary.noise import Seeded

BUDGET = Budget(1, "1e-6")


def opened(rows, **options):
    given = {"privacy_unit": None, "neighbors": "replace", "budget": BUDGET, "ledger": ":memory:"}
    return chary.open(rows, **(given | options))


def table(ones, rows):
    return pa.table({"x": [1] * ones + [0] * (rows - ones)})


def holding(held, training, *, tolerance="0.1", hits=3, **options):
    return ReusableHoldout(opened(held, **options), training, tolerance=tolerance, hits=hits)


def share(rows):
    return rows["x"].to_numpy()


def law(total, rows, training, tolerance, scale):
    """The law of what is told, by all noises, with the rest beyond a far reach left out."""
    ratio, found = math.exp(-1 / float(scale)), {}
    for k in range(-40 * int(scale), 40 * int(scale) + 1):
        mass, mean = (1 - ratio) / (1 + ratio) * ratio ** abs(k), (total + k) / (GRID * rows)
        told = AGREES if abs(mean - training) <= tolerance else round(min(1, max(0, mean)) * GRID) / GRID
        found[told] = found.get(told, 0) + mass
    return found


@pytest.mark.parametrize("training", [0.2, 0.5])
def test_the_law_of_an_answer_is_private_and_agreement_is_one_outcome(training):
    """Neighbours' laws: every outcome within e^epsilon; all steps of one row, as its value moves from 0 to 1."""
    rows, scale = 4, Fraction(GRID, 2)
    one, other = (law(total, rows, training, 0.1, scale) for total in (GRID, 2 * GRID))
    worst = max(abs(math.log(one[told] / other[told])) for told in one.keys() & other.keys() if one[told] > 1e-9)
    assert worst <= 2 * (1 + 1e-9)
    assert worst > 1.9
    assert math.fsum(one.values()) == pytest.approx(1)


@pytest.mark.statistical
def test_answers_follow_that_law():
    rows, times, source = table(3, 10), 2000, Seeded(3)
    known = {"training": 0.35, "tolerance": 0.1}
    found = [_told(share, rows, source, scale="500", **known) for _ in range(times)]
    agreed = sum(told == AGREES for told in found)
    for scale, fits in ((500, True), (500 * 2 / 3, False), (750, False)):
        chance = law(3 * GRID, 10, 0.35, 0.1, scale)[AGREES]
        assert (stats.binomtest(agreed, times, chance).pvalue > 1e-6) == fits
    means = np.array([told for told in found if told != AGREES])
    assert ((means <= 0.25) | (means >= 0.45)).all()
    assert (means * GRID == np.rint(means * GRID)).all()


def test_agreement_is_free_and_a_disagreement_is_a_hit_with_its_value():
    holdout = holding(table(1000, 4000), table(300, 1000), unsafe_noise=Seeded(1))
    same = holdout.ask("share", share, columns=["x"])
    assert same == HeldOut("share", 0.3, 0.3, True, same.charged)
    assert same.charged.share == 0
    other = holdout.ask("opposite", lambda rows: np.where(np.arange(rows.num_rows) >= 0, rows.num_rows > 2000, 0))
    assert (other.agrees, other.training) == (False, 0)
    assert abs(other.value - 1) < 0.1
    filter_ = holdout._session.spine.filter
    assert other.charged.amount == filter_.price(Targeted(holdout.epsilon)).hit
    assert holdout.disagreements == 1


def test_it_ends_after_its_hits_and_remembers_them(tmp_path):
    held, training = table(4000, 4000), table(0, 1000)
    session = opened(held, ledger=tmp_path / "holdout.ledger")
    holdout = ReusableHoldout(session, training, tolerance="0.1", hits=2)
    first = holdout.ask("a", share, request="one")
    assert holdout.ask("a", share, request="one") == first
    assert holdout.disagreements == 1
    session.close()
    again = opened(held, ledger=tmp_path / "holdout.ledger")
    holdout = ReusableHoldout(again, training, tolerance="0.1", hits=2, epsilon=holdout.epsilon)
    assert holdout.disagreements == 1
    holdout.ask("b", share)
    with pytest.raises(BudgetExceeded, match="disagreed 2 times"):
        holdout.ask("c", share)
    assert ReusableHoldout(again, training, tolerance="0.1", hits=2, epsilon="0.01", name="other").disagreements == 0


def test_a_function_that_fails_is_a_disagreement():
    holdout = holding(table(10, 40), table(1, 10))
    for name, wrong in (("raises", lambda rows: 1 / (rows.num_rows - 40)), ("short", lambda rows: [1] * 10)):
        with pytest.raises(AlgorithmFailed) as caught:
            holdout.ask(name, lambda rows, wrong=wrong: wrong(rows) if rows.num_rows > 10 else [0] * 10)
        assert "40" not in str(caught.value)
    assert holdout.disagreements == 2
    with pytest.raises(InvalidParameter, match="one value for each row"):
        holdout.ask("short in training", lambda rows: [1])
    assert holdout.disagreements == 2


def test_values_are_clipped_and_rounded_row_by_row():
    rows = pa.table({"x": [5.0, -3.0, float("nan"), 0.25049, float("inf")]})
    holdout = holding(rows, rows, tolerance="0.9")
    assert holdout.ask("all", share).training == pytest.approx((1 + 0 + 0 + 0.25 + 1) / 5)


def test_how_far_answers_are_off():
    holdout = holding(table(2000, 8000), table(1, 4), hits=5)
    size = float(holdout.epsilon)
    near = holdout.within(1000)
    assert near == pytest.approx(0.1 + math.log(1000 / 0.05) / size / 8000, abs=0.002)
    assert holdout.within(1000, "0.99") > near
    wide = holdout.within_population(1000)
    transcripts = sum(math.comb(1000, b) * 1002**b for b in range(6))
    drawn = math.sqrt(math.log(2 * 1000 * transcripts / 0.025) / 16000)
    assert wide == pytest.approx(holdout.within(1000, "0.975") + drawn)
    assert holdout.within_population(1) < wide


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: holding(table(1, 4), table(1, 4), neighbors="add_remove"), InvalidQuery),
        (lambda: holding(table(1, 4), table(1, 4), privacy_unit="x"), InvalidQuery),
        (lambda: holding(table(1, 4), table(0, 0)), InvalidParameter),
        (lambda: holding(table(1, 4), table(1, 4), tolerance=0), InvalidParameter),
        (lambda: holding(table(1, 4), table(1, 4), hits=0), InvalidParameter),
        (
            lambda: ReusableHoldout(opened(table(1, 4)), table(1, 4), tolerance=0.1, hits=1, epsilon=0.9),
            InvalidParameter,
        ),
    ],
)
def test_what_cannot_be_a_holdout_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_the_size_follows_the_hits():
    holdout = holding(table(1, 4), table(1, 4), hits=6)
    assert (
        0.5 * float(largest_call(BUDGET, 6, "renyi"))
        < float(holdout.epsilon)
        <= float(largest_call(BUDGET, 6, "renyi"))
    )
