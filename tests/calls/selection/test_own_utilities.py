"""The exponential mechanism and inverse sensitivity by scores of the caller's own."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import chary
from chary import AlgorithmFailed, Budget, InvalidParameter, InvalidQuery, count
from chary.accounting import Pure, ZeroConcentrated, utility_loss_up
from chary.calls import Choose, ExponentialMechanism, Label, ScoreFunction
from chary.calls.algorithm import MOST_UNITS, distance_steps, score_step, score_steps
from chary.calls.call import of_record
from chary.calls.choices import score_choice, units_between
from chary.calls.run import titled
from chary.data import NeighborRelation
from chary.filters import RenyiFilter
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, SECRET_NUMBER, error_texts, shows_data, spent, visits

LETTERS = ["a", "b", "c"]
NEIGHBORS = ["add_remove", "replace"]


def fixed(scores, name="fixed"):
    return ScoreFunction(name, lambda rows, candidates: scores)


def law_of(session, call, scores):
    """The exact chances of the candidates under these scores."""
    mechanism, _ = score_choice(call, session.spine.rows.neighbor_relation)
    return mechanism.law(score_steps(scores, Fraction(call.sensitivity))).probabilities()


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("scores", "sensitivity"), [([3, 5, -2], 1), ([0.5, 1.25, 0], "0.75"), ([7, 100, 9], 3)])
def test_the_law_is_that_of_the_exponential_mechanism(opened, scores, sensitivity, monotone):
    call = ExponentialMechanism(LETTERS, fixed(scores), sensitivity=sensitivity, epsilon="0.4", monotone=monotone)
    unit = 0.4 / float(Fraction(sensitivity)) / (1 if monotone else 2)
    weights = np.exp(unit * np.array(scores, dtype=float))
    assert law_of(opened(), call, scores) == pytest.approx(list(weights / weights.sum()), abs=1e-6)


@pytest.mark.statistical
def test_the_law_of_choices(opened):
    """A unit that is wrong by 2 either way is rejected."""
    session = opened(budget=Budget(epsilon=10**4), unsafe_noise=Seeded(4))
    bound = ExponentialMechanism(LETTERS, fixed([0, 2, 5]), sensitivity=1, epsilon="0.8").plan(session.spine)
    found = [session.spine.perform(bound, None).value for _ in range(600)]
    counts = [found.count(letter) for letter in LETTERS]
    for unit, follows in ((0.4, True), (0.8, False), (0.2, False)):
        law = np.exp(unit * np.array([0, 2, 5]))
        assert (stats.chisquare(counts, law / law.sum() * 600).pvalue > 1e-6) == follows


def corners(queries, neighbor_relation):
    """How one unit can change the answers, at the ends of what each query allows."""
    cells = [query.contribution(neighbor_relation) for query in queries]
    ranges = [(cell.low * (cell.rows or 1), cell.high * (cell.rows or 1)) for cell in cells]
    if neighbor_relation.neighbors.value == "replace":
        ranges = [(low - high, high - low) for low, high in ranges]
        return list(itertools.product(*ranges))
    added = list(itertools.product(*[(low, 0, high) for low, high in ranges]))
    return added + [tuple(-part for part in each) for each in added]


QUERIES = [
    [count("age >= 44"), count("age < 44"), count()],
    [
        count(),
        chary.sum("cost", bounds=(-1, 4), grid="0.5", max_rows_per_unit=2),
        chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1),
    ],
    [
        chary.sum("cost", bounds=(-6, -2), max_rows_per_unit=1),
        count(),
        chary.sum("cost", bounds=(-6, 0), max_rows_per_unit=1),
    ],
]


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_queries_move_apart_as_far_as_is_proved_and_no_less(queries, neighbors):
    """All changes of one unit: no chance by more than e^epsilon; with a part less of the sensitivity some do."""
    neighbor_relation = NeighborRelation(neighbors, "patient")
    mechanism, step = score_choice(ExponentialMechanism(LETTERS, queries, epsilon=1), neighbor_relation)

    def worst(unit):
        """The largest log-ratio of a chance; one that is far behind or ahead has all of its chance changed."""
        most = 0.0
        for far, change in itertools.product((-50, 0, 50), corners(queries, neighbor_relation)):
            shares = [float(unit / step * query.grid) for query in queries]
            moves = [share * moved for share, moved in zip(shares, change, strict=True)]
            for place in range(3):
                before = np.array([far * (place == other) for other in range(3)], dtype=float)
                after = before + moves
                ratios = (after - special.logsumexp(after)) - (before - special.logsumexp(before))
                most = max(most, float(np.abs(ratios).max()))
        return most

    spread = max(
        max(change[i] * queries[i].grid for i in range(3)) - min(change[i] * queries[i].grid for i in range(3))
        for change in corners(queries, neighbor_relation)
    )
    assert mechanism.sensitivity * step >= spread
    assert worst(mechanism.unit) <= 1 + 1e-9
    assert worst(Fraction(3) / (spread / step)) > 1.4


def test_a_keyed_query_scores_as_choose_does(opened):
    session, by_clinic = opened(budget=NO_NOISE), count().by("clinic", CLINICS)
    own = ExponentialMechanism(["N", "S", "E"], by_clinic, epsilon=1000)
    assert CLINICS["NSE".index(session.ask(own).value)] == session.ask(Choose(by_clinic, epsilon=1000)).value
    assert score_choice(own, session.spine.rows.neighbor_relation)[0].unit == 1000


@pytest.mark.parametrize("sensitivity", [Fraction(1), Fraction(3, 7), Fraction(10**6)])
def test_steps_keep_the_sensitivity_and_the_direction(sensitivity):
    generator, step = np.random.default_rng(3), score_step(sensitivity)
    first = generator.normal(scale=float(sensitivity) * 100, size=300)
    moves = generator.uniform(-1, 1, size=300)
    second = [Fraction(value) + sensitivity * Fraction(move) for value, move in zip(first, moves, strict=True)]
    before, after = score_steps(list(map(float, first)), sensitivity), score_steps(second, sensitivity)
    changes = [b - a for a, b in zip(before, after, strict=True)]
    assert max(map(abs, changes)) * step <= sensitivity
    assert all(change * move >= 0 for change, move in zip(changes, moves, strict=True))
    assert (sensitivity / step).denominator == 1


def test_what_is_no_number_lies_at_an_end():
    most = MOST_UNITS * 2**20
    given = [math.nan, -math.inf, math.inf, 10**40, -(10**40), 5]
    assert score_steps(given, Fraction(1)) == [-most, -most, most, most, -most, 5 * 2**20]
    assert distance_steps([math.nan, math.inf, -math.inf, -2, 2.99, Fraction(7, 2)]) == [2**40, 2**40, 0, 0, 2, 3]


@pytest.mark.parametrize("far", [2**1024, -(2**1025), Fraction(2**1030, 3)], ids=["above", "below", "quotient"])
def test_numbers_beyond_all_floats_are_scores_like_others(opened, far):
    """They raised where a neighbour's, one less, did not."""
    session = opened(budget=Budget(epsilon=10**4))
    best = ExponentialMechanism(LETTERS, fixed([0, far, 0], "score"), sensitivity=1, epsilon=1)
    nearest = ExponentialMechanism(LETTERS, distance=fixed([0, far, far], "distance"), epsilon=1)
    assert (session.ask(best).value == "b") == (far > 0)
    assert session.ask(nearest).value == "a" or far < 0


