"""Means: what one unit moves, by enumeration; coverage of intervals; forms of earlier ledgers; quotes."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import chary
from chary import Budget, mean
from chary.accounting.intervals import mean_between
from chary.calls import Quantile, Release
from chary.calls.releases import halves, laplace_mean, noises, released
from chary.data import NeighborRelation
from chary.data.queries.bodies import body_of, query_of
from chary.errors import InvalidParameter, InvalidQuery
from chary.noise import Seeded
from chary.numbers import sentence

ALPHA = 1e-6
PER_ROW = {"add_remove": NeighborRelation("add_remove", None), "replace": NeighborRelation("replace", None)}
BOUNDS = [(0, 1), (0, 2), (0, 3), (-2, 5), (3, 10)]
KEYS = ["a", "b"]


def told(made, values):
    """The exact numbers under the noise, of values in steps around the center; None is NULL."""
    low = int(made.query.center)
    known = [min(max(value, made.query.bounds[0]), made.query.bounds[1]) - low for value in values if value is not None]
    return [int(part[0]) for part in made.parts(np.array([sum(known)]), np.array([len(known)]))]


def loss(made, first, second):
    """The largest log-ratio of the laws of both numbers: the sum of their moves over the scales."""
    moved = (abs(a - b) / each.scale for a, b, each in zip(first, second, made.noises, strict=True))
    return sum(moved)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("neighbors", PER_ROW)
def test_one_row_moves_both_numbers_by_epsilon_at_most_and_attains_it(bounds, neighbors):
    made = laplace_mean(mean("x", bounds=bounds), PER_ROW[neighbors], Fraction(1, 10))
    values = [None, *range(bounds[0], bounds[1] + 1)]
    losses = [
        loss(made, told(made, [one]), told(made, [other] if neighbors == "replace" or other is None else [one, other]))
        for one, other in itertools.product(values, repeat=2)
        if neighbors == "replace" or one is None
    ]
    assert max(losses) == Fraction(1, 10)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("neighbors", PER_ROW)
def test_with_keys_a_row_leaves_one_and_enters_another(bounds, neighbors):
    asked = mean("x", bounds=bounds).by("key", KEYS)
    made = laplace_mean(asked, PER_ROW[neighbors], Fraction(1, 10))
    rows = [None, *itertools.product(KEYS, range(bounds[0], bounds[1] + 1))]

    def both(row):
        return [told(made, [row[1]] if row is not None and row[0] == key else []) for key in KEYS]

    found = [
        sum(loss(made, first, second) for first, second in zip(both(one), both(other), strict=True))
        for one, other in itertools.product(rows, repeat=2)
        if neighbors == "replace" or one is None
    ]
    assert max(found) == Fraction(1, 10)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(2), Fraction(10), Fraction(200)])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_the_event_covers_every_move_at_renyi_orders(bounds, order, epsilon):
    """Numbers of independent noise: the moments of the two moves add up, which is never above that of the event."""
    made = laplace_mean(mean("x", bounds=bounds, grid="0.5"), PER_ROW["replace"], Fraction(epsilon))
    assert made.event.epsilon <= Fraction(epsilon) * (1 + Fraction(1, 10**9))
    values = [None, *(Fraction(2 * bounds[0] + k, 2) for k in range(2 * (bounds[1] - bounds[0]) + 1))]
    limit = float(made.event.log_moment_up(order))
    if made.form == "ends":
        return
    steps = [[] if value is None else [int((value - made.query.center) * 2)] for value in values]
    numbers = [(sum(known), len(known)) for known in steps]
    moved = {tuple(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in itertools.product(numbers, repeat=2)}
    for moves in moved:
        found = [log_moment(each.scale, far, order) for each, far in zip(made.noises, moves, strict=True)]
        assert sum(found) <= limit * (1 + 1e-9)


def log_moment(scale, far, order):
    """By the sum over the integers."""
    a, rate = float(order), 1 / float(scale)
    if not far:
        return 0.0
    reach = int(60 * float(scale)) + far
    at = np.arange(-reach, reach + far + 1)
    weights = -a * rate * np.abs(at) - (1 - a) * rate * np.abs(at - far)
    top = weights.max()
    return top + math.log(np.exp(weights - top).sum() * math.tanh(rate / 2))


def test_rows_of_a_unit_count_together():
    asked = mean("x", bounds=(0, 10), max_rows_per_unit=3)
    made = laplace_mean(asked, NeighborRelation("replace", "patient"), Fraction(1, 10))
    assert [each.scale for each in made.noises] == [300, 60]
    assert laplace_mean(asked, NeighborRelation("add_remove", "patient"), Fraction(1)).noises[1].scale == 30


def coverage(session, asked, truth, times, **size):
    found = [session.release(asked, **size).interval for _ in range(times)]
    return sum(low <= truth <= high for low, high in found), np.mean([high - low for low, high in found])


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("values", [[50] * 40, [0] * 39 + [100], [3, None, 7]])
def test_intervals_cover_the_mean(opened, neighbors, values):
    frame, times = pd.DataFrame({"x": pd.array(values, dtype="Int64")}), 400
    session = opened(
        frame, privacy_unit=None, neighbors=neighbors, budget=Budget(epsilon=10**6), unsafe_noise=Seeded(5)
    )
    truth = frame.x.mean()
    hits, _ = coverage(session, mean("x", bounds=(0, 100)), truth, times, epsilon="0.5")
    assert stats.binom.cdf(hits, times, 0.95) > ALPHA
    keyed = mean("x", bounds=(0, 100)).by("x", sorted({v for v in values if v is not None}))
    rows = [row for _ in range(60) for row in session.release(keyed, epsilon="0.5")]
    hits = sum(row["low"] <= row["x"] <= row["high"] for row in rows)
    assert stats.binom.cdf(hits, len(rows), 0.95) > ALPHA


@pytest.mark.statistical
def test_an_interval_of_a_third_of_the_reach_would_not_cover(opened, monkeypatch):
    """The negative control: the test above can fail."""
    session = opened(
        pd.DataFrame({"x": [30] * 200}), privacy_unit=None, budget=Budget(epsilon=10**6), unsafe_noise=Seeded(5)
    )
    kept = laplace_mean(mean("x", bounds=(0, 100)), PER_ROW["add_remove"], Fraction(1, 2)).reaches()
    monkeypatch.setattr("chary.calls.releases.MeanNoise.reaches", lambda *_: tuple(reach // 3 for reach in kept))
    hits, _ = coverage(session, mean("x", bounds=(0, 100)), 30, 400, epsilon="0.5")
    assert stats.binom.cdf(hits, 400, 0.95) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(("neighbors", "gain"), [("add_remove", 2**-0.5), ("replace", 0.54)])
def test_the_error_is_below_that_of_halves(opened, neighbors, gain):
    """Values around 40 of 0 to 100: for ends half of the variance of halves, for joint about 1.04/4.04 of it."""
    values = np.random.default_rng(2).integers(20, 61, 2000)
    asked, near = mean("x", bounds=(0, 100)), PER_ROW[neighbors]
    session = opened(
        pd.DataFrame({"x": values}), privacy_unit=None, neighbors=neighbors, budget=Budget(epsilon=10**6),
        unsafe_noise=Seeded(5),
    )  # fmt: skip
    ours = np.array([session.release(asked, epsilon="0.5").value for _ in range(600)]) - values.mean()
    old, source = halves(asked, near, noises(asked, near, epsilon=Fraction(1, 2))), Seeded(6)
    centred = int((values - 50).sum())
    noisy = [
        [each.apply_one(part, source) for _ in range(600)]
        for each, part in zip(old.noises, (centred, 2000), strict=True)
    ]
    theirs = np.array(old.values(*noisy)) - values.mean()
    assert 0.8 * gain < np.sqrt((ours**2).mean() / (theirs**2).mean()) < 1.25 * gain


def test_answers_of_earlier_ledgers_are_read_as_halves():
    query, near = mean("x", bounds=(0, 100)), PER_ROW["add_remove"]
    asked = released(Release(query, epsilon=1), near)
    answer = asked.present({"noisy": [[-1000], [50]]}, 3)
    assert (answer.value, answer.call) == (30.0, 3)
    low, high = answer.interval
    first, second = (int(each.law().reach_up("1/80")) - 1 for each in noises(query, near, epsilon=1))
    assert low == pytest.approx(50 + (-1000 - first) / (50 - second))
    assert high == pytest.approx(50 + (-1000 + first) / (50 + second))
    today = asked.present({"noisy": [[1500], [3500]], "form": "ends"}, 3)
    assert today.value == pytest.approx(30)
    assert today.interval[0] < 30 < today.interval[1]


def test_a_quote_says_what_is_known_of_the_interval(opened):
    frame = pd.DataFrame({"x": [30] * 4000})
    session = opened(frame, privacy_unit=None, budget=Budget(epsilon=10**6), unsafe_noise=Seeded(1))
    quoted = session.quote(Release(mean("x", bounds=(0, 100)), epsilon="0.5"))
    reach = float(quoted.interval.split("about ")[1].split("/n")[0])
    low, high = session.release(mean("x", bounds=(0, 100)), epsilon="0.5").interval
    assert (high - low) / 2 == pytest.approx(reach / 4000, rel=0.2)
    assert sentence(quoted.interval) in str(quoted)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("near", PER_ROW.values(), ids=PER_ROW)
@pytest.mark.parametrize("form", ["best", "halves"])
def test_a_value_lies_in_its_own_interval_whatever_the_noise(form, near, bounds):
    """Also where no values seem to be left, or a sum of distances is below 0 for sure."""
    asked, tenth = mean("x", bounds=bounds), Fraction(1, 10)
    made = (
        laplace_mean(asked, near, tenth) if form == "best" else halves(asked, near, noises(asked, near, epsilon=tenth))
    )
    draw, (one, other) = np.random.default_rng(7), made.reaches()
    first, second = (draw.integers(-3 * reach, 3 * reach, 500).tolist() for reach in (one, other))
    for value, *noisy in zip(made.values(first, second), first, second, strict=True):
        low, high = made.interval(*noisy)
        assert bounds[0] <= low <= value <= high <= bounds[1]


def test_where_no_values_seem_to_be_left_it_is_the_middle_of_the_bounds_or_nearest_to_it():
    asked, near = mean("x", bounds=(0, 100)), PER_ROW["replace"]
    made = halves(asked, near, noises(asked, near, epsilon=Fraction(1, 10)))
    one, _ = made.reaches()
    low, _ = made.interval(2 * one, 0)
    assert made.values([0, 2 * one], [0, 0]) == [50, low]
    assert low > 50


def test_no_values_leave_the_bounds_and_bad_ends_are_refused(opened):
    session = opened(
        pd.DataFrame({"x": [None, 1.0]}), privacy_unit=None, budget=Budget(epsilon=100), unsafe_noise=Seeded(3)
    )
    answer = session.release(mean("x", bounds=(0, 9), where="x > 5"), epsilon="0.01")
    assert 0 <= answer.interval[0] <= answer.value <= answer.interval[1] <= 9
    assert mean_between((-5, 0), (-9, -1), bounds=(2, 4)) == (2, 4)
    assert mean_between((-5, 3), (-9, -1), bounds=(2, 4)) == (2, 4)
    assert mean_between((-9, -1), (2, 3), bounds=(2, 4)) == (2, 4)
    assert mean_between((0, 0), (0, 0), bounds=(2, 4)) == (2, 4)
    assert mean_between((0, 0), (2, 3), bounds=(2, 4)) == (2, 2)
    for ends in ((3, 1), (1, 2)), ((1, 3), (2, 1)):
        with pytest.raises(InvalidParameter):
            mean_between(*ends, bounds=(0, 9))


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("missing", [0, 1])
def test_with_a_value_for_those_without_one_only_the_sum_moves(bounds, missing):
    """Any row for any other, NULL among them: epsilon at most, and attained; the number of values stays."""
    value = bounds[missing]
    made = laplace_mean(mean("x", bounds=bounds, missing=value), PER_ROW["replace"], Fraction(1, 10))
    assert made.form == "size"
    values = [None, *range(bounds[0], bounds[1] + 1)]
    parts = [told(made, [value if each is None else each]) for each in values]
    moved = [loss(made, one, other) for one, other in itertools.product(parts, repeat=2)]
    assert max(moved) == Fraction(1, 10)
    assert {part[1] for part in parts} == {1}


@pytest.mark.parametrize(
    ("near", "asked"),
    [
        (PER_ROW["add_remove"], mean("x", bounds=(0, 3), missing=1)),
        (PER_ROW["replace"], mean("x", bounds=(0, 3), missing=1, where="y > 0")),
        (PER_ROW["replace"], mean("x", bounds=(0, 3), missing=1).by("key", KEYS)),
        (PER_ROW["replace"], mean("x", bounds=(0, 3))),
        (NeighborRelation("replace", "unit"), mean("x", bounds=(0, 3), missing=1, max_rows_per_unit=1)),
    ],
)
def test_a_size_that_is_secret_gets_noise(near, asked):
    assert laplace_mean(asked, near, Fraction(1, 10)).form != "size"


@pytest.mark.parametrize("kind", ["Int64", "Float64"])
@pytest.mark.parametrize("grid", ["1", "0.5"])
def test_the_mean_of_all_rows_as_a_session_tells_it(kind, grid):
    rows = pd.DataFrame({"x": pd.array([1, 2, None, 9, None, 4], dtype=kind)})
    asked, usual = mean("x", bounds=(0, 5), grid=grid, missing=3), mean("x", bounds=(0, 5), grid=grid)
    near = {"privacy_unit": None, "neighbors": "replace"}
    with chary.open(rows, **near, budget=Budget(epsilon=10**6), ledger=":memory:") as session:
        answer = session.release(asked, epsilon=10_000)
        assert answer.value == pytest.approx((1 + 2 + 3 + 5 + 3 + 4) / 6)
        assert answer.interval[0] <= answer.value <= answer.interval[1]
        assert session.release(usual, epsilon=10_000).value == pytest.approx(3)
    assert query_of(body_of(asked)) == asked
    assert "3 where there is none" in asked.describe()
    assert "missing" not in mean("x", bounds=(0, 5)).body()


@pytest.mark.parametrize("missing", [-1, 6, "0.5"])
def test_a_value_that_is_none_of_the_grid(missing):
    with pytest.raises(InvalidQuery, match="within the bounds"):
        mean("x", bounds=(0, 5), missing=missing)


def test_the_error_is_that_of_a_total_over_a_public_size():
    """4,000 means of 10,000 ages at epsilon 0.1: the mean distance is W/(epsilon n), to five standard deviations."""
    near, size, runs = PER_ROW["replace"], 10_000, 4000
    made = laplace_mean(mean("x", bounds=(0, 120), missing=38), near, Fraction(1, 10))
    source = Seeded(11)
    noisy = [each.apply(np.repeat([part], runs), source) for each, part in zip(made.noises, (0, size), strict=True)]
    apart = np.abs(np.array(made.values(*noisy)) - 60)
    assert abs(apart.mean() - 120 / (size / 10)) < 5 * 120 / (size / 10) / math.sqrt(runs)


@pytest.mark.parametrize(("bounds", "near"), [((0, 5), True), ((0, 50), False), ((-40, 5), True)])
def test_sums_and_means_say_what_they_are_clipped_to(bounds, near):
    rows = pa.table({"home": list(range(400)), "kwh": [40.0] * 200 + [6.0] * 200})
    options = {"privacy_unit": "home", "budget": chary.Budget(epsilon=10**6), "ledger": ":memory:"}
    with chary.open(rows, **options) as session:
        asked = {"bounds": bounds, "max_rows_per_unit": 2}
        # A range of few steps is coarse, and nothing else would say that 0.4 counts as 0.
        clipped = f"clipped to {bounds[0]} to {bounds[1]} and rounded to multiples of 1"
        of = f"values are {clipped}, and at most 2 rows of each unit count"
        average = session.release(chary.mean("kwh", **asked), epsilon=10**4)
        assert of in str(average)
        assert of in average.interval_says
        assert ("it is near the upper bound" in str(average)) is near
        total = session.release(chary.sum("kwh", bounds=bounds, unit_total=(0, 9)), epsilon=10**4)
        assert f"{clipped}, each unit's sum to 0 to 9" in str(total)
        fine = session.release(chary.mean("kwh", grid="0.01", **asked), epsilon=10**4)
        assert "rounded" not in str(fine)
        assert clipped in str(session.quote(Release(chary.mean("kwh", **asked), epsilon=1)))
        median = Quantile("kwh", 0.5, bounds=bounds, max_rows_per_unit=1, epsilon=1, interval="0.9")
        assert "values are rounded to multiples of 1" in session.ask(median).interval_says
        assert "rounded" not in session.ask(replace(median, step="0.01")).interval_says.partition(";")[2]
        groups = session.release(chary.mean("kwh", **asked).by("home", [1, 2]), epsilon=10**4)
        assert of in str(groups).splitlines()[-2]
        assert "clipped" not in str(session.release(chary.count(), epsilon=1))


@pytest.mark.parametrize(("most", "said"), [(1, "one group alone"), (2, "at most 2 groups"), (3, None), (None, None)])
def test_answers_and_quotes_say_of_how_many_groups_a_unit_counts(most, said):
    """A person of three years would otherwise seem to be in the first year alone."""
    rows = pa.table({"home": [home // 3 for home in range(600)], "year": [1, 2, 3] * 200})
    options = {"privacy_unit": "home", "budget": chary.Budget(epsilon=100, delta=1e-6), "ledger": ":memory:"}
    with chary.open(rows, **options) as session:
        by_year = chary.count().by("year", [1, 2, 3], max_groups_per_unit=most)
        wanted = None if said is None else f"each unit counts in {said}, the first of the list that it has"
        alert = session.start(chary.calls.Alert(by_year, above=50, hits=20))
        for call in (Release(by_year, epsilon=1), chary.calls.ReleaseIf(by_year, above=50, hits=20)):
            quoted, told = str(session.quote(call)), str(session.ask(call))
            assert [wanted in told, wanted.capitalize() in quoted] == [True, True] if wanted else "ach unit" not in told
        assert ("each unit counts" in str(alert.ask())) is (wanted is not None)
        # Stored answers are looked up by this text.
        assert by_year.describe().endswith("(3 keys)")
