"""Algorithms whose author states their laws: targets are paid by these, and never dearer than by the epsilon."""

import itertools
import math
from fractions import Fraction

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter, count
from chary.accounting import BestOf, Extendable, StatedLaws, Targeted, UnanimousCall, best_q, hit_price
from chary.calls import Boundary, MultiTarget, OnChange, PublishIf, RunAlgorithm, ThresholdTest, When, Widen
from tests.session.kit import spent

THIRD = [Fraction(1, 3)] * 3
NEAR = [Fraction(34, 100), Fraction(33, 100), Fraction(33, 100)]
OUTCOMES = ["a", "b", "c"]


def stated(epsilon="0.05", laws=((THIRD, NEAR),), outcome="a", **options):
    return Algorithm("stated", lambda rows, source: outcome, epsilon, outcomes=OUTCOMES, laws=laws, **options)


def price(session, call):
    return session.spine.filter.price(call.plan(session.spine).event)


def test_a_target_is_paid_by_its_laws(opened):
    session = opened(grain="0.02")
    for outcome, free in (("a", True), ("b", False)):
        call = RunAlgorithm(stated(outcome=outcome), target=["b"], q="0.3")
        assert call.plan(session.spine).event == StatedLaws.of([(THIRD, NEAR)], [False, True, False])
        before, known = spent(session), price(session, call)
        session.ask(call)
        assert known.hit.main < session.spine.filter.price(Targeted("0.05")).hit.main / 2
        assert spent(session).main - before.main == (0 if free else known.hit.main)


WHEN = When("c", lambda outcome: outcome == "c")
PLAIN = Algorithm("stated", lambda rows, source: "a", "0.05", outcomes=OUTCOMES)


def test_a_release_is_paid_by_the_epsilon(opened):
    session = opened(grain="0.02")
    assert price(session, RunAlgorithm(stated())) == price(session, RunAlgorithm(PLAIN))


@pytest.mark.parametrize(
    ("ask", "hits"),
    [
        (lambda algorithm: PublishIf(algorithm, when=WHEN), StatedLaws.of([(THIRD, NEAR)], [False, False, True])),
        (
            lambda algorithm: Boundary(algorithm, runs=2, publish=True),
            StatedLaws.of([(THIRD, NEAR)], [True] * 3).twice(),
        ),
    ],
)
def test_what_is_held_and_two_runs_are_paid_by_laws_where_these_are_cheaper(opened, ask, hits):
    spine = opened(grain="0.02").spine
    cheap, usual = (ask(algorithm).plan(spine).price(spine.filter) for algorithm in (stated(), PLAIN))
    assert cheap.hit == spine.filter.price(hits).hit
    assert cheap.hit.main < usual.hit.main / 2
    assert cheap.free_miss


def test_a_change_and_a_race_are_paid_by_laws(opened):
    session = opened(grain="0.02")
    found = iter("abab")
    turning = Algorithm("stated", lambda rows, source: next(found), "0.05", outcomes=OUTCOMES, laws=((THIRD, NEAR),))
    free = {
        each: session.spine.filter.price(StatedLaws.of([(THIRD, NEAR)], [other != each for other in OUTCOMES])).hit.main
        for each in OUTCOMES
    }
    session.ask(OnChange(turning))
    before = spent(session).main
    session.ask(OnChange(turning))
    assert spent(session).main - before == free["a"]
    race, before = session.start(MultiTarget(["x", "y"])), spent(session).main
    race.ask(turning, priors={"x": "b", "y": "b"})
    race.ask(turning, priors={"x": "a", "y": "c"})
    assert spent(session).main - before == free["b"] + min(free["a"], free["c"])


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(10)])
def test_what_widens_what_laws_have_paid_for_keeps_the_sum(order):
    """By laws all that is withheld would be free if it were published at once, so later it may cost any price."""
    told, price = StatedLaws.of([(THIRD, NEAR)], [False, False, True]), Extendable("0.05").hit_price_up(order)
    first, a = math.exp(-told.hit_price_up(order)), float(order)
    for p, r in ((THIRD, NEAR), (NEAR, THIRD)):
        parts = [float(x) ** a * float(y) ** (1 - a) for x, y in zip(p, r, strict=True)]
        for widened in ([], [0], [1], [0, 1]):
            rest = [place for place in (0, 1) if place not in widened]
            held = float(sum(p[i] for i in rest)) ** a * float(sum(r[i] for i in rest)) ** (1 - a) if rest else 0
            paid = first * parts[2] + sum(math.exp(-price) * parts[i] for i in widened) + held
            assert paid <= 1 + 1e-12