def test_rounding_keeps_distances_that_go_one_way_on_the_way():
    """As `monotone` needs, whose exponent has no 2: no two distances move more than 1 apart."""
    before = [Fraction(part, 4) for part in range(9)]
    for moves in itertools.product([Fraction(0), Fraction(1, 2), Fraction(1)], repeat=3):
        for start in itertools.combinations(before, 3):
            after = [distance + move for distance, move in zip(start, moves, strict=True)]
            moved = {new - old for old, new in zip(distance_steps(start), distance_steps(after), strict=True)}
            assert moved <= {0, 1}


def test_infinite_scores_choose_without_telling(opened):
    session = opened(budget=NO_NOISE)
    scores = fixed([-math.inf, 3.0, math.nan])
    assert session.ask(ExponentialMechanism(LETTERS, scores, sensitivity=1, epsilon=1000)).value == "b"
    assert session.ask(ExponentialMechanism(LETTERS, distance=fixed([9, math.inf, 2]), epsilon=1000)).value == "c"


def raising(rows, candidates):
    raise ValueError(rows.to_pylist())


def short(rows, candidates):
    return [SECRET_NUMBER]


def texts(rows, candidates):
    return ["1"] * len(candidates)


def flags(rows, candidates):
    return [True] * len(candidates)


@pytest.mark.parametrize("run", [raising, short, texts, flags, lambda rows, candidates: None])
def test_a_function_that_fails_is_charged_and_tells_no_data(opened, run):
    session = opened()
    asked = ExponentialMechanism(LETTERS, ScoreFunction("bad", run), sensitivity=1, epsilon="0.1")
    price = session.quote(asked).most_charged
    with pytest.raises(AlgorithmFailed, match="'bad'") as failure:
        session.ask(asked, request="once")
    assert not shows_data(error_texts(failure.value))
    assert session.spent.share == pytest.approx(price)
    paid = spent(session)
    with pytest.raises(AlgorithmFailed, match="'bad'"):
        session.ask(asked, request="once")
    assert spent(session) == paid


