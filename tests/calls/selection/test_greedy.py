"""Greedy choice of a caller's candidates: scored by what was chosen before, paid by what is chosen."""

import math
from fractions import Fraction
from functools import cache

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, BudgetExceeded, InvalidParameter, count
from chary.accounting import Extendable, Targeted, hit_price_up
from chary.amounts import Amount
from chary.calls import Greedy, TopK, When, Widen
from chary.noise import RationalLaw, Seeded
from tests.session.kit import hit_of, spent

SETS = {"x": {1, 2, 3}, "y": {3, 4}, "z": {5}, "w": {1, 2, 3, 4}}
ROOMY = {"grain": "0.01", "budget": Budget(epsilon=2, delta=1e-6)}


def adds(name, epsilon="0.01", delta=0):
    """What a set adds to those chosen before."""

    def run(rows, source, chosen):
        covered = {element for _, taken in chosen for element in taken}
        return [len(SETS[name] - covered), sorted(SETS[name])]

    return Algorithm(name, run, epsilon, delta)


def sets(names="xyzw", **options):
    return [adds(name, **options) for name in names]


def test_in_turn_each_is_scored_by_what_was_chosen_before_it(opened):
    session = opened(**ROOMY)
    found = session.ask(Greedy(sets(), above=1))
    assert found.value == {"x": 3, "y": 1, "z": 1}
    assert [chosen.solution for chosen in found.above] == [[1, 2, 3], [3, 4], [5]]
    assert (found.tested, len(found.calls), found.untested) == (4, 4, ())
    assert spent(session) == hit_of(session, Targeted("0.01")).times(3)
    assert session.ask(Greedy(sets("yxz"), above=2)).value == {"y": 2, "x": 2}


def test_the_best_of_every_round(opened):
    session = opened(**ROOMY)
    found = session.ask(Greedy(sets(), above=1, mechanism="best"))
    assert [(chosen.name, chosen.score) for chosen in found.above] == [("w", 4), ("z", 1)]
    assert len(found.calls) == 3
    assert spent(session) == hit_of(session, Extendable("0.01")).times(2)


@pytest.mark.parametrize("by", ["turn", "best"])
def test_it_stops_after_so_many(opened, by):
    session = opened(**ROOMY)
    found = session.ask(Greedy(sets(), above=1, k=1, mechanism=by))
    assert (len(found.above), len(found.calls)) == (1, 1)
    assert found.untested == (("y", "z", "w") if by == "turn" else ())


def test_all_rounds_by_hand_are_charged_alike(opened):
    """Metamorphic: round by round with the words of `TopK`."""
    one, other = opened(**ROOMY), opened(**ROOMY)
    found = one.ask(Greedy(sets(), above=1, mechanism="best"))
    chosen = []
    while True:
        left = [adds(name) for name in SETS if name not in [taken for taken, _ in chosen]]
        told = [Algorithm(each.name, each.run, "0.01", parameters={"chosen": chosen}) for each in left]
        best = other.ask(TopK(told, k=1, above=1)).best
        if not best:
            break
        chosen.append([best[0].name, best[0].solution])
    assert [[each.name, each.solution] for each in found.above] == chosen
    assert spent(one) == spent(other)


@pytest.mark.parametrize("by", ["turn", "best"])
def test_an_interrupted_choice_goes_on_under_its_request(opened, by):
    armed = []

    def stop(step):
        if step == "reserved" and armed and armed.pop() == "now":
            raise KeyboardInterrupt
        if step == "reserved" and len(session.history) == 2:
            armed.append("now")

    session = opened(**ROOMY, on_step=lambda step: stop(step))
    with pytest.raises(KeyboardInterrupt):
        session.ask(Greedy(sets(), above=1, mechanism=by), request="greedy")
    found = session.ask(Greedy(sets(), above=1, mechanism=by), request="greedy")
    before = spent(session)
    assert session.ask(Greedy(sets(), above=1, mechanism=by), request="greedy") == found
    assert spent(session) == before


def test_it_stops_when_the_budget_runs_out(opened):
    session = opened(grain="0.05", budget=Budget(epsilon="0.9", delta=1e-6))
    many = [Algorithm(f"set {i}", lambda rows, source, chosen: [9, 0], "0.05") for i in range(40)]
    found = session.ask(Greedy(many, above=1))
    assert 1 <= len(found.calls) == found.tested < 40
    with pytest.raises(BudgetExceeded):
        session.ask(Greedy(many, above=1))


