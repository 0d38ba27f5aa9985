"""Running totals: right without noise, noise in proportion to the bounds, all neighbours within the price, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import chary
from chary import InvalidQuery, count
from chary.accounting.continual import root_weights
from chary.calls import ContinualCount, Release
from chary.mechanisms.continual import BinaryTree, RootFactorisation
from chary.noise import Seeded
from tests.calls.growing.continual_streams import EXACT
from tests.mechanisms.test_continual import moved, needed
from tests.session.kit import NO_NOISE, PUBLIC, USUAL, spent

COST = chary.sum("cost", bounds=(0, 50), grid="0.25")
SIGNED = chary.sum("cost", bounds=(-20, 5), where="ward <> 1").by("ward", [0, 2])


def rows(first, last):
    """Costs from -30 to 69, in quarters."""
    made = [{"ward": i % 3, "cost": (i * 37 % 100 - 30) + 0.25 * (i % 4)} for i in range(first, last)]
    return pl.DataFrame(made, schema={"ward": pl.Int64, "cost": pl.Float64})


def truth(size, low, high, ward=None):
    frame = rows(0, size).filter(True if ward is None else pl.col("ward") == ward)
    return sum(min(high, max(low, cost)) for cost in frame["cost"])


@pytest.fixture
def grown(opened):
    return lambda **options: opened(rows(0, 90), **(PUBLIC | {"budget": USUAL, "dataset": "costs"} | options))


@pytest.mark.parametrize("terms", EXACT)
def test_without_noise_each_step_tells_the_totals_after_its_batch(grown, terms):
    # A step of the grid is told apart by as many times more budget as a row moves steps.
    more = {
        name: size * (200 if name == "epsilon" else 200**2) if name != "mechanism" else size
        for name, size in terms.items()
    }
    session = grown(budget=chary.Budget(epsilon=10**12, delta=1e-6))
    cost, signed = (session.start(ContinualCount(query, steps=6, **more)) for query in (COST, SIGNED))
    size = 90
    for batch in (0, 1, 40, 300):
        session.append(rows(size, size + batch))
        size += batch
        assert cost.ask().value == truth(size, 0, 50)
        by_ward = signed.ask().value
        assert by_ward == {ward: round(sum(_whole(cost) for cost in _costs(size, ward))) for ward in (0, 2)}


def _costs(size, ward):
    return rows(0, size).filter(pl.col("ward") == ward)["cost"]


def _whole(cost):
    """Clipped and rounded to the grid of 1, halves away from zero."""
    clipped = min(5, max(-20, cost))
    return math.copysign(math.floor(abs(clipped) + 0.5), clipped)


@pytest.mark.parametrize("terms", [{"epsilon": "0.4"}, {"rho": "0.001", "mechanism": "tree"}, {"rho": "0.001"}])
def test_errors_are_in_units_and_in_proportion_to_the_bounds(grown, terms):
    session = grown(unsafe_noise=Seeded(2), budget=chary.Budget(epsilon=4, delta=1e-6))
    states = [session.start(ContinualCount(query, steps=20, **terms)).state for query in (count(), COST)]
    wide = session.start(ContinualCount(chary.sum("cost", bounds=(0, 500), grid="0.25"), steps=20, **terms)).state
    rows_, cost, ten = (state.deviation(20) for state in (*states, wide))
    # 200 steps of a quarter: 50 in units; discreteness and the rounding of whole rows are seen in the count alone.
    assert cost == pytest.approx(50 * rows_, rel=0.01)
    assert ten == pytest.approx(10 * cost, rel=0.01)
    assert states[1].worst_error() == pytest.approx(50 * states[0].worst_error(), rel=0.03)
    assert states[1].error_bar(3) * 4 == int(states[1].error_bar(3) * 4)


def test_what_is_charged_is_what_a_count_costs(grown):
    prices = []
    for query in (count(), COST, SIGNED):
        session = grown()
        session.start(ContinualCount(query, steps=9, rho="0.001"))
        prices.append(spent(session))
    assert prices[0] == prices[1]
    # A replaced row moves the totals of two keys by 20 each: l1 times the largest is exactly the sum of the squares.
    assert prices[0] == prices[2]


def test_answers_come_back_equal_after_a_restart(opened, tmp_path):
    options = PUBLIC | {"budget": USUAL, "dataset": "costs", "ledger": tmp_path / "a.ledger"}
    session = opened(rows(0, 90), **options)
    run = session.start(ContinualCount(COST, steps=9, rho="0.01"))
    first = [run.ask(), run.ask()]
    session.close()
    again = opened(rows(0, 90), **options).resume(run.call)
    assert again.state.results == first
    assert first[0].interval[0] >= 0
    assert chary.calls.read(ContinualCount(COST, steps=9, rho="0.01").body()).query == COST
    assert again.ask().step == 3


def test_an_interval_of_a_signed_total_is_not_cut(grown):
    session = grown(unsafe_noise=Seeded(4))
    signed = session.start(ContinualCount(chary.sum("cost", bounds=(-50, 0)), steps=3, rho="0.001")).ask()
    low, high = signed.interval
    assert low < 0
    assert high <= 0
    both = session.start(ContinualCount(chary.sum("cost", bounds=(-50, 50)), steps=3, rho="0.001")).ask()
    assert both.interval == (both.value - both.error_bar, both.value + both.error_bar)


@pytest.mark.parametrize("largest", [1, 2, 3])
def test_all_neighbours_of_a_tree_are_within_epsilon_and_some_attain_it(largest):
    """What is told is one to one with the noise, so a loss is the change of its absolute sum over the scale."""
    steps, worst = 3, Fraction(0)
    tree = BinaryTree.for_epsilon(1, steps=steps, l1=largest, largest=largest)
    make = lambda noise: BinaryTree(steps, noise, tree.tree, 1, largest, largest)  # noqa: E731
    for place, by in itertools.product(range(steps), range(-largest, largest + 1)):
        shift = needed(make, *moved(steps, place, by), [0] * steps)
        worst = max(worst, sum(map(abs, shift)) / Fraction(tree.noise.scale))
    assert worst == 1
    assert tree.event().epsilon == 1


@pytest.mark.parametrize("largest", [1, 5, 200])
def test_the_root_moves_by_a_column_for_each_step_of_the_grid(largest):
    steps, rho = 9, Fraction(1, 10)
    root = RootFactorisation.for_rho(rho, steps=steps, l1=largest, largest=largest)
    column = sum((largest * weight) ** 2 for weight in root_weights(steps).tolist())
    assert column / (2 * root.noise.sigma_squared) <= rho
    assert column / (2 * root.noise.sigma_squared) == pytest.approx(float(rho), rel=1e-9)
    assert root.event().rho <= rho
    # With two keys that a replaced row moves: the squares, not the square of the sum.
    keyed = RootFactorisation.for_rho(rho, steps=steps, keys=2, l1=2 * largest, largest=largest)
    assert keyed.noise.sigma_squared == pytest.approx(float(2 * root.noise.sigma_squared), rel=1e-9)


def test_deviations_are_attained_by_draws():
    tree = BinaryTree.for_rho("0.5", steps=7, l1=40, largest=40)
    source, draws = Seeded(8), []
    for _ in range(400):
        state = tree.start()
        for step in range(1, 8):
            values, state = tree.tell(step, state, np.array([5 * step]), source)
        draws.append(values[0] - 35)
    spread = sum(draw**2 for draw in draws) / tree.deviation(7) ** 2
    # The ends of chi-square with 400 degrees of freedom at alpha = 1e-6; scales wrong by 2/3 and 3/2 are rejected.
    assert 276.6 < spread < 553.9
    assert spread * (2 / 3) ** 2 < 276.6
    assert spread * (3 / 2) ** 2 > 553.9


def test_what_is_refused(opened):
    session = opened(rows(0, 90), **(PUBLIC | {"budget": NO_NOISE}))
    with pytest.raises(InvalidQuery, match="coarser grid"):
        session.start(ContinualCount(chary.sum("cost", bounds=(0, 2**32)), steps=3, epsilon=1))
    with pytest.raises(InvalidQuery, match="sum"):
        ContinualCount(chary.mean("cost", bounds=(0, 1)), steps=3, epsilon=1)
    assert not session.history


@pytest.mark.parametrize("terms", [{"epsilon": "0.1"}, {"rho": "0.01"}, {"rho": "0.01", "mechanism": "tree"}])
def test_a_quote_tells_the_errors_that_the_run_tells(grown, terms):
    session, asked = grown(), ContinualCount(COST, steps=6, **terms)
    quote = session.quote(asked)
    state = session.start(asked).state
    last, worst = state.error_bar(6), state.worst_error()
    assert quote.interval == (
        f"with 95 % confidence, the last of 6 steps is within {last:.6g} of the truth, all together within {worst:.6g}"
    )


def log_moment(scale, order, change):
    """Of integer noise that is moved by so much, added up."""
    places = np.arange(-60 * scale, 60 * scale + change + 1)
    first, second = -np.abs(places) / scale, -np.abs(places - change) / scale
    return float(np.log(np.exp(order * first + (1 - order) * second).sum() / np.exp(first).sum()))


@pytest.mark.parametrize(("l1", "largest"), [(12, 12), (24, 12), (20, 12), (2, 1)])
def test_the_renyi_price_is_that_of_a_row_that_moves_the_total_as_far_as_it_can(l1, largest):
    tree = BinaryTree.for_epsilon(2, steps=9, l1=l1, largest=largest)
    scale = int(tree.noise.scale)
    assert tree.noise.scale == scale
    assert tree.event().epsilon == 2
    for order in (Fraction(3, 2), Fraction(4), Fraction(20)):
        each = [log_moment(scale, float(order), min(largest, left)) for left in range(l1, 0, -largest)]
        worst, priced = tree.tree.reach * sum(each), float(tree.event().log_moment_up(order))
        assert worst * (1 - 1e-9) <= priced <= worst * (1 + 1e-6)


def test_a_running_total_costs_a_delta_session_as_much_as_the_release_of_one(grown):
    running, released = ContinualCount(COST, steps=1, epsilon="0.1"), Release(COST, epsilon="0.1")
    prices = [grown(budget=USUAL).quote(asked).most_charged for asked in (running, released)]
    assert prices[0] == prices[1]
