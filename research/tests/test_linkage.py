"""A table without names joined with a register, and the same people asked of a session."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binom, binomtest
from tests.paths import beside
from tests.session.kit import PLENTY, SECRET_NAME, SECRET_NUMBER, error_texts, shows_data

from chary import InvalidParameter, InvalidQuery
from chary.demo.panel import first_year
from chary_research.attacks import link, linkage

ALPHA = 1e-6
PUBLIC = ["age", "female", "site", "plan"]


def crowd(seed, rows=200):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "zip": rng.integers(0, 12, rows),
            "born": rng.integers(0, 9, rows),
            "sex": rng.choice(["f", "m"], rows),
            "ill": rng.choice(["no", "flu", "gout"], rows, p=[0.5, 0.3, 0.2]),
        }
    )


@pytest.mark.parametrize("seed", range(5))
def test_link_is_the_join_of_what_occurs_once_in_both(seed):
    named, unnamed = crowd(seed, 80), crowd(seed + 100, 60)
    on = ["zip", "born", "sex"]
    expected = [
        (i, j)
        for i, one in enumerate(named[on].values.tolist())
        for j, other in enumerate(unnamed[on].values.tolist())
        if one == other and named[on].values.tolist().count(one) == 1 == unnamed[on].values.tolist().count(one)
    ]
    assert expected
    assert sorted(link(pa.table(named), pa.table(unnamed), on)) == expected


def test_a_missing_value_is_nobody():
    table = pa.table({"age": [None, 3]})
    assert link(table, table, ["age"]) == [(1, 1)]


@pytest.mark.parametrize("on", [[], ["height"], "age"])
def test_link_needs_columns_of_both(on):
    table = pa.table({"age": [1, 2]})
    with pytest.raises(InvalidQuery, match="both tables"):
        link(table, table, on)


@pytest.mark.parametrize("seed", range(3))
def test_counts_agree_with_pandas(seed):
    rows = crowd(seed)
    found = linkage(rows, quasi=["sex", "zip", "born"], sensitive="ill", epsilon=1, seed=seed)
    sizes = [rows.groupby(["sex", "zip", "born"][: k + 1])["ill"].transform("size") for k in range(3)]
    assert found.unique == tuple(int((size == 1).sum()) for size in sizes)
    assert found.reidentified == found.right == found.unique[-1] > 20
    kinds = rows.groupby(["sex", "zip", "born"])["ill"]
    assert found.revealed == int((kinds.transform("nunique") == 1).sum())
    alone = rows[sizes[-1] == 1]["ill"].value_counts(normalize=True)
    assert found.baseline == pytest.approx(alone.max())
    assert (found.rows, found.incomplete, found.values) == (200, 0, 3)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.3, 1, 2])
def test_a_session_gives_more_than_chance_and_never_more_than_the_limit(epsilon):
    found = linkage(first_year(), quasi=PUBLIC, sensitive="visits", epsilon=epsilon)
    right = round(found.private_accuracy * found.reidentified)
    assert found.reidentified > 1500
    assert binom.sf(right - 1, found.reidentified, found.limit) > ALPHA
    if epsilon >= 1:
        assert binom.sf(right - 1, found.reidentified, found.baseline) < ALPHA
        assert binom.sf(found.reidentified - 1, found.reidentified, found.limit) < ALPHA


@pytest.mark.statistical
def test_one_of_two_values_is_guessed_as_often_as_the_noise_says():
    """Each of the two counts has noise for epsilon/2 and is on the right side with chance 1/(1 + e^(-epsilon/2))."""
    rows = pd.DataFrame({"number": range(2400), "ill": [i % 2 == 0 for i in range(2400)]})
    found = linkage(rows, quasi=["number"], sensitive="ill", epsilon=2)
    chances = {size: 1 / (1 + math.exp(-size / 2)) for size in (2, 4 / 3, 3)}
    p_values = [binomtest(round(found.private_accuracy * 2400), 2400, chance).pvalue for chance in chances.values()]
    assert p_values[0] > ALPHA > max(p_values[1:])
    assert found.limit == pytest.approx(1 / (1 + math.exp(-2)))


def test_without_noise_the_session_tells_everything():
    found = linkage(crowd(1), quasi=["zip", "born", "sex"], sensitive="ill", epsilon=PLENTY // 2)
    assert found.private_accuracy == found.limit == 1


def test_the_seed_decides_and_the_order_of_rows_does_not():
    rows = crowd(2)
    asked = {"quasi": ["zip", "born", "sex"], "sensitive": "ill", "epsilon": 1}
    found = [linkage(frame, **asked, seed=7) for frame in (rows, rows.sample(frac=1, random_state=1))]
    assert found[0] == found[1]
    assert len({linkage(rows, **asked, seed=seed).private_accuracy for seed in range(5)}) > 1
    assert found[0].as_dict()["quasi"] == ("zip", "born", "sex")


def test_nobody_unique_means_nothing_to_guess():
    rows = pd.DataFrame({"sex": ["f", "f", "m", "m"], "ill": [True, False, True, True]})
    found = linkage(rows, quasi=["sex"], sensitive="ill", epsilon=1)
    assert (found.reidentified, found.revealed, found.private_accuracy, found.limit) == (0, 2, None, None)


def test_rows_with_a_missing_value_are_left_out():
    rows = pd.DataFrame({"age": [1, 2, 3, None], "ill": ["no", "flu", None, "no"]}).astype({"age": "Int64"})
    found = linkage(rows, quasi=["age"], sensitive="ill", epsilon=1)
    assert (found.rows, found.incomplete, found.right) == (2, 2, 2)


SECRETS = pd.DataFrame({"age": [SECRET_NUMBER, 4], "name": [SECRET_NAME, "b"], "pay": [1.5, 2.5], "same": [7, 7]})


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (SECRETS, {"quasi": ["height"]}),
        (SECRETS, {"sensitive": "height"}),
        (SECRETS, {"quasi": []}),
        (SECRETS, {"quasi": "age"}),
        (SECRETS, {"quasi": ["pay"]}),
        (SECRETS, {"quasi": ["age", "age"]}),
        (SECRETS, {"quasi": ["name"]}),
        (SECRETS, {"sensitive": "same"}),
        (SECRETS[:1], {}),
        (SECRETS[:0], {}),
        (SECRETS, {"epsilon": 0}),
        (SECRETS, {"epsilon": "701"}),
        (SECRETS, {"epsilon": "x"}),
        (SECRETS, {"seed": -1}),
        ("nowhere.csv", {}),
    ],
)
def test_bad_input_tells_no_value(rows, wrong):
    with pytest.raises((InvalidParameter, InvalidQuery)) as raised:
        linkage(rows, **({"quasi": ["age"], "sensitive": "name", "epsilon": 1} | wrong))
    assert not shows_data(error_texts(raised.value))


def test_adult():
    adult = beside("adult_all.csv.gz")
    quasi = ["age", "sex", "race", "native_country", "education", "marital_status", "occupation"]
    found = linkage(str(adult), quasi=quasi, sensitive="income", epsilon=1)
    assert found.unique == (1, 3, 59, 1500, 4417, 7152, 15620)
    assert (found.rows, found.right, found.revealed) == (48842, 15620, 32269)
    right = round(found.private_accuracy * found.reidentified)
    assert binom.sf(right - 1, found.reidentified, found.limit) > ALPHA
