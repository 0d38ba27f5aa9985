"""Intervals and p-values given that a value was published: exact coverage by enumeration, and what breaks the usual."""

from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import GaussianLaw, LaplaceLaw, Publication, Support
from chary.errors import InvalidParameter
from chary.mechanisms import Gaussian, Laplace
from tests.accounting.inference.laws import conditional, gaussian_table, laplace_hit, laplace_table

LAWS = {
    "Laplace 6": (LaplaceLaw(6), laplace_table(6, 260)),
    "Laplace 1": (LaplaceLaw(1), laplace_table(1, 120)),
    "Gaussian 5": (GaussianLaw(25), gaussian_table(25, 120)),
    "Gaussian 20": (GaussianLaw(400), gaussian_table(400, 300)),
}
SUPPORTS = {
    "hit": Support.at_least(30),
    "revision": Support.between(18, 30),
    "change": Support.outside(-6, 6),
    "release": Support.everything(),
    "capped": Support(((None, 10),)),
    "two zones": Support(((-9, -2), (5, 14))),
}
EXACT = 1e-9


def told(publication, values, confidence):
    """The interval of each value, with infinities for ends that do not exist."""
    found = {}
    for value in values:
        low, high = publication.interval(value, confidence)
        found[value] = (-np.inf if low is None else low, np.inf if high is None else high)
    return found


@pytest.mark.parametrize(
    ("name", "confidence"), [("Laplace 6", "0.95"), ("Laplace 1", "0.7"), ("Gaussian 5", "0.8"), ("Gaussian 20", "0.9")]
)
@pytest.mark.parametrize("support", SUPPORTS)
def test_coverage_whatever_the_truth(name, confidence, support):
    noise, table = LAWS[name]
    publication = Publication(noise, SUPPORTS[support])
    intervals = told(publication, [v for v in range(-75, 106) if v in SUPPORTS[support]], confidence)
    for truth in range(-20, 61, 2):
        law = conditional(table, SUPPORTS[support].pieces, truth)
        far = sum(p for value, p in law.items() if value not in intervals)
        inside = sum(law[v] for v, (low, high) in intervals.items() if v in law and low <= truth <= high)
        assert inside >= float(confidence) - far - EXACT


def test_the_usual_bar_fails():
    noise, table = LAWS["Laplace 6"]
    usual = Laplace(Fraction(6), 1).error_bar()
    law = conditional(table, ((30, None),), 0)
    assert sum(p for value, p in law.items() if abs(value) <= usual) == 0
    law = conditional(table, ((30, None),), 20)
    assert sum(p for value, p in law.items() if abs(value - 20) <= usual) < 0.85
    assert Publication(noise).interval(40).high == 40 + usual


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_ends_are_the_first_truths_that_are_too_rare(name, support):
    """Against tables: neither a step too wide nor too narrow, but for the value itself, which is always inside."""
    noise, table = LAWS[name]
    publication, truths = Publication(noise, SUPPORTS[support]), range(-60, 101)
    laws = {truth: conditional(table, SUPPORTS[support].pieces, truth) for truth in truths}
    for value in [v for v in range(-20, 60, 7) if v in SUPPORTS[support]]:
        above = [x for x in truths if sum(p for v, p in laws[x].items() if v >= value) > 0.05]
        below = [x for x in truths if sum(p for v, p in laws[x].items() if v <= value) > 0.05]
        low, high = publication.interval(value, "0.9")
        expected = min([*above, value]), max([*below, value])
        assert (truths[0] if low is None or low < truths[0] else low) == expected[0]
        assert (truths[-1] if high is None or high > truths[-1] else high) == expected[1]


def test_the_published_numbers():
    watch = Publication(LaplaceLaw(20), Support.at_least(100))
    said = {v: tuple(watch.interval(v)) for v in (100, 160, 175, 200, 400)}
    assert said == {100: (None, 107), 160: (None, 219), 175: (106, 234), 200: (139, 260), 400: (340, 460)}


