"""Two runs: independent coins, what counts as a difference, the event."""

from fractions import Fraction

import numpy as np
import pytest

from chary import noise
from chary.accounting import twice_q_down
from chary.errors import InvalidParameter
from chary.mechanisms import Exponential
from chary.mechanisms.boundaries import PairOfRuns, TwoRuns


@pytest.mark.statistical
def test_runs_are_independent_and_differ_as_often_as_they_should():
    chooser, source, size = Exponential("0.6", 1), noise.Seeded(2), 5000
    runs = [TwoRuns("0.6").step(lambda coins: chooser.step([0, 2], coins), source) for _ in range(size)]
    first, second = chooser.law([0, 2]).probabilities()
    expected = 2 * first * second
    spread = (expected * (1 - expected) / size) ** 0.5
    assert abs(np.mean([pair.differ for pair in runs]) - expected) < 4.9 * spread
    assert all(pair.differ == (pair.first != pair.second) for pair in runs)


def test_its_event_is_twice_epsilon_with_q():
    assert TwoRuns("0.05").event().listed == (Fraction(1, 10), twice_q_down("0.05"))


@pytest.mark.parametrize("value", [0, -(2**80), "x", 0.5, float("nan"), True, None])
def test_the_same_plain_value_does_not_differ(value):
    assert not PairOfRuns(value, value).differ


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (None, 0)])
def test_all_that_can_be_told_apart_differs(first, second):
    assert PairOfRuns(first, second).differ
    assert PairOfRuns(second, first).differ


def test_what_cannot_be_compared_for_sure_counts_as_different():
    array = np.zeros(5000)
    assert PairOfRuns(array, array).differ
    assert PairOfRuns((1,), (1,)).differ


@pytest.mark.parametrize("epsilon", [0, -1, "nan"])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(InvalidParameter):
        TwoRuns(epsilon)
