"""`chary account interval`: its JSON, what it prints for people, and its errors."""

import pytest

from tests.cli.kit import figures

LINE = "account interval --epsilon 0.05 --above 100"
SAID = {100: (None, 107), 160: (None, 219), 175: (106, 234), 200: (139, 260), 400: (340, 460)}


@pytest.mark.parametrize("value", SAID)
def test_hits(call, value):
    found = figures(call, f"{LINE} --value {value}")
    assert (found["low"], found["high"]) == SAID[value]
    assert found["p_value"] == pytest.approx(2.718281828459045 ** (-(value - 100) / 20))
    assert found.keys() == {"low", "high", "p_value"}


def test_revisions_confidences_and_negative_numbers(call):
    revised = figures(call, f"{LINE} --value 175 --below 1000")
    assert (revised["low"], revised["high"]) == (106, 234)
    assert figures(call, f"{LINE} --value 195 --below 200")["high"] is None
    sure = figures(call, f"{LINE} --value 200 --confidence 0.999")
    assert sure["low"] is None
    assert sure["high"] > 260
    below = figures(call, "account interval --epsilon 0.05 --above -100 --value -25")
    assert (below["low"], below["high"]) == (-94, 34)


def test_people_are_told_what_a_missing_end_means(call):
    code, out, _ = call(f"{LINE} --value 160")
    assert code == 0
    assert "may be a false alarm" in out
    assert "219" in out


@pytest.mark.parametrize(
    "more",
    [
        "--value 99",
        "--value 150 --below 150",
        "--value 150 --below 100",
        "--value 150 --below 90",
        "--value 175 --confidence 1",
        "--value 175 --confidence 0",
        "--value 175 --confidence nan",
        "--value 175 --epsilon -1",
        "--value 175 --epsilon 1e-30",
    ],
)
def test_bad_input_shows_a_call_that_works(call, more):
    code, out, error = call(f"{LINE} {more}")
    assert (code, out) == (2, "")
    assert figures(call, error.split("such as: chary ")[1])["low"] == 106


@pytest.mark.parametrize("line", ["account interval", f"{LINE} --value x", f"{LINE} --value 1.5"])
def test_usage_errors(call, line):
    assert call(line)[0] == 2