@pytest.mark.parametrize("least", [Fraction(1, 100), Fraction(1, 3)])
def test_what_was_withheld_under_a_menu_without_free_misses_for_its_laws_is_widened_at_a_price(opened, least):
    """On a menu a release by laws may take as many tokens as the target that pays: its misses are not free for that."""
    session = opened(filter="exact", grain="0.02")
    third, more = Fraction(1, 3), Fraction(1, 3) * (1 + least / 100)
    laws = [[[third] * 3, [2 * third - more, third, more]]]
    made = Algorithm("stated", lambda rows, source: "b", "0.02", outcomes=OUTCOMES, laws=laws)
    target, by_laws = Targeted("0.02"), StatedLaws.of(laws, [True, False, False])
    prices = [session.spine.filter.price(event) for event in (target, by_laws)]
    assert prices[0].hit == prices[1].hit
    assert [price.free_miss for price in prices] == [True, False]
    for number in (1, 2):
        withheld = session.ask(PublishIf(made, when=When("a", lambda outcome: outcome == "a")))
        assert not withheld.published
        assert session.ask(Widen(withheld.held, when=When("all", lambda outcome: True))).value == "b"
        assert spent(session).main >= number


def test_outcomes_of_laws_are_listed_once_each():
    """Two places of one outcome would be a disagreement, which is a hit, by the laws, and agree, free, in the runs."""
    with pytest.raises(InvalidParameter, match="once each"):
        Algorithm("stated", lambda rows, source: "a", "0.05", outcomes=["a", "a", "b"], laws=((THIRD, NEAR),))


def test_two_runs_have_the_products_of_laws():
    """Any mixture of the pairs, in either order, run twice, is a mixture of what is listed."""
    told, far = StatedLaws.of([(THIRD, NEAR), (NEAR[::-1], THIRD)], [True, True, False]), Fraction(1, 4)
    laws = told.twice().laws
    assert len(laws) == 2 * 4
    one = [far * p + (1 - far) * q for p, q in zip(THIRD, NEAR, strict=True)]
    mixed = {(i, j): one[i] * one[j] for i in range(3) for j in range(3)}
    places = {(i, j): 3 * i + j for i in range(3) for j in range(3)}
    pairs = {tuple(zip(*((a, b) for a, b, _ in law), strict=True)) for law in laws}
    weights = {(0, 0): far**2, (0, 1): far * (1 - far), (1, 0): far * (1 - far), (1, 1): (1 - far) ** 2}
    sides = [(THIRD, NEAR), (NEAR, THIRD)]
    total = dict.fromkeys(mixed, Fraction(0))
    for (k, m), weight in weights.items():
        pair = tuple(tuple(sides[k][s][i] * sides[m][s][j] for i in range(3) for j in range(3)) for s in (0, 1))
        assert pair in pairs or pair[::-1] in pairs
        total = {each: total[each] + weight * pair[0][places[each]] for each in total}
    assert total == mixed
    assert [hit for *_, hit in laws[0]] == [i != j for i in range(3) for j in range(3)]
    with pytest.raises(InvalidParameter, match="31 outcomes"):
        StatedLaws.of([([Fraction(1, 32)] * 32,) * 2], [True] * 32).twice()


def test_the_best_q_and_the_price_of_laws():
    laws = [(THIRD, NEAR)]
    assert best_q(laws, [1]) == StatedLaws.of(laws, [False, True, False]).most_q
    assert hit_price(laws, [1, 2], "7.5") == StatedLaws.of(laws, [False, True, True]).hit_price_up(Fraction(15, 2))
    for bad in ([3], [-1], [True], ["1"], []):
        with pytest.raises(InvalidParameter):
            best_q(laws, bad)
    for order in (1, "0.5", 0):
        with pytest.raises(InvalidParameter, match="order"):
            hit_price(laws, [1], order)