def test_what_was_held_is_extended_by_its_number(opened):
    session = opened(**ROOMY)
    found = session.ask(Greedy(sets(), above=3))
    assert found.value == {"x": 3}
    before = spent(session)
    told = session.ask(Widen(found.calls[1], when=When("some", lambda outcome: outcome[0] >= 1)))
    assert told.value == [1, [3, 4]]
    assert spent(session) - before == hit_of(session, Extendable("0.01"))


def test_deltas_are_paid_by_all_that_are_run(opened):
    session = opened(**ROOMY, delta_reserve="1e-7")
    session.ask(Greedy(sets(delta="1e-9"), above=99))
    assert spent(session) == Amount(0, 4 * 10**9)


def test_what_returns_no_score_is_not_chosen_and_what_raises_is_charged(opened):
    session = opened(**ROOMY)
    odd = [
        Algorithm(f"odd {i}", lambda rows, source, chosen, out=out: out, "0.01") for i, out in enumerate([7, [True, 1]])
    ]
    assert session.ask(Greedy(odd, above=0)).above == ()
    assert spent(session) == Amount(0)
    broken = [Algorithm("broken", lambda rows, source, chosen: [math.nan, 1], "0.01")]
    with pytest.raises(AlgorithmFailed):
        session.ask(Greedy(broken, above=0))
    assert spent(session) == hit_of(session, Targeted("0.01"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Greedy(count().by("clinic", ["north", "south"]), above=1),
        lambda: Greedy([], above=1),
        lambda: Greedy(["age > 3"], above=1),
        lambda: Greedy(sets("xx"), above=1),
        lambda: Greedy(sets(), above=1, k=5),
        lambda: Greedy(sets(), above=1, mechanism="luck"),
        lambda: Greedy(
            [Algorithm("a", lambda rows, source, chosen: [1, 1], "0.01", parameters={"chosen": 1})], above=1
        ),
    ],
)
def test_what_is_no_choice_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def best_adversary(order, epsilon, rounds, discount=1.0):
    """The largest E[(P0/P1)^a e^(-charged)] of candidates that are chosen by an adversary after every answer.

    In every round two candidates answer by randomized response, in turn; what is chosen is charged.
    """
    price = discount * float(hit_price_up(Targeted(epsilon), Fraction(order)))
    p = 1 / (1 + math.exp(-float(epsilon)))
    moments = [p0**order * p1 ** (1 - order) for p0, p1 in ((p, 1 - p), (1 - p, p))]

    @cache
    def value(left):
        if not left:
            return 1.0
        in_turn = max(moments[miss] + moments[1 - miss] * math.exp(-price) for miss in (0, 1))
        return max(1.0, in_turn * value(left - 1))

    return value(rounds)


def test_no_adaptive_choice_of_candidates_gets_more_than_it_pays():
    assert best_adversary(6, Fraction(1, 10), 40) <= 1 + 1e-11
    assert best_adversary(6, Fraction(1, 10), 40, discount=0.9) > 1.1


def test_a_noisy_choice_has_its_law(opened):
    """Both neighbours' chances by enumeration: what is chosen first decides what is scored next."""
    likely = Fraction(3, 5)

    def noisy(name):
        def run(rows, source, chosen):
            law = RationalLaw([likely, 1 - likely] if not chosen else [1 - likely, likely])
            return [1 - int(law.draw(source)), name]

        return Algorithm(name, run, "0.5")

    session = opened(grain="0.01", budget=Budget(epsilon=2000, delta=1e-6), unsafe_noise=Seeded(5))
    found = [session.ask(Greedy([noisy("a"), noisy("b")], above=1)).value for _ in range(400)]
    told = {key: sum(set(each) == set(key) for each in found) for key in ("", "a", "b", "ab")}
    expected = {"": 0.4 * 0.4, "a": 0.6 * 0.6, "b": 0.4 * 0.6, "ab": 0.6 * 0.4}
    for key, chance in expected.items():
        assert abs(told[key] - 400 * chance) < 5 * math.sqrt(400 * chance * (1 - chance))
    assert abs(told["ab"] - 400 * 0.36) > 2 * math.sqrt(400 * 0.24)
