"""Selection with Gaussian noise: exact laws against draws, all neighbouring pairs of small grids against the price."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.accounting import above_threshold_epsilons_up, noisy_max_epsilon_up
from chary.errors import InvalidParameter
from chary.mechanisms import GaussianMax, GaussianThreshold, choices, threshold_tests
from chary.noise import Deviate, OperatingSystem, Seeded
from chary.noise.gaussian import Normals
from tests.mechanisms.gaussian_laws import grid_pairs, log_stopping, log_stopping_afresh, log_winner
from tests.noise.helpers import Scripted

ALPHA = 1e-6
WRONG = (2 / 3, 3 / 2)
TERMS = {"threshold": Fraction(1, 2), "threshold_noise": Fraction(2, 5), "query_noise": Fraction(3, 5)}
VALUES = [Fraction(1, 5), Fraction(1, 2), Fraction(0), Fraction(4, 5)]


def fits(counts, logs):
    """The p-value of observed counts under a law."""
    return stats.chisquare(counts, np.exp(logs) / np.exp(logs).sum() * sum(counts)).pvalue


@pytest.mark.statistical
def test_the_winner_follows_the_exact_law():
    values, source, mechanism = np.array([0, 2, 3, 5]), Seeded(11), GaussianMax(3)
    counts = np.bincount([mechanism.step(values, source) for _ in range(8000)], minlength=4)
    assert fits(counts, log_winner(values, 3)) > ALPHA
    assert max(fits(counts, log_winner(values, 3 * wrong)) for wrong in WRONG) < ALPHA


def stops(terms, runs, seed):
    """How often each of the values was the first above, and how often none was."""
    source, mechanism, counts = Seeded(seed), GaussianThreshold(**terms), [0] * (len(VALUES) + 1)
    for _ in range(runs):
        held, step = mechanism.start(source), 0
        for value in VALUES:
            above, held = mechanism.step(value, held, source)
            if above:
                break
            step += 1
        counts[step] += 1
    return counts


@pytest.mark.statistical
def test_the_step_at_which_a_run_halts_follows_the_exact_law():
    counts = stops(TERMS, 8000, 12)
    own, other = float(TERMS["threshold_noise"]), float(TERMS["query_noise"])
    values = [float(value) for value in VALUES]
    assert fits(counts, log_stopping(values, 0.5, own, other)) > ALPHA
    assert fits(counts, log_stopping_afresh(values, 0.5, own, other)) < ALPHA
    assert max(fits(counts, log_stopping(values, 0.5, own * wrong, other * wrong)) for wrong in WRONG) < ALPHA
    assert max(fits(counts, log_stopping(values, 0.5, own * wrong, other)) for wrong in (0.25, 2)) < ALPHA


@pytest.mark.parametrize("noise", [0.6, 2.0])
@pytest.mark.parametrize("one_direction", [False, True])
def test_no_pair_of_a_small_grid_exceeds_the_price_of_a_maximum(noise, one_direction):
    points, most = (0, 0.25, 0.75, 1), 0.25
    half = Fraction(1, 8) if one_direction else Fraction(1, 4)
    price = float(noisy_max_epsilon_up(3, sensitivity=half, noise=Fraction(noise), spread=1))
    pairs = grid_pairs(3, points, most, one_direction=one_direction)
    worst = max(np.abs(log_winner(left, noise) - log_winner(right, noise)).max() for left, right in pairs)
    assert 0.999 * price < worst <= price


def test_values_that_move_both_ways_exceed_the_price_of_one_direction():
    price = float(noisy_max_epsilon_up(3, sensitivity=Fraction(1, 8), noise=Fraction(3, 5), spread=1))
    left, right = log_winner((0.25, 0.75, 0.75), 0.6), log_winner((0, 1, 1), 0.6)
    assert np.abs(left - right).max() > 1.5 * price


@pytest.mark.parametrize("threshold", [-0.5, 0.3, 1.7])
def test_no_transcript_of_a_small_grid_exceeds_its_loss(threshold):
    own, other = 0.5, 0.7
    halted, running = above_threshold_epsilons_up(
        3,
        sensitivity=Fraction(1, 2),
        threshold_noise=Fraction(own),
        query_noise=Fraction(7, 10),
        threshold=Fraction(threshold),
        low=0,
        high=1,
    )
    losses = np.array([*halted, running[-1]])
    worst = np.full(4, -np.inf)
    for left, right in grid_pairs(3, (0, 0.5, 1), 0.5):
        gaps = log_stopping(left, threshold, own, other) - log_stopping(right, threshold, own, other)
        worst = np.maximum(worst, gaps)
    assert (worst <= losses).all()
    assert (worst > 0.999 * losses).all()


def test_all_candidates_compared_exactly_give_the_same_winner(monkeypatch):
    values = np.random.default_rng(13).integers(0, 50, 60)
    for scale in (Fraction(1, 100), Fraction(7, 3), Fraction(10**6)):
        near = [GaussianMax(scale).step(values, Seeded(seed)) for seed in range(12)]
        with monkeypatch.context() as patched:
            patched.setattr(GaussianMax, "_near", lambda self, values, drawn: np.arange(values.size))
            assert [GaussianMax(scale).step(values, Seeded(seed)) for seed in range(12)] == near


@pytest.mark.parametrize(
    ("words", "winner"),
    [([5, 3, 4, 0], 1), ([3, 5, 4, 0], 0), ([5, 3, 7, 9], 2), ([3, 5, 7, 9], 2)],
)
def test_bits_that_a_tie_has_drawn_stay_with_their_value(words, winner, monkeypatch):
    """Three equal sums, as far as they are known: the best so far meets the third with the bits that it won by."""
    monkeypatch.setattr(choices, "normals", lambda source, size: Normals(np.full(size, 77)))
    assert GaussianMax(3).step(np.array([6, 6, 6]), Scripted(words)) == winner


@pytest.mark.parametrize(("words", "above"), [([9, 4], True), ([4, 9], False)])
def test_bits_that_a_test_has_drawn_stay_with_the_threshold(words, above, monkeypatch):
    monkeypatch.setattr(threshold_tests, "deviate", lambda source: Deviate(77, 31))
    test = GaussianThreshold(5, 1, 1)
    found, held = test.step(Fraction(5), Deviate(77, 31), Scripted(words))
    assert (found, held) == (above, Deviate(77 << 64 | words[1], 95))


@pytest.mark.parametrize(
    "values",
    [
        np.array([-128, 127, 3], dtype=np.int8),
        np.array([0, 2**64 - 1, 2**63], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([0, 10**400, -(10**300)], dtype=object) // 10**300 * 2**70,
        np.array([-(2**80), 2**80, 5], dtype=object),
        np.array([2**62, 2**62 + 9, 2**62 + 1]),
    ],
    ids=lambda values: str(values.dtype),
)
def test_without_noise_the_largest_wins_whatever_its_size(values):
    assert GaussianMax(Fraction(1, 1000)).step(values, OperatingSystem()) == 1


def test_one_value_wins_at_once():
    assert GaussianMax(5).step(np.array([3]), OperatingSystem()) == 0


@pytest.mark.parametrize("values", [np.array([]), np.array([0.5, 1.0]), np.array([[1, 2]]), np.array([True])])
def test_what_is_no_list_of_integers_is_refused(values):
    with pytest.raises(InvalidParameter, match="at least one integer"):
        GaussianMax(5).step(values, OperatingSystem())


@pytest.mark.parametrize("values", [[3, 10, 7], (3, 10, 7), [3, 10**30, 7]])
def test_a_list_is_as_good_as_an_array(values):
    assert GaussianMax("0.01").step(values, Seeded(1)) == 1


@pytest.mark.parametrize("values", [[], [0.5, 1], [[1, 2], [3]], ["x"], [True], "12", None, 7, {1: 2}])
def test_a_list_of_anything_else_is_refused(values):
    with pytest.raises(InvalidParameter, match="at least one integer"):
        GaussianMax(5).step(values, Seeded(1))


def test_query_noise_is_sqrt_3_times_the_threshold_noise_rounded_up():
    own, other = GaussianThreshold(0, "0.3").scales
    assert 3 * own**2 <= other**2 < 3 * own**2 * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "x", None, True])
def test_noise_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        GaussianMax(wrong)
    with pytest.raises(InvalidParameter):
        GaussianThreshold(0, wrong)
    if wrong is not None:
        with pytest.raises(InvalidParameter):
            GaussianThreshold(0, 1, wrong)
