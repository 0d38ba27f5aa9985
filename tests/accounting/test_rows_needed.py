"""Rows, sizes and numbers of queries that an accuracy takes: each is the least, by the forward formula beside it."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.accounting.numerics import least_size, most_kept
from chary.accounting.schedules import EveryRun, Law, best_growth, epochs_error, epochs_rows, every_rows, static_rows
from chary.accounting.weights import (
    published_weights_alpha,
    published_weights_rows,
    queries_allowed,
    round_alpha_up,
    sparse_weights_rows,
    weight_rounds,
)
from chary.errors import InvalidParameter
from chary_research.published import published_small_database_law

LAWS = [Law(1, 2), Law(1, 2, choices=20, base="0.01"), Law("1/2", "0.5", log_power="1/2"), Law(2, 30)]
QUICK = settings(max_examples=30, deadline=None)


@QUICK
@given(st.integers(1, 50), st.floats(0.2, 3), st.floats(1e-6, 0.9))
def test_the_least_size_is_that_of_a_scan(low, power, target):
    def bound(n):
        return float(n) ** -power

    found = least_size(bound, target, low, 10**40)
    assert bound(found) <= target
    assert found == low or bound(found - 1 - found // 10**13) > target


def test_a_target_that_is_never_reached_is_none():
    assert least_size(lambda n: 2 + 1 / n, 1) is None


@QUICK
@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_most_kept_is_kept_and_hardly_more_would_be(low, limit):
    found = most_kept(lambda n: n, limit, low)
    assert found is None if low > limit else low <= found <= limit < found + max(1, found // 1000) + 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("accuracy", [0.02, 0.3])
def test_one_run_takes_the_least_rows(law, accuracy):
    rows = static_rows(law, accuracy=accuracy, epsilon="0.5", beta="0.05")
    error = [law.error(size=size, epsilon="0.5", beta="0.05") for size in (rows, max(1, rows - 1))]
    assert error[0] <= accuracy
    assert rows == 1 or error[1] > accuracy


def test_the_law_of_a_small_database_is_turned_round_by_its_cube():
    law = published_small_database_law(cells=1000, queries=20)
    rows = [static_rows(law, accuracy=accuracy, epsilon=1, beta="0.05") for accuracy in ("0.2", "0.1")]
    assert rows[1] / rows[0] == pytest.approx(8, rel=1e-3)


@pytest.mark.parametrize("law", LAWS[:3])
@pytest.mark.parametrize("total", [{"epsilon": 1}, {"rho": "0.02"}])
def test_a_schedule_keeps_the_accuracy_from_so_many_rows_on(law, total):
    rows = epochs_rows(law, accuracy="0.1", beta="0.05", **total)

    def error(start):
        growth = best_growth(law, start=start, beta="0.05", **total)
        return epochs_error(law, start=start, growth=growth, beta="0.05", **total)

    assert error(rows) <= 0.1 < error(int(rows * 0.999) - 1)


def test_a_growth_may_be_given_and_its_staleness_remains():
    given_growth = {"law": LAWS[0], "beta": "0.05", "epsilon": 1, "growth": "0.05"}
    rows = epochs_rows(accuracy="0.06", **given_growth)
    assert rows >= epochs_rows(LAWS[0], accuracy="0.06", beta="0.05", epsilon=1)
    with pytest.raises(InvalidParameter, match=r"0\.0476"):
        epochs_rows(accuracy="0.04", **given_growth)


@pytest.mark.parametrize("start", [10, 10**5])
@pytest.mark.parametrize(
    ("exponent", "accuracy"), [("0.1", "0.05"), ("0.1", "100"), ("0.3", "0.05"), ("0.45", "60"), ("0.45", "1000")]
)
def test_every_later_size_keeps_the_accuracy(exponent, start, accuracy):
    asked = {"start": start, "exponent": exponent, "rho": "0.02", "beta": "0.05"}
    law, runs = LAWS[0], EveryRun(**asked)
    size = every_rows(law, accuracy=accuracy, **asked)
    later = [size, size + 1, 2 * size, 100 * size, 10**6 * size]
    assert max(runs.error(law, at - start) for at in later) <= float(accuracy)
    assert size == start or max(runs.error(law, at - start) for at in range(max(start, size - 3), size)) > float(
        accuracy
    ) * (1 - 1e-9)


def test_an_accuracy_that_no_rows_reach_is_refused():
    with pytest.raises(InvalidParameter, match="no number of rows"):
        static_rows(LAWS[1], accuracy="0.01", epsilon=1, beta="0.05")
    with pytest.raises(InvalidParameter, match="no table"):
        static_rows(LAWS[0], accuracy="1e-40", epsilon=1, beta="0.05")
    with pytest.raises(InvalidParameter, match="near to 1/2"):
        every_rows(LAWS[0], accuracy="0.1", beta="0.05", start=10, exponent="0.4999", rho="0.02")


@pytest.mark.parametrize("terms", [{}, {"delta": "1e-6"}, {"exponent": "0.8"}, {"delta": "1e-6", "exponent": "0.2"}])
def test_published_rows_are_the_least(terms):
    asked = {"cells": 1000, "queries": 500, "epsilon": "0.7"} | terms
    rows = published_weights_rows(alpha="0.1", **asked)
    assert published_weights_alpha(size=rows, **asked) <= 0.1 < published_weights_alpha(size=rows - 1, **asked)


@pytest.mark.parametrize("terms", [{}, {"delta": "1e-6"}, {"exponent": "0.8"}])
def test_queries_allowed_are_those_that_keep_alpha(terms):
    asked = {"cells": 1000, "epsilon": 1} | terms
    rows = published_weights_rows(alpha="0.1", queries=1000, **asked)
    allowed = queries_allowed(alpha="0.1", start=rows, size=rows, **asked)
    assert 1000 <= allowed + 1 <= 1002
    assert published_weights_alpha(size=rows, queries=int(allowed), **asked) <= 0.1 * (1 + 1e-9)
    assert published_weights_alpha(size=rows, queries=int(allowed) + 2, **asked) > 0.1


@pytest.mark.parametrize("exponent", ["0.3", "1/2", "0.9"])
def test_the_queries_of_a_grown_table_fail_rarely_enough_together(exponent):
    """By the sum of the chances of all noises: query j comes at the least size at which so many are allowed."""
    asked = {"alpha": "0.1", "cells": 100, "start": 10**9, "epsilon": 1, "exponent": exponent}
    first = queries_allowed(size=10**9, **asked)
    sizes = [10**9 * (20 + step) // 20 for step in range(200)]
    allowed = [queries_allowed(size=size, **asked) for size in sizes]
    assert allowed == sorted(allowed)
    x = math.log(9 * (first + 1) / 0.05)
    failed = first * 4.1 * math.exp(-x)
    for size, before, after in zip(sizes[1:], allowed, allowed[1:], strict=False):
        failed += (after - before) * 4.1 * math.exp(-x * (size / 1.05 / 10**9) ** float(Fraction(exponent)))
    assert failed <= 0.05 * 1.5


def test_no_query_fits_where_noise_is_too_large():
    assert queries_allowed(alpha="0.01", cells=1000, start=100, size=100, epsilon=1) == 0
    with pytest.raises(InvalidParameter, match="shrink"):
        queries_allowed(alpha="0.1", cells=1000, start=100, size=99, epsilon=1)


@pytest.mark.parametrize("terms", [{"epsilon": 1}, {"rho": "0.02", "rounds": 20}])
def test_rows_by_the_exact_law_are_the_least(terms):
    asked = {"cells": 100, "mixing": "0.1"} | terms
    rows = sparse_weights_rows(alpha="0.2", queries=50, **asked)

    def reached(size):
        rounds = weight_rounds(alpha="0.2", start=size, **asked)
        spread = min(50, rounds.allowance.most(size))
        return round_alpha_up(rounds.noise(1, size), size=size, queries=50, rounds=spread)

    assert reached(rows) <= 0.2 < reached(rows - 1)
