"""Every calculator at extreme arguments: it ends soon with a sound figure, or refuses in one typed error.

`CHARY_SOAK_CASES` is how many cases each calculator gets; a case that takes longer than it may is told with its
arguments.
"""

import math
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chary import accounting as a
from chary.errors import CharyError

CASES = int(os.environ.get("CHARY_SOAK_CASES", "5"))
SECONDS = 5.0
ALARM = 60
GIGABYTE = 2**30
Draw = random.Random


def epsilon(draw: Draw) -> Any:
    return _spread(draw, -18, math.log10(50), ["1e-18", 50, 1, "0.1", Fraction(1, 3)])


def delta(draw: Draw) -> Any:
    return _spread(draw, -300, math.log10(0.5), ["1e-300", 0.5, 1e-6, Fraction(1, 7)])


def q(draw: Draw) -> Any:
    return _spread(draw, -9, 0, ["1e-9", 1, 0.3, Fraction(1, 2)])


def positive(draw: Draw) -> Any:
    return _spread(draw, -12, 12, [1, 1e-300, 1e300])


def confidence(draw: Draw) -> Any:
    return draw.choice(["0.95", "0.5", "1e-9", "0.999999999", 1 - 1e-16, Fraction(10**20 - 1, 10**20)])


def many(draw: Draw) -> int:
    return draw.choice([1, 2, 10**6, int(10 ** draw.uniform(0, 6))])


def order(draw: Draw) -> Fraction:
    return 1 + Fraction(10.0 ** draw.uniform(-12, 9))


def _spread(draw: Draw, low: float, high: float, usual: list[Any]) -> Any:
    return draw.choice(usual) if draw.random() < 0.3 else 10.0 ** draw.uniform(low, high)


def gaussian(draw: Draw) -> dict[str, Any]:
    noise = {name: 10.0 ** draw.uniform(-6, 4) for name in ("sensitivity", "threshold_noise", "query_noise")}
    return noise | {
        "threshold": draw.uniform(-3, 3) * 10 ** draw.randrange(4),
        "low": 0,
        "high": 10 ** draw.randrange(5),
    }


def law(draw: Draw) -> Any:
    """Noise of any size that can be drawn."""
    spread = Fraction(10.0 ** draw.uniform(-3, 9))
    return draw.choice([a.LaplaceLaw(spread), a.GaussianLaw(spread**2)])


