"""Published bounds on selection with Gaussian noise: formulas, exact pairs that they must cover, and one that fails."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from chary.accounting import gaussian_delta, halted_epsilon_up
from chary.accounting.gaussian_selection import FilteredSelfReporting, nonnegative_epsilon, whitehouse_filter_epsilon
from chary.errors import BudgetExceeded, InvalidParameter
from chary_research.published import post_processed_epsilon, zhu_wang_epsilon, zhu_wang_nonnegative_epsilon

Z = np.linspace(-12, 12, 4801)
DENSITY = np.exp(-Z * Z / 2) * (Z[1] - Z[0]) / math.sqrt(2 * math.pi)
NOISE = {"sensitivity": "0.2", "threshold_noise": "0.5", "query_noise": "0.9"}


def run_law(queries, threshold):
    """The exact law of above threshold on given queries: halted at 1, 2, ..., or never."""
    stay = [ndtr((threshold + 0.5 * Z - query) / 0.9) for query in queries]
    products = [np.ones_like(Z), *itertools.accumulate(stay, np.multiply)]
    halted = [DENSITY @ (before - after) for before, after in itertools.pairwise(products)]
    return np.array([*halted, DENSITY @ products[-1]])


def divergence(one, two, epsilon):
    return float(np.maximum(one - math.exp(epsilon) * two, 0).sum())


@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("epsilon_of", ["general", "nonnegative", "moment", "post-processed"])
def test_they_cover_exact_laws(delta, epsilon_of):
    figures = {
        "general": zhu_wang_epsilon(steps=20, **NOISE, delta=delta),
        "nonnegative": zhu_wang_nonnegative_epsilon(**NOISE, threshold="0.6", delta=delta),
        "moment": nonnegative_epsilon(**NOISE, threshold="0.6", delta=delta),
        "post-processed": post_processed_epsilon(queries=21, sensitivity="0.2", noise="0.5", delta=delta),
    }
    low, high = run_law([0.3] * 20, 0.6), run_law([0.5] * 20, 0.6)
    mixed = run_law([0.5] * 10 + [0.3] * 10, 0.6), run_law([0.3] * 10 + [0.5] * 10, 0.6)
    for one, two in ((low, high), (high, low), mixed):
        assert divergence(one, two, figures[epsilon_of]) <= delta
    assert divergence(low, high, 0) > 1e-2


def test_zhu_wang_needs_the_stopping_time():
    few, many = (zhu_wang_epsilon(steps=steps, **NOISE, delta=1e-6) for steps in (10, 10**6))
    assert few < many


@pytest.mark.parametrize(("distance", "holds"), [(0.0, False), (0.25, False), (0.5, True), (2.0, True), (4.0, True)])
def test_the_published_moment_of_the_stopping_time_fails_for_small_thresholds(distance, holds):
    z = np.linspace(-40, 40, 80001)
    moment = np.exp(-2 * log_ndtr(-(distance + z) / math.sqrt(3)) - z * z / 2).sum() * 0.001 / math.sqrt(2 * math.pi)
    published = 1 + 2 * math.sqrt(3) * math.pi * (1 + 9 * distance**2) * math.exp(distance**2)
    assert (moment <= published) == holds
    assert published <= moment * 4


def test_the_moment_itself_gives_less_where_the_published_one_holds():
    noise = {"sensitivity": "0.01", "threshold_noise": 1, "query_noise": "1.7320508075688773", "delta": 1e-6}
    for threshold in ("0.5", 2, 8):
        assert (
            0
            < nonnegative_epsilon(**noise, threshold=threshold)
            < zhu_wang_nonnegative_epsilon(**noise, threshold=threshold)
        )
    assert nonnegative_epsilon(**noise, threshold=-1) < nonnegative_epsilon(**noise, threshold=1)


def test_the_nonnegative_bound_has_conditions():
    with pytest.raises(InvalidParameter, match="sqrt"):
        zhu_wang_nonnegative_epsilon(**NOISE | {"query_noise": "0.8"}, threshold=1, delta=1e-6)
    with pytest.raises(InvalidParameter, match="at least 0"):
        zhu_wang_nonnegative_epsilon(**NOISE, threshold=-1, delta=1e-6)


@pytest.mark.parametrize("queries", [1, 100, 10**6])
def test_post_processing_is_the_exact_curve_of_gaussian_noise(queries):
    epsilon = post_processed_epsilon(queries=queries, sensitivity="0.001", noise="0.05", delta=1e-6)
    moved = 0.001 * math.sqrt(queries)
    assert gaussian_delta(epsilon=epsilon, sensitivity=moved, sigma=0.05) <= 1e-6
    assert gaussian_delta(epsilon=epsilon * (1 - 1e-6), sensitivity=moved, sigma=0.05) > 1e-6


def test_post_processing_costs_nothing_where_delta_covers_it():
    assert post_processed_epsilon(queries=1, sensitivity="1e-9", noise=1, delta=1e-6) == 0


def test_the_filter_of_equal_calls():
    spread, drift = 0.1 * math.sqrt(2 * 50 * math.log(1e6)), 50 * 0.1 * (math.e**0.1 - 1) / (math.e**0.1 + 1)
    assert whitehouse_filter_epsilon([0.1] * 50, delta=1e-6) == pytest.approx(spread + drift, rel=1e-12)


def test_filtered_self_reporting_as_published_is_not_private():
    """Each run betrays the secret bit with probability delta and otherwise says nothing: (0, delta)-pDP, loss 0 or all.

    Nothing is ever spent, so as published the runs never stop, and the total delta grows with their number.
    """
    delta, runs = 0.01, 6
    laws = [np.array([(1 - delta), delta, 0]), np.array([(1 - delta), 0, delta])]
    joint = [np.array([math.prod(path) for path in itertools.product(law, repeat=runs)]) for law in laws]
    assert divergence(*joint, 1.0) == pytest.approx(1 - (1 - delta) ** runs)
    assert delta < divergence(*joint, 1.0) <= runs * delta


def test_filtered_self_reporting_with_added_deltas_stops():
    account = FilteredSelfReporting(epsilon=1, delta="0.05")
    for _ in range(5):
        account = account.start("0.5", "0.01").report(0)
    with pytest.raises(BudgetExceeded):
        account.start("0.5", "0.01")


def test_filtered_self_reporting_stops_when_the_next_run_might_not_fit():
    account = FilteredSelfReporting(epsilon=1, delta="1e-3")
    loss, runs = halted_epsilon_up(3, **NOISE, threshold="0.6"), 0
    while float(account.spent) + 0.3 <= 1:
        account, runs = account.start("0.3", "1e-6").report(loss), runs + 1
    with pytest.raises(BudgetExceeded):
        account.start("0.3", "1e-6")
    assert 0.7 < float(account.spent) == pytest.approx(runs * loss)


def test_a_run_must_be_reported_before_the_next():
    with pytest.raises(BudgetExceeded):
        FilteredSelfReporting(epsilon=1, delta="1e-3").start("0.1", 0).start("0.1", 0)
