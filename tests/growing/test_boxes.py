"""Black boxes: their laws against the exact laws of their noise, and what makes none."""

import math
from fractions import Fraction

import numpy as np
import pytest

import chary
from chary import Algorithm, InvalidParameter, InvalidQuery, NeighborRelation, count, histogram
from chary.accounting import rank_errors_up
from chary.accounting.schedules import Law
from chary.growth import AlgorithmBox, CountsBox, QuantilesBox

ROWS = NeighborRelation("replace", None)
SIZE = 1000


def keyed(keys):
    return count("x > 0") if keys == 1 else count().by("key", range(keys))


def chance(noise, steps):
    """How likely one noise is farther than so many steps away, exactly."""
    first = math.floor(steps) + 1
    if hasattr(noise, "scale"):
        ratio = math.exp(-1 / float(noise.scale))
        return 2 * ratio**first / (1 + ratio)
    k = np.arange(-5000, 5001)
    masses = np.exp(-(k**2) / (2 * float(noise.sigma_squared)))
    return float(masses[abs(k) >= first].sum() / masses.sum())


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("keys", [1, 2, 50])
@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "4"])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "1e-9"])
def test_the_law_of_counts_holds_by_the_exact_law_of_the_noise(gaussian, keys, epsilon, beta):
    box = CountsBox(keyed(keys), gaussian)
    noise = box.noise(Fraction(epsilon))
    steps = SIZE * box.law.error(size=SIZE, epsilon=epsilon, beta=beta)
    wrong = -math.expm1(keys * math.log1p(-chance(noise, steps)))
    assert wrong <= float(beta)
    if float(epsilon) < 1:
        third = -math.expm1(keys * math.log1p(-chance(noise, steps / 3)))
        assert third > float(beta)


@pytest.mark.parametrize("at", [["0.5"], ["0.25", "0.5"], ["0.1", "0.5", "0.9"], ["0.2", "0.4", "0.5", "0.6", "0.8"]])
@pytest.mark.parametrize("beta", ["0.5", "0.001"])
def test_the_law_of_quantiles_covers_their_rank_errors(at, beta):
    box = QuantilesBox("age", at, bounds=(0, 120))
    made = box.mechanism(Fraction(1, 10))
    told = SIZE * box.law.error(size=SIZE, epsilon="0.1", beta=beta)
    exact = rank_errors_up(epsilon="0.1", at=made.at, points=made.grid(121), beta=beta, replace=True)
    assert max(exact) <= told
    if len(at) == 1:
        assert told < max(exact) + 1


def test_calls_are_as_private_as_asked():
    for box in (
        CountsBox(keyed(3)),
        CountsBox(histogram("age", bins=[0, 50, 100])),
        QuantilesBox("age", [0.5], bounds=(0, 9)),
    ):
        assert box.plan(Fraction(1, 7), ROWS).event.epsilon == Fraction(1, 7)
    assert 2 * CountsBox(keyed(3), gaussian=True).plan(Fraction(1, 7), ROWS).event.rho == Fraction(1, 49)


def test_a_box_is_the_same_question_at_every_epsilon():
    def make(epsilon):
        return Algorithm("mine", lambda rows, source: 1, epsilon=epsilon, parameters={"k": 2})

    assert AlgorithmBox(make, law=(1, 2)).body(ROWS) == AlgorithmBox(make, law=Law(1, 2)).body(ROWS)
    assert AlgorithmBox(make, law=(1, 2)).body(ROWS)["algorithm"] == "mine"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: CountsBox(chary.sum("age", bounds=(0, 9))), InvalidQuery),
        (lambda: CountsBox("ages"), InvalidQuery),
        (lambda: QuantilesBox("age", [1.5], bounds=(0, 9)), InvalidParameter),
        (lambda: QuantilesBox("age", [0.5], bounds=(9, 0)), InvalidQuery),
        (lambda: AlgorithmBox("mine", law=(1, 2)), InvalidParameter),
        (lambda: AlgorithmBox(lambda epsilon: None, law=(1,)), InvalidParameter),
    ],
)
def test_what_makes_no_black_box_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_a_function_that_makes_no_algorithm_is_refused():
    with pytest.raises(InvalidParameter, match="algorithm"):
        AlgorithmBox(lambda epsilon: "mine", law=(1, 2)).plan(Fraction(1), ROWS)