CALCULATORS: dict[str, Callable[[Draw], Any]] = {
    "exact_total": lambda d: a.exact_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d)),
    "exact_delta": lambda d: a.exact_delta(epsilon_per_call=epsilon(d), hits=many(d), epsilon=epsilon(d)),
    "published_total": lambda d: a.published_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d)),
    "published_total_q": lambda d: a.published_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d), q=q(d)),
    "exact_tail_total": lambda d: a.exact_tail_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d)),
    "exact_tail_q": lambda d: a.exact_tail_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d), q=q(d)),
    "target_total": lambda d: a.target_total(epsilon_per_call=epsilon(d), hits=many(d), delta=delta(d), q=q(d)),
    "unanimous_price_up": lambda d: a.unanimous_price_up(epsilon(d), runs=d.randrange(2, 40), order=order(d)),
    "unanimous_q_down": lambda d: a.unanimous_q_down(epsilon(d), runs=d.randrange(2, 40)),
    "boundary_chance": lambda d: a.boundary_chance(d.random(), runs=d.randrange(2, 40)),
    "best_runs": lambda d: a.best_runs(epsilon(d), order=order(d), unclear=d.random()),
    "compose": lambda d: a.compose(epsilon=epsilon(d), times=int(10 ** d.uniform(0, 7)), delta=delta(d)).as_dict(),
    "compose_unequal": lambda d: a.compose_unequal(
        epsilons=[epsilon(d) for _ in range(d.randint(1, 20))], delta=delta(d)
    ).as_dict(),
    "plan_epsilon": lambda d: a.plan(delta=delta(d), hits=many(d), epsilon_per_call=epsilon(d)).as_dict(),
    "plan_delta": lambda d: a.plan(epsilon=epsilon(d), hits=many(d), epsilon_per_call=epsilon(d)).as_dict(),
    "plan_hits": lambda d: a.plan(epsilon=epsilon(d), delta=delta(d), epsilon_per_call=epsilon(d)).as_dict(),
    "plan_call": lambda d: a.plan(epsilon=epsilon(d), delta=delta(d), hits=many(d)).as_dict(),
    "trade_offs": lambda d: [each.epsilon_per_call for each in a.trade_offs(epsilon=epsilon(d), delta=delta(d))],
    "plain_noise": lambda d: a.plain_noise(epsilon=epsilon(d), delta=delta(d), tests=many(d)).deviation,
    "charging_size": lambda d: a.charging_size(a.published_total, epsilon=epsilon(d), delta=delta(d), hits=many(d)),
    "charging_size_exact": lambda d: a.charging_size(
        a.exact_total, epsilon=epsilon(d), delta=delta(d), hits=min(10**5, many(d))
    ),
    "charging_size_tail": lambda d: a.charging_size(
        a.exact_tail_total, epsilon=epsilon(d), delta=delta(d), hits=min(100, many(d))
    ),
    "hit_price_up": lambda d: a.hit_price_up(a.Targeted(epsilon(d)), order(d)),
    "hit_price_up_q": lambda d: a.hit_price_up(a.Targeted(epsilon(d), q(d)), order(d)),
    "between_q_down": lambda d: a.between_q_down(epsilon(d), width=many(d), sensitivity=many(d)),
    "boundary_epsilon_up": lambda d: a.boundary_epsilon_up(epsilon(d)),
    "boundary_q_down": lambda d: a.boundary_q_down(epsilon(d)),
    "boundary_price_up": lambda d: a.boundary_price_up(epsilon(d), order(d)),
    "twice_q_down": lambda d: a.twice_q_down(epsilon(d)),
    "twice_price_up": lambda d: a.twice_price_up(epsilon(d), order(d)),
    "narrow_price_up": lambda d: a.narrow_price_up(epsilon(d), order(d)),
    "choose_order": lambda d: a.choose_order(_exact(epsilon(d)), _exact(delta(d)), _exact(epsilon(d))),
    "pdp_epsilon_up": lambda d: a.pdp_epsilon_up(positive(d), order(d), delta(d)),
    "least_pdp_epsilon_up": lambda d: a.least_pdp_epsilon_up(
        a.ZeroConcentrated(positive(d)).log_moment_up, delta=delta(d)
    ),
    "epsilon_up": lambda d: a.epsilon_up(_exact(positive(d)), order(d), _exact(delta(d))),
    "gaussian_delta": lambda d: a.gaussian_delta(epsilon=epsilon(d), sensitivity=positive(d), sigma=positive(d)),
    "gaussian_sigma": lambda d: a.gaussian_sigma(epsilon=epsilon(d), delta=delta(d), sensitivity=positive(d)),
    "discrete_gaussian_delta_up": lambda d: a.discrete_gaussian_delta_up(
        epsilon=epsilon(d), sigma_squared=positive(d), largest=many(d), reach=many(d)
    ),
    "discrete_gaussian_variance": lambda d: a.discrete_gaussian_variance(
        epsilon=_exact(epsilon(d)), delta=_exact(delta(d)), largest=(most := many(d)), l2_squared=most**2, reach=1
    ),
    "zero_concentrated_rho_down": lambda d: a.zero_concentrated_rho_down(
        epsilon=_exact(epsilon(d)), delta=_exact(delta(d))
    ),
    "noisy_max_epsilon_up": lambda d: a.noisy_max_epsilon_up(
        many(d), sensitivity=10 ** d.uniform(-9, 3), noise=10 ** d.uniform(-6, 6)
    ),
    "noisy_max_noise": lambda d: a.noisy_max_noise(epsilon(d), many(d), sensitivity=10 ** d.uniform(-9, 3)),
    "above_threshold_noise": lambda d: a.above_threshold_noise(
        epsilon(d), many(d), sensitivity=10 ** d.uniform(-9, 3), threshold=0.5
    ),
    "halted_epsilon_up": lambda d: a.halted_epsilon_up(many(d), **gaussian(d)),
    "running_epsilon_up": lambda d: a.running_epsilon_up(many(d), **gaussian(d)),
    "runs_epsilon_up": lambda d: a.runs_epsilon_up(many(d), many(d), **gaussian(d)),
    "runs_noise": lambda d: a.runs_noise(
        many(d), many(d), epsilon=epsilon(d), sensitivity=1, threshold=500, low=0, high=1000, ratio=1.75
    ),
    "sparse_noise": lambda d: a.sparse_noise(epsilon=epsilon(d), hits=many(d)).test,
    "sparse_noise_delta": lambda d: (
        a.sparse_noise(epsilon=epsilon(d), hits=many(d), delta=delta(d), form="published").test
    ),
    "one_sided_noise": lambda d: a.one_sided_noise(epsilon=epsilon(d), hits=many(d), tests=many(d), values=True).test,
    "one_sided_error_up": lambda d: a.one_sided_error_up(
        a.one_sided_noise(epsilon=epsilon(d), hits=many(d), tests=many(d), values=d.random() < 0.5),
        tests=many(d),
        confidence=confidence(d),
    ),
    "sparse_half_width_up": lambda d: a.sparse_half_width_up(
        epsilon=epsilon(d), hits=many(d), tests=many(d), confidence=confidence(d)
    ),
    "sparse_rounds": lambda d: (
        a.sparse_rounds(
            epsilon=epsilon(d), delta=delta(d), hits=(hits := many(d)), rounds=d.choice([1, hits])
        ).deviation
    ),
    "joint_delta": lambda d: a.joint_delta(float(epsilon(d)), many(d), float(epsilon(d)), 10 ** d.uniform(-9, 3)),
    "published_error": lambda d: a.published_error(
        epsilon=epsilon(d), hits=many(d), tests=many(d), confidence=confidence(d), delta=delta(d)
    ),
    "error_up": lambda d: a.error_up(
        a.sparse_noise(
            epsilon=epsilon(d), hits=many(d), values=d.random() < 0.5, form=d.choice(["tuned", "published"])
        ),
        tests=many(d),
        confidence=confidence(d),
    ),
    "rank_error_up": lambda d: a.rank_error_up(epsilon=epsilon(d), points=many(d), beta=delta(d)),
    "rank_errors_up": lambda d: a.rank_errors_up(
        epsilon=epsilon(d), at=[Fraction(k, 8) for k in range(1, 8)], points=many(d), beta=delta(d), replace=True
    ),
    "crossing_error_up": lambda d: a.crossing_error_up(
        positive(d), positive(d), thresholds=many(d), tests=many(d), confidence=confidence(d)
    ),
    "gaussian_error_up": lambda d: a.gaussian_error_up(positive(d), tests=many(d), confidence=confidence(d)),
    "laplace_error_up": lambda d: a.laplace_error_up(positive(d), tests=many(d), confidence=confidence(d)),
    "laplace_deviation": lambda d: a.laplace_deviation(positive(d)),
    "utility_loss_up": lambda d: a.utility_loss_up(positive(d), many(d), delta(d)),
    "exponential_loss_up": lambda d: a.exponential_loss_up(positive(d), many(d), delta(d)),
    "flip_loss_up": lambda d: a.flip_loss_up(positive(d), many(d), delta(d)),
    "laplace_loss_up": lambda d: a.laplace_loss_up(positive(d), many(d), delta(d)),
    "vote_lead_up": lambda d: a.vote_lead_up(epsilon(d), delta(d)),
    "share_error_up": lambda d: a.share_error_up(many(d), lie=d.uniform(0, 0.5), beta=delta(d)),
    "share_interval": lambda d: a.share_interval(
        d.randrange(1, (units := many(d)) + 1), units, lie=d.uniform(0, 0.49), beta=delta(d)
    ),
    "discrete_chance_up": lambda d: a.discrete_chance_up(epsilon=epsilon(d), distances=[0, 1, many(d)]),
    "loss_down": lambda d: a.loss_down(epsilon=epsilon(d), changes=range(1, 1000)),
    "published_loss_down": lambda d: a.published_loss_down(epsilon=epsilon(d), changes=range(1, 1000)),
    "variance_down": lambda d: a.variance_down(epsilon=epsilon(d), changes=range(1, 1000)),
    "hard_answers_up": lambda d: a.hard_answers_up(alpha=delta(d), cells=1 + many(d), start=many(d), mixing=q(d)),
    "next_miss_up": lambda d: a.next_miss_up(q(d), order=order(d), price=positive(d)),
    "tail_down": lambda d: a.tail_down(order=order(d), price=positive(d)),
    "sharp_width": lambda d: (
        a.sharp_width(epsilon=epsilon(d), delta=delta(d), tests=many(d), hits=many(d), confidence=confidence(d)).within
    ),
    "sharp_table": lambda d: a.sharp_table(order=order(d), price=positive(d), steps=many(d)).hit_chance(7),
    "error_of_all_up": lambda d: a.error_of_all_up(law(d), tests=many(d), confidence=confidence(d)),
    "margin_up": lambda d: a.margin_up(law(d), tests=many(d), confidence=confidence(d)),
    "false_alarms_up": lambda d: a.false_alarms_up(law(d), bar=many(d), truth=0, tests=many(d)),
    "least_bar": lambda d: a.least_bar(law(d), truth=0, tests=many(d), confidence=confidence(d)),
    "chosen_reach_up": lambda d: list(
        a.chosen_reach_up(law(d), candidates=many(d) + 9, published=3, confidence=confidence(d))
    ),
    "group_privacy_up": lambda d: a.group_privacy_up(epsilon=epsilon(d), delta=delta(d), units=many(d)),
    "sampler_delta_up": lambda d: a.sampler_delta_up(epsilon=epsilon(d), delta=delta(d), distance=q(d)),
    "weights_epsilon": lambda d: a.weights_epsilon(
        alpha=delta(d), size=many(d), queries=many(d), confidence=confidence(d)
    ),
    "weights_alpha": lambda d: a.weights_alpha(
        epsilon=epsilon(d), size=many(d), queries=many(d), confidence=confidence(d)
    ),
}


