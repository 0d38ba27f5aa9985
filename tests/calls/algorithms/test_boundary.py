"""Algorithms of one's own in the boundary wrapper: what is published, what is charged, and the law of it."""

import itertools
import json
import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter
from chary.accounting import BoundaryCall, UnanimousCall
from chary.amounts import Amount
from chary.calls import Boundary
from chary.calls.boundaries import boundary_wrapper
from chary.data import NeighborRelation
from chary.mechanisms import BOUNDARY, Exponential, PermuteAndFlip
from chary.noise import ExponentialLaw, Seeded
from tests.accounting.pairs import wrapped
from tests.session.kit import PUBLIC, answers, error_texts, shows_data, spent

ADDED = NeighborRelation("add_remove", "unit")


def stated(*chances, epsilon="0.02", **options):
    """An algorithm whose law is the same for all rows: it is 0-DP, whatever it declares."""
    law = [Fraction(chance) for chance in chances]
    names = [f"outcome {place}" for place in range(len(law))]
    known = {"outcomes": names, "probabilities": lambda rows: law} | options
    return Algorithm("stated", lambda rows, source: names[0], epsilon=epsilon, **known)


@pytest.fixture
def session(opened):
    return opened(grain="0.02", unsafe_noise=Seeded(3))


def test_what_is_certain_is_free(session):
    found = session.ask(Boundary(stated(0, 1, 0)))
    assert (found.value, found.clear, found.hit) == ("outcome 1", True, False)
    assert spent(session) == Amount(0)


def test_only_the_boundary_is_paid(session):
    found = [session.ask(Boundary(stated("1/2", "1/2"))) for _ in range(12)]
    unclear = sum(answer.value == BOUNDARY for answer in found)
    assert 0 < unclear < 12
    assert [answer.hit for answer in found] == [not answer.clear for answer in found]
    assert spent(session) == session.spine.filter.price(BoundaryCall("0.02", 2)).hit.times(unclear)


@pytest.mark.statistical
@pytest.mark.parametrize("chances", [("9/10", "1/10"), ("1/2", "3/10", "1/5")])
def test_the_law_is_algorithm_4(opened, chances):
    session = opened(grain="0.02", unsafe_noise=Seeded(8))
    made = Boundary(stated(*chances)).plan(session.spine)
    drawn = [answer["outcome"] for answer in answers(session, made, None, 4000)]
    counts = [drawn.count(outcome) for outcome in (BOUNDARY, *range(len(chances)))]
    law = wrapped([Fraction(chance) for chance in chances])
    assert stats.chisquare(counts, [float(p) * 4000 for p in law]).pvalue > 1e-6
    other = wrapped([Fraction(chance) for chance in reversed(chances)])
    assert stats.chisquare(counts, [float(p) * 4000 for p in other]).pvalue < 1e-6


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(3)])
@pytest.mark.parametrize("ratio", [Fraction(11, 10), Fraction(5, 4)])
def test_the_price_of_a_boundary_covers_laws_of_three_outcomes(order, ratio):
    """All pairs whose chances are 1 or `ratio` times as large as each other's, and one that is nearly certain."""
    epsilon = Fraction(math.log(ratio)).limit_denominator(10**6) + Fraction(1, 10**6)
    psi = float(BoundaryCall(epsilon, 3).hit_price_up(order))
    bases = [(1, 1, 1), (1, 1, 100), (1, 100, 10**4), (1, 10, 10), (1, 3, 3)]
    for base in bases:
        for factors in permutations([ratio, ratio, 1]):
            weights = [[Fraction(b) for b in base], [b * f for b, f in zip(base, factors, strict=True)]]
            pair = [[weight / sum(each) for weight in each] for each in weights]
            for ours, theirs in (pair, pair[::-1]):
                made = [
                    boundary_wrapper(stated(*law, epsilon=epsilon)).law(None).probabilities() for law in (ours, theirs)
                ]
                charges = [psi, 0, 0, 0]
                moment = sum(
                    p ** float(order) * q ** (1 - float(order)) * math.exp(-c)
                    for p, q, c in zip(*made, charges, strict=True)
                )
                assert moment <= 1 + 1e-9


