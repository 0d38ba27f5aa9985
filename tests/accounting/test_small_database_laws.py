"""Laws of small databases: coarseness by brute force, the published law against what it is derived from."""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from chary.accounting.synthesis import (
    best_rows,
    coarseness_up,
    published_rows,
    small_database_law,
)
from chary.errors import InvalidParameter
from chary_research.published import published_small_database_law


def least_error(holds, data, rows):
    """The least largest error of any database of so many rows, for a number of data rows in each class."""
    shares = np.array(data) / sum(data)
    databases = combinations_with_replacement(range(len(holds)), rows)
    each = (np.bincount(database, minlength=len(holds)) / rows for database in databases)
    return min(float(np.abs(holds.T @ (made - shares)).max()) for made in each)


def all_queries(classes):
    """Every set of classes that is neither empty nor all of them."""
    return np.array([row for row in product((0, 1), repeat=classes) if 0 < sum(row) < classes]).T


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_some_database_is_within_the_coarseness(rows, seed):
    random = np.random.default_rng(seed)
    classes, queries = random.integers(1, 5), random.integers(1, 6)
    holds = (random.random((classes, queries)) < 0.5).astype(int)
    for _ in range(5):
        data = random.integers(0, 7, classes) + np.eye(classes, dtype=int)[0]
        told = coarseness_up(rows=rows, queries=queries, classes=classes)
        assert least_error(holds, data, rows) <= told
        assert told <= coarseness_up(rows=rows, queries=queries)


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_one_query_and_all_queries_attain_it(rows):
    one = least_error(np.array([[1], [0]]), [1, 2 * rows - 1], rows)
    assert one == pytest.approx(1 / (2 * rows))
    assert coarseness_up(rows=rows, queries=1) == pytest.approx(one)
    for classes in (2, 3, 4):
        upper = classes // 2
        data = np.full(classes, upper) + classes * np.eye(classes, dtype=int)[0] * (rows - upper)
        if data.min() >= 0:
            known = coarseness_up(rows=rows, queries=10**6, classes=classes)
            assert least_error(all_queries(classes), data, rows) == pytest.approx(known)


def test_few_rows_are_coarse_by_sampling_and_many_by_rounding():
    for rows in (1, 10, 10**4):
        assert coarseness_up(rows=rows, queries=10**6) == pytest.approx(math.sqrt(math.log(2e6) / (2 * rows)))
    assert coarseness_up(rows=100, queries=9) == pytest.approx(25 / 10 / 100)
    assert coarseness_up(rows=100, queries=9, classes=1) == 0


@pytest.mark.parametrize("queries", [2, 3, 10, 1000])
@pytest.mark.parametrize("alpha", ["0.5", "0.1", "0.01"])
def test_the_published_rows_are_as_fine_as_asked(queries, alpha):
    rows = published_rows(queries=queries, alpha=alpha)
    assert coarseness_up(rows=rows, queries=queries) <= float(alpha) * (1 + 1e-9)
    assert rows - 1 < math.log(queries) / float(alpha) ** 2 <= rows


def test_one_query_takes_a_row_at_least():
    assert published_rows(queries=1, alpha="0.1") == 1


def test_the_law_is_base_and_shortfall():
    law = small_database_law(rows=7, queries=3, choices=120)
    shortfall = 2 * math.log(120 / 0.05) / (0.5 * 900)
    assert law.error(size=900, epsilon="0.5", beta="0.05") == pytest.approx(
        coarseness_up(rows=7, queries=3) + shortfall
    )
    half = small_database_law(rows=7, queries=3, choices=120, concentrated=True)
    assert half.error(size=900, epsilon="0.5", beta="0.05") == pytest.approx(float(law.base) + shortfall / 2)


@pytest.mark.parametrize("cells", [2, 100, 10**7])
@pytest.mark.parametrize("queries", [2, 20, 10**5])
def test_the_published_law_covers_what_it_is_derived_from(cells, queries):
    """Rows chosen by size and epsilon alone, all multisets of cells as candidates; wherever it says anything."""
    law, said, loose = published_small_database_law(cells=cells, queries=queries), 0, math.inf
    for scaled, beta in product(np.geomspace(10, 1e12, 45), ("0.5", "0.05", "1e-6", "1e-30")):
        size = int(scaled)
        told = law.error(size=size, epsilon=1, beta=beta)
        coarse = math.cbrt(4 * math.log(cells) * math.log(queries) / size)
        rows = math.ceil(math.log(queries) / coarse**2)
        if told >= 1:
            continue
        found = coarse + 2 * (rows * math.log(cells) - math.log(float(beta))) / size
        said, loose = said + 1, min(loose, told / found)
        assert found <= told
        assert coarseness_up(rows=rows, queries=queries) <= coarse * (1 + 1e-9)
        assert math.comb(cells + rows - 1, rows) <= cells**rows if rows < 50 else True
    assert said > 20
    assert loose < 1.6, "a law far too large would tell nothing"


def test_the_best_rows_are_those_of_least_error():
    def law(rows):
        return small_database_law(rows=rows, queries=3, choices=math.comb(rows + 5, 5))

    terms = {"size": 500, "epsilon": "0.4", "beta": "0.05"}
    errors = [law(rows).error(**terms) for rows in range(1, 400)]
    found = best_rows(law, lambda rows: True, **terms)
    assert errors[found - 1] <= 1.001 * min(errors)
    assert 1 < found < 399
    assert best_rows(law, lambda rows: rows <= 3, **terms) == 3
    assert best_rows(law, lambda rows: False, **terms) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: coarseness_up(rows=0, queries=3),
        lambda: coarseness_up(rows=3, queries=0),
        lambda: coarseness_up(rows=3, queries=3, classes=0),
        lambda: published_rows(queries=3, alpha=1),
        lambda: published_small_database_law(cells=1, queries=3),
        lambda: published_small_database_law(cells=10, queries=1),
        lambda: small_database_law(rows=3, queries=3, choices=0),
    ],
)
def test_bad_input_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        wrong()