def test_its_delta_is_paid_hit_or_miss(opened):
    session = opened(grain="0.02", delta_reserve="1e-7")
    session.ask(RunAlgorithm(stated(delta="1e-9"), prior="a"))
    assert spent(session).delta == 10**9


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": "0.01"},
        {"laws": ((THIRD, NEAR[:2]),)},
        {"laws": ((THIRD, [1, 0, 0]),)},
        {"laws": ()},
    ],
)
def test_laws_that_are_none_are_refused(options):
    with pytest.raises(InvalidParameter):
        stated(**options)


def test_it_is_asked_under_an_exact_menu_beside_a_race(opened):
    own = StatedLaws.of([(THIRD, NEAR)], [False, True, False])
    session = opened(menu=[Targeted("0.02"), own, BestOf(2)], budget=Budget(epsilon=2, delta=1e-6))
    race = session.start(MultiTarget(["x", "y"]))
    before = spent(session).main
    assert before == session.spine.filter.price(BestOf(2)).hit.main > 0
    near = Algorithm("near", lambda rows, source: 1, epsilon="0.02")
    race.ask(near, priors={"x": 1, "y": 2})
    assert spent(session).main == before
    race.ask(near, priors={"x": 2, "y": 1})
    assert spent(session).main - before == session.spine.filter.price(Targeted("0.02")).hit.main
    before = spent(session).main
    session.ask(RunAlgorithm(stated(outcome="b"), target=["b"], q="0.3"))
    assert spent(session).main - before == session.spine.filter.price(own).hit.main
    session.ask(ThresholdTest(count(), above=-(10**9), epsilon="0.01"))


@pytest.mark.parametrize("way", [{"target": ["b"]}, {"hit": When("b", lambda outcome: outcome == "b")}])
def test_laws_make_a_q_needless(opened, way):
    """Alone and in a race; without laws a target that leaves several outcomes free needs its q."""
    session, own = opened(grain="0.02"), StatedLaws.of([(THIRD, NEAR)], [False, True, False])
    assert RunAlgorithm(stated(), **way).plan(session.spine).event == own
    race = session.start(MultiTarget(["x", "y"]))
    asked = race.plan(RunAlgorithm(stated(), prior="a"), targets={"x": way, "y": way})
    own_price, by_epsilon = (session.spine.filter.price(event) for event in (own, Targeted("0.05")))
    assert asked.price(session.spine.filter).hit == own_price.hit != by_epsilon.hit
    with pytest.raises(InvalidParameter, match="needs its q="):
        RunAlgorithm(Algorithm("plain", lambda rows, source: "a", "0.05", outcomes=OUTCOMES), **way).plan(session.spine)


def test_a_q_above_what_the_laws_allow_is_refused(opened):
    """1/3 and 0.33 hit; what both laws have in common misses with 1/3 + 0.33, so at most 0.33 of the rest hits."""
    session = opened(grain="0.02")
    own = StatedLaws.of([(THIRD, NEAR)], [False, True, False])
    assert own.most_q == Fraction(33, 100) / (1 - Fraction(1, 3) - Fraction(33, 100))
    for q, fits in ((own.most_q, True), (own.most_q + Fraction(1, 10**6), False)):
        call = RunAlgorithm(stated(), target=["b"], q=q)
        if fits:
            assert call.plan(session.spine).event == own
        else:
            with pytest.raises(InvalidParameter, match=r"leave its target a q of at most 0\.98"):
                call.plan(session.spine)


