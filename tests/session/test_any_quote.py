"""Quotes for any call: what it would cost and how accurate it would be, without making it."""

import pytest

from chary import Budget, InvalidQuery, count
from chary.calls import (
    Choose,
    Majority,
    Quantile,
    Release,
    ThresholdTest,
)
from chary.mechanisms import MajorityVote
from tests.session.kit import CLINICS, spent

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
KEYED = count().by("clinic", CLINICS)


def test_accuracy_is_told_where_something_is_chosen(opened):
    quote = opened(**ROOM).quote
    assert quote(Majority("age >= 44", epsilon="0.1")).shortfall > 0
    assert quote(Majority("age >= 44", epsilon="0.1", mechanism="inverse")).shortfall > 20
    more, less = (quote(Choose(KEYED, epsilon=epsilon, mechanism="inverse")) for epsilon in ("0.1", "0.2"))
    assert more.shortfall > less.shortfall > 0
    found = quote(Quantile("age", [0.25, 0.5], bounds=(0, 120), epsilon="0.1", max_rows_per_unit=1))
    assert found.rank_error > 0
    assert f"off by at most {found.rank_error} values" in str(found)


def test_the_shortfall_of_a_majority_is_where_it_errs_as_often_as_said(opened):
    for neighbors, rule in (("add_remove", "noise"), ("replace", "noise"), ("replace", "exponential")):
        session = opened(neighbors=neighbors, **ROOM)
        lead = int(session.quote(Majority("age >= 44", epsilon="0.1", mechanism=rule)).shortfall)
        moved = 2 if neighbors == "replace" else 1
        vote = MajorityVote("0.1", moved, rule)
        assert 1 - vote.chance(lead + 1) <= 0.05 < 1 - vote.chance(lead)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Choose(count(), epsilon="0.1"),
        lambda: ThresholdTest(count("unknown > 3"), above=1, epsilon="0.1"),
        count,
        lambda: "test",
        lambda: ThresholdTest,
        lambda: None,
    ],
)
def test_what_cannot_be_right_is_refused_as_it_would_be(opened, ask):
    session = opened(**ROOM)
    before = list(session.spine.ledger.export("data"))
    for how in (session.quote, session.ask, session.start):
        with pytest.raises(InvalidQuery):
            how(ask())
    assert list(session.spine.ledger.export("data")) == before


def test_a_quote_does_not_need_room(opened):
    session = opened(**ROOM)
    session.release(count(), epsilon="0.3")
    before = spent(session)
    assert not session.quote(Release(count(), epsilon=5)).fits
    assert spent(session) == before
