import pytest

from chary.accounting import exact_total, plan, trade_offs
from chary.errors import InvalidParameter


@pytest.mark.parametrize(("epsilon", "delta", "hits"), [(1, 1e-6, 50), (0.3, 1e-9, 1), (8, 1e-5, 1000)])
def test_largest_call_fits_and_nothing_larger_does(epsilon, delta, hits):
    found = plan(epsilon=epsilon, delta=delta, hits=hits).epsilon_per_call
    assert exact_total(epsilon_per_call=found, hits=hits, delta=delta) <= epsilon
    assert exact_total(epsilon_per_call=found * (1 + 1e-6), hits=hits, delta=delta) > epsilon


def test_most_hits():
    found = plan(epsilon=1, delta=1e-6, epsilon_per_call=0.02).hits
    assert exact_total(epsilon_per_call=0.02, hits=found, delta=1e-6) <= 1
    assert exact_total(epsilon_per_call=0.02, hits=found + 1, delta=1e-6) > 1


def test_smallest_delta_and_epsilon():
    delta = plan(epsilon=1, hits=40, epsilon_per_call=0.02).delta
    assert exact_total(epsilon_per_call=0.02, hits=40, delta=delta * (1 + 1e-9)) <= 1
    assert plan(delta=1e-6, hits=5, epsilon_per_call=0.1).epsilon == exact_total(
        epsilon_per_call=0.1, hits=5, delta=1e-6
    )


def test_trade_offs_shrink_with_hits():
    sizes = [found.epsilon_per_call for found in trade_offs(epsilon=1, delta=1e-6, hits=(1, 5, 25))]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "given", [{}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6, "hits": 3, "epsilon_per_call": 0.1}]
)
def test_exactly_three_are_needed(given):
    with pytest.raises(InvalidParameter, match="exactly three"):
        plan(**given)


def test_refusal_names_the_call_that_would_fit():
    with pytest.raises(InvalidParameter, match=r"the largest that does is 0\.06"):
        plan(epsilon=1, delta=1e-6, epsilon_per_call=0.5)