def test_a_function_reads_its_columns_and_coins_alone(opened):
    seen = []

    def looking(rows, candidates, source, least):
        seen.append((rows.column_names, candidates, int(source.words(1, 8)[0]) < 256, least))
        return [0, 0, 1]

    score = ScoreFunction("looking", looking, columns=["age"], parameters={"least": 3}, coins=True)
    session = opened(budget=NO_NOISE)
    assert session.ask(ExponentialMechanism(LETTERS, score, sensitivity="0.001", epsilon=100)).value == "c"
    assert seen == [(["age"], ("a", "b", "c"), True, 3)]
    unknown = ScoreFunction("unknown", looking, columns=["nothing"])
    with pytest.raises(InvalidQuery):
        session.ask(ExponentialMechanism(LETTERS, unknown, sensitivity=1, epsilon=1))


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_the_distance_of_a_query_is_how_many_units_lie_between(neighbors):
    costs = chary.sum("cost", bounds=(-2, 5), max_rows_per_unit=2)
    neighbor_relation, candidates = NeighborRelation(neighbors, "patient"), (0, 1, 25, "-7/2")
    moved = costs.sensitivity(neighbor_relation)
    assert moved == (10 if neighbors == "add_remove" else 14)
    drawn = [units_between(costs, neighbor_relation, value, candidates) for value in range(-30, 31)]
    for place, value in enumerate(range(-30, 31)):
        least = [math.ceil(abs(value - Fraction(t)) / moved) for t in (0, 1, 25, "-7/2")]
        assert drawn[place] == least
    steps = [max(abs(a - b) for a, b in zip(drawn[i], drawn[i + moved], strict=True)) for i in range(61 - moved)]
    assert max(steps) == 1


def test_the_nearest_of_public_numbers(opened):
    session = opened(budget=NO_NOISE)
    people = visits().patient.nunique()
    asked = ExponentialMechanism([0, people - 1, people + 2, 10**6], distance=count(), epsilon=1000)
    answer = session.ask(asked)
    assert (answer.value, answer.shortfall) == (people - 1, 0)


def test_ledgers_hold_distances_by_a_kind_of_their_own(opened):
    session, call = opened(), ExponentialMechanism([0, 10], distance=count(), epsilon="0.1")
    session.ask(call)
    [stored] = session.history
    said = {"candidates": [0, 10], "distance": count().body(), "epsilon": "1/10", "monotone": False}
    assert (stored.kind, stored.question) == ("inverse_sensitivity", said)
    assert of_record(stored.kind, stored.question) == call
    assert session.quote(call).kind == titled(stored.kind).lower().replace(" ", "_") == "exponential_mechanism"


