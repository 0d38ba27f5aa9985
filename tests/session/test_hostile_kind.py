"""A kind that wants to break the budget: what stops it (docs/explanation/architecture.md)."""

import json
from dataclasses import dataclass, replace

import pytest

from chary import Budget, BudgetExceeded, count
from chary.accounting import Pure
from chary.amounts import Amount
from chary.calls import Call
from chary.core.plan import PerHit, Plan, Result, reading
from chary.errors import CharyError, InvalidQuery, LedgerError
from chary.filters import Price
from chary.ledger import Parts, State
from chary.session.session import Session
from tests.session.kit import spent

EPSILON = Pure("0.25")
FULL = Budget(epsilon=1)


class Hostile(Call):
    """A call of no declared kind, whose plan is whatever its author likes."""

    kind = "hostile"

    def __init__(self, run, **plan):
        self._run, self._plan = run, plan

    def plan(self, spine):
        given = {"reads": reading(count())} | self._plan
        return Plan("hostile", "{}", EPSILON, self._run, lambda answer, number: answer, **given)


@dataclass(frozen=True)
class Settled(PerHit):
    """A cost that is settled at what its author likes."""

    main: int = 0

    def final(self, price, result, reserved):
        return Amount(self.main)


def told(data):
    """The exact answer, which is all that it was given."""
    return Result({"exact": data.integer()}, hits=1, tests=1)


def worst(session):
    return session.spine.filter.price(EPSILON).hit.main


def test_it_publishes_what_it_was_given_and_is_charged_for_its_event(opened):
    session = opened(budget=FULL)
    assert session.ask(Hostile(told)) == {"exact": 51}
    assert spent(session).main == worst(session)


def test_it_runs_after_its_worst_price_is_stored(opened):
    session, seen = opened(budget=FULL), []

    def look(data):
        (call,) = session.spine.ledger.calls(session.spine.dataset)
        seen.append((call.state, call.charged.main))
        return told(data)

    session.ask(Hostile(look))
    assert seen == [(State.RESERVED, worst(session))]


def test_it_does_not_run_where_its_price_does_not_fit(opened):
    session, ran = opened(budget=Budget(epsilon="0.2")), []
    with pytest.raises(BudgetExceeded):
        session.ask(Hostile(ran.append))
    assert (ran, session.history) == ([], [])


def test_it_is_given_the_answers_it_declared_and_nothing_else(opened):
    session, given = opened(budget=FULL), []

    def look(data):
        given.append((list(map(int, data.values)), data.secret))
        return told(data)

    session.ask(Hostile(look))
    assert given == [([51], None)]


@pytest.mark.parametrize("hits", [10**6, -(10**6), 2])
def test_hits_that_it_makes_up_are_charged_no_more_and_nothing_negative(opened, hits):
    session = opened(budget=FULL)
    made_up = Hostile(lambda data: replace(told(data), hits=hits))
    if hits < 0:
        with pytest.raises((LedgerError, CharyError, ValueError)):
            session.ask(made_up)
    else:
        session.ask(made_up)
    assert spent(session).main == worst(session)


@pytest.mark.parametrize("main", [-1, 10**17])
def test_it_is_settled_at_no_negative_price_and_at_none_above_what_was_reserved(opened, main):
    session = opened(budget=FULL)
    with pytest.raises((LedgerError, CharyError, ValueError)):
        session.ask(Hostile(told, cost=Settled(main=main)))
    assert spent(session).main == worst(session)
    assert session.spine.ledger.verify().ok


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_it_cannot_take_its_price_back_after_it_has_seen_an_answer(opened, error):
    session = opened(budget=FULL)

    def fail(data):
        raise error

    with pytest.raises(error):
        session.ask(Hostile(fail))
    assert spent(session).main == worst(session)
    assert [str(call.state) for call in session.history] == ["reserved"]


@pytest.mark.parametrize("answer", [{"x": object()}, {"x": {1, 2}}])
def test_what_the_ledger_cannot_hold_is_not_published(opened, answer):
    session = opened(budget=FULL)
    with pytest.raises(TypeError):
        session.ask(Hostile(lambda data: Result(answer, 0, 0)))
    assert spent(session).main == worst(session)
    assert [call.answer for call in session.history] == [None]


def test_an_answer_that_is_handed_out_is_stored(opened):
    session = opened(budget=FULL)
    session.ask(Hostile(told))
    (call,) = session.spine.ledger.calls(session.spine.dataset)
    assert (call.state, json.loads(call.answer)) == (State.SETTLED, {"exact": 51})


def test_it_is_not_asked_twice_for_one_price(opened):
    session, ran = opened(budget=FULL), []

    def count_runs(data):
        ran.append(1)
        return told(data)

    answers = [session.ask(Hostile(count_runs), request="one") for _ in range(3)]
    assert (answers, len(ran), spent(session).main) == ([{"exact": 51}] * 3, 1, worst(session))


@pytest.mark.parametrize("other", [0, 99, None])
def test_it_changes_no_secret_of_a_call_that_is_not_settled_or_not_there(opened, other):
    """None stands for its own number, whose secret it keeps in another way."""
    session = opened(budget=FULL)
    number = 1 if other is None else other

    def change(data):
        return replace(told(data), secrets={number: b"mine"})

    with pytest.raises(LedgerError):
        session.ask(Hostile(change))
    assert spent(session).main == worst(session)


def test_it_goes_on_with_no_state_that_other_parts_have_paid_for(opened):
    """Kept in one part and asked about all rows, it would be free to units that paid nothing."""
    whole = opened(budget=FULL)
    north = Session(replace(whole.spine, parts=Parts("clinic", 1, ("north",))))
    north.ask(Hostile(lambda data: replace(told(data), secret=b"kept")))
    going_on = Hostile(told, state=whole.history[0].call, cost=PerHit(adds_up=False))
    with pytest.raises(InvalidQuery, match="ask it where that call was made"):
        whole.ask(going_on)
    assert spent(whole).main == worst(whole)
    north.ask(going_on)


def test_a_price_below_nothing_is_no_price():
    """What a cost can say at best is that it is free: an amount is never negative."""
    with pytest.raises((CharyError, ValueError)):
        Price(Amount(-1), Amount(0))


@pytest.mark.parametrize(
    "plan", [{"state": 1}, {"cost": PerHit(extends=True)}, {"cost": PerHit(agreed=Price(Amount(1), Amount(0)))}]
)
def test_what_goes_on_from_an_earlier_call_says_whether_it_adds_up(opened, plan):
    """Left unsaid, all that it tells would count as its epsilon in the account that adds epsilons."""
    with pytest.raises(TypeError, match="adds up"):
        opened(budget=FULL).ask(Hostile(told, **plan))
