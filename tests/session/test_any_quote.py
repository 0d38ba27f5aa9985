"""Quotes for any call: what it would cost and how accurate it would be, without making it."""

import pytest

from chary import Algorithm, Budget, InvalidQuery, count
from chary.mechanisms import Majority
from tests.session.kit import spent
from tests.session.registry import CLINICS

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
KEYED = count().by("clinic", CLINICS)
ASKED = {
    "release": lambda s: s.release(count(), epsilon="0.1"),
    "test": lambda s: s.test(count(), above=50, epsilon="0.02"),
    "watch": lambda s: s.watch(KEYED, above=50, epsilon="0.02"),
    "call": lambda s: s.call(Algorithm("one", lambda rows, source: 1, epsilon="0.02"), prior=1),
    "top": lambda s: s.top(KEYED, k=2, epsilon="0.02"),
    "between": lambda s: s.between(count(), low=10, high=20, epsilon="0.02"),
    "choose": lambda s: s.choose(KEYED, epsilon="0.1"),
    "majority": lambda s: s.majority("age >= 44", epsilon="0.1"),
    "mode": lambda s: s.mode(KEYED, epsilon="0.1"),
    "quantiles": lambda s: s.quantiles("age", [0.25, 0.5], bounds=(0, 120), epsilon="0.1", rows_per_unit=1),
    "histogram": lambda s: s.histogram("age", bins=[0, 40, 120], epsilon="0.1", keep_per_unit=1),
    "sparse_vector": lambda s: s.sparse_vector(above=50, hits=2, epsilon="0.1"),
    "individual": lambda s: s.individual(epsilon="0.02", hits=2),
    "cover": lambda s: s.cover(["age > 30", "age > 60"], above=1, epsilon="0.02"),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_the_quoted_price_is_charged_at_most_and_a_quote_itself_costs_nothing(opened, ask):
    steps = []
    session = opened(on_step=steps.append, **ROOM)
    quoted = ask(session.quotes)
    assert (steps, len(session.history), session.spent.share) == ([], 0, 0)
    assert quoted.fits
    ask(session)
    first = session.spine.ledger.call(session.history[0].call)
    assert first.price.main <= quoted.most_charged * session.spine.filter.capacity.main * (1 + 1e-12)
    assert first.kind == quoted.kind


def test_accuracy_is_told_where_something_is_chosen(opened):
    quotes = opened(**ROOM).quotes
    assert quotes.majority("age >= 44", epsilon="0.1").shortfall > 0
    assert quotes.majority("age >= 44", epsilon="0.1", rule="inverse").shortfall > 20
    assert quotes.mode(KEYED, epsilon="0.1").shortfall > quotes.mode(KEYED, epsilon="0.2").shortfall > 0
    found = ASKED["quantiles"](quotes)
    assert found.rank_error > 0
    assert f"off by at most {found.rank_error} values" in str(found)


def test_the_shortfall_of_a_majority_is_where_it_errs_as_often_as_said(opened):
    for relation, rule in (("add/remove", "noise"), ("replace", "noise"), ("replace", "exponential")):
        session = opened(relation=relation, **ROOM)
        lead = int(session.quotes.majority("age >= 44", epsilon="0.1", rule=rule).shortfall)
        moved = 2 if relation == "replace" else 1
        vote = Majority("0.1", moved, rule)
        assert 1 - vote.chance(lead + 1) <= 0.05 < 1 - vote.chance(lead)


def test_what_cannot_be_right_is_refused_as_it_would_be(opened):
    quotes = opened(**ROOM).quotes
    with pytest.raises(InvalidQuery):
        quotes.choose(count(), epsilon="0.1")
    with pytest.raises(InvalidQuery):
        quotes.test(count("unknown > 3"), above=1, epsilon="0.1")
    with pytest.raises(AttributeError, match="no call"):
        quotes.everything()
    with pytest.raises(AttributeError, match="asks nothing"):
        quotes.statement()


def test_a_quote_does_not_need_room(opened):
    session = opened(**ROOM)
    session.release(count(), epsilon="0.3")
    before = spent(session)
    assert not session.quotes.release(count(), epsilon=5).fits
    assert spent(session) == before


@pytest.mark.parametrize("name", ["append", "close", "set_share"])
def test_what_is_no_question_is_not_done(opened, name):
    session = opened(**ROOM)
    before = list(session.spine.ledger.export("data"))
    with pytest.raises(AttributeError, match="no call"):
        getattr(session.quotes, name)()
    assert list(session.spine.ledger.export("data")) == before