@pytest.mark.parametrize("filter_", [RenyiFilter.best(Budget(epsilon=1, delta=1e-6), grain=None)])
def test_a_renyi_filter_charges_the_bounded_range(opened, filter_):
    for asked in (
        ExponentialMechanism(LETTERS, fixed([1, 2, 3]), sensitivity=1, epsilon="0.05"),
        ExponentialMechanism(LETTERS, distance=fixed([1, 2, 3]), epsilon="0.05"),
    ):
        price = asked.plan(opened().spine).price(filter_)
        narrow = filter_.price(ZeroConcentrated(Fraction(1, 3200)))
        assert (price.hit, price.miss) == (narrow.hit, narrow.miss)
        assert price.hit.main < filter_.price(Pure("0.05")).hit.main


@pytest.mark.statistical
def test_a_shortfall_holds_as_often_as_it_says(opened):
    """At the worst scores, one best and all others just as far below as the bound: 5 % and hardly fewer."""
    asked = ExponentialMechanism(list(range(50)), fixed([0]), sensitivity=2, epsilon="0.5")
    session = opened()
    short, (mechanism, step) = session.quote(asked).shortfall, score_choice(asked, session.spine.rows.neighbor_relation)
    assert short < utility_loss_up(mechanism.unit, 50, "0.05") * float(step) + 1e-3
    for below, exceeds in ((short, False), (0.99 * short, True)):
        law = mechanism.law(score_steps([0.0] + [-below] * 49, Fraction(2))).probabilities()
        assert (1 - law[0] > 0.05) == exceeds


def wrong(kind=ExponentialMechanism, **options):
    usual = {"candidates": LETTERS, "score": fixed([1, 2, 3]), "sensitivity": 1, "epsilon": 1}
    return lambda: kind(**usual | options)


def nearest(**options):
    usual = {"candidates": [1, 2, 3], "distance": count(), "epsilon": 1}
    return lambda: ExponentialMechanism(**usual | options)


@pytest.mark.parametrize(
    "make",
    [
        wrong(candidates=["a"]),
        wrong(candidates=["a", "a"]),
        wrong(candidates=[["a"], ["b"]]),
        wrong(sensitivity=None),
        wrong(score=[count(), count()], sensitivity=None),
        wrong(score=[count(), count(), count()]),
        wrong(score=[count(), count(), count()], sensitivity=None, monotone=True),
        wrong(score=[count(), count(), count().by("clinic", ["a"])], sensitivity=None),
        wrong(score=[]),
        wrong(score="count"),
        nearest(distance=count().by("clinic", CLINICS)),
        nearest(distance=[count(), count(), count()]),
        nearest(monotone=True),
        nearest(sensitivity=1),
        nearest(distance=None),
        nearest(score=[count(), count(), count()]),
        nearest(candidates=["a", "b", "c"]),
        lambda: ScoreFunction("", len),
        lambda: ScoreFunction("five", 5),
        lambda: ScoreFunction("set", len, parameters={"a": {1}}),
    ],
)
def test_what_cannot_be_right_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_a_series_is_scored_by_its_values():
    days = pd.DataFrame({"cnt": [5, 900, 7]})
    with chary.open_counts(days, column="cnt", sensitivity=3, budget=NO_NOISE, ledger=":memory:") as session:
        late = ScoreFunction("late", lambda values, candidates: [int(values[day]) for day in candidates])
        assert session.ask(ExponentialMechanism([0, 1, 2], late, sensitivity=3, epsilon=1000)).value == 1
        keyed = ExponentialMechanism([0, 1, 2], session.series(), epsilon="0.1")
        assert score_choice(keyed, session.spine.rows.neighbor_relation)[0].sensitivity == 6


def test_no_two_kinds_are_mistaken():
    assert ExponentialMechanism(LETTERS, fixed([1, 2, 3]), sensitivity=1, epsilon=1) != Label(0, epsilon=1)