def raises(rows):
    raise ValueError(rows["cost"].to_pylist()[-1])


NO_LAWS = [
    raises,
    lambda rows: [0.5, 0.4],
    lambda rows: [1.5, -0.5],
    lambda rows: [math.nan, 0.5],
    lambda rows: [np.float32(0.5)] * 2,
    lambda rows: [Fraction(1)],
    lambda rows: [Fraction(1, 2)] * 3,
    lambda rows: None,
]


@pytest.mark.parametrize("probabilities", NO_LAWS)
def test_what_is_no_law_is_charged_and_tells_nothing(session, probabilities):
    broken = stated("1/2", "1/2", probabilities=lambda rows: probabilities(rows) if rows.num_rows else [0.5, 0.5])
    for _ in range(2):
        with pytest.raises(AlgorithmFailed) as failed:
            session.ask(Boundary(broken), request="monday")
        assert not shows_data(error_texts(failed.value))
    assert spent(session) == session.spine.filter.price(BoundaryCall("0.02", 2)).hit


@pytest.mark.parametrize("probabilities", NO_LAWS)
def test_what_is_no_law_of_an_empty_table_is_refused_before_anything_is_charged(session, opened, probabilities):
    broken = stated("1/2", "1/2", probabilities=probabilities)
    with pytest.raises(InvalidParameter, match="table without rows"):
        session.ask(Boundary(broken))
    assert session.history == []
    # Where the number of rows is public, an empty table is none of the datasets.
    public = opened(grain="0.02", **PUBLIC)
    with pytest.raises(AlgorithmFailed):
        public.ask(Boundary(broken))


def chances_of(algorithm, rows=None):
    """What is drawn from, as rationals to 2^-300."""
    bounds = algorithm.law(rows).bounds(300)
    return [Fraction(lower + upper, 2**301) for lower, upper in bounds]


def softmax(utilities, epsilon):
    weights = np.exp(float(epsilon) / 2 * (np.asarray(utilities, float) - max(utilities)))
    return (weights / weights.sum()).tolist()


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "2"])
def test_floats_are_drawn_from_a_law_that_is_as_private_as_was_said(epsilon):
    """Whatever the roundings were, also of chances that floats lose: here they are as bad as they may be."""
    bound, worst, too_far = math.exp(Fraction(epsilon)), 0.99 * 2.0**-44, False
    for first, second in [([0, 0, 0], [1, 0, -1]), ([9, 0, 1], [10, 1, 0]), ([5000, 0, 1], [4999, 1, 0])]:
        for signs in itertools.product((-1, 1), repeat=3):
            pair, told = [], []
            for utilities, sign in ((first, 1), (second, -1)):
                floats = [
                    max(0.0, p + sign * each * worst)
                    for p, each in zip(softmax(utilities, epsilon), signs, strict=True)
                ]
                pair.append(
                    chances_of(stated(*"123", epsilon=epsilon, probabilities=lambda rows, floats=floats: floats))
                )
                told.append(floats)
            too_far |= any(max(p, q) > min(p, q) * bound for p, q in zip(*told, strict=True))
            assert all(sum(law) == pytest.approx(1, abs=1e-60) for law in pair)
            for p, q in zip(*pair, strict=True):
                assert max(p, q) <= min(p, q) * bound
    assert too_far
    exactly = softmax([5000, 0, 1], epsilon)
    assert chances_of(stated(*"123", epsilon=epsilon, probabilities=lambda rows: exactly)) == pytest.approx(
        exactly, abs=1e-9
    )


def test_so_many_floats_that_their_roundings_drown_a_small_epsilon_are_refused(session):
    many = [1 / 3000] * 3000
    with pytest.raises(InvalidParameter, match="without rows"):
        session.ask(Boundary(stated(*many, epsilon="0.0001", probabilities=lambda rows: many)))


