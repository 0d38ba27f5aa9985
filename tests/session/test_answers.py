"""Golden answers at practically no noise, against pandas."""

import math

import numpy as np
import pandas as pd
import pytest

import chary
from chary import count, mean
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, SECRET_NUMBER, visits


@pytest.fixture
def session(opened, place):
    return opened(budget=NO_NOISE, ledger=place)


@pytest.fixture
def per_row(opened):
    return opened(budget=NO_NOISE, privacy_unit=None)


def test_count_counts_units(session):
    frame = visits()
    assert float(session.release(count(), epsilon=PLENTY)) == frame.patient.nunique() == 51
    answer = session.release(count("age >= 65 AND clinic = 'north'"), epsilon=PLENTY)
    assert answer.value == frame[(frame.age >= 65) & (frame.clinic == "north")].patient.nunique() > 0
    assert answer.error_bar == 0


def test_count_counts_rows_where_each_row_is_a_unit(per_row):
    assert per_row.release(count(), epsilon=PLENTY).value == len(visits())


def test_gaussian_release_counts_too(session):
    assert session.release(count(), rho=10**5).value == 51


def test_total_of_clipped_values_on_a_grid(per_row):
    frame = visits()
    answer = per_row.release(chary.sum("cost", bounds=(0, 50), grid="0.25"), epsilon=10**5)
    assert answer.value == frame.cost.clip(0, 50).sum()
    assert answer.error_bar == 0


def rounded(cost, low, high):
    """Clipped and rounded to whole numbers, halves away from zero."""
    return (cost.clip(low, high) + 0.5).apply(math.floor)


def test_total_of_each_unit_is_clipped(session):
    sums = visits().assign(cost=lambda frame: rounded(frame.cost, 0, 20)).groupby("patient").cost.sum()
    assert (sums > 30).any()
    assert (sums < 30).any()
    answer = session.release(chary.sum("cost", bounds=(0, 20), unit_total=(0, 30)), epsilon=PLENTY)
    assert answer.value == sums.clip(0, 30).sum()


def test_total_keeps_the_largest_rows_of_a_unit(session):
    largest = rounded(visits().cost, 0, 20).groupby(visits().patient).max()
    answer = session.release(chary.sum("cost", bounds=(0, 20), max_rows_per_unit=1), epsilon=PLENTY)
    assert answer.value == largest.sum()


def test_mean_of_clipped_values(per_row):
    truth = rounded(visits().cost, 0, 60).mean()
    answer = per_row.release(mean("cost", bounds=(0, 60)), epsilon=2000)
    assert answer.value == pytest.approx(truth, rel=1e-12)
    assert answer.error_bar is None


def test_keyed_release_answers_for_every_key_in_order(session):
    answers = session.release(count("age >= 40").by("clinic", [*CLINICS, "nowhere"]), epsilon=4 * PLENTY)
    frame = visits()
    truth = frame[frame.age >= 40].groupby("clinic").patient.nunique()
    assert answers.keys == (("north",), ("south",), ("east",), ("nowhere",))
    assert list(answers.values) == [truth.get(clinic, 0) for clinic in CLINICS] + [0]
    assert answers["south"]["value"] == answers.value["south"] == truth["south"]


def test_keyed_mean_and_keys_of_two_columns(opened):
    session = opened(budget=NO_NOISE, privacy_unit=None)
    frame = visits()
    keys = [("north", 44), ("south", 44), ("east", 1)]
    counts = session.release(count().by(["clinic", "age"], keys), epsilon=PLENTY)
    assert list(counts.values) == [((frame.clinic == clinic) & (frame.age == age)).sum() for clinic, age in keys]
    means = session.release(mean("age", bounds=(20, 80)).by("clinic", CLINICS), epsilon=2000)
    assert list(means.values) == pytest.approx([frame[frame.clinic == clinic].age.mean() for clinic in CLINICS])


def test_tests_are_at_or_above(session):
    assert session.test(count(), above=51, epsilon=PLENTY) is True
    assert session.test(count(), above=52, epsilon=PLENTY) is False
    assert session.test(count(), above=50.5, epsilon=PLENTY) is True
    assert session.test(count(), above="51.0001", epsilon=PLENTY) is False


