"""The parts of the auditor: bounds that hold, events that are found, laws that are exact."""

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from chary import Algorithm, Budget, count, noise
from chary.audit import audit, audit_kinds, epsilon_shown
from chary.audit.auditor import audit_case, named, worst_cases
from chary.audit.enumeration import LOST, Enumeration, TooMany
from chary.audit.findings import exact_epsilon, lower_chance, matrices, most_shown, needed_price, upper_chance
from chary.calls import Select, ThresholdTest, kinds
from chary.errors import InvalidParameter
from chary.filters import RenyiFilter
from chary.mechanisms import Exponential, Laplace
from chary.noise import Seeded

PEOPLE, FEWER = (pa.table({"name": list(range(size))}) for size in (3, 2))
# Kinds that ask nothing of the rows, or are the openings of those that do.
OPENINGS = {
    "above_threshold",
    "agreed_tests",
    "alert",
    "best_of",
    "continual_count",
    "growing_sparse_vector",
    "individual_stream",
    "multiplicative_weights",
    "schedule",
    "self_reporting",
    "sketch",
    "sparse_vector",
}


def test_every_kind_is_audited():
    audited = {name.split(":")[0].split(" ")[0] for name in worst_cases()}
    assert kinds().keys() - audited - OPENINGS == set()


@pytest.mark.parametrize("chance", [0.001, 0.3, 0.97])
def test_bounds_of_a_chance_fail_as_seldom_as_they_say(chance):
    counts = np.arange(51)
    weights = binom.pmf(counts, 50, chance)
    for bound, wrong in ((lower_chance, np.greater), (upper_chance, np.less)):
        missed = weights[wrong(bound(counts, 50, 0.01), chance)].sum()
        assert missed <= 0.01


def test_nothing_is_shown_where_nothing_is():
    assert epsilon_shown(0, 5, (10, 10)) == -math.inf
    assert epsilon_shown(100, 0, (100, 100), 0.99) == -math.inf
    assert epsilon_shown(1000, 0, (1000, 1000), 0.05) < epsilon_shown(1000, 0, (1000, 1000))


@pytest.mark.statistical
@pytest.mark.parametrize("columns", [1, 3])
def test_the_best_event_is_found_in_any_column(columns):
    rng = np.random.default_rng(5)
    here, there = rng.normal(size=(2, 8000, columns))
    assert most_shown(here, there).epsilon < 0.1
    here[:, columns - 1] = rng.laplace(1, 0.5, 8000)
    there[:, columns - 1] = rng.laplace(0, 0.5, 8000)
    assert 1.5 < most_shown(here, there).epsilon <= 2


@pytest.mark.statistical
def test_a_vector_is_told_by_all_of_its_numbers():
    """Each number by itself shows a sixteenth of what all show together."""
    rng = np.random.default_rng(6)
    here, there = rng.normal(0.5, 1, (8000, 16)), rng.normal(0, 1, (8000, 16))
    alone = most_shown(here[:, :1], there[:, :1]).epsilon
    assert most_shown(here, there).epsilon > 2 * alone > 0


def test_outcomes_become_numbers_whatever_their_form():
    here, there = matrices([{"a": 1}, {"a": None}, [True, "x"]], [{"a": 2}, [0.5], 10**400])
    assert here.shape == there.shape == (3, here.shape[1])
    assert np.isfinite(here).all()
    assert len({*map(bytes, here), *map(bytes, there)}) == 6


def test_floats_show_their_digits():
    here, there = matrices([0.1], [0.5])
    assert {52, 53, 54, 55, 56} & set(here[0])
    assert 1 in there[0]


@pytest.mark.parametrize("distance", [-2, 0, 3])
def test_an_enumerated_law_is_the_exact_one(distance):
    additive = Laplace(Fraction(2), sensitivity=1)
    law = Enumeration(lambda source: bool(additive.draw_one(source) >= distance)).law()
    lost = law.pop(LOST)
    assert 0 < lost < 1e-4
    assert math.isclose(law["true"], additive.at_least(distance), abs_tol=lost)
    assert math.isclose(sum(law.values()) + lost, 1)


def test_a_choice_is_enumerated_to_its_last_digit():
    choice = Exponential(1, sensitivity=1)
    law = Enumeration(lambda source: choice.step([3, 0, 1], source)).law()
    known = choice.law([3, 0, 1]).probabilities()
    assert np.allclose([law[str(place)] for place in range(3)], known, atol=1e-6)


def test_small_words_are_tried_one_by_one():
    law = Enumeration(lambda source: int(noise.uniform_integers(source, 3, 1)[0])).law()
    assert law.pop(LOST, 0) < 1e-4
    assert np.allclose(list(law.values()), 1 / 3, atol=1e-4)


