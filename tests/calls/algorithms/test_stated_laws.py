"""Algorithms whose author states their laws: targets are paid by these, and never dearer than by the epsilon."""

from fractions import Fraction

import pytest

from chary import Algorithm, Budget, InvalidParameter, count
from chary.accounting import BestOf, StatedLaws, Targeted
from chary.calls import MultiTarget, PublishIf, RunAlgorithm, ThresholdTest, When
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


def test_a_release_and_a_held_outcome_are_paid_by_the_epsilon(opened):
    session = opened(grain="0.02")
    plain = Algorithm("stated", lambda rows, source: "a", "0.05", outcomes=OUTCOMES)
    when = When("c", lambda outcome: outcome == "c")
    for make in (RunAlgorithm, lambda algorithm: PublishIf(algorithm, when=when)):
        assert price(session, make(stated())) == price(session, make(plain))


def test_its_delta_is_paid_hit_or_miss(opened):
    session = opened(grain="0.02", approximate_delta="1e-7")
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