def test_numbers_may_come_from_numpy(session):
    bar, size = np.float64(50.5), np.float64(PLENTY)
    assert session.test(count(), above=bar, epsilon=size) is True
    assert session.release(count(), epsilon=np.int64(PLENTY)).value == 51
    assert session.release_if(count(), above=np.int32(52), epsilon=np.float32(PLENTY)).value is None


def test_mean_is_tested_without_a_count(per_row):
    middle = mean("cost", bounds=(0, 100), grid="0.25")
    truth = visits().cost.clip(0, 100).mean()
    assert per_row.test(middle, above=math.floor(truth), epsilon=10**5) is True
    assert per_row.test(middle, above=math.ceil(truth), epsilon=10**5) is False


def test_release_if_publishes_at_or_above_and_holds_below(session):
    above = session.release_if(count(), above=51, epsilon=PLENTY)
    assert (above.published, above.value, above.error_bar) == (True, 51, None)
    below = session.release_if(count(), above=52, epsilon=PLENTY)
    assert (below.published, below.value) == (False, None)


def test_release_if_of_a_mean_publishes_the_mean(per_row):
    truth = rounded(visits().cost, 0, 60).mean()
    middle = mean("cost", bounds=(0, 60))
    assert per_row.release_if(middle, above=20, epsilon=2000).value == pytest.approx(truth, rel=1e-12)
    assert per_row.release_if(middle, above=55, epsilon=2000).value is None


def test_release_if_of_a_mean_does_not_round_the_bar_up_to_the_grid(per_row):
    """A bar between grid points is refused, as for a test, or means what it says."""
    truth = rounded(visits().cost, 0, 60).mean()
    bar = float(truth) - 0.01
    assert math.floor(truth) == math.floor(bar) < bar
    try:
        published = per_row.release_if(mean("cost", bounds=(0, 60)), above=bar, epsilon=2000).published
    except chary.InvalidInput:
        return
    assert published


def test_watch_finds_keys_with_their_values(session):
    frame = visits()
    truth = frame.groupby("clinic").patient.nunique()
    bar = int(truth.sort_values().iloc[1])
    found = session.release_if(count().by("clinic", [*CLINICS, "nowhere"]), above=bar, epsilon=PLENTY)
    assert found.above == {(clinic,): truth[clinic] for clinic in CLINICS if truth[clinic] >= bar}
    assert found.states() == [truth.get(clinic, 0) >= bar for clinic in [*CLINICS, "nowhere"]]
    assert (found.tested, found.untested, found.hits) == (4, (), sum(truth >= bar))


def test_totals_beyond_double_precision_are_exact(opened):
    rows = pd.DataFrame({"patient": [1, 2], "big": [2**53, 1]})
    session = opened(rows, budget=NO_NOISE)
    held = session.spine.rows.prepare(chary.sum("big", bounds=(0, 2**53), max_rows_per_unit=1)).run()
    assert held == 2**53 + 1


def test_values_in_a_series_are_watched_and_released():
    rows = pd.DataFrame({"day": ["a", "b", "c"], "rides": [5, SECRET_NUMBER, 7]})
    with chary.open_counts(
        rows, column="rides", sensitivity=2, labels="day", ledger=":memory:", budget=NO_NOISE
    ) as session:
        found = session.release_if(session.series(), above=6, epsilon=2000)
        assert found.above == {(1,): SECRET_NUMBER, (2,): 7}
        assert list(session.release(session.series(), epsilon=6000).values) == [5, SECRET_NUMBER, 7]
        session.append(pd.DataFrame({"day": ["d"], "rides": [9]}))
        assert session.release_if(session.series(), above=6, epsilon=2000).states() == [False, True, True, True]


def test_only_a_series_has_a_series(session):
    with pytest.raises(chary.InvalidQuery):
        session.series()


def test_polars_arrow_csv_and_parquet_give_the_same_answers(opened, tmp_path):
    frame = visits()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    frame.to_parquet(tmp_path / "visits.parquet")
    for source in (frame, tmp_path / "visits.csv", str(tmp_path / "visits.parquet")):
        session = opened(source, budget=NO_NOISE, infer_types=source is not frame)
        assert session.release(count("age >= 65"), epsilon=PLENTY).value == frame[frame.age >= 65].patient.nunique()
        assert session.spine.dataset == ("data" if source is frame else "visits")
