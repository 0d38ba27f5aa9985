"""Small databases: the law by brute force over all multisets, privacy of all small neighbours, exact at any size."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.small_database import SmallDatabases
from chary.mechanisms.small_database_classes import MOST_BITS, MOST_CANDIDATES, Classes
from chary.noise import OperatingSystem, Seeded

# One flag a cell for each query; cells 0 and 3 are told apart by none in the first, all are in the last.
WORKLOADS = {
    "overlapping": [[1, 0, 1, 1, 0], [0, 1, 1, 0, 0]],
    "one query": [[1, 1, 0, 0]],
    "every cell": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "nothing": [[0, 0, 0]],
    "everywhere": [[1, 1], [1, 0]],
}
MEASURES = ("classes", "databases")


def made(flags, rows=3, measure="databases", epsilon="0.8"):
    queries = np.array(flags, bool)
    return SmallDatabases(epsilon, rows, Classes.of(queries.shape[1], queries), measure)


def answers(flags, data):
    """How many rows of the data, a number for each cell, satisfy each query."""
    return [int(np.dot(query, data)) for query in flags]


def tallied(cells, database):
    return [database.count(cell) for cell in range(cells)]


def worst(flags, data, database):
    """The score of a database given as a list of cells, as an exact share of rows."""
    cells, size = len(flags[0]), sum(data)
    found = answers(flags, tallied(cells, database))
    pairs = zip(answers(flags, data), found, strict=True)
    return max(abs(Fraction(true, size) - Fraction(told, len(database))) for true, told in pairs)


def brute(flags, data, rows, measure, epsilon):
    """The law over all multisets of cells by [BLR08], or evenly within candidates that count once."""
    databases = list(combinations_with_replacement(range(len(flags[0])), rows))
    columns = list(zip(*flags, strict=True))
    groups = {database: tuple(sorted(columns[cell] for cell in database)) for database in databases}
    sizes = Counter(groups.values()) if measure == "classes" else Counter(dict.fromkeys(groups.values(), 1))
    size = sum(data)
    weights = {
        database: math.exp(-epsilon * size / 2 * float(worst(flags, data, database))) / sizes[groups[database]]
        for database in databases
    }
    total = math.fsum(weights.values())
    return {database: weight / total for database, weight in weights.items()}


def candidates(mechanism, counts, size):
    """The probability of each candidate, from the law of the score."""
    scores, which = mechanism.scored(counts, size)
    law = mechanism.law(scores, which).probabilities()
    ranks = np.arange(mechanism.classes.candidates(mechanism.rows))
    weights = np.ones(len(ranks)) if mechanism.measure == "classes" else mechanism.copies(mechanism.members(ranks))
    sums = np.bincount(which, weights)
    return np.array(law)[which] * weights / sums[which]


def law(flags, data, rows, measure, epsilon):
    """The law over all multisets of cells: candidates, and within one all multisets evenly."""
    mechanism = made(flags, rows, measure, epsilon)
    chances = candidates(mechanism, answers(flags, data), sum(data))
    members = mechanism.members(np.arange(len(chances)))
    place = {tuple(column): number for number, column in enumerate(members.T.tolist())}
    labels = mechanism.classes.labels
    found = {
        database: place[tuple(sorted(labels[list(database)].tolist()))]
        for database in combinations_with_replacement(range(len(labels)), rows)
    }
    alike = Counter(found.values())
    return {database: chances[number] / alike[number] for database, number in found.items()}


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


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_candidates_are_numbered_without_gaps_and_counted_by_their_multisets(name, rows):
    mechanism = made(WORKLOADS[name], rows)
    classes = mechanism.classes
    members = mechanism.members(np.arange(classes.candidates(rows)))
    assert {tuple(column) for column in members.T.tolist()} == set(
        combinations_with_replacement(range(len(classes.sizes)), rows)
    )
    numbered = [sum(math.comb(label + j, j + 1) for j, label in enumerate(column)) for column in members.T.tolist()]
    assert numbered == list(range(len(numbered)))
    known = Counter(
        tuple(sorted(classes.labels[list(database)].tolist()))
        for database in combinations_with_replacement(range(len(classes.labels)), rows)
    )
    assert dict(zip(map(tuple, members.T.tolist()), mechanism.copies(members), strict=True)) == known
    assert sum(known.values()) == classes.choices(rows, "databases") >= classes.choices(rows, "classes")


@pytest.mark.parametrize("size", [10, 2**61, 2**80])
def test_scores_are_exact_at_any_size(size):
    flags = WORKLOADS["overlapping"]
    mechanism, counts = made(flags, 4), [size // 3, size - 1]
    scores, which = mechanism.scored(counts, size)
    assert scores == sorted(set(scores))
    for column, number in zip(mechanism.members(np.arange(len(which))).T, which, strict=True):
        told = mechanism.classes.holds[column].sum(axis=0).tolist()
        gaps = [abs(4 * count - size * rows) for count, rows in zip(counts, told, strict=True)]
        assert scores[number] == max(gaps)
    assert len(mechanism.step(counts, size, Seeded(1))) == 4


def test_many_queries_are_added_in_several_words():
    random = np.random.default_rng(5)
    queries = random.random((40, 30)) < 0.5
    mechanism = SmallDatabases("1", 3, Classes.of(30, queries))
    counts = random.integers(0, 50, 40).tolist()
    scores, which = mechanism.scored(counts, 50)
    members = mechanism.members(np.arange(len(which)))
    told = mechanism.classes.holds[members].sum(axis=0)
    assert (np.array(scores)[which] == np.abs(3 * np.array(counts) - 50 * told).max(axis=1)).all()


def test_copies_beyond_a_word_are_exact():
    classes = Classes.of(10**6, [np.arange(10**6) < 4])
    mechanism = SmallDatabases("1", 12, classes, "databases")
    members = mechanism.members(np.arange(13))
    copies = mechanism.copies(members)
    counts = [int((column == label).sum()) for label in (0, 1) for column in members.T]
    known = [
        math.comb(classes.sizes[0] + first - 1, first) * math.comb(classes.sizes[1] + 12 - first - 1, 12 - first)
        for first in counts[:13]
    ]
    assert copies.tolist() == known
    assert sum(known) == math.comb(10**6 + 11, 12) > 2**200
    cells = mechanism.step([100], 200, Seeded(4))
    assert len(cells) == 12
    assert all(0 <= cell < 10**6 for cell in cells)


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


def test_numbers_of_multisets_that_are_too_long_are_refused_and_only_where_they_matter():
    """600 rows of a million cells: numbers of 7,000 bits, whose exact draw would take a minute."""
    classes = Classes.of(10**6, [np.arange(10**6) < 4])
    with pytest.raises(InvalidParameter, match='measure "classes"'):
        SmallDatabases("1", 600, classes, "databases")
    assert len(SmallDatabases("1", 600, classes).step([500], 1000, Seeded(1))) == 600
    lightest = next(rows for rows in range(100, 600) if not classes.light(rows + 1, "databases"))
    assert classes.choices(lightest, "databases").bit_length() <= MOST_BITS
    assert SmallDatabases("1", lightest, classes, "databases").classes is classes


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
