"""Laws with powers of their own: shares add up to the budget, no run is worse than the first, rows turned round."""

import math
from fractions import Fraction

import pytest

from chary.accounting.schedules import (
    MOST_LOGS,
    EpochRuns,
    EveryRun,
    Law,
    best_growth,
    epochs_error,
    epochs_rows,
    every_rows,
    powers_sum,
    runs_of_body,
    static_rows,
)
from chary.errors import InvalidParameter

LAWS = {
    "published": Law(1, 2),
    "rows count double": Law("1/2", 2, size_power=1),
    "rows count half": Law(1, 2, 3, size_power="1/2"),
    "logarithms": Law("1/3", 2, 10, log_power="5/2"),
    "logarithms of rows": Law(1, 2, 10, log_power="1/2", size_log="3/2"),
    "all": Law("2/3", 3, 7, 2, "0.01", "1/2", 1),
}
BUDGETS = [{"epsilon": "0.7"}, {"rho": "0.02"}]


def made(law, start=1000, growth="0.25", **budget):
    return EpochRuns(start=start, growth=growth, beta="0.05", fall=law.fall, logs=law.logs, **budget)


@pytest.mark.parametrize("power", range(1, 2 * MOST_LOGS + 1))
def test_sums_of_powers_are_those_of_the_series(power):
    for x in (Fraction(1, 3), Fraction(4, 5)):
        terms = sum(((i + 1) ** power * x**i for i in range(800)), Fraction(0))
        assert float(powers_sum(float(x), power)) == pytest.approx(float(terms), rel=1e-12)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", LAWS)
def test_shares_add_up_to_the_budget_and_not_more(name, budget):
    runs = made(LAWS[name], **budget)
    each = [runs.epsilon_down(run, run) for run in range(500)]
    if "epsilon" in budget:
        spent, total = sum(each), Fraction("0.7")
    else:
        spent, total = sum(share**2 for share in each) / 2, Fraction("0.02")
    assert spent <= total
    assert float(spent) == pytest.approx(float(total), rel=1e-9)
    together = runs.epsilon_down(3, 9)
    apart = sum(each[3:10]) if "epsilon" in budget else math.sqrt(sum(share**2 for share in each[3:10]))
    assert float(together) == pytest.approx(float(apart), rel=1e-12)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("start", [11, 5000])
@pytest.mark.parametrize("name", LAWS)
def test_no_run_is_worse_than_the_first(name, start, budget):
    law = LAWS[name]
    for growth in ("0.02", "1", "9"):
        runs = made(law, start, growth, **budget)
        errors = [runs.error(law, run) for run in range(60)]
        assert max(errors) <= errors[0] * (1 + 1e-9)
        assert errors[0] <= epochs_error(law, start=start, growth=growth, beta="0.05", **budget) * (1 + 1e-9)


def test_with_the_published_shares_such_laws_would_get_worse():
    for name in ("rows count half", "logarithms", "logarithms of rows"):
        law = LAWS[name]
        runs = EpochRuns(start=1000, growth="0.25", beta="0.05", epsilon="0.7")
        assert max(runs.error(law, run) for run in range(200)) > 1.05 * runs.error(law, 0)


@pytest.mark.parametrize("name", LAWS)
def test_rows_are_the_least_that_keep_the_accuracy(name):
    law = LAWS[name]
    wanted = 0.3
    once = static_rows(law, accuracy=wanted, epsilon="0.7", beta="0.05")
    assert (
        law.error(size=once, epsilon="0.7", beta="0.05")
        <= wanted
        < law.error(size=once - 1, epsilon="0.7", beta="0.05")
    )
    terms = {"beta": "0.05", "epsilon": "0.7"}
    rows = epochs_rows(law, accuracy=wanted, **terms)

    def best(start):
        return epochs_error(law, start=start, growth=best_growth(law, start=start, **terms), **terms)

    assert best(rows) <= wanted < best(math.floor(rows * 0.999))


def test_runs_at_every_size_fall_where_they_can():
    terms = {"accuracy": "0.2", "beta": "0.05", "exponent": "0.1", "rho": "0.02"}
    for name in ("published", "rows count double", "logarithms", "logarithms of rows"):
        law = LAWS[name]
        size, runs = every_rows(law, start=1000, **terms), EveryRun(1000, "0.1", "0.05", "0.02")
        for later in (1, 1.1, 2, 10, 10**4):
            assert runs.error(law, math.ceil(size * later) - 1000) <= 0.2 * (1 + 1e-12)
        if size > 1000:
            assert runs.error(law, math.floor(size * 0.999) - 1000) > 0.2
    with pytest.raises(InvalidParameter, match="do not fall"):
        every_rows(LAWS["rows count half"], start=1000, **terms)


@pytest.mark.parametrize("name", LAWS)
def test_laws_and_runs_come_back_from_their_bodies(name):
    law = LAWS[name]
    assert Law(**law.body()) == law
    runs = made(law, rho="0.02")
    assert runs_of_body(runs.body()) == runs
    assert ("fall" in runs.body()) == ((law.fall, law.logs) != (1, 1))
    assert ("size_power" in law.body()) == (law.size_power is not None)


def test_what_is_refused():
    for wrong in ({"size_power": 0}, {"size_log": -1}, {"log_power": 8, "size_log": 1}, {"log_power": 9}):
        with pytest.raises(InvalidParameter):
            Law(1, 1, **wrong)
    with pytest.raises(InvalidParameter, match="logs"):
        EpochRuns(start=10, growth=1, beta="0.1", epsilon=1, logs=9)
    with pytest.raises(InvalidParameter, match="11 rows"):
        epochs_error(LAWS["all"], start=10, growth=1, beta="0.1", epsilon=1)