@pytest.mark.parametrize("runs", [2, 3])
def test_runs_of_which_only_agreement_is_told_are_paid_by_laws(opened, runs):
    """Their laws are those of the strings of outcomes, with all that disagree merged into the hit."""
    one = StatedLaws.of([(THIRD, NEAR), (NEAR[::-1], THIRD)], [True, True, False])
    told, sides = one.unanimous(runs), [(THIRD, NEAR), (NEAR, THIRD), (NEAR[::-1], THIRD), (THIRD, NEAR[::-1])]
    for chosen in itertools.product(sides, repeat=runs):
        pair = [[math.prod(part[side][i] for part in chosen) for i in range(3)] for side in (0, 1)]
        apart = [string for string in itertools.product(range(3), repeat=runs) if len(set(string)) > 1]
        strings = [
            sum(math.prod(part[side][i] for part, i in zip(chosen, string, strict=True)) for string in apart)
            for side in (0, 1)
        ]
        law = [(*both, False) for both in zip(*pair, strict=True)] + [(*strings, True)]
        assert sorted(law) in [sorted(each) for each in told.laws]
    session = opened(grain="0.02")
    plans = [Boundary(algorithm, runs=runs).plan(session.spine) for algorithm in (stated(), PLAIN)]
    cheap, usual = (plan.price(session.spine.filter) for plan in plans)
    assert cheap.hit == session.spine.filter.price(StatedLaws.of([(THIRD, NEAR)], [True] * 3).unanimous(runs)).hit
    assert cheap.hit.main < usual.hit.main / 2
    assert cheap.free_miss
    with pytest.raises(InvalidParameter, match="too many"):
        one.unanimous(1000)
    many = Boundary(stated(), runs=1000).plan(session.spine)
    assert (many.event, many.cost.bounds) == (UnanimousCall("0.05", 1000), ())


def test_what_laws_have_paid_for_is_widened_free(opened):
    """Withheld outcomes are priced as if each were told: only the first condition is paid, whatever comes later."""
    session = opened(budget=Budget(epsilon=9, delta="1e-6"))
    for algorithm, free in ((stated(), True), (PLAIN, False)):
        held = session.ask(PublishIf(algorithm, when=WHEN))
        before = spent(session).main
        told = session.ask(Widen(held.held, when=When("any", lambda outcome: True)))
        assert (told.value, spent(session).main == before) == ("a", free)
    held = session.ask(PublishIf(stated(), when=WHEN))

    def broken(outcome):
        raise ValueError(outcome)

    before = spent(session).main
    with pytest.raises(AlgorithmFailed):
        session.ask(Widen(held.held, when=When("broken", broken)))
    assert spent(session).main == before


ASKED = {
    "run": lambda session, algorithm: session.ask(RunAlgorithm(algorithm, target=["c"])),
    "run by a condition": lambda session, algorithm: session.ask(RunAlgorithm(algorithm, hit=WHEN)),
    "publish if": lambda session, algorithm: session.ask(PublishIf(algorithm, when=WHEN)),
    "widen": lambda session, algorithm: session.ask(
        Widen(session.ask(PublishIf(algorithm, when=WHEN)).held, when=When("b", lambda outcome: outcome == "b"))
    ),
    "on change": lambda session, algorithm: [session.ask(OnChange(algorithm)) for _ in range(2)][1],
    "two runs": lambda session, algorithm: session.ask(Boundary(algorithm, runs=2, publish=True)),
    "two runs that agree": lambda session, algorithm: session.ask(Boundary(algorithm, runs=2)),
    "race": lambda session, algorithm: session.start(MultiTarget(["x", "y"])).ask(
        algorithm, targets={"x": {"target": ["c"]}, "y": {"hit": WHEN}}
    ),
}


@pytest.mark.parametrize("operator", ASKED)
@pytest.mark.parametrize("filter_", ["pure", "renyi"])
def test_every_operator_takes_laws_and_needs_no_q(opened, operator, filter_):
    budget = Budget(epsilon=9) if filter_ == "pure" else Budget(epsilon=9, delta="1e-6")
    if (filter_, operator) == ("pure", "race"):
        pytest.skip("a race has Renyi prices only")
    session = opened(filter=filter_, budget=budget)
    ASKED[operator](session, stated())
    last = session.history[-1]
    assert (last.share == 0) == (filter_ == "renyi" or operator == "widen")
