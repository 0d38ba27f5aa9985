"""Multi-target charging against the best adaptive analyst, by dynamic programming over randomised response."""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from chary.accounting import BestOf, Targeted, hit_price_up

CALLS = 7


def best_analyst(order, sizes, targets, discount=1.0):
    """The largest E[(P0/P1)^a exp(-least counter)] over adaptive choices of size and of a prior for each target."""
    prices = {eps: discount * float(hit_price_up(Targeted(eps), Fraction(order))) for eps in sizes}

    @cache
    def value(counters, calls):
        best = math.exp(-min(counters))
        if not calls:
            return best
        for eps, priors in product(sizes, product((0, 1), repeat=targets)):
            p = 1 / (1 + math.exp(-float(eps)))
            total = 0.0
            for outcome, (p0, p1) in enumerate(((p, 1 - p), (1 - p, p))):
                moved = tuple(
                    round(count + prices[eps] * (prior != outcome), 12)
                    for count, prior in zip(counters, priors, strict=True)
                )
                total += p0**order * p1 ** (1 - order) * value(moved, calls - 1)
            best = max(best, total)
        return best

    return value((0.0,) * targets, CALLS)


@pytest.mark.parametrize(("order", "sizes"), [(5, (Fraction(1, 10),)), (8, (Fraction(1, 20), Fraction(1, 50)))])
@pytest.mark.parametrize("targets", [1, 2])
def test_no_analyst_gets_more_than_the_number_of_targets(order, sizes, targets):
    value = best_analyst(order, sizes, targets)
    assert value <= math.exp(float(BestOf(targets).log_moment_up(Fraction(order)))) * (1 + 1e-11)


def test_without_the_logarithm_the_best_of_two_would_be_too_cheap():
    assert best_analyst(5, (Fraction(1, 10),), 2) > 1.1
    assert best_analyst(5, (Fraction(1, 10),), 1, discount=0.9) > 1.01