def _exact(value: Any) -> Fraction:
    return Fraction(str(value))


@contextmanager
def alarm():
    """Ends a call that does not end; the limit that counts is processor time."""

    def ring(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(name: str, seed: int) -> tuple[Any, float]:
    """The figure, or the refusal, and the processor time it took."""
    began = time.process_time()
    with alarm():
        try:
            found = CALCULATORS[name](random.Random(seed))
        except CharyError as refusal:
            found = refusal
    return found, time.process_time() - began


def figures(found: Any) -> list[float]:
    """All numbers of an answer."""
    if isinstance(found, dict):
        return [float(value) for value in found.values()]
    if isinstance(found, (list, tuple, np.ndarray)):
        return [number for value in found for number in figures(value)]
    return [] if found is None else [_float(found)]


def _float(found: Any) -> float:
    try:
        return float(found)
    except OverflowError:
        return 1e308


@pytest.mark.parametrize("name", CALCULATORS)
def test_it_ends_or_refuses(name):
    for case in range(CASES):
        seed = f"{name} {case}"
        found, seconds = outcome(name, seed)
        assert seconds < SECONDS, seed
        if isinstance(found, CharyError):
            assert "\n" not in str(found)
            assert 10 < len(str(found)) < 400
        else:
            assert all(number >= 0 and math.isfinite(number) for number in figures(found)), (seed, found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2 * GIGABYTE


def test_every_calculator_that_is_exported_is_tried():
    exported = {name for name in a.__all__ if callable(getattr(a, name)) and not isinstance(getattr(a, name), type)}
    tried = {name for name in exported if any(name in known for known in CALCULATORS)}
    helpers = {
        "Procedure", "above_threshold_epsilons_up", "benjamini_hochberg_list", "best_q", "capacity_down",
        "confidence_of_each", "e_value_list", "fdr", "four_digits_down", "largest_size", "lattice_curves",
        "mean_interval", "not_prior_q", "online_list", "optimal_total", "spending_list", "tuned_shares",
        "usual_rounds",
    }  # fmt: skip
    assert exported - tried == helpers