@pytest.mark.parametrize("value", [100, 130, 173, 174, 175, 240, 1000])
def test_closed_forms_of_hits(value):
    noise, support = LaplaceLaw(20), Support.at_least(100)
    low, high = Publication(noise, support).interval(value)
    low, high = min(value, low) if low is not None else None, max(value, high)
    if low is None:
        assert laplace_hit(20, 100, value, 0) > 0.025
    else:
        assert laplace_hit(20, 100, value, low) > 0.025 >= laplace_hit(20, 100, value, low - 1)
    assert 1 - laplace_hit(20, 100, value + 1, high + 1) <= 0.025 + 1e-12


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize("scale", [Fraction(1, 4), 3, Fraction(201, 7), 5000])
def test_no_lower_end_where_the_bar_is_near(scale, confidence):
    """Less than `b ln(2/beta)` above its bar a hit may be a false alarm, and not farther."""
    beta = 1 - float(Fraction(confidence))
    edge = int(np.ceil(float(scale) * np.log(2 / beta) - EXACT))
    watch = Publication(LaplaceLaw(scale), Support.at_least(1000))
    assert watch.interval(1000 + edge, confidence).low is not None
    assert watch.interval(1000 + edge - 1, confidence).low is None


@pytest.mark.parametrize("noise", [Laplace(Fraction(37, 2), 1), Gaussian(Fraction(300), 1), Gaussian(Fraction(3), 1)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_an_ordinary_release_has_its_error_bar(noise, confidence):
    bar = noise.error_bar(confidence)
    assert tuple(Publication(noise.law()).interval(1000, confidence)) == (1000 - bar, 1000 + bar)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_moving_and_mirroring_everything_moves_and_mirrors_the_interval(name, support):
    noise, region = LAWS[name][0], SUPPORTS[support]
    value = next(v for v in (9, 25, 33) if v in region)
    low, high = Publication(noise, region).interval(value)
    away = 10**12
    moved = Support(tuple((a if a is None else a + away, b if b is None else b + away) for a, b in region.pieces))
    shifted = tuple(end if end is None else end + away for end in (low, high))
    assert tuple(Publication(noise, moved).interval(value + away)) == shifted
    mirrored = tuple(end if end is None else -end for end in (high, low))
    assert tuple(Publication(noise, region.mirrored()).interval(-value)) == mirrored


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_intervals_rise_with_the_value_and_nest_with_the_confidence(name, support):
    publication = Publication(LAWS[name][0], SUPPORTS[support])
    values = [v for v in range(-30, 60, 5) if v in SUPPORTS[support]]
    ends = list(told(publication, values, "0.9").values())
    assert ends == sorted(ends)
    assert [high for _, high in ends] == sorted(high for _, high in ends)
    for value, (low, high) in told(publication, values, "0.99").items():
        inner = publication.interval(value, "0.9")
        assert low <= (inner.low if inner.low is not None else -np.inf)
        assert high >= (inner.high if inner.high is not None else np.inf)


def test_a_far_bar_is_no_bar():
    noise = LaplaceLaw(20)
    assert Publication(noise, Support.at_least(-(10**6))).interval(0) == Publication(noise).interval(0)
    assert Publication(noise, Support.between(0, 10**9)).interval(200) == Publication(
        noise, Support.at_least(0)
    ).interval(200)


def test_what_is_known_of_the_truth_cuts_the_interval():
    noise = LaplaceLaw(20)
    assert tuple(Publication(noise, Support.at_least(100), floor=0).interval(100)) == (0, 107)
    assert tuple(Publication(noise, floor=0, ceiling=50).interval(30)) == (0, 50)
    assert tuple(Publication(noise, floor=0, ceiling=50).interval(-500)) == (0, 0)
    assert tuple(Publication(noise, floor=0, ceiling=50).interval(500)) == (50, 50)


def test_answers_in_their_own_units():
    cents = Publication(LaplaceLaw(20), Support.at_least(100), grid="0.01")
    assert tuple(cents.interval(1.75)) == (1.06, 2.34)
    assert tuple(cents.interval("1.75")) == (1.06, 2.34)
    assert cents.p_value(1.75) == Publication(LaplaceLaw(20), Support.at_least(100)).p_value(175)
    thirds = Publication(LaplaceLaw(20), grid="1/3")
    assert tuple(thirds.interval(100 / 3)) == (40 / 3, 160 / 3)
    with pytest.raises(InvalidParameter, match="multiple"):
        cents.interval("1.755")


def test_a_float_stands_for_all_that_it_may_be():
    """Near 1e17 floats are 16 apart: an end moves by that much, outwards."""
    wide, exact = Publication(LaplaceLaw(20)).interval(1e17), Publication(LaplaceLaw(20)).interval(10**17)
    assert (wide.low, wide.high) == (exact.low - 8, exact.high + 8)


@pytest.mark.parametrize("steps", [3, 7, 120, 12345])
def test_a_float_is_the_quotient_that_is_rounded_to_it(steps):
    for place in range(-300, 300):
        part, grid = Fraction(place, steps), Fraction(1, steps)
        told = Publication(LaplaceLaw(1), grid=grid)
        assert told.interval(float(part)) == told.interval(part)


@pytest.mark.parametrize("name", ["Laplace 6", "Gaussian 5"])
def test_rounded_answers_are_covered_given_that_they_changed(name):
    """A tracked answer: the nearest multiple of 8, halves upwards, published when it is not the last one, 16."""
    noise, table = LAWS[name]
    tracked = Publication(noise, Support.outside(12, 19), step=8)
    intervals = told(tracked, [8 * cell for cell in range(-10, 14) if cell != 2], "0.9")
    for truth in range(-10, 40):
        law = conditional(table, ((None, 11), (20, None)), truth)
        inside = sum(p for v, p in law.items() if _within(intervals.get((2 * v + 8) // 16 * 8), truth))
        assert inside >= 0.9 - EXACT - sum(p for v, p in law.items() if abs(v) > 80)
    with pytest.raises(InvalidParameter, match="never published"):
        tracked.interval(16)
    with pytest.raises(InvalidParameter, match="multiple"):
        tracked.interval(17)


def _within(interval, truth):
    return interval is not None and interval[0] <= truth <= interval[1]


@pytest.mark.parametrize("value", [100, 101, 160, 400])
def test_p_values_of_laplace_hits(value):
    watch = Publication(LaplaceLaw(20), Support.at_least(100))
    true = np.exp(-(value - 100) / 20)
    assert true * (1 - 1e-15) <= watch.p_value(value) <= min(1, true * (1 + 1e-13))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("support", ["hit", "revision", "change", "capped", "two zones"])
def test_p_values_are_valid_on_the_whole_null(name, support):
    noise, table = LAWS[name]
    publication = Publication(noise, SUPPORTS[support])
    null = {
        "hit": range(-5, 30),
        "revision": range(-5, 18),
        "change": range(-6, 7),
        "capped": range(11, 45),
        "two zones": range(-45, -9),
    }[support]
    p_values = {v: publication.p_value(v) for v in range(-70, 91) if v in SUPPORTS[support]}
    for truth in null:
        law = conditional(table, SUPPORTS[support].pieces, truth)
        for level in (0.01, 0.1, 0.3, 0.8):
            assert sum(law.get(v, 0) for v, p in p_values.items() if p <= level) <= level + EXACT


@pytest.mark.parametrize("name", LAWS)
def test_the_p_value_of_a_hit_is_the_tail_at_the_edge_of_its_bar(name):
    noise, table = LAWS[name]
    law = conditional(table, ((30, None),), 29)
    for value in (30, 31, 40, 60):
        true = sum(p for v, p in law.items() if v >= value)
        assert Publication(noise, SUPPORTS["hit"]).p_value(value) == pytest.approx(true, rel=1e-9)


def test_an_ordinary_release_has_no_p_value():
    assert Publication(LaplaceLaw(20)).p_value(7) is None


def test_a_tiny_p_value_is_not_nothing():
    assert 0 < Publication(LaplaceLaw(1), Support.at_least(0)).p_value(10**6) < 1e-299


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, "nan", True])
def test_bad_confidence(confidence):
    with pytest.raises(InvalidParameter):
        Publication(LaplaceLaw(20)).interval(7, confidence)


@pytest.mark.parametrize("wrong", [{"grid": 0}, {"step": -1}, {"floor": 2, "ceiling": 1}, {"floor": "x"}])
def test_bad_terms(wrong):
    with pytest.raises(InvalidParameter):
        Publication(LaplaceLaw(20), **wrong)


@pytest.mark.parametrize("pieces", [(), ((3, 2),), ((1, 2), (5, 4)), ((True, 4),), ((0.5, 4),)])
def test_bad_supports(pieces):
    with pytest.raises(InvalidParameter):
        Support(pieces)


def test_a_value_whose_whole_interval_is_withheld_is_probably_a_false_alarm():
    """A fresh value of a hit may lie far below the threshold that its test found it above."""
    watch = Publication(GaussianLaw(100), bar=100)
    said = set()
    for value in range(60, 140):
        low, high = watch.interval(value)
        wanted = "probably" if high <= 99 else "may be" if low <= 99 else None
        found = watch.caution(value)
        assert wanted == (None if found is None else found.partition(" a false")[0])
        said.add(wanted)
    assert said == {"probably", "may be", None}
