"""Growing sparse vectors in a session: right at every size, charged by the round, free inside it."""

import math
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chary
from chary import Budget, BudgetExceeded, InvalidQuery, count
from chary.accounting.sparse_vector import GrowingRounds
from chary.calls import GrowingTests, SparseVector
from chary.noise import Seeded
from chary.session import plain_composition
from tests.calls.growing.growing_sparse_kit import ALWAYS, NEVER, PURE, charges, more
from tests.session.kit import NO_NOISE, PLENTY, spent, steps, visits

pytestmark = pytest.mark.usefixtures("any_threshold")
BARS = {"miss": NEVER, "hit": ALWAYS}


@pytest.mark.parametrize("form", ["tuned", "published"])
def test_without_noise_it_tells_averages_right_at_every_size(rows, form):
    session, frame = rows(budget=NO_NOISE, filter="pure"), visits()
    old = int((frame.age >= 50).sum())
    growing = session.start(GrowingTests(above=Fraction(old, 120), epsilon=PLENTY, values=True, mechanism=form))
    assert (growing.state.rounds, growing.state.open_round) == (0, None)
    assert not growing.ask(count("age >= 50"), above=Fraction(old, 120) + Fraction(1, 10**9))
    yes = growing.ask(count("age >= 50"))
    assert (yes.above, yes.size, yes.round, bool(yes)) == (True, 120, 1, True)
    assert yes.value == pytest.approx(old / 120, abs=1e-12)
    assert (growing.state.rounds, growing.state.open_round) == (1, None)
    session.append(more(80, age=1))
    no = growing.ask(count("age >= 50"))
    assert (no.above, no.value, no.size, no.round) == (False, None, 200, 2)
    session.append(more(200, age=99))
    later = growing.ask(count("age >= 50"))
    assert (later.above, later.size, later.round) == (True, 400, 2)
    assert later.value == pytest.approx((old + 200) / 400, abs=1e-12)
    assert growing.state.open_round is None


