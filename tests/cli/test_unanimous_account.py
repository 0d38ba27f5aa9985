"""`chary account unanimous`: the number of runs that pays least on average, as the library finds it."""

import json
from fractions import Fraction

import pytest

from chary.accounting import best_runs, boundary_chance, unanimous_price_up

LINE = "account unanimous --epsilon 0.02 --order 15 --unclear 0.1"


def test_it_tells_the_best_number_of_runs(call):
    code, out, _ = call(LINE + " --json")
    found, order = json.loads(out), Fraction(15)
    prices = {runs: float(unanimous_price_up("0.02", runs, order)) for runs in range(2, 13)}
    paid = {runs: price * boundary_chance("0.1", runs) for runs, price in prices.items()}
    assert code == 0
    assert found["runs"] == best_runs("0.02", order, "0.1") == min(paid, key=paid.get)
    assert found["price"] == pytest.approx(prices[found["runs"]])
    assert found["chance"] == pytest.approx(boundary_chance("0.1", found["runs"]))
    assert found["paid"] == pytest.approx(min(paid.values()))
    assert found["paid_twice"] == pytest.approx(paid[2])


def test_for_people_and_with_fewer_runs(call):
    code, out, _ = call(LINE + " --most 3")
    assert code == 0
    assert "runs" in out.split()
    assert "paid_twice" in out.replace(" ", "_")
    assert json.loads(call(LINE + " --most 2 --json")[1])["runs"] == 2


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("15", "1"),
        LINE.replace("0.1", "1"),
        LINE.replace("0.02", "0"),
        LINE.replace("0.02", "3"),
        LINE + " --most 1",
    ],
)
def test_what_has_no_price_is_told_in_a_line(call, line):
    code, out, told = call(line)
    assert (code, out) == (2, "")
    assert "Traceback" not in told
