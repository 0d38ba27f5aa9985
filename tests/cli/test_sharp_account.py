"""`chary account sharp` and `within`: their JSON, the allowed side, refusals."""

from fractions import Fraction

import pytest

from chary.accounting import sharp_width
from tests.accounting.sharp.laws import allowed
from tests.cli.kit import figures
from tests.paths import reference

WITHIN = "account within --budget-epsilon 1 --budget-delta 1e-6 --tests 1000 --hits 3"


@pytest.mark.parametrize("order", ["18.0", "2.5", "60.0"])
def test_sharp_is_the_reference(call, order):
    rows = [
        row for row in reference("sharp_test.csv") if row["order"] == order and row["p"] in ("", "1e-12", "0.999999")
    ]
    tail = next(row for row in rows if row["what"] == "tail")
    for row in rows:
        if row["what"] == "next":
            found = figures(call, f"account sharp --order {order} --price {row['price']} --p {row['p']}")
            assert found == {
                "next_miss": pytest.approx(float(row["value"]), rel=1e-12),
                "tail": pytest.approx(float(tail["value"]), rel=1e-12),
            }
            assert allowed(row["p"], 1 - Fraction(found["next_miss"]), order, row["price"])


def test_sharp_with_a_price_for_misses_has_no_tail(call):
    found = figures(call, "account sharp --order 18 --price 0.2 --p 0.001 --miss-price 0.002")
    assert found["tail"] is None
    assert found["next_miss"] < figures(call, "account sharp --order 18 --price 0.2 --p 0.001")["next_miss"]


def test_within(call):
    found = figures(call, WITHIN)
    assert found.keys() == {"within", "order", "laplace", "sparse"}
    best = sharp_width(epsilon="1", delta="1e-6", tests=1000, hits=3)
    assert (found["within"], found["order"]) == (best.within, float(best.test.order))
    assert [round(found[name]) for name in ("within", "laplace", "sparse")] == [104, 232, 27]


def test_within_ten_thousand_tests(call):
    found = figures(call, WITHIN.replace("1000", "10000").replace("hits 3", "hits 20"))
    assert [round(found[name]) for name in ("within", "laplace")] == [211, 490]


def test_within_with_a_share_for_misses(call):
    shared, best = (figures(call, f"{WITHIN} --misses-share {share}") for share in ("0.2", "best"))
    assert shared["misses_share"] == 0.2
    assert best["within"] < shared["within"] < figures(call, WITHIN)["within"]
    assert 0 < best["misses_share"] < 1
    assert figures(call, WITHIN + " --confidence 0.5")["within"] < figures(call, WITHIN)["within"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("account sharp --order 1 --price 1 --p 0.5", "order"),
        ("account sharp --order 18 --price 0 --p 0.5", "price"),
        ("account sharp --order 18 --price 1e-20 --p 0.5", "at least 3.06"),
        ("account sharp --order 18 --price 1 --p 1", "p must"),
        ("account sharp --order nan --price 1 --p 0.5", "order"),
        (WITHIN.replace("1000", "0"), "tests"),
        (WITHIN.replace("hits 3", "hits 1001"), "hits"),
        (WITHIN.replace("1e-6", "0"), "delta"),
        (WITHIN + " --misses-share 1", "--misses-share"),
        (WITHIN + " --misses-share most", "--misses-share"),
        (WITHIN + " --confidence 1", "confidence"),
    ],
)
def test_bad_input_is_refused(call, line, told):
    code, out, error = call(line)
    assert (code, out) == (2, "")
    assert told in error
