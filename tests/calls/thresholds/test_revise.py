"""Held outcomes: the same stored value later, and nowhere else before."""

import json

import pytest

import chary
from chary import BudgetExceeded, InvalidParameter, NotWithheld, count, mean
from chary.accounting import Targeted
from chary.amounts import Amount
from chary.calls import ThresholdTest, Widen
from chary.ledger import open_ledger
from chary.mechanisms import Held
from chary.noise import Seeded
from chary.session import plain_composition
from tests.session.kit import NO_NOISE, PLENTY, USUAL, spent, visits

NEVER, SURE = 10**12, -(10**12)
COSTS = chary.sum("cost", bounds=(0, 10**8), max_rows_per_unit=1)
# A grain at whose order the calls of 0.01 and 0.02 below have a price per hit.
ROOMY = {"budget": USUAL, "grain": "0.02"}


def held_value(session, call):
    return Held.load(session.spine.ledger.secret(call)).value


def test_a_lower_bar_publishes_the_stored_value(opened, place):
    session = opened(ledger=place, **ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01")
    secret = held_value(session, held.call)
    published = held.widen(above=SURE)
    assert published.published
    assert published.value == secret
    assert published.held == held.held == held.call < published.call
    assert published.charged.amount == session.spine.filter.price(Targeted("0.01")).hit
    assert published.error_bar is held.error_bar is None


def test_a_stored_value_survives_reopening_new_rows_and_other_noise(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    first = opened(ledger=path, unsafe_noise=Seeded(1), **ROOMY)
    held = first.release_if(COSTS, above=NEVER, epsilon="0.01")
    secret = held_value(first, held.call)
    first.close()
    second = opened(rows=visits().head(2), ledger=path, budget=None, unsafe_noise=Seeded(2))
    assert not second.ask(Widen(held.call, above=NEVER - 1)).published
    second.close()
    third = opened(ledger=path, budget=None)
    assert third.ask(Widen(held.call, above=SURE)).value == secret
    assert third.spine.ledger.secret(held.call) is None


def test_the_bar_is_where_it_publishes(opened):
    session = opened(budget=NO_NOISE)
    held = session.release_if(count(), above=60, epsilon=PLENTY)
    assert not held.widen(above=52).published
    assert held.widen(above=51).value == 51


def test_a_held_mean_is_published_unchanged(opened):
    session = opened(**ROOMY)
    middle = mean("cost", bounds=(0, 100), max_rows_per_unit=2)
    held = session.release_if(middle, above=200, epsilon="0.01")
    secret = held_value(session, held.call)
    assert held.widen(above=-1).value == secret


def test_no_data_are_read_by_a_revision(opened):
    session = opened(**ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01")
    session.spine.rows.close()
    assert held.widen(above=SURE).published


@pytest.mark.parametrize("bar", [NEVER, NEVER + 1, 10**20, "1e13"])
def test_a_higher_or_equal_bar_is_refused_before_any_charge(opened, place, bar):
    session = opened(ledger=place, **ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01")
    with pytest.raises(InvalidParameter) as refusal:
        held.widen(above=bar)
    assert str(held_value(session, held.call)) not in str(refusal.value)
    assert len(session.history) == 1
    assert spent(session) == Amount(0)


def test_the_bar_must_go_down_with_every_revision(opened):
    session = opened(**ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01").widen(above=NEVER - 10)
    assert not held.published
    with pytest.raises(InvalidParameter):
        held.widen(above=NEVER - 10)
    assert not held.widen(above=NEVER - 11).published


def test_what_was_published_cannot_be_revised(opened, place):
    session = opened(ledger=place, **ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01")
    published = held.widen(above=SURE)
    before = spent(session)
    for ask in (
        lambda: held.widen(above=SURE - 1),
        lambda: published.widen(above=SURE - 1),
        lambda: session.release_if(COSTS, above=SURE, epsilon="0.01").widen(above=SURE - 1),
    ):
        with pytest.raises(NotWithheld):
            ask()
    assert spent(session) - before == session.spine.filter.price(Targeted("0.01")).hit


def test_only_conditional_releases_can_be_revised(opened):
    session = opened(**ROOMY)
    session.test(count(), above=NEVER, epsilon="0.01")
    session.release(count(), epsilon="0.01")
    session.release_if(count().by("clinic", ["north"]), above=NEVER, epsilon="0.01")
    held = session.release_if(count(), above=NEVER, epsilon="0.01")
    held.widen(above=NEVER - 1)
    before = spent(session)
    for entry in session.history:
        if entry.kind != "release_if":
            with pytest.raises(NotWithheld):
                session.ask(Widen(entry.call, above=SURE))
    assert spent(session) == before


@pytest.mark.parametrize("call", [99, 10**30])
def test_an_unknown_call_cannot_be_revised(opened, place, call):
    session = opened(ledger=place)
    with pytest.raises(NotWithheld):
        session.ask(Widen(call, above=1))


@pytest.mark.parametrize("call", ["1", None, 1.0, True, 0, -1])
def test_a_call_is_named_by_its_number(opened, call):
    session = opened(**ROOMY)
    session.release_if(COSTS, above=NEVER, epsilon="0.01")
    with pytest.raises(chary.InvalidInput):
        session.ask(Widen(call, above=1))


def test_a_call_of_another_dataset_cannot_be_revised(opened, tmp_path):
    ledger = open_ledger(tmp_path / "both.ledger")
    one, other = (opened(ledger=ledger, dataset=name, **ROOMY) for name in ("visits", "trips"))
    held = one.release_if(COSTS, above=NEVER, epsilon="0.01")
    with pytest.raises(NotWithheld):
        other.ask(Widen(held.call, above=SURE))
    assert spent(one) == spent(other) == Amount(0)
    assert held.widen(above=SURE).published


def test_a_revision_that_does_not_fit_is_refused_and_keeps_the_outcome(opened):
    session = opened(**ROOMY)
    held = session.release_if(count(), above=NEVER, epsilon="0.02")
    while session.quote(ThresholdTest(count(), above=SURE, epsilon="0.02")).fits:
        session.test(count(), above=SURE, epsilon="0.02")
    spent = session.spent
    with pytest.raises(BudgetExceeded):
        held.widen(above=SURE)
    assert held_value(session, held.call) is not None
    assert session.spent == spent


def test_an_outcome_without_a_session_cannot_be_revised():
    with pytest.raises(NotWithheld):
        chary.calls.Conditional(1, None, None, 1).widen(above=0)


def everything_shown(session, held):
    """All that anyone but the ledger's keeper can see."""
    spine = session.spine
    shown = [session, held, spine, spine.rows, spine.ledger, spine.filter, spine.source, session.history]
    shown += [session.spent, session.remaining, plain_composition(session)]
    shown += [session.quote(ThresholdTest(COSTS, above=1, epsilon="0.01"))]
    shown += [spine.ledger.call(held.held), list(spine.ledger.calls("data")), spine.ledger.tally("data")]
    texts = [f"{thing} {thing!r}" for thing in shown]
    texts += [session.statement(), json.dumps(list(spine.ledger.export("data"))), str(spine.ledger.verify())]
    texts += [str(vars(thing)) for thing in (held, session)]
    return "\n".join(texts)


def test_a_held_value_is_shown_nowhere(opened, place):
    session = opened(ledger=place, unsafe_noise=Seeded(3), **ROOMY)
    held = session.release_if(COSTS, above=NEVER, epsilon="0.01")
    held = held.widen(above=NEVER - 1)
    secret = str(held_value(session, held.held))
    assert len(secret) > 7
    assert secret not in everything_shown(session, held)
    published = held.widen(above=SURE)
    assert str(published.value) == secret
    assert secret in everything_shown(session, published)


def test_the_raw_outcomes_of_a_run_are_masked():
    touched = chary.core.plan.Data([987654321], None, b"987654321", 3, None)
    ran = chary.core.plan.Result({"value": 987654321}, 1, 1, b"987654321", {1: b"987654321"})
    for thing in (touched, ran):
        assert "987654321" not in f"{thing} {thing!r}"
