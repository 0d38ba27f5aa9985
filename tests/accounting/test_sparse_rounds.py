"""Rounds of the tuned sparse vector beside Gaussian values: the joint curve is the known ones and the integral."""

import math

import pytest
from scipy.integrate import quad

from chary.accounting import gaussian_delta, joint_delta, sparse_noise, sparse_rounds, usual_rounds
from chary.accounting.composition import optimal_delta
from chary.accounting.sparse_vector import unit_deviation


def test_joint_delta_is_the_known_curve_without_the_other_part():
    assert joint_delta(0.7, 12, 0.1, 1e-3) == pytest.approx(optimal_delta(0.1, 12, 0.7), rel=1e-2)
    assert joint_delta(1.0, 12, 1e-12, 0.3) == pytest.approx(gaussian_delta(epsilon=1, sensitivity=0.3, sigma=1))


def test_joint_delta_is_the_integral_over_both_parts():
    size, ratio, epsilon = 0.4, 0.5, 0.3
    high = 1 / (1 + math.exp(-size))

    def excess(z: float, share: float, lost: float) -> float:
        return share * max(0.0, 1 - math.exp(epsilon - lost - ratio * z - ratio**2 / 2)) * math.exp(-z * z / 2)

    parts = [
        quad(excess, -12, 12, args=args, limit=500, points=[(epsilon - args[1]) / ratio - ratio / 2])[0]
        for args in ((high, size), (1 - high, -size))
    ]
    assert joint_delta(epsilon, 1, size, ratio) == pytest.approx(sum(parts) / math.sqrt(2 * math.pi), rel=1e-7)


@pytest.mark.parametrize(("hits", "rounds"), [(10, 4), (10, 3), (7, 7), (9, 1), (200, 7)])
def test_all_hits_fit_into_the_rounds_and_the_deviation_is_the_least(hits: int, rounds: int):
    """The last round may have hits left over; a round of one hit fewer would leave some without a round."""
    made = sparse_rounds(epsilon=1, delta=1e-6, hits=hits, rounds=rounds)
    longest = max(len(range(first, hits, rounds)) for first in range(rounds))
    each = unit_deviation(longest) / made.deviation
    noise = sparse_noise(epsilon=each, hits=longest, monotone=True)
    assert (float(made.threshold), float(made.test)) == pytest.approx((float(noise.threshold), float(noise.test)))
    assert joint_delta(1, rounds, each, math.sqrt(hits) / made.deviation) <= 1e-6
    assert joint_delta(1, rounds, each * 1.001, math.sqrt(hits) / made.deviation * 1.001) > 1e-6


def test_the_usual_rounds_share_hits_out_evenly_and_round_up():
    assert usual_rounds(50) == [1, 7, 13, 25, 50]
    assert usual_rounds(1) == [1]


@pytest.mark.parametrize("hits", [1, 10, 200])
def test_more_budget_is_less_noise_and_rounds_cover_the_hits(hits: int):
    for rounds in usual_rounds(hits):
        made = [sparse_rounds(epsilon=size, delta=1e-6, hits=hits, rounds=rounds) for size in (0.5, 1)]
        assert made[0].deviation > made[1].deviation
        assert {form.rounds for form in made} == {rounds}