@pytest.mark.parametrize(
    "draws", [lambda s: s.words(1, 32).tolist(), lambda s: [s.words(1, 64) for _ in range(9)] and 0]
)
def test_what_draws_too_much_is_not_enumerated(draws):
    with pytest.raises(TooMany):
        Enumeration(draws).law()


def test_an_algorithm_cannot_hide_that_it_wants_more_words():
    """What raises in an algorithm becomes an outcome; that of a missing word must not."""
    algorithm = Algorithm("bit", lambda rows, source: int(source.words(1, 64)[0]) >> 63, epsilon=1)
    law = Enumeration(lambda source: algorithm.outcome(PEOPLE, source)).law()
    assert law.pop(LOST, 0) < 1e-6
    assert {name: round(chance, 5) for name, chance in law.items()} == {"0": 0.5, "1": 0.5}


def test_lost_outcomes_count_against_what_is_shown():
    here, there = {"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.7, LOST: 0.1}
    assert math.isclose(exact_epsilon(here, there)[0], math.log(0.5 / 0.3))
    assert exact_epsilon(here, here, 0.1)[0] == 0


@pytest.mark.parametrize("chance", [0.2, 0.5])
def test_the_needed_price_is_where_the_charged_moment_is_one(chance):
    order, other = 1.5, chance * 1.2
    here, there = ({"[1,1]": p, "[0,0]": 1 - p} for p in (other, chance))
    price = needed_price(here, there, order)[0]
    hit, miss = chance * (other / chance) ** order, (1 - chance) * ((1 - other) / (1 - chance)) ** order
    assert math.isclose(hit * math.exp(-price) + miss, 1)


def test_a_test_pays_exactly_what_its_hits_need():
    case = worst_cases()["test: a hit"]
    found = audit_case(case)
    assert isinstance(case.terms(1).opened(case.pair()[0], Seeded(1)).spine.filter, RenyiFilter)
    assert found.exact
    assert found.passed
    assert found.caught
    assert found.measured > 0.99 * found.claimed


@pytest.mark.parametrize(
    "kind",
    ["label", "boundary", "fraction", "classify by one", "exponential_mechanism", "exponential_mechanism by distances"],
)
def test_finite_kinds_are_audited_exactly(kind):
    [found] = [each for each in audit_kinds([kind]) if ":" not in each.kind][:1]
    assert found.exact
    assert found.passed
    assert found.caught
    assert found.measured > 0.99


@pytest.mark.statistical
def test_a_session_is_audited_against_its_whole_budget():
    def told(session):
        return session.release(count(), epsilon=1).value

    options = {"privacy_unit": "name", "transcripts": 600, "seed": 1}
    whole = audit(told, PEOPLE, FEWER, budget=Budget(2), **options)
    charged = audit(told, PEOPLE, FEWER, **options)
    assert (whole.claimed, charged.claimed) == (2, 1)
    assert 0 < whole.measured == charged.measured <= 1


def test_randomness_from_elsewhere_hides_nothing():
    """What never draws from the source is run as often as the rest, and not taken for one sure outcome."""
    draws = random.Random(4)

    def exact_size_at_times(rows, source):
        return rows.num_rows if draws.random() < 0.1 else 0

    def answered_at_random(rows, source):
        return (rows.num_rows > 2) == (draws.random() < math.e / (1 + math.e))

    tables = pa.table({"name": ["a", "b", "c"]}), pa.table({"name": ["a", "b"]})
    said = {"privacy_unit": "name", "transcripts": 4000, "seed": 1}
    caught = audit(Algorithm("leak", exact_size_at_times, epsilon=1), *tables, **said)
    assert (caught.passed, caught.exact, caught.transcripts) == (False, False, 4000)
    assert audit(Algorithm("honest", answered_at_random, epsilon=1), *tables, **said).passed
    leak = Algorithm("leak", exact_size_at_times, epsilon=1)
    for candidates in ([leak], {"leak": leak}):
        assert not audit(Select(candidates, above=1), *tables, **said).exact


def test_a_weaker_call_is_the_power_of_an_audit():
    asked, weaker = (ThresholdTest(count(), above=3, epsilon=epsilon) for epsilon in (1, 2))
    found = audit(asked, PEOPLE, FEWER, privacy_unit="name", weaker=weaker)
    assert found.caught
    assert audit(asked, PEOPLE, FEWER, privacy_unit="name").caught is None


def test_names_are_those_of_the_kinds():
    assert [case.kind for case in named(["test", "test: a hit"])] == ["test", "test: a hit"]
    for wrong in (lambda: named(["tset"]), lambda: list(audit_kinds(["test"], transcripts=1))):
        with pytest.raises(InvalidParameter):
            wrong()
    with pytest.raises(InvalidParameter):
        audit("count", PEOPLE, FEWER, privacy_unit="name")