def test_laws_of_noise_and_of_mechanisms_are_drawn_from_as_they_are(session):
    vote = Exponential("0.02", sensitivity=1)
    counts = [40, 10, 5]
    for law in (vote.law(counts), PermuteAndFlip("0.02", 1).law(counts), ExponentialLaw([0, 5, 9], "0.01")):
        known = stated(*"123", probabilities=lambda rows, law=law: law)
        assert known.law(None) is law
        assert session.ask(Boundary(known)).value in (*known.outcomes, BOUNDARY)
    with pytest.raises(InvalidParameter, match="without rows"):
        session.ask(Boundary(stated("1/2", "1/2", probabilities=lambda rows: vote.law(counts))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Boundary(stated("1/2", "1/2", delta="1e-9")),
        lambda: Boundary(stated("1/2", "1/2", outcomes=None)),
        lambda: Boundary(stated("1/2", "1/2", outcomes={"a": 1, "b": 2})),
        lambda: Boundary(stated("1/2", "1/2", outcomes="ab")),
        lambda: Boundary(stated("1/2", "1/2", probabilities=None)),
        lambda: Boundary(stated(1)),
        lambda: Boundary(stated("1/2", "1/2", epsilon=None, rho="0.01")),
        lambda: Boundary(print),
    ],
)
def test_what_cannot_be_wrapped_is_refused_free(session, make):
    with pytest.raises(InvalidParameter):
        session.ask(make())
    assert session.history == []


def test_what_is_asked_of_a_law_is_told_by_the_ledger(opened):
    session = opened(budget=Budget(epsilon=1, delta=1e-6), grain="0.02")
    session.ask(Boundary(stated(1, 0)))
    assert session.history[0].kind == "boundary"
    assert session.history[0].question["outcomes"] == ["outcome 0", "outcome 1"]


# Black boxes


def scripted(outcomes):
    """An algorithm that returns these, one run after the other; an exception is raised."""
    left = list(outcomes)

    def run(rows, source):
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return Algorithm("scripted", run, epsilon="0.02")


@pytest.mark.parametrize("runs", [2, 3])
def test_only_what_all_runs_agree_on_is_published(session, runs):
    """Every sequence of outcomes: the law of what is published is that of the runs."""
    price = session.spine.filter.price(UnanimousCall("0.02", runs)).hit
    failed = ValueError("no")
    for outcomes in itertools.product([0, "boundary", failed], repeat=runs):
        before = spent(session).main
        found = session.ask(Boundary(scripted(outcomes), runs=runs))
        agreed = len(set(outcomes)) == 1 and outcomes[0] is not failed
        assert (found.value, found.clear) == (outcomes[0] if agreed else BOUNDARY, agreed)
        assert spent(session).main - before == (0 if agreed else price.main)


def test_runs_are_in_the_question_and_none_is_the_old_one(session):
    asked = [json.loads(Boundary(stated(1, 0), runs=runs).plan(session.spine).body) for runs in (None, 2, 3)]
    assert [body.get("runs") for body in asked] == [None, 2, 3]
    assert "runs" not in asked[0]
    with pytest.raises(InvalidParameter, match="runs=2"):
        Boundary(stated(1, 0), runs=1)


@pytest.mark.parametrize(("share", "found_out"), [(1, False), (0.5, True)])
@pytest.mark.parametrize("runs", [2, 3, 6])
def test_an_analyst_who_asks_on_finds_a_price_that_is_too_low(session, runs, share, found_out):
    """Asked until tau boundaries came, on the worst pair: the discounted moment of one call must not pass 1."""
    filter_, epsilon = session.spine.filter, 0.02
    price, order = filter_.price(UnanimousCall("0.02", runs)).hit.main / filter_.steps, float(filter_.order)
    p = 1 / (1 + math.exp(-epsilon))
    laws = [[p**runs, (1 - p) ** runs], [(1 - p) ** runs, p**runs]]
    laws = [[*law, 1 - sum(law)] for law in laws]
    parts = [one**order * other ** (1 - order) for one, other in zip(*laws, strict=True)]
    moment = parts[0] + parts[1] + parts[2] * math.exp(-share * price)
    assert (moment > 1 + 1e-6) == found_out