def test_rounds_are_charged_when_they_begin_and_everything_else_is_free(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.25"))
    assert (spent(session).main, growing.state.left, growing.state.next_epsilon) == (0, 8, Fraction(1, 4))
    for _ in range(3):
        assert not growing.ask(count(), above=NEVER)
        assert spent(session).main == steps("0.25")
    session.append(more(50))
    assert not growing.ask(count(), above=NEVER)
    assert growing.ask(count(), above=ALWAYS)
    assert (spent(session).main, growing.state.rounds, growing.state.left) == (steps("0.25"), 1, 7)
    growing.ask(count(), above=ALWAYS)
    growing.ask(count(), above=NEVER)
    assert (spent(session).main, growing.state.rounds, growing.state.left) == (steps("0.75"), 3, 5)
    assert charges(session) == [0.25, 0.25, 0.25]
    assert plain_composition(session).epsilon == 0.75


@pytest.mark.parametrize(
    ("exponent", "second"), [("0", Fraction(1, 20)), ("1", Fraction(1, 5)), ("0.5", Fraction(10**18 - 1, 10**19))]
)
def test_the_epsilon_of_a_round_follows_the_size_at_which_it_begins(rows, exponent, second):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.2", exponent=exponent))
    growing.ask(count(), above=ALWAYS)
    session.append(more(360))
    assert growing.state.next_epsilon == second
    growing.ask(count(), above=NEVER)
    assert growing.state.open_round.epsilon == second
    assert (growing.state.open_round.size, growing.state.open_round.number) == (480, 2)
    session.append(more(1000))
    growing.ask(count(), above=NEVER)
    assert growing.state.open_round.size == 480
    assert charges(session) == pytest.approx([0.2, float(second)])
    assert spent(session).main == steps("0.2") + -(-second.numerator * 10**15 // second.denominator)


@pytest.mark.parametrize("form", ["tuned", "published"])
def test_without_growth_one_round_is_a_sparse_vector_with_one_hit(rows, form):
    """The same noise in the same order: every answer is the same."""
    questions = [count(f"age >= {age}") for age in range(80, 20, -4)]
    found = []
    for grows in (True, False):
        session, answers = rows(budget=Budget(epsilon=1000), unsafe_noise=Seeded(3)), []
        for _ in range(15):
            if grows:
                opened = session.start(GrowingTests(above="0.5", epsilon="0.3", rounds=1, mechanism=form))
            else:
                opened = session.start(SparseVector(above=60, hits=1, epsilon="0.3", mechanism=form))
            for question in questions:
                answers.append(opened.ask(question).above)
                if answers[-1]:
                    break
        found.append(answers)
        assert spent(session).main == steps("4.5")
    assert found[0] == found[1]
    assert 15 < len(found[0]) < 15 * len(questions)


@given(
    st.lists(st.sampled_from(["miss", "hit", "begin", "append", "handle", "spend"]), max_size=14),
    st.sampled_from(["0", "0.5", "1"]),
    st.sampled_from([None, 2]),
)
@settings(max_examples=40, deadline=None)
def test_whatever_the_order_rounds_begin_end_and_cost_as_in_a_model(deeds, exponent, most):
    terms = GrowingRounds(120, "0.5", exponent)
    with chary.open(visits(), privacy_unit=None, neighbors="replace", budget=PURE, ledger=":memory:") as session:
        growing = session.start(GrowingTests(above="0.5", epsilon="0.5", exponent=exponent, rounds=most))
        size, number, is_open, paid = 120, 0, False, 0
        for deed in deeds:
            cost = math.ceil(terms.epsilon_down(size) * 10**15)
            fits = number != most and paid + cost <= steps(2)
            if deed == "append":
                size += 60
                session.append(more(60))
            elif deed == "handle":
                growing = session.resume(growing.call)
            elif deed == "spend" and paid + steps("0.25") <= steps(2):
                session.release(count(), epsilon="0.25")
                paid += steps("0.25")
            elif deed in ("miss", "hit", "begin"):
                ask = growing.ask if deed == "begin" else partial(growing.ask, count(), above=BARS[deed])
                if (deed == "begin" and is_open) or not (is_open or fits):
                    with pytest.raises(InvalidQuery if is_open else BudgetExceeded):
                        ask()
                    continue
                ask()
                number, paid = (number, paid) if is_open else (number + 1, paid + cost)
                is_open = deed != "hit"
            assert (growing.state.rounds, growing.state.open_round is not None, spent(session).main) == (
                number,
                is_open,
                paid,
            )


def test_an_open_round_goes_on_when_the_budget_cannot_pay_for_another(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon=1))
    assert not growing.ask(count(), above=NEVER)
    session.release(count(), epsilon="0.75")
    assert growing.state.left == 0
    session.append(more(30))
    assert not growing.ask(count(), above=NEVER)
    assert growing.ask(count(), above=ALWAYS)
    before = len(session.history)
    with pytest.raises(BudgetExceeded, match=r"can cost 50 % of the budget .* at epsilon 1, and 12\.5 % is left"):
        growing.ask(count(), above=NEVER)
    assert (len(session.history), growing.state.rounds) == (before, 1)
    assert spent(session).main == steps("1.75")


def test_later_rounds_may_fit_where_earlier_ones_do_not(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon=1, exponent=0))
    session.release(count(), epsilon="1.25")
    with pytest.raises(BudgetExceeded):
        growing.ask(count())
    session.append(more(120))
    assert growing.state.left == 1
    assert growing.ask(count(), above=ALWAYS).round == 1


def test_a_round_may_begin_before_its_first_question(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.5"))
    begun = growing.ask(request="one")
    assert (begun.number, begun.size, begun.epsilon) == (1, 120, Fraction(1, 2))
    assert growing.ask(request="one") == begun
    assert growing.state.open_round == begun.value
    with pytest.raises(InvalidQuery, match=r"round 1 .* is open"):
        growing.ask()
    assert growing.ask(count(), above=ALWAYS).round == 1
    assert growing.ask(request="one") == begun
    assert growing.state.open_round is None
    assert growing.ask().number == 2
    assert spent(session).main == steps("1")
