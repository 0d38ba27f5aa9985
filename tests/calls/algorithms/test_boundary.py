"""Algorithms of one's own in the boundary wrapper: what is published, what is charged, and the law of it."""

import itertools
import json
import math
from fractions import Fraction
from itertools import permutations

import pytest
from scipy import stats

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter
from chary.accounting import BoundaryCall, UnanimousCall
from chary.amounts import Amount
from chary.calls import Boundary
from chary.calls.boundaries import boundary_wrapper
from chary.data import NeighborRelation
from chary.mechanisms import BOUNDARY
from chary.noise import Seeded
from tests.accounting.pairs import wrapped
from tests.session.kit import answers, error_texts, shows_data, spent

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


@pytest.mark.parametrize(
    "probabilities",
    [raises, lambda rows: [0.5, 0.5], lambda rows: [Fraction(1)], lambda rows: [Fraction(1, 2)] * 3, lambda rows: None],
)
def test_what_is_no_law_is_charged_and_tells_nothing(session, probabilities):
    broken = stated("1/2", "1/2", probabilities=probabilities)
    for _ in range(2):
        with pytest.raises(AlgorithmFailed) as failed:
            session.ask(Boundary(broken), request="monday")
        assert not shows_data(error_texts(failed.value))
    assert spent(session) == session.spine.filter.price(BoundaryCall("0.02", 2)).hit


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
