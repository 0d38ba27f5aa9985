"""The candidates of small databases: numbered without gaps, scored and counted exactly at any size, within limits."""

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest

from chary.errors import InvalidParameter
from chary.mechanisms.small_database import MOST_BITS, Classes, SmallDatabases
from chary.noise import Seeded
from tests.mechanisms.small_database_laws import WORKLOADS, made


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


def test_numbers_of_multisets_that_are_too_long_are_refused_and_only_where_they_matter():
    """600 rows of a million cells: numbers of 7,000 bits, whose exact draw would take a minute."""
    classes = Classes.of(10**6, [np.arange(10**6) < 4])
    with pytest.raises(InvalidParameter, match='measure "classes"'):
        SmallDatabases("1", 600, classes, "databases")
    assert len(SmallDatabases("1", 600, classes).step([500], 1000, Seeded(1))) == 600
    lightest = next(rows for rows in range(100, 600) if not classes.light(rows + 1, "databases"))
    assert classes.choices(lightest, "databases").bit_length() <= MOST_BITS
    assert SmallDatabases("1", lightest, classes, "databases").classes is classes
