"""Through the whole stack, answers follow the exact discrete Laplace law, and no law of another scale."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, count
from chary.noise import Seeded
from tests.noise.helpers import ALPHA, gaussian_cdf, laplace_cdf, p_value, spread

UNITS, KEYS, SINGLE = 300, 20_000, 1000
ROWS = pd.DataFrame({"unit": range(UNITS), "key": 3, "amount": 2.0})
WRONG = [2 / 3, 3 / 2]
LARGE = Budget(epsilon=2000)


@pytest.fixture
def session():
    with chary.open(ROWS, privacy_unit="unit", ledger=":memory:", budget=LARGE, unsafe_noise=Seeded(11)) as made:
        yield made


def rightly(noise, scale, cdf=laplace_cdf):
    """The noise fits its scale, and no scale wrong by a half."""
    noise = np.asarray(noise, dtype=np.int64)
    assert p_value(noise, cdf(scale), spread(scale)) > ALPHA
    for factor in WRONG:
        assert p_value(noise, cdf(scale * factor), spread(scale)) < ALPHA


@pytest.mark.statistical
def test_single_releases_follow_the_law(session):
    rightly([session.release(count(), epsilon="0.1").value - UNITS for _ in range(SINGLE)], 10.0)


@pytest.mark.statistical
def test_a_keyed_release_follows_the_law(session):
    query = count().by("key", range(KEYS), max_groups_per_unit=1)
    values = session.release(query, epsilon="0.1").values
    rightly(np.array(values) - UNITS * (np.arange(KEYS) == 3), 10.0)


@pytest.mark.statistical
def test_a_keyed_release_pays_for_all_keys_of_a_unit(session):
    query = count().by("key", range(KEYS), max_groups_per_unit=4)
    values = session.release(query, epsilon="0.4").values
    rightly(np.array(values) - UNITS * (np.arange(KEYS) == 3), 10.0)


@pytest.mark.statistical
def test_a_keyed_total_follows_the_law_on_its_grid(session):
    query = chary.sum("amount", bounds=(-5, 3), grid="0.5", max_rows_per_unit=2).by("key", range(KEYS))
    values = session.release(query, epsilon="0.5").values
    rightly((np.array(values) - 2 * UNITS * (np.arange(KEYS) == 3)) * 2, 40.0)


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [1, 3])
def test_a_gaussian_release_follows_the_law(rows):
    """Squared L2 change: one row of at most 4 steps, or three of them in one key."""
    query = chary.sum("amount", bounds=(0, 4), max_rows_per_unit=rows).by("key", range(KEYS))
    options = {"ledger": ":memory:", "budget": Budget(epsilon=50, delta=1e-6), "unsafe_noise": Seeded(12)}
    with chary.open(ROWS, privacy_unit="unit", **options) as session:
        values = session.release(query, rho="0.02").values
    noise = np.array(values) - 2 * UNITS * (np.arange(KEYS) == 3)
    rightly(noise, 4 * rows * 5.0, gaussian_cdf)


@pytest.mark.statistical
@pytest.mark.parametrize("distance", [-20, 20])
def test_tests_hit_as_often_as_the_law_says(session, distance):
    hits = sum(session.test(count(), above=UNITS + distance, epsilon="0.1") for _ in range(SINGLE))

    def chance(scale):
        return float(1 - laplace_cdf(scale)(np.array([distance]))[0])

    assert stats.binomtest(hits, SINGLE, chance(10)).pvalue > ALPHA
    assert max(stats.binomtest(hits, SINGLE, chance(10 * factor)).pvalue for factor in WRONG) < ALPHA


@pytest.mark.statistical
def test_watched_values_follow_the_upper_part_of_the_law(session):
    query = count().by("key", range(KEYS), assumed_groups_per_unit=1)
    found = session.release_if(query, above=5, epsilon="0.1", below_margin=True)
    noisy = np.array([value for (key,), value in found.above.items() if key != 3])
    assert noisy.min() >= 5

    def measured(scale):
        law = laplace_cdf(scale)
        below = law(np.array([5]))[0]
        return p_value(noisy, lambda k: np.maximum(law(k) - below, 0) / (1 - below), np.arange(6, 120))

    assert measured(10.0) > ALPHA
    assert max(measured(10.0 * factor) for factor in WRONG) < ALPHA
    chances = [float(1 - laplace_cdf(scale)(np.array([5]))[0]) for scale in (10.0, 20 / 3, 15.0)]
    right, *wrong = (stats.binomtest(len(noisy), KEYS - 1, chance).pvalue for chance in chances)
    assert right > ALPHA
    assert max(wrong) < ALPHA


@pytest.mark.statistical
def test_conditional_releases_follow_the_law_above_and_below_the_bar(session):
    """Whatever is held back comes out, when the bar is lowered, as if it had been released at once."""
    noise = []
    for _ in range(SINGLE):
        outcome = session.release_if(count(), above=UNITS + 4, epsilon="0.1")
        if outcome.published:
            assert outcome.value >= UNITS + 4
        else:
            outcome = outcome.widen(above=-(10**6))
        noise.append(outcome.value - UNITS)
    rightly(noise, 10.0)


@pytest.mark.statistical
def test_the_same_seed_gives_the_same_answers_and_the_operating_system_does_not():
    def answers(source):
        options = {"ledger": ":memory:", "budget": LARGE, "unsafe_noise": source}
        with chary.open(ROWS, privacy_unit="unit", **options) as session:
            return [session.release(count(), epsilon="0.01").value for _ in range(20)]

    assert answers(Seeded(1)) == answers(Seeded(1)) != answers(Seeded(2))
    assert answers(None) != answers(None)
