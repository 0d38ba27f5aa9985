"""Algorithms of one's own in the boundary wrapper: what is published, what is charged, and the law of it."""

import itertools
import json
import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter, NotPriced
from chary.accounting import BoundaryCall, TwiceCall, UnanimousCall
from chary.amounts import Amount
from chary.calls import Boundary
from chary.calls.boundaries import boundary_wrapper
from chary.data import NeighborRelation
from chary.mechanisms import BOUNDARY, Exponential, PermuteAndFlip
from chary.noise import ExponentialLaw, Seeded
from tests.accounting.pairs import sampled, wrapped
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


@pytest.mark.parametrize("least", [-1e-17, -0.99 * 2.0**-44])
def test_a_float_a_little_below_zero_is_a_chance_as_good_as_zero(least):
    """Rounding makes such ones of chances near 0: to fail there would tell a dataset from its neighbour for certain."""
    rest = 1 - 0.25 - least
    below, zero = (
        chances_of(stated(*"123", probabilities=lambda rows, told=told: told))
        for told in ([0.25, rest, least], [0.25, rest, np.int64(0)])
    )
    assert below == zero
    assert min(below) > 0
    with pytest.raises(AlgorithmFailed):
        stated(*"12", probabilities=lambda rows: [1.0, -(2.0**-43)]).law(None)


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


# Algorithms with a delta


def approximate(rng, epsilon, delta, outcomes=3):
    """Neighbours' laws with what they are of epsilon alone: each is that but for delta of anything."""
    ratio, part = Fraction(math.exp(epsilon)).limit_denominator(10**6), Fraction(delta)
    first, second = sampled(outcomes, ratio, 1, int(rng.integers(2**31)))[0]
    rest = [[Fraction(int(mass)) for mass in rng.multinomial(8, [1 / outcomes] * outcomes)] for _ in range(2)]
    sides = [(first, rest[0]), (second, rest[1])]
    return [(law, [(1 - part) * p + part * q / 8 for p, q in zip(law, other, strict=True)]) for law, other in sides]


@pytest.mark.parametrize("delta", ["0.001", "0.05", "0.3"])
def test_the_wrapper_of_a_law_but_for_delta_is_that_of_the_law_but_for_twice_as_much(delta):
    rng, short = np.random.default_rng(5), 0
    for _ in range(300):
        for law, mixed in approximate(rng, 0.3, delta):
            inside, outside = wrapped(law), wrapped(mixed)
            assert all(q >= (1 - 2 * Fraction(delta)) * p for p, q in zip(inside, outside, strict=True))
            short += any(q < (1 - Fraction(delta)) * p for p, q in zip(inside, outside, strict=True))
    assert short


@pytest.mark.parametrize(
    "make", [lambda a: Boundary(a), lambda a: Boundary(a, runs=3), lambda a: Boundary(a, runs=2, publish=True)]
)
def test_a_delta_is_paid_for_each_run_and_twice_by_the_wrapper(opened, make):
    session = opened(budget=Budget(epsilon=1, delta="1e-6"), grain="0.02", delta_reserve="1e-7")
    plain, failing = stated(1, 0), stated(1, 0, delta="1e-9")
    with_delta, without = (make(each).plan(session.spine).price(session.spine.filter) for each in (failing, plain))
    times = 3 if make(plain).runs == 3 else 2
    assert with_delta.hit == Amount(without.hit.main, times * 10**9)
    assert with_delta.free_miss
    session.ask(make(failing))
    assert spent(session) == Amount(0, times * 10**9)
    with pytest.raises(NotPriced, match="set aside"):
        opened(grain="0.02").ask(make(failing))


def test_a_delta_is_paid_beside_tokens(opened):
    session = opened(
        budget=Budget(epsilon=1, delta="1e-6"), delta_reserve="1e-7", menu=[TwiceCall("0.02"), BoundaryCall("0.02")]
    )
    for made in (
        Boundary(stated("1/2", "1/2", delta="1e-9")),
        Boundary(stated(1, 0, delta="1e-9"), runs=2, publish=True),
    ):
        price = made.plan(session.spine).price(session.spine.filter)
        plain = made.plan(session.spine).event.unfailing
        assert price.hit == Amount(session.spine.filter.price(plain).hit.main, 2 * 10**9)


def test_two_runs_with_a_delta_keep_the_curve_of_two_runs_and_twice_the_delta():
    """The worst algorithm there is: with delta it tells which neighbour it has, otherwise it answers at random."""
    delta, p = 0.01, 1 / (1 + math.exp(-0.3))
    laws = [[delta, 0, (1 - delta) * p, (1 - delta) * (1 - p)], [0, delta, (1 - delta) * (1 - p), (1 - delta) * p]]

    def beyond(total, first, second):
        return sum(
            max(0, first[i] * first[j] - math.exp(total) * second[i] * second[j])
            for i, j in itertools.product(range(len(first)), repeat=2)
        )

    for total in (0, 0.1, 0.3, 0.6, 1):
        alone = beyond(total, [p, 1 - p], [1 - p, p])
        assert beyond(total, *laws) <= alone + 2 * delta
    assert beyond(1, *laws) > delta


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
