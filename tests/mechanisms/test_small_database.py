"""Small databases: the law by brute force over all multisets, privacy of all small neighbours, draws, accuracy."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.small_database import MOST_CANDIDATES, Classes, SmallDatabases
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.small_database_laws import (
    MEASURES,
    WORKLOADS,
    answers,
    brute,
    candidates,
    law,
    made,
    tallied,
    worst,
)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_law_is_that_of_all_multisets_by_brute_force(name, rows, measure):
    flags = WORKLOADS[name]
    data = np.random.default_rng(3).integers(0, 5, len(flags[0])).tolist()
    known, found = brute(flags, data, rows, measure, 0.8), law(flags, data, rows, measure, "0.8")
    assert known.keys() == found.keys()
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12)
    for database, chance in known.items():
        assert found[database] == pytest.approx(chance, rel=1e-12)


def neighbours(cells, size):
    """All datasets of so many rows, each with all that differ in one row."""
    for database in combinations_with_replacement(range(cells), size):
        for place, other in product(range(size), range(cells)):
            moved = [*database[:place], other, *database[place + 1 :]]
            yield tallied(cells, list(database)), tallied(cells, moved)


def losses(name, rows, measure, epsilon, size=3):
    """The largest loss of any outcome, and the widest range of losses, among all neighbours."""
    flags, most, widest = WORKLOADS[name], 0.0, 0.0
    laws = {}
    for pair in neighbours(len(flags[0]), size):
        one, other = (laws.setdefault(tuple(data), law(flags, list(data), rows, measure, epsilon)) for data in pair)
        each = [math.log(one[database] / other[database]) for database in one]
        most, widest = max(most, *map(abs, each)), max(widest, max(each) - min(each))
    return most, widest


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("name", "rows", "near"), [("every cell", 1, 0.93), ("every cell", 2, 0.5), ("one query", 3, 0.5)]
)
def test_no_neighbours_pass_epsilon_and_some_come_close(name, rows, near, measure):
    most, widest = losses(name, rows, measure, "2", size=4)
    assert near * 2 < most <= 2 + 1e-9
    assert widest == pytest.approx(2, abs=1e-9), "the range of losses, which makes it epsilon^2/8-zCDP, is attained"


def test_a_wrong_sensitivity_would_be_noticed():
    """Scores in shares times n m change by m: with the exponent of a change by 1 the loss would pass epsilon."""

    class Wrong(SmallDatabases):
        unit = property(lambda self: Fraction(self.epsilon) / 2)

    flags, one, other = WORKLOADS["every cell"], [3, 0, 0], [2, 1, 0]
    classes = Classes.of(3, np.array(flags, bool))
    laws = [candidates(Wrong("2", 2, classes), answers(flags, data), 3) for data in (one, other)]
    assert max(abs(np.log(laws[0] / laws[1]))) > 2.5


def drawn(mechanism, flags, data, times):
    counts, source = answers(flags, data), Seeded(7)
    return Counter(tuple(mechanism.step(counts, sum(data), source)) for _ in range(times))


def fit(found, known):
    """The p-value of what was drawn; outcomes are rare together."""
    usual = [database for database, chance in known.items() if chance * sum(found.values()) >= 5]
    seen = [found[database] for database in usual]
    seen.append(sum(found.values()) - sum(seen))
    expected = [known[database] for database in usual]
    expected.append(max(1e-12, 1 - sum(expected)))
    return stats.chisquare(seen, np.array(expected) / sum(expected) * sum(seen)).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("measure", MEASURES)
def test_draws_follow_the_law_and_no_other(measure):
    flags, data = WORKLOADS["overlapping"], [3, 9, 1, 0, 5]
    found = drawn(made(flags, 2, measure), flags, data, 6000)
    assert fit(found, brute(flags, data, 2, measure, 0.8)) > 1e-6
    for scale in (2 / 3, 3 / 2):
        assert fit(found, brute(flags, data, 2, measure, 0.8 * scale)) < 1e-6
    other = next(name for name in MEASURES if name != measure)
    assert fit(found, brute(flags, data, 2, other, 0.8)) < 1e-6


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_shortfall_is_kept_by_the_exact_law(name, measure):
    flags, random = WORKLOADS[name], np.random.default_rng(2)
    for beta in ("0.5", "0.05", "0.001"):
        data = random.integers(0, 9, len(flags[0])).tolist()
        mechanism = made(flags, 3, measure)
        scores, which = mechanism.scored(answers(flags, data), sum(data))
        chances = np.array(mechanism.law(scores, which).probabilities())
        most = scores[0] + mechanism.shortfall(sum(data), beta) * 3 * sum(data)
        assert chances[np.array(scores) > most].sum() <= float(beta)


def test_nine_tenths_of_the_shortfall_are_not_kept():
    """One candidate is right and 299 are wrong by all there is."""
    mechanism = made(np.eye(300, dtype=bool), 1, "classes", 2 * math.log(299 / 0.06) / 1000)
    scores, which = mechanism.scored([1000] + 299 * [0], 1000)
    chances = np.array(mechanism.law(scores, which).probabilities())
    told = mechanism.shortfall(1000, "0.05") * 1000
    assert chances[np.array(scores) > told].sum() <= 0.05 < chances[np.array(scores) > 0.9 * told].sum()


def test_the_best_database_is_found_without_noise():
    flags, data = WORKLOADS["overlapping"], [3, 9, 1, 0, 5]
    cells = made(flags, 4, "classes", 10**6).step(answers(flags, data), sum(data), OperatingSystem())
    every = combinations_with_replacement(range(5), 4)
    assert worst(flags, data, cells) == min(worst(flags, data, database) for database in every)


def test_what_it_may_reveal_is_its_epsilon():
    assert made(WORKLOADS["one query"], epsilon="0.3").event() == Pure("0.3")


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": "nan"},
        {"rows": 0},
        {"rows": 2.5},
        {"measure": "all"},
        {"rows": MOST_CANDIDATES},
    ],
)
def test_bad_input_is_refused(given):
    with pytest.raises(InvalidParameter):
        made(WORKLOADS["one query"], **given)
